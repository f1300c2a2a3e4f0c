"""Reads of the outbox for the layers above."""

from __future__ import annotations

import uuid

from activity.models import Event

CHANGES_PER_READ = 5_000


def changed_subjects(kind: str, *, after: int) -> tuple[set[uuid.UUID], int]:
    """Ids of the `kind` subjects with events numbered after `after`, and the last number read; `after` itself if none."""
    rows = list(
        Event.objects.filter(seq__gt=after).order_by("seq").values_list("seq", "subject_kind", "subject_id")[:CHANGES_PER_READ]
    )
    return {subject_id for _, subject_kind, subject_id in rows if subject_kind == kind}, (rows[-1][0] or after) if rows else after
