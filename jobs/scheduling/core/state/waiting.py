"""All who wait: in order (`ordering.py`), or aside until a time, until siblings of their array end, or for their people."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from jobs.scheduling.core.state.decisions import Reason
from jobs.scheduling.core.state.ordering import Group, Ordering
from jobs.scheduling.core.state.policy import Policy
from jobs.scheduling.core.state.reservation import planned_seconds
from jobs.scheduling.core.state.timers import Timer, Timers, What
from jobs.scheduling.core.state.user_caps import UserHoldings
from jobs.scheduling.core.state.work import Job, Shapes
from tenants.quota.shares import Shares


class Waiting:
    """`lines` has who may have a turn. `has_windows`: tenants have booked something for a time, which parts equal jobs."""

    def __init__(self, shares: Shares, policy: Policy, holdings: UserHoldings, timers: Timers, shapes: Shapes) -> None:
        self.ordering = Ordering(
            shares,
            aging_seconds=policy.aging_seconds,
            in_order=policy.in_order,
            shortest_first=policy.shortest_first,
            assumed=policy.assumed_runtime_seconds,
        )
        self.has_windows = False
        self._policy = policy
        self._holdings = holdings
        self._timers = timers
        self._shapes = shapes
        self._aside: dict[str, tuple[Job, Reason]] = {}
        self._array_running: dict[str, int] = {}
        self._array_waiting: dict[str, dict[str, Job]] = {}

    def __contains__(self, job_id: str) -> bool:
        return job_id in self.ordering or job_id in self._aside

    def submit(self, job: Job, now: int) -> None:
        """A job waits from now on."""
        self.withdraw(job.id)
        if job.withheld is not None:
            self._aside[job.id] = (job, job.withheld)
        elif job.not_before > now:
            self._aside[job.id] = (job, Reason("not_before", until=job.not_before))
            self._timers.set(Timer(job.not_before, What.NOT_BEFORE, job_id=job.id))
        elif self.is_last_of_array(job):
            self.wait_for_siblings(job)
        else:
            self._line_up(job)

    def withdraw(self, job_id: str) -> bool:
        """A job waits no longer; whether it did."""
        if job_id in self._aside:
            job, _ = self._aside.pop(job_id)
            if job.array:
                self._array_waiting.get(job.array, {}).pop(job_id, None)
        elif job_id in self.ordering:
            self.ordering.remove(job_id)
        else:
            return False
        return True

    def jobs(self) -> list[Job]:
        """All of them, in no order."""
        found = [job for group in self.ordering.groups() for job in group.jobs()]
        return found + [job for job, _ in self._aside.values()]

    # --- Aside --------------------------------------------------------------------------------------------------------

    @property
    def is_anybody_aside(self) -> bool:
        """Whether somebody waits for a time, siblings, or its people."""
        return bool(self._aside)

    def set_aside(self, job: Job, reason: Reason) -> None:
        """A job waits for what is neither room nor limits."""
        self._aside[job.id] = (job, reason)

    def aside(self, job_id: str) -> tuple[Job, Reason] | None:
        """A job that waits aside, and why."""
        return self._aside.get(job_id)

    def begin(self, job_id: str) -> Job | None:
        """The moment has come before which a job was not to start: the job to submit again, if that is what it waits for."""
        job, reason = self._aside.get(job_id, (None, None))
        return replace(job, not_before=0) if job is not None and reason is not None and reason.code == "not_before" else None

    # --- Arrays -------------------------------------------------------------------------------------------------------

    def is_last_of_array(self, job: Job) -> bool:
        """Whether as many of its siblings run as may."""
        return bool(job.array) and self._array_running.get(job.array, 0) >= job.parallel > 0

    def wait_for_siblings(self, job: Job) -> None:
        reason = Reason("array_parallelism", held=self._array_running.get(job.array, 0), limit=job.parallel)
        self._aside[job.id] = (job, reason)
        self._array_waiting.setdefault(job.array, {})[job.id] = job

    def one_runs(self, job: Job) -> list[Group]:
        """One more of an array runs, or claims its room; the groups at which a queue stands although siblings are in the way."""
        if not job.array:
            return []
        self._array_running[job.array] = self._array_running.get(job.array, 0) + 1
        if not self._policy.in_order or not self.is_last_of_array(job):
            return []
        return [group for group, first in self.ordering.stops(job.queue) if first.array == job.array]

    def one_ended(self, job: Job) -> list[Job]:
        """One of an array runs no more; the siblings that waited for it, to be submitted again."""
        if not job.array:
            return []
        self._array_running[job.array] -= 1
        return [sibling for _, sibling in sorted(self._array_waiting.get(job.array, {}).items())]

    # --- In order -----------------------------------------------------------------------------------------------------

    def line_up_again(self) -> None:
        """Other things decide which jobs are equal."""
        waiting = [job for group in self.ordering.groups() for job in list(group.jobs())]
        self._line_up_all(waiting)

    def _line_up_all(self, waiting: Iterable[Job]) -> None:
        jobs = list(waiting)
        for job in jobs:
            self.ordering.remove(job.id)
        for job in jobs:
            self._line_up(job)

    def _line_up(self, job: Job) -> None:
        runtime = planned_seconds(job, self._policy) if self._policy.backfill_depth or self.has_windows else 0
        kind = 4 * self._holdings.number(job) + 2 * (job.max_runtime is None) + (self.has_windows and not job.evictable)
        self.ordering.add(job, self._shapes.of(job.gang, job.pools), runtime, kind)
