"""The core over random histories: nothing is ever above a limit or a machine, and what is kept equals what is found anew."""

from __future__ import annotations

import itertools
import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from jobs.scheduling.core.core import Core, Policy
from jobs.scheduling.core.place.gangs import GangAsk, Placed, RoleAsk
from jobs.scheduling.core.place.machines import Machine, Machines, TaskAsk
from jobs.scheduling.core.place.placing import place, undo
from jobs.scheduling.core.place.scores import PoolRules
from jobs.scheduling.core.state.decisions import Admit, Claim, Decision, Evict
from jobs.scheduling.core.state.work import JobAsk, Running
from kernel.resources import Resources
from tenants.capacity.quota.limits import Capacity, Limit, LimitedQueue
from tenants.capacity.quota.shares import Shares

POOL = uuid.UUID(int=9)
NODES, GPUS = 4, 4
# A reason is of the moment of the refusal; room that shrinks further would name another of these.
LATER = dict.fromkeys(("no_room", "withheld", "capacity"), "room")
ALL = NODES * GPUS * 1000

limits_of = some.sampled_from(
    (
        {"a": Limit(deserved=8000), "b": Limit(deserved=4000), "c": Limit()},
        {"a": Limit(guarantee=4000, deserved=8000), "b": Limit(deserved=8000), "c": Limit(ceiling=6000)},
        {"a": Limit(guarantee=8000), "b": Limit(guarantee=4000, deserved=8000, ceiling=12_000), "c": Limit(weight=3)},
        {"a": Limit(), "b": Limit(weight=2), "c": Limit(ceiling=8000)},
    )
)
policies = some.builds(
    Policy,
    aging_seconds=some.sampled_from((0, 1, 216)),
    in_order=some.sampled_from((False, False, True)),
    least_runtime_seconds=some.sampled_from((0, 0, 20)),
    reclaim_least_runtime_seconds=some.sampled_from((0, 0, 20)),
    evictions_per_window=some.sampled_from((2048, 2)),
    window_seconds=some.just(30),
    backfill_depth=some.sampled_from((0, 1)),
)
asks = some.tuples(some.integers(1, 4), some.sampled_from((1, 1, 2, 4)), some.integers(0, 2))  # Tasks, GPUs each, more tasks.
steps = some.lists(
    some.one_of(
        some.tuples(some.just("submit"), some.integers(1, 3), asks, some.sampled_from((100, 500, 900))),
        some.tuples(some.just("end"), some.integers(0, 9), some.just((0, 0, 0)), some.just(0)),
        some.tuples(some.just("withdraw"), some.integers(0, 9), some.just((0, 0, 0)), some.just(0)),
        some.tuples(some.just("pass"), some.integers(0, 40), some.just((0, 0, 0)), some.just(0)),
    ),
    max_size=30,
)
Step = tuple[str, int, tuple[int, int, int], int]


def a_core(limits: dict[str, Limit], policy: Policy, tasks_max: int | None = None) -> Core:
    nodes = [Machine(f"n{n}", 0, 32_000, 1 << 30, GPUS, tasks_max=tasks_max) for n in range(NODES)]
    machines = Machines(nodes, {0: PoolRules(policy="pack")})
    return Core(machines, some_shares(limits), policy)


def some_shares(limits: dict[str, Limit]) -> Shares:
    root = LimitedQueue(uuid.UUID(int=1), None, "root")
    queues = [
        LimitedQueue(uuid.UUID(int=10 + n), root.id, name, {POOL: {"gpu_millis": limit}})
        for n, (name, limit) in enumerate(limits.items())
    ]
    return Shares([root, *queues], [Capacity(POOL, "pool", Resources(NODES * 32_000, NODES << 30, ALL))])


