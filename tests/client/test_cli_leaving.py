"""Leaving: Ctrl+C, a time that is over, an answer that says no; the job stays as it is, and the exit code says which it was."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import termios
import threading
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from client_stub import TENANT, a_job, a_log, problem

from berth import limits
from berth.cli import execute
from berth.cli.command import UsageMistake, asked, confirmed
from berth.errors import BerthError

TERMINALS = ("command", "output", "follow", "jobs", "metrics", "again", "submit", "notify", "tenants", "account")


@pytest.fixture
def at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person looks at all three streams."""
    for name in TERMINALS:
        monkeypatch.setattr(f"berth.cli.{name}.is_terminal", lambda stream: True)


def press(_request: httpx2.Request) -> httpx2.Response:
    """Ctrl+C while this request is under way."""
    raise KeyboardInterrupt


def writes(stub: Any) -> list[str]:
    return [request.method for request in stub.requests if request.method != "GET"]


# --- Ctrl+C -----------------------------------------------------------------------------------------------------------


def test_ctrl_c_while_a_log_is_followed_leaves_with_0_and_the_way_back(run: Any, stub: Any) -> None:
    stub.jobs = [a_job("train")]
    stub.logs = [a_log("line 1\n", 0)]
    stub.fail("GET /jobs/.+/logs/stream", press)
    done = run("logs", "-f", "train")
    assert (done.exit_code, done.stdout) == (0, "line 1\n")
    assert "berth logs -f train" in done.stderr
    assert writes(stub) == []


def test_ctrl_c_while_a_log_is_only_read_is_an_abort(run: Any, stub: Any) -> None:
    stub.jobs = [a_job("train", "succeeded")]
    stub.fail("GET /jobs/.+/logs", press)
    assert run("logs", "train").exit_code != 0


@pytest.mark.parametrize("line", ["GET /jobs/[^/]+", "GET /jobs/[^/]+/spec", "GET /jobs/[^/]+/logs"])
def test_ctrl_c_while_a_submission_is_followed_leaves_the_job_in_the_queue(run: Any, stub: Any, line: str) -> None:
    stub.states_to_come = ["queued", "running", "running", "succeeded"]
    stub.fail(line, press)
    done = run("submit", "--follow", "echo", "hello")
    assert done.exit_code == 0, done.output
    assert stub.jobs[0]["id"] in done.stderr
    assert writes(stub) == ["POST", "POST"], "the plan and the submission, and no stop"


def test_ctrl_c_while_an_array_is_followed_leaves_it_too(run: Any, stub: Any) -> None:
    array = a_job("sweep", "running", array={"size": 4}, counts={"running": 1, "queued": 3})
    stub.fail("POST /jobs", None, httpx2.Response(201, json=array))
    stub.fail("GET /jobs/[^/]+", httpx2.Response(200, json=array), press)
    done = run("submit", "--follow", "true")
    assert done.exit_code == 0
    assert "3 queued, 1 running" in done.stderr
    assert not stub.sent("GET /jobs/.+/logs.*"), "an array has no log of its own"


@pytest.mark.parametrize("words", [("wait", "train"), ("stop", "train"), ("get", "train"), ("cp", "train:", ".")])
def test_ctrl_c_elsewhere_ends_without_a_trace(run: Any, stub: Any, words: tuple[str, ...]) -> None:
    stub.jobs = [a_job("train", "succeeded")]
    stub.fail("GET /jobs/[^/]+", press)
    done = run(*words)
    assert done.exit_code != 0
    assert "Traceback" not in done.output
    assert writes(stub) == []


@pytest.mark.parametrize(
    ("words", "line"), [(("ps", "--watch"), "GET /jobs"), (("metrics", "train", "--watch"), "GET /jobs/.+/metrics")]
)
def test_ctrl_c_ends_what_is_watched_with_0(run: Any, stub: Any, at_a_terminal: None, words: tuple[str, ...], line: str) -> None:
    stub.jobs = [a_job("train")]
    stub.fail(line, press)
    assert run(*words).exit_code == 0


