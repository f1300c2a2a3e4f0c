"""Scenes with caps on users, labels, models, ceilings and cordoned machines: nearly all who wait are told what would help."""

from __future__ import annotations

import random
import uuid
from dataclasses import replace

from jobs.scheduling.core.core import Policy
from jobs.scheduling.core.place.scores import PoolRules
from jobs.scheduling.core.snapshot import Pool, State
from jobs.scheduling.core.state.gangs import GangAsk, RoleAsk
from jobs.scheduling.core.state.machines import Machine, TaskAsk
from jobs.scheduling.core.state.work import Job
from jobs.scheduling.questions.explain import Settled, explain
from jobs.scheduling.questions.suggest import outcome, suggest
from kernel.resources import Resources
from tenants.quota.caps import UserCap
from tenants.quota.limits import Capacity, Limit, LimitedQueue

GIB = 1 << 30
POOL, TENANT = uuid.UUID(int=9), uuid.UUID(int=77)
ROOT = LimitedQueue(uuid.UUID(int=1), None, "root")
USERS = tuple(uuid.UUID(int=500 + number) for number in range(3))
SCENES = 60
TOLD_LEAST = 0.95


def a_scene(seed: int) -> State:
    """Some run, as the scheduler itself started them, and some wait that came later."""
    chance = random.Random(seed)
    gpus = [chance.choice((2, 4, 4, 8)) for _ in range(chance.randint(2, 5))]
    total = sum(gpus)
    machines = tuple(
        Machine(
            f"n{number}", 0, count * 4000, count * 16 * GIB, count, chance.choice(("x", "y")), {"zone": chance.choice("ab")},
            blocked="cordoned" if chance.random() < 0.15 else "",
        )
        for number, count in enumerate(gpus)
    )  # fmt: skip
    queues = [ROOT]
    for number, name in enumerate("abc"):
        deserved = chance.choice((None, total // 3 * 1000))
        ceiling = chance.choice((None, None, max(2, total // 2) * 1000))
        limit = Limit(
            deserved=min(deserved, ceiling) if deserved is not None and ceiling is not None else deserved, ceiling=ceiling
        )
        queues.append(LimitedQueue(uuid.UUID(int=10 + number), ROOT.id, name, {POOL: {"gpu_millis": limit}}))
    cap = chance.choice(
        (None, UserCap(TENANT, None, gpu_millis=chance.randint(2, 6) * 1000), UserCap(TENANT, None, jobs=chance.randint(1, 3)),
         UserCap(TENANT, None, containers=chance.randint(2, 5)))
    )  # fmt: skip
    capacity = Capacity(POOL, "pool", Resources(total * 4000, total * 16 * GIB, total * 1000))
    state = State(
        0, (Pool(POOL, "pool", PoolRules("pack")),), machines, tuple(queues), (capacity,),
        policy=Policy(least_runtime_seconds=chance.choice((0, 300))), caps=() if cap is None else (cap,),
        waiting=tuple(a_job(chance, f"first-{number}", 0) for number in range(chance.randint(2, 8))),
    )  # fmt: skip
    state = Settled(state).state
    later = tuple(a_job(chance, f"later-{number}", 10 + number) for number in range(chance.randint(1, 6)))
    return replace(state, at=100, waiting=(*state.waiting, *later))


def a_job(chance: random.Random, name: str, at: int) -> Job:
    needs = (("zone", frozenset(chance.choice("ab"))),) if chance.random() < 0.2 else ()
    models = frozenset({"x"}) if chance.random() < 0.15 else frozenset[str]()
    each = TaskAsk(
        chance.choice((1000, 4000)), chance.choice((1, 4, 40)) * GIB, chance.choice((0, 1, 1, 2, 4)) * 1000, models, needs
    )
    tasks, user = chance.choice((1, 1, 1, 2, 3)), chance.choice(USERS)
    gang = GangAsk((RoleAsk("worker", each, tasks, tasks),))
    return Job(name, chance.randint(1, 3), gang, (0,), at, chance.choice((100, 500, 900)), user=user, tenants=(TENANT,))


def test_nearly_all_who_wait_are_told_a_change_and_all_that_are_told_come_true() -> None:
    told, waits = 0, 0
    for seed in range(SCENES):
        settled = Settled(a_scene(seed))
        for job_id in sorted(settled.waiting):
            explanation = explain(settled, job_id)
            assert explanation is not None
            if any(one.reason.code in ("claim", "moving") for one in explanation.conditions):
                continue  # Its room is being cleared.
            found = suggest(settled, explanation)
            waits, told = waits + 1, told + bool(found)
            for one in found:
                assert outcome(settled.state, one.changes, job_id) == one.clears, (seed, job_id, one)
    assert waits > 4 * SCENES
    assert told >= TOLD_LEAST * waits, f"{told} of {waits}"
