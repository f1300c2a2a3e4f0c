"""A core can be written down and made again at any time: both go on alike."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as some

from jobs.scheduling.core.core import Core, Policy
from jobs.scheduling.core.place.gangs import GangAsk, RoleAsk
from jobs.scheduling.core.place.machines import Machine, Machines, TaskAsk
from jobs.scheduling.core.place.scores import PoolRules
from jobs.scheduling.core.snapshot import Pool, State, build, export
from jobs.scheduling.core.state.decisions import Admit, Claim, Decision, Evict
from jobs.scheduling.core.state.work import JobAsk
from jobs.scheduling.replay.run import Arrival, Replay
from kernel.resources import Resources
from tenants.capacity.quota.limits import Capacity, Limit, LimitedQueue
from tenants.capacity.quota.shares import Shares
from tests.property.scheduling.test_backfill_properties import arrivals_of
from tests.property.scheduling.test_core_properties import ALL, GPUS, NODES, POOL

limits = some.sampled_from(
    (
        {"a": Limit(), "b": Limit(weight=2), "c": Limit()},
        {"a": Limit(), "b": Limit(weight=2), "c": Limit(ceiling=8000)},
        {"a": Limit(ceiling=4000), "b": Limit(ceiling=8000), "c": Limit(ceiling=6000)},
    )
)


def a_state(limits: dict[str, Limit], policy: Policy) -> State:
    root = LimitedQueue(uuid.UUID(int=1), None, "root")
    queues = [
        LimitedQueue(uuid.UUID(int=10 + n), root.id, name, {POOL: {"gpu_millis": limit}})
        for n, (name, limit) in enumerate(limits.items())
    ]
    return State(
        at=0,
        pools=(Pool(POOL, "pool", PoolRules(policy="pack")),),
        machines=tuple(Machine(f"n{n}", 0, 32_000, 1 << 30, GPUS) for n in range(NODES)),
        queues=(root, *queues),
        capacities=(Capacity(POOL, "pool", Resources(NODES * 32_000, NODES << 30, ALL)),),
        policy=policy,
    )


class Twin(Core):
    """Before each pass it is written down and made again; the two must decide alike."""

    state: State
    change_at = -1
    other_limits: State

    def decide(self, now: int) -> tuple[Decision, ...]:
        if 0 <= self.change_at <= now:
            self.change_at, self.state = -1, self.other_limits
            self.limits_changed(Shares(self.state.queues, self.state.capacities))
        other = build(export(self, self.state))
        assert other.claims() == self.claims(), "each will start where it was to start, and nobody else gets any of it"
        mine, theirs = super().decide(now), other.decide(now)
        assert _acts(mine) == _acts(theirs)
        return mine


def _acts(decisions: tuple[Decision, ...]) -> list[tuple[str, str]]:
    return [(type(decision).__name__, decision.id) for decision in decisions if isinstance(decision, Admit | Claim | Evict)]


@settings(max_examples=80, deadline=None)
@given(limits, arrivals_of, some.sampled_from((0, 5)))
def test_a_core_that_was_written_down_and_made_again_decides_the_same(
    limits: dict[str, Limit], arrivals: list[tuple[Any, ...]], least: int
) -> None:
    replay_twins(limits, arrivals, least).run()


@settings(max_examples=60, deadline=None)
@given(limits, limits, arrivals_of, some.integers(1, 70))
def test_other_limits_hold_at_once_and_as_if_they_always_had(
    limits: dict[str, Limit], others: dict[str, Limit], arrivals: list[tuple[Any, ...]], change_at: int
) -> None:
    replay = replay_twins(limits, arrivals, 5)
    assert isinstance(replay.core, Twin)
    replay.core.change_at, replay.core.other_limits = change_at, a_state(others, replay.core.policy)
    replay.run()
    assert replay.core.machines.free(0).gpu_millis == ALL
    assert replay.core.shares.used(0, 0) == (0, 0, 0)


@settings(max_examples=60, deadline=None)
@given(limits, arrivals_of)
def test_what_moves_and_is_evened_out_goes_on_alike_too(limits: dict[str, Limit], arrivals: list[tuple[Any, ...]]) -> None:
    slow = [(10 * at, queue, tasks, gpu, cpu, 20 * runs, *more) for at, queue, tasks, gpu, cpu, runs, *more in arrivals]
    replay = replay_twins(limits, slow, 5, fill="spread", rebalances=True, migrations=3, migrates_after_seconds=0)
    outcome = replay.run()
    event("migrated" if outcome.migrations else "evicted" if outcome.evictions else "neither")
    assert replay.core.shares.used(0, 0) == (0, 0, 0) or replay.core.seats


def replay_twins(
    limits: dict[str, Limit], arrivals: list[tuple[Any, ...]], least: int, *, fill: str = "pack", **more: Any
) -> Replay:
    policy = Policy(backfill_depth=0, least_runtime_seconds=least, starvation_guard_seconds=0, preempts=False, **more)
    state = replace(a_state(limits, policy), pools=(Pool(POOL, "pool", PoolRules(policy=fill)),))
    machines = Machines(state.machines, {0: PoolRules(policy=fill)})
    core = Twin(machines, Shares(state.queues, state.capacities), policy)
    core.state = state
    told = []
    for number, (at, queue, tasks, gpu, cpu, runs, spare, priority, more) in enumerate(arrivals):
        gang = GangAsk((RoleAsk("worker", TaskAsk(cpu, 1 << 10, gpu), tasks, tasks + more),))
        longest = None if spare is None else runs + spare
        told.append(Arrival(JobAsk(f"job-{number:02}", queue, gang, (0,), at + 1, priority, max_runtime=longest), runs))
    return Replay(core, told, grace_seconds=3)
