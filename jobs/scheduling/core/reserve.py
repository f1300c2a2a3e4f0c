"""Which jobs get a reserved start in a pass, and what becomes of the starts reserved before: step 7 of `cycle.py`.

The ideal: at every moment the first `Policy.backfill_depth` jobs that were refused in a pool, in fair order, have a start.
What is done: a start that is sure stays with the gang that has it until it comes or cannot be kept; one that is planned, until
the first pass of the next period (`Policy.replan_seconds`). A place that is vacant goes to the first job in fair order of those
refused before this pass, as soon as a job behind it has the turn, or to a job that is refused in its turn before. So no job
starts in front of a job that could have had the place.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable

from jobs.scheduling.core.advance import AdvanceReservations
from jobs.scheduling.core.occupancy import Occupancy
from jobs.scheduling.core.place.gangs import Placed, at_least
from jobs.scheduling.core.place.placing import place
from jobs.scheduling.core.reservations import TRIES_MAX, BackfillReservations
from jobs.scheduling.core.state.decisions import Admit, Decision, Reserve
from jobs.scheduling.core.state.live import Live
from jobs.scheduling.core.state.ordering import REFUSED, Group, Key
from jobs.scheduling.core.state.reservation import BackfillReservation
from jobs.scheduling.core.state.user_caps import least
from jobs.scheduling.core.state.work import JobAsk, Running
from tenants.capacity.quota.shares import Standing

Levels = tuple[tuple[int, int, int], ...]
Rank = tuple[int, Levels, Key]


Candidates = dict[int, list[tuple[int, Key, Group, JobAsk]]]
"""The jobs that were refused in a pool, or have waited for long, and have no start: a heap for each queue, by the starvation
guard and place in it."""


class Reserver:
    """The reserved starts of one pass."""

    def __init__(
        self,
        live: Live,
        advance: AdvanceReservations,
        reservations: BackfillReservations,
        occupancy: Occupancy,
        wake_queue: Callable[[int], None],
        now: int,
        decisions: list[Decision],
    ) -> None:
        self.live = live
        self.advance = advance
        self.reservations = reservations
        self.occupancy = occupancy
        self._wake_queue = wake_queue  # Wakes the groups of a queue that are to have a turn by themselves.
        self.now = now
        self.decisions = decisions
        self._tries: dict[int, int] = {}
        self._next: dict[int, Candidates] = {}  # By pool with vacant places, the jobs to ask.
        self._listed: dict[int, int] = {}  # By pool, how many starts had been removed when they were listed.
        self._levels: dict[int, Levels] = {}
        self._levels_at = -1

    def begin(self) -> None:
        """Start the jobs that are due, drop the starts of jobs that wait no longer and, once in a period, all planned ones, and
        list the candidates for new starts."""
        if not self.live.policy.backfill_depth:
            return
        for reservation in list(self.reservations.by_job.values()):
            job = self.live.ordering.job(reservation.job.id)
            if job is None:
                self.reservations.drop(reservation.job.id, "changed" if self._is_elsewhere(reservation.job.id) else "")
            elif not _is_same(job, reservation.job):
                self.reservations.drop(reservation.job.id, "changed")
            else:
                reservation.job = job  # Its priority may be another.
                if self._is_capped(reservation):
                    self.reservations.drop(job.id, "limits")
        for reservation in self.reservations.due(self.now):
            self._start(reservation)
        if self.reservations.begin_period():
            self._look_for_earlier()
        self._look_for_vacancies()

    def _is_capped(self, reservation: BackfillReservation) -> bool:
        """Whether a job may not start, however much room is kept for it: a cap or its array has become full since."""
        return (
            self.live.is_last_of_array(reservation.job)
            or self.live.holdings.refusal(reservation.job, least(reservation.shape.gang)) is not None
        )

    def _is_elsewhere(self, job_id: str) -> bool:
        """Whether a job that is not in order waits all the same."""
        return job_id in self.live.waiting or job_id in self.live.transfers

    def _look_for_vacancies(self, pools: Iterable[int] | None = None) -> None:
        """List the candidates where a place is vacant: once a pass, and again once a reserved start has come."""
        for pool in sorted(self.live.machines.pools) if pools is None else pools:
            removed = self.reservations.removed.get(pool, 0)
            if self._listed.get(pool) != removed and self._vacant(pool):
                self._listed[pool] = removed
                self._next[pool] = self._refused_in(pool)

    def plan_anew(self, pools: Iterable[int]) -> None:
        """Gangs of these pools were evicted: there may be a start now for jobs for which none was found."""
        for pool in pools:
            self._listed.pop(pool, None)
        self.reservations.without_start.clear()

    def before(self, group: Group, job: JobAsk) -> None:
        """Before a job has its turn, jobs before it that were refused earlier may have a start."""
        self._look_for_vacancies(group.shape.pools)
        for pool in group.shape.pools:
            while (waiting := self._next.get(pool)) is not None and self._vacant(pool):
                first = self._first(waiting)
                if first is None or first[0] > (1, self.levels(group.queue), self.live.ordering.key(job)):
                    break
                heapq.heappop(waiting[first[1].queue])
                self._reserve(*first[1:])

    def refused(self, group: Group, job: JobAsk) -> None:
        """A job was refused in its turn."""
        if any(map(self._vacant, group.shape.pools)) and self.may_have(job):
            self._reserve(group, job)
            if self.live.policy.backfill_depth > 1:
                self._others_of(group)

    def reserve_rest(self) -> None:
        """Places that are still vacant go to jobs that were refused earlier."""
        self._look_for_vacancies()  # Also those of starts that came in this pass.
        for pool, waiting in self._next.items():
            while self._vacant(pool) and (first := self._first(waiting)) is not None:
                heapq.heappop(waiting[first[1].queue])
                self._reserve(*first[1:])
        self._next.clear()

    def report_broken(self) -> None:
        """Report the starts that could not be kept; a new start of the same job stands for its old one."""
        broken = {reserve.id: reserve for reserve in self.reservations.broken}
        self.reservations.broken.clear()
        started = {decision.id for decision in self.decisions if isinstance(decision, Admit)}
        self.decisions[:] = [
            decision for decision in self.decisions if not (isinstance(decision, Reserve) and decision.id in started)
        ]
        for place_of, decision in enumerate(self.decisions):
            if isinstance(decision, Reserve) and decision.id in broken:
                loss = broken.pop(decision.id)
                self.decisions[place_of] = decision._replace(cause=loss.cause, by=loss.by)
        self.decisions += [
            reserve for name, reserve in sorted(broken.items()) if name not in started and name not in self.live.running
        ]

    # --- One start ----------------------------------------------------------------------------------------------------

    def _start(self, reservation: BackfillReservation) -> None:
        """The moment has come: start it, wherever it fits best by now."""
        live, job, shape = self.live, reservation.job, reservation.shape
        if self._is_capped(reservation):
            self.reservations.drop(job.id, "changed")
            return
        with self.reservations.seen_by(job, reservation.pool) as sight:
            standing = live.room(job.queue, reservation.need)
            may_start = isinstance(standing, Standing) and not (
                self.advance and self.advance.refusal(job, reservation.need, self.now)
            )
            placed = place(at_least(shape.gang), live.machines, (reservation.pool,)) if may_start else None
            sight.stands = isinstance(placed, Placed)
        group = live.ordering.group(job.id)
        if isinstance(placed, Placed) and isinstance(standing, Standing):
            live.ordering.remove(job.id)
            with self.reservations.starting(job.id):
                self.occupancy.admit(Running(job, placed, reservation.need, self.now, standing))
            self.decisions.append(Admit(job.id, placed, standing))
            return
        self.reservations.drop(job.id, "overrun")
        if group is not None and self.may_have(job):
            self._reserve(group, job)

    def _look_for_earlier(self) -> None:
        """Whether a start that is sure could be earlier."""
        for reservation in self.reservations.first():
            earlier = self.reservations.plan(reservation.job, reservation.shape, before=reservation.at)
            if earlier is not None:
                self.reservations.drop(reservation.job.id)
                self._add(earlier)

    def _reserve(self, group: Group, job: JobAsk) -> None:
        pools = [pool for pool in group.shape.pools if self._vacant(pool)]
        if not pools:
            return
        for pool in pools:
            self._tries[pool] = self._tries.get(pool, 0) + 1
        reservation = self.reservations.plan(job, group.shape)
        if reservation is None:
            self.reservations.without_start.add(job.id)
        elif reservation.pool in pools:
            self._add(reservation)

    def _add(self, reservation: BackfillReservation) -> None:
        self.reservations.add(reservation)
        if reservation.is_sure:
            self.decisions.append(reservation.told)

    def _vacant(self, pool: int) -> bool:
        """Whether a start in the pool could be reserved."""
        tries = TRIES_MAX + self.live.policy.backfill_depth
        return self._tries.get(pool, 0) < tries and self.reservations.is_vacant(pool)

    # --- Candidates ---------------------------------------------------------------------------------------------------

    def _refused_in(self, pool: int) -> Candidates:
        lines, candidates = self.live.ordering, Candidates()
        places = self.live.policy.backfill_depth - self.reservations.count(pool)
        for shape, groups in lines.by_shape.items():
            for group in filter(len, groups) if pool in shape.pools else ():
                for job in group.firsts(places + len(self.reservations.by_job)) if places > 1 else group.firsts(1):
                    if group.was_refused or not self.guard_rank(job):
                        self._add_to(candidates, group, job)
        return candidates

    def _add_to(self, candidates: Candidates, group: Group, job: JobAsk) -> None:
        entry = (self.guard_rank(job), self.live.ordering.key(job), group, job)
        heapq.heappush(candidates.setdefault(group.queue, []), entry)

    def _first(self, candidates: Candidates) -> tuple[Rank, Group, JobAsk] | None:
        """The job whose start is to be looked for next, in fair order as it is now; jobs that may have none are removed."""
        best: tuple[Rank, Group, JobAsk] | None = None
        for queue, waiting in list(candidates.items()):
            self._wake_queue(queue)
            while waiting and not self._may_be_next(waiting[0][2], waiting[0][3]):
                heapq.heappop(waiting)
            if not waiting:
                del candidates[queue]
                continue
            guard_rank, key, group, job = waiting[0]
            stop = self.live.ordering.stopped_by(queue)
            if (guard_rank and group.phase != REFUSED) or (stop is not None and key > stop):  # Its turn is to come.
                continue
            rank = (guard_rank, self.levels(queue), key)
            if best is None or rank < best[0]:
                best = rank, group, job
        return best

    def _may_be_next(self, group: Group, job: JobAsk) -> bool:
        is_asked = group.was_refused or not self.guard_rank(job)
        return is_asked and job.id in self.live.ordering and self.may_have(job)

    def _others_of(self, group: Group) -> None:
        """Those behind the first of a group will not have a turn of their own."""
        for pool in filter(self._vacant, group.shape.pools):
            waiting = self._next.setdefault(pool, Candidates())
            places = self.live.policy.backfill_depth - self.reservations.count(pool)
            for job in group.firsts(places + len(self.reservations.by_job)):
                self._add_to(waiting, group, job)

    def may_have(self, job: JobAsk) -> bool:
        """Whether a start may be found for a job: not where it has a start, where none was found in this period, or where its
        user is at a cap, which nothing that ends in a pool changes."""
        if job.id in self.reservations.by_job or job.id in self.reservations.without_start or self.live.is_last_of_array(job):
            return False
        if self.reservations.plans_from(job) > self.now:
            return False
        return not self.live.holdings or self.live.holdings.refusal(job, least(job.gang)) is None

    def guard_rank(self, job: JobAsk) -> int:
        """0 for a job that has waited longer than the starvation guard, 1 for others; always 1 where no job passes an earlier
        job."""
        guard = 0 if self.live.policy.in_order else self.live.policy.starvation_guard_seconds
        return int(not 0 < guard <= self.now - job.submitted_at)

    def levels(self, queue: int) -> Levels:
        """The place of a queue in the fair order, as `Turns` has it."""
        shares = self.live.shares
        if self._levels_at != shares.version:
            self._levels_at = shares.version
            self._levels.clear()
            shares.refresh()
        order = self._levels.get(queue)
        if order is None:
            path = reversed(shares.path[queue])
            levels = [(0 if shares.is_owed(node) else 1, shares.share_then(node), node) for node in path if node]
            order = self._levels[queue] = (*levels, (1, shares.own_share(queue), queue))
        return order

    def rank(self, queue: int, job: JobAsk) -> Rank:
        """The place of a job in the fair order; jobs that have waited for long come first."""
        return self.guard_rank(job), self.levels(queue), self.live.ordering.key(job)


def _is_same(job: JobAsk, other: JobAsk) -> bool:
    """Whether a reserved start is still right for a job as it is now."""
    return (job.queue, job.gang, job.pools, job.max_runtime) == (other.queue, other.gang, other.pools, other.max_runtime)
