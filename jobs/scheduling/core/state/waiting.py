"""All waiting jobs: in order (`ordering.py`), or set aside until a time, until siblings of their array end, or for people."""

from __future__ import annotations

from dataclasses import replace

from jobs.scheduling.core.state.decisions import WaitReason
from jobs.scheduling.core.state.ordering import Group, Ordering
from jobs.scheduling.core.state.policy import Policy
from jobs.scheduling.core.state.reservation import planned_seconds
from jobs.scheduling.core.state.timers import NotBefore, Timers
from jobs.scheduling.core.state.user_caps import UserHoldings
from jobs.scheduling.core.state.work import JobAsk, Shapes
from kernel.wait_codes import WaitCode
from tenants.capacity.quota.shares import Shares


class Waiting:
    """The waiting jobs. `ordering`: those that may have a turn. `has_bookings`: there are bookings, which may treat equal jobs
    differently."""

    def __init__(self, shares: Shares, policy: Policy, holdings: UserHoldings, timers: Timers, shapes: Shapes) -> None:
        self.ordering = Ordering(
            shares,
            aging_seconds=policy.aging_seconds,
            in_order=policy.in_order,
            shortest_first=policy.shortest_first,
            assumed=policy.assumed_runtime_seconds,
        )
        self.has_bookings = False
        self._policy = policy
        self._holdings = holdings
        self._timers = timers
        self._shapes = shapes
        self._aside: dict[str, tuple[JobAsk, WaitReason]] = {}
        self._array_running: dict[str, int] = {}
        self._array_waiting: dict[str, dict[str, JobAsk]] = {}

    def __contains__(self, job_id: str) -> bool:
        return job_id in self.ordering or job_id in self._aside

    def submit(self, job: JobAsk, now: int) -> None:
        """A job waits from now on."""
        self.withdraw(job.id)
        if job.withheld is not None:
            self._aside[job.id] = (job, job.withheld)
        elif job.not_before > now:
            self._aside[job.id] = (job, WaitReason(WaitCode.NOT_BEFORE, until=job.not_before))
            self._timers.set(NotBefore(job.not_before, job.id))
        elif self.is_last_of_array(job):
            self.wait_for_siblings(job)
        else:
            self._line_up(job)

    def withdraw(self, job_id: str) -> bool:
        """A job waits no longer. Returns whether it did."""
        if job_id in self._aside:
            job, _ = self._aside.pop(job_id)
            if job.array:
                self._array_waiting.get(job.array, {}).pop(job_id, None)
        elif job_id in self.ordering:
            self.ordering.remove(job_id)
        else:
            return False
        return True

    def jobs(self) -> list[JobAsk]:
        """All of them, in no order."""
        found = [job for group in self.ordering.groups() for job in group.jobs()]
        return found + [job for job, _ in self._aside.values()]

    # --- Aside --------------------------------------------------------------------------------------------------------

    @property
    def is_anybody_aside(self) -> bool:
        """Whether a job waits for a time, for siblings of its array, or for people."""
        return bool(self._aside)

    def set_aside(self, job: JobAsk, reason: WaitReason) -> None:
        """A job waits for something other than room and limits."""
        self._aside[job.id] = (job, reason)

    def aside(self, job_id: str) -> tuple[JobAsk, WaitReason] | None:
        """A job that is set aside, and why."""
        return self._aside.get(job_id)

    def begin(self, job_id: str) -> JobAsk | None:
        """The start time of a job has come. Returns the job to submit again, if it waits for that time."""
        job, reason = self._aside.get(job_id, (None, None))
        return (
            replace(job, not_before=0) if job is not None and reason is not None and reason.code == WaitCode.NOT_BEFORE else None
        )

    # --- Arrays -------------------------------------------------------------------------------------------------------

    def is_last_of_array(self, job: JobAsk) -> bool:
        """Whether as many siblings of its array run as are allowed."""
        return bool(job.array) and self._array_running.get(job.array, 0) >= job.parallel > 0

    def wait_for_siblings(self, job: JobAsk) -> None:
        reason = WaitReason(WaitCode.ARRAY_PARALLELISM, held=self._array_running.get(job.array, 0), limit=job.parallel)
        self._aside[job.id] = (job, reason)
        self._array_waiting.setdefault(job.array, {})[job.id] = job

    def one_runs(self, job: JobAsk) -> list[Group]:
        """A job of an array runs, or claims its room. Returns the groups at the head of a queue in strict order that wait for
        siblings now."""
        if not job.array:
            return []
        self._array_running[job.array] = self._array_running.get(job.array, 0) + 1
        if not self._policy.in_order or not self.is_last_of_array(job):
            return []
        return [group for group, first in self.ordering.stops(job.queue) if first.array == job.array]

    def one_ended(self, job: JobAsk) -> list[JobAsk]:
        """A job of an array runs no more. Returns the siblings that waited for it, to be submitted again."""
        if not job.array:
            return []
        self._array_running[job.array] -= 1
        return [sibling for _, sibling in sorted(self._array_waiting.get(job.array, {}).items())]

    # --- In order -----------------------------------------------------------------------------------------------------

    def line_up_again(self) -> None:
        """Group all jobs anew, because other properties decide which jobs are equal."""
        jobs = [job for group in self.ordering.groups() for job in group.jobs()]
        for job in jobs:
            self.ordering.remove(job.id)
        for job in jobs:
            self._line_up(job)

    def _line_up(self, job: JobAsk) -> None:
        runtime = planned_seconds(job, self._policy) if self._policy.backfill_depth or self.has_bookings else 0
        kind = 4 * self._holdings.number(job) + 2 * (job.max_runtime is None) + (self.has_bookings and not job.evictable)
        self.ordering.add(job, self._shapes.of(job.gang, job.pools), runtime, kind)
