"""The client against the real platform: the shapes fit, a job runs, the notebook works."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import berth

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
