"""What tenants have booked of a pool for a time: from the start of a window to its end its queue, and those below it, are sure of
so many GPUs.

What that asks of everybody else: at each moment of a window, what they hold and what is booked fit into the pool together. Inside
a window that is looked at as it is. Before it, only what would be in the way counts: work that neither surely ends before (its
maximum run time) nor may be evicted in time (it will have run for the least run time, and its grace fits before). When a window
is about to begin, whoever is still in the way is evicted, those who lose least first, `Policy.grace_seconds` before.

GPUs are counted, not machines: the owner is sure of an amount, not of a shape. Windows of a queue and of one below it add up;
what the lower one holds above its own counts against the upper one's.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping

from jobs.scheduling.core.place.machines import WHOLE_MILLIS
from jobs.scheduling.core.state.decisions import Evict, Reason
from jobs.scheduling.core.state.live import Live
from jobs.scheduling.core.state.reservation import BackfillReservation, ends_if_started, sure_end
from jobs.scheduling.core.state.work import Job, Need, Running
from tenants.quota.bookings import Booked

GPU = 2  # Place of GPUs in an amount.
NOBODY = -1  # The owner of what no window covers.
FINE = 1 << 20


class Window:
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
    """All windows that are not over."""

    def __init__(self, live: Live) -> None:
        self.live = live
        self.by_pool: dict[int, list[Window]] = {}
        self._capacities: dict[int, int] = {}

    def set(self, booked: Iterable[Booked], reservations: Iterable[BackfillReservation]) -> None:
        """What tenants have booked is this from now on; `reservations`: the starts that are booked."""
        shares = self.live.shares
        self.by_pool.clear()
        for one in booked:
            queue, pool = shares.queue_at.get(one.queue_id), shares.pool_at.get(one.pool_id)
            if queue is not None and pool is not None and one.ends_at > self.live.now:
                self.by_pool.setdefault(pool, []).append(Window(one, queue, pool))
        for own in self.by_pool.values():
            own.sort(key=lambda one: one.order)
        if self.by_pool:
            for running in self.live.running.values():
                self.entered(running)
            for reservation in reservations:
                self.reserved(reservation)

    def __bool__(self) -> bool:
        return bool(self.by_pool)

    def moments(self) -> list[tuple[int, int]]:
        """(when, pool) something begins or ends, or somebody has to leave."""
        grace = self.live.policy.grace_seconds
        return [
            (at, pool)
            for pool, own in sorted(self.by_pool.items())
            for one in own
            for at in (one.starts_at - grace, one.starts_at, one.ends_at)
        ]

    def owners(self, pool: int) -> list[int]:
        """The queues that have something booked in a pool, and all below them."""
        tops = {one.queue for one in self.by_pool.get(pool, ())}
        return sorted({queue for top in tops for queue in self.live.tree(top)})

    def ends(self, pool: int) -> list[int]:
        return [one.ends_at for one in self.by_pool.get(pool, ())]

    # --- What will be in the way --------------------------------------------------------------------------------------

    def entered(self, one: Running) -> None:
        """A gang holds, or claims, its room from now on."""
        end = sure_end(one, self.live.policy)
        for pool, amount in one.need:
            for window in self.by_pool.get(pool, ()):
                if end > window.starts_at and not self._leaves_in_time(one.job, one.started_at, window):
                    window.firm[one.job.id] = (one.job.queue, amount[GPU])
                else:
                    window.firm.pop(one.job.id, None)

    def reserved(self, one: BackfillReservation) -> None:
        """A start is booked: it will be in the way where it would run then."""
        for pool, amount in one.need:
            for window in self.by_pool.get(pool, ()):
                is_there = one.at < window.ends_at and one.ends.sure > window.starts_at
                if is_there and not self._leaves_in_time(one.job, one.at, window):
                    window.firm[one.job.id] = (one.job.queue, amount[GPU])

    def left(self, job_id: str, pools: Iterable[int]) -> None:
        for pool in pools:
            for window in self.by_pool.get(pool, ()):
                window.firm.pop(job_id, None)

    def _leaves_in_time(self, job: Job, started_at: int, window: Window) -> bool:
        policy = self.live.policy
        return job.evictable and started_at + policy.least_runtime_seconds <= window.starts_at - policy.grace_seconds

    # --- Whether there is room ----------------------------------------------------------------------------------------

    def refusal(self, job: Job, need: Need, at: int, *, delay: int = 0) -> Reason | None:
        """The window that a gang would be in the way of if it started then, or so much later at the latest."""
        for pool, amount in need:
            if amount[GPU] and pool in self.by_pool:
                found = self._refusal(job, pool, amount[GPU], at, delay)
                if found is not None:
                    return found
        return None

    def _refusal(self, job: Job, pool: int, gpu: int, at: int, delay: int) -> Reason | None:
        end = ends_if_started(job, at + delay, self.live.policy).sure
        capacity = self._capacity(pool)
        for window in self.by_pool[pool]:
            if window.ends_at <= at or window.starts_at >= end:
                continue
            if window.starts_at > at and self._leaves_in_time(job, at + delay, window):
                continue
            if window.starts_at <= self.live.now:
                holds = self._uses(pool)
            else:
                holds = [held for name, held in window.firm.items() if name != job.id]
            reserved = self._reserved(pool, max(window.starts_at, at))
            before = self._uncovered(holds, reserved)
            after = self._uncovered([*holds, (job.queue, gpu)], reserved)
            kept = sum(reserved.values())
            if after > before and after + kept > capacity:
                there = self._active(pool, max(window.starts_at, at))
                named = next((one for one in there if not self._owns(job.queue, one)), window)
                return Reason(
                    "reserved", pool, job.queue, GPU, gpu, before, capacity, kept,
                    since=named.starts_at, until=named.ends_at, of=str(named.id),
                )  # fmt: skip
        return None

    def may_promise(self, job: Job, need: Need, at: int) -> bool:
        """Whether a start may be promised for a moment: not while others have anything booked, when what is left over for the
        rest goes to whoever comes first."""
        grace = self.live.policy.grace_seconds
        for pool, amount in need:
            for window in self.by_pool.get(pool, ()) if amount[GPU] else ():
                if window.starts_at - grace <= at < window.ends_at and not self._owns(job.queue, window):
                    return False
        return self.refusal(job, need, at) is None

    def is_owner(self, job: Job, pool: int) -> bool:
        """Whether a queue has more booked for now than it uses."""
        now = self.live.now
        return any(
            self._owns(job.queue, one) and self.live.shares.used(one.queue, pool)[GPU] < one.gpu_millis
            for one in self._active(pool, now)
        )

    def keeps(self, one: Running, claimant: Job) -> bool:
        """Whether a gang runs on what its queue has booked, so that nobody from outside may take it away."""
        for pool, amount in one.need:
            for window in self._active(pool, self.live.now):
                if self._owns(one.job.queue, window) and not self._owns(claimant.queue, window):
                    booked = self._reserved(pool, self.live.now).get(window.queue, 0)
                    if self.live.shares.used(window.queue, pool)[GPU] - amount[GPU] < booked:
                        return True
        return False

    def _active(self, pool: int, at: int) -> list[Window]:
        return [one for one in self.by_pool.get(pool, ()) if one.starts_at <= at < one.ends_at]

    def _owns(self, queue: int, window: Window) -> bool:
        return window.queue in self.live.shares.path[queue]

    def _reserved(self, pool: int, at: int) -> dict[int, int]:
        """What is booked at a moment, by queue."""
        found: dict[int, int] = {}
        for one in self._active(pool, at):
            found[one.queue] = found.get(one.queue, 0) + one.gpu_millis
        return found

    def _uses(self, pool: int) -> list[tuple[int, int]]:
        shares = self.live.shares
        return [(queue, shares.own(queue, pool)[GPU]) for queue in range(len(shares.path)) if shares.own(queue, pool)[GPU]]

    def _uncovered(self, holds: Iterable[tuple[int, int]], reserved: Mapping[int, int]) -> int:
        """How much of what is held no booking covers."""
        path = self.live.shares.path
        held: dict[int, int] = {}
        for queue, amount in holds:
            owner = next((node for node in path[queue] if node in reserved), NOBODY)
            held[owner] = held.get(owner, 0) + amount
        for owner in sorted(reserved, key=lambda one: (-len(path[one]), one)):
            over = held.get(owner, 0) - reserved[owner]
            if over > 0:
                above = next((node for node in path[owner][1:] if node in reserved), NOBODY)
                held[above] = held.get(above, 0) + over
        return held.get(NOBODY, 0)

    def _capacity(self, pool: int) -> int:
        """The GPUs of all machines on which something may start."""
        known = self._capacities.get(pool)
        if known is None:
            inside = (one for one in self.live.machines.at if one.pool == pool and not one.blocked)
            known = self._capacities[pool] = sum(one.gpus for one in inside) * WHOLE_MILLIS
        return known

    def machine_changed(self) -> None:
        self._capacities.clear()

    # --- Who has to leave ---------------------------------------------------------------------------------------------

    def clear(self, now: int) -> list[Evict]:
        """Evict who is in the way of a window that begins by the time that they are gone."""
        found: list[Evict] = []
        for pool, own in sorted(self.by_pool.items()):
            for window in own:
                if window.starts_at - self.live.policy.grace_seconds <= now < window.ends_at:
                    found += self._clear(window, pool, now)
        return found

    def _clear(self, window: Window, pool: int, now: int) -> list[Evict]:
        live, reserved = self.live, self._reserved(pool, max(now, window.starts_at))
        most = self._capacity(pool) - sum(reserved.values())
        if self._uncovered(self._uses(pool), reserved) <= most:
            return []
        staying = [
            (one, dict(one.need)[pool][GPU])
            for one in live.running.values()
            if pool in dict(one.need) and not one.is_leaving and sure_end(one, live.policy) > max(now, window.starts_at)
        ]
        holds = {one.job.id: (one.job.queue, gpu) for one, gpu in staying}
        able = [
            (one.cost(now) * FINE // gpu, one.key, one)
            for one, gpu in staying
            if gpu and one.claim is None and one.job.evictable and one.started_at + live.policy.least_runtime_seconds <= now
        ]
        chosen: list[Running] = []
        for _, _, one in sorted(able, key=lambda entry: entry[:2]):
            before = self._uncovered(holds.values(), reserved)
            if before <= most:
                break
            held = holds.pop(one.job.id)
            if self._uncovered(holds.values(), reserved) < before:
                chosen.append(one)
            else:  # It is within what its own queue has booked.
                holds[one.job.id] = held
        for one in sorted(chosen, key=lambda one: (-one.cost(now), one.key)):
            holds[one.job.id] = (one.job.queue, dict(one.need)[pool][GPU])
            if self._uncovered(holds.values(), reserved) <= most:
                chosen.remove(one)
            else:
                del holds[one.job.id]
        for one in chosen:
            live.told_to_leave(one.job.id)
        return [Evict(one.job.id, "", one.cost(now), str(window.id)) for one in sorted(chosen, key=lambda one: one.key)]
