"""`after`, `after_ok`, `after_any`: settled when the job waited for starts or ends, in the transaction that says so.

`code` waits for the job that fetches the code. It is met only when the snapshot is stored, some time after that job's success.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from jobs.lifecycle.states import JOB_LIFECYCLE, JobState
from jobs.models import Dependency, Job
from jobs.services.arrays import derive_parents
from jobs.services.edit_events import tell_edited
from jobs.services.transition import JOB, Change, apply
from reconciling import bulk

CODE = "code"
ROUNDS_MAX = 1_000  # A chain longer than any spec can build; bounds our own mistake.


def settle(on_ids: Sequence[uuid.UUID], *, now: datetime) -> None:
    """Decide all open dependencies on these jobs; stops dependents that can never start, and theirs in turn.

    Runs in the caller's transaction. May be called twice: what is decided is not looked at again.
    """
    waiting = list(on_ids)
    for _ in range(ROUNDS_MAX):
        if not waiting:
            return
        waiting = _settle_once(waiting, now=now)
    raise AssertionError("dependencies do not come to rest")


def _settle_once(on_ids: Sequence[uuid.UUID], *, now: datetime) -> list[uuid.UUID]:
    """One round; returns the jobs that it stopped."""
    rows = list(
        Dependency.objects.filter(on_id__in=on_ids, met__isnull=True).values_list(
            "id", "job_id", "condition", "on__state", "on__started_at", "on_id", "on__name", "on__exit"
        )
    )
    verdicts = [
        (row_id, job_id, condition, {"on": str(on_id), "name": name, "state": state, **_exit_of(condition, ended)}, verdict)
        for row_id, job_id, condition, state, started_at, on_id, name, ended in rows
        if (verdict := is_met(condition, state, started_at is not None)) is not None
    ]
    if not verdicts:
        return []
    decide([(row_id, job_id) for row_id, job_id, _, _, verdict in verdicts if verdict], reason="dependency_met", now=now)
    failed = [(row_id, job_id, condition, on) for row_id, job_id, condition, on, verdict in verdicts if not verdict]
    bulk.update(Dependency, [{"id": row_id, "met": False} for row_id, _, _, _ in failed])
    reasons = {job_id: "code_not_fetched" if condition == CODE else "dependency_never_met" for _, job_id, condition, _ in failed}
    return _stop({job_id: (reasons[job_id], on) for _, job_id, _, on in failed}, now=now)


def _exit_of(condition: str, ended: Mapping[str, Any] | None) -> dict[str, str]:
    """The code of a fetch, which says why it failed."""
    code = ended.get("code") if ended and condition == CODE else None
    return {} if code is None else {"exit": str(code)}


def decide(met: Sequence[tuple[uuid.UUID, uuid.UUID]], *, reason: str, now: datetime) -> None:
    """Note that these open dependencies (with the jobs that have them) hold. Caller's transaction."""
    bulk.update(Dependency, [{"id": row_id, "met": True} for row_id, _ in met])
    numbers = Counter(job_id for _, job_id in met)
    bulk.update(
        Job,
        [{"id": job_id, "open_dependencies": -number} for job_id, number in numbers.items()],
        increment=("open_dependencies",),
    )
    tell_edited(list(numbers), reason=reason, now=now)


def refuse(on_ids: Sequence[uuid.UUID], *, reason: str, detail: Mapping[str, str], now: datetime) -> None:
    """Stop all that waits for the code of these jobs, for this reason, and what waits for that. Caller's transaction."""
    rows = list(Dependency.objects.filter(on_id__in=on_ids, condition=CODE, met__isnull=True).values_list("id", "job_id"))
    bulk.update(Dependency, [{"id": row_id, "met": False} for row_id, _ in rows])
    settle(_stop({job_id: (reason, detail) for _, job_id in rows}, now=now), now=now)


def _stop(failed: Mapping[uuid.UUID, tuple[str, Mapping[str, str]]], *, now: datetime) -> list[uuid.UUID]:
    """Stop waiting jobs for a reason each; returns those that stopped, with the arrays that ended by it."""
    stopped = apply(
        JOB,
        [
            Change(
                job_id,
                JobState.QUEUED,
                JobState.STOPPED,
                reason=reason,
                detail=detail,
                also={"dependency_failed": True, "ended_at": now, "reason_code": reason, "reason_detail": dict(detail)},
            )
            for job_id, (reason, detail) in failed.items()
        ],
        actor="system:dependencies",
        at=now,
    )
    ids = [change.id for change in stopped]
    return ids + derive_parents(ids, now=now)


def is_met(condition: str, state: str, started: bool) -> bool | None:
    """Whether a dependency holds now; None while it is open, False when it never will."""
    ended = JOB_LIFECYCLE.is_terminal(state)
    if condition == "after":
        return True if started or ended else None
    if not ended or (condition == CODE and state == JobState.SUCCEEDED):
        return None
    return condition == "after_any" or state == JobState.SUCCEEDED
