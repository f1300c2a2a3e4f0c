"""The client against the real platform: the shapes fit, a job runs, the notebook works."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import berth
from tests.builders.live import wait_until

pytestmark = pytest.mark.engines
NOTEBOOK = Path(__file__).resolve().parents[2] / "docs/notebooks/first-job.ipynb"


@pytest.fixture
def live_client(live_platform: Any) -> Any:
    with berth.Client(live_platform.url, live_platform.token) as client:
        yield client


@pytest.fixture
def live_run(live_platform: Any, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the `berth` program in a process of its own."""
    source = str(Path(berth.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source, "BERTH_SERVER": live_platform.url, "BERTH_TOKEN": live_platform.token}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "berth", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=tmp_path, timeout=100)

    return run


def test_a_job_runs_from_submission_to_artifact(live_client: Any, tmp_path: Path) -> None:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "run.sh").write_text("for i in 1 2 3; do echo line $i; done; echo done > result.txt\n")
    (folder / "job.yaml").write_text("name: whole-line\ncommand: sh run.sh\ncode: {path: .}\noutputs: [result.txt]\n")

    job = live_client.jobs.submit(folder / "job.yaml")
    lines = [line.text for line in job.logs(follow=True)]
    job.wait(timeout=60)

    assert (job.state, lines) == ("succeeded", ["line 1", "line 2", "line 3"])
    [place] = job.download("result.txt", tmp_path / "home.txt")
    assert place.read_text() == "done\n"
    assert [event["to_state"] for event in live_client.jobs.events(job.id)][-1] == "succeeded"


def test_the_same_spec_through_file_and_sdk_is_stored_byte_equal(live_client: Any, live_run: Any, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("name: equal\ncommand: 'true'\nretry: {limit: 1, on: [platform]}\nenv: {A: yes}\n")
    by_sdk = live_client.jobs.submit(tmp_path / "job.yaml")
    by_program = live_client.jobs.get(live_run("submit", "-f", "job.yaml", "-o", "name").stdout.strip())

    assert by_sdk.data["spec_digest"] == by_program.data["spec_digest"]


def test_a_failed_job_ends_the_program_with_1_and_a_reason(live_run: Any) -> None:
    done = live_run("submit", "--follow", "--name", "fails", "echo sorry; exit 3")

    assert (done.returncode, done.stdout) == (1, "sorry\n")
    assert "failed" in done.stderr


def test_a_checkpoint_is_shown_and_fetched(live_platform: Any, live_run: Any, tmp_path: Path) -> None:
    save = "mkdir step-1.tmp && echo saved >step-1.tmp/weights && mv step-1.tmp step-1"
    script = f'cd "$BERTH_CHECKPOINT_DIR" && {save}'
    spec = {"name": "keeps", "command": script, "checkpoint": {"path": "ckpt"}}
    job = live_platform.submit(spec, wait=True)

    wait_until(lambda: "ready" in live_run("get", job["id"]).stdout, "the measurement after the end")
    shown = " ".join(live_run("get", job["id"]).stdout.split())
    for words in ("Checkpoint Path ckpt", "State ready", "Saved at", "Size 6 B", "Kept until"):
        assert words in shown, shown
    assert "A preemption loses" not in shown, "nothing runs that could be preempted"

    assert "step-1" in live_run("cp", f"{job['id']}:checkpoint/", "--list").stdout
    done = live_run("cp", f"{job['id']}:checkpoint/", "kept")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "kept" / "step-1" / "weights").read_text() == "saved\n"


def test_a_job_without_a_checkpoint_is_not_started_from_one(live_platform: Any, live_run: Any) -> None:
    job = live_platform.submit({"command": "true"}, wait=True)
    refused = live_run("rerun", job["id"], "--from-checkpoint")
    assert refused.returncode != 0
    assert "keeps no checkpoint" in refused.stderr
    assert "checkpoint: {path: ckpt}" in refused.stderr


def test_every_read_of_the_program_fits_the_server(live_run: Any) -> None:
    for words in ("ps -a", "nodes", "gpus", "pools", "clusters", "queues", "quota", "usage", "tokens", "tenants", "members"):
        assert json.loads(live_run(*words.split(), "--json").stdout) is not None, words
    for words in ("prices --all", "budgets", "statement", "statement --list", "breakeven", "usage --by fate"):
        assert json.loads(live_run(*words.split(), "--json").stdout) is not None, words
    for words in (
        "queues edits",
        "queues requests",
        "queues caps",
        "reserve",
        "priority",
        "priority grants",
        "secrets",
        "users",
        "audit",
        "notify",
        "notify log",
        "images",
        "volumes",
        "whoami",
        "version",
    ):
        done = live_run(*words.split(), "-o", "wide")
        assert done.returncode == 0, (words, done.stderr)