def test_what_is_watched_is_read_again_and_ends_with_its_job(
    run: Any, stub: Any, at_a_terminal: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("berth.cli.metrics.WATCH_SECONDS", 0.0)
    stub.jobs = [a_job("train")]
    stub.states_to_come = ["running", "running", "running", "succeeded"]
    done = run("metrics", "train", "--watch")
    assert done.exit_code == 0
    assert len(stub.sent("GET /jobs/.+/metrics")) == 3
    assert "cpu_millis" in done.stdout
    monkeypatch.setattr("berth.cli.jobs.WATCH_SECONDS", 0.0)
    stub.fail("GET /jobs", None, httpx2.Response(200, json={"items": [], "next": None}), press)
    assert run("ps", "--watch", "-n", "3").exit_code == 0
    assert [request.url.params["limit"] for request in stub.sent("GET /jobs")] == ["3"] * 3


# --- A time that is over ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("states", "timeout", "ends"),
    [
        (("succeeded",), "0", 0),
        (("failed",), "0", 1),
        (("stopped",), "10m", 1),
        (("succeeded", "failed"), "10m", 1),
        (("running",), "0", 124),
        (("queued", "succeeded"), "0s", 124),
        (("succeeded", "running"), "0", 124),
    ],
)
def test_waiting_ends_as_the_jobs_did_or_with_124(run: Any, stub: Any, states: tuple[str, ...], timeout: str, ends: int) -> None:
    stub.jobs = [a_job(f"job-{number}", state, number) for number, state in enumerate(states, 1)]
    names = [job["name"] for job in stub.jobs]
    done = run("wait", *names, "--timeout", timeout)
    assert done.exit_code == ends, done.output
    assert writes(stub) == []
    told = run("wait", *names, "--timeout", timeout, "--json")
    assert told.exit_code == ends
    if ends == 124:
        assert json.loads(told.stderr)["code"] == "wait_timeout"
        assert told.stdout == ""
    else:
        assert [row["state"] for row in json.loads(told.stdout)] == list(states)


def test_waiting_tells_of_each_job_as_it_ends(run: Any, stub: Any) -> None:
    stub.jobs = [a_job("train", "running")]
    stub.states_to_come = ["running", "running", "stopping", "failed"]
    done = run("wait", "train")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "train" in done.stderr
    assert run("wait", "train", "-o", "name").stdout == f"{stub.jobs[0]['id']}\n"
    assert run("wait", "absent").exit_code == 4
    assert run("wait", "train", "--timeout", "soon").exit_code == 2


def test_a_server_that_stays_away_is_told_once_and_waited_for(run: Any, stub: Any) -> None:
    stub.jobs = [a_job("train", "succeeded")]
    stub.fail("GET /jobs/[^/]+", None, *[httpx2.ConnectError("refused")] * 9)
    done = run("wait", "train")
    assert done.exit_code == 0, done.output
    assert done.stderr.count("berth.test does not answer") == 1


@pytest.mark.parametrize("failure", [httpx2.ConnectError("refused"), problem(503, "unavailable", "Restarting.")])
def test_a_reading_without_an_answer_is_given_up_after_its_tries(run: Any, stub: Any, failure: Any) -> None:
    stub.fail("GET /nodes", *[failure] * (limits.TRIES + 1))
    done = run("nodes")
    assert done.exit_code == 1
    assert len(stub.sent("GET /nodes")) == limits.TRIES


# --- An answer that says no -------------------------------------------------------------------------------------------

ASKING: list[tuple[tuple[str, ...], str, Any]] = [
    (("budgets", "remove", "vision"), "", None),
    (("images", "delete", "jax-cpu"), "", None),
    (("secrets", "delete", "HF"), "", None),
    (("members", "remove", "alice"), "", None),
    (("volumes", "delete", "data"), "", None),
    (("nodes", "drain", "node-1"), "POST /nodes/.+/drain", {"node": {"name": "node-1"}, "jobs": [], "plan": "p"}),
    (
        ("tenants", "disable", "t"),
        "POST /tenants/t/disable",
        {"tenant": TENANT, "tenants": 1, "people": 2, "waiting": 3, "running": 4, "stopped": 0},
    ),
]


