"""Who gets a booked start in a pass, and what becomes of those that were booked: phase 6.

The ideal: at every moment the first `Policy.booked` of those who were refused in a pool, in fair order, have a start. What is
done: a start stays with the gang that has it until it comes or cannot be kept. A place that is vacant goes to the first in fair
order of those who were refused before this pass, as soon as somebody behind it has the turn, or to whoever is refused in its
turn before. So nobody starts in front of one that could have had the place.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from jobs.scheduling.core.place.placing import place
from jobs.scheduling.core.reclaim import at_least
from jobs.scheduling.core.reservations import TRIES_MAX
from jobs.scheduling.core.state.decisions import Admit, Book, Decision, Reason
from jobs.scheduling.core.state.gangs import Placed
from jobs.scheduling.core.state.ordering import REFUSED
from jobs.scheduling.core.state.reservation import Promise
from jobs.scheduling.core.state.user_caps import least
from jobs.scheduling.core.state.work import Job, Running
from tenants.quota.shares import Standing

if TYPE_CHECKING:
    from jobs.scheduling.core.core import Core
    from jobs.scheduling.core.state.ordering import Group

BOOKABLE = frozenset({"capacity", "withheld", "no_room", "not_together", "booked", "reserved", "too_young", "brake"})
Rank = tuple[tuple[tuple[int, int, int], ...], tuple[int, int, str]]


class Booker:
    """The booked starts of one pass."""

    def __init__(self, core: Core, now: int, decisions: list[Decision]) -> None:
        self.core = core
        self.promises = core.promises
        self.now = now
        self.decisions = decisions
        self._tries: dict[int, int] = {}
        self._next: dict[int, list[tuple[Rank, Group, Job]]] = {}  # By pool with vacant places, who is to be asked, first last.
        self._counts: dict[int, int] = {}  # By pool, how many starts were booked when that was last looked at.

    def begin(self) -> None:
        """Start who is due, forget who does not wait any more, and see who else could have a start."""
        if not self.core.policy.booked:
            return
        self._counts = {pool: self.promises.count(pool) for pool in self.core.machines.pools}
        for one in list(self.promises.by_job.values()):
            job = self.core.lines.job(one.job.id)
            if job is None:
                self.promises.drop(one.job.id, "changed" if self.core.why(one.job.id) is not None else "")
            elif not _is_same(job, one.job):
                self.promises.drop(one.job.id, "changed")
        for one in self.promises.due(self.now):
            self._start(one)
        self._look_again()
        self._look_for_vacancies()

    def _look_for_vacancies(self, pools: Iterable[int] | None = None) -> None:
        """See who is to be asked where a place is vacant: once a pass, and again once a start that was booked has come."""
        for pool in sorted(self.core.machines.pools) if pools is None else pools:
            count = self.promises.count(pool)
            if count < self._counts.get(pool, 0):
                self._next.pop(pool, None)
                self.core.plan_after.pop(pool, None)
            self._counts[pool] = count
            if pool not in self._next and self._vacant(pool) and self.core.plan_after.get(pool, self.now) <= self.now:
                self._next[pool] = self._refused_in(pool)

    def before(self, group: Group, job: Job) -> None:
        """Before somebody has its turn, those before it who were refused earlier may have a start."""
        self._look_for_vacancies(group.shape.pools)
        rank: Rank | None = None
        for pool in group.shape.pools:
            waiting = self._next.get(pool)
            while waiting and self._vacant(pool):
                rank = rank or self.rank(group.queue, job)
                if waiting[-1][0] > rank:
                    break
                _, other, first = waiting.pop()
                if other.phase == REFUSED and first.id in self.core.lines:
                    self._book(other, first)

    def refused(self, group: Group, job: Job, reason: Reason) -> None:
        """Somebody was refused in its turn."""
        if reason.code in BOOKABLE and job.id not in self.promises.by_job and any(map(self._vacant, group.shape.pools)):
            self._book(group, job)
            if self.core.policy.booked > 1:
                self._others_of(group)

    def book_rest(self) -> bool:
        """Places that are still vacant go to who was refused earlier; whether anybody else may have a turn because of it."""
        self._look_for_vacancies()  # Also those of starts that came in this pass.
        for pool, waiting in self._next.items():
            while waiting and self._vacant(pool):
                _, other, first = waiting.pop()
                if other.phase == REFUSED and first.id in self.core.lines:
                    self._book(other, first)
            if self._vacant(pool):
                self.core.plan_after[pool] = self.now + self.core.policy.rebook_seconds
        self._next.clear()
        return self.core.lines.next() is not None

    def tell(self) -> None:
        """What could not be kept; a start that was booked anew stands for it."""
        causes = {one.id: one for one in self.promises.broken}
        self.promises.broken.clear()
        started = {one.id for one in self.decisions if isinstance(one, Admit)}
        for place_of, told in enumerate(self.decisions):
            if isinstance(told, Book) and told.id in causes:
                self.decisions[place_of] = told._replace(cause=causes.pop(told.id).cause)
        self.decisions += [one for name, one in sorted(causes.items()) if name not in started and name not in self.core.running]

    # --- One start ----------------------------------------------------------------------------------------------------

    def _start(self, one: Promise) -> None:
        """The moment has come: start it, wherever it fits best by now."""
        core, job, shape = self.core, one.job, one.shape
        if core.is_last_of_array(job) or core.people.refusal(job, least(shape.gang)) is not None:
            self.promises.drop(job.id, "changed")
            return
        lifted = self.promises.lift(job, one.pool)
        found = [core.shares.room(job.queue, pool, amount) for pool, amount in one.need]
        standings = [each for each in found if isinstance(each, Standing)]
        may_start = len(standings) == len(found) and not (core.windows and core.windows.refusal(job, one.need, self.now))
        placed = place(at_least(shape.gang), core.machines, (one.pool,)) if may_start else None
        fits = isinstance(placed, Placed)
        if lifted is not None:
            self.promises.let_fall(lifted, stands=fits)
        group = core.lines.group(job.id)
        if isinstance(placed, Placed):
            standing = max(standings)
            core.lines.remove(job.id)
            core.waits.watch(group)
            with self.promises.coming(job.id):
                core.admit(Running(job, placed, one.need, self.now, standing))
            self.decisions.append(Admit(job.id, placed, standing))
            return
        self.promises.drop(job.id, "overrun")
        if group is not None:
            self._book(group, job)

    def _look_again(self) -> None:
        """Whether a start could be earlier, now and then."""
        core = self.core
        for one in sorted(self.promises.by_job.values(), key=lambda one: (one.at, one.job.id))[:TRIES_MAX]:
            if not one.may_be_earlier or self.now < one.planned_at + core.policy.rebook_seconds:
                continue
            one.planned_at, one.may_be_earlier = self.now, False
            found = self.promises.plan(one.job, one.shape)
            if found is not None and found.at < one.at:
                self.promises.drop(one.job.id)
                self._add(found)

    def _book(self, group: Group, job: Job) -> None:
        pools = [pool for pool in group.shape.pools if self._vacant(pool)]
        if not pools:
            return
        found = self.promises.plan(job, group.shape)
        if found is not None and found.pool in pools:
            self._add(found)
            self.core.lines.relent(group)
            return
        for pool in pools:
            self._tries[pool] = self._tries.get(pool, 0) + 1

    def _add(self, found: Promise) -> None:
        found.planned_at = self.now
        self.promises.add(found)
        self.decisions.append(found.told)

    def _vacant(self, pool: int) -> bool:
        """Whether a start in the pool could be booked."""
        if not self.core.policy.booked or not self.promises.may_plan(pool) or self._tries.get(pool, 0) >= TRIES_MAX:
            return False
        return self.promises.count(pool) < self.core.policy.booked

    # --- Who is next --------------------------------------------------------------------------------------------------

    def _refused_in(self, pool: int) -> list[tuple[Rank, Group, Job]]:
        """Who was refused there and has no start, the last of those who could get one first."""
        places = self.core.policy.booked - self.promises.count(pool) + TRIES_MAX
        return heapq.nsmallest(places, self._candidates(pool, places), key=lambda one: one[0])[::-1]

    def _others_of(self, group: Group) -> None:
        """Those behind the first of a group will not have a turn of their own."""
        jobs = [job for job in group.jobs() if job.id not in self.promises.by_job]
        for pool in filter(self._vacant, group.shape.pools):
            waiting = self._next.setdefault(pool, [])
            places = self.core.policy.booked - self.promises.count(pool)
            waiting += [
                (self.rank(group.queue, job), group, job) for job in heapq.nsmallest(places, jobs, key=self.core.lines.key)
            ]
            waiting.sort(key=lambda one: one[0], reverse=True)

    def _candidates(self, pool: int, places: int) -> Iterator[tuple[Rank, Group, Job]]:
        lines, booked = self.core.lines, self.promises.by_job
        for group in lines.groups():
            reason = group.reason
            if group.phase == REFUSED and reason is not None and reason.code in BOOKABLE and pool in group.shape.pools:
                if places <= TRIES_MAX + 1:
                    first = group.first()
                    if first is not None and first[1].id not in booked:
                        yield self.rank(group.queue, first[1]), group, first[1]
                    continue
                for job in heapq.nsmallest(places, (job for job in group.jobs() if job.id not in booked), key=lines.key):
                    yield self.rank(group.queue, job), group, job

    def rank(self, queue: int, job: Job) -> Rank:
        """The place in the fair order, as `Turns` has it."""
        shares = self.core.shares
        shares.refresh()
        path = shares.path[queue]
        levels = [(0 if shares.is_owed(node) else 1, shares.share_then(node), node) for node in reversed(path) if node]
        return (*levels, (1, shares.own_share(queue), queue)), self.core.lines.key(job)


def _is_same(job: Job, other: Job) -> bool:
    """Whether a booked start is still right for a job as it is now."""
    return (job.queue, job.gang, job.pools, job.max_runtime) == (other.queue, other.gang, other.pools, other.max_runtime)
