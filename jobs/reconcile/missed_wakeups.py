"""Wake-ups that the kept core missed: after a rest the core is built anew, and what only the new one starts was missed before.

To be seen and not to be healed in silence: each is logged with its jobs, and `berth_scheduler_missed_wakeups_total` counts them.
The kept core is asked once more at the same moment, so that what time alone brought is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import structlog

from jobs.models import SchedulerMemory
from jobs.scheduling.core.state.decisions import Admit, Claim, Decision
from jobs.scheduling.core.state.work import JobAsk
from kernel.clock import database_now

log = structlog.get_logger("scheduler")

ROW = "missed_wakeups"  # Beside what the scheduler remembers: processes that serve `/metrics` read it.
LOGGED_MAX = 20  # Jobs that one line of the log names.


@dataclass(frozen=True, slots=True)
class Rested:
    """What a core that has come to rest decides when it is asked once more, and the jobs that it knows as waiting."""

    decided: frozenset[str]
    waiting: Mapping[str, JobAsk]

    def missed(self, decisions: Iterable[Decision], waiting: Mapping[str, JobAsk]) -> list[str]:
        """The jobs that get room by these decisions of the core made anew and got none, though they asked for the same."""
        return [job_id for job_id in _given_room(decisions) - self.decided if self.waiting.get(job_id) == waiting.get(job_id)]


def rested(decisions: Iterable[Decision], waiting: Mapping[str, JobAsk]) -> Rested:
    return Rested(frozenset(_given_room(decisions)), dict(waiting))


def note_missed(job_ids: Iterable[str]) -> None:
    """Log and count the jobs of one look."""
    missed = sorted(job_ids)
    if not missed:
        return
    log.warning("missed_wakeups", jobs=missed[:LOGGED_MAX], number=len(missed))
    SchedulerMemory.objects.update_or_create(
        id=ROW, defaults={"document": {"jobs": missed_wakeups() + len(missed)}, "saved_at": database_now()}
    )


def missed_wakeups() -> int:
    """How many there were since the installation began."""
    document = SchedulerMemory.objects.filter(id=ROW).values_list("document", flat=True).first()
    return int(document["jobs"]) if document else 0


def _given_room(decisions: Iterable[Decision]) -> set[str]:
    return {decision.id for decision in decisions if isinstance(decision, Admit | Claim)}
