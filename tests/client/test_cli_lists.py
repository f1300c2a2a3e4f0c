"""Every list of the command line: what it asks for, its rows, its empty answer, its pages, its names, and its Chinese."""

from __future__ import annotations

import copy
import json
from typing import Any

import httpx2
import pytest
import yaml
from client_stub import CLUSTER, CPU_POOL, LISTS, NOON, POOL, QUEUE, TENANT, USER, a_job, problem

from berth.cli.messages_zh import MESSAGES

SLUG = TENANT["slug"]
ID = "0198c000-0000-7000-8000-00000000abcd"
EDIT = {
    "id": "edit-1",
    "state": "pending",
    "effective_from": NOON,
    "comment": "Spring.",
    "created_by": USER,
    "changes": [{"queue": QUEUE, "pool": POOL, "resource": "gpu_millis", "values": {"ceiling": 16_000, "weight": 3}}],
}
REQUEST = {
    "id": "request-1",
    "state": "denied",
    "tenant": TENANT,
    "changes": [{}, {}],
    "effective_from": None,
    "created_by": USER,
    "reason": "",
    "decided_by": None,
}
BOOKING = {
    "id": "booking-1",
    "state": "held",
    "gpu_millis": 2500,
    "pool": POOL,
    "queue": QUEUE,
    "created_by": USER,
    "starts_at": NOON,
    "ends_at": NOON,
}
PRIORITY = {
    "id": "p-1",
    "state": "approved",
    "priority_name": "urgent",
    "job": {"name": "train"},
    "created_by": USER,
    "reason": "Deadline.",
    "decided_by": {"name": "bob"},
}
NOTICE = {"id": "a-1", "level": "warning", "everybody": False, "tenant": TENANT, "ends_at": None, "text": "Fans are cleaned."}
WINDOW = {
    "id": "w-1",
    "state": "planned",
    "pool": None,
    "node_count": 3,
    "starts_at": NOON,
    "ends_at": NOON,
    "drain": True,
    "reason": "Firmware.",
}
FEATURE = {"name": "chat", "enabled": True, "setting": None, "title": "Chat"}
SHARE = {
    "queue": QUEUE,
    "pool": POOL,
    "resource": "gpu_millis",
    "promised": 36_000_000,
    "deserved": 36_000_000,
    "requested": 18_000_000,
    "due": 14_400_000,
    "delivered": 7_200_000,
    "shortfall": 7_200_000,
    "fair": 10_800_000,
    "deficit": 3_600_000,
    "delivered_ppm": 200_000,
    "fair_ppm": 300_000,
}
TEMPLATE = {"id": ID, "name": "digits", "title": "Digits", "tenant": TENANT, "tags": ["jax", "cpu"], "uses": 3}
DELIVERY = {"id": "d-1", "created_at": NOON, "kind": "job.failed", "state": "sent", "tries": 2, "last_error": None}
CAP = {"user": USER, "gpu_millis": 500, "jobs": 0, "containers": None}
HELD = {
    "tenant": TENANT,
    "kind": "booked",
    "gpu_milli_seconds": 3_600_000,
    "cpu_milli_seconds": 0,
    "micros": 1_250_000,
}

