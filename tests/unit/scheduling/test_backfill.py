"""Reserved starts: who gets one, who may start before it, and when it does not hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from jobs.scheduling.core.core import Core
from jobs.scheduling.core.state.decisions import Decision, Reserve
from jobs.scheduling.core.state.work import JobAsk
from jobs.scheduling.replay.log import Decided, Event, apply
from jobs.scheduling.replay.run import Arrival, Replay
from tenants.capacity.quota.limits import Limit
from tests.unit.scheduling.test_core import a_core, a_job, admitted, evicted, owed, submit, why


def a_booking_core(**more: Any) -> Core:
    return a_core(**{"overrun_seconds": 0, "replan_seconds": 0, **more})


def for_seconds(seconds: int, name: str, queue: int = 1, **more: Any) -> JobAsk:
    return replace(a_job(name, queue, **more), max_runtime=seconds)


def booked(decisions: tuple[Decision, ...]) -> list[tuple[str, int, str]]:
    return [(decision.id, decision.at, decision.cause) for decision in decisions if isinstance(decision, Reserve)]


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
    assert core.next_pass_at == 310


@pytest.mark.capability("14", "Backfill: small jobs pass a reserved start only where they end before it")
def test_only_who_ends_before_a_booked_start_may_use_its_machines() -> None:
    core = a_booking_core()
    submit(core, for_seconds(100, "first", tasks=2, gpus=4), for_seconds(50, "wide", tasks=3, gpus=4, at=1))
    core.decide(0)
    submit(core, for_seconds(101, "too-long", gpus=4, at=2), for_seconds(100, "fits", gpus=2, at=3), a_job("unknown", at=4))
    assert admitted(core.decide(0)) == ["fits"]
    assert why(core, "too-long").code == "backfill_reservation"
    assert why(core, "too-long").until == 100
    assert why(core, "unknown").code == "backfill_reservation"
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


def test_reserved_starts_can_be_kept_elsewhere_and_given_to_another_core() -> None:
    core, other = a_booking_core(nodes=2), a_booking_core(nodes=2)
    running, waits = for_seconds(100, "a", gpus=4), for_seconds(10, "wide", tasks=2, gpus=4, at=1)
    submit(core, running, waits)
    core.decide(0)
    other.started(running, core.running["a"].placed, 0)
    submit(other, waits, a_job("next", at=2))
    for reservation in core.reservations.kept():
        other.reservations.restore(reservation)
    assert admitted(other.decide(1)) == []
    assert why(other, "next").code == "backfill_reservation"


def test_a_start_that_could_be_earlier_is_asked_again_in_time_though_nothing_else_happens() -> None:
    core = a_booking_core(nodes=2, replan_seconds=60)
    submit(core, for_seconds(500, "a", gpus=4), for_seconds(200, "b", gpus=4), for_seconds(50, "wide", tasks=2, gpus=4, at=1))
    assert booked(core.decide(0)) == [("wide", 500, "")]
    core.ended("a")
    submit(core, for_seconds(100, "c", gpus=4, at=20))
    decisions = core.decide(20)
    assert admitted(decisions) == ["c"]
    assert booked(decisions) == []
    assert core.next_pass_at == 60
    assert booked(core.decide(60)) == [("wide", 200, "")]
    assert core.next_pass_at == 200


def test_a_start_is_planned_in_the_first_pass_from_its_moment_on_and_is_told_to_nobody() -> None:
    core = a_core(nodes=1, assumed_runtime_seconds=10_000, plans_after_seconds=600)
    submit(core, *(a_job(f"small-{number}") for number in range(4)), a_job("wide", gpus=4, at=5))
    assert len(admitted(core.decide(10))) == 4
    core.decide(604)
    assert not core.reservations
    assert booked(core.decide(605)) == []
    assert list(core.reservations.by_job) == ["wide"]
    assert core.reservations.kept() == ()


def test_planned_starts_are_planned_anew_in_each_period_and_go_to_the_first_job_then() -> None:
    core = a_core(nodes=1, assumed_runtime_seconds=10_000, plans_after_seconds=0, replan_seconds=60)
    submit(core, *(a_job(f"small-{number}") for number in range(4)), a_job("wide", gpus=4, at=5))
    core.decide(10)
    assert list(core.reservations.by_job) == ["wide"]
    submit(core, a_job("urgent", gpus=3, priority=1000, at=20))
    core.decide(20)
    assert list(core.reservations.by_job) == ["wide"]
    decisions = core.decide(60)
    assert list(core.reservations.by_job) == ["urgent"]
    assert booked(decisions) == []  # No promise was broken.


def test_the_record_of_a_start_that_yields_names_the_job_that_took_it() -> None:
    core = a_booking_core(nodes=2, limits={"a": owed(8), "b": Limit()})
    submit(core, for_seconds(100, "runs", queue=2, gpus=4))
    core.decide(0)
    submit(core, for_seconds(50, "wide", queue=2, tasks=2, gpus=4, at=1))
    assert booked(core.decide(1)) == [("wide", 100, "")]
    submit(core, for_seconds(500, "owner", gpus=4, at=2))
    decisions = core.decide(2)
    assert admitted(decisions) == ["owner"]
    assert [(decision.id, decision.cause, decision.by) for decision in decisions if isinstance(decision, Reserve)] == [
        ("wide", "yielded", "owner")
    ]


def test_a_job_of_lower_priority_evicts_nobody_for_limits_that_a_start_of_its_queue_needs() -> None:
    core = a_booking_core(nodes=4, limits={"a": owed(8, ceiling=8000), "b": owed(8)})
    submit(core, for_seconds(1000, "runs", gpus=4))
    submit(core, *(for_seconds(5000, f"borrows-{number:02}", queue=2) for number in range(12)))
    core.decide(1)
    submit(core, for_seconds(600, "high", tasks=2, gpus=4, at=10, priority=900))
    at = booked(core.decide(10))
    assert [name for name, _, _ in at] == ["high"]
    submit(core, for_seconds(90_000, "low", gpus=4, at=20))
    assert evicted(core.decide(20)) == []
    submit(core, for_seconds(90_000, "higher", gpus=4, at=21, priority=950))
    decisions = core.decide(21)
    assert len(evicted(decisions)) == 4
    assert [
        (decision.id, decision.cause, decision.by) for decision in decisions if isinstance(decision, Reserve) and decision.cause
    ] == [("high", "yielded", "higher")]


def test_a_job_of_lower_priority_evicts_nobody_on_whose_end_a_start_of_its_queue_counts() -> None:
    core = a_booking_core(nodes=2, limits={"a": owed(4), "b": owed(2)})
    submit(core, for_seconds(1000, "ends", queue=2, gpus=4))
    core.decide(2)
    submit(core, for_seconds(90_000, "runs", gpus=2, at=3), for_seconds(90_000, "stays", queue=2, gpus=2, at=3, evictable=False))
    core.decide(3)
    submit(core, for_seconds(600, "high", gpus=4, at=10, priority=900))
    assert booked(core.decide(10)) == [("high", 1002, "")]
    submit(core, for_seconds(90_000, "low", gpus=2, at=20))
    assert evicted(core.decide(20)) == []
    assert [reservation.at for reservation in core.reservations.kept()] == [1002]
    submit(core, for_seconds(90_000, "higher", gpus=2, at=21, priority=950))
    assert evicted(core.decide(21)) == ["ends"]


def test_rebalancing_takes_no_start_of_another_queue() -> None:
    limits = {name: owed(1) for name in "abcd"}
    core = a_booking_core(nodes=2, gpus=8, limits=limits, rebalances=True, grace_seconds=0, least_runtime_seconds=0)
    submit(core, for_seconds(90_000, "c-8", queue=3, gpus=8))
    core.decide(1)
    submit(core, for_seconds(1000, "d-6", queue=4, gpus=6, at=2))
    core.decide(2)
    submit(core, for_seconds(600, "wide", queue=2, gpus=8, at=10))
    assert booked(core.decide(10)) == [("wide", 1002, "")]
    submit(core, for_seconds(90_000, "small", queue=1, gpus=2, at=20))
    for now in (20, 61, 121):
        assert admitted(core.decide(now)) == []
    assert [reservation.at for reservation in core.reservations.kept()] == [1002]


@pytest.mark.parametrize(("by", "broken"), [("", 1), ("other", 0)])
def test_a_replay_counts_a_start_that_yields_to_no_job_above_it_as_broken(by: str, broken: int) -> None:
    """What the core decides is told with one reserved start more, and that it was not kept."""
    core = a_booking_core(nodes=1)
    told: list[Decision] = [Reserve("late", 50, ()), Reserve("late", 0, (), "yielded", by=by)]

    def tell(event: Event) -> tuple[Decision, ...]:
        return (*apply(core, event), *(told.pop(0) for _ in range(len(told)) if isinstance(event, Decided)))

    arrivals = [Arrival(a_job("first", gpus=4), 100), Arrival(a_job("late", gpus=4), 100)]
    outcome = Replay(core, arrivals, grace_seconds=0, tell=tell).run()
    assert outcome.stays["late"].first_started_at == 100
    assert outcome.broken == broken


def test_a_start_counts_with_the_grace_that_a_job_has_of_its_own() -> None:
    """Ten minutes, where the platform's grace is half a minute."""
    core = a_booking_core(nodes=1, grace_seconds=30, overrun_seconds=60)
    submit(core, replace(for_seconds(1000, "runs", gpus=4), grace_seconds=600), for_seconds(10, "waits", gpus=4, at=1))
    assert booked(core.decide(0)) == [("waits", 1000 + 600 + 30, "")]


