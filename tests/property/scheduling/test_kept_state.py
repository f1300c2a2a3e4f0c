"""What is kept from pass to pass equals a full load: a core that lives long and one that is made anew decide the same.

Any sequence of what may happen is told to one core. After each of its passes, and in between, everything is written down as a
`State`, with what is under way as the next leader reads it, and a second core is made of it, which is told the same from there
on. At the next pass both must start, claim and evict the same gangs on the same machines in the same order, and agree on who
waits and on who does so by a condition of its own. Starts are reserved and planned alike, too, but for the order in which that
is told, and where a claim takes what was reserved in the same pass. Planned starts are not written down: both plan them anew in
the first pass of a period, and passes in between, in which the long-lived core still has its plans, are not compared.
"""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as some

from jobs.loading import memory
from jobs.scheduling.core import reservations
from jobs.scheduling.core.core import Core, Policy
from jobs.scheduling.core.place.gangs import GangAsk, RoleAsk
from jobs.scheduling.core.place.machines import Machine, TaskAsk
from jobs.scheduling.core.place.scores import Mix, PoolRules
from jobs.scheduling.core.snapshot import Pool, State, build, export
from jobs.scheduling.core.state.decisions import Admit, Claim, Decision, Evict, Reserve, Wait, WaitReason
from jobs.scheduling.core.state.work import JobAsk
from jobs.scheduling.questions.learn import CANDIDATES
from jobs.scheduling.replay.log import (
    BookingsChanged,
    CapsChanged,
    Checkpointed,
    Ended,
    Event,
    LimitsChanged,
    MachineChanged,
    MixChanged,
    Submitted,
    ToldToLeave,
    WeightsChanged,
    Withdrawn,
    apply,
)
from kernel.resources import Resources
from tenants.capacity.quota.bookings import Booked
from tenants.capacity.quota.caps import TOGETHER, CapFacts
from tenants.capacity.quota.limits import Capacity, Limit, LimitedQueue

POOLS = (
    Pool(uuid.UUID(int=90), "gpu", PoolRules("fragmentation", shares=True)),
    Pool(uuid.UUID(int=91), "old", PoolRules("pack")),
)
NODES, GPUS = 3, 4
ALL = NODES * GPUS * 1000
OWN = frozenset({"held", "not_before", "no_pool"})  # Conditions of the job itself; every other refusal is of its moment.
LIMITS = (
    (Limit(deserved=8000), Limit(deserved=4000), Limit()),
    (Limit(guarantee=4000, deserved=8000), Limit(deserved=4000), Limit(ceiling=6000)),
    (Limit(), Limit(weight=2), Limit(ceiling=8000)),
)
policies = some.builds(
    Policy,
    aging_seconds=some.sampled_from((0, 1, 216)),
    in_order=some.sampled_from((False, False, True)),
    least_runtime_seconds=some.sampled_from((0, 0, 20)),
    reclaim_least_runtime_seconds=some.sampled_from((0, 0, 20)),
    evictions_per_window=some.sampled_from((2048, 2)),
    window_seconds=some.just(30),
    starvation_guard_seconds=some.sampled_from((0, 60, 86_400)),
    backfill_depth=some.sampled_from((0, 1, 1, 2)),
    replan_seconds=some.sampled_from((0, 20)),
    assumed_runtime_seconds=some.sampled_from((0, 30, 86_400)),
    shortest_first=some.sampled_from((0, 10)),
    rebalances=some.sampled_from((False, False, True)),
    migrations=some.sampled_from((0, 0, 2)),
    migrates_after_seconds=some.just(30),
    history_seconds=some.just(0),  # Else how old the history is depends on when one was made.
)
sizes = some.tuples(some.integers(1, 3), some.sampled_from((250, 1000, 1000, 2000, 4000)), some.integers(0, 2))
submits = some.tuples(
    some.just("submit"),
    some.integers(1, 3),
    sizes,
    some.sampled_from((100, 500, 900)),
    some.sampled_from(
        ("", "", "", "near", "array", "later", "withheld", "both", "runtime", "runtime", "brief", "predicted", "kept")
    ),
)
numbers = some.integers(0, 9)
EVENTS = ("end", "withdraw", "cordon", "limits", "checkpoint", "tell", "again", "load", "contents", "mix", "weights")
steps = some.lists(
    some.one_of(
        submits,
        submits,
        some.tuples(
            some.sampled_from(EVENTS),
            numbers,
        ),
        some.tuples(some.just("pass"), some.integers(0, 40)),
        some.tuples(some.just("pass"), some.integers(0, 40)),
    ),
    min_size=2,
    max_size=40,
)


