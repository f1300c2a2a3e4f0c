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
from dataclasses import replace
from typing import TYPE_CHECKING

from jobs.scheduling.core.place.cache import Known
from jobs.scheduling.core.place.placing import place, undo
from jobs.scheduling.core.rebalance import look
from jobs.scheduling.core.reclaim import Search, at_least, transfer
from jobs.scheduling.core.reserve import Booker
from jobs.scheduling.core.state.decisions import Admit, Claim, Decision, Evict, Reason, Wait
from jobs.scheduling.core.state.gangs import GangAsk, Placed, Unplaced
from jobs.scheduling.core.state.user_caps import least, most, place_of, reason_of
from jobs.scheduling.core.state.work import Job, Need, Running, Shape, take_shares
from tenants.quota.shares import Refusal, Standing

if TYPE_CHECKING:
    from jobs.scheduling.core.core import Core
    from jobs.scheduling.core.state.ordering import Group


def run_pass(core: Core, now: int) -> list[Decision]:
    """All phases, until nobody is left whose turn it could be."""
    last_pass_at = core.now
    made = Pass(core, now)
    core.ring(now)
    made.honour_claims()
    if core.windows:
        made.decisions += core.windows.clear(now)
    made.booker.begin()
    made.take_turns()
    if look(made, last_pass_at):
        made.take_turns()
    made.booker.tell()
    return made.decisions


