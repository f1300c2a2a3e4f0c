"""Scenes in which jobs wait for every cause there is, and a suggested change made on the core that lives on.

A scene is drawn from a seed: machines with models, labels and taints, some cordoned; queues in two levels with guarantees,
deserved amounts and ceilings; caps on users and on all users of a tenant; gangs of one to eight tasks, of one or two roles, some
elastic, some with a maximum run time, and in some scenes what a tenant has booked for a time. Jobs arrive at the scheduler's own
core, run and end (`jobs/scheduling/replay/run.py`), so its reserved starts, claims and memories are those of a core that has
worked for a while.

`on_live` makes a change by the calls with which the driver tells a core that something happened. Other machines need a new core
there as well: it is built from what the core exports, with its reserved starts and claims.
"""

from __future__ import annotations

import copy
import itertools
import random
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from jobs.scheduling.core.core import Core, Policy
from jobs.scheduling.core.place.gangs import GangAsk, RoleAsk
from jobs.scheduling.core.place.machines import WHOLE_MILLIS, Machine, TaskAsk
from jobs.scheduling.core.place.scores import PoolRules
from jobs.scheduling.core.snapshot import Pool, State, build, export
from jobs.scheduling.core.state.decisions import WaitReason
from jobs.scheduling.core.state.work import JobAsk
from jobs.scheduling.questions.explain import Settled, explain
from jobs.scheduling.questions.suggest import outcome, starts_by, suggest
from jobs.scheduling.questions.whatif import AddMachines, Ask, Block, Change, End, Rank, Release, SetCap, apply, whole_of
from jobs.scheduling.replay.run import Arrival, Replay
from kernel.resources import Resources
from tenants.capacity.quota.bookings import Booked
from tenants.capacity.quota.caps import TOGETHER, CapFacts
from tenants.capacity.quota.edits import Change as SetLimits
from tenants.capacity.quota.limits import Capacity, Limit, LimitedQueue
from tenants.capacity.quota.shares import Shares

GIB = 1 << 30
POOLS = (uuid.UUID(int=9), uuid.UUID(int=8))
ROOT = LimitedQueue(uuid.UUID(int=1), None, "root")
SITE, TEAM = uuid.UUID(int=77), uuid.UUID(int=78)  # Tenants: all belong to the one, some to the other inside it.
USERS = tuple(uuid.UUID(int=500 + number) for number in range(4))
ARRIVALS = 36
MOMENTS = 3  # Of a scene at which is asked.
EVERY = 20  # Passes between two of them.


@dataclass(frozen=True, slots=True)
class Moment:
    """A core in the middle of its work, and the state that it is in."""

    core: Core
    state: State


def moments_of(seed: int, *, at_most: int = MOMENTS) -> Iterator[Moment]:
    """The moments of the scene of a seed, each with a core of its own."""
    chance = random.Random(f"{seed} waiting")
    start = _empty(chance)
    arrivals = _arrivals(chance, len(start.queues) - 1, len(start.pools))
    found: list[Moment] = []
    passed = 0

    def look(core: Core, now: int) -> None:
        nonlocal passed
        passed += 1
        if passed % EVERY == 0 and len(found) < at_most and core.ordering:
            found.append(Moment(copy.deepcopy(core), export(core, start)))

    Replay(build(start), arrivals, on_pass=look).run()
    yield from found


@dataclass
class Told:
    """Of all who waited, by the codes of what refused them: how many, and how many were told a change. Of the changes, by kind:
    how many, and how many did not come true on a core made anew and on the one at work."""

    waiting: Counter[frozenset[str]] = field(default_factory=Counter)
    told: Counter[frozenset[str]] = field(default_factory=Counter)
    changes: Counter[str] = field(default_factory=Counter)
    untrue: Counter[str] = field(default_factory=Counter)
    untrue_live: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)

    def by_cause(self) -> dict[str, tuple[int, int]]:
        """By each cause alone and each pair of two: how many had it among theirs, and how many of these were told a change."""
        found: dict[str, tuple[int, int]] = {}
        for codes, count in self.waiting.items():
            for number in (1, 2):
                for some in itertools.combinations(sorted(codes), number):
                    had, told = found.get("+".join(some), (0, 0))
                    found["+".join(some)] = (had + count, told + self.told[codes])
        return dict(sorted(found.items()))