@pytest.mark.parametrize(("words", "line", "plan"), ASKING, ids=[" ".join(words) for words, *_rest in ASKING])
@pytest.mark.parametrize(("typed", "is_done"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_only_a_yes_is_a_yes(
    run: Any, stub: Any, at_a_terminal: None, words: tuple[str, ...], line: str, plan: Any, typed: str, is_done: bool
) -> None:
    stub.volumes = {"data": {}}
    if line:
        stub.fail(line, *[httpx2.Response(200, json=plan)] * 2)
    done = run(*words, input=typed)
    planned = [request for request in stub.requests if request.url.params.get("dry_run") == "true"]
    assert len(writes(stub)) - len(planned) == (1 if is_done else 0)
    assert ("✓" in done.stderr) is is_done
    assert done.exit_code == 0


def test_a_confirmation_is_only_asked_of_a_person(at_a_terminal: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert confirmed("Sure?", yes=True)
    monkeypatch.setattr("berth.cli.command.is_terminal", lambda stream: False)
    assert confirmed("Sure?", yes=True)
    with pytest.raises(UsageMistake) as caught:
        confirmed("Sure?", yes=False, default=True)
    assert "--yes" in caught.value.hint


def test_only_a_hidden_value_is_read_from_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("  secret  \nnext\n\n"))
    assert asked("Token", hidden=True, usage="berth login") == "secret"
    with pytest.raises(UsageMistake) as caught:
        asked("Server", hidden=False, usage="berth login --server URL")
    assert caught.value.hint == "berth login --server URL"
    assert asked("Token", hidden=True, usage="berth login") == "next"
    with pytest.raises(UsageMistake):
        asked("Token", hidden=True, usage="berth login")


def test_deleting_a_tenant_takes_its_name_at_the_prompt(run: Any, stub: Any, at_a_terminal: None) -> None:
    kinds = ("members", "secrets", "volumes", "images", "bookings")
    plan = {"tenant": TENANT, "goes": dict.fromkeys(kinds, 2), "stays": {"jobs": 7}, "plan": "plan-7"}
    stub.fail("POST /tenants/t/delete", *[httpx2.Response(200, json=plan)] * 2)
    done = run("tenants", "delete", "t", input="vision\n")
    assert done.exit_code == 0, done.output
    dry, real = stub.sent("POST /tenants/t/delete")
    assert (dry.url.params.get("dry_run"), real.url.params.get("plan")) == ("true", "plan-7")
    assert json.loads(real.content) == {"confirm": "vision"}
    assert ["vision", "2", "2", "2", "2", "2", "7"] in [row.split() for row in done.stdout.splitlines()]


# --- A terminal of one's own ------------------------------------------------------------------------------------------


class Resized:
    """The far side of a terminal: hears of its size."""

    def __init__(self) -> None:
        self.sizes: list[tuple[int, int]] = []
        self.heard = threading.Event()

    def resize(self, rows: int, columns: int) -> None:
        self.sizes.append((rows, columns))
        self.heard.set()


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A pseudo-terminal in the place of standard input; gives its descriptor."""
    master, slave = pty.openpty()
    with os.fdopen(slave, "rb", buffering=0) as stream:
        monkeypatch.setattr("sys.stdin", stream)
        yield slave
    os.close(master)


def test_a_terminal_is_raw_while_it_lasts_and_as_before_afterwards(keyboard: int) -> None:
    before = termios.tcgetattr(keyboard)
    handler = signal.getsignal(signal.SIGWINCH)
    far = Resized()
    with execute._raw_terminal(far):
        now = termios.tcgetattr(keyboard)
        assert not now[3] & (termios.ECHO | termios.ICANON | termios.ISIG), "every key goes to the other side, Ctrl+C too"
        os.kill(os.getpid(), signal.SIGWINCH)
        assert far.heard.wait(timeout=10)
    assert termios.tcgetattr(keyboard)[3] == before[3]
    assert signal.getsignal(signal.SIGWINCH) == handler
    assert len(far.sizes) == 1
    with pytest.raises(BerthError), execute._raw_terminal(far):
        raise BerthError("The connection broke.")
    assert termios.tcgetattr(keyboard)[3] == before[3]
