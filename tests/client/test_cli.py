"""The command line: what it prints where, and how it ends."""

from __future__ import annotations

import json
import os
import pty
import select
import stat
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from client_stub import CODE, TENANT, TOKEN, a_job, a_log, problem

import berth
from berth.cli.messages import LANGUAGE_VARIABLES
from berth.cli.output import Column, table_text
from berth.cli.root import COMMANDS, load_command

_TABLES = (
    "LEAVING",
    *("HELP", "COSTS", "CAPACITY", "NOTIFY", "OPERATIONS", "ORDER", "EXPLAIN", "PLACEMENT", "SHARES", "TEMPLATES", "COMPARE"),
    *("CONVERT", "EXEC", "CLUSTERS", "REGISTRIES"),
)
READS = (
    *("ps", "nodes", "gpus", "pools", "clusters", "queues", "quota", "usage", "tokens", "tenants", "members", "secrets", "users"),
    *("audit", "notify", "images", "volumes", "whoami", "version", "prices", "budgets"),
)


@pytest.fixture
def hello(stub: Any) -> Any:
    stub.jobs = [a_job("hello", "succeeded")]
    stub.logs = [a_log("line 1\nline 2\n", 0)]
    stub.artifacts = {"model/a.txt": b"abc"}
    return stub


@pytest.mark.parametrize("name", READS)
def test_every_read_has_a_table_json_yaml_and_names(run: Any, hello: Any, name: str) -> None:
    assert run(name).exit_code == 0
    assert json.loads(run(name, "--json").stdout) is not None
    assert yaml.safe_load(run(name, "-o", "yaml").stdout) == json.loads(run(name, "-o", "json").stdout)
    assert run(name, "-o", "wide").exit_code == 0
    assert run(name, "-o", "name").exit_code == 0


def test_names_are_for_pipes(run: Any, hello: Any) -> None:
    assert run("ps", "-a", "-o", "name").stdout == hello.jobs[0]["id"] + "\n"
    assert run("nodes", "-o", "name").stdout == "node-1\n"


def test_nothing_is_cut_where_there_is_no_terminal(run: Any, stub: Any) -> None:
    stub.jobs = [a_job("a" * 200, "failed", exit={"text": "b" * 300})]

    line = run("ps", "-a").stdout.splitlines()[1]
    assert "a" * 200 in line
    assert "b" * 300 in line


def test_ps_shows_live_jobs_or_all(run: Any, stub: Any) -> None:
    stub.jobs = [a_job("old", "succeeded", 1), a_job("new", "running", 2)]

    assert "old" not in run("ps").stdout
    assert "old" in run("ps", "-a").stdout
    run("ps", "-u", "me", "-l", "project=ocr")
    params = stub.sent("GET /jobs")[-1].url.params
    assert (params["mine"], params["label"]) == ("true", "project:ocr")


def test_ps_shows_place_and_expected_start_and_tells_a_common_reason_once(run: Any, stub: Any) -> None:
    soon = (datetime.now(UTC) + timedelta(hours=2, minutes=1)).isoformat()
    why = {"code": "no_room", "text": "There is no room in pool a100.", "hint": "", "detail": {}}
    started = (datetime.now(UTC) - timedelta(hours=5)).isoformat()
    told = {"p50_at": soon, "p90_at": soon, "said_at": started, "reason": "", "was_by": None}
    late = {"p50_at": None, "p90_at": None, "said_at": started, "reason": "overdue", "was_by": started}
    stub.jobs = [
        a_job("first", "queued", 1, place=1, expected_start=told, reason=why),
        a_job("second", "queued", 2, place=2, expected_start=late, reason=why, started_at=started),
    ]

    said = run("ps")
    lines = said.stdout.splitlines()
    assert stub.sent("GET /jobs")[-1].url.params["standing"] == "true"
    assert [word for word in lines[0].split() if word in ("PLACE", "STARTS")] == ["PLACE", "STARTS"]
    (first,), (second,) = ([line for line in lines if name in line] for name in ("first", "second"))
    assert "2h" in first
    assert "overdue" in second
    assert "5h" not in second, "it waits again, and does not run"
    assert "no room" not in said.stdout
    assert said.stderr.count("There is no room in pool a100.") == 1
    assert "All 2 queued jobs" in said.stderr


