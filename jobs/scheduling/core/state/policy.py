"""The policy by which an installation serves its queues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

RENAMED: Mapping[str, str] = {
    "booked": "backfill_depth",
    "evens": "rebalances",
    "moves": "migrations",
    "moves_after_seconds": "migrates_after_seconds",
    "patience_seconds": "starvation_guard_seconds",
    "rebook_seconds": "replan_seconds",
}
"""Fields by their names in earlier releases: where a person writes such a name, it is refused with the new one."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Times are whole seconds."""

    aging_seconds: int = 216  # What a point of priority is worth in waiting: from `low` to `normal`, 400 points, is a day.
    in_order: bool = False  # Whether no job passes an earlier waiting job of its queue.
    reclaims: bool = True  # Whether queues get back what they deserve.
    preempts: bool = True  # Whether a queue's own work of lower priority makes room.
    least_runtime_seconds: int = 300  # Before a gang is preempted in its own queue; twice as long before it migrates.
    reclaim_least_runtime_seconds: int = 0  # Before a gang is evicted for another queue.
    evictions_per_pass: int = 256
    evictions_per_window: int = 2048
    window_seconds: int = 3600
    grace_seconds: int = 30  # How long a gang may take to leave; gangs leave this long before a booking begins.
    backfill_depth: int = 1  # Reserved starts per pool: 1 is EASY backfill, more than ever wait is conservative; 0: none.
    replan_seconds: int = 60  # How often starts are planned anew, and sure ones are asked whether they could be earlier.
    overrun_seconds: int = 60  # How long after its maximum run time a gang may still hold its machines.
    starvation_guard_seconds: int = 86_400  # A job that waits longer gets the next reserved start; 0: by fair order alone.
    assumed_runtime_seconds: int = 86_400  # Planned run time of a job without any other; 0: for ever.
    plans_after_seconds: int = 600  # How long a job waits before a start that is not sure is reserved for it.
    shortest_first: int = 10  # How many times its expected run time a job stands further behind in its queue; 0: not at all.
    history_seconds: int = 60  # How often history is brought up to date.
    rebalances: bool = False  # Whether of two queues that borrow the queue with the smaller part takes from the other.
    migrations: int = 0  # How many gangs at most migrate so that a gang starts that fits in total but not in shape; 0: none.
    migrates_after_seconds: int = 300  # How long such a gang waits first.
