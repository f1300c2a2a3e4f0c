"""What tenants have booked for a time: who keeps off, who leaves in time, and that the owner finds it."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

from jobs.scheduling.core.core import Core
from jobs.scheduling.core.state.decisions import Evict
from jobs.scheduling.core.state.work import JobAsk
from tenants.capacity.quota.bookings import Booked
from tenants.capacity.quota.limits import Limit
from tests.unit.scheduling.test_core import POOL, a_core, a_job, admitted, evicted, owed, submit, why

BOOKING = uuid.UUID(int=77)


def booked_core(*windows: Booked, **more: Any) -> Core:
    core = a_core(**{"overrun_seconds": 0, "least_runtime_seconds": 50, "grace_seconds": 20, "backfill_depth": 0, **more})
    core.bookings_changed(windows)
    return core


def window(gpus: int, starts: int, ends: int, queue: int = 0) -> Booked:
    """Of queue number 1 for queue 0, as `a_core` names them."""
    return Booked(BOOKING, uuid.UUID(int=10 + queue), POOL, gpus * 1000, starts, ends)


def firm(job: JobAsk) -> JobAsk:
    return replace(job, evictable=False)


def lasting(seconds: int, job: JobAsk) -> JobAsk:
    return replace(job, max_runtime=seconds)


def test_inside_the_window_its_owner_starts_at_once_and_others_keep_off() -> None:
    core = booked_core(window(8, 0, 100))
    submit(core, a_job("other", 2, gpus=4, at=0), a_job("another", 2, gpus=2, at=1), a_job("small", 2, gpus=1, at=2))
    assert admitted(core.decide(5)) == ["other"]
    reason = why(core, "another")
    assert (reason.code, reason.need, reason.held, reason.kept, reason.limit) == ("advance_reservation", 2000, 4000, 8000, 12_000)
    assert (reason.since, reason.until, reason.of) == (0, 100, str(BOOKING))
    submit(core, a_job("owner", 1, tasks=2, gpus=4, at=6))
    assert admitted(core.decide(6)) == ["owner"]


def test_before_the_window_only_what_ends_or_can_be_evicted_by_then_starts() -> None:
    core = booked_core(window(12, 200, 300))
    submit(
        core,
        firm(lasting(100, a_job("ends", 2, gpus=4))),
        firm(lasting(300, a_job("too-long", 2, gpus=4, at=1))),
        firm(a_job("unknown", 2, gpus=2, at=2)),
        a_job("goes-when-told", 2, gpus=4, at=3),
    )
    assert sorted(admitted(core.decide(10))) == ["ends", "goes-when-told"]
    assert {why(core, name).code for name in ("too-long", "unknown")} == {"advance_reservation"}
    submit(core, a_job("too-young", 2, gpus=2, at=140))
    assert admitted(core.decide(140)) == []
    assert why(core, "too-young").code == "advance_reservation"
    assert core.next_pass_at == 180


def test_who_is_in_the_way_is_told_to_leave_before_the_window_begins_and_only_as_many_as_must() -> None:
    core = booked_core(window(8, 200, 300))
    submit(core, *(a_job(f"lent-{number}", 2, gpus=4, at=number) for number in range(3)))
    core.decide(10)
    core.checkpointed("lent-1", 170)
    decisions = core.decide(180)
    assert evicted(decisions) == ["lent-0", "lent-1"] or evicted(decisions) == ["lent-1", "lent-2"]
    assert {(decision.claimant, decision.booking) for decision in decisions if isinstance(decision, Evict)} == {
        ("", str(BOOKING))
    }
    assert core.decide(181) == ()
    for name in evicted(decisions):
        core.ended(name)
    submit(core, a_job("again", 2, gpus=4, at=190), a_job("owner", 1, tasks=2, gpus=4, at=200))
    assert admitted(core.decide(200)) == ["owner"]


def test_who_has_left_for_a_window_does_not_come_back_into_it_while_others_leave_instead() -> None:
    """Who comes so late could not be told to leave any more: all that stay would have to, one after the other."""
    core = booked_core(window(4, 200, 300), least_runtime_seconds=10)
    jobs = {f"lent-{number}": a_job(f"lent-{number}", 2, gpus=2, at=number) for number in range(6)}
    submit(core, *jobs.values())
    core.decide(10)
    gone = evicted(core.decide(180))
    assert len(gone) == 2
    for name in gone:
        core.ended(name)
        submit(core, jobs[name])
    decisions = core.decide(180)
    assert (admitted(decisions), evicted(decisions)) == ([], [])
    assert {why(core, name).code for name in gone} == {"advance_reservation"}
    decisions = core.decide(190)
    assert (admitted(decisions), evicted(decisions)) == ([], [])
    submit(core, a_job("owner", 1, gpus=4, at=190), lasting(5, a_job("ends", 2, gpus=2, at=191)))
    assert admitted(core.decide(191)) == ["owner"]


def test_when_the_window_is_over_the_others_come_back() -> None:
    core = booked_core(window(12, 0, 100))
    submit(core, a_job("other", 2, gpus=4))
    assert admitted(core.decide(5)) == []
    assert core.next_pass_at == 100
    assert admitted(core.decide(100)) == ["other"]


def test_who_is_owed_room_does_not_take_what_runs_on_a_booking() -> None:
    core = booked_core(window(8, 0, 500, queue=1), limits={"a": owed(12), "b": Limit()}, least_runtime_seconds=0)
    submit(core, a_job("mine", 2, tasks=2, gpus=4), a_job("lent", 2, gpus=4, at=1))
    core.decide(1)
    submit(core, a_job("owner", 1, gpus=4, at=2), a_job("more", 1, gpus=4, at=3))
    assert evicted(core.decide(3)) == ["lent"]
    assert why(core, "more").code in ("capacity", "advance_reservation")


def test_bookings_that_are_given_up_hold_nothing() -> None:
    core = booked_core(window(12, 0, 100))
    submit(core, a_job("other", 2, gpus=4))
    core.decide(5)
    core.bookings_changed(())
    assert admitted(core.decide(6)) == ["other"]


def test_a_job_with_a_grace_of_its_own_of_ten_minutes_is_told_to_leave_ten_minutes_before_the_window() -> None:
    core = booked_core(window(12, 1000, 1100))
    slow = replace(a_job("slow", 2, gpus=4), grace_seconds=600)
    submit(core, slow, a_job("quick", 2, gpus=4))
    assert sorted(admitted(core.decide(10))) == ["quick", "slow"]
    assert evicted(core.decide(399)) == []
    assert core.next_pass_at == 400
    assert evicted(core.decide(400)) == ["slow"]
    assert evicted(core.decide(980)) == ["quick"]


def test_a_job_that_could_not_leave_before_the_window_by_its_own_grace_does_not_start() -> None:
    core = booked_core(window(12, 600, 700))
    submit(core, replace(a_job("slow", 2, gpus=4), grace_seconds=600), a_job("quick", 2, gpus=4))
    assert admitted(core.decide(10)) == ["quick"]
    assert why(core, "slow").code == "advance_reservation"


def test_who_has_just_started_is_not_told_to_leave_in_the_same_second() -> None:
    core = booked_core(least_runtime_seconds=0)
    submit(core, *(a_job(f"runs-{number}", 2, gpus=4) for number in range(3)))
    assert len(admitted(core.decide(10))) == 3
    core.bookings_changed([window(4, 20, 100)])
    assert evicted(core.decide(10)) == []
    assert len(evicted(core.decide(11))) == 1
