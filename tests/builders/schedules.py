"""One schedule with a bit of everything: a state, and what happens from there, listed in an order by chance."""

from __future__ import annotations

import random
import uuid
from dataclasses import replace
from typing import Any

from jobs.scheduling.core.core import Policy
from jobs.scheduling.core.place.gangs import GangAsk, RoleAsk
from jobs.scheduling.core.place.machines import Machine, TaskAsk
from jobs.scheduling.core.place.scores import Mix, PoolRules
from jobs.scheduling.core.snapshot import Pool, State
from jobs.scheduling.core.state.decisions import Admit, Decision, Evict, WaitReason
from jobs.scheduling.core.state.work import JobAsk
from jobs.scheduling.replay.log import Checkpointed, Decided, Ended, Event, LimitsChanged, MachineChanged, Submitted, Withdrawn
from kernel.resources import Resources
from tenants.capacity.quota.limits import Capacity, Limit, LimitedQueue

GIB = 1 << 30
POOLS = (uuid.UUID(int=90), uuid.UUID(int=91))


def a_state(chance: random.Random) -> State:
    """Two pools, three queues, and asks of many kinds; sets of several texts, whose order is another in each process."""
    small = TaskAsk(1000, GIB, 1000, models=frozenset({"A100", "H100", "L40"}), tolerates=frozenset({"kept", "spot"}))
    share = TaskAsk(500, GIB, 250, needs=(("rack", frozenset({"r1", "r2", "r3"})),))
    data = frozenset({"x", "y"})
    mix = Mix([(small, 3), (share, 7)])
    machines = tuple(
        Machine(
            f"node-{number}", number % 2, 16_000, 64 * GIB, 4, ("A100", "H100")[number % 2],
            labels={"rack": f"r{number % 4}", "island": f"i{number // 2}"}, images=frozenset({"sha256:a", "sha256:b"}),
            avoid=frozenset({"slow", "old"}) if number == 3 else frozenset(),
        )
        for number in range(8)
    )  # fmt: skip
    root = LimitedQueue(uuid.UUID(int=1), None, "root")
    limits = ({}, {"gpu_millis": Limit(deserved=8000)}, {"gpu_millis": Limit(guarantee=2000, deserved=6000, ceiling=12_000)})
    queues = [
        LimitedQueue(uuid.UUID(int=10 + at), root.id, f"queue-{at}", {POOLS[0]: limit} if limit else {})
        for at, limit in enumerate(limits)
    ]
    capacities = tuple(Capacity(pool, f"pool-{at}", Resources(64_000, 256 * GIB, 16_000)) for at, pool in enumerate(POOLS))
    waiting = tuple(
        JobAsk(
            f"job-{number:02}", 1 + (number % 3 if number > 12 else 0),
            GangAsk((RoleAsk("worker", small if number % 3 else share, 1 + number % 3, 2 + number % 3, data=data),)),
            ((0,), (1, 0), (0, 1))[number % 3], number // 4, (100, 500, 900)[number % 3],
            withheld=WaitReason("budget", held=5, limit=5) if number == 13 else None,
            array="sweep" if number in (4, 7, 10) else "", parallel=1 if number in (4, 7, 10) else 0,
            max_runtime=600 if number % 2 else None,
        )
        for number in range(36)
    )  # fmt: skip
    state = State(
        at=10,
        pools=(Pool(POOLS[0], "pool-0", PoolRules("fragmentation", {"balanced": 3}, mix, shares=True)), Pool(POOLS[1], "pool-1")),
        machines=machines,
        queues=(root, *queues),
        capacities=capacities,
        waiting=waiting,
        policy=Policy(least_runtime_seconds=0),
        history={(1, 0, 2): 5_000_000, (0, 0, 2): 5_000_000},
        history_at=5,
        evicted_at=((3, 1), (4, 2)),
    )
    return replace(
        state,
        machines=_shuffled(chance, state.machines),
        queues=_shuffled(chance, state.queues),
        waiting=_shuffled(chance, state.waiting),
        evicted_at=_shuffled(chance, state.evicted_at),
    )


def _shuffled(chance: random.Random, items: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(chance.sample(items, len(items)))


def what_happens(state: State, now: int, decided: tuple[Decision, ...]) -> list[Event]:
    """The events up to the next pass: who was evicted is gone, one ends, one comes, a node goes away and comes back."""
    events: list[Event] = [Ended(decision.id) for decision in decided if isinstance(decision, Evict)]
    started = sorted(decision.id for decision in decided if isinstance(decision, Admit))
    events += [Ended(started[0])] if started and now % 3 else []
    events += [Checkpointed(started[-1], now)] if len(started) > 1 else []
    like = sorted(state.waiting, key=lambda waiting_job: waiting_job.id)[now % 5]
    job = replace(like, id=f"new-{now:03}", queue=1 + now % 3, submitted_at=now, array="", parallel=0)
    events.append(Submitted(job))
    if now % 4 == 0:
        events.append(Withdrawn("job-02" if now % 8 else f"new-{now:03}"))
    machine = min(state.machines, key=lambda node: (node.pool, node.name))
    if now % 5 == 0:
        events.append(MachineChanged(replace(machine, blocked="cordoned" if now % 10 else "")))
    if now % 7 == 0:
        queues = tuple(
            replace(queue, limits={POOLS[0]: {"gpu_millis": Limit(deserved=4000, ceiling=8000)}})
            if queue.name == "queue-2"
            else queue
            for queue in state.queues
        )
        events.append(LimitsChanged(queues, state.capacities))
    return [*events, Decided(now)]