def test_a_wide_gang_starts_among_small_jobs_beside_a_gang_as_wide_that_runs_for_days() -> None:
    """No maximum run times. The long gang is assumed to end in an hour, and does not: the small jobs then have to make room."""
    core = a_booking_core(
        nodes=2, limits={"a": Limit(), "b": Limit(), "c": Limit()}, assumed_runtime_seconds=3600, replan_seconds=60
    )
    small = [Arrival(a_job(f"small-{number:03}", queue=2, at=300 * number), 1500) for number in range(96)]
    stays = (
        Replay(
            core,
            [Arrival(a_job("long", queue=3, gpus=4), 12 * 86400), *small, Arrival(a_job("wide", gpus=4, at=100), 3600)],
            grace_seconds=0,
        )
        .run()
        .stays
    )
    assert stays["long"].first_started_at == 0
    assert 0 < stays["wide"].first_started_at <= 7200
    assert all(stays[arrival.job.id].finished_at > 0 for arrival in small)


def test_a_reserved_start_gives_way_by_the_priority_that_its_job_has_now() -> None:
    core = a_booking_core(nodes=1)
    submit(core, for_seconds(1000, "runs", gpus=2), for_seconds(600, "wide", gpus=4, at=1, priority=100))
    assert booked(core.decide(1)) == [("wide", 1001, "")]
    submit(core, for_seconds(600, "wide", gpus=4, at=1, priority=900), a_job("mid", gpus=2, at=2, priority=500))
    decisions = core.decide(3)
    assert (admitted(decisions), booked(decisions)) == ([], [])
    submit(core, a_job("high", gpus=2, at=4, priority=1000))
    assert admitted(core.decide(4)) == ["high"]