def test_ps_lists_jobs_of_a_server_of_an_older_release(run: Any, stub: Any) -> None:
    stub.jobs = [a_job("train", "running", 1)]
    unknown = {"path": "/standing", "code": "unknown_parameter", "message": "There is no query parameter 'standing'.", "hint": ""}
    stub.faults.append(("GET /jobs", problem(422, "invalid_input", unknown["message"], fields=[unknown])))
    assert "train" in run("ps").stdout
    assert "standing" not in stub.sent("GET /jobs")[-1].url.params
    other = {**unknown, "path": "/label"}
    stub.faults.append(("GET /jobs", problem(422, "invalid_input", "No such label.", fields=[other])))
    assert "No such label." in run("ps").stderr


def test_ps_says_once_who_holds_the_room_that_jobs_wait_for(run: Any, stub: Any) -> None:
    held_by = [
        {"queue": {"id": "q", "name": "research"}, "cpu_millis": 9000, "memory_bytes": 0, "gpu_millis": 12_000},
        {"queue": None, "cpu_millis": 1000, "memory_bytes": 0, "gpu_millis": 4000},
        {"queue": {"id": "r", "name": "no-gpus"}, "cpu_millis": 1000, "memory_bytes": 0, "gpu_millis": 0},
    ]
    reason = {"code": "no_room", "text": "Pool a100 has too little room.", "hint": "", "detail": {"pool": "a100"}}
    asks = {"cpu_millis": 1000, "memory_bytes": 0, "gpu_millis": 2000}
    stub.jobs = [a_job(f"train-{number}", "queued", 0, reason=reason, resources=asks, held_by=held_by) for number in range(2)]

    said = run("ps").stderr
    assert said.count("Pool a100 is held by research (12 GPU); other tenants (4 GPU).") == 1
    assert "research" not in run("ps", "--json").stderr
    stub.jobs[0]["resources"] = {**asks, "gpu_millis": 0}
    assert "research (12 GPU, 9 cores); other tenants (4 GPU, 1 core); no-gpus (1 core)." in run("ps").stderr


def test_ps_shows_the_gpus_that_an_elastic_job_has(run: Any, stub: Any) -> None:
    most = {"cpu_millis": 0, "memory_bytes": 0, "gpu_millis": 8000}
    stub.jobs = [a_job("elastic", "running", 1, resources=most, held={**most, "gpu_millis": 3000})]

    (line,) = [line for line in run("ps").stdout.splitlines() if "elastic" in line]
    assert " 3 " in line
    assert " 8 " not in line


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("2026-11-20T12:00:00Z", "2026-11-20T12:00:00Z"),
        ("2026-11-20T20:00:00+08:00", "2026-11-20T12:00:00Z"),
        ("2026-11-20 13:00+01:00", "2026-11-20T12:00:00Z"),
    ],
)
def test_ps_asks_for_a_span_of_time_in_utc(run: Any, stub: Any, given: str, sent: str) -> None:
    assert run("ps", "-a", "--since", given, "--until", "2026-11-21T00:00:00Z").exit_code == 0
    params = stub.sent("GET /jobs")[-1].url.params

    assert (params["since"], params["until"]) == (sent, "2026-11-21T00:00:00Z")
    assert "sort" not in params


