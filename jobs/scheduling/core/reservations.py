"""Reserved starts: when and where the first waiting jobs will start, and what other jobs may still do before that.

The ideal: of each pool the first refused gangs in fair order (`Policy.backfill_depth` of them; 1 is EASY backfill, all is
conservative) have a start at the earliest moment at which, by the maximum run times of what runs, all of the gang has its place;
no other job that starts may delay it. How that is kept without asking about the future at every placement:

- A gang whose maximum run time is not known never ends here. `Policy.overrun_seconds` are added to the others.
- What a gang with a reserved start will need of a machine and what does not become free there in time is *hidden*: held, as if it
  were taken. So all else sees only room that it may have for ever, and every memory of what does not fit stays true.
- A gang that surely ends before a reserved start is asked a second time, with the room that it may use visible (`seen_by`).
- A start that is sure is kept until it becomes earlier, or reality breaks it: a machine is lost, a limit lowered, or a gang of
  its own queue and higher priority, or a gang that is owed the room, takes it. Then it is told why (`Reserve.cause`), and
  reserved anew. Another is a plan: it is thrown away and planned anew in each period (`begin_period`).
- Limits are looked at on the side: what starts must leave the gang with a reserved start its room in them at the moment of its
  start.

`planning.py` walks along the ends of what runs, at most `ENDS_MAX` of them, and asks for a place only where there is one by
counting.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from heapq import nsmallest
from itertools import islice

from jobs.scheduling.core.advance import AdvanceReservations
from jobs.scheduling.core.place.gangs import Placed, at_least
from jobs.scheduling.core.place.machines import WHOLE_MILLIS, MachineClass
from jobs.scheduling.core.place.placing import has_place
from jobs.scheduling.core.placements import Placements
from jobs.scheduling.core.planned_ends import PlannedEnds
from jobs.scheduling.core.planning import Plan, Reserved
from jobs.scheduling.core.state.decisions import Reserve
from jobs.scheduling.core.state.evictable import Amounts
from jobs.scheduling.core.state.held_room import hold, release
from jobs.scheduling.core.state.live import Live
from jobs.scheduling.core.state.reservation import (
    FOREVER,
    NEVER,
    BackfillReservation,
    Ends,
    KeptReservation,
    Room,
    covers,
    ends_if_started,
    held_rooms_of,
    order_of,
    reservation_of,
)
from jobs.scheduling.core.state.user_caps import least
from jobs.scheduling.core.state.work import (
    HeldRoom,
    JobAsk,
    Need,
    Running,
    Shape,
    give_shares,
    held_by,
    held_together,
    take_shares,
)
from tenants.capacity.quota.caps import Held
from tenants.capacity.quota.shares import Standing

PART = 128  # How many of the gangs that end before a reserved start are counted as gone at once, until limits have room.
TRIES_MAX = 4  # Gangs per pass and pool for which a start is looked for, until the next in line may.


@dataclass(slots=True)
class Sight:
    """Machines as a gang may see them while it is tried whether it can start. `is_wider`: something is visible that is hidden
    from others; `stands`, set by who tries: something was placed that stays."""

    is_wider: bool = True
    stands: bool = False


class BackfillReservations(PlannedEnds):
    """All reserved starts, and the room that is hidden for them."""

    def __init__(self, live: Live, advance: AdvanceReservations, placements: Placements) -> None:
        super().__init__(live)
        self.advance = advance
        self.placements = placements
        self.by_job: dict[str, BackfillReservation] = {}
        self.version = 0  # Grows with every start that is reserved, or is no more.
        self.broken: list[Reserve] = []  # What is to be told of those that were not kept.
        self.without_start: set[str] = set()  # Jobs for which no start was found in this period.
        self.removed: dict[int, int] = {}  # By pool, how many starts came or were dropped.
        self._period = -1
        self._is_freed = False  # Whether something became free in this period.
        self._by_machine: dict[int, list[BackfillReservation]] = {}
        self._held_rooms: dict[int, tuple[HeldRoom, ...]] = {}
        self._suspended: frozenset[str] = frozenset()
        self._taker: tuple[str, frozenset[str]] = ("", frozenset())  # A job, and whose reserved starts yield to it.
        self._evicted: frozenset[str] = frozenset()  # Jobs that would be evicted, while that is tried.
        self._unhidden: dict[int, tuple[HeldRoom, ...]] = {}  # By machine made visible for a placement, what was hidden there.
        self._counts: dict[int, int] = {}
        self._known_refused: set[tuple[int, int, int, str]] = set()  # What was asked with room made visible, and refused.
        self._blocked: dict[tuple[int, int], int] = {}

    def __bool__(self) -> bool:
        return bool(self.by_job)

    def plan_overdue(self) -> None:
        """Ends that were planned and did not come are planned anew."""
        touched = self._plan_overdue()
        if touched:
            self.live.changes.free({self.live.machines.at[machine].pool for machine in touched if machine in self._by_machine})
            self.settle(touched, "overrun")

    # --- What is reserved -----------------------------------------------------------------------------------------------

    def count(self, pool: int) -> int:
        return self._counts.get(pool, 0)

    def of(self, pool: int) -> list[BackfillReservation]:
        return sorted((reservation for reservation in self.by_job.values() if reservation.pool == pool), key=order_of)

    def due(self, now: int) -> list[BackfillReservation]:
        return sorted((reservation for reservation in self.by_job.values() if reservation.at <= now), key=order_of)

    @property
    def next_at(self) -> int | None:
        """When the first of them comes, or one that is sure is asked whether it could be earlier."""
        moments = [reservation.at for reservation in self.by_job.values()]
        if self._is_freed and self.first():
            moments.append((self._period + 1) * self.live.policy.replan_seconds)
        return min(moments, default=None)

    def is_vacant(self, pool: int) -> bool:
        """Whether a start more could be reserved in a pool: where an end is known, and not all places are taken."""
        return bool(self._ends.get(pool)) and self.count(pool) < self.live.policy.backfill_depth

    def first(self) -> list[BackfillReservation]:
        """The first sure ones to come: those that are asked whether they could be earlier."""
        return nsmallest(TRIES_MAX, filter(lambda reservation: reservation.is_sure, self.by_job.values()), key=order_of)

    def add(self, reservation: BackfillReservation) -> None:
        self.by_job[reservation.job.id] = reservation
        self.version += 1
        self._counts[reservation.pool] = self._counts.get(reservation.pool, 0) + 1
        if self.advance:
            self.advance.reserved(reservation)
        for machine in reservation.needs:
            insort(self._by_machine.setdefault(machine, []), reservation, key=order_of)
        self.settle(reservation.needs)

    @contextmanager
    def starting(self, job_id: str) -> Iterator[None]:
        """A start that may be reserved comes; what was kept for it is there again once it is done."""
        reservation = self._remove(job_id)
        yield
        if reservation is not None:
            self.settle(reservation.needs)

    def drop(self, job_id: str, cause: str = "") -> None:
        """A start is reserved no more, with a cause to report where it is not empty."""
        reservation = self._remove(job_id)
        if reservation is None:
            return
        if cause and reservation.is_sure:
            taker, yielding = self._taker
            self.broken.append(Reserve(job_id, 0, (), cause, by=taker if cause == "yielded" and job_id in yielding else ""))
        self.settle(reservation.needs, cause or "yielded")

    def _remove(self, job_id: str) -> BackfillReservation | None:
        reservation = self.by_job.pop(job_id, None)
        if reservation is None:
            return None
        self.version += 1
        self._counts[reservation.pool] -= 1
        self.removed[reservation.pool] = self.removed.get(reservation.pool, 0) + 1
        self.without_start.clear()
        for machine in reservation.needs:
            left = [other for other in self._by_machine[machine] if other is not reservation]
            if left:
                self._by_machine[machine] = left
            else:
                del self._by_machine[machine]
        if self.advance:
            self.advance.left(job_id, [pool for pool, _ in reservation.need])
        # Its room in limits is others' now, and in caps on users, which hold in all pools.
        self.live.changes.free(self.live.machines.pools if self.live.holdings else (pool for pool, _ in reservation.need))
        return reservation

    def restore(self, kept: KeptReservation) -> None:
        """Reserve a start again that was reserved before."""
        job = self.live.ordering.job(kept.id)
        if job is None or kept.pool not in job.pools or not self.live.policy.backfill_depth:
            return
        if any(task.machine >= len(self.live.machines.at) for task in kept.tasks):
            return
        shape, machines = self.live.shapes.of(job.gang, job.pools), self.live.machines.at
        placed = Placed(kept.pool, kept.tasks)
        if held_by(placed, (machines[task.machine].pool for task in kept.tasks)) != shape.least[kept.pool]:
            return  # It asks for something else by now.
        ends = ends_if_started(job, kept.at, self.live.policy)
        self.add(reservation_of(job, shape, kept.pool, kept.at, ends, kept.tasks, kept.standing, is_sure=True))

    def kept(self) -> tuple[KeptReservation, ...]:
        """The sure ones, as values."""
        return tuple(
            KeptReservation(reservation.job.id, reservation.pool, reservation.at, reservation.tasks, reservation.standing)
            for reservation in sorted(self.by_job.values(), key=order_of)
            if reservation.is_sure
        )

    def begin_period(self) -> bool:
        """Once in `Policy.replan_seconds` of the clock, drop all planned starts and forget for whom none was found, so that both
        are planned anew; whether that was now."""
        every = self.live.policy.replan_seconds
        period = self.live.now // every if every else -1
        if period == self._period and every:
            return False
        self._period, self._is_freed = period, False
        self.without_start.clear()
        for name in [name for name, reservation in self.by_job.items() if not reservation.is_sure]:
            self.drop(name)
        return True

    # --- What is hidden -----------------------------------------------------------------------------------------------

    def settle(self, machines: Iterable[int], cause: str = "yielded") -> None:
        """Hide on these machines what has to be hidden now; a start that cannot be kept any more is dropped."""
        grown: set[int] = set()
        lost: list[BackfillReservation] = []
        for machine in sorted(set(machines)):
            if machine not in self._by_machine and machine not in self._held_rooms:
                continue
            before = self._held_rooms.pop(machine, ())
            release(self.live.machines, before)
            before = self._unhidden.pop(machine, before)
            after = self._hidden(machine, NEVER, "")
            lost += [reservation for reservation in self._by_machine.get(machine, ()) if not self._is_kept(reservation, machine)]
            hold(self.live.machines, after)
            if after:
                self._held_rooms[machine] = after
            if before != after:
                self._known_refused.clear()
                self._blocked.clear()
                if not covers(after, before):
                    grown.add(machine)
        if grown:
            pools = self.placements.room_grew(grown)
            if not self._suspended:
                self.live.changes.free(pools)
        lost = [reservation for reservation in lost if reservation.job.id not in self._suspended]
        if lost:  # Where several had counted with one another, those are kept that have their room without the weakest.
            self.drop(max(lost, key=self._weakness).job.id, cause)
            self.settle({machine for reservation in lost for machine in reservation.needs}, cause)

    def hidden_on(self, pool: int) -> dict[int, Amounts]:
        """By machine of a pool what is hidden there: free for jobs that may take it from those for which it is hidden."""
        at, hidden = self.live.machines.at, {}
        for machine, held in self._held_rooms.items():
            if at[machine].pool == pool:
                hidden[machine] = (
                    sum(held.cpu_millis for held in held),
                    sum(held.memory_bytes for held in held),
                    sum(held.gpu_millis for held in held),
                )
        return hidden

    def unhidden_class(self, machine: int) -> MachineClass:
        """What a machine would be like if nothing were hidden on it."""
        here, devices = self.live.machines.class_of[machine], list(self.live.machines.devices[machine])
        cpu, memory, tasks = here.cpu, here.memory, here.tasks
        for held in self._held_rooms[machine]:
            cpu, memory = cpu + held.cpu_millis, memory + held.memory_bytes
            tasks = None if tasks is None else tasks + held.tasks
            for device in held.devices:
                devices[device] += min(held.gpu_millis, WHOLE_MILLIS)
        return MachineClass(here.kind, here.kind_number, cpu, memory, tuple(sorted(devices)), tasks)

    def freed(self, machines: Collection[int], need: Need) -> None:
        """What was held on these machines, and of these pools, is free: reserved starts may come earlier."""
        pools = [pool for pool, _ in need]
        self.live.changes.note(machines)
        self.live.changes.free(pools)
        self.forget_refused()
        self._is_freed = True

    def counts_on(self, running: Running, but: JobAsk) -> bool:
        """Whether another's reserved start counts on the end of a gang, or on where it stands."""
        if (
            any(other.is_sure and other.job.id != but.id for other in self.by_job.values())
            and running.job.max_runtime is not None
        ):
            return True
        here = {task.machine for task in running.placed.tasks}
        return any(other.job.id != but.id for machine in here for other in self._by_machine.get(machine, ()))

    def counts_on_end(self, running: Running, but: Collection[str]) -> bool:
        """Whether a reserved start needs the room that a gang leaves before it, on one of the machines of both."""
        ends = self.ends_of(running)
        return any(
            ends.until(other) <= other.at and other.job.id not in but
            for machine in {task.machine for task in running.placed.tasks}
            for other in self._by_machine.get(machine, ())
        )

    @contextmanager
    def without(self, names: Collection[str], taker: str = "", yielding: Collection[str] = ()) -> Iterator[Sight]:
        """Hide nothing for these during the block: the taker may have it. `yielding`: those that it may end besides."""
        self._suspended = frozenset(names)
        self._taker = (taker, self._suspended.union(yielding))
        self.settle({machine for name in names if name in self.by_job for machine in self.by_job[name].needs})
        yield (sight := Sight())
        self._suspended = frozenset()
        self.settle({machine for name in names if name in self.by_job for machine in self.by_job[name].needs})
        if sight.stands:  # Limits are others, too.
            self.recheck_limits("yielded")
        self._taker = ("", frozenset())

    def _weakness(self, reservation: BackfillReservation) -> tuple[bool, int, str]:
        """The order in which starts are dropped, the greatest first: those that yield to a taker, then the latest."""
        return (reservation.job.id in self._taker[1], *order_of(reservation))

    def below(self, job: JobAsk) -> list[str]:
        """The reserved starts of all but the higher priorities of a job's own queue."""
        return [
            name
            for name, reservation in self.by_job.items()
            if reservation.job.queue != job.queue or reservation.job.priority <= job.priority
        ]

    def weaker(self, job: JobAsk, pool: int, standing: Standing | None) -> list[str]:
        """The jobs whose reserved starts a gang may take, because it could evict them if they ran already."""
        policy = self.live.policy
        is_owner = bool(self.advance) and self.advance.is_owner(job, pool)
        is_owed = policy.reclaims and standing in (Standing.GUARANTEED, Standing.DESERVED)
        jobs = []
        for reservation in self.of(pool):
            if reservation.job.queue == job.queue:
                yields = policy.preempts and job.priority > reservation.job.priority
            else:
                yields = is_owed and reservation.standing is Standing.BORROWED
            if (yields or (is_owner and not self.advance.is_owner(reservation.job, pool))) and reservation.job.id != job.id:
                jobs.append(reservation.job.id)
        return jobs

    @contextmanager
    def seen_by(self, job: JobAsk, pool: int) -> Iterator[Sight]:
        """Make visible, during the block, what a gang that starts now need not leave alone."""
        ends = ends_if_started(job, self.live.now, self.live.policy)
        machines = self.live.machines
        changes = []
        for machine, before in self._held_rooms.items():
            if machines.at[machine].pool == pool:
                after = self._hidden_under(machine, before, ends, job.id)
                if after != before:
                    changes.append((machine, before, after))
        if not changes:
            yield Sight(is_wider=False)
            return
        mark = machines.mark()
        for _, before, after in sorted(changes):
            release(machines, before)
            hold(machines, after)
        yield (sight := Sight())
        if not sight.stands:
            machines.rewind(mark)
            return
        machines.settle(mark)
        for machine, before, after in changes:
            self._held_rooms[machine] = after
            self._unhidden.setdefault(machine, before)

    def settle_with(self, machines: Iterable[int]) -> None:
        """The same as `settle`, with all machines that were made visible for what has just been placed."""
        self.settle({*self._unhidden, *machines})

    def is_known_refused(self, job: JobAsk, shape: Shape, pool: int) -> bool:
        return self._refusal_key(job, shape, pool) in self._known_refused

    def remember_refused(self, job: JobAsk, shape: Shape, pool: int) -> None:
        self._known_refused.add(self._refusal_key(job, shape, pool))

    def forget_refused(self) -> None:
        """Something became free, so what was refused with room made visible may be asked again."""
        self._known_refused.clear()
        self._blocked.clear()

    def blocked_until(self, shape: Shape, pool: int) -> int:
        """The first reserved start without which, and those after it, a gang would have its place now; 0: that is not why."""
        until = self._blocked.get((shape.number, pool))
        if until is None:
            until = self._blocked[shape.number, pool] = self._find_blocked(shape, pool)
        return until

    def _find_blocked(self, shape: Shape, pool: int) -> int:
        machines = self.live.machines
        hidden = [
            (machine, held_rooms) for machine, held_rooms in sorted(self._held_rooms.items()) if machines.at[machine].pool == pool
        ]
        if not hidden:
            return 0
        mark = machines.mark()
        for _, held_rooms in hidden:
            release(machines, held_rooms)
        would_fit = has_place(at_least(shape.gang), machines, pool)
        machines.rewind(mark)
        return min((reservation.at for reservation in self.of(pool)), default=0) if would_fit else 0

    def _refusal_key(self, job: JobAsk, shape: Shape, pool: int) -> tuple[int, int, int, str]:
        ends = ends_if_started(job, self.live.now, self.live.policy)
        later = sum(reservation.at >= ends.until(reservation) for reservation in self.by_job.values())
        return (shape.number, pool, later, job.id if job.id in self.by_job else "")

    def _hidden(self, machine: int, ends: Ends, but: str) -> tuple[HeldRoom, ...]:
        """What must be left alone by a gang that would hold a machine until then; nothing is hidden on it now.

        At each reserved start before that: what all need that hold the machine then, without what becomes free by then.
        """
        reservations = [
            reservation
            for reservation in self._by_machine.get(machine, ())
            if reservation.job.id != but and reservation.job.id not in self._suspended
        ]
        most = Room(0, 0, {})
        for reservation in reservations:
            if reservation.at < ends.until(reservation):
                short = self._short(machine, reservation, reservations)
                most.cpu, most.memory = max(most.cpu, short.cpu), max(most.memory, short.memory)
                most.tasks = max(most.tasks, short.tasks)
                for device, millis in short.devices.items():
                    most.devices[device] = max(most.devices.get(device, 0), millis)
        here, devices = self.live.machines.class_of[machine], self.live.machines.devices[machine]
        free = {device: min(millis, devices[device]) for device, millis in most.devices.items() if device < len(devices)}
        tasks = 0 if here.tasks is None else min(most.tasks, here.tasks)
        return held_rooms_of(machine, min(most.cpu, here.cpu), min(most.memory, here.memory), free, tasks)

    def _hidden_under(self, machine: int, before: Sequence[HeldRoom], ends: Ends, but: str) -> tuple[HeldRoom, ...]:
        """The same while something is hidden; that is left as it is."""
        if all(
            reservation.at < ends.until(reservation) and reservation.job.id != but
            for reservation in self._by_machine.get(machine, ())
        ):
            return tuple(before)
        mark = self.live.machines.mark()
        release(self.live.machines, before)
        hidden = self._hidden(machine, ends, but)
        self.live.machines.rewind(mark)
        return hidden

    def _short(self, machine: int, reservation: BackfillReservation, reservations: Sequence[BackfillReservation]) -> Room:
        """What is needed of a machine at a reserved start beyond what becomes free there by then. A start that is sure counts on
        no other that is not: the other begins only where there is room beside it."""
        short = Room(0, 0, {})
        for other in reservations:
            if other.at <= reservation.at < other.ends.until(reservation) and (other.is_sure or not reservation.is_sure):
                need = other.needs[machine]
                short.cpu, short.memory = short.cpu + need.cpu, short.memory + need.memory
                short.tasks += need.tasks
                for device, millis in need.devices.items():
                    short.devices[device] = short.devices.get(device, 0) + millis
        for running in self._on.get(machine, {}).values():
            if self.ends_of(running).until(reservation) <= reservation.at:
                for task in running.placed.tasks:
                    if task.machine == machine:
                        short.cpu, short.memory = short.cpu - task.ask.cpu_millis, short.memory - task.ask.memory_bytes
                        short.tasks -= 1
                        for device in task.devices:
                            if device in short.devices:
                                short.devices[device] -= min(task.ask.gpu_millis, WHOLE_MILLIS)
        return short

    def _is_kept(self, reservation: BackfillReservation, machine: int) -> bool:
        """Whether a machine, with nothing hidden on it, has what a reserved start needs there by then."""
        machines = self.live.machines
        if machines.at[machine].blocked:
            return False
        reservations = [other for other in self._by_machine[machine] if other.job.id not in self._suspended]
        short = self._short(machine, reservation, reservations)
        here, devices = machines.class_of[machine], machines.devices[machine]
        if short.cpu > here.cpu or short.memory > here.memory or (here.tasks is not None and short.tasks > here.tasks):
            return False
        return all(device < len(devices) and millis <= devices[device] for device, millis in short.devices.items())

    # --- Limits -------------------------------------------------------------------------------------------------------

    def denies(
        self, job: JobAsk, need: Need, tasks: int, but: Collection[str] = (), *, ends: Ends | None = None
    ) -> BackfillReservation | None:
        """The reserved start whose room in limits a gang would take that starts now; None when it delays none."""
        holdings, shares = self.live.holdings, self.live.shares
        ends = ends or ends_if_started(job, self.live.now, self.live.policy)
        pools = {pool for pool, _ in need}
        for reservation in sorted(self.by_job.values(), key=order_of):
            if reservation.job.id == job.id or reservation.job.id in but or ends.until(reservation) <= reservation.at:
                continue
            if holdings:
                ask = Held(sum(amount[2] for _, amount in need), 1, tasks)
                if holdings.is_delayed(reservation.job, least(reservation.shape.gang), job, ask):
                    return reservation
            common = [
                pool for pool, _ in reservation.need if pool in pools and shares.may_bind(job.queue, reservation.job.queue, pool)
            ]
            if not common:
                continue
            take_shares(shares, job.queue, need)
            leaves_room = self._has_limits(reservation)
            give_shares(shares, job.queue, need)
            if not leaves_room:
                return reservation
        return None

    def denies_evicting(
        self, job: JobAsk, need: Need, tasks: int, victims: Sequence[Running], but: Collection[str]
    ) -> BackfillReservation | None:
        """The reserved start whose room in limits a gang would take that claims that of these; None when it delays none. When a
        claim ends is not known before it starts."""
        shares, self._evicted = self.live.shares, frozenset(victim.job.id for victim in victims)
        for victim in victims:
            give_shares(shares, victim.job.queue, victim.need)
        denied = self.denies(job, need, tasks, but, ends=NEVER)
        for victim in victims:
            take_shares(shares, victim.job.queue, victim.need)
        self._evicted = frozenset()
        return denied

    def freed_for(self, reservation: BackfillReservation) -> set[str]:
        """The jobs on whose ends a reserved start counts for its limits."""
        return {running.job.id for running in self._freed_by(reservation)}

    def recheck_limits(self, cause: str = "limits") -> None:
        """After limits changed, or what is held by a right: what they do not allow any more is not reserved."""
        for reservation in sorted(self.by_job.values(), key=self._weakness, reverse=True):
            if not self._has_limits(reservation):
                self.drop(reservation.job.id, cause)

    def recheck_bookings(self) -> None:
        """After tenants booked something else for a time: what would be in the way is not reserved any more."""
        for reservation in sorted(self.by_job.values(), key=order_of):
            if not self.advance.may_reserve(reservation.job, reservation.need, reservation.at):
                self.drop(reservation.job.id, "limits")

    def _has_limits(self, reservation: BackfillReservation) -> bool:
        """Whether limits will have room for a reserved start, with all others that are reserved and hold something then."""
        shares = self.live.shares
        ended = (running for running in self._freed_by(reservation) if running.job.id not in self._evicted)
        others = [
            other
            for other in self.by_job.values()
            if other is not reservation
            and other.at <= reservation.at < other.ends.until(reservation)
            and (other.is_sure or not reservation.is_sure)
        ]
        for other in others:
            take_shares(shares, other.job.queue, other.need)
        has_room = self.live.has_room(reservation.job.queue, reservation.need)
        freed: list[tuple[int, Need]] = []
        while not has_room and (part := held_together(islice(ended, PART))):  # What is freed never makes a limit refuse.
            for queue, need in part:
                give_shares(shares, queue, need)
            freed += part
            has_room = self.live.has_room(reservation.job.queue, reservation.need)
        for queue, need in freed:
            take_shares(shares, queue, need)
        for other in others:
            give_shares(shares, other.job.queue, other.need)
        return has_room

    # --- Planning -----------------------------------------------------------------------------------------------------

    def plan(self, job: JobAsk, shape: Shape, before: int = FOREVER) -> BackfillReservation | None:
        """The earliest start before a moment that can be reserved for a gang, in whichever of its pools it comes first."""
        best: BackfillReservation | None = None
        reserved = Reserved(self.by_job.values(), self._held_rooms.values(), self._ends)
        for pool in shape.pools:
            if self._ends.get(pool):
                reservation = Plan(self.live, self.advance, reserved, job, shape, pool).run(before if best is None else best.at)
                best = reservation or best
        return best
