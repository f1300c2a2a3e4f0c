"""One pass: what starts, who waits and why, and whose work makes room.

The ideal: all waiting jobs are taken one by one, the next always by the fair order of their queues as it is after the last
decision; each is asked the questions 1 to 7 below, of all limits and all machines, and one that cannot start does not stop those
behind it. What is done instead, and why the result is the same:

- Only what changed is asked again (`wakeups.py`): a group of equal jobs that was refused stays refused until something is freed
  in one of its pools and cheap bounds do not prove that it would be refused again. Room that shrinks changes no refusal.
- Of equal jobs in a queue only the first is asked (`state/ordering.py`), because what refuses it refuses those behind it.
- Whether a gang has too little room is answered from memory where that follows by counting (`place/refusals.py`).

1. **Its own conditions.** What cannot start by itself is not in the order: withheld by its driver (a hold, a dependency, an
   image, a budget, a time cap), before its time, or as many of its array run as may. `Core.submit` sets it aside with
   that reason.
2. **Whose turn.** The queue by fair order: who is owed, then the smallest weighted dominant share, with history. In the queue by
   priority with aging, own order, time of submission with shorter ones first within a day, id.
3. **Limits.** The caps on its user, then `Shares.room`: guaranteed, deserved or borrowed, or the first limit that refuses; then
   what tenants have booked for a time (`advance.py`).
4. **Place.** The whole gang at its largest size that limits and room allow, at least at its smallest, or nothing.
5. **Take back.** Who is owed room that others borrow gets it by the fewest lost GPU-seconds (`reclaim.py`); so does higher
   priority from lower in its own queue. What is freed is claimed, and goes to nobody else.
6. **Reserve.** The first that is refused in fair order in a pool gets the earliest start that the planned ends of what runs allow
   (`reservations.py`, `reserve.py`, `planning.py`); nobody who starts before it may delay it. Who has waited for longer than
   `Policy.patience_seconds` comes first. Nothing is held for who would not start when others end, or is at a cap on its user.
7. **Explain.** Who waits keeps the reason of the pool where it came furthest, with amounts.
8. **Even out and move.** Once a minute, for those who were refused (`rebalance.py`): from who borrows a larger part to who has a
   smaller one, and small gangs elsewhere where a larger one fits in total but not in shape.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from jobs.scheduling.core.advance import AdvanceReservations
from jobs.scheduling.core.claims import Claims
from jobs.scheduling.core.migrate import Migrations
from jobs.scheduling.core.occupancy import Occupancy
from jobs.scheduling.core.place.gangs import GangAsk, Placed, Unplaced, at_least
from jobs.scheduling.core.place.placing import place, undo
from jobs.scheduling.core.placements import Known, Placements
from jobs.scheduling.core.rebalance import is_time, lacking_room
from jobs.scheduling.core.reclaim import Search
from jobs.scheduling.core.reservations import BackfillReservations
from jobs.scheduling.core.reserve import Reserver
from jobs.scheduling.core.seats import Seats
from jobs.scheduling.core.state.decisions import Admit, Claim, Decision, Evict, Reason, Wait
from jobs.scheduling.core.state.live import Live
from jobs.scheduling.core.state.ordering import REFUSED, Group
from jobs.scheduling.core.state.timers import Timer, What
from jobs.scheduling.core.state.user_caps import least, most, place_of, reason_of
from jobs.scheduling.core.state.work import Job, Need, Running, Shape
from jobs.scheduling.core.wakeups import WakeUps
from tenants.quota.shares import Refusal, Standing


@dataclass(frozen=True)
class Parts:
    """What the phases of a pass work on and with."""

    live: Live
    placements: Placements
    windows: AdvanceReservations
    reservations: BackfillReservations
    seats: Seats
    claims: Claims
    occupancy: Occupancy
    wakeups: WakeUps


def run_pass(parts: Parts, now: int) -> list[Decision]:
    """All phases, until nobody is left whose turn it could be."""
    live, last_pass_at = parts.live, parts.live.now
    live.now = now
    made = Pass(parts)
    made.ring()
    made.honour_claims()
    if parts.windows:
        made.decisions += parts.windows.clear(now)
    made.reserver.begin()
    made.take_turns()
    if is_time(live, last_pass_at) and made.rebalance():
        made.take_turns()
    made.reserver.tell()
    return made.decisions


class Pass:
    """What one pass needs in hand."""

    def __init__(self, parts: Parts) -> None:
        self.live = live = parts.live
        self.placements = parts.placements
        self.windows = parts.windows
        self.reservations = parts.reservations
        self.seats = parts.seats
        self.claims = parts.claims
        self.occupancy = parts.occupancy
        self.wakeups = parts.wakeups
        self.now = now = live.now
        self.decisions: list[Decision] = []
        self.evictions = 0
        self.reserver = Reserver(live, parts.windows, parts.reservations, parts.occupancy, now, self.decisions)

    def ring(self) -> None:
        """What only time had to bring."""
        live, now = self.live, self.now
        if live.ordering and (live.history_at is None or now - live.history_at >= live.policy.history_seconds):
            live.shares.advance(now)
            live.history_at = now
        self.reservations.plan_overdue()
        self.wakeups.begin()
        for one in live.evictable.ripen(now):
            live.changes.mark(pool for pool, _ in one.need)
        for timer in live.timers.due(now):
            if timer.what is What.NOT_BEFORE:
                job = live.waiting.begin(timer.job_id)
                if job is not None:
                    self.seats.submit(job)
            else:
                live.changes.mark((timer.pool,))

    def take_turns(self) -> None:
        """Whoever may have a turn, until nobody is left."""
        lines, wakeups = self.live.ordering, self.wakeups
        while True:
            wakeups.tell()
            turn = lines.next(wakeups.may_go_on)
            if turn is None:
                self.reserver.book_rest()
                if not wakeups.is_marked:
                    break
                continue
            group, job = turn
            lines.ask(group)
            if self.reservations.known_ends:
                self.reserver.before(group, job)
            self.about(group, job)

    def honour_claims(self) -> None:
        """Whose room is clear by now starts first of all."""
        live = self.live
        for job_id in sorted(live.cleared):
            made = live.transfers.pop(job_id, None)
            if made is not None:
                one = made.claimant
                one.claim, one.started_at = None, self.now
                self.occupancy.enter(one)
                self._look_again(one)
                self.decisions.append(Admit(job_id, one.placed, one.standing))
        live.cleared.clear()
        for seat in self.seats.taken_again() if self.seats else ():
            one = Running(seat.job, seat.placed, seat.need, self.now, live.standing(seat.job.queue, seat.need))
            self.occupancy.admit(one)
            self.decisions.append(Admit(one.job.id, one.placed, one.standing))

    def about(self, group: Group, job: Job) -> None:
        """Questions 1 to 7 of the job whose turn it is."""
        live, wakeups, shape = self.live, self.wakeups, group.shape
        if live.is_last_of_array(job):
            live.ordering.remove(job.id)
            live.waiting.wait_for_siblings(job)
            self._tell(group, job, Reason("array_parallelism", limit=job.parallel))
            return
        capped = live.holdings.refusal(job, least(shape.gang)) if live.holdings else None
        if capped is not None and job.user is not None:
            found = reason_of(capped, job.queue)
            wakeups.refuse(group, found, at=place_of(capped, job.user))
            self._tell(group, job, found)
            return
        reason: Reason | None = None
        entitled: list[int] = []
        for pool in shape.pools:
            room = live.room(job.queue, shape.least[pool])
            if isinstance(room, Refusal):
                found = self._over(room)
                entitled.append(pool)
            elif self.windows and (reserved := self.windows.refusal(job, shape.least[pool], self.now)) is not None:
                found = reserved
                entitled.append(pool)
            else:
                answer = self._place(job, shape, pool)
                denied = self._delayed(job, shape, answer) if isinstance(answer, Placed) else self._unplaced(shape, answer)
                if denied is None and isinstance(answer, Placed):
                    self._admit(group, job, answer, room)
                    return
                if denied is None or (self.reservations and self._take_booked(group, job, pool, room)):
                    return
                found = denied
                if found.code in ("no_room", "not_together", "booked"):
                    entitled.append(pool)
            if reason is None or _STAGES[found.code] > _STAGES[reason.code]:
                reason = found
        for pool in entitled:
            search = self._search(job, shape, pool)
            if not search.may_claim and not search.may_preempt:
                continue
            denied = self.take_back(search, job, shape, pool)
            if denied is None:
                return
            if denied is not _NOBODY:
                reason = denied
        reason = reason or Reason("no_pool")
        if self.reservations.known_ends:
            self.reserver.refused(group, job)
        wakeups.refuse(group, reason)
        self._tell(group, job, reason)

    # 3. Limits.

    def _within_limits(self, job: Job, shape: Shape, pool: int) -> GangAsk:
        """The gang with as many tasks at most as limits allow: roles grow in the order in which they are listed."""
        if self._has_room(job, shape.gang, shape.most[pool]):
            return shape.gang
        roles = [replace(role, maximum=role.minimum) for role in shape.gang.roles]
        for position, wanted in enumerate(shape.gang.roles):
            low, high = wanted.minimum, wanted.maximum
            while low < high:
                middle = (low + high + 1) // 2
                roles[position] = replace(wanted, maximum=middle)
                tried = Shape(-1, replace(shape.gang, roles=tuple(roles)), (pool,))
                if self._has_room(job, tried.gang, tried.most[pool]):
                    low = middle
                else:
                    high = middle - 1
            roles[position] = replace(wanted, maximum=low)
        return replace(shape.gang, roles=tuple(roles))

    def _has_room(self, job: Job, gang: GangAsk, need: Need) -> bool:
        """Whether limits and caps allow the gang at its largest."""
        live = self.live
        if self.windows and self.windows.refusal(job, need, self.now) is not None:
            return False
        return not isinstance(live.room(job.queue, need), Refusal) and live.holdings.refusal(job, most(gang)) is None

    # 4. Place.

    def _place(self, job: Job, shape: Shape, pool: int) -> Placed | Unplaced:
        answer: Placed | Unplaced | None = self.placements.unplaced(pool, shape.number)
        if answer is None:
            gang = self._within_limits(job, shape, pool) if shape.is_elastic else shape.gang
            answer = place(gang, self.live.machines, (pool,))
            if isinstance(answer, Unplaced) and Known.may_keep(shape, answer):
                self.placements.remember(pool, shape, answer)
                self.wakeups.forget(pool, shape)
        if isinstance(answer, Unplaced) and self.reservations:
            return self._place_before(job, shape, pool) or answer
        return answer

    def _place_before(self, job: Job, shape: Shape, pool: int) -> Placed | None:
        """Where the gang has its place in room that is hidden for later starts, which it will not be in the way of."""
        reservations = self.reservations
        if reservations.is_vain(job, shape, pool):
            return None
        lifted = reservations.lift(job, pool)
        if lifted is None:
            return None
        gang = self._within_limits(job, shape, pool) if shape.is_elastic else shape.gang
        answer = place(gang, self.live.machines, (pool,))
        reservations.let_fall(lifted, stands=isinstance(answer, Placed))
        if isinstance(answer, Placed):
            return answer
        reservations.was_vain(job, shape, pool)
        return None

    def _take_booked(self, group: Group, job: Job, pool: int, room: Standing) -> bool:
        """Start on what is kept for booked starts of who would have to leave for this one if they ran."""
        reservations, shape = self.reservations, group.shape
        weaker = reservations.weaker(job, pool, room)
        if not weaker:
            return False
        reservations.suspend(weaker)
        answer = self._place(job, shape, pool)
        starts = isinstance(answer, Placed) and self._delayed(job, shape, answer, weaker) is None
        if starts and isinstance(answer, Placed):
            self._admit(group, job, answer, room)
        reservations.resume()
        if starts:
            reservations.recheck_limits("yielded")
        return starts

    def _delayed(self, job: Job, shape: Shape, placed: Placed, weaker: Collection[str] = ()) -> Reason | None:
        """Undo a placement that would take the limits that a booked start needs, and say which start."""
        if not self.reservations:
            return None
        need = self.live.need_of(placed) if shape.is_elastic else shape.least[placed.pool]
        delayed = self.reservations.denies(job, need, len(placed.tasks), weaker)
        if delayed is None:
            return None
        undo(placed, self.live.machines)
        self.reservations.settle_with(task.machine for task in placed.tasks)
        return Reason("booked", placed.pool, job.queue, until=delayed.at)

    def _admit(self, group: Group, job: Job, placed: Placed, standing: Standing) -> None:
        live, shape = self.live, group.shape
        live.ordering.remove(job.id)
        need = live.need_of(placed) if shape.is_elastic else shape.least[placed.pool]
        if shape.is_elastic:
            room = live.room(job.queue, need)
            standing = room if isinstance(room, Standing) else Standing.BORROWED
        one = Running(job, placed, need, self.now, standing)
        if self.reservations:
            with self.reservations.coming(job.id):
                self.occupancy.admit(one)
        else:
            self.occupancy.admit(one)
        self._look_again(one)
        self.decisions.append(Admit(job.id, placed, standing))

    def _look_again(self, one: Running) -> None:
        """Who was refused before this one started may take back what its queue borrows by now from those who ran before."""
        live = self.live
        for pool, _ in one.need:
            if one.standing is Standing.BORROWED and live.policy.reclaims and self.wakeups.has_claimers(pool):
                live.changes.mark((pool,))

    # 5. Take back.

    def take_back(self, search: Search, job: Job, shape: Shape, pool: int) -> Reason | None:
        """Clear room for a gang that is owed it; None when that was decided, else why not."""
        reservations = self.reservations
        weaker = reservations.weaker(job, pool, Standing.DESERVED if search.may_claim else None) if reservations else []
        if job.id in reservations.by_job:
            weaker.append(job.id)
        if weaker:
            reservations.suspend(weaker)
        try:
            return self._take_from(search, job, shape, pool)
        finally:
            if weaker:
                reservations.resume()

    def _take_from(self, search: Search, job: Job, shape: Shape, pool: int) -> Reason | None:
        victims = search.run()
        if victims is None:
            if not search.young_until or search.by_machine:
                return _NOBODY
            return Reason("too_young", pool=pool, queue=job.queue, until=search.young_until)
        if not victims:  # What booked starts of others kept is enough; it is taken by right.
            return self._start_by_right(job, shape, pool)
        room = self.brake(len(victims))
        if room is not None:
            self.live.timers.set(Timer(max(room.until, self.now + 1), What.LOOK, pool))
            return room
        self.clear(job, shape, pool, victims, search.cost, rebalances=search.rebalances)
        return None

    def clear(
        self,
        job: Job,
        shape: Shape,
        pool: int,
        victims: Sequence[Running],
        cost: Mapping[str, int],
        *,
        rebalances: bool = False,
        moves: bool = False,
    ) -> None:
        """Tell these to leave for a gang. `moves`: they go on elsewhere, and their room there is kept."""
        self.reservations.drop(job.id)
        moving = frozenset(one.job.id for one in victims) if moves else frozenset()
        made = self.claims.begin(job, shape, pool, victims, self.now, moving)
        self.occupancy.claim(made)
        self.reserver.look_anew(at for one in victims for at, _ in one.need)
        self.reservations.recheck_limits("yielded")
        self.evictions += len(victims)
        self.live.evicted_at.append((self.now, len(victims)))
        for one in victims:
            seat = self.seats.by_job.get(one.job.id)
            self.decisions.append(
                Evict(one.job.id, job.id, cost[one.job.id], "", None if seat is None else seat.placed, rebalances)
            )
        total = sum(cost[one.job.id] for one in victims)
        self.decisions.append(Claim(job.id, made.claimant.placed, tuple(one.job.id for one in victims), total))

    def _start_by_right(self, job: Job, shape: Shape, pool: int) -> Reason | None:
        live = self.live
        group, room = live.ordering.group(job.id), live.room(job.queue, shape.least[pool])
        placed = place(at_least(shape.gang), live.machines, (pool,))
        if group is None or not isinstance(room, Standing) or not isinstance(placed, Placed):
            return _NOBODY
        self._admit(group, job, placed, room)
        self.reservations.recheck_limits("yielded")
        return None

    def brake(self, count: int) -> Reason | None:
        """Whether so many more evictions are too many for this pass or window."""
        policy, recent = self.live.policy, self.live.evicted_at
        while recent and recent[0][0] + policy.window_seconds <= self.now:
            recent.popleft()
        lately = sum(many for _, many in recent)
        if count + self.evictions > policy.evictions_per_pass and self.evictions:
            return Reason("brake", need=count, held=self.evictions, limit=policy.evictions_per_pass, until=self.now + 1)
        if count + lately > policy.evictions_per_window and lately:
            until = recent[0][0] + policy.window_seconds
            return Reason("brake", need=count, held=lately, limit=policy.evictions_per_window, until=until)
        return None

    # 8. Even out and move.

    def rebalance(self) -> bool:
        """Ask for those who may gain; whether anything was decided."""
        live, before = self.live, len(self.decisions)
        for pool in sorted(live.machines.pools):
            for group, job, is_shape in lacking_room(live, self.windows, self.reserver, pool):
                if group.phase != REFUSED or job.id not in live.ordering:
                    continue
                if (
                    live.policy.rebalances
                    and self.take_back(self._search(job, group.shape, pool, rebalances=True), job, group.shape, pool) is None
                ):
                    continue
                if live.policy.migrations and is_shape:
                    self._migrate(job, group.shape, pool)
        return len(self.decisions) > before

    def _migrate(self, job: Job, shape: Shape, pool: int) -> None:
        """Move others so that this one can start."""
        reservations = self.reservations
        reservations.suspend([job.id] if job.id in reservations.by_job else [])
        found = Migrations(self.live, self.windows, reservations).find(job, shape, pool)
        if found is not None and self.brake(len(found.moved)) is None:
            self.clear(job, shape, pool, found.moved, found.cost, moves=True)
        reservations.resume()

    def _search(self, job: Job, shape: Shape, pool: int, *, rebalances: bool = False) -> Search:
        return Search(self.live, self.windows, self.placements, job, shape, pool, rebalances=rebalances)

    # 7. Explain.

    @staticmethod
    def _over(room: Refusal) -> Reason:
        return Reason(room.code, room.pool, room.queue, room.resource, room.need, room.used, room.limit, room.kept)

    def _unplaced(self, shape: Shape, answer: Unplaced) -> Reason:
        until = self.reservations.blocked_until(shape, answer.pool) if self.reservations else 0
        if until:
            return Reason("booked", answer.pool, need=answer.needed, fitting=answer.fitting, until=until)
        return Reason(answer.code, answer.pool, need=answer.needed, fitting=answer.fitting, filters=answer.refusals)

    def _tell(self, group: Group, job: Job, reason: Reason) -> None:
        told = (job.id, reason)
        if group.told != told:
            group.told = told
            self.decisions.append(Wait(job.id, reason, max(1, len(group))))


_NOBODY = Reason("nobody")
_STAGES = {
    code: place
    for place, code in enumerate(
        (
            "no_pool",
            "no_machine",
            "ceiling",
            "withheld",
            "reserved",
            "capacity",
            "no_room",
            "not_together",
            "booked",
            "too_young",
            "brake",
        )
    )
}