def test_ps_takes_times_of_this_machine_and_times_ago(run: Any, stub: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    try:
        run("ps", "--sort", "finished", "--since", "2h", "--until", "2026-11-20")
    finally:
        monkeypatch.undo()
        time.tzset()
    params = stub.sent("GET /jobs")[-1].url.params

    assert params["until"] == "2026-11-19T16:00:00Z"
    ago = datetime.now(UTC) - datetime.fromisoformat(params["since"])
    assert timedelta(hours=2) <= ago < timedelta(hours=2, minutes=1)
    assert "state" not in params, "those that ended are asked for, not those that live"


@pytest.mark.parametrize("option", ["--since", "--until"])
def test_ps_refuses_what_is_no_time_before_it_asks(run: Any, stub: Any, option: str) -> None:
    refused = run("ps", option, "last tuesday")

    assert refused.exit_code == 2
    assert "last tuesday" in refused.stderr
    assert not stub.sent("GET /jobs")


def test_options_may_stand_before_or_after_the_command(run: Any, stub: Any) -> None:
    run("-t", "before", "ps")
    run("ps", "-t", "after")
    run("tokens", "list", "--json")

    assert [request.url.params["tenant"] for request in stub.sent("GET /jobs")] == ["before", "after"]


# --- Submitting -------------------------------------------------------------------------------------------------------


def test_a_command_becomes_a_job(run: Any, stub: Any) -> None:
    done = run("submit", "-g", "1", "-m", "4Gi", "-e", "A=b=c", "--name", "x", "python", "-c", "print(1 + 1)", "--json")

    assert done.exit_code == 0
    [spec] = stub.specs.values()
    assert spec == {
        "name": "x",
        "command": "python -c 'print(1 + 1)' --json",
        "resources": {"gpu": 1, "memory": "4Gi"},
        "env": {"A": "b=c"},
    }
    assert done.stdout == stub.jobs[0]["id"] + "\n"
    assert "Total" in done.stderr


def test_a_command_that_names_a_file_takes_its_folder_along(run: Any, stub: Any) -> None:
    Path("train.py").write_text("print(1)")

    run("submit", "python", "train.py")

    [spec] = stub.specs.values()
    [upload] = stub.uploads.values()
    assert (spec["name"], spec["code"]) == ("train", {"snapshot": upload.sha256})


def test_a_file_is_submitted_with_what_options_lay_over_it(run: Any, stub: Any) -> None:
    Path("job.yaml").write_text("name: a\nroles: {worker: {command: x, resources: {cpu: 2}}}\n")

    run("apply", "-f", "job.yaml", "-r", "4", "-g", "0.5", "--set", "roles.worker.resources.cpu=8", "--set", "labels.project=ocr")

    [spec] = stub.specs.values()
    assert spec == {
        "name": "a",
        "roles": {"worker": {"command": "x", "resources": {"cpu": 8, "gpu": 0.5}, "replicas": 4}},
        "labels": {"project": "ocr"},
    }


def test_a_spec_may_come_from_standard_input(run: Any, stub: Any) -> None:
    assert run("submit", "-f", "-", input="name: piped\ncommand: x\n").exit_code == 0
    assert stub.jobs[0]["name"] == "piped"


def test_a_dry_run_shows_the_plan_and_does_nothing(run: Any, stub: Any) -> None:
    done = run("submit", "--dry-run", "echo", "hello")

    assert done.exit_code == 0
    assert "echo hello" in done.stdout
    assert (stub.jobs, stub.uploads) == ([], {})
    assert json.loads(run("submit", "--dry-run", "--json", "echo", "hello").stdout)["total"]["gpu_millis"] == 1000


def test_a_plan_says_how_long_a_job_without_a_longest_time_is_planned_to_run(run: Any) -> None:
    assert "Planned to run  2h\n" in run("submit", "--dry-run", "echo", "hello").stdout
    limited = run("submit", "--dry-run", "--max-runtime", "600", "echo", "hello").stdout
    assert "Runs at most" in limited
    assert "Planned to run" not in limited


def test_all_mistakes_of_a_file_are_shown_with_their_lines(run: Any) -> None:
    Path("job.yaml").write_text("name: a\nimagee: x\n\ncomand: y\n")

    done = run("submit", "-f", "job.yaml")

    assert done.exit_code == 2
    assert "job.yaml:2" in done.stderr
    assert "job.yaml:4" in done.stderr
    assert "Did you mean command?" in done.stderr


def test_following_ends_as_the_job_does(run: Any, stub: Any) -> None:
    stub.logs = [a_log("working\n", 0)]
    stub.states_to_come = ["queued", "running", "succeeded"]
    done = run("submit", "--follow", "echo", "hello")
    assert (done.exit_code, done.stdout) == (0, "working\n")

    stub.states_to_come = ["running", "failed"]
    assert run("submit", "--follow", "echo", "hello").exit_code == 1


def test_following_begins_with_the_first_attempt_though_it_failed_fast(run: Any, stub: Any) -> None:
    stub.logs = [a_log("why it failed\n", 0, attempt=1), a_log("again\n", 0, attempt=2)]
    stub.attempts = 2
    stub.states_to_come = ["queued", "running", "failed"]

    printed = run("submit", "--follow", "true").stdout
    assert printed.index("why it failed") < printed.index("attempt 2") < printed.index("again")


def test_following_a_job_that_never_began_reads_no_log(run: Any, stub: Any) -> None:
    stub.attempts = 0
    stub.states_to_come = ["queued", "stopped"]

    assert run("submit", "--follow", "true").exit_code == 1
    assert not stub.sent("GET /jobs/[^/]+/logs")


def test_one_key_makes_one_job(run: Any, stub: Any) -> None:
    for _ in range(2):
        run("submit", "--idempotency-key", "k", "echo", "hello")
    assert len(stub.jobs) == 1


# --- Exit codes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("ps", "--bogus"), 2),
        (("submti",), 2),
        (("submit",), 2),
        (("submit", "-f", "missing.yaml"), 2),
        (("get", "nothing"), 4),
        (("stop", "nothing"), 4),
        (("submit", "--name", "huge", "true"), 5),
        (("wait", "slow", "--timeout", "0s"), 124),
        (("cp", "a", "b"), 2),
        (("logs", "slow", "--since", "yesterday"), 2),
    ],
)
def test_failures_end_with_their_own_code(run: Any, stub: Any, words: tuple[str, ...], code: int) -> None:
    stub.jobs = [a_job("slow", "running")]
    done = run(*words)

    assert done.exit_code == code, done.stderr
    assert "Error:" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("status", "kind"), [(401, "not_authenticated"), (403, "forbidden")])