@pytest.mark.capability("36", "The notebook of the first job runs")
def test_the_notebook_of_the_first_job_runs(live_platform: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells), "the notebook is committed without outputs"
    for name, value in {
        "BERTH_SERVER": live_platform.url,
        "BERTH_TOKEN": live_platform.token,
        "PYTHONPATH": str(Path(berth.__file__).parents[1]),
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    }.items():
        monkeypatch.setenv(name, value)

    NotebookClient(notebook, timeout=90, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()

    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    printed = "".join(output.get("text", "") for output in outputs if output["output_type"] == "stream")
    pictures = [output for output in outputs if "image/png" in output.get("data", {})]
    assert "first-job: succeeded" in printed
    assert "'pi': 3.1" in printed
    assert len(pictures) == 2


def test_a_held_job_starts_only_when_it_is_released(live_client: Any, live_run: Any) -> None:
    waiting = live_client.jobs.submit({"name": "later", "command": "true", "hold": True}).id
    held = live_run("hold", waiting)
    assert (held.returncode, "Job later is held" in held.stderr) == (0, True), held.stderr
    assert live_client.jobs.get(waiting).state == "queued"
    assert live_run("release", waiting).returncode == 0
    assert live_client.jobs.wait(waiting, timeout=60).succeeded


def test_following_an_array_lasts_until_all_of_it_has_ended(live_client: Any, live_run: Any, tmp_path: Path) -> None:
    (tmp_path / "array.yaml").write_text("name: three\ncommand: 'true'\narray: {size: 3}\n")
    done = live_run("submit", "-y", "--follow", "-f", "array.yaml")
    assert done.returncode == 0, done.stderr
    assert "3 succeeded" in done.stderr or "three: succeeded" in done.stderr
    [array] = [job for job in live_client.jobs.list(limit=50) if job.name == "three"]
    assert array.state == "succeeded"


def test_operators_announce_plan_maintenance_and_switch_features_by_command(live_run: Any) -> None:
    announced = live_run("announcements", "make", "Disks are exchanged on Friday.", "--zh", "周五更换磁盘。", "--json")
    assert announced.returncode == 0, announced.stderr
    made = json.loads(announced.stdout)
    assert "Disks are exchanged" in live_run("announcements").stdout
    assert live_run("announcements", "delete", made["id"], "-y").returncode == 0
    assert "Disks are exchanged" not in live_run("announcements", "-a").stdout
    node = json.loads(live_run("nodes", "--json").stdout)[0]["name"]
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M")
    window = live_run("maintenance", "plan", node, "--from", tomorrow, "--for", "2h", "--reason", "disks", "--json")
    assert window.returncode == 0, window.stderr
    assert "disks" in live_run("maintenance").stdout
    assert live_run("maintenance", "cancel", json.loads(window.stdout)["id"]).returncode == 0
    name = json.loads(live_run("features", "--json").stdout)[0]["name"]
    for words, state in ((("disable", name), False), (("enable", name), True)):
        assert live_run("features", *words).returncode == 0
        assert {row["name"]: row["enabled"] for row in json.loads(live_run("features", "--json").stdout)}[name] is state
    assert live_run("features", "inherit", name).returncode == 0


def test_a_reader_that_goes_away_gets_no_trace(live_platform: Any) -> None:
    source = str(Path(berth.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source, "BERTH_SERVER": live_platform.url, "BERTH_TOKEN": live_platform.token}
    for words in (("ps", "-a"), ("--help",), ("nodes", "--json")):
        read_end, write_end = os.pipe()
        os.close(read_end)  # As `head` that has read enough.
        with os.fdopen(write_end, "wb") as gone:
            done = subprocess.run(
                [sys.executable, "-m", "berth", *words],
                stdout=gone,
                stderr=subprocess.PIPE,
                text=True,
                env=environment,
                timeout=100,
            )
        assert "Traceback" not in done.stderr
        assert "BrokenPipe" not in done.stderr


def test_a_tenant_that_is_mistyped_at_sign_in_is_not_kept(live_platform: Any, live_run: Any, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    environment = {**os.environ, "PYTHONPATH": str(Path(berth.__file__).parents[1]), "BERTH_CONFIG": str(path)}
    environment.pop("BERTH_TOKEN", None)

    def login(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "berth", "login", "--server", live_platform.url, *words]
        return subprocess.run(
            command, input=f"{live_platform.token}\n", capture_output=True, text=True, env=environment, timeout=100, check=False
        )

    mistyped = login("-t", "no-such-tenant")
    assert mistyped.returncode == 4, mistyped.stderr
    assert not path.exists()
    path.write_text(f'current = "default"\n[profiles.default]\nserver = "{live_platform.url}"\ntoken = "x"\ntenant = "gone"\n')
    path.chmod(0o600)
    assert login().returncode == 0
    assert "gone" not in path.read_text()