def ask(moment: Moment, found: Told) -> None:
    """Explain everybody who waits at a moment, but those whose room is being cleared, and try every change that they are told."""
    settled = Settled(moment.state)
    for job_id in sorted(settled.waiting):
        began = time.process_time()
        explanation = explain(settled, job_id)
        assert explanation is not None, "who waits cannot be explained"
        codes = frozenset(condition.reason.code for condition in explanation.conditions)
        if codes & {"claim", "moving"}:
            continue
        suggestions = suggest(settled, explanation)
        found.seconds.append(time.process_time() - began)
        found.waiting[codes] += 1
        found.told[codes] += bool(suggestions)
        for suggestion in suggestions:
            found.changes[suggestion.kind] += 1
            found.untrue[suggestion.kind] += outcome(settled.state, suggestion.changes, job_id) != suggestion.clears
            found.untrue_live[suggestion.kind] += on_live(moment, suggestion.changes, job_id) != suggestion.clears


def on_live(moment: Moment, changes: Sequence[Change], job_id: str) -> tuple[str, ...] | None:
    """As `outcome`, on a copy of the core that has worked so far: whom its next pass clears away for a job, () for nobody, None
    where the job does not start."""
    core = copy.deepcopy(moment.core)
    if any(isinstance(change, AddMachines) for change in changes):
        core = build(apply(moment.state, changes))
        return starts_by(core.decide(moment.state.at), job_id)
    state = moment.state
    for change in changes:
        after = apply(state, (change,))
        _tell(core, change, state, after)
        state = after
    return starts_by(core.decide(moment.state.at), job_id)


def _tell(core: Core, change: Change, before: State, after: State) -> None:
    match change:
        case Ask() | Rank() | Release():
            core.submit(next(job for job in after.waiting if job.id == change.job_id))
        case End():
            if change.job_id in core.running:
                core.ended(change.job_id)
            else:
                core.withdraw(change.job_id)
        case Block():
            core.machine_changed(
                next(machine for machine in after.machines if (machine.pool, machine.name) == (change.pool, change.name))
            )
        case SetCap():
            core.caps_changed(after.caps)
        case SetLimits():
            core.limits_changed(Shares(after.queues, after.capacities))
        case _:
            raise AssertionError(f"no suggestion has such a change: {change}")
    assert before.bookings == after.bookings


# --- Where scenes come from ---------------------------------------------------------------------------------------------