class World:
    """A core and what happens to it; whoever is evicted is gone one pass later."""

    def __init__(self, limits: dict[str, Limit], policy: Policy) -> None:
        self.core = a_core(limits, policy)
        self.limits = limits
        self.now = 0
        self.leaving: list[str] = []
        self.known: dict[str, JobAsk] = {}
        self.told: list[Decision] = []

    def do(self, step: Step) -> None:
        what, number, (tasks, gpus, more), priority = step
        core = self.core
        if what == "submit":
            gang = GangAsk((RoleAsk("worker", TaskAsk(100, 1 << 10, gpus * 1000), tasks, tasks + more),))
            job = JobAsk(f"job-{len(self.known):02}", number, gang, (0,), self.now, priority)
            self.known[job.id] = job
            core.submit(job)
        elif what == "end":
            active = sorted(name for name in core.running if name not in core.transfers)
            if active:
                name = active[number % len(active)]
                core.ended(name)
                self.leaving = [leaving for leaving in self.leaving if leaving != name]
        elif what == "withdraw":
            waiting = sorted(name for name in self.known if name in core.ordering or name in core.transfers)
            if waiting:
                core.withdraw(waiting[number % len(waiting)])
        else:
            self.now += number
            self.decide()

    def decide(self) -> tuple[Decision, ...]:
        leaving, self.leaving = self.leaving, []
        for name in leaving:
            self.core.ended(name)
        decisions = self.core.decide(self.now)
        evicted = [decision for decision in decisions if isinstance(decision, Evict)]
        for eviction in evicted:
            is_reclaimed = self.known[eviction.id].queue != self.known[eviction.claimant].queue
            policy = self.core.policy
            least = policy.reclaim_least_runtime_seconds if is_reclaimed else policy.least_runtime_seconds
            assert self.now - self.core.running[eviction.id].started_at >= max(1, least)
        self.leaving = [eviction.id for eviction in evicted]
        self.told += decisions
        return decisions


def holds(world: World) -> None:
    """What must be true after every pass."""
    core = world.core
    busy: dict[tuple[int, int], str] = {}
    for name, running in core.running.items():
        if running.claim is None:
            for task in running.placed.tasks:
                for device in task.devices:
                    assert busy.setdefault((task.machine, device), name) == name
    for index in range(NODES):
        left = core.machines.left(index)
        assert left.cpu_millis >= 0
        assert left.memory_bytes >= 0
        assert all(0 <= millis <= 1000 for millis in core.machines.devices_left(index))
    for number, limit in enumerate(world.limits.values(), start=1):
        assert limit.ceiling is None or core.shares.used(number, 0)[2] <= limit.ceiling
    assert core.shares.used(0, 0)[2] <= ALL


@settings(max_examples=150)
@given(limits_of, policies, some.lists(steps, min_size=1, max_size=3).map(lambda parts: list(itertools.chain(*parts))))
def test_nothing_is_above_a_ceiling_or_a_machine_whatever_happens(
    limits: dict[str, Limit], policy: Policy, steps: list[Step]
) -> None:
    world = World(limits, policy)
    for step in steps:
        world.do(step)
        holds(world)
    for _ in range(3):
        world.now += 100
        world.decide()
        holds(world)
    for name in sorted(world.core.running):
        if name in world.core.running:
            world.core.ended(name)
    for job in world.core.waiting():
        world.core.withdraw(job.id)
    world.core.decide(world.core.now)  # What was kept for reserved starts is free again.
    assert world.core.machines.free(0).gpu_millis == ALL
    assert world.core.shares.used(0, 0)[2] == 0


@settings(max_examples=150)
@given(limits_of, policies, steps)
def test_what_is_kept_from_pass_to_pass_equals_what_a_new_core_finds(
    limits: dict[str, Limit], policy: Policy, steps: list[Step]
) -> None:
    """After a pass, a core made of what runs and waits finds nothing more to start, and the same reasons."""
    world = World(limits, policy)
    for step in steps:
        world.do(step)
    for _ in range(20):
        world.now += 50
        if not any(isinstance(decision, Admit | Claim) for decision in world.decide()):
            break
    if world.core.transfers or world.leaving or policy.evictions_per_window == 2:
        return
    anew = a_core(limits, policy)
    for running in sorted(world.core.running.values(), key=lambda running: running.key, reverse=True):
        anew.started(running.job, running.placed, running.started_at)
    waiting = [job for name, job in world.known.items() if name in world.core.ordering]
    for job in reversed(waiting):
        anew.submit(job)
    found = anew.decide(world.now)
    assert not [decision for decision in found if isinstance(decision, Admit | Claim)]
    for job in waiting:
        ours, theirs = world.core.why(job.id), anew.why(job.id)
        assert ours is not None
        assert theirs is not None
        assert LATER.get(ours.code, ours.code) == LATER.get(theirs.code, theirs.code)


