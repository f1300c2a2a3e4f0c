"""When running gangs will have ended, as far as that is known, and for which waiting jobs a start may therefore be looked for.

A gang whose maximum run time is not known has an end only where an end is assumed; when that passes it is planned anew, as far
ahead again as the gang has run.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import takewhile

from jobs.scheduling.core.state.live import Live
from jobs.scheduling.core.state.reservation import FOREVER, NEVER, BackfillReservation, Ends, ends_if_started
from jobs.scheduling.core.state.work import JobAsk, Running


class PlannedEnds:
    """The ends of what runs."""

    def __init__(self, live: Live) -> None:
        self.live = live
        self.known_ends = 0
        self._ends: dict[int, list[tuple[int, str]]] = {}  # By pool, of gangs whose end is known.
        self._planned: dict[str, int] = {}  # By job that runs, the end that is planned with.
        self._unsure: dict[int, int] = {}  # By pool, how many of these run.
        self._overdue: list[tuple[int, str]] = []  # The same of those without a longest time, the first on top.
        self._on: dict[int, dict[str, Running]] = {}  # By machine, of the same.

    def ends_of(self, running: Running) -> Ends:
        """When a gang that runs holds nothing any more."""
        if running.claim is not None:
            return NEVER
        end = self._planned.get(running.job.id)
        if end is None or running.job.max_runtime is not None:
            return ends_if_started(running.job, running.started_at, self.live.policy)
        return Ends(FOREVER, end)

    def ends_in(self, pool: int) -> Sequence[tuple[int, str]]:
        """The planned ends of what runs in a pool, the first to come first, each with its job."""
        return self._ends.get(pool, ())

    def entered(self, running: Running) -> None:
        ends = ends_if_started(running.job, running.started_at, self.live.policy)
        if ends.planned == FOREVER or not self.live.policy.backfill_depth:
            return
        self._enter(running, ends.planned if ends.sure < FOREVER else self._not_over(running, ends.planned))
        for task in running.placed.tasks:
            self._on.setdefault(task.machine, {})[running.job.id] = running

    def _enter(self, running: Running, end: int) -> None:
        self._planned[running.job.id] = end
        for pool, _ in running.need:
            insort(self._ends.setdefault(pool, []), (end, running.job.id))
            self.known_ends += 1
            self._unsure[pool] = self._unsure.get(pool, 0) + (running.job.max_runtime is None)
        if running.job.max_runtime is None:
            heappush(self._overdue, (end, running.job.id))

    def _not_over(self, running: Running, end: int) -> int:
        """The next end of a gang that runs longer than was planned: as far ahead again as it has run, as often as it takes."""
        while end <= self.live.now:
            end += end - running.started_at
        return end

    def _plan_overdue(self) -> set[int]:
        """Ends that were planned and did not come are planned anew; the machines on which that was."""
        touched: set[int] = set()
        while self._overdue and self._overdue[0][0] <= self.live.now:
            end, name = heappop(self._overdue)
            running = self.live.running.get(name)
            if running is not None and self._planned.get(name) == end:
                self._forget_end(running)
                self._enter(running, self._not_over(running, end))
                touched.update(task.machine for task in running.placed.tasks)
        return touched

    def left(self, running: Running) -> None:
        """It holds nothing any more, or others claim what it holds."""
        self._forget_end(running)
        for task in running.placed.tasks:
            self._on.get(task.machine, {}).pop(running.job.id, None)

    def _forget_end(self, running: Running) -> None:
        end = self._planned.pop(running.job.id, None)
        for pool, _ in running.need if end is not None else ():
            ends = self._ends[pool]
            place_of = bisect_left(ends, (end, running.job.id))
            assert ends[place_of] == (end, running.job.id)
            del ends[place_of]
            self.known_ends -= 1
            self._unsure[pool] -= running.job.max_runtime is None

    def plans_from(self, job: JobAsk) -> int:
        """From when on a start is planned for a job: at once where all ends in its pools are sure, else once it has waited for
        `Policy.plans_after_seconds`, because room that is held for it may be idle for long."""
        if not any(self._unsure.get(pool) for pool in job.pools):
            return 0
        return job.submitted_at + self.live.policy.plans_after_seconds

    def _freed_by(self, reservation: BackfillReservation) -> Iterator[Running]:
        """Those that end before a reserved start, as far as it counts on them, the first to end in each of its pools first."""
        seen: set[str] = set()
        for pool, _ in reservation.need:
            for _, name in takewhile(lambda end: end[0] <= reservation.at, self._ends.get(pool, ())):
                running = self.live.running[name]
                if name not in seen and (not reservation.is_sure or running.job.max_runtime is not None):
                    seen.add(name)
                    yield running
