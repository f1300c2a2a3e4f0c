"""Which refused groups are asked again, and when: one rule.

The ideal: after every change all that wait are asked again. The rule: a change that frees something marks its pool. Room on
machines and limits of queues may help all that wait for the pool; work that may be evicted by now helps the queues that hold
less than they deserve, or the higher priorities of its own queue (`state/changes.py`). Each group that was refused and that a
mark may help is looked at once: it is asked again unless bounds that cost little prove that it would be refused again. Less of
anything marks nothing, because what was refused stays refused then. So what is decided does not depend on what was asked
before, and the bounds may be as weak as they like: a core that is kept and a core that is built anew decide the same. Only a
reason that names a moment until which it is true, such as "not before 12:00", is found out anew once that has come, whatever
the bounds say.

The bounds are the same for all groups of one queue, priority and shape, and each is found out once: whether there is room, by
shape; whether limits allow it, by queue and shape; which gangs might be evicted for it, by queue and priority. A gang may start
if there is room *and* its limits allow it; else it needs victims, and what all possible victims hold together has to be enough.

A queue that a mark may help is looked at once its turn comes (`wake_queue`), by what is free then: what the queues before it took
wakes no group for nothing. A group that was woken has its turn after others of its queue, which may have taken the room: then the
bounds are asked once more (`may_go_on`), and it waits on without being asked where they refuse it by now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from types import MappingProxyType

from jobs.scheduling.core.advance import AdvanceReservations
from jobs.scheduling.core.place.filters import copies
from jobs.scheduling.core.place.machines import MachineClass
from jobs.scheduling.core.place.ranking import Ranking, ranking_of
from jobs.scheduling.core.placements import Placements
from jobs.scheduling.core.reservations import BackfillReservations
from jobs.scheduling.core.state.changes import Freed, Mark, Preemptible, Reclaimable
from jobs.scheduling.core.state.decisions import WaitReason
from jobs.scheduling.core.state.evictable import Amounts, VictimCandidates, takes_more
from jobs.scheduling.core.state.live import Live
from jobs.scheduling.core.state.ordering import Group
from jobs.scheduling.core.state.reservation import BackfillReservation, ends_if_started
from jobs.scheduling.core.state.user_caps import Place
from jobs.scheduling.core.state.work import Shape
from jobs.scheduling.core.victims import Search
from tenants.capacity.quota.shares import Refusal, Standing

ByShape = dict[Shape, set["Group"]]
ANY = -1  # Below every priority.
NONE, HIDDEN, VISIBLE = range(3)
NO_GAINS: Mapping[int, tuple[Ranking, int]] = MappingProxyType({})
LESS_THAN_ANY = (-1, -1, -1)  # Where no gang may be evicted: less than any gang asks for.


class WakeUps:
    """The groups that were refused, by what their refusal depends on, and what changed since they were looked at."""

    def __init__(
        self, live: Live, advance: AdvanceReservations, reservations: BackfillReservations, placements: Placements
    ) -> None:
        self.live = live
        self.advance = advance
        self.reservations = reservations
        self.placements = placements
        self.by_user: dict[Place, set[Group]] = {}  # (tenant, user) -> groups that a cap on the user refused.
        self._by_moment: dict[int, set[Group]] = {}  # By the moment until which their reason is true.
        self._refused: dict[int, dict[int, dict[int, ByShape]]] = {}  # Pool -> queue -> priority -> shape.
        self._to_look: dict[int, dict[int, int]] = {}  # Queue -> pool that was marked -> above which priority that may help.
        self._bounds: dict[int, Bounds] = {}  # By pool, true at one moment.
        self._bounds_at = (-1, -1, -1)

    # --- Refused groups -----------------------------------------------------------------------------------------------

    def refuse(self, group: Group, reason: WaitReason, *, at: Place | None = None) -> None:
        """A group waits until something changes in its pools; or, refused by a cap, until less is held there."""
        self.live.ordering.refuse(group, reason)
        if at is not None:
            sets = [self.by_user.setdefault(at, set())]
        else:
            sets = [self._set_of(group, pool) for pool in group.shape.touches]
        if reason.until > self.live.now:
            sets.append(self._by_moment.setdefault(reason.until, set()))
        for others in sets:
            others.add(group)
        group.waits_in = sets

    def _set_of(self, group: Group, pool: int) -> set[Group]:
        by_priority = self._refused.setdefault(pool, {}).setdefault(group.queue, {})
        return by_priority.setdefault(group.priority, {}).setdefault(group.shape, set())

    def has_refused(self, pool: int, queue: int, priority: int) -> bool:
        """Whether a job of higher priority than this waits in a queue for a pool."""
        by_priority = self._refused.get(pool, {}).get(queue, {})
        return any(other > priority and any(by_shape.values()) for other, by_shape in by_priority.items())

    def has_claimers(self, pool: int) -> bool:
        """Whether a job waits for a pool whose queue may get back what it deserves there."""
        return any(
            self.live.shares.may_reach(queue, pool) and self.has_refused(pool, queue, ANY)
            for queue in self._refused.get(pool, {})
        )

    @property
    def has_any_refused(self) -> bool:
        """Whether any job waits that was refused in a pool."""
        return any(self.has_refused(pool, queue, ANY) for pool, by_queue in self._refused.items() for queue in by_queue)

    # --- Which groups are asked again ---------------------------------------------------------------------------------

    def wake(self, groups: Iterable[Group]) -> None:
        """Ask these again, whatever the bounds say."""
        for group in list(groups):
            self.live.ordering.wake(group)

    def begin(self) -> None:
        """A pass begins: groups whose reason names a moment that has come are asked anew, because it is untrue by now."""
        self._bounds.clear()
        for moment in sorted(at for at in self._by_moment if at <= self.live.now):
            self.wake(self._by_moment.pop(moment))

    @property
    def is_marked(self) -> bool:
        """Whether this pass has to look at a pool once more."""
        return bool(self.live.changes.marked)

    def distribute_marks(self) -> None:
        """Give the marks to the queues that they may help: each is looked at once its turn comes, by what is free then."""
        changes = self.live.changes
        for place in changes.given_back:
            self.wake(self.by_user.get(place, ()))
        changes.given_back.clear()
        if changes.grown:
            changes.free(self.placements.room_grew(changes.grown))
            changes.grown.clear()
            self._bounds.clear()
        for pool, marks in changes.take().items():
            for queue, above in self._helped_by(pool, marks):
                to_look = self._to_look.setdefault(queue, {})
                to_look[pool] = min(above, to_look.get(pool, above))
                self.live.ordering.expect(queue)

    def wake_queue(self, queue: int) -> None:
        """Wake the groups of a queue that what was marked since may help: once its turn comes."""
        for pool, above in self._to_look.pop(queue, {}).items():
            bounds = self._bounds_of(pool)
            for priority, by_shape in self._refused[pool].get(queue, {}).items():
                for shape in [shape for shape, groups in by_shape.items() if not groups]:
                    del by_shape[shape]  # What is remembered of a shape lives as long as a job waits with it.
                for group in bounds.unrefused(queue, priority, by_shape) if priority > above else ():
                    self.live.ordering.wake_bounded(group)

    def _helped_by(self, pool: int, marks: Set[Mark]) -> Iterator[tuple[int, int]]:
        """The queues that what changed may help, with the priority above which it may."""
        is_freed, is_reclaimable = Freed(pool) in marks, Reclaimable(pool) in marks and self.live.policy.reclaims
        preemptible: dict[int, int] = {}  # By queue, the lowest priority of what may leave for higher ones by now.
        for mark in marks:
            if isinstance(mark, Preemptible):
                preemptible[mark.queue] = min(mark.priority, preemptible.get(mark.queue, mark.priority))
        for queue in list(self._refused.get(pool, ())):
            if not self.has_refused(pool, queue, ANY):
                del self._refused[pool][queue]  # Nothing is kept of those that wait no longer.
                continue
            is_any = is_freed or (is_reclaimable and self.live.shares.may_reach(queue, pool))
            above = ANY if is_any else preemptible.get(queue)
            if above == ANY or (above is not None and self.has_refused(pool, queue, above)):
                yield queue, above

    def _bounds_of(self, pool: int) -> Bounds:
        """What may be had in a pool now; found out once until something changes."""
        at = (self.live.machines.version, self.live.shares.version, self.reservations.version)
        if self._bounds_at != at:
            self._bounds_at = at
            self._bounds.clear()
        bounds = self._bounds.get(pool)
        if bounds is None:
            bounds = self._bounds[pool] = Bounds(self.live, self.advance, self.reservations, self.placements, pool)
        return bounds

    def forget(self, pool: int, shape: Shape) -> None:
        """More is known of the room for a shape."""
        bounds = self._bounds.get(pool)
        if bounds is not None:
            bounds.forget(shape)

    def may_go_on(self, group: Group) -> bool:
        """Whether the bounds still do not refuse a group that they woke."""
        shape = group.shape
        for pool in shape.touches:
            bounds = self._bounds_of(pool)
            if bounds.room(shape) and bounds.has_limits(group.queue, shape):
                return True
            if bounds.may_evict(group):
                return True
        return False


class Bounds:
    """What may be had at most in one pool at one moment."""

    def __init__(
        self, live: Live, advance: AdvanceReservations, reservations: BackfillReservations, placements: Placements, pool: int
    ) -> None:
        self.live = live
        self.advance = advance
        self.reservations = reservations
        self.placements = placements
        self.pool = pool
        free = live.machines.free(pool)
        self.hidden: dict[int, Amounts] = reservations.hidden_on(pool) if reservations else {}
        cpu, memory, gpu = self.visible = (free.cpu_millis, free.memory_bytes, free.gpu_millis)
        for more in self.hidden.values():
            cpu, memory, gpu = cpu + more[0], memory + more[1], gpu + more[2]
        self.free: Amounts = (cpu, memory, gpu)
        self._reserved = reservations.of(pool) if self.hidden else []
        self._opens: dict[tuple[int, int], bool] = {}
        self._unhidden: list[MachineClass] = [reservations.unhidden_class(machine) for machine in self.hidden]
        self._rooms: dict[Shape, int] = {}
        self._limits: dict[tuple[int, Shape], bool] = {}
        self._may_reach: dict[int, bool] = {}
        self._victims: dict[tuple[int, int], tuple[VictimCandidates, Amounts] | None] = {}
        self._evicts: dict[tuple[int, int, Shape], bool] = {}
        self._lacking: dict[Shape, tuple[int, Ranking | None]] = {}
        self._sorted: tuple[list[Shape], list[tuple[Amounts, int, Shape]]] | None = None

    def unrefused(self, queue: int, priority: int, by_shape: ByShape) -> Iterator[Group]:
        """The groups of a queue and priority that no bound refuses."""
        if self._sorted is None:
            self._sorted = self._sort()
        roomy, crowded = self._sorted
        for shape in roomy:
            groups = by_shape.get(shape)
            if not groups:
                continue
            room = self.room(shape) if self.has_limits(queue, shape) else NONE
            if room == VISIBLE or self.may_evict(next(iter(groups))):
                yield from groups
            elif room:
                yield from filter(self._may_take_reserved, groups)
        (candidates, most), is_open = self._victims_of(queue, priority) or (None, LESS_THAN_ANY), self._is_open(queue, priority)
        gains = candidates.gains(self.live.machines) if candidates is not None and not is_open else NO_GAINS
        claimed, free = LESS_THAN_ANY, self.free if is_open else self.visible
        if self._reaches(queue):
            held = self.live.evictable.held(self.pool)
            claimed = (free[0] + held[0], free[1] + held[1], free[2] + held[2])
        gpu = max(most[2], claimed[2])
        for (need_cpu, need_memory, need_gpu), lacking, shape in crowded:
            if need_gpu > gpu:
                break
            gain = gains.get(shape.number)
            if gain is None or gain[1] >= lacking:
                may_help = need_gpu <= most[2] and need_cpu <= most[0] and need_memory <= most[1]
            else:
                may_help = False
            if may_help or (need_gpu <= claimed[2] and need_cpu <= claimed[0] and need_memory <= claimed[1]):
                groups = by_shape.get(shape)
                if groups and self.may_evict(next(iter(groups))):
                    yield from groups

    def _sort(self) -> tuple[list[Shape], list[tuple[Amounts, int, Shape]]]:
        """The shapes that wait: those for which there may be room, and the others with what they need and how many of their tasks
        lack it, those that need few GPUs first."""
        waiting = [shape for shape in self.live.ordering.by_shape if self.pool in shape.touches]
        crowded = [(shape.inside[self.pool], self._lack(shape)[0], shape) for shape in waiting if not self.room(shape)]
        return [shape for shape in waiting if self.room(shape)], sorted(crowded, key=lambda entry: entry[0][2])

    def may_evict(self, group: Group) -> bool:
        """Whether there might be victims enough for a group."""
        at = (group.queue, group.priority, group.shape)
        is_possible = self._evicts.get(at)
        if is_possible is None:
            is_possible = self._evicts[at] = self._may_evict(group)
        return is_possible

    def _may_evict(self, group: Group) -> bool:
        queue, shape = group.queue, group.shape
        need = shape.inside.get(self.pool)
        if need is None:
            return True
        victims = self._victims_of(queue, group.priority)
        if victims is not None:
            candidates, most = victims
            fits = need[2] <= most[2] and need[0] <= most[0] and need[1] <= most[1]
            if fits and self._is_enough(shape, candidates, self._is_open(queue, group.priority)):
                return True
        return self._reaches(queue) and self._may_claim(group, need)

    # --- Room and limits ----------------------------------------------------------------------------------------------

    def room(self, shape: Shape) -> int:
        """Whether there may be room: as things are (`VISIBLE`), or with what is hidden for reserved starts (`HIDDEN`), or not."""
        room = self._rooms.get(shape)
        if room is None:
            room = self._rooms[shape] = self._room(shape)
        return room

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
        cached = self.placements.get(pool, shape)
        if cached is None or not cached.is_true(live.machines, pool):
            return VISIBLE
        if self.hidden and cached.most(live.machines, pool) + self._copies_unhidden(shape) >= shape.gang.roles[0].minimum:
            return HIDDEN
        return NONE

    def _copies_unhidden(self, shape: Shape) -> int:
        """How many tasks machines take once nothing is hidden on them."""
        ranking = ranking_of(self.live.machines, self.pool, shape.gang.roles[0].ask)
        return 0 if ranking is None else sum(copies(machine_class, ranking.shape) for machine_class in self._unhidden)

    def has_limits(self, queue: int, shape: Shape) -> bool:
        """Whether limits allow a gang in one of its pools."""
        allows = self._limits.get((queue, shape))
        if allows is None:
            room = self.live.shares.room
            allows = self._limits[queue, shape] = any(
                not any(isinstance(room(queue, at, amount), Refusal) for at, amount in need) for need in shape.least.values()
            )
        return allows

    def _may_take_reserved(self, group: Group) -> bool:
        """Whether a group may have some of what is hidden for reserved starts, or has such a start."""
        reservations, first = self.reservations, group.first()
        if first is None or first[1].id in reservations.by_job:
            return True
        job, reserved = first[1], reservations.of(self.pool)
        ends = ends_if_started(job, self.live.now, self.live.policy)
        if any(ends.until(reservation) <= reservation.at for reservation in reserved):
            return True  # It fits in before them.
        return bool(reservations.weaker(job, self.pool, Standing.GUARANTEED))

    # --- Victims ------------------------------------------------------------------------------------------------------

    def _reaches(self, queue: int) -> bool:
        """Whether a queue may get something back from others."""
        may_reach = self._may_reach.get(queue)
        if may_reach is None:
            may_reach = self._may_reach[queue] = self.live.policy.reclaims and self.live.shares.may_reach(queue, self.pool)
        return may_reach

    def _is_open(self, queue: int, priority: int) -> bool:
        """Whether work of a queue and priority may have what is hidden for a reserved start, or has a reserved start itself."""
        at = (queue, priority)
        is_open = self._opens.get(at)
        if is_open is None:
            yields = bool(self.advance) or any(self._yields(reservation, queue, priority) for reservation in self._reserved)
            is_open = self._opens[at] = bool(self._reserved) and yields
        return is_open

    def _yields(self, reservation: BackfillReservation, queue: int, priority: int) -> bool:
        if reservation.job.queue == queue:
            return priority >= reservation.job.priority
        return reservation.standing is Standing.BORROWED and self._reaches(queue)

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
        return is_open or Search(live, self.advance, self.placements, first[1], shape, pool).could_do()

    def _victims_of(self, queue: int, priority: int) -> tuple[VictimCandidates, Amounts] | None:
        """The work of a queue that makes room for a higher priority, and the most that there is with what is free; None where
        there is no such work."""
        at = (queue, priority)
        if at not in self._victims:
            self._victims[at] = self._find_victims(queue, priority)
        return self._victims[at]

    def _find_victims(self, queue: int, priority: int) -> tuple[VictimCandidates, Amounts] | None:
        evictable, free = self.live.evictable, self.free if self._is_open(queue, priority) else self.visible
        lowest = min(evictable.priorities.get((self.pool, queue), ()), default=priority)
        if not self.live.policy.preempts or lowest >= priority:
            return None
        candidates = evictable.candidates(self.pool, queue, priority)
        cpu, memory, gpu = candidates.sums
        return (candidates, (free[0] + cpu, free[1] + memory, free[2] + gpu)) if candidates.gangs else None

    def _is_enough(self, shape: Shape, candidates: VictimCandidates, is_open: bool) -> bool:
        """Whether there might be room without these, machine by machine."""
        lack = self._lacking.get(shape)
        if lack is None:
            lack = self._lacking[shape] = self._lack(shape)
        lacking, ranking = lack
        if lacking <= 0 or ranking is None:
            return lacking <= 0
        if not is_open:
            return candidates.gain(self.live.machines, ranking, shape.number) >= lacking
        wanted = lacking - self._copies_unhidden(shape)
        return takes_more(self.live.machines, ranking, shape.gang.roles[0], wanted, candidates.freed, self.hidden)

    def _lack(self, shape: Shape) -> tuple[int, Ranking | None]:
        """How many of a gang's tasks have no room, at least; 0 or less: none, as far as is known. Without a ranking no machine is
        such as it asks for."""
        machines, role = self.live.machines, shape.gang.roles[0]
        cached = self.placements.get(self.pool, shape)
        if cached is None or not shape.is_counted:
            return 0, None
        ranking = ranking_of(machines, self.pool, role.ask)
        return (role.minimum, None) if ranking is None else (role.minimum - cached.most(machines, self.pool), ranking)
