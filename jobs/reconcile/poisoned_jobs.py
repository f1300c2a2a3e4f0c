"""What becomes of jobs at which a reconciler fails again and again: they give way, and in the end they are set aside.

`reconciling.poison` finds them and counts; here is what that means for a job. An attempt that could not be launched is stopped,
so that nothing is held for it. One that runs goes on running: it is marked, and from then on handled without what can fail - its
stored spec, the engine's words about it - so that its end and its stop are still seen.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db import transaction

from clusters.engines.interface import AttemptObservation, TaskObservation
from jobs.lifecycle.states import ATTEMPT_LIFECYCLE, JobState
from jobs.models import Attempt, Job
from jobs.services.stop import stop_attempts
from kernel.limits import NOTE_LENGTH
from kernel.wait_codes import WaitCode
from reconciling import bulk, poison
from reconciling.poison import Struck

LAUNCH, OBSERVE, STOP, FINISH = "jobs.launch", "jobs.observe", "jobs.stop", "jobs.finish"
BUILD, DESIRED = "jobs.build", "jobs.desired"
MARK = WaitCode.SET_ASIDE  # In an attempt's stop verdict, with the error; and the condition that users see.


def is_marked(attempt: Attempt) -> bool:
    """Whether the attempt is handled without its spec and without the engine's words about it."""
    return MARK in (attempt.stop_verdict or {})


def error_of(attempt: Attempt) -> str:
    return str((attempt.stop_verdict or {}).get(MARK, ""))


def postpone(struck: Sequence[Struck], token: uuid.UUID) -> list[uuid.UUID]:
    """Give claimed attempts back; each is due again when it may be tried again. Gives their ids."""
    if not struck:
        return []
    with transaction.atomic():
        bulk.update(
            Attempt,
            [
                {
                    "id": item.id,
                    "lease_token": token,
                    "lease_expires_at": None,
                    "due_at": item.due_at,
                    "last_error": item.error[:NOTE_LENGTH],
                }
                for item in struck
            ],
            guard=("lease_token",),
        )
    return [item.id for item in struck]


def work_through(
    handler: str,
    attempts: Sequence[Attempt],
    work: Callable[[Sequence[Attempt]], set[uuid.UUID]],
    *,
    written: set[uuid.UUID],
    token: uuid.UUID,
    now: datetime,
) -> Sequence[Struck]:
    """Handle claimed attempts; those at which it failed are given back for later, and returned. `work` gives the ids of those of
    which the result was written down; these, and those given back, are added to `written` (`leases.in_hand`)."""
    struck = poison.work_through(
        handler, attempts, lambda part: written.update(work(part)), now=now, key=lambda attempt: attempt.id
    )
    written.update(postpone(struck, token))
    return struck


def stop_set_aside(struck: Sequence[Struck], *, now: datetime) -> None:
    """Stop attempts that cannot be launched. The engine must say that nothing of them runs: a launch may have reached it."""
    errors = {item.id: item.error for item in struck if item.is_set_aside}
    if not errors:
        return
    with transaction.atomic():
        rows = Attempt.objects.filter(id__in=errors, state__in=ATTEMPT_LIFECYCLE.live_states).values_list(
            "job_id", "job__state", "id"
        )
        stop_attempts(
            list(rows),
            cause="platform",
            reason=MARK,
            grace_seconds=0,
            actor="system:launch",
            now=now,
            verdicts={attempt_id: {MARK: error} for attempt_id, error in errors.items()},
        )
    poison.forgive(LAUNCH, errors)


def mark(handler: str, struck: Sequence[Struck], *, now: datetime) -> None:
    """Mark live attempts that were set aside, and say so on their jobs; what is marked gets a fresh start, handled plainly."""
    errors = {item.id: item.error for item in struck if item.is_set_aside}
    fresh = [attempt for attempt in Attempt.objects.filter(id__in=errors) if not is_marked(attempt)]
    for attempt in fresh:
        verdict = {**(attempt.stop_verdict or {}), MARK: errors[attempt.id]}
        with transaction.atomic():
            live = Attempt.objects.filter(id=attempt.id, state__in=ATTEMPT_LIFECYCLE.live_states)
            live.update(stop_verdict=verdict, condition=MARK, condition_since_at=now, due_at=now)
            Job.objects.filter(id=attempt.job_id, attempt_id=attempt.id).update(condition=MARK, condition_since_at=now)
    poison.forgive(handler, [attempt.id for attempt in fresh])


def say_why_it_waits(struck: Sequence[Struck]) -> None:
    """Give queued jobs that were set aside the reason that users read."""
    rows: list[Mapping[str, Any]] = [
        {"id": item.id, "reason_code": MARK, "reason_detail": {"error": item.error}} for item in struck if item.is_set_aside
    ]
    if rows:
        with transaction.atomic():
            bulk.update(Job, rows, equals={"state": JobState.QUEUED})


def plain(seen: AttemptObservation | None) -> AttemptObservation | None:
    """An observation reduced to what cannot fail: which task is in which state, and its exit without words."""
    return None if seen is None else replace(seen, tasks=tuple(_plain(task) for task in seen.tasks))


def _plain(task: TaskObservation) -> TaskObservation:
    left = None if task.exit is None else replace(task.exit, evidence="")
    waiting = None if task.waiting is None else replace(task.waiting, text="")
    return replace(task, exit=left, waiting=waiting, node="", address="", ports={}, gpus=())
