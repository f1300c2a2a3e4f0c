"""Staying with jobs, looking at one closely, and the shapes of what is shown: width, colour, zone, language."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from client_stub import NOON, SERVER, TOKEN, USER, a_job, a_log, problem

import berth
from berth.cli import formats, output, paint
from berth.cli.output import Column, table_text

WHY = {"code": "no_room", "text": "There is no room in pool a100.", "hint": "Ask for fewer GPUs.", "detail": {}}


@pytest.fixture
def waiting(stub: Any) -> Any:
    stub.jobs = [a_job("first", "queued", 1), a_job("second", "queued", 2)]
    return stub


@pytest.fixture
def in_shanghai(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def answer(stub: Any, pattern: str, body: Any, status: int = 200) -> None:
    stub.fail(pattern, httpx2.Response(status, json=body))


# --- Holding ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("verb", "value", "told"), [("hold", True, "is held"), ("release", False, "is released")])
def test_jobs_are_held_and_released_by_name(run: Any, waiting: Any, verb: str, value: bool, told: str) -> None:
    for job in waiting.jobs:
        answer(waiting, f"PATCH /jobs/{job['id']}", {**job, "hold": value})

    done = run(verb, "first", "second")

    assert done.exit_code == 0, done.stderr
    assert [json.loads(request.content) for request in waiting.sent("PATCH /jobs/.*")] == [{"hold": value}] * 2
    assert [f"Job {name} {told}; it is queued." in done.stderr for name in ("first", "second")] == [True, True]


def test_a_mistyped_name_holds_none_of_the_others(run: Any, waiting: Any) -> None:
    assert run("hold", "first", "secnod").exit_code == 4
    assert not waiting.sent("PATCH /jobs/.*")


def test_a_job_that_has_ended_cannot_be_released_and_the_way_on_is_named(run: Any, waiting: Any) -> None:
    ended = a_job("first", "failed", 1)
    answer(waiting, "PATCH /jobs/.*", ended)

    done = run("release", "first")

    assert done.exit_code == 1
    assert "Job first is failed; only a queued job can be released." in done.stderr
    assert "Hint: berth rerun first" in done.stderr


def test_held_jobs_are_a_list_for_programs(run: Any, waiting: Any) -> None:
    for job in waiting.jobs:
        answer(waiting, f"PATCH /jobs/{job['id']}", {**job, "hold": True})

    assert [job["name"] for job in json.loads(run("hold", "first", "second", "--json").stdout)] == ["first", "second"]


# --- Following --------------------------------------------------------------------------------------------------------


def test_an_array_that_is_followed_counts_its_jobs_and_ends_as_it_does(run: Any, stub: Any) -> None:
    array = {"array": {"size": 3, "index": None}}
    counts = ({"queued": 3}, {"queued": 1, "running": 2}, {"failed": 1, "succeeded": 2})
    stub.fail("POST /jobs", None, httpx2.Response(201, json=a_job("sweep", "queued", 1, **array)))
    for number, (state, count) in enumerate(zip(("queued", "running", "failed"), counts, strict=True)):
        answer(stub, r"GET /jobs/[^/]+", a_job("sweep", state, 1, counts=count, version=number, **array))

    done = run("submit", "--follow", "--name", "sweep", "true")

    assert done.exit_code == 1
    lines = [line for line in done.stderr.splitlines() if line.startswith("sweep: ")]
    assert lines == ["sweep: 3 queued", "sweep: 1 queued, 2 running", "sweep: 1 failed, 2 succeeded"]
    assert not stub.sent(r"GET /jobs/[^/]+/logs"), "an array has no log of its own"


def test_a_job_that_failed_says_why_and_what_to_do(run: Any, stub: Any) -> None:
    end = {"code": 137, "text": "The job ran out of memory.", "hint": "Ask for more memory.", "class": "oom"}
    stub.jobs = [a_job("digits", "failed", exit=end)]
    stub.fail("POST /jobs", None, httpx2.Response(201, json=stub.jobs[0]))

    done = run("submit", "--follow", "true")

    assert done.exit_code == 1
    assert "✗ Job digits failed after 1m: The job ran out of memory.\nHint: Ask for more memory." in done.stderr


# --- Logs -------------------------------------------------------------------------------------------------------------


def test_times_of_a_log_are_those_of_the_readers_clock(run: Any, stub: Any, in_shanghai: None) -> None:
    stub.jobs = [a_job("hello", "succeeded")]
    stub.logs = [a_log("a\n", 0), a_log("b\n", 2, at=None)]

    assert run("logs", "hello", "--timestamps").stdout.splitlines() == ["2026-11-20 20:00:00.000+08:00 a", f"{' ' * 29} b"]
    assert json.loads(run("logs", "hello", "--json").stdout.splitlines()[0])["at"] == NOON


def test_since_leaves_out_what_is_older(run: Any, stub: Any) -> None:
    stub.jobs = [a_job("hello", "succeeded")]
    stub.logs = [a_log("old\n", 0, at="2026-11-20T11:59:59Z"), a_log("new\n", 4), a_log("undated\n", 8, at=None)]

    assert run("logs", "hello", "--since", NOON).stdout == "new\nundated\n"
    assert run("logs", "hello", "--since", NOON, "--tail", "1").stdout == "undated\n"


def test_a_log_whose_spec_is_not_shown_says_whose_line_it_is(run: Any, stub: Any) -> None:
    stub.jobs = [a_job("hello", "succeeded")]
    stub.logs = [a_log("a\n", 0), a_log("b\n", 0, task="ps-10", stream="stderr")]
    stub.fail(r"GET /jobs/[^/]+/spec", problem(404, "not_found", "There is no spec."))

    assert run("logs", "hello").stdout == "worker-0 │ a\nps-10    │ b\n"


@pytest.mark.parametrize(
    ("replicas", "prefixed"), [({"min": 1, "max": 1}, False), ({"min": 1, "max": 4}, True), (2, True), (1, False)]
)
def test_lines_say_whose_they_are_where_there_may_be_several_tasks(run: Any, stub: Any, replicas: Any, prefixed: bool) -> None:
    stub.jobs = [a_job("hello", "succeeded")]
    stub.logs = [a_log("a\n", 0)]
    stub.specs[stub.jobs[0]["id"]] = {"roles": {"worker": {"replicas": replicas}}}

    assert ("│" in run("logs", "hello").stdout) is prefixed


def test_a_stream_that_is_refused_for_good_ends_the_following(run: Any, stub: Any) -> None:
    stub.jobs = [a_job("hello", "running")]
    stub.fail(r"GET /jobs/[^/]+/logs/stream", problem(403, "forbidden", "You left the tenant."))

    done = run("logs", "-f", "hello")

    assert (done.exit_code, "You left the tenant." in done.stderr) == (3, True)


@pytest.mark.parametrize(
    "body", [b"data: {not json\n\n", b"data: [1]\n\n", b": only a comment\n\n", b"", b"event: log\ndata: \n\n"]
)
def test_events_that_say_nothing_are_passed_over_and_no_line_is_lost(stub: Any, client: Any, body: bytes) -> None:
    stub.jobs = [a_job("hello", "running")]
    stub.logs = [a_log(f"{number}\n", number * 2) for number in range(4)]

    def finish(events: list[str]) -> bytes:
        stub.jobs[0]["state"] = "succeeded"
        return "".join([*events, "event: end\ndata: {}\n\n"]).encode()

    stub.streams = [lambda events: body, finish]

    assert [line.text for line in client.jobs.logs("hello", follow=True)] == ["0", "1", "2", "3"]


# --- One job ----------------------------------------------------------------------------------------------------------


def test_a_job_says_what_to_do_how_it_ended_and_what_it_keeps(run: Any, stub: Any, in_shanghai: None) -> None:
    end = {"code": 1, "signal": "SIGKILL", "class": "oom", "text": "Out of memory.", "hint": "Ask for more.", "who_pays": "user"}
    job = a_job("digits", "failed", exit=end, labels={"project": "ocr"}, tags=["a", "b"], framework="torch", hold=True)
    stub.jobs = [job]
    checkpoint = {"path": "ckpt", "state": "unreadable", "problem": "It is cut off.", "saved_at": NOON, "age_seconds": 3700}
    checkpoint |= {"size_bytes": 3 << 30, "file_count": 2, "if_evicted_now": {"lost_seconds": 90}, "kept_until": NOON}
    answer(stub, r"GET /jobs/[^/]+/checkpoint", checkpoint)
    stub.left_behind = "2 files were too large."

    facts = dict(line.strip().split("  ", 1) for line in run("get", "digits", "-o", "wide").stdout.splitlines() if "  " in line)
    told = {name: text.strip() for name, text in facts.items()}

    assert (told["Why"], told["What to do"], told["Exit"]) == ("Out of memory.", "Ask for more.", "code 1, signal SIGKILL, oom")
    assert (told["Labels"], told["Tags"], told["Framework"]) == ("project=ocr", "a, b", "torch")
    assert (told["Held"], told["Charged to"], told["Submitted"]) == ("yes", "user", "2026-11-20 20:00:00+08:00")
    assert (told["State"], told["Problem"]) == ("cannot be read", "It is cut off.")
    assert (told["Saved at"], told["Size"]) == ("2026-11-20 20:00:00+08:00, 1h 1m ago", "3 GiB")
    assert (told["A preemption loses"], told["Kept until"]) == ("1m 30s", "2026-11-20 20:00:00+08:00")


def test_an_array_and_its_parts_are_told_apart(run: Any, stub: Any) -> None:
    stub.jobs = [
        a_job("sweep", "running", 1, array={"size": 8, "index": None}, counts={"running": 2, "queued": 0, "succeeded": 6}),
        a_job("part", "running", 2, array={"size": None, "index": 3}),
    ]

    assert "8 (2 running, 6 succeeded)" in run("get", "sweep").stdout
    assert "index 3" in run("get", "part").stdout
    assert "● running 6/8" in run("ps").stdout


def test_a_long_list_of_artifacts_is_cut_with_the_command_for_the_rest(run: Any, stub: Any) -> None:
    from berth.cli.show import ARTIFACTS_SHOWN

    stub.jobs = [a_job("digits", "succeeded")]
    stub.artifacts = {f"f{number:03}": b"x" for number in range(ARTIFACTS_SHOWN + 3)}

    text = run("get", "digits").stdout
    assert "… and 3 more: berth cp digits: --list" in text
    assert len([line for line in text.splitlines() if line.startswith("f0")]) == ARTIFACTS_SHOWN


@pytest.mark.parametrize(("form", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_a_job_for_programs_is_what_the_server_says(run: Any, stub: Any, form: str, read: Any) -> None:
    stub.jobs = [a_job("数字", "running", labels={"a": "yes", "b": "1e3", "c": "line 1\nline 2"})]

    assert read(run("get", "数字", "-o", form).stdout) == stub.jobs[0]
    assert run("get", "数字", "-o", "name").stdout == f"{stub.jobs[0]['id']}\n"


# --- Measures ---------------------------------------------------------------------------------------------------------


def test_measures_are_shown_in_their_units(run: Any, stub: Any) -> None:
    stub.jobs = [a_job("digits")]
    rows = [line.split() for line in run("metrics", "digits").stdout.splitlines()]

    assert rows[1][:6] == ["worker-0", "cpu_millis", "1.80", "cores", "1.80", "cores"]
    assert rows[2][2:6] == ["1.9", "GiB", "1.9", "GiB"]
    assert rows[3][:7] == ["worker-0", "gpu_utilization_ratio", "(simulated)", "93", "%", "93", "%"]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        *((None, "bytes", "-"), (2048.0, "bytes per second", "2 KiB/s"), (61.4, "degrees Celsius", "61 °C")),
        *((250.0, "watts", "250 W"), (3.0, "", "3"), (0.005, "ratio 0-1", "0 %")),
    ],
)
def test_a_measured_value_has_its_unit(value: float | None, unit: str, text: str) -> None:
    from berth.cli.metrics import value_text

    assert value_text(value, unit) == text


def test_nothing_measured_is_too_early_or_too_late(run: Any, stub: Any) -> None:
    for state, told in (("running", "No measurements yet"), ("succeeded", "the job was too short")):
        stub.jobs = [a_job("digits", state)]
        answer(stub, r"GET /jobs/[^/]+/metrics", {"items": []})
        done = run("metrics", "digits")
        assert (done.exit_code, done.stdout, told in done.stderr) == (0, "", True)


def test_measures_for_programs_keep_their_gaps(run: Any, stub: Any) -> None:
    stub.jobs = [a_job("digits")]
    [cpu, *_rest] = json.loads(run("metrics", "digits", "--json", "--metric", "cpu_millis", "--task", "worker-0").stdout)

    assert (cpu["values"], cpu["times"][0]) == ([900.0, None, 1800.0], NOON)
    params = stub.sent(r"GET /jobs/[^/]+/metrics")[0].url.params
    assert (params["metric"], params["task"]) == ("cpu_millis", "worker-0")


@pytest.mark.parametrize("words", [("ps", "--watch"), ("metrics", "digits", "--watch")])
def test_watching_needs_a_terminal_and_says_what_a_program_does(run: Any, stub: Any, words: tuple[str, ...]) -> None:
    stub.jobs = [a_job("digits")]

    done = run(*words)

    assert (done.exit_code, "needs a terminal" in done.stderr, "--json in a program" in done.stderr) == (2, True, True)


@pytest.mark.parametrize(
    ("values", "bars"),
    [([], ""), ([None], ""), ([0.0, 0.0], "▁▁"), ([0.0, None, 7.0], "▁ █"), ([5.0, 5.0], "██"), ([1.0, 2.0, 4.0], "▄█")],
)
def test_a_trend_is_a_row_of_bars_with_gaps(values: list[float | None], bars: str) -> None:
    assert formats.sparkline(values, 2 if len(values) == 3 and None not in values else 9) == bars


# --- Width, colour, language ------------------------------------------------------------------------------------------


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 60 columns on standard output."""
    monkeypatch.setattr(output, "is_terminal", lambda stream: True)
    monkeypatch.setenv("COLUMNS", "60")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_list_fits_a_narrow_terminal_in_both_languages(run: Any, stub: Any, narrow: None, language: str) -> None:
    from rich.cells import cell_len

    reason = {**WHY, "text": "资源池已满，请等待。" * 9}
    stub.jobs = [a_job("数字识别模型" * 9, "queued", 1, reason=reason), a_job("short", "running", 2)]

    lines = run("ps", env={"BERTH_LANG": language}).stdout.splitlines()

    assert len(lines) == 3
    assert all(cell_len(line) <= 60 for line in lines), lines
    assert any("…" in line for line in lines)
    assert any("short" in line for line in lines)