# Words of the command; what it asks; one row of the answer; what of the row is shown; what `-o name` prints.
Listed = tuple[tuple[str, ...], str, dict[str, Any], tuple[str, ...], str]
LISTED: list[Listed] = [
    (("ps", "-a"), "GET /jobs", a_job("digits", "failed"), ("digits", "failed"), a_job("digits")["id"]),
    (("nodes",), "GET /nodes", LISTS["nodes"][0], ("node-1", "a100", "2 / 8", "9 / 64", "40 GiB / 512 GiB"), "node-1"),
    (("pools",), "GET /pools", LISTS["pools"][0], ("a100", "local", "1 / 1", "4 GPU", "33%"), "a100"),
    (("clusters",), "GET /clusters", LISTS["clusters"][0], ("local", "reachable"), "local"),
    (("queues",), "GET /queues", {**LISTS["queues"][0], "path": "vision/nlp"}, ("vision/nlp",), "vision"),
    (("queues", "edits"), "GET /quota/edits", EDIT, ("edit-1", "alice", "ceiling 16, weight 3"), "edit-1"),
    (("queues", "requests"), "GET /quota/requests", REQUEST, ("request-1", "vision", "2", "alice"), "request-1"),
    (("queues", "caps"), f"GET /tenants/{SLUG}/caps", CAP, ("alice", "0.5", "0", "none"), "alice"),
    (("reserve", "list"), "GET /bookings", BOOKING, ("booking-1", "2.5", "a100", "vision", "alice"), "booking-1"),
    (("priority",), "GET /priority-requests", PRIORITY, ("p-1", "urgent", "train", "Deadline.", "bob"), "p-1"),
    (("images",), "GET /images", LISTS["images"][0], ("jax-cpu", "python", "ready"), "jax-cpu"),
    (("templates",), "GET /templates", TEMPLATE, ("digits", "Digits", "jax, cpu", "3"), "digits"),
    (("tenants",), "GET /tenants", LISTS["tenants"][0], ("vision", SLUG, "Cameras"), SLUG),
    (("members",), f"GET /tenants/{SLUG}/members", LISTS["members"][0], ("alice", "manager"), "alice"),
    (("secrets",), f"GET /tenants/{SLUG}/secrets", LISTS["secrets"][0], ("HF_TOKEN",), "HF_TOKEN"),
    (("users",), "GET /users", LISTS["users"][0], ("alice", "alice@example.org"), USER["id"]),
    (("audit",), "GET /audit", LISTS["audit"][0], ("alice", "job.submit", "job digits"), LISTS["audit"][0]["id"]),
    (("tokens",), "GET /tokens", LISTS["tokens"][0], ("laptop", "bth_te", "read, jobs"), LISTS["tokens"][0]["id"]),
    (("notify",), "GET /subscriptions", LISTS["subscriptions"][0], ("mail", "failed"), LISTS["subscriptions"][0]["id"]),
    (("notify", "log"), "GET /deliveries", DELIVERY, ("job.failed", "2"), "d-1"),
    (("announcements",), "GET /announcements", NOTICE, ("a-1", "vision", "Fans are cleaned."), "a-1"),
    (("maintenance",), "GET /maintenance", WINDOW, ("w-1", "3", "yes", "Firmware."), "w-1"),
    (("features",), "GET /features", FEATURE, ("chat", "on", "Chat"), "chat"),
    (("prices",), "GET /prices", LISTS["prices"][0], ("a100", "2.50 EUR"), LISTS["prices"][0]["id"]),
    (("budgets",), "GET /budgets", LISTS["budgets"][0], ("vision", "2026-11", "10.00 EUR", "9.00 EUR", "90 %"), "vision"),
    (("usage", "--held"), "GET /usage:held", HELD, ("vision", "1.00", "0.00", "1.25"), "vision"),
    (("shares",), "GET /shares", SHARE, ("vision", "a100", "5.00", "4.00", "2.00", "3.00", "1.00", "20.0%", "30.0%"), "vision"),
    (("events", "x"), "GET /jobs/x/events", LISTS["events"][0], ("job", "Submitted by ann."), LISTS["events"][0]["id"]),
]
IDS = [" ".join(words) for words, *_rest in LISTED]
PAGED = [case for case in LISTED if case[0] not in (("queues", "caps"), ("features",), ("shares",), ("usage", "--held"))]


def answer(stub: Any, line: str, *rows: dict[str, Any], more: str | None = None) -> None:
    stub.fail(line, httpx2.Response(200, json={"items": copy.deepcopy(list(rows)), "next": more, "currency": ""}))


def of_list(stub: Any, line: str) -> list[httpx2.Request]:
    return list(stub.sent(line))


