"""Booked starts: who gets one, who may start before it, and when it does not hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from jobs.scheduling.core.core import Core
from jobs.scheduling.core.state.decisions import Book, Decision
from jobs.scheduling.core.state.work import Job
from tenants.quota.limits import Limit
from tests.unit.scheduling.test_core import a_core, a_job, admitted, evicted, owed, submit, why


def a_booking_core(**more: Any) -> Core:
    return a_core(**{"overrun_seconds": 0, "rebook_seconds": 0, **more})


def for_seconds(seconds: int, name: str, queue: int = 1, **more: Any) -> Job:
    return replace(a_job(name, queue, **more), max_runtime=seconds)


def booked(decisions: tuple[Decision, ...]) -> list[tuple[str, int, str]]:
    return [(one.id, one.at, one.cause) for one in decisions if isinstance(one, Book)]


def test_the_first_that_is_refused_gets_the_start_at_which_enough_has_ended() -> None:
    core = a_booking_core()
    submit(
        core,
        for_seconds(100, "short", gpus=4),
        for_seconds(300, "long", gpus=4, at=1),
        for_seconds(50, "wide", tasks=3, gpus=4, at=2),
    )
    decisions = core.decide(10)
    assert admitted(decisions) == ["short", "long"]
    assert booked(decisions) == [("wide", 310, "")]
    assert core.next_ring == 310


def test_only_who_ends_before_a_booked_start_may_use_its_machines() -> None:
    core = a_booking_core()
    submit(core, for_seconds(100, "first", tasks=2, gpus=4), for_seconds(50, "wide", tasks=3, gpus=4, at=1))
    core.decide(0)
    submit(core, for_seconds(101, "too-long", gpus=4, at=2), for_seconds(100, "fits", gpus=2, at=3), a_job("unknown", at=4))
    assert admitted(core.decide(0)) == ["fits"]
    assert why(core, "too-long").code == "booked"
    assert why(core, "too-long").until == 100
    assert why(core, "unknown").code == "booked"
    core.ended("first")
    core.ended("fits")
    assert admitted(core.decide(90)) == ["wide"]


def test_what_the_booked_gang_does_not_need_is_for_everybody() -> None:
    core = a_booking_core()
    submit(core, for_seconds(100, "first", tasks=2, gpus=4), for_seconds(50, "wide", tasks=2, gpus=3, at=1), a_job("spare", at=2))
    decisions = core.decide(0)
    assert booked(decisions) == [("wide", 100, "")]
    submit(core, a_job("more", gpus=3, at=3), a_job("again", gpus=3, at=4))
    assert admitted(decisions) + admitted(core.decide(1)) == ["first", "spare", "more"]
    core.ended("first")
    assert admitted(core.decide(100)) == ["wide"]


def test_who_runs_for_nobody_knows_how_long_never_ends_in_a_plan() -> None:
    core = a_booking_core(nodes=1)
    submit(core, a_job("endless", gpus=4), for_seconds(10, "waits", gpus=4, at=1))
    assert booked(core.decide(0)) == []
    assert why(core, "waits").code == "capacity"


def test_an_end_that_comes_early_makes_the_start_earlier_and_one_that_is_not_early_enough_does_not_move_it() -> None:
    core = a_booking_core(nodes=2)
    submit(core, for_seconds(500, "a", gpus=4), for_seconds(200, "b", gpus=4), for_seconds(50, "wide", tasks=2, gpus=4, at=1))
    assert booked(core.decide(0)) == [("wide", 500, "")]
    core.ended("b")
    assert booked(core.decide(20)) == []
    submit(core, for_seconds(100, "c", gpus=4, at=21))
    assert admitted(core.decide(21)) == ["c"]
    core.ended("a")
    decisions = core.decide(30)
    assert admitted(decisions) == []
    assert booked(decisions) == [("wide", 121, "")]


def test_a_machine_that_is_lost_takes_the_start_with_it() -> None:
    core = a_booking_core(nodes=2)
    submit(core, for_seconds(100, "a", gpus=4), for_seconds(100, "b", gpus=4), for_seconds(50, "wide", tasks=2, gpus=4, at=1))
    assert booked(core.decide(0)) == [("wide", 100, "")]
    core.machine_changed(replace(core.machines.at[1], blocked="not ready"))
    assert booked(core.decide(5)) == [("wide", 0, "machine")]


def test_a_start_that_somebody_overstays_is_booked_anew() -> None:
    core = a_booking_core(nodes=2)
    submit(core, for_seconds(100, "a", gpus=4), for_seconds(100, "b", gpus=4), for_seconds(50, "wide", tasks=2, gpus=4, at=1))
    core.decide(0)
    core.ended("a")
    decisions = core.decide(100)
    assert admitted(decisions) == []
    assert booked(decisions) == [("wide", 101, "overrun")]
    core.ended("b")
    assert admitted(core.decide(101)) == ["wide"]


def test_who_is_owed_the_room_takes_it_from_a_start_that_would_be_borrowed() -> None:
    core = a_booking_core(nodes=2, limits={"a": owed(8), "b": Limit()}, least_runtime_seconds=10_000)
    submit(core, for_seconds(100, "lent", 2, gpus=4), for_seconds(50, "wide", 2, tasks=2, gpus=4, at=1))
    assert booked(core.decide(0)) == [("wide", 100, "")]
    submit(core, a_job("owner", 1, gpus=4, at=2))
    decisions = core.decide(2)
    assert (admitted(decisions), evicted(decisions)) == (["owner"], [])
    assert booked(decisions) == [("wide", 0, "yielded")]


def test_what_starts_leaves_the_booked_gang_its_limit_too() -> None:
    core = a_booking_core(nodes=4, limits={"a": Limit(ceiling=8000), "b": Limit()}, preempts=False)
    submit(core, for_seconds(100, "b-all", 2, tasks=2, gpus=4), for_seconds(100, "first", 1, gpus=4))
    core.decide(0)
    submit(core, for_seconds(100, "wide", 1, tasks=2, gpus=4, at=1, together="switch"), a_job("late", 2, at=1))
    core.decide(1)
    assert why(core, "wide").code == "ceiling"
    assert "late" in core.running


def test_a_booked_start_is_not_of_one_that_does_not_wait_any_more() -> None:
    core = a_booking_core(nodes=1)
    submit(core, for_seconds(100, "a", gpus=3), for_seconds(10, "wide", gpus=4, at=1), a_job("next", at=2))
    core.decide(0)
    core.withdraw("wide")
    assert admitted(core.decide(1)) == ["next"]
    assert not core.reservations


def test_with_many_booked_nobody_delays_any_of_them() -> None:
    core = a_booking_core(nodes=1, backfill_depth=9)
    submit(
        core,
        for_seconds(100, "a", gpus=3),
        for_seconds(100, "b", gpus=4, at=1),
        for_seconds(100, "c", gpus=4, at=2),
        for_seconds(100, "d", gpus=1, at=3),
        for_seconds(101, "e", gpus=1, at=4),
    )
    decisions = core.decide(0)
    assert admitted(decisions) == ["a", "d"]
    assert booked(decisions) == [("b", 100, ""), ("c", 200, ""), ("e", 300, "")]


def test_promises_can_be_kept_elsewhere_and_given_to_another_core() -> None:
    core, other = a_booking_core(nodes=2), a_booking_core(nodes=2)
    running, waits = for_seconds(100, "a", gpus=4), for_seconds(10, "wide", tasks=2, gpus=4, at=1)
    submit(core, running, waits)
    core.decide(0)
    other.started(running, core.running["a"].placed, 0)
    submit(other, waits, a_job("next", at=2))
    for one in core.reservations.kept():
        other.reservations.restore(one)
    assert admitted(other.decide(1)) == []
    assert why(other, "next").code == "booked"
