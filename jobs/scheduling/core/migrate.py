"""Small gangs go on elsewhere so that a gang starts that fits in total but not in shape (defragmentation by migration).

Nobody has a right to such a move, so it has to be worth it, and harm nobody:

- Only gangs that are smaller than the one that waits, of no higher priority, that may be evicted and have run for twice the least
  run time: so nothing is moved more than a few times an hour.
- Across tenants never what runs on a guarantee, nor what a tenant has booked for a time.
- Nothing that booked starts of others count on; where such a start is known, only gangs without a known end move.
- What all of them lose (since their last checkpoint, and their grace) is less than what the gang has waited in GPU-seconds, or
  still would have to until its own booked start.
- A bounded number (`Policy.migrations`), within the brake on evictions, and only where all of them have a place, too
  (`defragment.py`); only those are considered that would have one as things are.

The room that a moved gang gets is its seat (`seats.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from jobs.scheduling.core.advance import AdvanceReservations
from jobs.scheduling.core.defragment import Defragmented, defragment
from jobs.scheduling.core.place.gangs import GangAsk, Placed
from jobs.scheduling.core.place.machines import WHOLE_MILLIS
from jobs.scheduling.core.place.placing import place
from jobs.scheduling.core.reservations import BackfillReservations
from jobs.scheduling.core.seats import movable_of
from jobs.scheduling.core.state.live import Live
from jobs.scheduling.core.state.work import Job, Running, Shape, give_shares, take_shares
from tenants.quota.shares import Refusal, Standing

MACHINES_MAX = 24  # Of a pool that are considered for one gang: those that few and cheap moves make fit for one task more.
TRIES_MAX = 64


class Migration(NamedTuple):
    """Who moves, and what each of them loses by it."""

    moved: list[Running]
    cost: dict[str, int]


class Migrations:
    """The search for gangs that move for another."""

    def __init__(self, live: Live, windows: AdvanceReservations, reservations: BackfillReservations) -> None:
        self.live = live
        self.windows = windows
        self.reservations = reservations

    def find(self, job: Job, shape: Shape, pool: int) -> Migration | None:
        """Whose move lets this one start; None where nobody's does, or where it is not worth it."""
        live, now = self.live, self.live.now
        if now - job.submitted_at < live.policy.migrates_after_seconds or not self._could_fit(shape, pool):
            return None
        need = shape.least[pool]
        if isinstance(live.room(job.queue, need), Refusal):
            return None
        if self.windows and self.windows.refusal(job, need, now, delay=live.policy.grace_seconds) is not None:
            return None
        own = [job.id] if job.id in self.reservations.by_job else []
        if self.reservations.denies(job, need, sum(role.minimum for role in shape.gang.roles), own) is not None:
            return None
        moved = self._find(job, shape, pool, now)
        return Migration(moved, {one.job.id: self._cost(one, now) for one in moved}) if moved else None

    def _could_fit(self, shape: Shape, pool: int) -> bool:
        """Whether there is room in total, which a gang within one pool needs."""
        need = dict(shape.least[pool])
        if set(need) != {pool}:
            return False
        free = self.live.machines.free(pool)
        left = (free.cpu_millis, free.memory_bytes, free.gpu_millis)
        return all(ask <= there for ask, there in zip(need[pool], left, strict=True))

    def _find(self, job: Job, shape: Shape, pool: int, now: int) -> list[Running]:
        """Who moves; nobody where no moves do, or where they are not worth it."""
        live = self.live
        able = self._near(shape, pool, self._placeable(self._movable(job, shape, pool, now)))
        if not able:
            return []
        movables = [movable_of(one, self._cost(one, now)) for one in able]
        found = defragment(shape.gang, live.machines, (pool,), movables, moves_max=live.policy.migrations, tries_max=TRIES_MAX)
        if not isinstance(found, Defragmented) or not found.moves or found.cost > self._gain(job, shape, now):
            return []
        chosen = {move.name for move in found.moves}
        return sorted((one for one in able if one.job.id in chosen), key=lambda one: one.key)

    def _gain(self, job: Job, shape: Shape, now: int) -> int:
        """What a start now is worth, as a cost is counted: as long again as it has waited, or until its booked start."""
        booked = self.reservations.by_job.get(job.id)
        seconds = now - job.submitted_at if booked is None else booked.at - now - self.live.policy.grace_seconds
        return max(0, seconds) * max(shape.gpu_millis, 1)

    def _cost(self, one: Running, now: int) -> int:
        return one.cost(now) + self.live.policy.grace_seconds * max(one.gpu_millis, 1)

    def _movable(self, job: Job, shape: Shape, pool: int, now: int) -> Iterable[Running]:
        """Everybody who may be asked to move, in no order."""
        live = self.live
        top = self._top(job.queue)
        others_booked = any(name != job.id for name in self.reservations.by_job)
        since = now - max(2 * live.policy.least_runtime_seconds, 1)  # Whoever starts in this very pass does not move in it.
        for queue in live.evictable.queues(pool):
            for one in live.evictable.leavers(pool, queue, None).gangs.values():
                if one.started_at > since or one.gpu_millis >= shape.gpu_millis > 0:
                    continue
                if one.job.priority > job.priority or (one.job.array and one.job.parallel):
                    continue
                if one.placed.pool != pool or not one.job.gang.roles or live.need_of(one.placed) != one.need:
                    continue
                if others_booked and self.reservations.counts_on(one, job):
                    continue
                if self.windows and self._is_booked(one, job, now):
                    continue
                if self._top(queue) != top and self._is_guaranteed(one):
                    continue
                yield one

    def _top(self, queue: int) -> int:
        """The queue below root, which is the tenant's."""
        path = self.live.shares.path[queue]
        return path[-2] if len(path) > 1 else queue

    def _is_booked(self, one: Running, job: Job, now: int) -> bool:
        """Whether it runs on what a tenant has booked, or would be in the way of that when it starts again."""
        windows, grace = self.windows, self.live.policy.grace_seconds
        return windows.keeps(one, job) or windows.refusal(one.job, one.need, now, delay=grace) is not None

    def _is_guaranteed(self, one: Running) -> bool:
        """Whether it stands on a guarantee as things are now."""
        shares, queue = self.live.shares, one.job.queue
        give_shares(shares, queue, one.need)
        standing = self.live.standing(queue, one.need)
        take_shares(shares, queue, one.need)
        return standing is Standing.GUARANTEED

    def _placeable(self, movable: Iterable[Running]) -> list[Running]:
        """Those that would have a place as things are. Equal ones are asked once."""
        machines, known, found = self.live.machines, dict[tuple[GangAsk, int], bool](), []
        for one in movable:
            gang, pool = movable_of(one, 0).as_it_is, one.placed.pool
            fits = known.get((gang, pool))
            if fits is None:
                mark = machines.mark()
                fits = known[gang, pool] = isinstance(place(gang, machines, (pool,)), Placed)
                machines.rewind(mark)
            if fits:
                found.append(one)
        return found

    def _near(self, shape: Shape, pool: int, able: list[Running]) -> list[Running]:
        """Those on the machines that the fewest and cheapest moves make fit for one task more, as far as sums tell."""
        on: dict[int, list[tuple[int, int, Running]]] = {}
        each = max(role.ask.gpu_millis for role in shape.gang.roles)
        for one in able:
            sums: dict[int, int] = {}
            for task in one.placed.tasks:
                sums[task.machine] = sums.get(task.machine, 0) + (task.ask.gpu_millis if each else task.ask.cpu_millis)
            for machine, amount in sums.items():
                on.setdefault(machine, []).append((amount, one.cost(self.live.now), one))
        ranked = []
        for machine, here in on.items():
            moves, cost = self._least_moves(machine, here, shape, each)
            if moves <= self.live.policy.migrations:
                ranked.append((moves, cost, machine))
        found = {one.job.id: one for _, _, machine in sorted(ranked)[:MACHINES_MAX] for _, _, one in on[machine]}
        return [found[name] for name in sorted(found)]

    def _least_moves(self, machine: int, here: Collection[tuple[int, int, Running]], shape: Shape, each: int) -> tuple[int, int]:
        """How many have to leave a machine at least until it takes a task more, and what the largest of them cost."""
        one = self.live.machines.class_of[machine]
        if each >= WHOLE_MILLIS:
            missing = each - one.whole * WHOLE_MILLIS % each
        elif each:
            missing = each
        else:
            ask = max(role.ask.cpu_millis for role in shape.gang.roles)
            missing = ask - one.cpu % ask if ask else 0
        moves = cost = 0
        for amount, price, _ in sorted(here, key=lambda entry: (-entry[0], entry[1], entry[2].key)):
            if missing <= 0:
                break
            missing -= amount
            moves, cost = moves + 1, cost + price
        return (moves, cost) if missing <= 0 else (1 << 30, 0)