@pytest.mark.parametrize(("words", "line", "row", "shown", "name"), LISTED, ids=IDS)
def test_a_list_shows_its_rows_to_people_and_gives_them_whole_to_programs(
    run: Any, stub: Any, words: tuple[str, ...], line: str, row: dict[str, Any], shown: tuple[str, ...], name: str
) -> None:
    answer(stub, line, row)
    table = run(*words)
    assert table.exit_code == 0, table.output
    head, *lines = table.stdout.splitlines()
    assert head == head.upper(), "titles are in capitals"
    assert len(lines) == 1, "one line a row"
    assert [text for text in shown if text not in lines[0]] == []

    answer(stub, line, row)
    as_json = json.loads(run(*words, "--json").stdout)
    assert len(as_json) == 1
    assert {key: as_json[0][key] for key in row} == row
    answer(stub, line, row)
    assert yaml.safe_load(run(*words, "-o", "yaml").stdout) == as_json
    answer(stub, line, row)
    assert run(*words, "-o", "name").stdout == f"{name}\n"


@pytest.mark.parametrize(("words", "line", "row", "shown", "name"), LISTED, ids=IDS)
def test_a_list_without_rows_says_so_beside_the_data_and_is_an_empty_list_for_programs(
    run: Any, stub: Any, words: tuple[str, ...], line: str, row: dict[str, Any], shown: tuple[str, ...], name: str
) -> None:
    answer(stub, line)
    empty = run(*words)
    assert (empty.exit_code, empty.stdout) == (0, "")
    assert empty.stderr.count("\n") == 1
    assert "Error" not in empty.stderr

    answer(stub, line)
    assert json.loads(run(*words, "--json").stdout) == []
    answer(stub, line)
    assert yaml.safe_load(run(*words, "-o", "yaml").stdout) == []
    answer(stub, line)
    assert run(*words, "-o", "name").output == ""


@pytest.mark.parametrize(("words", "line", "row", "shown", "name"), LISTED, ids=IDS)
def test_a_list_has_chinese_titles_and_a_chinese_sentence_where_it_is_empty(
    run: Any, stub: Any, words: tuple[str, ...], line: str, row: dict[str, Any], shown: tuple[str, ...], name: str
) -> None:
    answer(stub, line, row)
    head, *_lines = run(*words, env={"BERTH_LANG": "zh"}).stdout.splitlines()
    titles = [title for title in head.split("  ") if title.strip()]
    left = [
        title.strip()
        for title in titles
        if title.strip().isascii() and MESSAGES.get(title.strip(), "").strip() not in ("", title.strip())
    ]
    assert left == [], "a title that has a translation stays English"
    assert not head.isascii()
    assert of_list(stub, line)[-1].headers["Accept-Language"] == "zh-CN"

    answer(stub, line)
    empty = run(*words, env={"BERTH_LANG": "zh"})
    assert not empty.stderr.isascii(), empty.stderr


@pytest.mark.parametrize(("words", "line", "row", "shown", "name"), PAGED, ids=[" ".join(case[0]) for case in PAGED])
def test_a_list_goes_on_to_its_last_page(
    run: Any, stub: Any, words: tuple[str, ...], line: str, row: dict[str, Any], shown: tuple[str, ...], name: str
) -> None:
    for cursor, following in ((None, "c-1"), ("c-1", "c-2"), ("c-2", None)):
        answer(stub, line, {**row, "page": cursor}, more=following)

    rows = json.loads(run(*words, "--json").stdout)
    assert [entry["page"] for entry in rows] == [None, "c-1", "c-2"]
    assert [request.url.params.get("cursor") for request in of_list(stub, line)] == [None, "c-1", "c-2"]


REFUSALS = [
    (401, "not_authenticated", 3),
    (403, "forbidden", 3),
    (404, "not_found", 4),
    (409, "conflict", 1),
    (422, "invalid_input", 2),
    (422, "quota_exceeded", 5),
    (500, "internal", 1),
    (507, "storage_full", 5),
]


