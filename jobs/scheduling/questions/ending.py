"""Running gangs whose end makes room for a job: work that a person may choose to end, by what is lost with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from jobs.scheduling.core.core import Core
from jobs.scheduling.core.place.gangs import GangAsk, at_least
from jobs.scheduling.core.state.evictable import VictimCandidates
from jobs.scheduling.core.state.work import JobAsk, Running, Shape
from jobs.scheduling.core.victims import Search
from jobs.scheduling.questions.whatif import Change, End


class ChosenEnds(Search):
    """Victims that a person would choose, by no other rule: the gangs whose end makes room for a job, with the least lost.
    `takers`: gangs that would take the room before the job, for which as much is freed, too."""

    def __init__(self, core: Core, job: JobAsk, pool: int, may_end: Callable[[Running], bool], takers: Sequence[GangAsk]) -> None:
        roles = [role for gang in takers for role in at_least(gang).roles]
        more = tuple(replace(role, role=f"taker-{number}") for number, role in enumerate(roles))
        together = replace(at_least(job.gang), roles=(*at_least(job.gang).roles, *more))
        super().__init__(core.live, core.advance, core.placements, job, Shape(-1, together, (pool,)), pool)
        self.need = core.live.shapes.of(job.gang, job.pools).least[pool]  # The job's queue is charged for the job alone.
        self._may_end = may_end

    def _gather(self) -> bool:
        at = self.machines.at
        gangs = tuple(
            running
            for running in self.live.running.values()
            if is_endable(running)
            and running.need
            and any(at[task.machine].pool == self.pool for task in running.placed.tasks)
            and self._may_end(running)
        )
        self._consider([VictimCandidates(self.pool, gangs)])
        self.by_machine = {machine: here for machine, here in self.by_machine.items() if at[machine].pool == self.pool}
        self._freed = {machine: self._freed[machine] for machine in self.by_machine}
        return bool(self.by_machine)

    def _cost(self, running: Running) -> int:
        return running.cost(self.now) + running.gpu_millis + 1

    def _may_evict(self, running: Running) -> bool:
        return True


def is_endable(running: Running) -> bool:
    """Whether a gang runs and has not been told to leave."""
    return running.claim is None and not running.is_leaving


def end_all(ended: Iterable[Running]) -> tuple[Change, ...]:
    return tuple(End(running.job.id) for running in sorted(ended, key=lambda running: running.key))