def queues_of(choice: int) -> tuple[LimitedQueue, ...]:
    root = LimitedQueue(uuid.UUID(int=1), None, "root")
    rows = enumerate(zip("abc", LIMITS[choice % len(LIMITS)], strict=True))
    return (
        root,
        *(
            LimitedQueue(uuid.UUID(int=10 + at), root.id, name, {POOLS[0].id: {"gpu_millis": limit}})
            for at, (name, limit) in rows
        ),
    )


TENANTS = (uuid.UUID(int=70), uuid.UUID(int=71))
USERS = tuple(uuid.UUID(int=80 + number) for number in range(3))


def user_of(number: int) -> tuple[uuid.UUID, tuple[uuid.UUID, ...]]:
    """The user of a job, and its tenants; the third user is of the other tenant."""
    return USERS[number % 3], (TENANTS[number % 3 // 2],)


def caps_of(number: int) -> tuple[CapFacts, ...]:
    """None, of each user, of one user, or of all users together; with GPUs, jobs or both."""
    every = CapFacts(TENANTS[0], None, gpu_millis=(number % 3 + 1) * 2000)
    return (
        (),
        (every,),
        (CapFacts(TENANTS[0], USERS[0], jobs=1), every),
        (CapFacts(TENANTS[0], TOGETHER, gpu_millis=6000, jobs=4),),
        (CapFacts(TENANTS[1], None, gpu_millis=2000, containers=2), CapFacts(TENANTS[0], TOGETHER, jobs=3)),
    )[number % 5]


def bookings_of(number: int, now: int) -> tuple[Booked, ...]:
    """None, or some that are under way, about to begin, or later; of one pool, by different queues."""
    first = Booked(uuid.UUID(int=60), uuid.UUID(int=10 + number % 3), POOLS[0].id, 4000, now - 10, now + 45)
    soon = Booked(uuid.UUID(int=61), uuid.UUID(int=10 + (number + 1) % 3), POOLS[0].id, 8000, now + 25, now + 90)
    later = Booked(uuid.UUID(int=62), uuid.UUID(int=10), POOLS[0].id, 4000, now + 120, now + 150)
    return ((), (first,), (soon,), (first, soon), (soon, later), (later,))[number % 6]


CAPACITIES = tuple(Capacity(pool.id, pool.name, Resources(NODES * 32_000, NODES << 30, ALL)) for pool in POOLS)


class World:
    """A core that lives long, and what happens to it."""

    def __init__(self, policy: Policy, limits: int, *, has_users: bool = False) -> None:
        self.has_users = has_users
        self.bookings: tuple[Booked, ...] = ()
        self.caps: tuple[CapFacts, ...] = ()
        self.machines = {
            (pool, n): Machine(f"n{n}", pool, 32_000, 1 << 30, GPUS, tasks_max=3 if n else None)
            for pool in range(2)
            for n in range(NODES)
        }
        self.queues = queues_of(limits)
        self.now = 1000
        empty = State(self.now, POOLS, tuple(self.machines.values()), self.queues, CAPACITIES, policy=policy)
        self.core = build(empty)
        self.jobs: dict[str, JobAsk] = {}
        self.leaving: list[str] = []
        self.anew = build(empty)

    def state(self) -> State:
        state = export(self.core, State(self.now, POOLS, (), self.queues, CAPACITIES, caps=self.caps, bookings=self.bookings))
        known = memory.read(json.loads(json.dumps(memory.document_of(memory.remember(self.core)))))
        pool_at = {pool.id: number for number, pool in enumerate(POOLS)}
        numbered = memory.Numbered(pool_at, {(m.pool, m.name): at for at, m in enumerate(self.core.machines.at)})
        return replace(state, reserved=numbered.starts(known.under_way), claims=numbered.claims(known.under_way))

    def load(self) -> None:
        """Make the other core anew from what is kept."""
        self.anew = build(self.state())

    def tell(self, event: Event) -> None:
        for core in (self.core, self.anew):
            apply(core, event)

    def do(self, what: str, number: int, *more: object) -> None:
        core = self.core
        active = sorted(name for name in core.running if name not in core.transfers)
        waiting = sorted(
            name for name in self.jobs if core.why(name) is not None or name in core.ordering or name in core.transfers
        )
        if what == "submit":
            job = self._job(number, *more)  # type: ignore[arg-type]
            self.jobs[job.id] = job
            self.tell(Submitted(job))
        elif what == "pass":
            self.now += number
            self.both_decide()
        elif what == "load":
            self.load()
        elif what == "cordon":
            at = sorted(self.machines)[number % len(self.machines)]
            facts = self.machines[at] = replace(self.machines[at], blocked="" if self.machines[at].blocked else "cordoned")
            self.tell(MachineChanged(facts))
        elif what == "contents":
            at = sorted(self.machines)[number % len(self.machines)]
            images = frozenset() if self.machines[at].images else frozenset({"digest"})
            facts = self.machines[at] = replace(self.machines[at], images=images)
            self.tell(MachineChanged(facts))
        elif what == "mix":
            shapes = [(TaskAsk(100, 1 << 10, 1000 * (1 + number % 4)), 3), (TaskAsk(100, 1 << 10, 500), number)]
            self.tell(MixChanged(number % 2, Mix(shapes)))
        elif what == "weights":
            self.tell(WeightsChanged(number % 2, CANDIDATES[number % len(CANDIDATES)]))
        elif what == "book":
            self.bookings = bookings_of(number, self.now)
            self.tell(BookingsChanged(self.bookings))
        elif what == "caps":
            self.caps = caps_of(number)
            self.tell(CapsChanged(self.caps))
        elif what == "limits":
            self.queues = queues_of(number)
            self.tell(LimitsChanged(self.queues, CAPACITIES))
        elif what in ("withdraw", "again") and waiting:
            name = waiting[number % len(waiting)]
            if what == "withdraw":
                self.tell(Withdrawn(name))
            elif name not in core.transfers:
                job = self.jobs[name] = replace(self.jobs[name], withheld=None, order=-50 * (number % 3))
                self.tell(Submitted(job))
        elif active and what in ("end", "checkpoint", "tell"):
            name = active[number % len(active)]
            if what == "end":
                self.tell(Ended(name))
                self.leaving = [leaving for leaving in self.leaving if leaving != name]
            else:
                self.tell(Checkpointed(name, self.now) if what == "checkpoint" else ToldToLeave(name))

    def _job(self, queue: int, size: tuple[int, int, int], priority: int, kind: str) -> JobAsk:
        tasks, gpu, more = size
        ask = TaskAsk(100, 1 << 10, gpu)
        job = JobAsk(
            str(uuid.UUID(int=1000 + len(self.jobs))),
            queue,
            GangAsk((RoleAsk("worker", ask, tasks, tasks + more),)),
            (0,),
            self.now,
            priority,
        )
        if self.has_users:
            user, tenants = user_of(len(self.jobs))
            job = replace(job, user=user, tenants=tenants)
        changes: dict[str, dict[str, object]] = {
            "near": {"gang": replace(job.gang, roles=tuple(replace(role, image="digest") for role in job.gang.roles))},
            "array": {"array": f"sweep-{queue}", "parallel": 1},
            "later": {"not_before": self.now + 30},
            "withheld": {"withheld": WaitReason("held")},
            "both": {"pools": (1, 0)},
            "runtime": {"max_runtime": 100, "checkpoint_seconds": 10},
            "brief": {"max_runtime": 10},
            "predicted": {"predicted": 20 * tasks, "cautious": 30 * tasks},
            "kept": {"evictable": False},
        }
        return replace(job, **changes.get(kind, {}))  # type: ignore[arg-type]

    def both_decide(self) -> None:
        leaving, self.leaving = self.leaving, []
        for name in leaving:
            if name in self.core.running:
                self.tell(Ended(name))
        every, before = self.core.policy.replan_seconds, self.core.now
        decided = self.core.decide(self.now)
        if not every or self.now // every != before // every:
            assert done(decided) == done(self.anew.decide(self.now))
            assert starts_of(self.core) == starts_of(self.anew)
            for name in sorted(self.jobs):
                assert kind_of(self.core, name) == kind_of(self.anew, name), name
        self.leaving = [decision.id for decision in decided if isinstance(decision, Evict)]
        self.load()


def done(decisions: tuple[Decision, ...]) -> list[Decision]:
    """What happens; without the tables of scores, which are of the moment at which a gang was placed first, and without what is
    told of reserved starts: those are compared as they are kept."""
    return [
        decision._replace(placed=replace(decision.placed, tables=())) if isinstance(decision, Admit | Claim) else decision
        for decision in decisions
        if not isinstance(decision, Wait | Reserve)
    ]


def starts_of(core: Core) -> list[tuple[str, int, int, bool]]:
    """The reserved starts, planned ones among them."""
    by_job = core.reservations.by_job
    return [(name, by_job[name].pool, by_job[name].at, by_job[name].is_sure) for name in sorted(by_job)]


def kind_of(core: Core, name: str) -> str | None:
    reason = core.why(name)
    return None if reason is None else reason.code if reason.code in OWN else "waits"


# One that comes later and is before others of its group that wait has waited for long before it is asked.
PATIENCE = (
    Policy(
        aging_seconds=0,
        least_runtime_seconds=0,
        backfill_depth=0,
        starvation_guard_seconds=60,
        window_seconds=30,
        history_seconds=0,
    ),
    1,
    [
        ("submit", 3, (1, 2000, 1), 500, "kept"),
        ("submit", 2, (2, 1000, 0), 500, "both"),
        ("submit", 2, (3, 2000, 0), 500, "kept"),
        ("submit", 2, (2, 1000, 1), 500, "both"),
        ("submit", 3, (3, 1000, 0), 500, "both"),
        ("cordon", 8),
        ("pass", 35),
        ("end", 0),
        ("submit", 2, (3, 250, 2), 100, "kept"),
        ("submit", 1, (3, 4000, 1), 900, "later"),
        ("submit", 1, (2, 2000, 0), 500, "both"),
        ("submit", 1, (3, 4000, 1), 900, ""),
        ("submit", 1, (1, 4000, 1), 500, ""),
        ("pass", 19),
        ("end", 7),
    ],
)
# What is hidden for its own reserved start is free for one that may evict lower priority as soon as that has run for long enough.
HIDDEN = (
    Policy(aging_seconds=0, least_runtime_seconds=20, backfill_depth=1, replan_seconds=0, window_seconds=30, history_seconds=0),
    2,
    [("submit", 3, (2, 1000, 1), 100, "runtime"), ("pass", 35), ("submit", 3, (2, 4000, 2), 900, ""), ("pass", 12)],
)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(policies, some.integers(0, 2), steps)
@example(*PATIENCE)
@example(*HIDDEN)
def test_a_core_that_lives_long_decides_as_one_made_anew(policy: Policy, limits: int, steps: list[tuple[object, ...]]) -> None:
    world = World(policy, limits)
    for step in steps:
        world.do(*step)  # type: ignore[arg-type]
    for _ in range(3):
        world.do("pass", 50)


KINDS = ("", "", "", "near", "array", "later", "withheld", "both", "runtime", "runtime", "brief", "predicted", "kept")


def a_dense_history(seed: int, events: Sequence[str] = EVENTS) -> tuple[Policy, int, list[tuple[object, ...]]]:
    """Many jobs, ends and passes close together, with all that makes room: preemption, claims, reserved starts, migrations. The
    brake on evictions is left out: while it holds, a search may find fewer victims once there is less room."""
    chance = random.Random(seed)
    one_of = chance.choice
    policy = Policy(
        aging_seconds=one_of((0, 1, 216)),
        in_order=one_of((False, False, True)),
        least_runtime_seconds=one_of((0, 0, 20)),
        reclaim_least_runtime_seconds=one_of((0, 0, 20)),
        starvation_guard_seconds=one_of((0, 60, 86_400)),
        backfill_depth=one_of((0, 1, 1, 2)),
        replan_seconds=one_of((0, 20)),
        assumed_runtime_seconds=one_of((0, 30, 86_400)),
        shortest_first=one_of((0, 10)),
        rebalances=one_of((False, False, True)),
        migrations=one_of((0, 0, 2)),
        migrates_after_seconds=30,
        history_seconds=0,
    )
    limits = chance.randint(0, 2)

    def step() -> tuple[object, ...]:
        what = chance.random()
        if what < 0.45:
            size = (chance.randint(1, 3), one_of((250, 1000, 1000, 2000, 4000)), chance.randint(0, 2))
            return ("submit", chance.randint(1, 3), size, one_of((100, 500, 900)), one_of(KINDS))
        if what < 0.7:
            return (one_of(events), chance.randint(0, 9))
        return ("pass", one_of((0, 1, 1, 2, 5, 20, 40)))

    return policy, limits, [*(step() for _ in range(chance.randint(10, 70))), *[("pass", 50)] * 3]


@pytest.mark.parametrize(
    "seeds",
    [
        range(300),
        [2046],  # A start for which a plan was sought twice in a pass, before its turn and in it, took the try of another.
        pytest.param(range(300, 10_000), marks=pytest.mark.slow),
    ],
    ids=["short", "tries", "long"],
)
def test_after_dense_histories_both_decide_the_same(seeds: Sequence[int]) -> None:
    for seed in seeds:
        policy, limits, steps = a_dense_history(seed)
        world = World(policy, limits)
        for step in steps:
            world.do(*step)  # type: ignore[arg-type]


def test_limits_allow_a_reserved_start_however_many_ends_are_looked_at_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reserved = 0
    for seed in range(400, 460):
        decided = []
        for part in (1, 2, 128):
            monkeypatch.setattr(reservations, "PART", part)
            policy, limits, steps = a_dense_history(seed)
            world = World(policy, limits)
            for step in steps:
                world.do(*step)  # type: ignore[arg-type]
            decided.append(replace(world.state(), pools=()))
            reserved += len(decided[0].reserved)
        assert decided[0] == decided[1] == decided[2]
    assert reserved


WITH_USERS = (*EVENTS, "book", "book", "caps", "caps")


@pytest.mark.parametrize(
    "seeds",
    [
        range(150),
        [1942, 2338, 2396],  # One that others told to leave in the grace before a booking stayed in the way of that booking.
        pytest.param(range(150, 3_000), marks=pytest.mark.slow),
    ],
    ids=["short", "told", "long"],
)
def test_after_dense_histories_with_bookings_and_caps_on_users_both_decide_the_same(seeds: Sequence[int]) -> None:
    for seed in seeds:
        policy, limits, steps = a_dense_history(seed, WITH_USERS)
        world = World(policy, limits, has_users=True)
        for step in steps:
            world.do(*step)  # type: ignore[arg-type]
