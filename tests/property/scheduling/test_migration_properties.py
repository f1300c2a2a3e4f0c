"""Moves and evening out over random histories: nobody is harmed who must not be, and who moves goes on where it was told."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as some

from jobs.scheduling.core.core import Policy
from jobs.scheduling.core.place.gangs import Placed
from jobs.scheduling.core.place.scores import PoolRules
from jobs.scheduling.core.state.decisions import Admit, Claim, Decision, Evict
from jobs.scheduling.core.state.work import Running
from tenants.capacity.quota.limits import Limit
from tenants.capacity.quota.shares import Standing
from tests.property.scheduling.test_core_properties import ALL, Step, World, asks, holds, limits_of, steps

restless = some.builds(
    Policy,
    aging_seconds=some.sampled_from((0, 216)),
    least_runtime_seconds=some.sampled_from((0, 20)),
    evictions_per_window=some.sampled_from((2048, 3)),
    window_seconds=some.just(30),
    backfill_depth=some.sampled_from((0, 1)),
    rebalances=some.booleans(),
    migrations=some.sampled_from((1, 3)),
    migrates_after_seconds=some.sampled_from((0, 30)),
)
more_steps = some.lists(
    some.one_of(
        some.tuples(some.just("submit"), some.integers(1, 3), asks, some.sampled_from((500, 500, 900))),
        some.tuples(some.just("end"), some.integers(0, 9), some.just((0, 0, 0)), some.just(0)),
        some.tuples(some.just("pass"), some.sampled_from((0, 30, 90)), some.just((0, 0, 0)), some.just(0)),
    ),
    max_size=30,
)


class Returning(World):
    """Whoever is evicted is gone one pass later and waits again, as in life. What moves is followed."""

    def __init__(self, limits: dict[str, Limit], policy: Policy) -> None:
        super().__init__(limits, policy)
        self.core.machines.set_rules(0, PoolRules(policy="spread"))  # So that there is something to move.
        self.going: dict[str, Evict] = {}
        self.moved = 0

    def decide(self) -> tuple[Decision, ...]:
        leaving, self.leaving = self.leaving, []
        for name in leaving:
            self.core.ended(name)
            self.core.submit(self.known[name])
        before = dict(self.core.running)
        standing = {name: self.standing(running) for name, running in before.items()}
        decisions = self.core.decide(self.now)
        claims = {decision.id: decision for decision in decisions if isinstance(decision, Claim)}
        for decision in decisions:
            if isinstance(decision, Evict):
                self.leaving.append(decision.id)
                if decision.to is not None:
                    self.check(decision, before[decision.id], claims[decision.claimant], standing)
                    self.going[decision.id] = decision
                    self.moved += 1
            elif isinstance(decision, Admit) and decision.id in self.going:
                was = self.going.pop(decision.id)
                if was.claimant in self.core.running and was.claimant not in self.core.transfers:
                    assert decision.placed == was.to, "it goes on where it was told"
        self.told += decisions
        return decisions

    def standing(self, running: Running) -> Standing:
        """What it would stand on if it started now."""
        shares = self.core.shares
        if running.claim is not None:
            return running.standing
        for pool, amount in running.need:
            shares.give(running.job.queue, pool, amount)
        found = self.core.live.standing(running.job.queue, running.need)
        for pool, amount in running.need:
            shares.take(running.job.queue, pool, amount)
        return found

    def check(self, eviction: Evict, was: Running, claim: Claim, standing: dict[str, Standing]) -> None:
        """What must be true of everybody who is moved."""
        policy, claimant = self.core.policy, self.core.running[claim.id]
        assert isinstance(eviction.to, Placed)
        assert len(claim.victims) <= policy.migrations
        assert was.gpu_millis < claimant.gpu_millis
        assert was.job.priority <= claimant.job.priority
        assert self.now - was.started_at >= 2 * policy.least_runtime_seconds
        assert self.now - claimant.job.submitted_at >= policy.migrates_after_seconds
        assert claim.cost <= claimant.gpu_millis * max(
            self.now - claimant.job.submitted_at, 1 << 40 if policy.backfill_depth else 0
        )
        if was.job.queue != claimant.job.queue:
            assert standing[eviction.id] is not Standing.GUARANTEED
        assert len(eviction.to.tasks) == len(was.placed.tasks)


@pytest.mark.capability(
    "29", "A small job moves so that a large one starts that fits in total but not in shape, and goes on at once"
)
@settings(max_examples=250, deadline=None)
@given(limits_of, restless, some.lists(more_steps, min_size=1, max_size=3).map(lambda parts: list(itertools.chain(*parts))))
def test_whoever_moves_goes_on_where_it_was_told_and_nobody_else_gets_that(
    limits: dict[str, Limit], policy: Policy, steps: list[Step]
) -> None:
    world = Returning(limits, policy)
    for step in steps:
        world.do(step)
        holds(world)
        on: dict[tuple[int, int], str] = {}
        for name, running in world.core.running.items():
            if running.claim is None:
                on.update(((task.machine, device), name) for task in running.placed.tasks for device in task.devices)
        for name, seat in world.core.seats.by_job.items():
            if seat.claimant not in world.core.transfers:
                taken = {on[at] for task in seat.placed.tasks for device in task.devices if (at := (task.machine, device)) in on}
                assert not taken, name
    event(f"{min(world.moved, 3)} moves")
    for _ in range(6):
        world.now += 100
        world.decide()
        holds(world)
    assert not [name for name, seat in world.core.seats.by_job.items() if seat.claimant not in world.core.transfers]
    for name in [*world.core.transfers, *world.known]:
        if name in world.core.running:
            world.core.ended(name)
    for name in list(world.known):
        if name in world.core.ordering or world.core.why(name) is not None:
            world.core.withdraw(name)
    world.now += 100
    world.leaving = []
    world.decide()
    assert world.core.machines.free(0).gpu_millis == ALL
    assert world.core.shares.used(0, 0)[2] == 0


@settings(max_examples=100, deadline=None)
@given(limits_of, restless, steps)
def test_a_seat_is_given_to_others_when_nobody_comes_back_for_it(
    limits: dict[str, Limit], policy: Policy, steps: list[Step]
) -> None:
    world = World(limits, policy)  # Whoever is evicted is gone for good.
    for step in steps:
        world.do(step)
        holds(world)
    for _ in range(4):
        world.now += 100
        world.decide()
    for name in sorted(world.core.running):
        if name in world.core.running:
            world.core.ended(name)
    for name in [name for name in world.known if name in world.core.ordering]:
        world.core.withdraw(name)
    world.now += 100
    world.leaving = []
    world.decide()
    assert world.core.machines.free(0).gpu_millis == ALL
    assert world.core.shares.used(0, 0)[2] == 0


@settings(max_examples=100, deadline=None)
@given(limits_of, more_steps)
def test_evening_out_comes_to_rest(limits: dict[str, Limit], steps: list[Step]) -> None:
    """Nothing goes back and forth: when nobody comes or ends, there is a last eviction."""
    world = Returning(
        limits, Policy(least_runtime_seconds=0, backfill_depth=0, rebalances=True, migrations=2, migrates_after_seconds=0)
    )
    for step in steps:
        world.do(step)
    quiet = 0
    for _ in range(120):
        world.now += 60
        quiet = 0 if any(isinstance(decision, Evict) for decision in world.decide()) else quiet + 1
        if quiet == 4:
            return
    raise AssertionError("it never comes to rest")


def test_whoever_starts_in_a_pass_does_not_move_in_it() -> None:
    """With nothing asked of how long it has run. Found by `test_evening_out_comes_to_rest`."""
    limits = {"a": Limit(deserved=8000), "b": Limit(deserved=4000), "c": Limit()}
    world = Returning(
        limits, Policy(least_runtime_seconds=0, backfill_depth=0, rebalances=True, migrations=2, migrates_after_seconds=0)
    )
    world.do(("submit", 1, (1, 1, 2), 500))
    world.do(("submit", 1, (2, 4, 0), 500))
    decided = world.core.decide(60)
    assert {decision.id for decision in decided if isinstance(decision, Admit)}.isdisjoint(
        decision.id for decision in decided if isinstance(decision, Evict)
    )
