"""What a core at work keeps, written down again as a `State`: the full load that it must be equal to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jobs.scheduling.core import Core
from jobs.scheduling.machines import Machine
from jobs.scheduling.state import Held, Pool, State
from jobs.scheduling.work import Job
from tenants.quota.limits import Capacity, LimitedQueue


def state_of(
    core: Core,
    jobs: Iterable[Job],
    *,
    pools: Sequence[Pool],
    machines: Iterable[Machine],
    queues: Sequence[LimitedQueue],
    capacities: Sequence[Capacity],
) -> State:
    """`jobs` are all that were ever submitted, as they were. A claimant waits, and those who leave for it say so."""
    running = [one for name, one in sorted(core.running.items()) if name not in core.transfers]
    waiting = [job for job in jobs if core.why(job.id) is not None or job.id in core.lines or job.id in core.transfers]
    return State(
        at=core.now,
        pools=tuple(pools),
        machines=tuple(machines),
        queues=tuple(queues),
        capacities=tuple(capacities),
        waiting=tuple(waiting),
        running=tuple(
            Held(
                one.job, one.placed, one.need, one.started_at, one.checkpoint_at, one.is_leaving,
                one.claim.claimant.job.id if one.claim is not None else "",
            )
            for one in running
        ),
        policy=core.policy,
        history=core.shares.history(),
        history_at=core.shares.history_at or 0,
        evicted_at=tuple(core.evicted_at),
    )  # fmt: skip