def test_what_is_not_allowed_ends_with_3(run: Any, stub: Any, status: int, kind: str) -> None:
    stub.fail("GET /nodes", problem(status, kind, "No.", hint="Ask."))
    done = run("nodes")

    assert done.exit_code == 3
    assert "Hint: Ask." in done.stderr


def test_errors_for_programs_are_json(run: Any) -> None:
    done = run("get", "nothing", "--json")

    assert json.loads(done.stderr)["code"] == "not_found"
    assert done.stdout == ""


def test_a_fault_of_the_server_names_the_request(run: Any, stub: Any) -> None:
    stub.fail("GET /nodes", problem(500, "error", "It broke.", request_id="r-77"))

    assert "r-77" in run("nodes").stderr


def test_waiting_for_several_jobs_fails_when_one_did(run: Any, stub: Any) -> None:
    stub.jobs = [a_job("good", "succeeded", 1), a_job("bad", "failed", 2)]

    assert run("wait", "good").exit_code == 0
    assert run("wait", "good", "bad").exit_code == 1


# --- Looking ----------------------------------------------------------------------------------------------------------


def test_logs_of_one_task_are_plain_and_of_several_say_whose(run: Any, hello: Any) -> None:
    assert run("logs", "hello").stdout == "line 1\nline 2\n"
    hello.specs[hello.jobs[0]["id"]] = {"roles": {"worker": {"replicas": 2}}}
    assert run("logs", "hello").stdout == "worker-0 │ line 1\nworker-0 │ line 2\n"


def test_logs_are_sanitised_for_people_and_escaped_for_programs(run: Any, hello: Any) -> None:
    hello.logs = [a_log("a\x1b]0;evil\x07b\x1b[31mred\n", 0)]

    assert run("logs", "hello").stdout == "abred\n"
    assert run("logs", "hello", env={"FORCE_COLOR": "1"}, color=True).stdout == "ab\x1b[31mred\x1b[0m\n"
    document = run("logs", "hello", "--json").stdout
    assert "\x1b" not in document
    assert json.loads(document)["text"] == "a\x1b]0;evil\x07b\x1b[31mred"


def test_names_of_other_people_cannot_command_the_terminal(run: Any, stub: Any) -> None:
    stub.jobs = [a_job("x\x1b[2J\u202ey", "queued", reason={"code": "q", "text": "t\x1b]0;evil\x07"})]

    for words in (("ps",), ("get", stub.jobs[0]["id"]), ("ps", "--json"), ("ps", "-o", "yaml")):
        output = run(*words).stdout
        assert "\x1b" not in output
        assert "\u202e" not in output


def test_a_gap_in_the_log_is_shown(run: Any, hello: Any) -> None:
    hello.logs.append(a_log("", 14, marker="the log quota is used up"))

    assert "── the log quota is used up ──" in run("logs", "hello").stdout


def test_get_shows_the_spec_to_change_and_submit_again(run: Any, hello: Any) -> None:
    hello.specs[hello.jobs[0]["id"]] = {"name": "hello", "roles": {"worker": {"command": "x"}}}

    assert yaml.safe_load(run("get", "hello", "--spec").stdout) == {"name": "hello", "roles": {"worker": {"command": "x"}}}


