"""A lender that comes and goes all the time: limits move, no machine does, and evictions are as rare as the policy has them."""

from __future__ import annotations

import uuid

import pytest

from jobs.scheduling.core.core import Policy
from jobs.scheduling.core.place.gangs import GangAsk, RoleAsk
from jobs.scheduling.core.place.machines import Machine, TaskAsk
from jobs.scheduling.core.snapshot import Pool, State, build
from jobs.scheduling.core.state.work import JobAsk
from jobs.scheduling.replay.run import Arrival, Replay, ReplayOutcome
from kernel.resources import Resources
from tenants.capacity.quota.limits import Capacity, Limit, LimitedQueue

POOL, ROOT, LENDER, BORROWER = (uuid.UUID(int=number) for number in range(1, 5))
GPUS, HOURS, EVERY = 8, 2, 40


def flapping(least_runtime: int, lender: Limit) -> tuple[ReplayOutcome, int, int]:
    """Every 40 seconds the lender wants all GPUs for 30; the borrower always has work. The machines never change."""
    queues = (
        LimitedQueue(ROOT, None, "root"),
        LimitedQueue(LENDER, ROOT, "lender", {POOL: {"gpu_millis": lender}}),
        LimitedQueue(BORROWER, ROOT, "borrower"),
    )
    policy = Policy(reclaim_least_runtime_seconds=least_runtime, grace_seconds=0, starvation_guard_seconds=0)
    total = Resources(64_000, 1 << 40, GPUS * 1000)
    state = State(0, (Pool(POOL, "a100"),), (Machine("node", 0, 64_000, 1 << 40, GPUS),), queues,
                  (Capacity(POOL, "a100", total),), policy=policy)  # fmt: skip
    core = build(state)
    whole = GangAsk((RoleAsk("worker", TaskAsk(1_000, 1 << 30, GPUS * 1000), 1, 1),))
    half = GangAsk((RoleAsk("worker", TaskAsk(1_000, 1 << 30, GPUS * 500), 1, 1),))
    mine, theirs = core.shares.queue_at[LENDER], core.shares.queue_at[BORROWER]
    arrivals = [Arrival(JobAsk(f"lender-{at:05}", mine, whole, (0,), at), 30) for at in range(100, HOURS * 3600, EVERY)]
    arrivals += [Arrival(JobAsk(f"borrower-{n}", theirs, half, (0,), 0, checkpoint_seconds=60), 3_600) for n in range(8)]
    return Replay(core, arrivals, grace_seconds=0).run(), len(arrivals) - 8, mine


@pytest.mark.capability("98", "With a least run time between queues a lender evicts no more often than that, and waits no longer")
def test_a_lender_that_flaps_evicts_no_more_often_than_the_least_run_time_lets_it() -> None:
    damped, claims, lender = flapping(300, Limit(deserved=GPUS * 1000))
    undamped, _, _ = flapping(0, Limit(deserved=GPUS * 1000))

    assert undamped.evictions > claims / 2
    assert damped.evictions <= 2 * (HOURS * 3600 // 300 + 1)  # Two at a time, none before it has run for five minutes.
    assert damped.evictions * 4 < undamped.evictions
    waits = [stay.first_started_at - stay.submitted_at for stay in damped.stays.values() if stay.queue == lender]
    assert max(waits) <= 300 + EVERY  # And the lender never waits longer than that for what is its own.
    assert all(stay.finished_at >= 0 for stay in damped.stays.values())


@pytest.mark.capability("98", "A lender waits no longer than the grace for what it deserves, however often it comes and goes")
def test_a_lender_waits_no_longer_than_the_grace_however_often_it_comes_and_goes() -> None:
    outcome, _, lender = flapping(0, Limit(deserved=GPUS * 1000))

    waits = [stay.first_started_at - stay.submitted_at for stay in outcome.stays.values() if stay.queue == lender]
    assert max(waits) <= 1  # The grace is 0 here; what started in this very second leaves in the next.


@pytest.mark.capability("98", "What is guaranteed is never lent, and what is deserved can always be had")
def test_what_is_guaranteed_is_never_lent_so_nothing_flaps_and_nobody_waits() -> None:
    outcome, _, lender = flapping(300, Limit(guarantee=GPUS * 1000))
    used_by_others = [window.held for window in outcome.windows if window.at < HOURS * 3600]

    assert outcome.evictions == 0
    assert all(set(held) <= {lender} for held in used_by_others)
    assert {stay.first_started_at - stay.submitted_at for stay in outcome.stays.values() if stay.queue == lender} == {0}
