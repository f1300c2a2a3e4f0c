"""The phases of a job's life, made of its transitions: each with its cause and length, together exactly its age."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jobs.lifecycle.states import JOB_LIFECYCLE
from jobs.models import Job
from reconciling.models import Transition


@dataclass(frozen=True, slots=True)
class Phase:
    """`name` is the state that the job was in. `ended_at` None: it is in it now. `cause` says why it came there, with
    the amounts in `detail`."""

    name: str
    cause: str
    detail: Mapping[str, Any]
    attempt: int | None
    began_at: datetime
    ended_at: datetime | None
    seconds: float


def timeline(job: Job, *, now: datetime) -> list[Phase]:
    """All phases in order; a job that ended has none after its end."""
    moves = list(
        Transition.objects.filter(subject_kind="job", subject_id=job.id)
        .order_by("at", "id")
        .values_list("to_state", "reason", "detail", "at")
    )
    phases: list[Phase] = []
    attempt: int | None = None
    for position, (state, reason, detail, began_at) in enumerate(moves):
        attempt = detail.get("attempt", attempt) if state != "queued" else None
        if JOB_LIFECYCLE.is_terminal(state):
            break
        ended_at = moves[position + 1][3] if position + 1 < len(moves) else None
        seconds = ((ended_at or now) - began_at).total_seconds()
        phases.append(Phase(state, reason, detail, attempt, began_at, ended_at, seconds))
    return phases