def test_a_rerun_shows_what_is_different(run: Any, hello: Any) -> None:
    done = run("rerun", "hello", "--set", "env.SEED=8")

    assert done.exit_code == 0
    assert 'env.SEED\n  - "7"\n  + "8"' in done.stderr


@pytest.mark.parametrize("words", [("rerun", "hello"), ("clone", "hello")])
def test_yes_is_accepted_by_what_submits_again(run: Any, hello: Any, words: tuple[str, ...]) -> None:
    assert [run(*words, "-y").exit_code, run(*words, "--yes").exit_code] == [0, 0]


def test_a_clone_names_its_secrets_again(run: Any, hello: Any) -> None:
    run("clone", "hello", "--name", "mine", "--secret", "HF_TOKEN", "--secret", "A=B")

    [request] = hello.sent(r"POST /jobs/[^/]+/clone")
    assert json.loads(request.content) == {"changes": {"name": "mine", "secrets": {"HF_TOKEN": None, "A": "B"}}}


def test_quota_shows_what_is_used_of_what(run: Any) -> None:
    rows = json.loads(run("quota", "--json").stdout)

    assert {"queue": "vision", "pool": "a100", "resource": "gpu_millis", "used": 7000, "ceiling": 8000, "headroom": 1000} in rows


# --- Copying ----------------------------------------------------------------------------------------------------------


def test_artifacts_come_home_and_folders_go_to_volumes_and_back(run: Any, hello: Any) -> None:
    Path("data/sub").mkdir(parents=True)
    Path("data/sub/x").write_text("1")
    Path("data/y").write_text("2")
    hello.volumes["digits"] = {}

    assert run("cp", "hello:model", ".").exit_code == 0
    assert Path("model/a.txt").read_text() == "abc"
    assert run("cp", "data", "digits:raw").exit_code == 0
    assert hello.volumes["digits"] == {"raw/sub/x": b"1", "raw/y": b"2"}
    assert run("cp", "digits:raw", "back").exit_code == 0
    assert (Path("back/sub/x").read_text(), Path("back/y").read_text()) == ("1", "2")
    assert run("cp", "digits:raw/y", "one").exit_code == 0
    assert Path("one").read_text() == "2"
    assert "model/a.txt" in run("cp", "hello:", "--list").stdout


# --- This computer ----------------------------------------------------------------------------------------------------


def test_login_keeps_the_token_for_its_owner_alone(run: Any, own_home: Path) -> None:
    unset: dict[str, str | None] = {"BERTH_SERVER": None, "BERTH_TOKEN": None}
    done = run("login", "--server", "http://127.0.0.1:8400", "--tenant", "vision", input=f"{TOKEN}\n", env=unset)

    path = own_home / "config/berth/config.toml"
    assert done.exit_code == 0, done.stderr
    assert TOKEN not in done.output
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(run("whoami", "--json", env=unset).stdout)["user"]["name"] == "alice"
    assert run("logout", env=unset).exit_code == 0
    assert TOKEN not in path.read_text()


@pytest.fixture
def at_a_terminal(monkeypatch: pytest.MonkeyPatch, stub: Any) -> Any:
    """A person at the keyboard, whose browser approves on the third look; waits are counted, not slept."""
    from berth.cli import account

    waits: list[float] = []
    monkeypatch.setattr(account, "is_terminal", lambda stream: True)
    monkeypatch.setattr(account.time, "sleep", waits.append)
    code = {"device_code": "d" * 43, "user_code": "BCDF-GHJK", "expires_in": 600, "interval": 5}
    code["verification_url"] = "http://berth.test/device"
    code["verification_url_complete"] = "http://berth.test/device?code=BCDF-GHJK"
    stub.fail("POST /device-codes", httpx2.Response(201, json=code))
    return waits


def pending(code: str = "authorization_pending", **headers: str) -> httpx2.Response:
    return httpx2.Response(400, json={"code": code, "detail": "Wait.", "status": 400}, headers=headers)


