"""What a pass does with a gang that has its place: it starts, or gives the place up where it would delay a reserved start."""

from __future__ import annotations

from collections.abc import Collection

from jobs.scheduling.core.parts import Parts
from jobs.scheduling.core.place.gangs import Placed
from jobs.scheduling.core.place.placing import undo
from jobs.scheduling.core.state.changes import Reclaimable
from jobs.scheduling.core.state.decisions import Admit, Decision, WaitReason
from jobs.scheduling.core.state.ordering import Group
from jobs.scheduling.core.state.work import JobAsk, Running, Shape
from kernel.wait_codes import WaitCode
from tenants.capacity.quota.shares import Standing


class Starts:
    """The starts of one pass."""

    def __init__(self, parts: Parts, decisions: list[Decision]) -> None:
        self.live = parts.live
        self.reservations = parts.reservations
        self.occupancy = parts.occupancy
        self.wakeups = parts.wakeups
        self.decisions = decisions
        self.now = parts.live.now

    def delayed(self, job: JobAsk, shape: Shape, placed: Placed, weaker: Collection[str] = ()) -> WaitReason | None:
        """Undo a placement that would take the limits that a reserved start needs, and say which start."""
        if not self.reservations:
            return None
        need = self.live.need_of(placed) if shape.is_elastic else shape.least[placed.pool]
        delayed = self.reservations.denies(job, need, len(placed.tasks), weaker)
        if delayed is None:
            return None
        undo(placed, self.live.machines)
        self.reservations.settle_with(task.machine for task in placed.tasks)
        return WaitReason(WaitCode.BACKFILL_RESERVATION, placed.pool, job.queue, until=delayed.at)

    def admit(self, group: Group, job: JobAsk, placed: Placed, standing: Standing) -> None:
        live, shape = self.live, group.shape
        live.ordering.remove(job.id)
        need = live.need_of(placed) if shape.is_elastic else shape.least[placed.pool]
        if shape.is_elastic:
            room = live.room(job.queue, need)
            standing = room if isinstance(room, Standing) else Standing.BORROWED
        running = Running(job, placed, need, self.now, standing)
        if self.reservations:
            with self.reservations.starting(job.id):
                self.occupancy.admit(running)
        else:
            self.occupancy.admit(running)
        self.mark_reclaimable(running)
        self.decisions.append(Admit(job.id, placed, standing))

    def mark_reclaimable(self, running: Running) -> None:
        """A job that was refused before this gang started may take back what the gang's queue borrows by now."""
        live = self.live
        for pool, _ in running.need:
            if running.standing is Standing.BORROWED and live.policy.reclaims and self.wakeups.has_claimers(pool):
                live.changes.marked.add(Reclaimable(pool))
