"""Defragmentation by migration: small gangs go on elsewhere so that a gang starts that fits in total but not in shape.

No job has a right to such a migration, so it has to be worth it, and harm no other job:

- Only gangs migrate that are smaller than the waiting gang, of no higher priority, that may be evicted and have run for twice the
  least run time: so no gang migrates more than a few times an hour.
- Across tenants no gang migrates that runs on a guarantee or a booking.
- No gang migrates on which reserved starts of other jobs count; where such a start is sure, only gangs without a maximum run
  time.
- All of them lose less (since their last checkpoint, and their grace) than the gang has waited in GPU-seconds, or still would
  have to wait until its own reserved start.
- Their number is bounded (`Policy.migrations`) and within the limit of evictions, and all of them have a place, too
  (`defragment.py`); only gangs are considered that would have a place as things are.

The room that a migrated gang gets is its seat (`seats.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from jobs.scheduling.core.advance import AdvanceReservations
from jobs.scheduling.core.defragment import Defragmented, defragment
from jobs.scheduling.core.place.gangs import GangAsk
from jobs.scheduling.core.place.machines import WHOLE_MILLIS
from jobs.scheduling.core.place.placing import has_place
from jobs.scheduling.core.reservations import BackfillReservations
from jobs.scheduling.core.seats import migratable_of
from jobs.scheduling.core.state.live import Live
from jobs.scheduling.core.state.reservation import grace_of
from jobs.scheduling.core.state.work import JobAsk, Running, Shape, give_shares, take_shares
from tenants.capacity.quota.shares import Refusal, Standing

MACHINES_MAX = 24  # Machines of a pool that are considered for a gang: those that take a task more after few, cheap migrations.
TRIES_MAX = 64


class Migration(NamedTuple):
    """The gangs that migrate, and what each of them loses by it."""

    migrated: list[Running]
    cost: dict[str, int]


class Migrations:
    """The search for gangs that migrate for another."""

    def __init__(self, live: Live, advance: AdvanceReservations, reservations: BackfillReservations) -> None:
        self.live = live
        self.advance = advance
        self.reservations = reservations

    def find(self, job: JobAsk, shape: Shape, pool: int) -> Migration | None:
        """The migration that lets a job start; None where none does, or where it is not worth it."""
        live, now = self.live, self.live.now
        if now - job.submitted_at < live.policy.migrates_after_seconds or not self._could_fit(shape, pool):
            return None
        need = shape.least[pool]
        if isinstance(live.room(job.queue, need), Refusal):
            return None
        if self.advance and self.advance.refusal(job, need, now, delay=live.policy.grace_seconds) is not None:
            return None
        own = [job.id] if job.id in self.reservations.by_job else []
        if self.reservations.denies(job, need, sum(role.minimum for role in shape.gang.roles), own) is not None:
            return None
        migrated = self._find(job, shape, pool, now)
        return Migration(migrated, {running.job.id: self._cost(running, now) for running in migrated}) if migrated else None

    def _could_fit(self, shape: Shape, pool: int) -> bool:
        """Whether there is room in total, which a gang within one pool needs."""
        need = dict(shape.least[pool])
        if set(need) != {pool}:
            return False
        free = self.live.machines.free(pool)
        left = (free.cpu_millis, free.memory_bytes, free.gpu_millis)
        return all(ask <= there for ask, there in zip(need[pool], left, strict=True))

    def _find(self, job: JobAsk, shape: Shape, pool: int, now: int) -> list[Running]:
        """The gangs that migrate; [] where no migrations help, or where they are not worth it."""
        live = self.live
        able = self._near(shape, pool, self._placeable(self._movable(job, shape, pool, now)))
        if not able:
            return []
        migratables = [migratable_of(running, self._cost(running, now)) for running in able]
        limit = live.policy.migrations
        found = defragment(shape.gang, live.machines, (pool,), migratables, migrations_max=limit, tries_max=TRIES_MAX)
        if not isinstance(found, Defragmented) or not found.migrations or found.cost > self._gain(job, shape, now):
            return []
        chosen = {migration.name for migration in found.migrations}
        return sorted((running for running in able if running.job.id in chosen), key=lambda running: running.key)

    def _gain(self, job: JobAsk, shape: Shape, now: int) -> int:
        """The worth of a start now, in the unit of costs: the time that the job has waited, or has until its reserved start."""
        reserved = self.reservations.by_job.get(job.id)
        seconds = now - job.submitted_at if reserved is None else reserved.at - now - self.live.policy.grace_seconds
        return max(0, seconds) * max(shape.gpu_millis, 1)

    def _cost(self, running: Running, now: int) -> int:
        return running.cost(now) + grace_of(running.job, self.live.policy) * max(running.gpu_millis, 1)

    def _movable(self, job: JobAsk, shape: Shape, pool: int, now: int) -> Iterable[Running]:
        """All gangs that may migrate for a job, in no order."""
        live = self.live
        top = self._top(job.queue)
        others_reserved = any(name != job.id for name in self.reservations.by_job)
        since = now - max(2 * live.policy.least_runtime_seconds, 1)  # No gang migrates in the pass that starts it.
        for queue in live.evictable.queues(pool):
            for running in live.evictable.candidates(pool, queue, None).gangs.values():
                if running.started_at > since or running.gpu_millis >= shape.gpu_millis > 0:
                    continue
                if running.job.priority > job.priority or (running.job.array and running.job.parallel):
                    continue
                if running.placed.pool != pool or not running.job.gang.roles or live.need_of(running.placed) != running.need:
                    continue
                if others_reserved and self.reservations.counts_on(running, job):
                    continue
                if self.advance and self._is_booked(running, job, now):
                    continue
                if self._top(queue) != top and self._is_guaranteed(running):
                    continue
                yield running

    def _top(self, queue: int) -> int:
        """The queue below root, which is the tenant's."""
        path = self.live.shares.path[queue]
        return path[-2] if len(path) > 1 else queue

    def _is_booked(self, running: Running, job: JobAsk, now: int) -> bool:
        """Whether a gang runs on what a tenant has booked, or would be in the way of a booking when it starts again."""
        advance, grace = self.advance, self.live.policy.grace_seconds
        return advance.keeps(running, job) or advance.refusal(running.job, running.need, now, delay=grace) is not None

    def _is_guaranteed(self, running: Running) -> bool:
        """Whether a gang runs on a guarantee as things are now."""
        shares, queue = self.live.shares, running.job.queue
        give_shares(shares, queue, running.need)
        standing = self.live.standing(queue, running.need)
        take_shares(shares, queue, running.need)
        return standing is Standing.GUARANTEED

    def _placeable(self, migratable: Iterable[Running]) -> list[Running]:
        """The gangs that would have another place as things are. Equal gangs are asked once."""
        machines, known, found = self.live.machines, dict[tuple[GangAsk, int], bool](), []
        for running in migratable:
            gang, pool = migratable_of(running, 0).as_it_is, running.placed.pool
            fits = known.get((gang, pool))
            if fits is None:
                fits = known[gang, pool] = has_place(gang, machines, pool)
            if fits:
                found.append(running)
        return found

    def _near(self, shape: Shape, pool: int, able: list[Running]) -> list[Running]:
        """The gangs on those machines that take a task more after the fewest and cheapest migrations, by sums."""
        on: dict[int, list[tuple[int, int, Running]]] = {}
        each = max(role.ask.gpu_millis for role in shape.gang.roles)
        for running in able:
            sums: dict[int, int] = {}
            for task in running.placed.tasks:
                sums[task.machine] = sums.get(task.machine, 0) + (task.ask.gpu_millis if each else task.ask.cpu_millis)
            for machine, amount in sums.items():
                on.setdefault(machine, []).append((amount, running.cost(self.live.now), running))
        ranked = []
        for machine, here in on.items():
            migrations, cost = self._least_migrations(machine, here, shape, each)
            if migrations <= self.live.policy.migrations:
                ranked.append((migrations, cost, machine))
        found = {running.job.id: running for _, _, machine in sorted(ranked)[:MACHINES_MAX] for _, _, running in on[machine]}
        return [found[name] for name in sorted(found)]

    def _least_migrations(
        self, machine: int, here: Collection[tuple[int, int, Running]], shape: Shape, each: int
    ) -> tuple[int, int]:
        """How many gangs at least have to leave a machine until it takes a task more, and the cost of the largest."""
        machine_class = self.live.machines.class_of[machine]
        if each >= WHOLE_MILLIS:
            missing = each - machine_class.whole * WHOLE_MILLIS % each
        elif each:
            missing = each
        else:
            ask = max(role.ask.cpu_millis for role in shape.gang.roles)
            missing = ask - machine_class.cpu % ask if ask else 0
        migrations = cost = 0
        for amount, price, _ in sorted(here, key=lambda entry: (-entry[0], entry[1], entry[2].key)):
            if missing <= 0:
                break
            missing -= amount
            migrations, cost = migrations + 1, cost + price
        return (migrations, cost) if missing <= 0 else (1 << 30, 0)