def test_login_waits_for_a_browser_to_approve(run: Any, stub: Any, at_a_terminal: list[float], own_home: Path) -> None:
    unset: dict[str, str | None] = {"BERTH_SERVER": None, "BERTH_TOKEN": None}
    answers = (pending(), pending("slow_down", **{"Retry-After": "10"}), httpx2.Response(201, json={"token": TOKEN}))
    stub.fail("POST /device-codes:redeem", *answers)
    done = run("login", "--server", "http://127.0.0.1:8400", env=unset)

    assert done.exit_code == 0, done.stderr
    assert "http://berth.test/device?code=BCDF-GHJK" in done.stderr
    assert "BCDF-GHJK:" in done.stderr
    assert at_a_terminal == [5, 5, 10]
    assert TOKEN not in done.output
    assert TOKEN in (own_home / "config/berth/config.toml").read_text()
    assert all("Authorization" not in request.headers for request in stub.sent("POST /device-codes.*"))


def test_a_login_that_is_denied_keeps_nothing(run: Any, stub: Any, at_a_terminal: list[float], own_home: Path) -> None:
    denied = httpx2.Response(403, json={"code": "access_denied", "detail": "This sign-in was denied.", "status": 403})
    stub.fail("POST /device-codes:redeem", denied)
    done = run("login", "--server", "http://127.0.0.1:8400")

    assert done.exit_code != 0
    assert "denied" in done.stderr
    assert not (own_home / "config/berth/config.toml").exists()


