"""Who of those that were refused is asked again, and when: one rule.

The ideal: after every change all that wait are asked again. The rule: a change that frees something marks its pool (room on
machines, limits of queues, work that may be evicted by now). Of a marked pool each group that was refused is looked at once: it
is asked again unless bounds that cost little prove that it would be refused again. Less of anything marks nothing, because what
was refused stays refused then. So what is decided does not depend on what was asked before, and the bounds may be as weak as they
like: a core that is kept and one that is built anew decide the same.

The bounds are the same for all groups of one queue, priority and shape, and each is found out once: whether there is room, by
shape; whether limits allow it, by queue and shape; who might leave for it, by queue and priority. A gang may start if there is
room *and* its limits allow it; else it needs victims, and what all of those hold together who might leave has to be enough.

A group that was woken has its turn later in the pass, when others may have taken the room: then the bounds are asked once more
(`may_go_on`), and it waits on without being asked where they refuse it by now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from jobs.scheduling.core.advance import AdvanceReservations
from jobs.scheduling.core.place.filters import copies
from jobs.scheduling.core.place.machines import MachineClass
from jobs.scheduling.core.place.ranking import Ranking, ranking_of
from jobs.scheduling.core.placements import Placements
from jobs.scheduling.core.reclaim import Search
from jobs.scheduling.core.reservations import BackfillReservations
from jobs.scheduling.core.state.decisions import Reason
from jobs.scheduling.core.state.evictable import Amounts, Leavers, takes_more
from jobs.scheduling.core.state.live import Live
from jobs.scheduling.core.state.ordering import Group
from jobs.scheduling.core.state.reservation import BackfillReservation, ends_if_started
from jobs.scheduling.core.state.user_caps import Place
from jobs.scheduling.core.state.work import Shape
from tenants.quota.shares import Refusal, Standing

ByShape = dict[Shape, set["Group"]]
NONE, HIDDEN, VISIBLE = range(3)
NOBODY = (-1, -1, -1)  # Where nobody would have to leave, there is less than the least that is asked for.


class WakeUps:
    """The groups that were refused, by what their refusal depends on, and what changed since they were looked at."""

    def __init__(
        self, live: Live, windows: AdvanceReservations, reservations: BackfillReservations, placements: Placements
    ) -> None:
        self.live = live
        self.windows = windows
        self.reservations = reservations
        self.placements = placements
        self.by_user: dict[Place, set[Group]] = {}  # (tenant, user) -> whom a cap on the user refused.
        self._refused: dict[int, dict[int, dict[int, ByShape]]] = {}  # Pool -> queue -> priority -> shape.
        self._bounds: dict[int, Bounds] = {}  # By pool, for those who were woken, true at one moment.
        self._bounds_at = (-1, -1)

    # --- Who waits ----------------------------------------------------------------------------------------------------

    def refuse(self, group: Group, reason: Reason, *, at: Place | None = None) -> None:
        """A group waits until something changes in its pools; or, refused by a cap, until less is held there."""
        self.live.ordering.refuse(group, reason)
        if at is not None:
            sets = [self.by_user.setdefault(at, set())]
        else:
            sets = [self._set_of(group, pool) for pool in group.shape.touches]
        for others in sets:
            others.add(group)
        group.waits_in = sets

    def _set_of(self, group: Group, pool: int) -> set[Group]:
        by_priority = self._refused.setdefault(pool, {}).setdefault(group.queue, {})
        return by_priority.setdefault(group.priority, {}).setdefault(group.shape, set())

    def has_refused(self, pool: int, queue: int, priority: int) -> bool:
        """Whether somebody of higher priority than this waits in a queue for a pool."""
        by_priority = self._refused.get(pool, {}).get(queue, {})
        return any(other > priority and any(by_shape.values()) for other, by_shape in by_priority.items())

    def has_claimers(self, pool: int) -> bool:
        """Whether somebody waits for a pool whose queue may get back what it deserves there."""
        return any(
            self.live.shares.may_reach(queue, pool) and self.has_refused(pool, queue, -1) for queue in self._refused.get(pool, {})
        )

    @property
    def is_anybody(self) -> bool:
        """Whether anybody waits who was refused in a pool."""
        return any(self.has_refused(pool, queue, -1) for pool, by_queue in self._refused.items() for queue in by_queue)

    # --- Who is asked again -------------------------------------------------------------------------------------------

    def wake(self, groups: Iterable[Group]) -> None:
        """Ask these again, whatever the bounds say."""
        for group in list(groups):
            self.live.ordering.wake(group)

    def begin(self) -> None:
        """A pass begins."""
        self._bounds.clear()

    @property
    def is_marked(self) -> bool:
        """Whether this pass has to look at a pool once more."""
        return bool(self.live.changes.marked)

    def tell(self) -> None:
        """Wake all whom what was marked may help."""
        changes = self.live.changes
        for place in changes.given_back:
            self.wake(self.by_user.get(place, ()))
        changes.given_back.clear()
        if changes.grown:
            changes.mark(self.placements.room_grew(changes.grown))
            changes.grown.clear()
        while changes.marked:
            marked = sorted(changes.marked)
            changes.marked.clear()
            for pool in marked:
                self._look(pool)

    def _look(self, pool: int) -> None:
        by_queue = self._refused.get(pool)
        if not by_queue:
            return
        bounds = self._bounds_of(pool)
        for queue, by_priority in by_queue.items():
            for priority, by_shape in by_priority.items():
                for group in bounds.pass_of(queue, priority, by_shape):
                    self.live.ordering.wake_bounded(group)

    def _bounds_of(self, pool: int) -> Bounds:
        return Bounds(self.live, self.windows, self.reservations, self.placements, pool)

    def forget(self, pool: int, shape: Shape) -> None:
        """More is known of the room for a shape."""
        bounds = self._bounds.get(pool)
        if bounds is not None:
            bounds.forget(shape)

    def may_go_on(self, group: Group) -> bool:
        """Whether the bounds still do not refuse a group that they woke."""
        live, shape = self.live, group.shape
        at = (live.machines.version, live.shares.version)
        if self._bounds_at != at:
            self._bounds_at = at
            self._bounds.clear()
        for pool in shape.touches:
            bounds = self._bounds.get(pool)
            if bounds is None:
                bounds = self._bounds[pool] = self._bounds_of(pool)
            if bounds.room(shape) and bounds.has_limits(group.queue, shape):
                return True
            if bounds.may_evict(group):
                return True
        return False


class Bounds:
    """What may be had at most in one pool at one moment."""

    def __init__(
        self, live: Live, windows: AdvanceReservations, reservations: BackfillReservations, placements: Placements, pool: int
    ) -> None:
        self.live = live
        self.windows = windows
        self.reservations = reservations
        self.placements = placements
        self.pool = pool
        free = live.machines.free(pool)
        self.hidden: dict[int, Amounts] = reservations.hidden_on(pool) if reservations else {}
        cpu, memory, gpu = self.visible = (free.cpu_millis, free.memory_bytes, free.gpu_millis)
        for more in self.hidden.values():
            cpu, memory, gpu = cpu + more[0], memory + more[1], gpu + more[2]
        self.free: Amounts = (cpu, memory, gpu)
        self._booked = reservations.of(pool) if self.hidden else []
        self._opens: dict[tuple[int, int], bool] = {}
        self._opened: list[MachineClass] = [reservations.opened_class(machine) for machine in self.hidden]
        self._rooms: dict[Shape, int] = {}
        self._limits: dict[tuple[int, Shape], bool] = {}
        self._may_reach: dict[int, bool] = {}
        self._victims: dict[tuple[int, int], tuple[Leavers, Amounts] | None] = {}
        self._evicts: dict[tuple[int, int, Shape], bool] = {}
        self._lacking: dict[Shape, tuple[int, Ranking | None]] = {}

    def pass_of(self, queue: int, priority: int, by_shape: ByShape) -> Iterator[Group]:
        """Those of a queue and priority whom nothing here refuses."""
        reaches, is_open = self._reaches(queue), self._is_open(queue, priority)
        leavers, (cpu, memory, gpu) = self._victims_of(queue, priority) or (None, NOBODY)
        rooms, pool = self._rooms, self.pool
        for shape, groups in by_shape.items():
            if not groups:
                continue
            room = rooms.get(shape)
            if room is None:
                room = self.room(shape)
            if room and self.has_limits(queue, shape):
                if room == VISIBLE:
                    yield from groups
                    continue
                yield from filter(self._may_take_booked, groups)
            need = shape.inside.get(pool)
            if need is None:
                yield from groups
                continue
            fits = leavers is not None and need[2] <= gpu and need[0] <= cpu and need[1] <= memory
            may_evict = fits and leavers is not None and self._is_enough(shape, leavers, is_open)
            if may_evict or (reaches and self._may_claim(next(iter(groups)), need)):
                yield from groups

    def may_evict(self, group: Group) -> bool:
        """Whether there might be victims enough for a group."""
        at = (group.queue, group.priority, group.shape)
        found = self._evicts.get(at)
        if found is None:
            found = self._evicts[at] = self._may_evict(group)
        return found

    def _may_evict(self, group: Group) -> bool:
        queue, shape = group.queue, group.shape
        need = shape.inside.get(self.pool)
        if need is None:
            return True
        victims = self._victims_of(queue, group.priority)
        if victims is not None:
            leavers, most = victims
            fits = need[2] <= most[2] and need[0] <= most[0] and need[1] <= most[1]
            if fits and self._is_enough(shape, leavers, self._is_open(queue, group.priority)):
                return True
        return self._reaches(queue) and self._may_claim(group, need)

    # --- Room and limits ----------------------------------------------------------------------------------------------

    def room(self, shape: Shape) -> int:
        """Whether there may be room: as things are (`VISIBLE`), or with what is hidden for booked starts (`HIDDEN`), or not."""
        found = self._rooms.get(shape)
        if found is None:
            found = self._rooms[shape] = self._room(shape)
        return found

    def forget(self, shape: Shape) -> None:
        """More is known of the room for a shape."""
        self._rooms.pop(shape, None)
        self._lacking.pop(shape, None)
        for at in [at for at in self._evicts if at[2] is shape]:
            del self._evicts[at]

    def _room(self, shape: Shape) -> int:
        live, pool = self.live, self.pool
        need, free = shape.inside.get(pool), self.free
        if need is None:
            return VISIBLE
        if need[0] > free[0] or need[1] > free[1] or need[2] > free[2]:
            return NONE
        known = self.placements.get(pool, shape.number)
        if known is None or not known.is_true(live.machines, pool):
            return VISIBLE
        if self.hidden and known.most(live.machines, pool) + self._copies_opened(shape) >= shape.gang.roles[0].minimum:
            return HIDDEN
        return NONE

    def _copies_opened(self, shape: Shape) -> int:
        """How many tasks machines take once nothing is hidden on them."""
        ranking = ranking_of(self.live.machines, self.pool, shape.gang.roles[0].ask)
        return 0 if ranking is None else sum(copies(one, ranking.shape) for one in self._opened)

    def has_limits(self, queue: int, shape: Shape) -> bool:
        """Whether limits allow a gang in one of its pools."""
        found = self._limits.get((queue, shape))
        if found is None:
            room = self.live.shares.room
            found = self._limits[queue, shape] = any(
                not any(isinstance(room(queue, at, amount), Refusal) for at, amount in need) for need in shape.least.values()
            )
        return found

    def _may_take_booked(self, group: Group) -> bool:
        """Whether a group may have some of what is hidden for booked starts, or has such a start."""
        reservations, first = self.reservations, group.first()
        if first is None or first[1].id in reservations.by_job:
            return True
        job, booked = first[1], reservations.of(self.pool)
        ends = ends_if_started(job, self.live.now, self.live.policy)
        if any(ends.until(one) <= one.at for one in booked):
            return True  # It fits in before them.
        return bool(reservations.weaker(job, self.pool, Standing.GUARANTEED))

    # --- Victims ------------------------------------------------------------------------------------------------------

    def _reaches(self, queue: int) -> bool:
        """Whether a queue may get something back from others."""
        found = self._may_reach.get(queue)
        if found is None:
            found = self._may_reach[queue] = self.live.policy.reclaims and self.live.shares.may_reach(queue, self.pool)
        return found

    def _is_open(self, queue: int, priority: int) -> bool:
        """Whether work of a queue and priority may have what is hidden for one of the booked starts, or has one itself."""
        at = (queue, priority)
        found = self._opens.get(at)
        if found is None:
            yields = bool(self.windows) or any(self._yields(one, queue, priority) for one in self._booked)
            found = self._opens[at] = bool(self._booked) and yields
        return found

    def _yields(self, one: BackfillReservation, queue: int, priority: int) -> bool:
        if one.job.queue == queue:
            return priority >= one.job.priority
        return one.standing is Standing.BORROWED and self._reaches(queue)

    def _may_claim(self, group: Group, need: Amounts) -> bool:
        """Whether what others hold beyond what they deserve might be enough."""
        live, pool, queue, shape = self.live, self.pool, group.queue, group.shape
        is_open = self._is_open(queue, group.priority)
        held, free = live.evictable.held(pool), self.free if is_open else self.visible
        if any(want > there + more for want, there, more in zip(need, free, held, strict=True)):
            return False
        first = group.first()
        if first is None or live.shares.reach(queue, pool, need) < 0:
            return False
        return is_open or Search(live, self.windows, self.placements, first[1], shape, pool).could_do()

    def _victims_of(self, queue: int, priority: int) -> tuple[Leavers, Amounts] | None:
        """The work of a queue that makes room for a higher priority, and the most that there is with what is free; None where
        there is no such work."""
        at = (queue, priority)
        if at not in self._victims:
            self._victims[at] = self._find_victims(queue, priority)
        return self._victims[at]

    def _find_victims(self, queue: int, priority: int) -> tuple[Leavers, Amounts] | None:
        evictable, free = self.live.evictable, self.free if self._is_open(queue, priority) else self.visible
        lowest = min(evictable.priorities.get((self.pool, queue), ()), default=priority)
        if not self.live.policy.preempts or lowest >= priority:
            return None
        leavers = evictable.leavers(self.pool, queue, priority)
        cpu, memory, gpu = leavers.sums
        return (leavers, (free[0] + cpu, free[1] + memory, free[2] + gpu)) if leavers.gangs else None

    def _is_enough(self, shape: Shape, leavers: Leavers, is_open: bool) -> bool:
        """Whether there might be room without these, machine by machine."""
        found = self._lacking.get(shape)
        if found is None:
            found = self._lacking[shape] = self._lack(shape)
        lacking, ranking = found
        if lacking <= 0 or ranking is None:
            return lacking <= 0
        if not is_open:
            return leavers.gain(self.live.machines, ranking, shape.number) >= lacking
        wanted = lacking - self._copies_opened(shape)
        return takes_more(self.live.machines, ranking, shape.gang.roles[0], wanted, leavers.freed, self.hidden)

    def _lack(self, shape: Shape) -> tuple[int, Ranking | None]:
        """How many of a gang's tasks have no room, at least; 0 or less: none, as far as is known. Without a ranking no machine is
        such as it asks for."""
        machines, role = self.live.machines, shape.gang.roles[0]
        known = self.placements.get(self.pool, shape.number)
        if known is None or not shape.is_counted:
            return 0, None
        ranking = ranking_of(machines, self.pool, role.ask)
        return (role.minimum, None) if ranking is None else (role.minimum - known.most(machines, self.pool), ranking)