def _empty(chance: random.Random) -> State:
    pools = 1 if chance.random() < 0.7 else 2
    machines: list[Machine] = []
    for pool in range(pools):
        for number in range(chance.randint(3, 8) if pool == 0 else 2):
            gpus = chance.choice((2, 4, 4, 8))
            machines.append(
                Machine(
                    f"n{number}", pool, gpus * 4000, gpus * 16 * GIB, gpus, chance.choice(("x", "x", "y")),
                    {"zone": chance.choice("ab"), "rack": f"r{number // 2}"},
                    taints=frozenset({"kept"}) if chance.random() < 0.12 else frozenset(),
                    blocked="cordoned" if chance.random() < 0.12 else "",
                )
            )  # fmt: skip
    capacities = tuple(
        Capacity(
            POOLS[pool], f"pool-{pool}", sum((whole_of(machine) for machine in machines if machine.pool == pool), Resources())
        )
        for pool in range(pools)
    )
    policy = Policy(
        least_runtime_seconds=chance.choice((0, 300)), in_order=chance.random() < 0.2,
        starvation_guard_seconds=chance.choice((600, 86_400)),
        backfill_depth=chance.choice((0, 1, 1, 1, 4)), preempts=chance.random() < 0.8, migrations=chance.choice((0, 0, 4)),
        aging_seconds=chance.choice((0, 216, 216)),
    )  # fmt: skip
    rules = PoolRules("pack", shares=True)
    queues = _queues(chance, capacities[0].total.gpu_millis // WHOLE_MILLIS)
    return State(
        0, tuple(Pool(POOLS[pool], f"pool-{pool}", rules) for pool in range(pools)), tuple(machines), queues, capacities,
        policy=policy, caps=_caps(chance), bookings=_windows(chance, queues, capacities),
    )  # fmt: skip


def _queues(chance: random.Random, gpus: int) -> tuple[LimitedQueue, ...]:
    """Root, three below it and two below the first of these."""
    found = [ROOT]

    def add(name: str, parent: LimitedQueue, most: int, guarantees: int) -> LimitedQueue:
        ceiling = chance.choice((None, None, max(2, most // 2)))
        guarantee = min(guarantees, chance.choice((0, 0, 2)), ceiling or most)
        deserved = max(guarantee, min(chance.choice((0, most // 3)), ceiling or most))
        limit = Limit(guarantee * 1000, deserved * 1000, None if ceiling is None else ceiling * 1000)
        limits = {"gpu_millis": limit}
        if chance.random() < 0.1:
            limits["memory_bytes"] = Limit(ceiling=most * 8 * GIB)
        found.append(LimitedQueue(uuid.UUID(int=10 + len(found)), parent.id, name, {POOLS[0]: limits}))
        return found[-1]

    first = add("a", ROOT, gpus, gpus // 4)
    limit = first.limits[POOLS[0]]["gpu_millis"]
    for name in ("a-1", "a-2"):
        add(name, first, (limit.ceiling or gpus * 1000) // 1000, limit.guarantee // 2000)
    add("b", ROOT, gpus, gpus // 4)
    add("c", ROOT, gpus, gpus // 4)
    return tuple(found)


def _caps(chance: random.Random) -> tuple[CapFacts, ...]:
    """None, or some of: each user's in the team, one user's own line, each user's of the site, all users' of the team."""
    if chance.random() < 0.3:
        return ()
    lines = [
        CapFacts(TEAM, None, gpu_millis=chance.randint(2, 6) * 1000),
        CapFacts(TEAM, USERS[0], jobs=chance.randint(1, 3)),
        CapFacts(SITE, None, containers=chance.randint(3, 8)),
        CapFacts(TEAM, TOGETHER, gpu_millis=chance.randint(4, 10) * 1000),
        CapFacts(SITE, TOGETHER, jobs=chance.randint(4, 8)),
    ]
    return tuple(chance.sample(lines, chance.randint(1, 3)))


def _windows(chance: random.Random, queues: Sequence[LimitedQueue], capacities: Sequence[Capacity]) -> tuple[Booked, ...]:
    """In some scenes, what a tenant has booked of the first pool for half an hour."""
    if chance.random() < 0.85:
        return ()
    at = chance.randint(1200, 4000)
    booked = min(chance.choice((2, 4)) * 1000, capacities[0].total.gpu_millis)
    return (Booked(uuid.UUID(int=900), chance.choice(queues[1:]).id, POOLS[0], booked, at, at + 1800),)


def _arrivals(chance: random.Random, queues: int, pools: int) -> list[Arrival]:
    found, at = [], 0
    for number in range(ARRIVALS):
        at += round(chance.expovariate(1 / 120))
        found.append(Arrival(_job(chance, f"job-{number:02}", queues, pools, at), round(chance.lognormvariate(7.5, 1)) + 30))
    return found


def _job(chance: random.Random, name: str, queues: int, pools: int, at: int) -> JobAsk:
    team = chance.random() < 0.6
    array = f"sweep-{chance.randint(1, 2)}" if chance.random() < 0.06 else ""
    return JobAsk(
        name, chance.randint(1, queues), _gang(chance), tuple(range(pools)) if chance.random() < 0.3 else (0,), at,
        chance.choice((100, 500, 500, 900)), max_runtime=chance.choice((None, 1800, 7200)),
        not_before=at + 600 if chance.random() < 0.03 else 0, withheld=WaitReason("held") if chance.random() < 0.03 else None,
        array=array, parallel=1 if array else 0, user=chance.choice(USERS), tenants=(TEAM, SITE) if team else (SITE,),
        checkpoint_seconds=chance.choice((0, 600)), evictable=chance.random() < 0.9,
    )  # fmt: skip


def _gang(chance: random.Random) -> GangAsk:
    needs = (("zone", frozenset(chance.choice("ab"))),) if chance.random() < 0.15 else ()
    ask = TaskAsk(
        chance.choice((1000, 4000)), chance.choice((1, 4, 40)) * GIB, chance.choice((0, 500, 1000, 1000, 1000, 2000, 4000)),
        frozenset({"x"}) if chance.random() < 0.12 else frozenset(), needs,
        frozenset({"kept"}) if chance.random() < 0.2 else frozenset(),
    )  # fmt: skip
    tasks = chance.choice((1, 1, 1, 1, 2, 3, 8))
    roles = [RoleAsk("worker", ask, tasks, tasks + (2 if chance.random() < 0.15 else 0))]
    if chance.random() < 0.1:
        roles.append(RoleAsk("server", TaskAsk(1000, GIB), 1, 1))
    return GangAsk(tuple(roles), chance.choice(("", "", "", "pack", "spread", "rack")))
