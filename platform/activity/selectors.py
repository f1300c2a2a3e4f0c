"""Reads of the outbox for the layers above."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from activity.models import AuditEvent, Event

CHANGES_PER_READ = 5_000


def changed_subjects(kind: str, *, after: int) -> tuple[set[uuid.UUID], int]:
    """Ids of the `kind` subjects with events numbered after `after`, and the last number read; `after` itself if none."""
    rows = list(
        Event.objects.filter(seq__gt=after).order_by("seq").values_list("seq", "subject_kind", "subject_id")[:CHANGES_PER_READ]
    )
    return {subject_id for _, subject_kind, subject_id in rows if subject_kind == kind}, (rows[-1][0] or after) if rows else after


class Audited(NamedTuple):
    """One accepted call of the past: on what, and what it changed."""

    at: datetime
    target_id: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]


def audited_since(verb: str, moment: datetime) -> list[Audited]:
    """All accepted calls of one verb after a moment, oldest first. Reads the whole audit since: for questions of the past."""
    rows = AuditEvent.objects.filter(verb=verb, at__gt=moment).order_by("at", "id")
    return [
        Audited(at, target_id, before or {}, after or {})
        for at, target_id, before, after in rows.values_list("at", "target_id", "before", "after")
    ]