@settings(max_examples=80)
@given(limits_of, policies, steps, some.randoms())
def test_the_order_in_which_it_is_told_changes_nothing(
    limits: dict[str, Limit], policy: Policy, steps: list[Step], chance: Any
) -> None:
    def tell(shuffled: bool) -> bytes:
        world = World(limits, policy)
        for is_submit, part in itertools.groupby(steps, lambda step: step[0] == "submit"):
            if not is_submit:
                for step in part:
                    world.do(step)
                continue
            jobs = []
            for _, queue, (tasks, gpus, more), priority in part:
                gang = GangAsk((RoleAsk("worker", TaskAsk(100, 1 << 10, gpus * 1000), tasks, tasks + more),))
                jobs.append(JobAsk(f"job-{len(world.known):02}", queue, gang, (0,), world.now, priority))
                world.known[jobs[-1].id] = jobs[-1]
            if shuffled:
                chance.shuffle(jobs)
            for job in jobs:
                world.core.submit(job)
        world.decide()
        return repr(world.told).encode()

    assert tell(shuffled=False) == tell(shuffled=True)


@pytest.mark.capability("98", "What is guaranteed is never lent, and what is deserved can always be had")
@settings(max_examples=150)
@given(limits_of, steps, some.integers(1, 3))
def test_what_a_queue_was_promised_is_free_or_held_by_what_may_be_evicted_now(
    limits: dict[str, Limit], steps: list[Step], queue: int
) -> None:
    world = World(limits, Policy(least_runtime_seconds=0, backfill_depth=0))
    for step in steps:
        world.do(step)
    world.decide()
    for _ in range(40):  # Until everything that could start has started.
        world.now += 1
        if not world.decide():
            break
    limit = list(limits.values())[queue - 1]
    idle = limit.owed - world.core.shares.used(queue, 0)[2]
    if idle < 1000 or any(job.queue == queue for name, job in world.known.items() if name in world.core.ordering):
        return
    world.core.submit(
        JobAsk("owner", queue, GangAsk((RoleAsk("worker", TaskAsk(100, 1 << 10, 1000), 1, 1),)), (0,), world.now, 900)
    )
    decisions = world.decide()
    assert any(isinstance(decision, Admit | Claim) and decision.id == "owner" for decision in decisions)


@settings(max_examples=100)
@given(
    some.lists(some.tuples(some.sampled_from((1, 1, 2, 4)), some.integers(1, 2), some.integers(0, 90)), max_size=9),
    some.integers(1, 4),
    some.sampled_from((1, 2, 4)),
)
def test_without_any_one_of_the_victims_the_gang_has_no_place(held: list[tuple[int, int, int]], tasks: int, gpus: int) -> None:
    """And of all sets, by trying them all, none is enough where the core found none."""
    core = a_core({"a": Limit(deserved=ALL), "b": Limit(), "c": Limit()}, Policy(least_runtime_seconds=0, backfill_depth=0))
    for number, (each, many, started) in enumerate(sorted(held, key=lambda entry: entry[2])):
        gang = GangAsk((RoleAsk("worker", TaskAsk(100, 1 << 10, each * 1000), many, many),))
        core.submit(JobAsk(f"held-{number}", 2, gang, (0,), started))
        core.decide(started)
    running = dict(core.running)
    wanted = GangAsk((RoleAsk("worker", TaskAsk(100, 1 << 10, gpus * 1000), tasks, tasks),))

    def is_enough(victims: tuple[Running, ...]) -> bool:
        machines = Machines(core.machines.at, core.machines.rules)
        for holder in running.values():
            if holder not in victims:
                for task in holder.placed.tasks:
                    machines.take(task.machine, task.ask, task.devices)
        found = place(wanted, machines, (0,))
        if isinstance(found, Placed):
            undo(found, machines)
        return isinstance(found, Placed)

    admitted = set(core.running)
    for name in [f"held-{number}" for number in range(len(held)) if f"held-{number}" not in admitted]:
        core.withdraw(name)
    possible = is_enough(tuple(running.values()))
    fits = is_enough(())
    core.submit(JobAsk("owner", 1, wanted, (0,), 100, 900))
    decisions = core.decide(100)
    victims = tuple(running[decision.id] for decision in decisions if isinstance(decision, Evict))
    assert any(isinstance(decision, Claim | Admit) for decision in decisions) == possible
    assert bool(victims) == (possible and not fits)
    if victims:
        assert is_enough(victims)
        for skip in range(len(victims)):
            assert not is_enough(victims[:skip] + victims[skip + 1 :])
