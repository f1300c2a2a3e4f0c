"""Limits, caps, bookings and priorities at the command line: what is sent, what is refused before it, and what is shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from client_stub import CPU_POOL, NOON, POOL, QUEUE, TENANT, USER, a_job

EDIT = {
    "id": "edit-1", "state": "applied", "effective_from": NOON, "comment": "", "created_by": USER,
    "changes": [{"queue": QUEUE, "pool": POOL, "resource": "gpu_millis", "values": {"ceiling": 16_000, "weight": 3}}],
}  # fmt: skip


def answer(stub: Any, line: str, body: Any, status: int = 200) -> None:
    stub.fail(line, httpx2.Response(status, json=body))


def body_of(stub: Any, pattern: str) -> Any:
    return json.loads(stub.sent(pattern)[-1].content)


# --- Edits of limits --------------------------------------------------------------------------------------------------


def test_an_edit_sends_amounts_in_their_smallest_units(run: Any, stub: Any) -> None:
    answer(stub, "POST /quota/edits", EDIT)
    options = ("--guarantee", "gpu=8,memory=64Gi", "--ceiling", "gpu=none", "--weight", "gpu=3", "--comment", "Spring.")
    done = run("queues", "edit", "vision", "--pool", "a100", *options)

    assert "Limits of 1 queue are changed." in done.stderr
    sent = body_of(stub, "POST /quota/edits")
    changes = {change["resource"]: change for change in sent["changes"]}
    assert {change["pool"] for change in sent["changes"]} == {"a100"}
    assert {name: changes["gpu_millis"][name] for name in ("guarantee", "ceiling", "weight")} == {
        "guarantee": 8_000, "ceiling": None, "weight": 3,
    }  # fmt: skip
    assert changes["memory_bytes"]["guarantee"] == 64 << 30
    assert (sent["dry_run"], sent["comment"]) == (False, "Spring.")


def test_a_file_changes_several_queues_in_one_request(run: Any, stub: Any, tmp_path: Path) -> None:
    file = tmp_path / "limits.yaml"
    file.write_text("changes:\n- {queue: a, pool: a100, deserved: {gpu: 2}}\n- {queue: b, pool: cpu, ceiling: {cpu: 0.5}}\n")
    answer(stub, "POST /quota/edits", {**EDIT, "state": "pending"})
    done = run("queues", "edit", "--file", str(file), "--from", "2027-01-31T18:00")

    assert "1 queue changes at" in done.stderr
    sent = body_of(stub, "POST /quota/edits")
    assert [(change["queue"], change["pool"]) for change in sent["changes"]] == [("a", "a100"), ("b", "cpu")]
    assert (sent["changes"][0]["deserved"], sent["changes"][1]["ceiling"]) == (2_000, 500)
    assert sent["effective_from"].startswith("2027-01-31T")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("vision", "--pool", "a100"), "Give the queue, the pool and the change."),
        (("vision", "--ceiling", "gpu=1"), "Give the queue, the pool and the change."),
        (("vision", "--pool", "a100", "--ceiling", "gpu"), "gpu has no amount."),
        (("vision", "--pool", "a100", "--ceiling", "fans=1"), "fans is not a resource."),
        (("vision", "--pool", "a100", "--weight", "gpu=1.5"), "'1.5' is not an integer."),
        (("vision", "--pool", "a100", "--ceiling", "gpu=0.0001"), "finer than what can be counted"),
        (("vision", "--file", "limits.yaml"), "not both"),
        (("--file", "absent.yaml"), "absent.yaml cannot be read"),
        (("--file", "broken.yaml"), "broken.yaml is not YAML."),
        (("--file", "empty.yaml"), "empty.yaml has no list of changes."),
        (("--file", "odd.yaml"), "An entry has queue, pool and any of"),
        (("--file", "flat.yaml"), "ceiling has amounts by resource."),
    ],
)
def test_an_edit_that_cannot_be_meant_is_refused_before_it_is_sent(run: Any, stub: Any, words: Any, told: str) -> None:
    Path("broken.yaml").write_text("a: [")
    Path("empty.yaml").write_text("changes: 3")
    Path("odd.yaml").write_text("- {queue: a, pool: b, celling: {gpu: 1}}")
    Path("flat.yaml").write_text("- {queue: a, pool: b, ceiling: 8}")
    done = run("queues", "edit", *words)

    assert done.exit_code == 2
    assert told in done.stderr
    assert not stub.sent("POST /quota/.*")


def test_a_dry_run_tells_who_is_above_the_new_limit(run: Any, stub: Any) -> None:
    forecast = {
        "problems": [],
        "over": [{"queue": QUEUE, "pool": POOL, "resource": "gpu_millis", "column": "ceiling", "used": 8000, "limit": 4000}],
        "jobs": [{"name": "train", "what": "is_evicted", "why": "no room"}],
    }
    answer(stub, "POST /quota/edits", {**EDIT, "state": "dry_run", "forecast": forecast, "plan": "plan-7"})
    done = run("queues", "edit", "vision", "--pool", "a100", "--ceiling", "gpu=4", "--dry-run")

    assert done.exit_code == 0
    assert "! Queue vision holds 8 GPU of pool a100: more than its ceiling of 4." in done.stderr
    assert "train: is preempted (no room)" in done.stderr
    assert body_of(stub, "POST /quota/edits")["dry_run"] is True


def test_a_dry_run_of_an_edit_that_breaks_the_tree_ends_with_1(run: Any, stub: Any) -> None:
    problems = [{"message": "The guarantees of the children exceed that of root.", "hint": "Lower one."}]
    forecast = {"problems": problems, "over": [], "jobs": None}
    answer(stub, "POST /quota/edits", {**EDIT, "state": "dry_run", "forecast": forecast, "plan": "plan-7"})
    done = run("queues", "edit", "vision", "--pool", "a100", "--guarantee", "gpu=99", "--dry-run")

    assert done.exit_code == 1
    assert "The guarantees of the children exceed that of root. Lower one." in done.stderr


def test_the_plan_of_a_dry_run_goes_with_the_edit(run: Any, stub: Any) -> None:
    answer(stub, "POST /quota/edits", EDIT)
    run("queues", "edit", "vision", "--pool", "a100", "--ceiling", "gpu=4", "--plan", "plan-7")

    assert stub.sent("POST /quota/edits")[-1].url.params["plan"] == "plan-7"


def test_who_may_not_edit_requests_it(run: Any, stub: Any) -> None:
    answer(stub, "POST /quota/requests", {"id": "request-1"}, 201)
    done = run("queues", "edit", "vision", "--pool", "a100", "--ceiling", "gpu=4", "--ask", "--comment", "Deadline.")

    assert "The edit is requested" in done.stderr
    assert body_of(stub, "POST /quota/requests")["reason"] == "Deadline."
    assert not stub.sent("POST /quota/edits")


def test_edits_are_listed_with_their_amounts_and_cancelled(run: Any, stub: Any) -> None:
    answer(stub, "GET /quota/edits", {"items": [EDIT], "next": None})
    shown = run("queues", "edits", "--state", "applied").stdout
    assert "vision GPU: ceiling 16, weight 3" in shown
    assert stub.sent("GET /quota/edits")[-1].url.params["state"] == "applied"

    answer(stub, "DELETE /quota/edits/edit-1", {**EDIT, "state": "cancelled"})
    assert "The edit is cancelled." in run("queues", "cancel", "edit-1").stderr


def test_requests_for_limits_are_approved_denied_and_withdrawn(run: Any, stub: Any) -> None:
    row = {"id": "request-1", "state": "pending"}
    answer(stub, "POST /quota/requests/request-1/approve", {**row, "state": "approved"})
    assert "Approved." in run("queues", "approve", "request-1", "--answer", "Until May.").stderr
    assert body_of(stub, "POST /quota/requests/request-1/approve") == {"answer": "Until May."}

    answer(stub, "POST /quota/requests/request-1/deny", {**row, "state": "denied"})
    assert "Denied." in run("queues", "deny", "request-1", "--answer", "No room.").stderr
    answer(stub, "DELETE /quota/requests/request-1", {**row, "state": "withdrawn"})
    assert "The request is withdrawn." in run("queues", "withdraw", "request-1").stderr


# --- Caps -------------------------------------------------------------------------------------------------------------

EVERYBODY = {"user": None, "gpu_millis": 8000, "jobs": None, "containers": 64}
OWN = {"user": USER, "gpu_millis": None, "jobs": 3, "containers": None}
CAPS = f"GET /tenants/{TENANT['slug']}/caps"


def test_a_cap_of_one_user_changes_that_line_alone(run: Any, stub: Any) -> None:
    answer(stub, CAPS, {"items": [EVERYBODY, OWN]})
    answer(stub, "PUT /tenants/.+/caps", {"items": []})
    done = run("queues", "cap", "--user", "alice", "--gpu", "2.5")

    assert "The cap of alice is set." in done.stderr
    assert body_of(stub, "PUT /tenants/.+/caps") == [EVERYBODY, {**OWN, "user": USER["id"], "gpu_millis": 2500}]


def test_the_last_cap_of_a_line_removes_the_line(run: Any, stub: Any) -> None:
    answer(stub, CAPS, {"items": [EVERYBODY, OWN]})
    answer(stub, "PUT /tenants/.+/caps", {"items": []})
    run("queues", "cap", "--user", "alice", "--jobs", "none")

    assert body_of(stub, "PUT /tenants/.+/caps") == [EVERYBODY]


def test_caps_are_listed_and_one_has_to_be_named(run: Any, stub: Any) -> None:
    answer(stub, CAPS, {"items": [EVERYBODY, OWN]})
    rows = run("queues", "caps").stdout.splitlines()
    assert rows[1].split() == ["all", "users", "8", "none", "64"]
    assert rows[2].split() == ["alice", "none", "3", "none"]

    refused = run("queues", "cap", "--user", "alice")
    assert refused.exit_code == 2
    assert "Give at least one cap" in refused.stderr


def test_the_counts_of_a_tenant_are_limited_and_shown(run: Any, stub: Any) -> None:
    done = run("queues", "counts", "vision", "--jobs", "10", "--containers", "none")
    assert "vision may have 10 jobs and any number of containers at a time." in done.stderr
    assert body_of(stub, "PUT /queues/.+/rules") == {"max_jobs": 10, "max_containers": None}

    run("queues", "counts", "vision")
    assert len(stub.sent("PUT /queues/.+/rules")) == 1


# --- Bookings ---------------------------------------------------------------------------------------------------------


def test_a_booking_lasts_as_long_as_is_said_from_its_start(run: Any, stub: Any) -> None:
    booking = {"id": "booking-1", "gpu_millis": 8000, "pool": POOL, "queue": QUEUE, "starts_at": NOON, "ends_at": NOON}
    answer(stub, "POST /bookings", booking, 201)
    done = run("reserve", "8", "--pool", "a100", "--from", "2027-01-31T20:00:00Z", "--for", "10h")

    sent = body_of(stub, "POST /bookings")
    assert (sent["gpu_millis"], sent["starts_at"], sent["ends_at"]) == (8000, "2027-01-31T20:00:00Z", "2027-02-01T06:00:00Z")
    assert "Booked: 8 GPU of a100" in done.stderr


@pytest.mark.parametrize("words", [(), ("--for", "1h", "--until", "2027-02-01")])
def test_a_booking_has_one_end(run: Any, stub: Any, words: tuple[str, ...]) -> None:
    refused = run("reserve", "8", "--pool", "a100", *words)

    assert refused.exit_code == 2
    assert not stub.sent("POST /bookings")


def test_bookings_are_listed_and_cancelled(run: Any, stub: Any) -> None:
    row = {"id": "booking-1", "state": "no_show", "gpu_millis": 8000, "pool": None, "queue": QUEUE, "created_by": USER,
           "starts_at": NOON, "ends_at": NOON}  # fmt: skip
    answer(stub, "GET /bookings", {"items": [row], "next": None})
    shown = run("reserve", "list", "--state", "no_show").stdout
    assert "no show" in shown
    assert "?" in shown, "its pool was removed"

    answer(stub, "DELETE /bookings/booking-1", {**row, "state": "cancelled"})
    assert "The booking is cancelled." in run("reserve", "cancel", "booking-1").stderr


# --- Priorities -------------------------------------------------------------------------------------------------------


def test_a_priority_is_a_number_or_a_class(run: Any, stub: Any) -> None:
    stub.jobs = [a_job("train", "queued")]
    for text, sent in (("high", "high"), ("700", 700)):
        answer(stub, "PATCH /jobs/.+", {**stub.jobs[0], "priority": 700})
        assert "Job train has priority 700." in run("priority", "set", "train", text).stderr
        assert body_of(stub, "PATCH /jobs/.+") == {"priority": sent}


def test_requests_for_a_priority_are_decided_with_an_answer(run: Any, stub: Any) -> None:
    for verb, told in (("approve", "Approved."), ("deny", "Denied.")):
        answer(stub, f"POST /priority-requests/r-1/{verb}", {"id": "r-1", "state": "approved"})
        assert told in run("priority", verb, "r-1", "--answer", "Only tonight.").stderr
        assert body_of(stub, f"POST /priority-requests/r-1/{verb}") == {"answer": "Only tonight."}
    answer(stub, "DELETE /priority-requests/r-1", {"id": "r-1", "state": "revoked"})
    assert "The request is revoked." in run("priority", "withdraw", "r-1").stderr


def test_requests_of_a_job_and_of_a_window_are_listed(run: Any, stub: Any) -> None:
    row = {"id": "r-1", "state": "pending", "priority_name": "high", "created_by": USER, "reason": "", "decided_by": None}
    rows = [{**row, "job": {"name": "train"}}, {**row, "id": "r-2", "job": None, "user": USER, "ends_at": NOON}]
    answer(stub, "GET /priority-requests", {"items": rows, "next": None})
    shown = run("priority", "list").stdout

    assert "train" in shown
    assert "alice until" in shown


def test_the_priority_limits_of_roles_are_set_and_removed(run: Any, stub: Any) -> None:
    grants = {"items": [{"role": "member", "priority_name": "normal", "tenant": TENANT}], "yours": 500}
    answer(stub, "PUT /tenants/.+/priority-grants", grants)
    done = run("priority", "grants", "--member", "normal", "--manager", "default")
    assert body_of(stub, "PUT /tenants/.+/priority-grants") == {"member": "normal", "manager": None}
    assert "member" in done.stdout

    answer(stub, "GET /tenants/.+/priority-grants", grants)
    assert json.loads(run("priority", "grants", "--json").stdout)["yours"] == 500


def test_a_move_names_one_place_and_a_dry_run_moves_nothing(run: Any, stub: Any) -> None:
    stub.jobs = [a_job("train", "queued", 1), a_job("other", "queued", 2)]
    refused = run("move", "train", "--first", "--last")
    assert refused.exit_code == 2

    answer(stub, "POST /jobs/.+/move", {"job": {"name": "train", "place": 1}, "moved": 2, "plan": "plan-7"})
    done = run("move", "train", "--before", "other", "--dry-run")
    assert "2 jobs would change their place." in done.stderr
    assert stub.sent("POST /jobs/.+/move")[-1].url.params["dry_run"] == "true"

    answer(stub, "POST /jobs/.+/move", {"job": {"name": "train", "place": 1}, "moved": 2, "plan": None})
    assert "its place in the queue is 1" in run("move", "train", "--last", "--plan", "plan-7").stderr
    assert stub.sent("POST /jobs/.+/move")[-1].url.params["plan"] == "plan-7"


# --- Draining ---------------------------------------------------------------------------------------------------------

LEAVING = {"job": {"name": "train"}, "tenant": "vision", "user": "alice", "tasks": 2, "started_at": NOON, "checkpoint": True}


def test_draining_shows_the_jobs_and_evicts_exactly_those(run: Any, stub: Any) -> None:
    plan = {"node": {"name": "node-1"}, "jobs": [LEAVING], "plan": "plan-7"}
    answer(stub, "POST /nodes/.+/drain", plan)
    shown = run("nodes", "drain", "node-1", "--dry-run")
    assert "train" in shown.stdout
    assert len(stub.sent("POST /nodes/.+/drain")) == 1

    answer(stub, "POST /nodes/.+/drain", plan)
    answer(stub, "POST /nodes/.+/drain", plan)
    done = run("nodes", "drain", "node-1", "--yes", "--reason", "Fan 3 is noisy.")
    assert "node-1 is draining: 1 job is being evicted." in done.stderr
    dry, real = stub.sent("POST /nodes/.+/drain")[1:]
    assert dry.url.params["dry_run"] == "true"
    assert real.url.params["plan"] == "plan-7"
    assert json.loads(real.content) == {"reason": "Fan 3 is noisy."}


def test_without_a_terminal_a_drain_needs_a_yes(run: Any, stub: Any) -> None:
    answer(stub, "POST /nodes/.+/drain", {"node": {"name": "node-1"}, "jobs": [LEAVING], "plan": "plan-7"})
    refused = run("nodes", "drain", "node-1")

    assert refused.exit_code == 2
    assert "Add --yes" in refused.stderr
    assert len(stub.sent("POST /nodes/.+/drain")) == 1, "only the dry run"


def test_a_pool_without_gpus_has_limits_in_cores(run: Any, stub: Any) -> None:
    change = {"queue": QUEUE, "pool": CPU_POOL, "resource": "memory_bytes", "values": {"ceiling": 64 << 30, "guarantee": None}}
    answer(stub, "GET /quota/edits", {"items": [{**EDIT, "changes": [change] * 5}], "next": None})
    shown = run("queues", "edits").stdout

    assert "ceiling 64" in shown
    assert "guarantee none" in shown
    assert "(+2)" in shown
