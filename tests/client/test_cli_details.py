"""One thing at a time: nodes, pools, plans, weeks, terminals; what each shows of much, of little and of nothing."""

from __future__ import annotations

import copy
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from client_stub import LISTS, NOON, TENANT, a_job, a_plan, problem

from berth import execution
from berth.cli import formats
from berth.cli.inviting import Person, new_people
from berth.cli.plan import print_plan
from berth.errors import BerthError, Conflict, from_problem

GIB = 1 << 30


def answer(stub: Any, line: str, body: Any, status: int = 200) -> None:
    stub.fail(line, httpx2.Response(status, json=copy.deepcopy(body)))


def facts(text: str) -> dict[str, str]:
    """`label  value` lines; the lines below a value belong to it."""
    found: dict[str, str] = {}
    label = ""
    for line in text.splitlines():
        if match := re.match(r"(\S.*?)\s{2,}(.*)", line):
            label = match[1]
            found[label] = match[2]
        elif line.startswith(" ") and label:
            found[label] += f"\n{line.strip()}"
    return found


# --- Nodes and pools --------------------------------------------------------------------------------------------------


def test_a_node_is_shown_with_its_devices_and_what_others_set_on_it(run: Any, stub: Any) -> None:
    gpus = [
        {"identifier": "GPU-0", "model": "a100", "memory_bytes": 80 * GIB, "healthy": True},
        {"identifier": "GPU-1", "model": "a100", "memory_bytes": None, "healthy": False, "simulated": True},
    ]
    stub.node |= {"gpus": gpus, "taints": {"fpga": "keep-out", "flaky": "avoid"}, "labels": {"zone": "东", "os": "linux"}}
    shown = facts(run("nodes", "node-1").stdout)
    assert (shown["Pool"], shown["Cluster"]) == ("a100", "local")
    assert (shown["CPU"], shown["Memory"]) == ("9 / 64", "40 GiB / 512 GiB")
    first, second = shown["GPUs"].splitlines()
    assert first == "GPU-0  a100  80 GiB"
    assert second.startswith("GPU-1  a100  -  ")
    assert "," in second.removeprefix("GPU-1  a100  -  "), "simulated and unhealthy"
    assert shown["Labels"] == "zone=东\nos=linux"
    assert shown["Taints"] == "fpga, flaky=avoid"


def test_a_node_with_nothing_on_it_shows_no_empty_lines(run: Any, stub: Any) -> None:
    stub.node = {"id": "n", "name": "bare", "ready": True, "capacity": {}}
    shown = facts(run("nodes", "show", "bare").stdout)
    assert set(shown) == {"Name", "State"}


def test_a_pool_shows_its_rules_and_what_it_learned(run: Any, stub: Any) -> None:
    learned = {
        "weights": {"pack": 3},
        "chosen_at": NOON,
        "tried": [{"weights": {"pack": 3}, "allocated": 0.9312}, {"weights": {"spread": 1}, "allocated": 0.5}],
    }
    rules = {
        "policy": "pack",
        "weights": {"pack": 3, "spread": 0},
        "gpu_shares": True,
        "shared_devices_max": 2,
        "levels": ["rack"],
    }
    pool = {**LISTS["pools"][0], "rules": rules, "learned": learned, "uneven": {"gpu_driver": ["550", None]}}
    answer(stub, "GET /pools", {"items": [pool], "next": None})
    shown = facts(run("pools", "show", "a100").stdout)

    assert (shown["Policy"], shown["Weights"], shown["Levels"]) == ("pack", "pack=3, spread=0", "rack")
    assert shown["Learned"].splitlines()[1:] == ["pack=3: 93.12%", "spread=1: 50.00%"]
    assert shown["Learned"].startswith("pack=3 ")
    assert shown["Uneven"] == "gpu_driver: 550, -"
    assert shown["Fragmented"] == "33%"
    assert "1 x 6" in shown["Idle GPUs"]
    assert shown["Measured"] == formats.time_text(NOON)