@pytest.mark.parametrize(("words", "line", "row", "shown", "name"), LISTED, ids=IDS)
def test_a_refused_list_ends_with_the_code_of_its_refusal_and_prints_no_data(
    run: Any, stub: Any, words: tuple[str, ...], line: str, row: dict[str, Any], shown: tuple[str, ...], name: str
) -> None:
    status, code, ends = REFUSALS[IDS.index(" ".join(words)) % len(REFUSALS)]
    stub.fail(line, *[problem(status, code, "It is so.", hint="Do this.") for _time in range(2)])
    refused = run(*words)
    assert (refused.exit_code, refused.stdout) == (ends, "")
    assert "It is so." in refused.stderr
    assert "Do this." in refused.stderr

    told = run(*words, "--json")
    assert (told.exit_code, told.stdout) == (ends, "")
    assert json.loads(told.stderr) == {"code": code, "detail": "It is so.", "hint": "Do this.", "fields": [], "exit_code": ends}


# --- What filters send ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "line", "sent"),
    [
        (("ps", "-s", "failed", "-s", "stopped"), "GET /jobs", {"state": ["failed", "stopped"]}),
        (("ps", "-a", "-u", "bob"), "GET /jobs", {"user": ["bob"], "mine": []}),
        (("ps", "-a", "-u", "me"), "GET /jobs", {"user": [], "mine": ["true"]}),
        (("ps", "-a", "-l", "team=a=b", "-l", "x=1"), "GET /jobs", {"label": ["team:a=b", "x:1"]}),
        (
            ("ps", "-a", "--search", "数 字", "--tag", "t", "-q", "q", "--name", "n"),
            "GET /jobs",
            {"q": ["数 字"], "tag": ["t"], "queue": ["q"], "name": ["n"]},
        ),
        (("ps", "--sort", "finished"), "GET /jobs", {"sort": ["finished"], "state": []}),
        (("ps", "--sort", "priority"), "GET /jobs", {"state": ["queued", "admitted", "starting", "running", "stopping"]}),
        (("ps", "-a", "-n", "7"), "GET /jobs", {"limit": ["7"], "standing": ["true"]}),
        (("ps", "-t", "lab"), "GET /jobs", {"tenant": ["lab"]}),
        (("ps", "--parent", ID), "GET /jobs", {"parent": [ID], "state": []}),
        (("queues", "edits", "--state", "refused"), "GET /quota/edits", {"state": ["refused"]}),
        (
            ("queues", "requests", "--state", "expired", "-t", "lab"),
            "GET /quota/requests",
            {"state": ["expired"], "tenant": ["lab"]},
        ),
        (("reserve", "list", "--state", "no_show"), "GET /bookings", {"state": ["no_show"]}),
        (("priority", "list", "--state", "revoked"), "GET /priority-requests", {"state": ["revoked"]}),
        (("tokens", "list", "-u", "ci"), "GET /tokens", {"user": ["ci"]}),
        (("audit", "--verb", "job.stop", "-n", "3"), "GET /audit", {"verb": ["job.stop"], "limit": ["3"]}),
        (("notify", "log", "-n", "2"), "GET /deliveries", {"limit": ["2"]}),
        (("announcements", "list", "-a"), "GET /announcements", {"all": ["true"]}),
        (("maintenance", "list"), "GET /maintenance", {"open": ["true"]}),
        (("maintenance", "list", "-a"), "GET /maintenance", {"open": []}),
        (("features", "list", "-t", "lab"), "GET /features", {"tenant": ["lab"]}),
        (("templates", "list", "-s", "jax", "--tag", "cpu"), "GET /templates", {"q": ["jax"], "tag": ["cpu"]}),
        (("prices", "list", "--pool", "a100", "-a"), "GET /prices", {"pool": ["a100"], "all": ["true"]}),
        (
            ("usage", "--since", "2026-11-01T00:00Z", "--until", "2026-12-01T00:00Z", "--by", "pool"),
            "GET /usage",
            {"since": ["2026-11-01T00:00:00Z"], "until": ["2026-12-01T00:00:00Z"], "group_by": ["pool"]},
        ),
        (
            ("usage", "-u", "me", "-q", "q", "--pool", "p", "--fate", "failed"),
            "GET /usage",
            {"user": ["me"], "queue": ["q"], "pool": ["p"], "fate": ["failed"]},
        ),
        (
            ("usage", "--held", "--fate", "failed", "-t", "lab"),
            "GET /usage:held",
            {"fate": [], "group_by": [], "tenant": ["lab"]},
        ),
        (
            ("shares", "show", "--pool", "p", "--since", "2026-11-01T00:00Z"),
            "GET /shares",
            {"pool": ["p"], "since": ["2026-11-01T00:00:00Z"], "until": []},
        ),
        (("events", "x", "-n", "4"), "GET /jobs/x/events", {"limit": ["4"]}),
        (
            ("breakeven", "--days", "7", "--buy", "280000", "--rent", "2.5", "--gpus", "8", "--kwh", "0.25", "--json"),
            "GET /breakeven",
            {
                "days": ["7"],
                "capex_micros": ["280000000000"],
                "rent_micros_per_gpu_hour": ["2500000"],
                "gpus": ["8"],
                "kwh_micros": ["250000"],
                "busy_watts": [],
            },
        ),
    ],
)
def test_a_filter_is_sent_as_the_server_names_it(run: Any, stub: Any, words: tuple[str, ...], line: str, sent: Any) -> None:
    answer(stub, line)
    done = run(*words)
    assert done.exit_code == 0, done.output
    params = of_list(stub, line)[-1].url.params
    assert {name: params.get_list(name) for name in sent} == sent


