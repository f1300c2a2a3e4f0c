"""States of the scheduler, as values: one pool of equal machines, a queue per limit, and who runs and waits there."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

from jobs.scheduling.core.core import Policy
from jobs.scheduling.core.place.gangs import GangAsk, RoleAsk
from jobs.scheduling.core.place.machines import Machine, TaskAsk
from jobs.scheduling.core.place.scores import PoolRules
from jobs.scheduling.core.snapshot import Pool, State
from jobs.scheduling.core.state.work import JobAsk
from jobs.scheduling.questions.explain import Settled
from kernel.resources import Resources
from tenants.capacity.quota.limits import Capacity, Limit, LimitedQueue

GIB = 1 << 30
POOL = uuid.UUID(int=9)
ROOT = LimitedQueue(uuid.UUID(int=1), None, "root")


def a_state(*waiting: JobAsk, nodes: int = 3, gpus: int = 4, limits: dict[str, Limit] | None = None, **policy: Any) -> State:
    """Machines of one pool, and a queue per entry of `limits`, by GPU; the numbers of queues follow their names from 1."""
    limits = limits or {"a": Limit(), "b": Limit()}
    machines = tuple(Machine(f"node-{number:03}", 0, 32_000, 128 * GIB, gpus, "T4") for number in range(nodes))
    queues = [ROOT]
    for number, (name, limit) in enumerate(sorted(limits.items())):
        queues.append(LimitedQueue(uuid.UUID(int=10 + number), ROOT.id, name, {POOL: {"gpu_millis": limit}}))
    total = Resources(nodes * 32_000, nodes * 128 * GIB, nodes * gpus * 1000)
    pools = (Pool(POOL, "pool", PoolRules("pack")),)
    return State(1000, pools, machines, tuple(queues), (Capacity(POOL, "pool", total),), waiting, policy=Policy(**policy))


def a_job(name: str, queue: int = 1, tasks: int = 1, gpus: int = 1, at: int = 0, **more: Any) -> JobAsk:
    """`memory` in GiB, `models`, `together` and `most` are of its tasks; whatever else is a field of `JobAsk`."""
    most, together = more.pop("most", tasks), more.pop("together", "")
    ask = TaskAsk(1000, more.pop("memory", 1) * GIB, gpus * 1000, frozenset(more.pop("models", ())))
    gang = GangAsk((RoleAsk("worker", ask, tasks, most, together),))
    return replace(JobAsk(name, queue, gang, (0,), at), **more)


def passed(state: State, *waiting: JobAsk, at: int | None = None) -> State:
    """The state after a pass, with more who wait then."""
    after = Settled(state).state
    return replace(after, at=after.at if at is None else at, waiting=(*after.waiting, *waiting))