def test_what_may_not_shrink_stays_whole_in_the_narrowest_terminal() -> None:
    columns = [Column("ID", lambda row: row), Column("NAME", lambda row: row * 3, shrinks=True)]

    _title, line = table_text(["0198c0de"], columns, width=5).splitlines()
    assert line.split() == ["0198c0de", "0198c0de0…"]


@pytest.mark.parametrize("variables", [{}, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, {"NO_COLOR": "1"}])
def test_without_a_terminal_nothing_is_coloured(run: Any, stub: Any, variables: dict[str, str]) -> None:
    stub.jobs = [a_job("digits", "failed")]
    for words in (("ps", "-a"), ("get", "digits"), ("get", "nothing"), ("stop", "digits"), ("--help",)):
        done = run(*words, env=variables, color=True)
        assert "\x1b" not in done.stdout + done.stderr


class _Screen:
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({}, True),
        ({"TERM": "dumb"}, False),
        ({"NO_COLOR": "1"}, False),
        ({"NO_COLOR": ""}, True),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, True),
    ],
)
def test_colour_is_for_terminals_that_can(variables: dict[str, str], wanted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert paint.colour_wanted(_Screen()) is wanted  # type: ignore[arg-type]


def test_sentences_of_the_server_have_the_readers_clock(run: Any, stub: Any, in_shanghai: None) -> None:
    reason = {**WHY, "text": "Maintenance lasts until 2026-11-23 14:05 UTC."}
    stub.jobs = [a_job("digits", "queued", reason=reason)]
    assert "until 2026-11-23 22:05+08:00." in run("get", "digits").stdout

    stub.fail("GET /nodes", problem(409, "conflict", "Booked until 2026-12-31 20:00 UTC."))
    assert "until 2027-01-01 04:00+08:00." in run("nodes").stderr


@pytest.mark.parametrize(
    ("variables", "language"),
    [
        ({"BERTH_LANG": "zh"}, "zh-CN"),
        ({"BERTH_LANG": "", "LC_ALL": "zh_CN.UTF-8"}, "zh-CN"),
        ({"BERTH_LANG": "en", "LC_ALL": "zh_CN.UTF-8"}, "en"),
        ({"BERTH_LANG": "", "LC_ALL": "", "LC_MESSAGES": "", "LANG": "fr_FR.UTF-8"}, "en"),
    ],
)
def test_the_server_is_asked_in_the_readers_language(run: Any, stub: Any, variables: dict[str, str], language: str) -> None:
    run("nodes", env=variables)

    assert stub.sent("GET /nodes")[0].headers["Accept-Language"] == language


# --- Operators --------------------------------------------------------------------------------------------------------


def test_an_announcement_has_two_languages_a_level_and_a_window(run: Any, stub: Any) -> None:
    words = ("announcements", "make", "Down at noon", "--zh", "中午停机", "--level", "warning", "--from", NOON, "--for", "2h")
    assert run(*words, "-t", "vision").exit_code == 0
    [request] = stub.sent("POST /announcements")
    assert json.loads(request.content) == {
        "text": "Down at noon",
        "text_zh": "中午停机",
        "level": "warning",
        "tenant": "vision",
        "starts_at": NOON,
        "ends_at": "2026-11-20T14:00:00Z",
    }


def test_maintenance_names_nodes_or_a_pool_and_has_one_end(run: Any, stub: Any) -> None:
    for words in (("node-1", "--pool", "a100"), ("node-1",), ("node-1", "--for", "2h", "--until", NOON), ("--for", "2h")):
        assert run("maintenance", "plan", *words).exit_code == 2
    assert not stub.sent("POST /maintenance")

    window = {"id": "w1", "node_count": 2, "starts_at": NOON, "ends_at": NOON}
    answer(stub, "POST /maintenance", window, 201)
    done = run("maintenance", "plan", "node-1", "node-2", "--from", NOON, "--for", "1d", "--drain", "--reason", "New disks")
    body = json.loads(stub.sent("POST /maintenance")[0].content)
    assert body["nodes"] == ["node-1", "node-2"]
    assert (body["starts_at"], body["ends_at"], body["drain"], body["reason"]) == (
        NOON,
        "2026-11-21T12:00:00Z",
        True,
        "New disks",
    )
    assert "Maintenance of 2 node(s)" in done.stderr


def test_a_tenant_is_disabled_only_after_a_yes(run: Any, stub: Any) -> None:
    plan = {"tenant": {"name": "vision", "slug": "v"}, "tenants": 1, "running": 2, "queued": 3, "jobs": 5, "stopped": 0}
    answer(stub, "POST /tenants/vision/disable", plan)
    refused = run("tenants", "disable", "vision", "--json")
    assert (refused.exit_code, "--yes" in refused.stderr) == (2, True)

    answer(stub, "POST /tenants/vision/disable", plan)
    answer(stub, "POST /tenants/vision/disable", {**plan, "stopped": 2})
    done = run("tenants", "disable", "vision", "--yes", "--stop-jobs", "--reason", "Unpaid", "--json")
    first, _dry, real = stub.sent("POST /tenants/vision/disable")
    assert (first.url.params["dry_run"], "dry_run" in real.url.params) == ("true", False)
    assert json.loads(real.content) == {"stop_jobs": True, "reason": "Unpaid"}
    assert json.loads(done.stdout)["stopped"] == 2


def test_deleting_a_tenant_takes_its_name_and_the_plan_that_was_shown(run: Any, stub: Any) -> None:
    plan = {"tenant": {"name": "vision", "slug": "v"}, "plan": "p-1"}
    answer(stub, "POST /tenants/vision/delete", plan)
    refused = run("tenants", "delete", "vision", "--json")
    assert (refused.exit_code, "--confirm NAME" in refused.stderr) == (2, True)

    answer(stub, "POST /tenants/vision/delete", plan)
    answer(stub, "POST /tenants/vision/delete", plan)
    assert run("tenants", "delete", "vision", "--confirm", "vision", "--json").exit_code == 0
    real = stub.sent("POST /tenants/vision/delete")[-1]
    assert (json.loads(real.content), dict(real.url.params)) == ({"confirm": "vision"}, {"plan": "p-1"})


def test_a_members_role_changes_only_where_one_was_named(run: Any, stub: Any) -> None:
    conflict = problem(409, "conflict", "alice is a member already.")
    stub.fail("POST /tenants/[^/]+/members", conflict)
    assert run("members", "add", "alice").exit_code == 1
    assert not stub.sent("PATCH .*")

    stub.fail("POST /tenants/[^/]+/members", problem(409, "conflict", "alice is a member already."))
    answer(stub, "PATCH /tenants/[^/]+/members/.*", {"user": USER, "role": "viewer"})
    done = run("members", "add", "alice", "--role", "viewer")
    assert "alice is viewer of vision." in done.stderr
    assert json.loads(stub.sent("PATCH .*")[0].content) == {"role": "viewer"}


# --- The program itself -----------------------------------------------------------------------------------------------


def _berth(words: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": str(Path(berth.__file__).parents[1]), "PATH": "/usr/bin:/bin", "BERTH_LANG": "en", **variables}
    environment |= {name: value for name, value in os.environ.items() if name.startswith("XDG_")}
    return subprocess.run([sys.executable, "-m", "berth", *words], capture_output=True, text=True, env=environment, timeout=60)


def test_the_shell_completes_commands_and_subcommands() -> None:
    completed = {
        line: _berth([], _BERTH_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(len(line.split()) - 1)).stdout.split()
        for line in ("berth su", "berth tokens re")
    }

    assert completed == {"berth su": ["submit"], "berth tokens re": ["revoke"]}


def test_the_program_runs_as_a_module_and_ends_with_its_code() -> None:
    assert _berth(["--version"]).stdout == f"berth {berth.__version__}\n"
    refused = _berth(["ps"])
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "berth login --server" in refused.stderr


def test_a_server_that_refuses_connections_is_named(run: Any) -> None:
    done = _berth(["version"], BERTH_SERVER="http://127.0.0.1:1", BERTH_TOKEN=TOKEN)

    assert done.returncode == 0
    assert "no answer" in done.stdout
    assert "http://127.0.0.1:1 does not answer" in done.stderr


def test_a_terminal_without_unicode_gets_a_question_mark_and_no_trace() -> None:
    done = _berth(["get", "数字"], PYTHONIOENCODING="ascii", BERTH_LANG="zh", PYTHONUTF8="0", LC_ALL="C")

    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "?" in done.stderr


# --- Without blocking -------------------------------------------------------------------------------------------------


async def test_the_async_client_reads_stops_reruns_and_follows(stub: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("berth.limits.POLL_SECONDS", 0.0)
    stub.jobs = [a_job("digits", "running")]
    stub.logs = [a_log(f"line {number}\n", number * 7) for number in range(5)]
    async with berth.AsyncClient(SERVER, TOKEN, http=stub.transport()) as client:
        job_id = (await client.get("digits"))["id"]
        assert (await client.whoami())["user"]["name"] == "alice"
        read = [line.text async for line in client.logs(job_id, attempt=1)]
        assert read == [f"line {number}" for number in range(5)]
        stub.fail(r"GET /jobs/[^/]+/logs", None, None, None, lambda request: stub.jobs[0].update(state="succeeded"))
        assert [line.text async for line in client.logs(job_id, attempt=1, follow=True)] == read
        assert (await client.stop(job_id, grace_seconds=5, reason="enough"))["desired"] == "stop"
        assert (await client.rerun(job_id, changes={"name": "again"}))["id"] != job_id
        assert (await client.request("GET", "/nodes"))["items"]
    [stop], [rerun] = (stub.sent(rf"POST /jobs/[^/]+/{verb}") for verb in ("stop", "rerun"))
    assert json.loads(stop.content) == {"grace_seconds": 5, "reason": "enough"}
    assert json.loads(rerun.content) == {"changes": {"name": "again"}}


async def test_the_async_client_pages_gives_up_waiting_and_refuses_a_folder(stub: Any) -> None:
    stub.jobs = [a_job(number=number) for number in range(1, 8)]
    stub.page_size = 3
    async with berth.AsyncClient(SERVER, TOKEN, http=stub.transport()) as client:
        assert len([job async for job in client.list()]) == 7
        assert len([job async for job in client.list(limit=4)]) == 4
        with pytest.raises(berth.WaitTimeout, match="it goes on"):
            await client.wait(stub.jobs[0]["id"], timeout=0)
        with pytest.raises(ValueError, match=r"code\.path needs an upload"):
            await client.submit({"command": "true", "code": {"path": "."}})
    assert [request.url.params.get("cursor") for request in stub.sent("GET /jobs")] == [None, "3", "6", None, "3"]


async def test_the_async_client_asks_again_with_the_same_key(stub: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("berth.limits.BACKOFF_SECONDS", 0.0)
    stub.fail("POST /jobs", httpx2.ConnectError("refused"), problem(503, "unavailable", "Later."))
    async with berth.AsyncClient(SERVER, TOKEN, http=stub.transport()) as client:
        await client.submit({"command": "true"})

    assert (len(stub.jobs), len({request.headers["Idempotency-Key"] for request in stub.sent("POST /jobs")})) == (1, 1)