def test_a_pool_without_rules_has_the_defaults_of_all_pools(run: Any, stub: Any) -> None:
    answer(stub, "GET /pools", {"items": [{"id": "p", "name": "new"}], "next": None})
    shown = facts(run("pools", "new").stdout)
    assert {shown["Policy"], shown["Weights"], shown["Shared GPUs"], shown["Levels"]} == {"default"}
    assert "Idle GPUs" not in shown
    assert "Learned" not in shown


def test_gpus_are_summed_up_by_pool_and_pools_without_any_are_left_out(run: Any, stub: Any) -> None:
    pools = [
        LISTS["pools"][0],
        {"id": "c", "name": "cpu", "capacity": {"gpu_millis": 0}},
        {"id": "h", "name": "h200", "gpu_model": "h200", "capacity": {"gpu_millis": 4000}, "allocated": {"gpu_millis": 5000}},
    ]
    for _time in range(2):
        answer(stub, "GET /pools", {"items": pools, "next": None})
    rows = json.loads(run("gpus", "--json").stdout)
    assert [(row["pool"], row["free_gpu_millis"], row["simulated"]) for row in rows] == [("a100", 6000, True), ("h200", 0, False)]
    lines = run("gpus").stdout.splitlines()[1:]
    assert lines[0].split()[2:7] == ["a100", "8", "2", "6", "8"]
    assert lines[1].split() == ["h200", "h200", "4", "5", "0", "-", "-", "-", "-"]


# --- Plans ------------------------------------------------------------------------------------------------------------


def plan_text(**changes: Any) -> str:
    stream = io.StringIO()
    print_plan({**a_plan({"name": "train", "command": "true"}), **changes}, None, stream=stream)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("changes", "label", "value"),
    [
        ({}, "Job", "train"),
        ({}, "Image", "host (sha256:abababababab)"),
        ({"image": {"name": "jax", "digest": ""}}, "Image", "jax"),
        ({"image": "jax"}, "Image", "jax"),
        ({"jobs": 8}, "Jobs", "8"),
        ({"framework": "mpi"}, "Framework", "mpi"),
        ({"spec": {"cluster": "local", "pool": "a100"}}, "Where", "local/a100"),
        ({"spec": {"pool": "a100"}}, "Where", "a100"),
        ({"max_runtime_seconds": 5400}, "Runs at most", "1h 30m"),
        ({"total": {"cpu_millis": 500, "memory_bytes": GIB, "gpu_millis": 0}}, "Total", "0.5 CPU, 1 GiB"),
    ],
)
def test_a_plan_says_what_a_submission_will_be(changes: dict[str, Any], label: str, value: str) -> None:
    assert facts(plan_text(**changes))[label] == value


@pytest.mark.parametrize(
    ("changes", "label"),
    [({}, "Jobs"), ({}, "Framework"), ({}, "Code"), ({}, "Runs at most"), ({"max_runtime_seconds": 60}, "Planned to run")],
)
def test_what_a_plan_has_nothing_to_say_of_is_left_out(changes: dict[str, Any], label: str) -> None:
    assert label not in facts(plan_text(**changes))


def test_a_long_command_is_cut_in_a_plan_and_a_list_of_words_is_joined() -> None:
    each = {"cpu_millis": 1000, "memory_bytes": GIB, "gpu_millis": 0}
    roles = [
        {"name": "ps", "replicas": 1, "command": ["echo", "a\x1b[2J"], "resources": each},
        {"name": "worker", "replicas": 16, "command": "x" * 100, "resources": each},
        {"name": "idle", "replicas": 0, "command": None, "resources": {}},
    ]
    rows = [line.split() for line in plan_text(roles=roles).splitlines()[-4:-1]]
    assert rows[0] == ["ps", "1", "1", "CPU,", "1", "GiB", "echo", "a"]
    assert rows[1] == ["worker", "16", "1", "CPU,", "1", "GiB", "x" * 59 + "…"]
    assert rows[2] == ["idle", "0", "-"]


