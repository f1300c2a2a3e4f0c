"""Who was refused and what each waits for: when it is looked at again, and when it is put aside again without being asked.

The ideal: after every change, whoever waits is asked again. What is done instead, and why the result is the same:

- **A refused group is woken by its causes only.** It stands in a set for everything that its refusal depended on: no room for its
  shape in a pool (`by_room`), the ceiling of a queue (`by_limit`), the end of a pool or promises to others (`by_pool`), a cap on
  its user (`by_user`), what is booked for a time (`by_reserved`) or for a start (`by_booked`), too few to evict (`claimers`,
  `preempters`). More of one of these wakes that set; less of it wakes nobody. `decide.py` names the sets when it refuses, and
  `ends.py` asks whom ends may help.
- **Whom only room may help sleeps until the turn of its queue** (`Lines.let_sleep`), because others may have taken the room by
  then. It wakes if there still is any.
- **Room that was taken again closes behind the last one.** Of those that room woke, all of a shape wait on, with the reason they
  had, once a count says that no such gang fits any more: asked one after the other, each would be told the same.
- **What `place` said of a shape is kept** (`memory.py`) for as long as what became free since cannot change it.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import TYPE_CHECKING

from jobs.scheduling.core.place.cache import Known
from jobs.scheduling.core.place.placing import has_place
from jobs.scheduling.core.preempters import Preempters
from jobs.scheduling.core.state.decisions import Reason
from jobs.scheduling.core.state.gangs import Unplaced
from jobs.scheduling.core.state.machines import Machines
from jobs.scheduling.core.state.ordering import OPEN, REFUSED
from jobs.scheduling.core.state.user_caps import Place
from jobs.scheduling.core.state.work import Job, Shape
from tenants.quota.shares import Refusal

if TYPE_CHECKING:
    from jobs.scheduling.core.core import Core
    from jobs.scheduling.core.state.ordering import Group

OF_ITS_OWN = frozenset({"user_cap", "no_pool", "no_machine", "reserved"})
"""Reasons that have nothing to do with who else of the queue runs."""
OF_LIMITS = frozenset({"ceiling", "withheld", "capacity", "tenant_cap"})
"""Reasons whose amounts say whether it would be granted to one that is alone."""
PoolAmount = tuple[int, int, int]
"""A resource of a pool, how much of it a gang needs, and how much of it there is for it at most."""
Woken = dict[tuple[int, int], list["Group"]]
"""By pool and number of shape."""


class Waits:
    """The sets in which refused groups stand. A group leaves them when it is woken, but `claimers` and `preempters` only when it
    is asked anew whom it may evict."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.lines = core.lines
        self.machines = core.machines
        self.by_room: dict[int, dict[int, set[Group]]] = {}  # Pool -> number of shape -> who has no room there.
        self.by_limit: dict[tuple[int, int], set[Group]] = {}  # (pool, queue) -> whom its ceiling refused.
        self.by_pool: dict[int, dict[PoolAmount | None, set[Group]]] = {}  # Pool -> whom promises to others, or its end, refused.
        self.by_user: dict[Place, set[Group]] = {}  # (tenant, user) -> whom a cap on the user refused.
        self.by_reserved: dict[int, set[Group]] = {}  # Pool -> whom what others have booked for a time refused.
        self.by_booked: dict[int, set[Group]] = {}  # Pool -> whom only a booked start keeps out, or may.
        self.claimers: dict[int, set[Group]] = {}  # Pool -> who may take room back there, but found too few to take it from.
        self.preempters = Preempters()
        self.unplaced: dict[tuple[int, int], Known] = {}  # (pool, number of shape) -> what `place` said.
        self._emptied: Machines | None = None  # The machines with nothing on them.
        self._fit_when_empty: dict[tuple[int, int], bool] = {}  # By pool and number of shape.
        self._roomy: Woken = {}  # Whom room woke since the last pass.
        self._freed: Woken = {}  # The same of those whom only the end of the pool had refused.

    # --- Who waits ----------------------------------------------------------------------------------------------------

    def refuse(self, group: Group, reason: Reason, places: Iterable[set[Group]]) -> None:
        """A group waits until one of these sets is woken."""
        core, first = self.core, group.first()
        is_sure = first is not None and first[1].id in core.promises.by_job
        self.lines.refuse(group, first, reason, core.now, may_stop=not is_sure and self._is_cured_by_waiting(group, reason))
        patience = core.policy.patience_seconds
        if patience and first is not None and first[1].submitted_at + patience > core.now:
            self._time_patience(group, first[1])
        for others in places:
            others.add(group)
            group.waits_in.append(others)

    def watch(self, group: Group | None) -> None:
        """Somebody else may be the first of a group that waits: it loses its patience as well."""
        first = group.first() if group is not None and group.phase == REFUSED and self.core.policy.patience_seconds else None
        if group is not None and first is not None:
            self._time_patience(group, first[1])

    def _time_patience(self, group: Group, job: Job) -> None:
        if group.impatient_for != job.id:
            group.impatient_for = job.id
            self.core.ring_for_patience(job.submitted_at + self.core.policy.patience_seconds, job.id)

    def lose_patience(self, job_id: str) -> None:
        """Nobody of its queue passes a job any more that has waited for long and has no booked start."""
        job, patience = self.lines.job(job_id), self.core.policy.patience_seconds
        if job is None or not 0 < patience <= self.core.now - job.submitted_at or job_id in self.core.promises.by_job:
            return
        group = self.lines.group(job_id)
        if group is not None and group.reason is not None and self._is_cured_by_waiting(group, group.reason):
            self.lines.lose_patience(job_id)

    def _is_cured_by_waiting(self, group: Group, reason: Reason) -> bool:
        """Whether the job could start once others of its queue do not pass it any more: what refused it is held by others, and
        without them it would have its limits and its place. Nobody waits behind one for which that is not so."""
        if reason.code in OF_ITS_OWN:
            return False
        if reason.code in OF_LIMITS:
            return reason.need + reason.kept <= reason.limit
        return any(self._fits_when_empty(group.shape, pool) for pool in group.shape.pools)

    def _fits_when_empty(self, shape: Shape, pool: int) -> bool:
        """Whether a gang would have its place if nothing ran in the pool, on the machines that are in service."""
        at = pool, shape.number
        known = self._fit_when_empty.get(at)
        if known is None:
            if self._emptied is None:
                self._emptied = self.machines.emptied()
            known = self._fit_when_empty[at] = has_place(shape.gang, self._emptied, pool)
        return known

    def place_by_amount(self, group: Group, refused: Refusal | Reason) -> set[Group]:
        """Where a group waits that the end of a pool, or promises to others, refused: with those who lack as much of the same."""
        at = (refused.resource, refused.need, refused.limit) if len(group.shape.pools) == 1 else None
        return self.by_pool.setdefault(refused.pool, {}).setdefault(at, set())

    # --- Who is woken -------------------------------------------------------------------------------------------------

    def wake(self, groups: Iterable[Group]) -> None:
        for group in list(groups):
            group.is_for_room = group.is_asleep = False
            self.lines.wake(group)

    def wake_for_room(self, groups: Iterable[Group], pool: int) -> None:
        """Only room for them grew: whom they may evict is as it was."""
        for group in list(groups):
            if group.phase != REFUSED:
                continue
            is_eager = self.core.policy.in_order or len(group.shape.pools) > 1
            if is_eager or group.reason is None or group.reason.code == "booked":
                self._wake_for_room(group, pool, self._roomy)
            else:
                self.lines.let_sleep(group, pool)

    def wake_for_amount(self, pool: int) -> None:
        """Less of a pool is held: wake for whom the rest may be enough."""
        for group in self.may_have_amount(pool):
            if group.phase == REFUSED:
                self._wake_for_room(group, pool, self._freed)

    def _wake_for_room(self, group: Group, pool: int, woken: Woken) -> None:
        group.is_for_room = True
        self.lines.wake(group)
        woken.setdefault((pool, group.shape.number), []).append(group)

    def may_have_amount(self, pool: int) -> list[Group]:
        """Those of `by_pool` for whom what is not held of the pool is enough; who may go to others is not looked at."""
        used = self.core.shares.used(0, pool)
        waiting = self.by_pool.get(pool, {})
        found: list[Group] = []
        for at, groups in list(waiting.items()):
            if not groups:
                del waiting[at]
            elif at is None or at[1] <= at[2] - used[at[0]]:
                found += groups
        return found

    def room_grew(self, machines: Iterable[int], *, for_a_try: bool = False) -> dict[int, set[int]]:
        """There is more room on these machines, by pool: wake who may fit now."""
        by_pool: dict[int, set[int]] = {}
        for machine in machines:
            by_pool.setdefault(self.machines.at[machine].pool, set()).add(machine)
        for (pool, _), known in list(self.unplaced.items()):
            if pool in by_pool and not known.grow(by_pool[pool], self.machines, pool):
                del self.unplaced[pool, known.shape.number]
        for pool in () if for_a_try else by_pool:
            for number, groups in list(self.by_room.get(pool, {}).items()):
                refused = self.unplaced.get((pool, number)) if groups else None
                if groups and (refused is None or not refused.is_true(self.machines, pool)):
                    self.wake_for_room(groups, pool)
        return by_pool

    def wake_reserved(self, pool: int) -> None:
        """Less is held, so that some may not be in the way of what is booked for a time any more."""
        for group in list(self.by_reserved.get(pool, ())) if self.core.windows else ():
            first = group.first()
            if first is not None and self.core.windows.refusal(first[1], group.shape.least[pool], self.core.now) is None:
                self.wake((group,))

    def wake_booked(self, pool: int, machines: Set[int]) -> None:
        """Room that is hidden for a booked start may be enough for the start itself, or for who ends before it."""
        promises = self.core.promises
        if not promises:
            return
        promises.opened()
        booked = promises.of(pool)
        for one in booked:
            one.may_be_earlier = True
            group = self.lines.group(one.job.id)
            if group is not None and group.phase == REFUSED:  # By what is hidden for it, nobody may put it aside again.
                group.is_for_room = True
                self.lines.wake(group)
        if booked and promises.is_any_on(machines):
            last = booked[-1].at
            brief = [
                group
                for group in self.by_booked.get(pool, ())
                if group.phase == REFUSED
                and (first := group.first()) is not None
                and promises.end_if_started(first[1], self.core.now) <= last
            ]
            for group in brief:
                group.is_for_room = True
                self.lines.wake(group)

    def rouse(self, asleep: list[tuple[Group, int]]) -> None:
        """The turn of a queue has come: those of it wake for whom there is room, or may be what is hidden for booked starts."""
        is_room: dict[tuple[int, int], bool] = {}
        for group, pool in asleep:
            if not group.is_asleep:
                continue
            group.is_asleep = False
            at = pool, group.shape.number
            if at not in is_room:
                is_room[at] = self.known_unplaced(*at) is None
            if group.phase == REFUSED and (is_room[at] or self._may_take_booked(group, pool)):
                self._wake_for_room(group, pool, self._roomy)

    # --- Who is put aside again ---------------------------------------------------------------------------------------

    def close(self) -> None:
        """Room was taken: whoever was woken for it, and does not fit any more, waits on without being asked."""
        if self.core.policy.in_order:
            return
        for pool, number in [*self._roomy, *self._freed]:
            self._close_shape(pool, number)

    def close_like(self, group: Group) -> None:
        """One was refused: so are all others of its shape that room woke, where it has none and nobody has a booked start."""
        if not self.core.policy.in_order and not self.core.promises and len(group.shape.pools) == 1:
            self._close_shape(group.shape.pools[0], group.shape.number)

    def _close_shape(self, pool: int, number: int) -> None:
        at = pool, number
        roomy, freed = self._roomy.get(at), self._freed.get(at)
        if not roomy and not freed:
            return
        if self.known_unplaced(pool, number) is not None:
            places = self.by_room.setdefault(pool, {}).setdefault(number, set())
            for group in (*self._roomy.pop(at, ()), *self._freed.pop(at, ())):
                if group.reason is not None and group.reason.code != "booked":
                    self._put_aside_again(group, pool, places)
        elif freed and self._is_used_up(pool, freed[0]):
            for group in self._freed.pop(at):
                if group.reason is not None and group.reason.code in ("capacity", "withheld") and group.reason.pool == pool:
                    self._put_aside_again(group, pool, self.place_by_amount(group, group.reason))

    def _put_aside_again(self, group: Group, pool: int, places: set[Group]) -> None:
        if group.phase != OPEN or not group.is_for_room or group.reason is None or len(group.shape.pools) > 1:
            return
        if not self._may_take_booked(group, pool):
            also = (self.by_booked.setdefault(pool, set()),) if self.core.policy.booked else ()
            self.refuse(group, group.reason, (places, *also))

    def _may_take_booked(self, group: Group, pool: int) -> bool:
        """Whether a group that has no room may have some of what is hidden for booked starts, or has such a start."""
        promises = self.core.promises
        if not promises:
            return False
        first, booked = group.first(), promises.of(pool)
        if first is None or first[1].id in promises.by_job:
            return True
        preempts = self.core.policy.preempts
        if preempts and any(one.job.queue == group.queue and one.job.priority < group.priority for one in booked):
            return True
        last = max((one.at for one in booked), default=0)
        return bool(last) and promises.end_if_started(first[1], self.core.now) <= last  # It fits in before them.

    def _is_used_up(self, pool: int, group: Group) -> bool:
        """Whether a pool has not what a gang needs, and no booked start to give to whoever is refused."""
        need = group.shape.inside.get(pool)
        return need is not None and not self.core.promises.may_plan(pool) and self.core.shares.is_beyond(pool, need)

    def pass_over(self) -> None:
        """Whoever was woken has had its turn."""
        self._roomy.clear()
        self._freed.clear()

    # --- What is known of room ----------------------------------------------------------------------------------------

    def known_unplaced(self, pool: int, number: int) -> Unplaced | None:
        """The answer of `place` for this shape, where it is still true whatever became free since."""
        known = self.unplaced.get((pool, number))
        return known.answer if known is not None and known.is_true(self.machines, pool) else None

    def forget(self, pool: int) -> None:
        """The machines of a pool are others: what was said of them holds no more."""
        self.unplaced = {at: known for at, known in self.unplaced.items() if at[0] != pool}
        self._emptied, self._fit_when_empty = None, {}
