"""On the running platform, with pretended GPUs: two tenants borrow and get back, both read why, and a what-if comes true."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.builders.command import berth
from tests.builders.live import Json, LivePlatform, LiveUser, running_platform

pytestmark = pytest.mark.engines  # Once is enough: nothing here depends on the database.

ONE = {"cpu": 1, "memory": "64Mi", "gpu": 1}


@pytest.fixture(scope="module")
def platform() -> Iterator[LivePlatform]:
    with running_platform(BERTH_LOCAL_SIMULATED_GPUS="12xSIM") as made:
        yield made


@pytest.fixture(scope="module")
def bob(platform: LivePlatform) -> LiveUser:
    return platform.person("bob", tenant="vision", role="manager")


@pytest.fixture(scope="module")
def carol(platform: LivePlatform) -> LiveUser:
    return platform.person("carol", tenant="speech", role="manager")


def gang(user: LiveUser, name: str, tasks: int) -> Json:
    role = {"command": "exec sleep 1000", "replicas": tasks, "resources": ONE}
    return user.submit({"name": name, "roles": {"worker": role}})


@pytest.fixture(autouse=True)
def end_all(bob: LiveUser, carol: LiveUser) -> Iterator[None]:
    """However a test ends, the next finds the GPUs free."""
    yield
    for user in (bob, carol):
        for job in user.items("/jobs"):
            if job["state"] not in ("succeeded", "failed", "stopped"):
                user.stop(job, grace_seconds=0)
    for user in (bob, carol):
        for job in user.items("/jobs"):
            user.wait(job)


def test_of_four_gangs_of_four_on_twelve_cards_three_run_and_the_fourth_holds_none(platform: LivePlatform, bob: LiveUser) -> None:
    jobs = [gang(bob, f"gang-{number}", 4) for number in range(4)]
    for job in jobs[:3]:
        bob.wait(job, ["running"])
    held = "SELECT count(*) FROM tenants_reservation WHERE released_at IS NULL AND gpu_millis = 4000"
    assert platform.rows(held) == [(3,)]
    bob.wait_for_reason(jobs[3], "no_room")
    platform.restart()
    bob.wait(jobs[0], ["running"])
    assert platform.rows(held) == [(3,)]
    bob.stop(jobs[0], grace_seconds=0)
    bob.wait(jobs[3], ["running"])


def test_two_tenants_borrow_and_get_back_and_both_read_why(platform: LivePlatform, bob: LiveUser, carol: LiveUser) -> None:
    [pool] = [candidate for candidate in platform.operator.items("/pools") if candidate["capacity"]["gpu_millis"]]
    queues = {
        queue["tenant"]["name"]: queue for queue in platform.operator.items("/queues") if queue.get("tenant") and queue["is_top"]
    }
    for name, gpus in (("vision", 8_000), ("speech", 4_000)):
        platform.operator.api(
            "PUT",
            f"/queues/{queues[name]['id']}/limits",
            [{"pool": pool["id"], "deserved": {"gpu_millis": gpus}}],
        )
    borrowed = [gang(bob, f"borrowed-{number}", 4) for number in range(3)]
    for job in borrowed:
        bob.wait(job, ["running"])
    owed = gang(carol, "owed", 4)
    carol.wait(owed, ["running"])
    evicted = [job for job in borrowed if bob.job(job)["state"] == "queued"]
    assert len(evicted) == 1
    assert bob.job(evicted[0])["attempt"] == 1
    told = berth(bob, "explain", evicted[0]["name"])
    assert "preempt" in told
    assert "speech" not in told
    records = carol.items(f"/jobs/{owed['id']}/decisions")
    assert [record["kind"] for record in reversed(records)][-2:] == ["claim", "wait_turned_start"]
    assert "borrowed" not in str(records), "whose room it was is not carol's to know"
    question = {"changes": [{"end": {"job": borrowed[0]["id"] if borrowed[0] != evicted[0] else borrowed[1]["id"]}}]}
    answer = bob.api("POST", "/what-if", question)
    assert [start["job"]["id"] for start in answer["starts"]["jobs"]] == [evicted[0]["id"]]
    bob.stop({"id": question["changes"][0]["end"]["job"]}, grace_seconds=0)
    assert bob.wait(evicted[0], ["running"])["attempt"] == 2