def test_code_that_is_fetched_and_warnings_are_part_of_a_plan(capsys: pytest.CaptureFixture[str]) -> None:
    fetched = {"job": "fetch-1", "ref": "main", "git": "https://x.test/r.git"}
    shown = facts(plan_text(fetches=fetched, warnings=["Old \x1b[31mimage."]))
    assert [part for part in fetched.values() if part not in shown["Code"]] == []
    assert "! Old image." in capsys.readouterr().err


def forecast(**changes: Any) -> dict[str, Any]:
    option = {
        "size": "asked",
        "total": {"gpu_millis": 8000},
        "starts_now": False,
        "p50_at": NOON,
        "p90_at": None,
        "reason": "",
        "cost": {"micros": 2_000_000, "micros_max": 2_000_000, "micros_per_hour": 1_000_000, "micros_per_hour_max": 3_000_000},
    }
    return {
        "currency": "EUR",
        "runs_seconds": None,
        "runs_by": "",
        "options": [{**option, **changes}],
        "past": {"promises": 9, "predictions": 9, "by_p90": 1.0},
    }


@pytest.mark.parametrize(
    ("changes", "start"),
    [
        ({}, formats.time_text(NOON)),
        ({"p90_at": NOON}, formats.time_text(NOON)),
        ({"p90_at": "2026-11-20T13:00:00Z"}, f"{formats.time_text(NOON)} – {formats.time_text('2026-11-20T13:00:00Z')}"),
    ],
)
def test_a_predicted_start_is_a_time_or_a_span(changes: dict[str, Any], start: str) -> None:
    line = plan_text(forecast=forecast(**changes)).splitlines()[-2]
    assert f"  {start}  " in line
    assert "1.00 – 3.00 EUR" in line
    assert "2.00 EUR" not in line, "without a run time nothing is said of the whole"


def test_a_cost_that_is_not_known_is_not_made_up(capsys: pytest.CaptureFixture[str]) -> None:
    text = plan_text(forecast={**forecast(cost=None), "runs_seconds": 3600, "runs_by": "name"})
    assert text.splitlines()[-2].split()[-2:] == ["-", "-"]
    told = capsys.readouterr().err
    assert "1h" in told
    assert "100%" not in told, "nine predictions are too few for a rate"
    assert "Planned to run" not in facts(text)


# --- Statements of weeks ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "7",
        '"x"',
        "{}",
        '{"document": []}',
        '{"document": {}, "sha256": 1, "signature": "", "public_key": ""}',
        "[" * 100_000,
    ],
)
def test_what_is_no_statement_is_not_checked(run: Any, text: str) -> None:
    Path("week.json").write_text(text)
    done = run("shares", "verify", "week.json", "--key", "k")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "week.json" in done.stderr
    assert run("shares", "verify", "-", "--key", "k", input=text).exit_code == 2


def test_a_statement_that_is_not_there_is_named(run: Any, stub: Any) -> None:
    for path in ("absent.json", "."):
        done = run("shares", "verify", path, "--key", "k")
        assert (done.exit_code, stub.requests) == (2, [])
        assert path in done.stderr


def test_closed_weeks_are_listed_and_the_present_one_is_asked_for_by_its_name(run: Any, stub: Any) -> None:
    answer(stub, f"GET /tenants/{TENANT['slug']}/shares", {"items": [{"week": "2026-W46", "closed_at": NOON, "sha256": "ab"}]})
    assert run("shares", "week", "--list", "-o", "name").stdout == "2026-W46\n"
    stub.fail("GET /tenants/.+/shares/.+", problem(404, "not_found", "No such week."))
    assert run("shares", "week").exit_code == 4
    assert re.fullmatch(r"/api/v1/tenants/t-7f3k2/shares/2\d{3}-W\d{2}", stub.requests[-1].url.path)


# --- Terminals --------------------------------------------------------------------------------------------------------


