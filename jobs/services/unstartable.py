"""Jobs that wait for something that will never come."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction

from jobs.lifecycle.exits import classify
from jobs.lifecycle.states import JobState
from jobs.services.arrays import derive_parents
from jobs.services.dependencies import settle
from jobs.services.transition import JOB, Change, apply


def fail_unstartable(rows: Sequence[tuple[uuid.UUID, str, Mapping[str, Any]]], *, now: datetime) -> None:
    """Fail queued jobs, each with a code of the exit classification and its amounts."""
    with transaction.atomic():
        moved = apply(
            JOB,
            [
                Change(
                    job_id,
                    JobState.QUEUED,
                    JobState.FAILED,
                    reason=code,
                    detail=detail,
                    also={
                        "ended_at": now,
                        "reason_code": code,
                        "reason_detail": dict(detail),
                        "exit": classify(engine_code=code).as_dict(),
                    },
                )
                for job_id, code, detail in rows
            ],
            actor="system:scheduler",
            at=now,
        )
        ids = [change.id for change in moved]
        settle([*ids, *derive_parents(ids, now=now)], now=now)
