"""One pass: what starts, who waits and why, and whose work makes room.

The ideal: all waiting jobs are taken one by one, the next always by the fair order of their queues as it is after the last
decision; each is asked the questions 1 to 7 below, of all limits and all machines, and one that cannot start does not stop those
behind it, unless they passed it for too long. What is done instead, and why the result is the same:

- Only what changed is asked again (`core.py`): a group of equal jobs that was refused stays refused until room, a limit or a
  moment comes by that its refusal depended on. Room that shrinks changes no refusal.
- Of equal jobs in a queue only the first is asked (`turn.py`), because what refuses it refuses those behind it.
- Whether a gang has too little room is answered from memory where that follows by counting (`refusals.py`).

1. **Its own conditions.** What cannot start by itself is not in the order: withheld by its driver (a hold, a dependency, an
   image, a budget, a time cap), before its time, or as many of its array run as may. `Core.submit` sets it aside with
   that reason.
2. **Whose turn.** The queue by fair order: who is owed, then the smallest weighted dominant share, with history. In the queue by
   priority with aging, own order, time of submission, id.
3. **Limits.** `Shares.room`: guaranteed, deserved or borrowed, or the first limit that refuses.
4. **Place.** The whole gang at its largest size that limits and room allow, at least at its smallest, or nothing.
5. **Take back.** Who is owed room that others borrow gets it by the fewest lost GPU-seconds (`victims.py`); so does higher
   priority from lower in its own queue. What is freed is claimed, and goes to nobody else.
6. **Patience.** Others of its queue may pass one that waits for so long only (`Policy.patience_seconds`). Then the queue drains
   until what it deserves covers the one, and phase 5 gets it what is missing: so nobody starves. Starts are not booked yet.
7. **Explain.** Who waits keeps the reason of the pool where it came furthest, with amounts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from jobs.scheduling.decisions import Admit, Claim, Decision, Evict, Reason, Wait
from jobs.scheduling.gangs import GangAsk, Placed, Unplaced
from jobs.scheduling.memory import Known
from jobs.scheduling.placing import place
from jobs.scheduling.victims import Search, transfer
from jobs.scheduling.work import Job, Need, Running, Shape, take_shares
from tenants.quota.shares import Refusal, Standing

if TYPE_CHECKING:
    from jobs.scheduling.core import Core
    from jobs.scheduling.turn import Group


def run_pass(core: Core, now: int) -> list[Decision]:
    """All phases, until nobody is left whose turn it could be."""
    made = Pass(core, now)
    core.ring(now)
    made.honour_claims()
    while (turn := core.lines.next()) is not None:
        made.about(*turn)
    core.roomy.clear()
    return made.decisions


class Pass:
    """What one pass needs in hand."""

    def __init__(self, core: Core, now: int) -> None:
        self.core = core
        self.now = now
        self.decisions: list[Decision] = []
        self.evictions = 0
        if core.lines and (core.history_at is None or now - core.history_at >= core.policy.history_seconds):
            core.shares.advance(now)
            core.history_at = now

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

    def about(self, group: Group, job: Job) -> None:
        """Questions 1 to 7 of the job whose turn it is."""
        core, shape = self.core, group.shape
        if core.is_last_of_array(job):
            core.lines.remove(job.id)
            core.wait_for_siblings(job)
            self._tell(group, job, Reason("array_parallelism", limit=job.parallel))
            return
        reason: Reason | None = None
        places: list[set[Group]] = []
        entitled: list[int] = []
        hope: set[int] = set()
        for pool in shape.pools:
            room = self._room(job, shape.least[pool])
            if isinstance(room, Refusal):
                found = self._over(room)
                if room.code == "ceiling":
                    places.append(core.by_limit.setdefault((room.pool, room.queue), set()))
                    entitled.append(pool)
                else:
                    places.append(core.by_pool.setdefault(room.pool, set()))
                    entitled.append(pool)
            else:
                answer = self._place(job, shape, pool)
                if isinstance(answer, Placed):
                    self._admit(group, job, answer, room)
                    return
                found = self._unplaced(answer)
                places.append(core.by_room.setdefault(pool, {}).setdefault(shape.number, set()))
                if answer.code in ("no_room", "not_together"):
                    entitled.append(pool)
            if reason is None or _STAGES[found.code] > _STAGES[reason.code]:
                reason = found
        back: list[set[Group]] = []
        for pool in () if group.is_for_room else entitled:
            search = Search(core, job, shape, pool, self.now)
            if core.policy.preempts:  # Also where nobody of lower priority runs so far.
                back.append(core.preempters.setdefault((pool, job.queue), set()))
            if not search.may_claim and not search.may_preempt:
                continue
            denied = self._take_back(search, job, shape, pool)
            if denied is None:
                return
            if search.may_claim:
                back.append(core.claimers.setdefault(pool, set()))
            hope.update(search.by_machine)
            if denied is not _NOBODY:
                reason = denied
        reason = reason or Reason("no_pool")
        if group.is_for_room:
            reason = group.reason if group.reason is not None and group.reason.code in ("too_young", "brake") else reason
        else:
            group.stand_in(back)
            group.hope = frozenset(hope)
        core.refuse(group, reason, places)
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
        if not isinstance(self._room(job, shape.most[pool]), Refusal):
            return shape.gang
        roles = [replace(role, maximum=role.minimum) for role in shape.gang.roles]
        for position, wanted in enumerate(shape.gang.roles):
            low, high = wanted.minimum, wanted.maximum
            while low < high:
                middle = (low + high + 1) // 2
                roles[position] = replace(wanted, maximum=middle)
                tried = Shape(-1, replace(shape.gang, roles=tuple(roles)), (pool,))
                if isinstance(self._room(job, tried.most[pool]), Refusal):
                    high = middle - 1
                else:
                    low = middle
            roles[position] = replace(wanted, maximum=low)
        return replace(shape.gang, roles=tuple(roles))

    # 4. Place.

    def _place(self, job: Job, shape: Shape, pool: int) -> Placed | Unplaced:
        core = self.core
        known = core.known_unplaced(pool, shape.number)
        if known is not None:
            return known
        gang = self._within_limits(job, shape, pool) if shape.is_elastic else shape.gang
        answer = place(gang, core.machines, (pool,))
        if isinstance(answer, Unplaced) and Known.may_keep(shape, answer):
            core.unplaced[pool, shape.number] = Known(shape, answer)
        return answer

    def _admit(self, group: Group, job: Job, placed: Placed, standing: Standing) -> None:
        core, shape = self.core, group.shape
        core.lines.remove(job.id)
        group.is_for_room = False
        need = core.need_of(placed) if shape.is_elastic else shape.least[placed.pool]
        if shape.is_elastic:
            room = self._room(job, need)
            standing = room if isinstance(room, Standing) else Standing.BORROWED
        core.admit(Running(job, placed, need, self.now, standing))
        if core.roomy:
            core.close()
        self._look_again(core.running[job.id])
        self.decisions.append(Admit(job.id, placed, standing))

    def _look_again(self, one: Running) -> None:
        """Whoever was refused before this one started may be able to evict it."""
        core = self.core
        for pool, _ in one.need:
            above = core.preempters.get((pool, one.job.queue), ()) if not core.policy.least_runtime_seconds else ()
            if (one.standing is Standing.BORROWED and core.claimers.get(pool)) or any(
                group.priority > one.job.priority for group in above
            ):
                core.ring_at(self.now + 1, pool)

    # 5. Take back.

    def _take_back(self, search: Search, job: Job, shape: Shape, pool: int) -> Reason | None:
        """Clear room for a gang that is owed it; None when that was decided, else why not."""
        core = self.core
        victims = search.run()
        if victims is None:
            if not search.young_until or search.by_machine:
                return _NOBODY
            return Reason("too_young", pool=pool, queue=job.queue, until=search.young_until)
        room = self._brake(len(victims))
        if room is not None:
            core.ring_at(max(room.until, self.now + 1), pool)
            return room
        core.lines.remove(job.id)
        made = transfer(core, job, shape, pool, victims, self.now)
        take_shares(core.shares, job.queue, made.claimant.need)
        core.claim(made)
        self.evictions += len(victims)
        core.evicted_at.append((self.now, len(victims)))
        self.decisions += [Evict(one.job.id, job.id, search.cost[one.job.id]) for one in victims]
        cost = sum(search.cost[one.job.id] for one in victims)
        self.decisions.append(Claim(job.id, made.claimant.placed, tuple(one.job.id for one in victims), cost))
        return None

    def _brake(self, count: int) -> Reason | None:
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

    @staticmethod
    def _unplaced(answer: Unplaced) -> Reason:
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
        ("no_pool", "no_machine", "ceiling", "withheld", "capacity", "no_room", "not_together", "booked", "too_young", "brake")
    )
}
