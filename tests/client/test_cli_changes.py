"""Every command that changes something: the one request that it sends, its answer for people and programs, and its refusals."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from client_stub import CPU_POOL, NOON, POOL, QUEUE, TENANT, USER, a_job, problem

SLUG = TENANT["slug"]
JOB = a_job("train", "queued")
NODE = "0198c000-0000-7000-8000-000000000001"
SPRING = "2027-03-01T08:00Z"
EDIT = {"id": "e-1", "state": "applied", "effective_from": NOON, "changes": [{"queue": QUEUE}]}
BOOKING = {"id": "b-1", "gpu_millis": 4000, "pool": POOL, "queue": QUEUE, "starts_at": NOON, "ends_at": NOON}
WINDOW = {"id": "w-1", "node_count": 2, "starts_at": NOON, "ends_at": NOON}
NOTICE = {"id": "a-1", "text": "Hi"}
BUDGET = {"queue": QUEUE, "kind": "money", "amount": 10_000_000, "currency": "EUR", "percent": 40}
REQUESTED = {"id": "p-1", "priority_name": "high"}
MOVED = {"job": {"name": "train", "place": 3}, "moved": 2, "plan": "plan-7"}
RULES = {"max_jobs": None, "max_containers": 64, "effective_max_runtime_seconds": 7200}
PRICES = {"items": [{"id": "pr-1", "pool": POOL, "resource": "gpu_millis", "micros_per_hour": 1, "currency": "EUR",
                     "effective_at": NOON, "state": "to come"}]}  # fmt: skip
TEMPLATE = {"items": [{"id": "t-1", "name": "digits", "parameters": []}], "next": None}
TESTED = {"id": "t-1", "name": "digits", "test": {"job": {"id": "j-9"}}}
DONE = {"id": "x", "state": "withdrawn", "name": "x"}


@pytest.fixture
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def answer(stub: Any, line: str, body: Any, status: int = 200) -> None:
    stub.fail(line, httpx2.Response(status, json=copy.deepcopy(body)))


# Words of the command; method and path; the answer; the body that is sent; what of the answer is said to people.
Change = tuple[tuple[str, ...], str, Any, Any, tuple[str, ...]]
CHANGES: list[Change] = [
    (("stop", "train"), f"POST /jobs/{JOB['id']}/stop", {**JOB, "state": "stopped"}, {}, ("train",)),
    (("stop", "train", "--grace", "1m30s"), f"POST /jobs/{JOB['id']}/stop", JOB, {"grace_seconds": 90}, ("train", "queued")),
    (("hold", "train"), f"PATCH /jobs/{JOB['id']}", {**JOB, "hold": True}, {"hold": True}, ("train", "queued")),
    (("release", "train"), f"PATCH /jobs/{JOB['id']}", JOB, {"hold": False}, ("train", "queued")),
    (("retry-now", "train"), f"PATCH /jobs/{JOB['id']}", JOB, {"retry_now": True}, ("train",)),
    (("move", "train"), f"POST /jobs/{JOB['id']}/move", MOVED, {"among": "own", "to": "first"}, ("train", "3")),
    (("move", "train", "--first"), f"POST /jobs/{JOB['id']}/move", MOVED, {"among": "own", "to": "first"}, ("train",)),
    (("bump", "train", "--last"), f"POST /jobs/{JOB['id']}/move", MOVED, {"among": "own", "to": "last"}, ("train",)),
    (("move", "train", "--after", "eval"), f"POST /jobs/{JOB['id']}/move", MOVED, {"among": "own", "after": "eval"}, ("train",)),
    (
        ("move", "train", "--before", "eval", "--everybody"),
        f"POST /jobs/{JOB['id']}/move",
        {**MOVED, "job": {"name": "train", "place": None}},
        {"among": "queue", "before": "eval"},
        ("train",),
    ),
    (("priority", "set", "train", "0"), f"PATCH /jobs/{JOB['id']}", {**JOB, "priority": 0}, {"priority": 0}, ("train", "0")),
    (
        ("priority", "request", "train", "urgent", "-m", "Deadline."),
        "POST /priority-requests",
        REQUESTED,
        {"job": JOB["id"], "priority": "urgent", "reason": "Deadline."},
        ("high",),
    ),
    (
        ("priority", "request", "--me", "high", "--from", SPRING, "--for", "2d"),
        "POST /priority-requests",
        REQUESTED,
        {"priority": "high", "starts_at": "2027-03-01T08:00:00Z", "ends_at": "2027-03-03T08:00:00Z", "reason": ""},
        ("high",),
    ),
    (
        ("priority", "request", "--user", "bob", "700", "--from", SPRING, "--for", "1h", "-t", "lab"),
        "POST /priority-requests",
        REQUESTED,
        {
            "priority": 700,
            "starts_at": "2027-03-01T08:00:00Z",
            "ends_at": "2027-03-01T09:00:00Z",
            "user": "bob",
            "reason": "",
            "tenant": "lab",
        },
        ("high",),
    ),
    (("priority", "approve", "p-1"), "POST /priority-requests/p-1/approve", DONE, {"answer": ""}, ()),
    (("priority", "deny", "p-1", "--answer", "不行。"), "POST /priority-requests/p-1/deny", DONE, {"answer": "不行。"}, ()),
    (("priority", "withdraw", "p-1"), "DELETE /priority-requests/p-1", DONE, None, ("withdrawn",)),
    (
        ("reserve", "4", "--pool", "a100", "--from", SPRING, "--for", "10h", "-q", "nlp", "--comment", "Demo."),
        "POST /bookings",
        BOOKING,
        {
            "pool": "a100",
            "gpu_millis": 4000,
            "starts_at": "2027-03-01T08:00:00Z",
            "ends_at": "2027-03-01T18:00:00Z",
            "queue": "nlp",
            "comment": "Demo.",
        },
        ("4", "a100"),
    ),
    (
        ("reserve", "make", "0.5", "--pool", "a100", "--from", SPRING, "--until", "2027-03-02T00:00Z"),
        "POST /bookings",
        {**BOOKING, "pool": None},
        {
            "pool": "a100",
            "gpu_millis": 500,
            "starts_at": "2027-03-01T08:00:00Z",
            "ends_at": "2027-03-02T00:00:00Z",
            "comment": "",
        },
        ("a100",),
    ),
    (("reserve", "cancel", "b-1"), "DELETE /bookings/b-1", DONE, None, ()),
    (
        ("queues", "create", "nlp", "--parent", "vision"),
        "POST /queues",
        {"id": "q-1", "path": "vision/nlp"},
        {"name": "nlp", "parent": "vision"},
        ("vision/nlp",),
    ),
    (
        ("queues", "rename", "vision", "视觉"),
        f"PATCH /queues/{QUEUE['id']}",
        {**QUEUE, "name": "视觉"},
        {"name": "视觉"},
        ("vision", "视觉"),
    ),
    (
        ("queues", "edit", "vision", "--pool", "cpu", "--weight", "cpu=2", "--weight", "memory=1"),
        "POST /quota/edits",
        EDIT,
        {
            "changes": [
                {"queue": QUEUE["id"], "pool": "cpu", "resource": "cpu_millis", "weight": 2},
                {"queue": QUEUE["id"], "pool": "cpu", "resource": "memory_bytes", "weight": 1},
            ],
            "dry_run": False,
            "comment": "",
        },
        ("1",),
    ),
    (
        ("queues", "edit", "vision", "--pool", "a100", "--ceiling", "gpu=none", "--ask"),
        "POST /quota/requests",
        DONE,
        {"changes": [{"queue": QUEUE["id"], "pool": "a100", "resource": "gpu_millis", "ceiling": None}], "reason": ""},
        (),
    ),
    (("queues", "cancel", "e-1"), "DELETE /quota/edits/e-1", DONE, None, ()),
    (
        ("queues", "approve", "r-1", "--from", SPRING),
        "POST /quota/requests/r-1/approve",
        DONE,
        {"answer": "", "effective_from": "2027-03-01T08:00:00Z"},
        (),
    ),
    (("queues", "deny", "r-1"), "POST /quota/requests/r-1/deny", DONE, {"answer": ""}, ()),
    (("queues", "withdraw", "r-1"), "DELETE /quota/requests/r-1", DONE, None, ()),
    (
        ("queues", "runtime", "vision", "2h"),
        f"PUT /queues/{QUEUE['id']}/rules",
        RULES,
        {"max_runtime_seconds": 7200},
        ("vision", "2h"),
    ),
    (
        ("queues", "runtime", "vision", "none", "--default", "30m"),
        f"PUT /queues/{QUEUE['id']}/rules",
        {"effective_max_runtime_seconds": None, "effective_default_runtime_seconds": 1800},
        {"max_runtime_seconds": None, "default_runtime_seconds": 1800},
        ("vision", "30m"),
    ),
    (
        ("queues", "counts", "vision", "--containers", "0"),
        f"PUT /queues/{QUEUE['id']}/rules",
        {"max_jobs": 1, "max_containers": 0},
        {"max_containers": 0},
        ("1", "0"),
    ),
    (
        ("nodes", "cordon", "node-1"),
        f"PATCH /nodes/{NODE}",
        {"id": NODE, "name": "node-1"},
        {"cordoned": True, "cordon_reason": ""},
        ("node-1",),
    ),
    (
        ("nodes", "uncordon", "node-1"),
        f"PATCH /nodes/{NODE}",
        {"id": NODE, "name": "node-1", "ready": True},
        {"cordoned": False},
        ("node-1",),
    ),
    (
        ("nodes", "taint", "node-1", "fpga"),
        f"PATCH /nodes/{NODE}",
        {"id": NODE, "name": "node-1", "taints": {"fpga": "keep-out"}},
        {"taints": {"fpga": "keep-out"}},
        ("node-1", "fpga"),
    ),
    (
        ("nodes", "untaint", "node-1", "fpga"),
        f"PATCH /nodes/{NODE}",
        {"id": NODE, "name": "node-1", "taints": {}},
        {"taints": {}},
        ("node-1",),
    ),
    (("pools", "edit", "a100", "--gpu-shares", "off"), f"PATCH /pools/{POOL['id']}", POOL, {"gpu_shares": None}, ("a100",)),
    (
        ("pools", "edit", "a100", "--weight", "pack=2", "--weight", "spread=0", "--levels", "rack, "),
        f"PATCH /pools/{POOL['id']}",
        POOL,
        {"weights": {"pack": 2, "spread": 0}, "levels": ["rack"]},
        ("a100",),
    ),
    (
        ("pools", "edit", "a100", "--shared-gpus-max", "default", "--name", "A"),
        f"PATCH /pools/{POOL['id']}",
        {**POOL, "name": "A"},
        {"name": "A", "shared_devices_max": None},
        ("a100", "A"),
    ),
    (
        ("maintenance", "plan", "n-1", "n-2", "--from", SPRING, "--for", "2h", "--drain", "--reason", "BIOS."),
        "POST /maintenance",
        WINDOW,
        {
            "starts_at": "2027-03-01T08:00:00Z",
            "ends_at": "2027-03-01T10:00:00Z",
            "drain": True,
            "reason": "BIOS.",
            "nodes": ["n-1", "n-2"],
        },
        ("2",),
    ),
    (
        ("maintenance", "plan", "--pool", "a100", "--from", SPRING, "--until", "2027-03-02T00:00Z"),
        "POST /maintenance",
        WINDOW,
        {"starts_at": "2027-03-01T08:00:00Z", "ends_at": "2027-03-02T00:00:00Z", "pool": "a100", "drain": False, "reason": ""},
        ("2",),
    ),
    (("maintenance", "cancel", "w-1"), "DELETE /maintenance/w-1", DONE, None, ()),
    (
        ("announcements", "make", "Hi", "--zh", "好", "--level", "critical", "--from", SPRING),
        "POST /announcements",
        NOTICE,
        {"text": "Hi", "text_zh": "好", "level": "critical", "starts_at": "2027-03-01T08:00:00Z"},
        ("Hi",),
    ),
    (
        ("announcements", "make", "Hi", "-t", "lab", "--until", SPRING),
        "POST /announcements",
        NOTICE,
        {"text": "Hi", "text_zh": "", "level": "info", "tenant": "lab", "ends_at": "2027-03-01T08:00:00Z"},
        ("Hi",),
    ),
    (("announcements", "delete", "a-1", "-y"), "DELETE /announcements/a-1", {}, None, ()),
    (("features", "enable", "chat"), "PUT /features/chat", {}, {"enabled": True, "tenant": None}, ("chat",)),
    (("features", "disable", "chat", "-t", "lab"), "PUT /features/chat", {}, {"enabled": False, "tenant": "lab"}, ("chat",)),
    (("features", "inherit", "chat"), "PUT /features/chat", {}, {"enabled": None, "tenant": None}, ("chat",)),
    (
        ("prices", "set", "a100", "-g", "2.5", "-c", "0", "-m", "0.000001", "--from", SPRING),
        "POST /prices",
        PRICES,
        {
            "pool": "a100",
            "effective_at": "2027-03-01T08:00:00Z",
            "gpu_hour_micros": 2_500_000,
            "cpu_hour_micros": 0,
            "memory_gib_hour_micros": 1,
        },
        ("a100",),
    ),
    (("prices", "withdraw", "pr-1"), "DELETE /prices/pr-1", {}, None, ()),
    (
        ("budgets", "set", "vision", "--money", "10", "--warn", "50", "--warn", "90", "--stop"),
        f"PUT /queues/{QUEUE['id']}/budget",
        BUDGET,
        {"kind": "money", "amount": 10_000_000, "stops": True, "warn_at": [50, 90]},
        ("vision", "10.00 EUR", "40 %"),
    ),
    (
        ("budgets", "set", "vision", "--gpu-hours", "1.5"),
        f"PUT /queues/{QUEUE['id']}/budget",
        {**BUDGET, "kind": "gpu_time", "amount": 5_400_000},
        {"kind": "gpu_time", "amount": 5_400_000, "stops": False},
        ("vision", "1.5"),
    ),
    (("budgets", "remove", "vision", "-y"), f"DELETE /queues/{QUEUE['id']}/budget", {}, None, ("vision",)),
    (
        ("tenants", "create", "lab", "--parent", "root", "--description", "实验室"),
        "POST /tenants",
        {"slug": "t-9"},
        {"name": "lab", "parent": "root", "description": "实验室"},
        ("lab", "t-9"),
    ),
    (("tenants", "enable", "lab"), "POST /tenants/lab/enable", {"name": "lab", "slug": "t-9"}, {}, ("lab",)),
    (
        ("members", "add", "bob"),
        f"POST /tenants/{SLUG}/members",
        {"role": "member"},
        {"user": "bob", "role": "member"},
        ("bob", "vision"),
    ),
    (("members", "remove", "alice", "-y"), f"DELETE /tenants/{SLUG}/members/{USER['id']}", {}, None, ("alice", "vision")),
    (("secrets", "delete", "HF", "-y"), f"DELETE /tenants/{SLUG}/secrets/HF", {}, None, ("HF",)),
    (
        ("members", "remove", "alice", "-y", "--stop-jobs"),
        f"DELETE /tenants/{SLUG}/members/{USER['id']}",
        {},
        None,
        ("alice", "vision"),
    ),
    (
        ("members", "hand-over", "bob", "alice"),
        f"POST /tenants/{SLUG}/members/bob/hand-over",
        {"user": {"name": "bob"}, "to": {"name": "alice"}, "handed_over": [{"kind": "waiting", "count": 3}]},
        {"to": "alice"},
        ("bob", "alice", "3"),
    ),
    (("queues", "delete", "vision", "-y"), f"DELETE /queues/{QUEUE['id']}", {}, None, ("vision",)),
    (("users", "disable", "alice", "-y"), f"PATCH /users/{USER['id']}", USER, {"is_active": False}, ("alice",)),
    (
        ("users", "disable", "alice", "-y", "--hand-to", "bob"),
        f"PATCH /users/{USER['id']}",
        USER,
        {"is_active": False, "hand_to": "bob"},
        ("alice",),
    ),
    (("users", "enable", USER["id"]), f"PATCH /users/{USER['id']}", USER, {"is_active": True}, (USER["id"],)),
    (("tokens", "revoke", "laptop", "-y"), "DELETE /tokens/0198c000-0000-7000-8000-000000000002", {}, None, ("laptop",)),
    (("tokens", "revoke", "t/9", "-y"), "DELETE /tokens/t%2F9", {}, None, ("t/9",)),
    (
        ("notify", "add", "--mail", "--on", "failed", "--all-jobs"),
        "POST /subscriptions",
        {"id": "s-1"},
        {"channel": "mail", "kinds": ["failed"], "jobs": "all", "tenant": SLUG},
        (),
    ),
    (
        ("notify", "edit", "s-1", "--resume", "--on", "stopped"),
        "PATCH /subscriptions/s-1",
        {"id": "s-1"},
        {"kinds": ["stopped"], "is_active": True},
        (),
    ),
    (("notify", "remove", "s-1", "-y"), "DELETE /subscriptions/s-1", {}, None, ()),
    (("notify", "test", "s-1"), "POST /subscriptions/s-1/test", {"id": "d-1"}, {}, ()),
    (("notify", "retry", "d-1"), "POST /deliveries/d-1/retry", {"id": "d-1"}, {}, ()),
    (("images", "delete", "jax-cpu", "-y"), "DELETE /images/0198c000-0000-7000-8000-000000000003", {}, None, ("jax-cpu",)),
    (("volumes", "create", "数据"), "POST /volumes", {"id": "v-1", "name": "数据"}, {"name": "数据"}, ("数据",)),
    (("templates", "test", "digits", "-q", "nlp"), "POST /templates/t-1/test", TESTED, {"queue": "nlp"}, ("digits", "j-9")),
]
IDS = [" ".join(words) for words, *_rest in CHANGES]


def given(stub: Any, line: str, document: Any, times: int = 1) -> None:
    stub.jobs = [copy.deepcopy(JOB)]
    for _time in range(times):
        stub.fail("GET /templates", httpx2.Response(200, json=TEMPLATE))
        stub.fail(line, httpx2.Response(204) if document == {} else httpx2.Response(200, json=copy.deepcopy(document)))


def writes(stub: Any) -> list[httpx2.Request]:
    return [request for request in stub.requests if request.method != "GET"]


@pytest.mark.parametrize(("words", "line", "document", "body", "said"), CHANGES, ids=IDS)
def test_a_change_is_one_request_and_one_sentence(
    run: Any, stub: Any, in_utc: None, words: tuple[str, ...], line: str, document: Any, body: Any, said: tuple[str, ...]
) -> None:
    given(stub, line, document)
    done = run(*words)
    assert done.exit_code == 0, done.output
    [request] = writes(stub)
    assert stub.sent(line) == [request]
    assert (json.loads(request.content) if request.content else None) == body
    first = done.stderr.splitlines()[0]
    assert [part for part in said if part not in first] == []
    assert done.stdout == "" or words[0] == "prices", "people read it beside the data"


@pytest.mark.parametrize(("words", "line", "document", "body", "said"), CHANGES, ids=IDS)
def test_a_change_is_told_to_programs_as_data_and_in_chinese_to_those_who_read_it(
    run: Any, stub: Any, words: tuple[str, ...], line: str, document: Any, body: Any, said: tuple[str, ...]
) -> None:
    given(stub, line, document)
    done = run(*words, "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    shown = json.loads(done.stdout)
    if document and words[0] not in ("stop", "hold", "release", "retry-now", "prices"):
        assert {key: shown[key] for key in document} == document
    assert len(writes(stub)) == 1

    given(stub, line, document)
    chinese = run(*words, env={"BERTH_LANG": "zh"})
    assert chinese.exit_code == 0, chinese.output
    assert not chinese.stderr.isascii()
    assert [part for part in said if part not in ("queued", "withdrawn") and part not in chinese.stderr] == []


@pytest.mark.parametrize(("words", "line", "document", "body", "said"), CHANGES, ids=IDS)
def test_a_change_that_is_refused_ends_with_its_code_and_says_nothing_of_success(
    run: Any, stub: Any, words: tuple[str, ...], line: str, document: Any, body: Any, said: tuple[str, ...]
) -> None:
    refusals = [
        (403, "forbidden", 3),
        (404, "not_found", 4),
        (422, "invalid_input", 2),
        (422, "quota_exceeded", 5),
        (412, "plan_changed", 1),
    ]
    status, code, ends = refusals[len(" ".join(words)) % len(refusals)]
    given(stub, "GET /nothing", {})
    stub.fail(line, problem(status, code, "It is refused.", hint="Ask."))
    done = run(*words)
    assert (done.exit_code, done.stdout) == (ends, ""), done.output
    assert "It is refused." in done.stderr
    assert "✓" not in done.stderr
    assert len(writes(stub)) == 1, "a refusal is not tried again"


# --- Before anything is sent ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ("stop",),
        ("stop", "train", "--grace", "soon"),
        ("move", "train", "--before", "a", "--after", "b"),
        ("move", "train", "--first", "--before", "a"),
        ("priority", "request", "train"),
        ("priority", "request", "train", "high", "--for", "2d"),
        ("priority", "request", "train", "high", "--from", SPRING),
        ("priority", "request", "--me", "high"),
        ("priority", "request", "--me", "train", "high", "--for", "2d"),
        ("priority", "request", "--me", "--for", "2d"),
        ("reserve", "4", "--pool", "a100"),
        ("reserve", "4", "--pool", "a100", "--for", "1h", "--until", SPRING),
        ("reserve", "4", "--for", "1h"),
        ("reserve", "four", "--pool", "a100", "--for", "1h"),
        ("queues", "limit", "vision", "--pool", "a100"),
        ("queues", "limit", "vision", "--pool", "a100", "--gpu", "lots"),
        ("queues", "counts", "vision", "--jobs", "-1"),
        ("queues", "counts", "vision", "--jobs", "9999999999999999"),
        ("queues", "cap", "--jobs", "1.5"),
        ("queues", "approve", "r-1", "--from", "soon"),
        ("nodes", "taint", "node-1"),
        ("nodes", "taint", "node-1", "=avoid"),
        ("nodes", "taint", "node-1", "fpga="),
        ("pools", "edit", "a100"),
        ("pools", "edit", "a100", "--gpu-shares", "yes"),
        ("pools", "edit", "a100", "--weight", "pack"),
        ("pools", "edit", "a100", "--weight", "=1"),
        ("pools", "edit", "a100", "--shared-gpus-max", "１"),
        ("maintenance", "plan", "--for", "2h"),
        ("maintenance", "plan", "n-1", "--pool", "a100", "--for", "2h"),
        ("maintenance", "plan", "n-1"),
        ("maintenance", "plan", "n-1", "--for", "2h", "--until", SPRING),
        ("announcements", "make", "Hi", "--for", "2h", "--until", SPRING),
        ("prices", "set", "a100"),
        ("prices", "set", "a100", "--gpu", "-1"),
        ("budgets", "set", "vision"),
        ("budgets", "set", "vision", "--money", "1", "--gpu-hours", "1"),
        ("budgets", "set", "vision", "--money", "1", "--warn", "much"),
        ("tokens", "create", "ci", "--expires", "never"),
        ("notify", "edit", "s-1"),
        ("images", "build", "x"),
        ("images", "build", "x", "-r", "absent.txt"),
        ("images", "build", "x", "-r", "absent.txt", "--reference", "y"),
        ("users", "import", "absent.csv"),
        ("budgets", "remove", "vision"),
        ("images", "delete", "jax-cpu"),
        ("secrets", "set", "HF"),
        ("secrets", "delete", "HF"),
        ("completion", "powershell"),
        ("ps", "--watch"),
        ("metrics", "train", "--watch"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_meant_changes_nothing_and_ends_with_2(run: Any, stub: Any, words: tuple[str, ...]) -> None:
    stub.jobs = [copy.deepcopy(JOB)]
    refused = run(*words)
    assert (refused.exit_code, refused.stdout, writes(stub)) == (2, "", []), refused.output
    assert "Traceback" not in refused.stderr

    told = run(*words, "--json")
    if told.stderr.startswith("{"):  # What the parser of the command line refuses is told before any form is known.
        assert json.loads(told.stderr)["exit_code"] == 2


# --- Several things at once -------------------------------------------------------------------------------------------


def test_all_jobs_are_found_before_the_first_is_stopped(run: Any, stub: Any) -> None:
    stub.jobs = [a_job("a", "running", 1), a_job("b", "running", 2)]
    assert run("stop", "a", "absent", "b").exit_code == 4
    assert writes(stub) == []
    done = run("stop", "a", "b", "--json")
    assert [row["name"] for row in json.loads(done.stdout)] == ["a", "b"]
    assert len(writes(stub)) == 2


def test_a_cap_of_all_users_is_the_line_without_a_user(run: Any, stub: Any) -> None:
    for caps, sent in (
        ([], [{"user": None, "jobs": 3}]),
        ([{"user": None, "gpu_millis": 1000, "jobs": 9, "containers": None}],
         [{"user": None, "gpu_millis": 1000, "jobs": 3, "containers": None}]),
        ([{"user": USER, "gpu_millis": 1, "jobs": None, "containers": None}],
         [{"user": USER["id"], "gpu_millis": 1, "jobs": None, "containers": None}, {"user": None, "jobs": 3}]),
    ):  # fmt: skip
        answer(stub, f"GET /tenants/{SLUG}/caps", {"items": caps})
        answer(stub, f"PUT /tenants/{SLUG}/caps", {"items": []})
        assert run("queues", "cap", "--jobs", "3").exit_code == 0
        assert json.loads(stub.sent("PUT .*")[-1].content) == sent


def test_a_limit_below_what_is_held_is_warned_of_to_people_alone(run: Any, stub: Any) -> None:
    people = run("queues", "limit", "vision", "--pool", "a100", "--gpu", "4")
    assert "! " in people.stderr
    assert "GPU 4" in people.stderr
    assert "! " not in run("queues", "limit", "vision", "--pool", "cpu", "--memory", "1Gi").stderr, "nothing is held there"
    assert run("queues", "limit", "vision", "--pool", "a100", "--gpu", "4", "--json").stderr == ""
    limits = {entry["pool"]: entry for entry in json.loads(stub.sent("PUT /queues/.+/limits")[-1].content)}
    assert limits[CPU_POOL["id"]]["memory_bytes"] == 1 << 30, "the other pool keeps what it was given before"
