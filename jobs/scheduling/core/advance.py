"""Advance reservations: GPUs of a pool that tenants have booked for a window, from its start to its end, for a queue and those
below it.

All other work has to leave them free: at each moment of a window, what it holds and what is booked fit into the pool together.
Inside a window present use counts. Before a window only work counts that would be in the way: work that neither surely ends
before (its maximum run time) nor may be evicted in time (it will have run for the least run time, and its grace fits before).
When a window is about to begin, work that is still in the way is evicted, what loses least first, `Policy.grace_seconds` before.
From then on all work that stays is in the way: no job that comes later makes another leave in its place.

GPUs are counted, not machines: the owner is sure of an amount, not of a shape. Windows of a queue and of a queue below it add up;
what the lower queue holds beyond its own window counts against that of the upper.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping

from jobs.scheduling.core.place.machines import WHOLE_MILLIS
from jobs.scheduling.core.state.decisions import Evict, WaitReason
from jobs.scheduling.core.state.live import Live
from jobs.scheduling.core.state.policy import Policy
from jobs.scheduling.core.state.reservation import BackfillReservation, ends_if_started, grace_of, sure_end
from jobs.scheduling.core.state.timers import BookingBoundary
from jobs.scheduling.core.state.work import JobAsk, Need, Running
from kernel.wait_codes import WaitCode
from tenants.capacity.quota.bookings import Booked

GPU = 2  # Place of GPUs in an amount.
NO_OWNER = -1  # The owner of GPUs that no window covers.
FINE = 1 << 20


def least_runtime(policy: Policy) -> int:
    """How long a gang runs before it leaves for a booking, in seconds: never in the second in which it started."""
    return max(1, policy.least_runtime_seconds)


class AdvanceReservation:
    """One booking. `firm` has by job what will be in the way at its start: (queue, amount)."""

    __slots__ = ("ends_at", "firm", "gpu_millis", "id", "pool", "queue", "starts_at")

    def __init__(self, booked: Booked, queue: int, pool: int) -> None:
        self.id: uuid.UUID = booked.id
        self.queue = queue
        self.pool = pool
        self.gpu_millis = booked.gpu_millis
        self.starts_at = booked.starts_at
        self.ends_at = booked.ends_at
        self.firm: dict[str, tuple[int, int]] = {}

    @property
    def order(self) -> tuple[int, int, uuid.UUID]:
        return (self.starts_at, self.ends_at, self.id)


class AdvanceReservations:
    """All advance reservations that are not over."""

    def __init__(self, live: Live) -> None:
        self.live = live
        self.by_pool: dict[int, list[AdvanceReservation]] = {}
        self._capacities: dict[int, int] = {}

    def set(self, booked: Iterable[Booked], reservations: Iterable[BackfillReservation]) -> None:
        """Replace all bookings. `reservations`: the reserved starts."""
        shares = self.live.shares
        self.by_pool.clear()
        for booking in booked:
            queue, pool = shares.queue_at.get(booking.queue_id), shares.pool_at.get(booking.pool_id)
            if queue is not None and pool is not None and booking.ends_at > self.live.now:
                self.by_pool.setdefault(pool, []).append(AdvanceReservation(booking, queue, pool))
        for own in self.by_pool.values():
            own.sort(key=lambda booking: booking.order)
        if self.by_pool:
            for running in self.live.running.values():
                self.entered(running)
            for reservation in reservations:
                self.reserved(reservation)

    def __bool__(self) -> bool:
        return bool(self.by_pool)

    def moments(self) -> list[tuple[int, int]]:
        """The moments, each with its pool, at which a window begins or ends, or work has to leave for it."""
        grace = self.live.policy.grace_seconds
        return [
            (at, pool)
            for pool, own in sorted(self.by_pool.items())
            for booking in own
            for at in (booking.starts_at - grace, booking.starts_at, booking.ends_at)
        ]

    def owners(self, pool: int) -> list[int]:
        """The queues with a booking in a pool, and all below them."""
        tops = {booking.queue for booking in self.by_pool.get(pool, ())}
        return sorted({queue for top in tops for queue in self.live.tree(top)})

    def ends(self, pool: int) -> list[int]:
        return [booking.ends_at for booking in self.by_pool.get(pool, ())]

    # --- Work in the way of a window ----------------------------------------------------------------------------------

    def entered(self, running: Running) -> None:
        """A gang holds, or claims, its room from now on."""
        end, grace = sure_end(running, self.live.policy), running.job.grace_seconds
        for pool, amount in running.need:
            for booking in self.by_pool.get(pool, ()):
                if grace is not None and booking.starts_at - grace > self.live.now:
                    self.live.timers.set(BookingBoundary(booking.starts_at - grace, pool))
                if end > booking.starts_at and not self._leaves_in_time(running.job, running.started_at, booking):
                    booking.firm[running.job.id] = (running.job.queue, amount[GPU])
                else:
                    booking.firm.pop(running.job.id, None)

    def reserved(self, reservation: BackfillReservation) -> None:
        """A start is reserved: it will be in the way where it would run then."""
        for pool, amount in reservation.need:
            for booking in self.by_pool.get(pool, ()):
                is_there = reservation.at < booking.ends_at and reservation.ends.sure > booking.starts_at
                if is_there and not self._leaves_in_time(reservation.job, reservation.at, booking):
                    booking.firm[reservation.job.id] = (reservation.job.queue, amount[GPU])

    def left(self, job_id: str, pools: Iterable[int]) -> None:
        for pool in pools:
            for booking in self.by_pool.get(pool, ()):
                booking.firm.pop(job_id, None)

    def _leaves_in_time(self, job: JobAsk, started_at: int, booking: AdvanceReservation) -> bool:
        policy = self.live.policy
        return job.evictable and started_at + least_runtime(policy) <= booking.starts_at - grace_of(job, policy)

    # --- Whether there is room ----------------------------------------------------------------------------------------

    def refusal(self, job: JobAsk, need: Need, at: int, *, delay: int = 0) -> WaitReason | None:
        """Why a gang may not start at `at`, or up to `delay` seconds later: the window that it would be in the way of."""
        for pool, amount in need:
            if amount[GPU] and pool in self.by_pool:
                found = self._refusal(job, pool, amount[GPU], at, delay)
                if found is not None:
                    return found
        return None

    def _refusal(self, job: JobAsk, pool: int, gpu: int, at: int, delay: int) -> WaitReason | None:
        end = ends_if_started(job, at + delay, self.live.policy).sure
        capacity = self._capacity(pool)
        for booking in self.by_pool[pool]:
            if booking.ends_at <= at or booking.starts_at >= end:
                continue
            if booking.starts_at > at and self._leaves_in_time(job, at + delay, booking):
                continue
            if booking.starts_at <= self.live.now:
                holds = self._uses(pool)
            else:
                holds = [held for name, held in booking.firm.items() if name != job.id]
            reserved = self._reserved(pool, max(booking.starts_at, at))
            before = self._uncovered(holds, reserved)
            after = self._uncovered([*holds, (job.queue, gpu)], reserved)
            kept = sum(reserved.values())
            if after > before and after + kept > capacity:
                there = self._active(pool, max(booking.starts_at, at))
                named = next((other_booking for other_booking in there if not self._owns(job.queue, other_booking)), booking)
                return WaitReason(
                    WaitCode.ADVANCE_RESERVATION, pool, job.queue, GPU, gpu, before, capacity, kept,
                    since=named.starts_at, until=named.ends_at, of=str(named.id),
                )  # fmt: skip
        return None

    def may_reserve(self, job: JobAsk, need: Need, at: int) -> bool:
        """Whether a start may be reserved for a moment: not while another queue has a booking, when GPUs that are left over go
        to the first job that comes."""
        grace = self.live.policy.grace_seconds
        for pool, amount in need:
            for booking in self.by_pool.get(pool, ()) if amount[GPU] else ():
                if booking.starts_at - grace <= at < booking.ends_at and not self._owns(job.queue, booking):
                    return False
        return self.refusal(job, need, at) is None

    def is_owner(self, job: JobAsk, pool: int) -> bool:
        """Whether the job's queue has more booked for now than is used of it."""
        now = self.live.now
        return any(
            self._owns(job.queue, booking) and self.live.shares.used(booking.queue, pool)[GPU] < booking.gpu_millis
            for booking in self._active(pool, now)
        )

    def keeps(self, running: Running, claimant: JobAsk) -> bool:
        """Whether a gang runs on what its queue has booked, and the claimant is of another queue, so that it may not evict it."""
        for pool, amount in running.need:
            for booking in self._active(pool, self.live.now):
                if self._owns(running.job.queue, booking) and not self._owns(claimant.queue, booking):
                    booked = self._reserved(pool, self.live.now).get(booking.queue, 0)
                    if self.live.shares.used(booking.queue, pool)[GPU] - amount[GPU] < booked:
                        return True
        return False

    def _active(self, pool: int, at: int) -> list[AdvanceReservation]:
        return [booking for booking in self.by_pool.get(pool, ()) if booking.starts_at <= at < booking.ends_at]

    def _owns(self, queue: int, booking: AdvanceReservation) -> bool:
        return booking.queue in self.live.shares.path[queue]

    def _reserved(self, pool: int, at: int) -> dict[int, int]:
        """What is booked at a moment, by queue."""
        found: dict[int, int] = {}
        for booking in self._active(pool, at):
            found[booking.queue] = found.get(booking.queue, 0) + booking.gpu_millis
        return found

    def _uses(self, pool: int) -> list[tuple[int, int]]:
        shares = self.live.shares
        return [(queue, shares.own(queue, pool)[GPU]) for queue in range(len(shares.path)) if shares.own(queue, pool)[GPU]]

    def _uncovered(self, holds: Iterable[tuple[int, int]], reserved: Mapping[int, int]) -> int:
        """The held GPUs that no booking covers."""
        path = self.live.shares.path
        held: dict[int, int] = {}
        for queue, amount in holds:
            owner = next((node for node in path[queue] if node in reserved), NO_OWNER)
            held[owner] = held.get(owner, 0) + amount
        for owner in sorted(reserved, key=lambda owner: (-len(path[owner]), owner)):
            over = held.get(owner, 0) - reserved[owner]
            if over > 0:
                above = next((node for node in path[owner][1:] if node in reserved), NO_OWNER)
                held[above] = held.get(above, 0) + over
        return held.get(NO_OWNER, 0)

    def _capacity(self, pool: int) -> int:
        """The GPUs of all machines that are not blocked."""
        known = self._capacities.get(pool)
        if known is None:
            inside = (machine for machine in self.live.machines.at if machine.pool == pool and not machine.blocked)
            known = self._capacities[pool] = sum(machine.gpus for machine in inside) * WHOLE_MILLIS
        return known

    def machine_changed(self) -> None:
        self._capacities.clear()

    # --- Evictions ----------------------------------------------------------------------------------------------------

    def clear(self, now: int) -> list[Evict]:
        """Evict gangs that are in the way of a window that begins by the time that they are gone."""
        found: list[Evict] = []
        for pool, own in sorted(self.by_pool.items()):
            for booking in own:
                if booking.starts_at - self._longest_grace(pool) <= now < booking.ends_at:
                    found += self._clear(booking, pool, now)
                if booking.starts_at - self.live.policy.grace_seconds <= now < booking.ends_at:
                    self._stay(booking, pool, now)
        return found

    def _longest_grace(self, pool: int) -> int:
        """The longest grace of all gangs in a pool, in seconds."""
        policy, gangs = self.live.policy, self.live.running.values()
        inside = (running.job for running in gangs if any(at == pool for at, _ in running.need))
        return max([policy.grace_seconds, *(grace_of(job, policy) for job in inside)])

    def _stay(self, booking: AdvanceReservation, pool: int, now: int) -> None:
        """Count gangs that were not told to leave before a booking begins as in its way: else those that left would come back,
        and others would have to leave."""
        if now < booking.starts_at:
            booking.firm.update((running.job.id, (running.job.queue, gpu)) for running, gpu in self._staying(booking, pool, now))

    def _staying(self, booking: AdvanceReservation, pool: int, now: int) -> list[tuple[Running, int]]:
        """Gangs that hold GPUs of a pool when a booking begins, or during it, unless they are evicted; each with its GPUs."""
        ends_after = max(now, booking.starts_at)
        return [
            (running, dict(running.need)[pool][GPU])
            for running in self.live.running.values()
            if pool in dict(running.need) and not running.is_leaving and sure_end(running, self.live.policy) > ends_after
        ]

    def _clear(self, booking: AdvanceReservation, pool: int, now: int) -> list[Evict]:
        live, reserved = self.live, self._reserved(pool, max(now, booking.starts_at))
        most = self._capacity(pool) - sum(reserved.values())
        if self._uncovered(self._uses(pool), reserved) <= most:
            return []
        staying = self._staying(booking, pool, now)
        holds = {running.job.id: (running.job.queue, gpu) for running, gpu in staying}
        able = [
            (running.cost(now) * FINE // gpu, running.key, running)
            for running, gpu in staying
            if gpu and running.claim is None and running.job.evictable and running.started_at + least_runtime(live.policy) <= now
        ]
        chosen: list[Running] = []
        for _, _, running in sorted(able, key=lambda entry: entry[:2]):
            before = self._uncovered(holds.values(), reserved)
            if before <= most:
                break
            held = holds.pop(running.job.id)
            if self._uncovered(holds.values(), reserved) < before:
                chosen.append(running)
            else:  # It is within what its own queue has booked.
                holds[running.job.id] = held
        for victim in sorted(chosen, key=lambda victim: (-victim.cost(now), victim.key)):
            holds[victim.job.id] = (victim.job.queue, dict(victim.need)[pool][GPU])
            if self._uncovered(holds.values(), reserved) <= most:
                chosen.remove(victim)
            else:
                del holds[victim.job.id]
        chosen = [
            victim for victim in chosen if booking.starts_at - grace_of(victim.job, live.policy) <= now
        ]  # Others may leave later.
        for victim in chosen:
            live.told_to_leave(victim.job.id)
        return [
            Evict(victim.job.id, "", victim.cost(now), str(booking.id))
            for victim in sorted(chosen, key=lambda victim: victim.key)
        ]
