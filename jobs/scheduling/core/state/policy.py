"""How an installation wants its queues served."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Policy:
    """Times are whole seconds."""

    aging_seconds: int = 216  # What a point of priority is worth in waiting: from `low` to `normal`, 400 points, is a day.
    in_order: bool = False  # Whether nobody passes an earlier job of the same queue that waits.
    reclaims: bool = True  # Whether queues get back what they deserve.
    preempts: bool = True  # Whether a queue's own work of lower priority makes room.
    least_runtime_seconds: int = 300  # Before anything is preempted in its own queue, and twice as long before it migrates.
    reclaim_least_runtime_seconds: int = 0  # Before anything is evicted for another queue.
    evictions_per_pass: int = 256
    evictions_per_window: int = 2048
    window_seconds: int = 3600
    grace_seconds: int = 30  # How long who is told to leave may take: so much before what is booked for a time begins.
    backfill_depth: int = (
        1  # How many starts are booked per pool: 1 is EASY backfill, more than ever wait is conservative; 0: none.
    )
    rebook_seconds: int = 60  # How often it is asked whether a booked start could be earlier.
    overrun_seconds: int = 60  # For how long after its maximum run time a gang may still hold its machines.
    patience_seconds: int = 86_400  # Who has waited for longer gets the next booked start; 0: by fair order alone.
    assumed_runtime_seconds: int = 86_400  # For planning, how long a job runs of which nothing is known; 0: for ever.
    plans_after_seconds: int = 600  # How long a job has waited before room is held for it by ends that are not sure.
    shortest_first: int = 10  # How many times its expected run time a job stands further behind, in its queue; 0: not at all.
    history_seconds: int = 60  # How often history is brought up to date.
    rebalances: bool = False  # Whether of two queues that borrow the one with the smaller part takes from the other.
    migrations: int = 0  # How many gangs at most are moved so that one can start that fits in total but not in shape; 0: none.
    migrates_after_seconds: int = 300  # How long such a gang has waited before.
