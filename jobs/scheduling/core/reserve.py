"""Who gets a booked start in a pass, and what becomes of those that were booked: phase 6.

The ideal: at every moment the first `Policy.booked` of those who were refused in a pool, in fair order, have a start. What is
done: a start stays with the gang that has it until it comes or cannot be kept. A place that is vacant goes to the first in fair
order of those who were refused before this pass, as soon as somebody behind it has the turn, or to whoever is refused in its
turn before. So nobody starts in front of one that could have had the place.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from jobs.scheduling.core.advance import AdvanceReservations
from jobs.scheduling.core.occupancy import Occupancy
from jobs.scheduling.core.place.gangs import Placed, at_least
from jobs.scheduling.core.place.placing import place
from jobs.scheduling.core.reservations import TRIES_MAX, BackfillReservations
from jobs.scheduling.core.state.decisions import Admit, Book, Decision
from jobs.scheduling.core.state.live import Live
from jobs.scheduling.core.state.ordering import REFUSED, Group, Key
from jobs.scheduling.core.state.reservation import FOREVER, BackfillReservation
from jobs.scheduling.core.state.user_caps import least
from jobs.scheduling.core.state.work import Job, Running
from tenants.quota.shares import Standing

Levels = tuple[tuple[int, int, int], ...]
Rank = tuple[int, Levels, Key]


Candidates = dict[int, list[tuple[int, Key, Group, Job]]]
"""Who was refused in a pool, or has waited for long, and has no start: a heap for each queue, by patience and place in it."""


class Reserver:
    """The booked starts of one pass."""

    def __init__(
        self,
        live: Live,
        windows: AdvanceReservations,
        reservations: BackfillReservations,
        occupancy: Occupancy,
        now: int,
        decisions: list[Decision],
    ) -> None:
        self.live = live
        self.windows = windows
        self.reservations = reservations
        self.occupancy = occupancy
        self.now = now
        self.decisions = decisions
        self._tries: dict[int, int] = {}
        self._next: dict[int, Candidates] = {}  # By pool with vacant places, who is to be asked.
        self._levels: dict[int, Levels] = {}
        self._levels_at = -1
        self._later = FOREVER  # When the first of those may have a start for whom none is looked for yet.
        self._counts: dict[int, int] = {}  # By pool, how many starts were booked when that was last looked at.

    def begin(self) -> None:
        """Start who is due, forget who does not wait any more, and see who else could have a start."""
        if not self.live.policy.backfill_depth:
            return
        self._counts = {pool: self.reservations.count(pool) for pool in self.live.machines.pools}
        for one in list(self.reservations.by_job.values()):
            job = self.live.ordering.job(one.job.id)
            if job is None:
                self.reservations.drop(one.job.id, "changed" if self._is_elsewhere(one.job.id) else "")
            elif not _is_same(job, one.job):
                self.reservations.drop(one.job.id, "changed")
        for one in self.reservations.due(self.now):
            self._start(one)
        self._look_again()
        self._look_for_vacancies()

    def _is_elsewhere(self, job_id: str) -> bool:
        """Whether a job that is not in order waits all the same."""
        return job_id in self.live.waiting or job_id in self.live.transfers

    def _look_for_vacancies(self, pools: Iterable[int] | None = None) -> None:
        """See who is to be asked where a place is vacant: once a pass, and again once a start that was booked has come."""
        for pool in sorted(self.live.machines.pools) if pools is None else pools:
            count = self.reservations.count(pool)
            if count < self._counts.get(pool, 0):
                self._next.pop(pool, None)
            self._counts[pool] = count
            if pool not in self._next and self._vacant(pool) and self.reservations.look_from.get(pool, self.now) <= self.now:
                self._next[pool] = self._refused_in(pool)

    def look_anew(self, pools: Iterable[int]) -> None:
        """Some are told to leave these pools: there may be a start now for those for whom none was looked for."""
        for pool in pools:
            self._next.pop(pool, None)

    def before(self, group: Group, job: Job) -> None:
        """Before somebody has its turn, those before it who were refused earlier may have a start."""
        self._look_for_vacancies(group.shape.pools)
        for pool in group.shape.pools:
            while (waiting := self._next.get(pool)) is not None and self._vacant(pool):
                found = self._first(waiting)
                if found is None or found[0] > (1, self.levels(group.queue), self.live.ordering.key(job)):
                    break
                heapq.heappop(waiting[found[1].queue])
                self._book(*found[1:])

    def refused(self, group: Group, job: Job) -> None:
        """Somebody was refused in its turn."""
        if any(map(self._vacant, group.shape.pools)) and self.may_have(job):
            self._book(group, job)
            if self.live.policy.backfill_depth > 1:
                self._others_of(group)
        for pool in group.shape.pools:
            if pool in self.reservations.look_from:
                self.reservations.look_from[pool] = min(self.reservations.look_from[pool], self.reservations.plans_from(job))

    def book_rest(self) -> None:
        """Places that are still vacant go to who was refused earlier."""
        self._look_for_vacancies()  # Also those of starts that came in this pass.
        for pool, waiting in self._next.items():
            while self._vacant(pool) and (found := self._first(waiting)) is not None:
                heapq.heappop(waiting[found[1].queue])
                self._book(*found[1:])
        self._next.clear()

    def tell(self) -> None:
        """What could not be kept; a start that was booked anew stands for it."""
        causes = {one.id: one for one in self.reservations.broken}
        self.reservations.broken.clear()
        started = {one.id for one in self.decisions if isinstance(one, Admit)}
        self.decisions[:] = [one for one in self.decisions if not (isinstance(one, Book) and one.id in started)]
        for place_of, told in enumerate(self.decisions):
            if isinstance(told, Book) and told.id in causes:
                self.decisions[place_of] = told._replace(cause=causes.pop(told.id).cause)
        self.decisions += [one for name, one in sorted(causes.items()) if name not in started and name not in self.live.running]

    # --- One start ----------------------------------------------------------------------------------------------------

    def _start(self, one: BackfillReservation) -> None:
        """The moment has come: start it, wherever it fits best by now."""
        live, job, shape = self.live, one.job, one.shape
        if live.is_last_of_array(job) or live.holdings.refusal(job, least(shape.gang)) is not None:
            self.reservations.drop(job.id, "changed")
            return
        lifted = self.reservations.lift(job, one.pool)
        standing = live.room(job.queue, one.need)
        may_start = isinstance(standing, Standing) and not (self.windows and self.windows.refusal(job, one.need, self.now))
        placed = place(at_least(shape.gang), live.machines, (one.pool,)) if may_start else None
        fits = isinstance(placed, Placed)
        if lifted is not None:
            self.reservations.let_fall(lifted, stands=fits)
        group = live.ordering.group(job.id)
        if isinstance(placed, Placed) and isinstance(standing, Standing):
            live.ordering.remove(job.id)
            with self.reservations.coming(job.id):
                self.occupancy.admit(Running(job, placed, one.need, self.now, standing))
            self.decisions.append(Admit(job.id, placed, standing))
            return
        self.reservations.drop(job.id, "overrun")
        if group is not None and self.may_have(job):
            self._book(group, job)

    def _look_again(self) -> None:
        """Whether a start could be earlier, now and then."""
        for one in sorted(self.reservations.by_job.values(), key=lambda one: (one.at, one.job.id))[:TRIES_MAX]:
            if not one.may_be_earlier or self.now < one.planned_at + self.live.policy.rebook_seconds:
                continue
            one.planned_at, one.may_be_earlier = self.now, False
            found = self.reservations.plan(one.job, one.shape)
            if found is not None and found.at < one.at:
                self.reservations.drop(one.job.id)
                self._add(found)

    def _book(self, group: Group, job: Job) -> None:
        pools = [pool for pool in group.shape.pools if self._vacant(pool)]
        if not pools:
            return
        for pool in pools:
            self._tries[pool] = self._tries.get(pool, 0) + 1
        found = self.reservations.plan(job, group.shape)
        if found is not None and found.pool in pools:
            self._add(found)

    def _add(self, found: BackfillReservation) -> None:
        found.planned_at = self.now
        self.reservations.add(found)
        self._counts[found.pool] = self.reservations.count(found.pool)
        self.decisions.append(found.told)

    def _vacant(self, pool: int) -> bool:
        """Whether a start in the pool could be booked."""
        booked = self.live.policy.backfill_depth
        if not booked or not self.reservations.may_plan(pool) or self._tries.get(pool, 0) >= TRIES_MAX + booked:
            return False
        return self.reservations.count(pool) < booked

    # --- Who is next --------------------------------------------------------------------------------------------------

    def _refused_in(self, pool: int) -> Candidates:
        lines, found, self._later = self.live.ordering, Candidates(), FOREVER
        places = self.live.policy.backfill_depth - self.reservations.count(pool)
        for shape, groups in lines.by_shape.items():
            if pool not in shape.pools or self.reservations.is_made_room_for(shape.gang, shape.pools):
                continue  # Nobody looks for a start for these now.
            for group in filter(len, groups):
                for job in group.firsts(places + len(self.reservations.by_job)) if places > 1 else group.firsts(1):
                    if group.was_refused or not self.is_patient(job):
                        self._add_to(found, group, job)
        if self._first(found) is None:
            self.reservations.look_from[pool] = self._later
        return found

    def _add_to(self, candidates: Candidates, group: Group, job: Job) -> None:
        entry = (self.is_patient(job), self.live.ordering.key(job), group, job)
        heapq.heappush(candidates.setdefault(group.queue, []), entry)

    def _first(self, candidates: Candidates) -> tuple[Rank, Group, Job] | None:
        """Whose start is to be looked for next, in fair order as it is now; who may have none is left out for good."""
        best: tuple[Rank, Group, Job] | None = None
        for queue, waiting in list(candidates.items()):
            while waiting and not self._may_be_next(waiting[0][2], waiting[0][3]):
                heapq.heappop(waiting)
            if not waiting:
                del candidates[queue]
                continue
            is_patient, key, group, job = waiting[0]
            stop = self.live.ordering.stopped_by(queue)
            if (is_patient and group.phase != REFUSED) or (stop is not None and key > stop):  # Its turn is to come.
                continue
            rank = (is_patient, self.levels(queue), key)
            if best is None or rank < best[0]:
                best = rank, group, job
        return best

    def _may_be_next(self, group: Group, job: Job) -> bool:
        is_asked = group.was_refused or not self.is_patient(job)
        return is_asked and job.id in self.live.ordering and self.may_have(job)

    def _others_of(self, group: Group) -> None:
        """Those behind the first of a group will not have a turn of their own."""
        for pool in filter(self._vacant, group.shape.pools):
            waiting = self._next.setdefault(pool, Candidates())
            places = self.live.policy.backfill_depth - self.reservations.count(pool)
            for job in group.firsts(places + len(self.reservations.by_job)):
                self._add_to(waiting, group, job)

    def may_have(self, job: Job) -> bool:
        """Whether a start may be found for a job: not for one that has one, for which none was found, or that is at a cap on its
        user, which nothing that ends in a pool changes."""
        if job.id in self.reservations.by_job or not self.reservations.is_plannable(job) or self.live.is_last_of_array(job):
            return False
        plans_from = self.reservations.plans_from(job)
        if plans_from > self.now:
            self._later = min(self._later, plans_from)
            return False
        return not self.live.holdings or self.live.holdings.refusal(job, least(job.gang)) is None

    def is_patient(self, job: Job) -> int:
        """0 for who has waited so long that the next start is theirs; where queues are served in order nobody passes them."""
        patience = 0 if self.live.policy.in_order else self.live.policy.patience_seconds
        return int(not 0 < patience <= self.now - job.submitted_at)

    def levels(self, queue: int) -> Levels:
        """The place of a queue in the fair order, as `Turns` has it."""
        shares = self.live.shares
        if self._levels_at != shares.version:
            self._levels_at = shares.version
            self._levels.clear()
            shares.refresh()
        found = self._levels.get(queue)
        if found is None:
            path = reversed(shares.path[queue])
            levels = [(0 if shares.is_owed(node) else 1, shares.share_then(node), node) for node in path if node]
            found = self._levels[queue] = (*levels, (1, shares.own_share(queue), queue))
        return found

    def rank(self, queue: int, job: Job) -> Rank:
        """The place of a job in the fair order; those who have waited for long come first."""
        return self.is_patient(job), self.levels(queue), self.live.ordering.key(job)


def _is_same(job: Job, other: Job) -> bool:
    """Whether a booked start is still right for a job as it is now."""
    return (job.queue, job.gang, job.pools, job.max_runtime) == (other.queue, other.gang, other.pools, other.max_runtime)