def test_waiting_for_a_login_is_given_up_by_the_keyboard(
    run: Any, stub: Any, at_a_terminal: list[float], own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from berth.cli import account

    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(account.time, "sleep", interrupt)
    done = run("login", "--server", "http://127.0.0.1:8400")

    assert done.exit_code == 130
    assert "Nothing was stored." in done.stderr
    assert not (own_home / "config/berth/config.toml").exists()


def test_a_wrong_token_is_not_kept(run: Any, own_home: Path) -> None:
    done = run("login", "--server", "http://127.0.0.1:8400", input="wrong\n")

    assert done.exit_code == 3
    assert not (own_home / "config/berth/config.toml").exists()


def test_plain_http_to_another_machine_is_warned_of(run: Any) -> None:
    assert "not encrypted" in run("login", "--server", "http://berth.example.org", input=f"{TOKEN}\n").stderr


def test_a_new_token_is_printed_once_and_alone_on_standard_output(run: Any) -> None:
    assert run("tokens", "create", "ci", "--expires", "30d").stdout == "bth_new_secret\n"


@pytest.mark.parametrize(
    ("words", "secrets"),
    [
        (("tokens", "create", "ci"), ("bth_new_secret",)),
        (("users", "invite", "bob@example.org"), (CODE, "berth users accept --server")),
        (("notify", "add", "--webhook", "https://hooks.example.org/x"), ("whsec_1",)),
    ],
)
def test_what_is_shown_once_is_neither_lost_nor_mixed_with_the_names_that_were_asked_for(
    run: Any, words: tuple[str, ...], secrets: tuple[str, ...]
) -> None:
    done = run(*words, "-o", "name")

    assert done.stdout == "0198c000-0000-7000-8000-00000000ffff\n"
    assert [secret for secret in secrets if secret not in done.stderr] == []
    assert "is shown once" in done.stderr or "is shown only here" in done.stderr
    document = json.loads(run(*words, "-o", "json").stdout)
    assert secrets[0] in document.values()


def test_a_secret_comes_from_standard_input(run: Any, stub: Any) -> None:
    assert run("secrets", "set", "HF_TOKEN", input="s3cr3t\n").exit_code == 0

    [request] = stub.sent("PUT /tenants/[^/]+/secrets/HF_TOKEN")
    assert json.loads(request.content) == {"value": "s3cr3t"}
    assert TENANT["slug"] in request.url.path


def test_what_asks_first_refuses_without_a_terminal(run: Any) -> None:
    assert run("secrets", "delete", "HF_TOKEN").exit_code == 2
    assert run("secrets", "delete", "HF_TOKEN", "--yes").exit_code == 0


def test_versions_that_differ_are_warned_of(run: Any, stub: Any) -> None:
    assert "differ" not in run("version").stderr
    stub.fail("GET /info", httpx2.Response(200, json={"name": "berth", "version": "9.0.0"}))
    assert "the client is older" in run("version").stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(run: Any, shell: str) -> None:
    assert "_BERTH_COMPLETE" in run("completion", shell).stdout


# --- Language, help, look ---------------------------------------------------------------------------------------------


def test_every_command_explains_itself(run: Any) -> None:
    for name in COMMANDS:
        done = run(name, "--help")
        assert done.exit_code == 0
        assert "Usage:" in done.stdout


def test_the_overview_names_every_command(run: Any) -> None:
    text = run("--help").stdout
    assert all(f"  {name} " in text for name, entry in COMMANDS.items() if not entry.hidden)


def test_a_misspelt_command_is_guessed(run: Any) -> None:
    assert "Did you mean submit?" in run("submti").stderr


def test_the_program_speaks_chinese(run: Any) -> None:
    zh = {"BERTH_LANG": "zh_CN.UTF-8"}
    assert "提交作业" in run("--help", env=zh).stdout
    assert "错误" in run("get", "nothing", env=zh).stderr


def test_the_help_names_every_variable_that_the_program_reads(run: Any) -> None:
    text = run("--help").stdout
    assert all(name in text for name in (*LANGUAGE_VARIABLES, "BERTH_SERVER", "BERTH_TOKEN", "BERTH_TENANT", "BERTH_PROFILE"))
    assert "语言" in run("--help", env={"BERTH_LANG": "zh"}).stdout


def test_every_message_has_its_chinese(run: Any) -> None:
    from berth.cli.messages_zh import MESSAGES

    missing = {text for text in _messages() - set(MESSAGES) if not text.startswith("berth ")}
    assert missing == set()


def test_no_text_has_two_translations_of_which_one_is_never_shown() -> None:
    from berth.cli import messages_zh

    tables = [messages_zh.TITLES, messages_zh.SENTENCES, *(getattr(messages_zh, name) for name in _TABLES)]
    texts = [text for table in tables for text in table]

    assert sorted({text for text in texts if texts.count(text) > 1}) == []
    assert set(texts) == set(messages_zh.MESSAGES)


def test_states_are_told_in_chinese(run: Any, hello: Any) -> None:
    from berth.cli import formats
    from berth.cli.messages_zh import MESSAGES

    assert {f"state {word}" for word in formats._SIGNS} - set(MESSAGES) == set()
    assert "已成功" in run("ps", "-a", env={"BERTH_LANG": "zh"}).stdout
    assert "succeeded" in run("ps", "-a").stdout


def test_translations_keep_the_places_for_values() -> None:
    from string import Formatter

    from berth.cli.messages_zh import MESSAGES

    for text, chinese in MESSAGES.items():
        names = [{name for _, name, _, _ in Formatter().parse(side) if name} for side in (text, chinese)]
        assert names[0] == names[1], text


def test_a_table_fits_its_width_and_counts_wide_characters_twice() -> None:
    columns = [Column("NAME", lambda row: row[0], shrinks=True), Column("N", lambda row: row[1], right=True)]
    text = table_text([("数字识别" * 10, "1"), ("b", "22")], columns, width=30)

    from rich.cells import cell_len

    assert {cell_len(line) for line in text.splitlines()} == {30}
    assert "…" in text


def _messages() -> set[str]:
    """Texts that the command line shows: arguments of `_`, help texts, docstrings of commands, titles and labels."""
    import ast

    found: set[str] = {entry.summary for entry in COMMANDS.values()} | {entry.section for entry in COMMANDS.values()}
    for path in (Path(berth.__file__).parent / "cli").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                called = (
                    node.func.id
                    if isinstance(node.func, ast.Name)
                    else node.func.attr
                    if isinstance(node.func, ast.Attribute)
                    else ""
                )
                if called in ("_", "Column") and node.args and isinstance(node.args[0], ast.Constant) and node.args[0].value:
                    found.add(node.args[0].value)
                if called == "counted":
                    found |= {word.value for word in node.args[1:] if isinstance(word, ast.Constant)}  # type: ignore[misc]
                if called in ("Option", "Argument"):
                    found |= {
                        word.value.value for word in node.keywords if word.arg == "help" and isinstance(word.value, ast.Constant)
                    }
                if called == "make_group":
                    found.add(node.args[2].value)  # type: ignore[attr-defined]
            if isinstance(node, ast.Tuple) and len(node.elts) == 2 and isinstance(node.elts[0], ast.Constant):
                label = node.elts[0].value
                found |= {label} if isinstance(label, str) and label[:1].isupper() and label.isascii() else set()
            if isinstance(node, ast.FunctionDef) and any(
                isinstance(mark, ast.Call) and isinstance(mark.func, ast.Name) and mark.func.id == "command"
                for mark in node.decorator_list
            ):
                found.add(ast.get_docstring(node) or "")
    return found


def test_the_language_of_the_docs_and_of_the_table_agree() -> None:
    for name, entry in COMMANDS.items():
        command: Any = load_command(name, entry)
        assert command.help, name


# --- On a terminal ----------------------------------------------------------------------------------------------------


def test_ctrl_c_while_following_leaves_the_job_alone(tmp_path: Path) -> None:
    output, code = _in_terminal(tmp_path, ["logs", "-f", "digits"], until="line 1", then="\x03")

    assert code == 0
    assert "Detached; the job continues" in output
    assert "stop" not in (tmp_path / "requests").read_text()


def test_a_submission_on_a_terminal_asks_and_no_means_no(tmp_path: Path) -> None:
    output, code = _in_terminal(tmp_path, ["submit", "echo", "hello"], until="[Y/n]", then="n\r")

    assert code == 0
    assert "Nothing was submitted." in output
    assert (tmp_path / "requests").read_text() == "POST /jobs\n"  # The dry run.


def test_a_submission_without_a_longest_time_says_what_is_planned_with_and_what_to_do(tmp_path: Path) -> None:
    output, code = _in_terminal(tmp_path, ["submit", "-y", "-d", "echo", "hello"])

    assert code == 0
    assert "planned for 2h until similar jobs have ended; not ended then; --max-runtime" in output


def test_a_terminal_gets_colours_and_hints_unless_told_otherwise(tmp_path: Path) -> None:
    coloured, _ = _in_terminal(tmp_path, ["ps", "-a"])
    plain, _ = _in_terminal(tmp_path, ["ps", "-a"], NO_COLOR="1")

    assert "\x1b[36m● running" in coloured
    assert "→ berth logs -f digits" in coloured
    assert "\x1b" not in plain


def _in_terminal(tmp_path: Path, words: list[str], *, until: str = "", then: str = "", **variables: str) -> tuple[str, int]:
    """Run `berth` against a stub in a process of its own on a pseudo-terminal; type `then` once `until` was shown."""
    script = tmp_path / "run.py"
    script.write_text(
        "import sys, pathlib\n"
        f"sys.path[:0] = {[str(Path(berth.__file__).parents[1]), str(Path(__file__).parent)]!r}\n"
        "import stub\n"
        "from berth.cli.command import Session\n"
        "from berth.cli.root import main\n"
        "server = stub.Stub(jobs=[stub.a_job('digits')], logs=[stub.a_log('line 1\\n', 0)])\n"
        f"requests = pathlib.Path({str(tmp_path / 'requests')!r})\n"
        "requests.write_text('')\n"
        "def handle(request):\n"
        "    with requests.open('a') as file:\n"
        "        file.write(request.method + ' ' + request.url.path.removeprefix('/api/v1') + '\\n')\n"
        "    return server.handle(request)\n"
        "Session.http = stub.httpx2.MockTransport(handle)\n"
        f"sys.argv = ['berth', *{words!r}]\n"
        "main()\n"
    )
    environment = {
        **{name: value for name, value in os.environ.items() if name.startswith("XDG_")},
        "PATH": "/usr/bin:/bin",
        "TERM": "xterm",
        "LANG": "C.UTF-8",
        "BERTH_LANG": "en",
        "COLUMNS": "100",
        "BERTH_SERVER": "http://berth.test",
        "BERTH_TOKEN": TOKEN,
        **variables,
    }
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, str(script)],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env=environment,
        start_new_session=True,
        preexec_fn=_own_terminal,
    )
    os.close(follower)
    shown, typed, deadline = b"", not then, time.monotonic() + 120
    while time.monotonic() < deadline:
        if select.select([leader], [], [], 0.2)[0]:
            try:
                piece = os.read(leader, 65536)
            except OSError:
                break
            if not piece:
                break
            shown += piece
        if not typed and until in shown.decode(errors="replace"):
            os.write(leader, then.encode())
            typed = True
    code = process.wait(timeout=60)
    os.close(leader)
    return shown.decode(errors="replace").replace("\r\n", "\n"), code


def _own_terminal() -> None:
    """Make the pseudo-terminal the controlling one, so that Ctrl+C becomes a signal."""
    import fcntl
    import signal
    import termios

    signal.signal(signal.SIGINT, signal.default_int_handler)  # Ignored in what a shell starts in the background.

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
