"""At each moment of a window its owner has, or could have at once, what was booked."""

from __future__ import annotations

import uuid
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as some

from jobs.scheduling.core.core import Core, Policy
from jobs.scheduling.core.place.gangs import GangAsk, RoleAsk
from jobs.scheduling.core.place.machines import TaskAsk
from jobs.scheduling.core.state.work import JobAsk
from jobs.scheduling.replay.run import Arrival, Replay
from tenants.capacity.quota.bookings import Booked
from tenants.capacity.quota.limits import Limit
from tests.property.scheduling.test_core_properties import GPUS, NODES, POOL, a_core

GRACE, LEAST = 3, 5
arrivals_of = some.lists(
    some.tuples(
        some.integers(0, 80),  # Submitted.
        some.integers(1, 3),  # Queue.
        some.integers(1, 3),  # Tasks.
        some.sampled_from((1000, 1000, 2000, 4000)),
        some.integers(1, 60),  # How long it runs.
        some.one_of(some.none(), some.integers(0, 40)),  # How much less than it may.
        some.booleans(),  # Whether it may be evicted.
        some.sampled_from((500, 900)),
    ),
    min_size=2,
    max_size=25,
)
limits = some.sampled_from(
    (
        {"a": Limit(), "b": Limit(), "c": Limit()},
        {"a": Limit(deserved=8000), "b": Limit(deserved=8000), "c": Limit()},
        {"a": Limit(), "b": Limit(deserved=4000), "c": Limit(ceiling=8000)},
    )
)
windows_of = some.lists(
    some.tuples(some.integers(1, 3), some.integers(1, 8), some.integers(10, 90), some.integers(1, 50)), min_size=1, max_size=2
)


@settings(max_examples=80, deadline=None)
@given(limits, arrivals_of, windows_of, some.sampled_from((0, 1, 9)))
def test_at_each_moment_of_a_window_what_was_booked_is_free_or_held_by_its_owner_or_by_who_is_leaving(
    limits: dict[str, Limit], arrivals: list[tuple[Any, ...]], windows: list[tuple[int, int, int, int]], booked: int
) -> None:
    policy = Policy(backfill_depth=booked, replan_seconds=0, overrun_seconds=0, least_runtime_seconds=LEAST, grace_seconds=GRACE)
    core = a_core(limits, policy)
    all_booked = [
        Booked(uuid.UUID(int=900 + number), core.shares.queue_ids[queue] or uuid.UUID(int=0), POOL, gpus * 1000, at, at + lasts)
        for number, (queue, gpus, at, lasts) in enumerate(windows)
    ]
    core.bookings_changed(all_booked)
    told = []
    for number, (at, queue, tasks, gpu, runs, spare, evictable, priority) in enumerate(arrivals):
        gang = GangAsk((RoleAsk("worker", TaskAsk(100, 1 << 10, gpu), tasks, tasks),))
        longest = None if spare is None else runs + spare
        job = JobAsk(f"job-{number:02}", queue, gang, (0,), at, priority, max_runtime=longest, evictable=evictable)
        told.append(Arrival(job, runs))

    def holds(core: Core, now: int) -> None:
        active = [booking for booking in all_booked if booking.starts_at <= now < booking.ends_at]
        reserved: dict[int, int] = {}
        for booking in active:
            queue = core.shares.queue_at[booking.queue_id]
            reserved[queue] = reserved.get(queue, 0) + booking.gpu_millis
        staying: dict[int, int] = {}
        for running in core.running.values():
            if not running.is_leaving and running.job.id not in core.transfers:
                queue = running.job.queue
                staying[queue] = staying.get(queue, 0) + running.gpu_millis
        others = sum(amount for queue, amount in staying.items() if queue not in reserved)
        over = sum(max(staying.get(queue, 0), amount) for queue, amount in reserved.items())
        assert others + over <= NODES * GPUS * 1000 or not reserved

    found = Replay(core, told, grace_seconds=GRACE, on_pass=holds).run()
    assert found.broken == 0
    assert core.machines.free(0).gpu_millis == NODES * GPUS * 1000