class Pass:
    """What one pass needs in hand."""

    def __init__(self, core: Core, now: int) -> None:
        self.core = core
        self.now = now
        self.decisions: list[Decision] = []
        self.evictions = 0
        self.booker = Booker(core, now, self.decisions)
        if core.lines and (core.history_at is None or now - core.history_at >= core.policy.history_seconds):
            core.shares.advance(now)
            core.history_at = now

    def take_turns(self) -> None:
        """Whoever may have a turn, until nobody is left."""
        lines, wakeups = self.core.lines, self.core.wakeups
        while True:
            wakeups.tell()
            turn = lines.next(wakeups.may_go_on)
            if turn is None:
                self.booker.book_rest()
                if not wakeups.is_marked:
                    break
                continue
            group, job = turn
            lines.ask(group)
            if self.core.promises.known_ends:
                self.booker.before(group, job)
            self.about(group, job)

    def honour_claims(self) -> None:
        """Whose room is clear by now starts first of all."""
        core = self.core
        for job_id in sorted(core.cleared):
            made = core.transfers.pop(job_id, None)
            if made is not None:
                one = made.claimant
                one.claim, one.started_at = None, self.now
                core.enter(one)
                self._look_again(one)
                self.decisions.append(Admit(job_id, one.placed, one.standing))
        core.cleared.clear()
        if core.moves:
            core.moves.honour(self.now, self.decisions)

    def about(self, group: Group, job: Job) -> None:
        """Questions 1 to 7 of the job whose turn it is."""
        core, wakeups, shape = self.core, self.core.wakeups, group.shape
        if core.is_last_of_array(job):
            core.lines.remove(job.id)
            core.wait_for_siblings(job)
            self._tell(group, job, Reason("array_parallelism", limit=job.parallel))
            return
        capped = core.people.refusal(job, least(shape.gang)) if core.people else None
        if capped is not None and job.user is not None:
            found = reason_of(capped, job.queue)
            wakeups.refuse(group, found, at=place_of(capped, job.user))
            self._tell(group, job, found)
            return
        reason: Reason | None = None
        entitled: list[int] = []
        for pool in shape.pools:
            room = self._room(job, shape.least[pool])
            if isinstance(room, Refusal):
                found = self._over(room)
                entitled.append(pool)
            elif core.windows and (reserved := core.windows.refusal(job, shape.least[pool], self.now)) is not None:
                found = reserved
                entitled.append(pool)
            else:
                answer = self._place(job, shape, pool)
                denied = self._delayed(job, shape, answer) if isinstance(answer, Placed) else self._unplaced(shape, answer)
                if denied is None and isinstance(answer, Placed):
                    self._admit(group, job, answer, room)
                    return
                if denied is None or (core.promises and self._take_booked(group, job, pool, room)):
                    return
                found = denied
                if found.code in ("no_room", "not_together", "booked"):
                    entitled.append(pool)
            if reason is None or _STAGES[found.code] > _STAGES[reason.code]:
                reason = found
        for pool in entitled:
            search = Search(core, job, shape, pool, self.now)
            if not search.may_claim and not search.may_preempt:
                continue
            denied = self.take_back(search, job, shape, pool)
            if denied is None:
                return
            if denied is not _NOBODY:
                reason = denied
        reason = reason or Reason("no_pool")
        if core.promises.known_ends:
            self.booker.refused(group, job)
        wakeups.refuse(group, reason)
        self._tell(group, job, reason)

    # 3. Limits.

    def _room(self, job: Job, need: Need) -> Standing | Refusal:
        weakest = Standing.GUARANTEED
        for pool, amount in need:
            found = self.core.shares.room(job.queue, pool, amount)
            if not isinstance(found, Standing):
                return found
            weakest = max(weakest, found)
        return weakest

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
        core = self.core
        if core.windows and core.windows.refusal(job, need, self.now) is not None:
            return False
        return not isinstance(self._room(job, need), Refusal) and core.people.refusal(job, most(gang)) is None

    # 4. Place.

    def _place(self, job: Job, shape: Shape, pool: int) -> Placed | Unplaced:
        core = self.core
        answer: Placed | Unplaced | None = core.wakeups.known_unplaced(pool, shape.number)
        if answer is None:
            gang = self._within_limits(job, shape, pool) if shape.is_elastic else shape.gang
            answer = place(gang, core.machines, (pool,))
            if isinstance(answer, Unplaced) and Known.may_keep(shape, answer):
                core.wakeups.remember(pool, shape, answer)
        if isinstance(answer, Unplaced) and core.promises:
            return self._place_before(job, shape, pool) or answer
        return answer

    def _place_before(self, job: Job, shape: Shape, pool: int) -> Placed | None:
        """Where the gang has its place in room that is hidden for later starts, which it will not be in the way of."""
        promises = self.core.promises
        if promises.is_vain(job, shape, pool):
            return None
        lifted = promises.lift(job, pool)
        if lifted is None:
            return None
        gang = self._within_limits(job, shape, pool) if shape.is_elastic else shape.gang
        answer = place(gang, self.core.machines, (pool,))
        promises.let_fall(lifted, stands=isinstance(answer, Placed))
        if isinstance(answer, Placed):
            return answer
        promises.was_vain(job, shape, pool)
        return None

    def _take_booked(self, group: Group, job: Job, pool: int, room: Standing) -> bool:
        """Start on what is kept for booked starts of who would have to leave for this one if they ran."""
        promises, shape = self.core.promises, group.shape
        weaker = promises.weaker(job, pool, room)
        if not weaker:
            return False
        promises.suspend(weaker)
        answer = self._place(job, shape, pool)
        starts = isinstance(answer, Placed) and self._delayed(job, shape, answer, weaker) is None
        if starts and isinstance(answer, Placed):
            self._admit(group, job, answer, room)
        promises.resume()
        if starts:
            promises.recheck_limits("yielded")
        return starts

    def _delayed(self, job: Job, shape: Shape, placed: Placed, weaker: Collection[str] = ()) -> Reason | None:
        """Undo a placement that would take the limits that a booked start needs, and say which start."""
        core = self.core
        if not core.promises:
            return None
        need = core.need_of(placed) if shape.is_elastic else shape.least[placed.pool]
        delayed = core.promises.denies(job, need, len(placed.tasks), weaker)
        if delayed is None:
            return None
        undo(placed, core.machines)
        core.promises.settle_with(task.machine for task in placed.tasks)
        return Reason("booked", placed.pool, job.queue, until=delayed.at)

    def _admit(self, group: Group, job: Job, placed: Placed, standing: Standing) -> None:
        core, shape = self.core, group.shape
        core.lines.remove(job.id)
        need = core.need_of(placed) if shape.is_elastic else shape.least[placed.pool]
        if shape.is_elastic:
            room = self._room(job, need)
            standing = room if isinstance(room, Standing) else Standing.BORROWED
        if core.promises:
            with core.promises.coming(job.id):
                core.admit(Running(job, placed, need, self.now, standing))
        else:
            core.admit(Running(job, placed, need, self.now, standing))
        self._look_again(core.running[job.id])
        self.decisions.append(Admit(job.id, placed, standing))

    def _look_again(self, one: Running) -> None:
        """Who was refused before this one started may take back what its queue borrows by now: from those who ran before at once,
        from this one in the next pass."""
        core = self.core
        for pool, _ in one.need:
            if one.standing is Standing.BORROWED and core.policy.reclaims and core.wakeups.has_claimers(pool):
                core.wakeups.mark((pool,))
                core.wakeups.mark_later((pool,))

    # 5. Take back.

    def take_back(self, search: Search, job: Job, shape: Shape, pool: int) -> Reason | None:
        """Clear room for a gang that is owed it; None when that was decided, else why not."""
        core = self.core
        weaker = core.promises.weaker(job, pool, Standing.DESERVED if search.may_claim else None) if core.promises else []
        if job.id in core.promises.by_job:
            weaker.append(job.id)
        if weaker:
            core.promises.suspend(weaker)
        try:
            return self._take_from(search, job, shape, pool)
        finally:
            if weaker:
                core.promises.resume()

    def _take_from(self, search: Search, job: Job, shape: Shape, pool: int) -> Reason | None:
        core = self.core
        victims = search.run()
        if victims is None:
            if not search.young_until or search.by_machine:
                return _NOBODY
            return Reason("too_young", pool=pool, queue=job.queue, until=search.young_until)
        if not victims:  # What booked starts of others kept is enough; it is taken by right.
            return self._start_by_right(job, shape, pool)
        room = self.brake(len(victims))
        if room is not None:
            core.look_at(max(room.until, self.now + 1), pool)
            return room
        self.clear(job, shape, pool, victims, search.cost, evens=search.evens)
        return None

    def clear(
        self,
        job: Job,
        shape: Shape,
        pool: int,
        victims: Sequence[Running],
        cost: Mapping[str, int],
        *,
        evens: bool = False,
        moves: bool = False,
    ) -> None:
        """Tell these to leave for a gang. `moves`: they go on elsewhere, and their room there is kept."""
        core = self.core
        core.lines.remove(job.id)
        core.promises.drop(job.id)
        moving = frozenset(one.job.id for one in victims) if moves else frozenset()
        made = transfer(core, job, shape, pool, victims, self.now, moving)
        take_shares(core.shares, job.queue, made.claimant.need)
        core.claim(made)
        self.booker.look_anew(at for one in victims for at, _ in one.need)
        core.promises.recheck_limits("yielded")
        self.evictions += len(victims)
        core.evicted_at.append((self.now, len(victims)))
        for one in victims:
            seat = core.moves.seats.get(one.job.id)
            self.decisions.append(Evict(one.job.id, job.id, cost[one.job.id], "", None if seat is None else seat.placed, evens))
        total = sum(cost[one.job.id] for one in victims)
        self.decisions.append(Claim(job.id, made.claimant.placed, tuple(one.job.id for one in victims), total))

    def _start_by_right(self, job: Job, shape: Shape, pool: int) -> Reason | None:
        core = self.core
        group, room = core.lines.group(job.id), self._room(job, shape.least[pool])
        placed = place(at_least(shape.gang), core.machines, (pool,))
        if group is None or not isinstance(room, Standing) or not isinstance(placed, Placed):
            return _NOBODY
        self._admit(group, job, placed, room)
        core.promises.recheck_limits("yielded")
        return None

    def brake(self, count: int) -> Reason | None:
        """Whether so many more evictions are too many for this pass or window."""
        policy, recent = self.core.policy, self.core.evicted_at
        while recent and recent[0][0] + policy.window_seconds <= self.now:
            recent.popleft()
        lately = sum(many for _, many in recent)
        if count + self.evictions > policy.evictions_per_pass and self.evictions:
            return Reason("brake", need=count, held=self.evictions, limit=policy.evictions_per_pass, until=self.now + 1)
        if count + lately > policy.evictions_per_window and lately:
            until = recent[0][0] + policy.window_seconds
            return Reason("brake", need=count, held=lately, limit=policy.evictions_per_window, until=until)
        return None

    # 7. Explain.

    @staticmethod
    def _over(room: Refusal) -> Reason:
        return Reason(room.code, room.pool, room.queue, room.resource, room.need, room.used, room.limit, room.kept)

    def _unplaced(self, shape: Shape, answer: Unplaced) -> Reason:
        until = self.core.promises.blocked_until(shape, answer.pool) if self.core.promises else 0
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
