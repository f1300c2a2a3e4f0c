"""On the running platform, with pretended GPUs: an approval that makes a job start, a move, a booking that nobody uses, and a
plan whose author has gone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.builders.live import Json, LivePlatform, LiveUser, running_platform, wait_until

pytestmark = pytest.mark.engines  # Once is enough: nothing here depends on the database.

ALL_GPUS = {"gpu": 2, "cpu": 1, "memory": "64Mi"}


@pytest.fixture(scope="module")
def platform() -> Iterator[LivePlatform]:
    with running_platform(BERTH_BOOKING_GRACE_SECONDS="1", BERTH_SWEEP_SECONDS="1") as made:
        yield made


@pytest.fixture
def bob(platform: LivePlatform) -> LiveUser:
    return platform.person("bob", tenant="vision")


@pytest.fixture
def alice(platform: LivePlatform) -> LiveUser:
    return platform.person("alice", tenant="vision", role="manager")


def in_hours(hours: float) -> str:
    return (datetime.now(UTC) + timedelta(hours=hours)).isoformat()


def is_now(platform: LivePlatform, table: str, column: str, row: str) -> None:
    """Let the time come that a row names: everything before it is done, however long that took."""
    platform.execute(f"UPDATE {table} SET {column} = '{datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f}+00:00' WHERE id = '{row}'")


def told(user: LiveUser) -> list[str]:
    """Titles of the notices of capacity. Events are numbered a moment after they are committed, so that tests wait for one."""
    return [event["data"]["title"] for event in user.items("/events", tenant=user.tenant) if event["kind"] == "notice.capacity"]


def whole(user: LiveUser, name: str, seconds: str, **more: object) -> Json:
    return user.submit({"name": name, "command": f"exec sleep {seconds}", "resources": ALL_GPUS, **more})


@pytest.mark.capability("19", "On the running platform an approved job starts before the others")
def test_an_approved_job_starts_at_once_and_a_moved_one_before_its_sibling(
    platform: LivePlatform, bob: LiveUser, alice: LiveUser
) -> None:
    first = whole(bob, "first", "1000")
    bob.wait(first, ["running"])
    older, newer, demo = (whole(bob, name, "1000") for name in ("older", "newer", "demo"))
    refused = bob.request("PATCH", f"/jobs/{demo['id']}", json={"priority": "high"})
    assert (refused.status_code, refused.json()["fields"][0]["code"]) == (403, "priority_above_grant")
    asked = bob.api("POST", "/priority-requests", {"job": demo["id"], "priority": "high", "reason": "They are in the room."})
    assert bob.job(demo)["state"] == "queued"
    alice.api("POST", f"/priority-requests/{asked['id']}/approve", {"answer": "Go."})
    bob.wait(demo, ["running"])
    assert bob.job(first)["state"] in ("stopping", "queued"), "in their own queue higher work makes lower make way"
    bob.stop(first, grace_seconds=0)
    bob.wait(first)
    moved = bob.api("POST", f"/jobs/{newer['id']}/move", {"before": older["id"]})
    assert moved["job"]["place"] == 1
    bob.stop(demo, grace_seconds=0)
    bob.wait(newer, ["running"])
    assert bob.job(older)["state"] == "queued"
    for job in (older, newer, demo):
        bob.stop(job, grace_seconds=0)
        bob.wait(job)


@pytest.mark.simulated_gpus
@pytest.mark.capability("23", "A booking that nobody uses is released")
def test_a_booking_that_nobody_uses_is_released_and_told(platform: LivePlatform, alice: LiveUser) -> None:
    [pool] = platform.operator.items("/pools")
    later = platform.person("carol", tenant="speech", role="manager")
    window = {"starts_at": in_hours(1), "ends_at": in_hours(5)}
    booking = alice.api("POST", "/bookings", {"pool": pool["id"], "gpu_millis": 2000, **window, **alice.in_tenant})
    refused = later.request("POST", "/bookings", json={"pool": pool["id"], "gpu_millis": 1000, **window, **later.in_tenant})
    assert refused.status_code == 409
    assert "vision" not in refused.text
    is_now(platform, "tenants_booking", "starts_at", booking["id"])
    wait_until(lambda: alice.api("GET", f"/bookings/{booking['id']}")["state"] == "no_show", "the release of the booking")
    wait_until(lambda: any("Nobody used the booking of 2 GPUs" in title for title in told(alice)), "the notice of the release")
    assert any(row["verb"] == "booking.release" for row in alice.items("/audit"))
    later.api("POST", "/bookings", {"pool": pool["id"], "gpu_millis": 1000, **window, **later.in_tenant})


def test_a_plan_whose_author_is_no_manager_any_more_is_refused_at_its_time(platform: LivePlatform, alice: LiveUser) -> None:
    [pool] = platform.operator.items("/pools")
    planner = platform.person("paula", tenant="vision", role="manager")
    planner.api("POST", "/queues", {"name": "day", **planner.in_tenant})
    change = {"queue": "day", "pool": pool["id"], "resource": "gpu_millis", "ceiling": 1000}
    edit = planner.api("POST", "/quota/edits", {"changes": [change], "effective_from": in_hours(1), **planner.in_tenant})
    [paula] = [
        member["user"]["id"] for member in alice.items(f"/tenants/{alice.tenant}/members") if member["user"]["name"] == "paula"
    ]
    alice.api("PATCH", f"/tenants/{alice.tenant}/members/{paula}", {"role": "member"})
    is_now(platform, "tenants_quotaedit", "effective_from", edit["id"])
    wait_until(lambda: alice.api("GET", f"/quota/edits/{edit['id']}")["state"] == "refused", "the refusal of the plan")
    found = alice.api("GET", f"/quota/edits/{edit['id']}")
    assert found["problems"][0]["code"] == "author_lost_right"
    wait_until(lambda: any(title.startswith("The planned edit of limits") for title in told(alice)), "the notice of the refusal")