class Played:
    """A program that says some pieces and ends as told, or breaks."""

    def __init__(self, *pieces: bytes, exit_code: int | None = 0, why: str = "exit", breaks: BerthError | None = None) -> None:
        self.pieces, self.exit_code, self.why, self.breaks = pieces, exit_code, why, breaks
        self.heard = b""
        self.is_closed = False

    def __iter__(self) -> Iterator[bytes]:
        yield from self.pieces
        if self.breaks:
            raise self.breaks

    def write(self, data: bytes) -> None:
        self.heard += data

    def end_input(self) -> None:
        self.heard += b"<end>"

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def play(stub: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lets `berth exec` meet a program; gives what it was started with."""
    stub.jobs = [a_job("train")]

    def begin(program: Played) -> dict[str, Any]:
        asked: dict[str, Any] = {}

        def start(settings: Any, job: str, argv: Any, **options: Any) -> Played:
            asked.update(job=job, argv=list(argv), server=settings.server, **options)
            return program

        monkeypatch.setattr(execution, "start", start)
        return asked

    return begin


@pytest.mark.parametrize(
    ("program", "ends", "said"),
    [
        (Played(b"a", b"\xff\x00b"), 0, False),
        (Played(exit_code=7), 7, False),
        (Played(exit_code=None, why="lost"), 255, False),
        (Played(b"x", exit_code=None, why="idle"), 255, True),
        (Played(exit_code=None, why="signed_out"), 255, True),
        (Played(exit_code=None, why="switched_off"), 255, True),
        (Played(exit_code=None, why="forbidden"), 255, True),
        (Played(exit_code=None, why="slow"), 255, True),
        (Played(exit_code=137, why="exit"), 137, False),
    ],
)
def test_a_program_in_a_task_ends_the_command_as_it_ended(run: Any, play: Any, program: Played, ends: int, said: bool) -> None:
    play(program)
    done = run("exec", "train", "--", "true")
    assert done.exit_code == ends
    assert done.stdout_bytes == b"".join(program.pieces), "bytes pass unchanged"
    assert bool(done.stderr) is said
    assert program.is_closed


def test_a_command_in_a_task_is_started_where_it_was_asked_for(run: Any, stub: Any, play: Any) -> None:
    asked = play(Played())
    run("exec", "train", "--role", "ps", "--index", "3", "--", "ls", "-l", "a b")
    assert asked == {
        "job": stub.jobs[0]["id"],
        "argv": ["ls", "-l", "a b"],
        "server": "http://berth.test",
        "role": "ps",
        "index": 3,
        "terminal": None,
        "language": "en",
    }
    play(Played())
    assert run("exec", "absent").exit_code == 4


@pytest.mark.parametrize(
    ("error", "ends"),
    [
        (Conflict("It does not run.", status=409), 1),
        (from_problem(403, {"code": "exec_disabled", "detail": "Disabled."}), 3),
        (execution.ExecEnded("The connection ended."), 1),
    ],
)
def test_a_connection_that_breaks_keeps_what_was_printed(run: Any, play: Any, error: BerthError, ends: int) -> None:
    program = Played(b"half", breaks=error)
    play(program)
    done = run("exec", "train", "--", "true")
    assert (done.exit_code, done.stdout) == (ends, "half")
    assert error.detail in done.stderr
    assert program.is_closed


# --- New people of an import ------------------------------------------------------------------------------------------

CREATED = {
    "lines": [{"name": "erin", "action": "created"}, {"name": "frank", "action": "created"}, {"name": "old", "action": "updated"}]
}


@pytest.mark.parametrize(
    ("text", "people"),
    [
        ("", []),
        ("name,email\nerin,e@x.org\n", []),
        ("name,email,tenant,role\nerin,e@x.org,a,manager\n", [("erin", "a", "manager")]),
        ("name,email,tenant,role\nerin,e@x.org,a,owner\n", [("erin", "a", "member")]),
        (" Name , EMAIL ,Tenant\n erin , e@x.org , a \n", [("erin", "a", "member")]),
        ("name,email,tenant\nerin,e@x.org,a\nerin,e@x.org,b\n", [("erin", "a", "member")]),
        ("name,email,tenant\nerin,e@x.org,\nerin,e@x.org,b\n", [("erin", "b", "member")]),
        ("name,email,tenant\nerin,,a\nold,o@x.org,a\nmallory,m@x.org,a\n", []),
        ("name,email,tenant\nerin,e@x.org,a,extra,more\nfrank\n", [("erin", "a", "member")]),
        (
            'name,email,tenant\n"erin","e@x.org","a,b"\nfrank,f@x.org,研究\n',
            [("erin", "a,b", "member"), ("frank", "研究", "member")],
        ),
    ],
)
def test_who_is_invited_is_new_and_has_an_address_and_a_tenant(text: str, people: list[tuple[str, str, str]]) -> None:
    assert [(person.name, person.tenant, person.role) for person in new_people(text, CREATED)] == people
    assert new_people(text, {}) == []
    assert all(isinstance(person, Person) for person in new_people(text, CREATED))


# --- What a job says of itself ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "label", "value"),
    [
        ({"exit": {"code": 1, "signal": None, "class": "failed"}, "state": "failed"}, "Exit", "code 1, failed"),
        ({"exit": {"code": 0, "class": ""}, "state": "failed"}, "Exit", "code 0"),
        ({"exit": {"signal": "SIGKILL", "class": "out_of_memory"}, "state": "failed"}, "Exit", "signal SIGKILL, out_of_memory"),
        ({"array": {"size": 4}, "counts": {"running": 3, "failed": 1, "queued": 0}}, "Array", "4 (3 running, 1 failed)"),
        ({"array": {"size": 4}}, "Array", "4"),
        ({"array": {"index": 0}}, "Array", "index 0"),
        ({"labels": {"team": "视觉", "x": "1"}}, "Labels", "team=视觉, x=1"),
        ({"tags": ["a", "b\x1b[2J"]}, "Tags", "a, b"),
        ({"cluster": None}, "Where", "a100"),
        ({"max_runtime_seconds": 90}, "Runs at most", "1m 30s"),
    ],
)
def test_a_job_tells_each_fact_in_a_line(run: Any, stub: Any, changes: dict[str, Any], label: str, value: str) -> None:
    stub.jobs = [a_job("train") | changes]
    assert facts(run("get", "train").stdout)[label] == value


def test_a_job_ran_as_long_as_its_attempts_without_the_waits_between_them(
    run: Any, stub: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans = (("12:00", "13:00"), ("15:00", "15:30"))
    rows = [{"started_at": f"2026-11-20T{start}:00Z", "ended_at": f"2026-11-20T{end}:00Z"} for start, end in spans]
    monkeypatch.setitem(LISTS, "attempts", [LISTS["attempts"][0] | row for row in rows])
    stub.jobs = [a_job("train", "failed") | {"attempt": 2}]
    assert facts(run("get", "train").stdout)["Ran"] == "1h 30m"


@pytest.mark.parametrize("label", ["Exit", "Array", "Labels", "Tags", "Framework", "Ended", "Runs at most", "Priority", "Why"])
def test_a_fact_that_a_job_has_not_is_no_line(run: Any, stub: Any, label: str) -> None:
    stub.jobs = [a_job("train")]
    assert label not in facts(run("get", "train").stdout)


def test_a_wide_job_tells_more_and_its_spec_is_yaml_or_json(run: Any, stub: Any) -> None:
    stub.jobs = [a_job("train", hold=True, parent_id="p-1")]
    shown = facts(run("get", "train", "-o", "wide").stdout)
    assert (shown["Priority"], shown["Parent"], shown["Isolation"], shown["Version"]) == ("500", "p-1", "uid", "1")
    spec = yaml.safe_load(run("get", "train", "--spec").stdout)
    assert json.loads(run("get", "train", "--spec", "--json").stdout) == spec
    assert spec["env"] == {"SEED": "7"}
    assert run("get", "train", "-o", "name").stdout == f"{stub.jobs[0]['id']}\n"


def test_a_job_that_waits_again_is_not_told_as_running_on(run: Any, stub: Any) -> None:
    started = {"started_at": "2026-11-20T10:00:00Z", "ended_at": None}
    stub.jobs = [a_job("train", state="running", **started)]
    assert "Ran " in run("get", "train").stdout
    stub.jobs = [a_job("train", state="queued", **started)]
    assert "Ran " not in run("get", "train").stdout