@pytest.mark.parametrize(
    "words",
    [
        ("ps", "-n", "0"),
        ("ps", "-n", "x"),
        ("ps", "-o", "xml"),
        ("audit", "-n", "0"),
        ("notify", "log", "-n", "-1"),
        ("events", "x", "-n", "0"),
        ("events",),
        ("usage", "--since", "yesterday"),
        ("shares", "show", "--until", "2026-13-01"),
        ("logs", "x", "--index", "-1"),
        ("logs", "x", "--attempt", "0"),
        ("breakeven", "--days", "many"),
        ("nodes", "show"),
        ("what-if",),
        ("absent",),
    ],
)
def test_a_line_that_means_nothing_ends_with_2_before_anything_is_sent(run: Any, stub: Any, words: tuple[str, ...]) -> None:
    refused = run(*words)
    assert (refused.exit_code, refused.stdout, stub.requests) == (2, "", [])
    assert refused.stderr


# --- Odd rows ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "line", "row", "shown"),
    [
        (
            ("clusters",),
            "GET /clusters",
            {**CLUSTER, "condition": "unreachable", "isolation": ["uid", "net"]},
            ("✗ unreachable", "uid, net"),
        ),
        (
            ("clusters",),
            "GET /clusters",
            {**CLUSTER, "condition": {"name": "login_failed", "detail": "Denied."}, "isolation": {"tenants_kept_apart": False}},
            ("✗ login failed", "Denied."),
        ),
        (
            ("nodes", "-o", "wide"),
            "GET /nodes",
            {"id": ID, "name": "bare", "ready": False, "reason": "NoDisk", "pool": CPU_POOL, "capacity": {}, "allocated": None},
            ("✗", "NoDisk", "cpu", ID),
        ),
        (("nodes",), "GET /nodes", {"id": ID, "name": "x", "ready": True, "capacity": {"cpu_millis": 1500}}, ("✓", "1.5")),
        (("nodes",), "GET /nodes", {"id": ID, "name": "x", "ready": True, "cordoned": True}, ("■",)),
        (("pools",), "GET /pools", {"id": ID, "name": "new"}, ("new", "? / ?")),
        (
            ("pools",),
            "GET /pools",
            {"id": ID, "name": "p", "use": {"fragmentation": 0.0, "idle": {"models": {"x": {}}}}},
            ("0%", "0 GPU"),
        ),
        (
            ("members",),
            f"GET /tenants/{SLUG}/members",
            {"user_id": "u-1", "name": "carol", "role": "viewer"},
            ("carol", "viewer", "person"),
        ),
        (
            ("tokens",),
            "GET /tokens",
            {"id": ID, "name": "old", "scopes": None, "last_used_at": None, "expires_at": None},
            ("old", "-"),
        ),
        (
            ("announcements",),
            "GET /announcements",
            {**NOTICE, "everybody": True, "tenant": None, "ends_at": NOON},
            ("2026-11-20", "a-1"),
        ),
        (("maintenance",), "GET /maintenance", {**WINDOW, "pool": POOL, "drain": False}, ("a100", "no")),
        (("features",), "GET /features", {**FEATURE, "enabled": False, "setting": True}, ("off", "on")),
        (("reserve", "list"), "GET /bookings", {**BOOKING, "pool": None, "state": "no_show"}, ("?", "no show")),
        (
            ("users",),
            "GET /users",
            {"id": ID, "name": "ci", "email": None, "kind": "service", "is_operator": True, "is_active": False},
            ("ci", "-", "service", "yes", "■"),
        ),
        (("tenants",), "GET /tenants", {**TENANT, "parent": {"name": "root"}, "role": None, "is_disabled": True}, ("root", "■")),
        (
            ("audit",),
            "GET /audit",
            {"id": ID, "at": NOON, "actor": None, "verb": "x.y", "target": {"kind": "job", "id": "j-1", "name": ""}},
            ("-", "job j-1"),
        ),
        (
            ("priority",),
            "GET /priority-requests",
            {**PRIORITY, "job": None, "user": USER, "ends_at": NOON, "reason": "", "decided_by": None},
            ("alice", "2026-11-20"),
        ),
        (
            ("prices",),
            "GET /prices",
            {**LISTS["prices"][0], "resource": "disk_bytes", "micros_per_hour": 1},
            ("disk_bytes", "0.000001 EUR"),
        ),
        (
            ("budgets",),
            "GET /budgets",
            {**LISTS["budgets"][0], "kind": "gpu_time", "amount": 3_600_000_000, "spent": 5_400_000_000, "percent": 150},
            ("1,000.0", "1,500.0", "████████████  150 %"),
        ),
        (
            ("budgets",),
            "GET /budgets",
            {**LISTS["budgets"][0], "kind": "node_time", "amount": 1_800_000, "spent": 0, "percent": 0},
            ("0.5", "░░░░░░░░░░░░    0 %"),
        ),
        (
            ("shares",),
            "GET /shares",
            {**SHARE, "queue": None, "pool": None, "resource": "tpu", "deficit": -3_600_000},
            ("tpu", "-1.00"),
        ),
        (("notify", "log"), "GET /deliveries", {"id": "d", "created_at": None, "last_error": "Refused."}, ("Refused.", "-")),
        (
            ("events", "x"),
            "GET /jobs/x/events",
            {
                "id": "e",
                "at": NOON,
                "subject": {"kind": "attempt"},
                "from_state": "running",
                "to_state": "failed",
                "reason": "exit",
                "detail": {"attempt": 2, "text": "Code 1.", "note": "by hand"},
            },
            ("attempt 2", "running → ✗ failed", "Code 1.: by hand"),
        ),
    ],
)
def test_a_row_with_little_or_much_in_it_is_still_a_line(
    run: Any, stub: Any, words: tuple[str, ...], line: str, row: dict[str, Any], shown: tuple[str, ...]
) -> None:
    answer(stub, line, row)
    done = run(*words)
    assert done.exit_code == 0, done.output
    [text] = done.stdout.splitlines()[1:]
    assert [part for part in shown if part not in text] == []


def test_a_list_for_programs_has_no_hint_and_no_note(run: Any, stub: Any) -> None:
    rows = [
        {**a_job("a", "queued", 1), "reason": {"code": "no_room", "text": "No room.", "detail": {}}},
        {**a_job("b", "queued", 2), "reason": {"code": "no_room", "text": "No room.", "detail": {}}},
    ]
    stub.jobs = copy.deepcopy(rows)
    people = run("ps")
    assert people.stderr.count("No room.") == 1, "a reason of all is told once"
    assert "No room." not in people.stdout
    for form in ("json", "yaml", "name"):
        assert run("ps", "-o", form).stderr == ""
