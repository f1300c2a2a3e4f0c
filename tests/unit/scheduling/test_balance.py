"""Once a minute: of those who borrow the one with less takes from the one with more, and small gangs move for a larger one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from jobs.scheduling.core.core import Core
from jobs.scheduling.core.place.gangs import GangAsk, Placed, RoleAsk
from jobs.scheduling.core.place.machines import TaskAsk
from jobs.scheduling.core.place.scores import PoolRules
from jobs.scheduling.core.state.decisions import Claim, Decision, Evict, WaitReason
from tenants.capacity.quota.limits import Limit
from tests.unit.scheduling.test_core import GIB, a_core, a_job, admitted, evicted, owed, submit, why

OLD = 1_200


def scattered(*, nodes: int = 4, **policy: Any) -> Core:
    """Two of four GPUs are free on each machine, next to a gang of two."""
    core = a_core(nodes=nodes, **{"migrations": 2, "migrates_after_seconds": 60, **policy})
    core.machines.set_rules(0, PoolRules(policy="spread"))
    submit(core, *(a_job(f"small-{number}", gpus=2, checkpoint_seconds=60) for number in range(nodes)))
    core.decide(0)
    return core


def moves_of(decisions: tuple[Decision, ...]) -> dict[str, Placed]:
    return {decision.id: decision.to for decision in decisions if isinstance(decision, Evict) and decision.to is not None}


def test_a_small_gang_moves_and_both_start_when_it_has_left() -> None:
    core = scattered()
    submit(core, a_job("large", gpus=4, at=0))
    assert not evicted(core.decide(30))
    decisions = core.decide(OLD)
    (moved,) = moves_of(decisions)
    (claim,) = [decision for decision in decisions if isinstance(decision, Claim)]
    assert (claim.id, claim.victims) == ("large", (moved,))
    assert core.why("large") == WaitReason("claim", need=1, held=1)
    small = core.running[moved].job
    core.ended(moved)
    core.submit(small)
    assert core.why(moved) == WaitReason("moving", 0, 1)
    assert admitted(core.decide(OLD + 30)) == ["large", moved]
    assert core.running[moved].placed == moves_of(decisions)[moved]


def test_what_a_move_loses_must_be_less_than_what_the_gang_has_waited() -> None:
    core = scattered(migrates_after_seconds=0)
    for running in list(core.running.values()):
        running.job = replace(
            running.job, checkpoint_seconds=0
        )  # All since the start would be lost: 2 GPUs for OLD seconds and grace.
    submit(core, a_job("large", gpus=4, at=OLD))
    assert not moves_of(core.decide(OLD + 300)), "4 GPUs for 300 seconds"
    assert moves_of(core.decide(2 * OLD + 300))


def test_nothing_moves_again_before_it_has_run_for_twice_the_least_run_time() -> None:
    core = scattered(least_runtime_seconds=600)
    submit(core, a_job("large", gpus=4, at=0))
    assert not moves_of(core.decide(1_140))
    assert moves_of(core.decide(1_200))


def test_the_brake_on_evictions_holds_for_moves_too() -> None:
    core = scattered(evictions_per_window=1)
    core.evicted_at.append((OLD - 60, 1))
    submit(core, a_job("large", gpus=4, at=0))
    assert not moves_of(core.decide(OLD))
    assert moves_of(core.decide(OLD + 3_600))


def test_a_gang_that_is_as_large_or_of_higher_priority_is_not_moved() -> None:
    core = scattered()
    submit(core, a_job("pair", tasks=2, gpus=3, at=0))
    assert moves_of(core.decide(OLD)), "six GPUs are more than two"
    core = scattered()
    for running in list(core.running.values()):
        running.job = replace(running.job, priority=900)
    submit(core, a_job("large", gpus=4, at=0))
    assert not moves_of(core.decide(OLD))


def test_a_seat_is_for_its_job_alone_and_is_given_away_when_that_does_not_come_back() -> None:
    core = scattered()
    submit(core, a_job("large", gpus=4, at=0))
    (moved,) = moves_of(core.decide(OLD))
    core.ended(moved)
    submit(core, *(a_job(f"new-{number}", gpus=2, at=OLD) for number in range(3)))
    assert sorted(admitted(core.decide(OLD + 30))) == ["large", "new-0", "new-1"]
    assert core.next_pass_at is not None
    assert admitted(core.decide(OLD + 90)) == ["new-2"]
    assert not core.seats


def test_who_comes_back_and_may_not_start_leaves_its_seat() -> None:
    core = scattered()
    submit(core, a_job("large", gpus=4, at=0))
    (moved,) = moves_of(core.decide(OLD))
    small = core.running[moved].job
    core.ended(moved)
    core.submit(replace(small, withheld=WaitReason("held")))
    submit(core, *(a_job(f"new-{number}", gpus=2, at=OLD) for number in range(3)))
    assert len(admitted(core.decide(OLD + 30))) >= 3
    core.decide(OLD + 31)
    assert sorted(name for name in core.running if name.startswith("new")) == ["new-0", "new-1", "new-2"]
    assert core.why(moved) == WaitReason("held")


def test_a_booked_start_of_another_is_not_delayed_by_a_move() -> None:
    """The first has a start when the known end comes; what stands where it will go is left alone."""
    core = scattered()
    for running in list(core.running.values()):
        core.ended(running.job.id)
    core.machines.set_rules(0, PoolRules(policy="spread"))
    submit(core, *(a_job(f"known-{number}", gpus=2, at=OLD, max_runtime=5_000) for number in range(4)))
    core.decide(OLD)
    submit(core, a_job("first", tasks=2, gpus=4, at=OLD), a_job("second", gpus=4, at=OLD + 1))
    core.decide(OLD + 1)
    promised = {name: reservation.at for name, reservation in core.reservations.by_job.items()}
    assert promised
    for minute in range(1, 60):
        core.decide(OLD + 60 * minute)
    assert all(core.reservations.by_job[name].at <= at for name, at in promised.items() if name in core.reservations.by_job)


@pytest.mark.capability("14", "Shuffle: once a minute queues that borrow are evened out by weight")
def test_the_smaller_part_takes_from_the_larger_until_they_are_alike() -> None:
    limits = {"a": owed(2), "b": owed(2)}
    core = a_core(limits=limits, rebalances=True)
    submit(core, *(a_job(f"much-{number}", gpus=1) for number in range(12)))
    core.decide(0)
    submit(core, *(a_job(f"less-{number}", queue=2, gpus=1, at=10) for number in range(12)))
    now = OLD
    for _ in range(12):
        for name in evicted(core.decide(now)):
            job = core.running[name].job
            core.ended(name)
            core.submit(job)
        now += 60
    assert (core.shares.used(1, 0)[2], core.shares.used(2, 0)[2]) == (6_000, 6_000)


def test_nothing_is_taken_from_whom_nobody_promised_anything() -> None:
    core = a_core(rebalances=True)
    submit(core, *(a_job(f"much-{number}", gpus=1) for number in range(12)))
    core.decide(0)
    submit(core, a_job("less", queue=2, gpus=1, at=10))
    assert not evicted(core.decide(OLD))


def test_a_weight_is_a_part() -> None:
    core = a_core(limits={"a": owed(1, weight=3), "b": owed(1, weight=1)}, rebalances=True)
    submit(core, *(a_job(f"much-{number}", gpus=1) for number in range(12)))
    core.decide(0)
    submit(core, *(a_job(f"less-{number}", queue=2, gpus=1, at=10) for number in range(12)))
    for minute in range(20, 40):
        for name in evicted(core.decide(60 * minute)):
            core.ended(name)
    assert (core.shares.used(1, 0)[2], core.shares.used(2, 0)[2]) == (9_000, 3_000)


def test_a_gang_behind_many_for_which_there_is_nothing_is_asked_too() -> None:
    """Forty shapes of gangs that are wider than what an even part allows come before it; each minute as many of the others are
    asked as of the first."""
    core = a_core(limits={"a": owed(2), "b": owed(2)}, rebalances=True, backfill_depth=0, history_seconds=0)
    submit(core, *(a_job(f"much-{number}", gpus=1) for number in range(12)))
    core.decide(0)
    submit(core, *(a_job(f"less-{number}", queue=2, gpus=1, at=10) for number in range(2)))
    for name in evicted(core.decide(20)):
        core.ended(name)
    core.decide(30)
    assert {name for name in core.running if name.startswith("less")} == {"less-0", "less-1"}
    for number in range(40):  # Each another shape.
        role = RoleAsk("worker", TaskAsk(1000 + number, GIB, 1000), 6, 6)
        submit(core, replace(a_job(f"wide-{number:02}", queue=2, at=40), gang=GangAsk((role,))))
    submit(core, a_job("behind", queue=2, gpus=1, at=50))
    assert not evicted(core.decide(59)), "no minute has begun"
    taken = [name for minute in range(1, 5) for name in evicted(core.decide(60 * minute))]
    assert len(taken) == 1
    core.ended(taken[0])
    assert admitted(core.decide(300)) == ["behind"]


def test_no_room_is_made_for_a_job_behind_one_that_waits_where_a_queue_is_served_in_order() -> None:
    limits = {"a": Limit(deserved=1000, ceiling=4000), "b": Limit(deserved=1000)}
    core = a_core(nodes=2, limits=limits, rebalances=True, in_order=True, reclaim_least_runtime_seconds=0, backfill_depth=0)
    submit(core, *(a_job(f"much-{number}", queue=2, gpus=2) for number in range(4)))
    core.decide(0)
    submit(core, a_job("later", gpus=2, at=10))
    core.decide(10)
    submit(core, a_job("first", tasks=2, gpus=4, at=5, priority=900))
    core.decide(11)
    assert (why(core, "first").code, evicted(core.decide(OLD))) == ("ceiling", [])
    core.withdraw("first")
    assert len(evicted(core.decide(OLD + 60))) == 1
