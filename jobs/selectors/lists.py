"""Conditions on the lists of jobs that the two databases say differently."""

from __future__ import annotations

import json

from django.db import connections
from django.db.models import QuerySet, TextField, Value
from django.db.models.functions import Cast, StrIndex

from jobs.models import Job


def with_tag(rows: QuerySet[Job], tag: str) -> QuerySet[Job]:
    """Jobs that carry the tag."""
    if connections[rows.db].vendor == "postgresql":
        return rows.filter(tags__contains=[tag])
    # SQLite's LIKE knows no case; INSTR does.
    place = StrIndex(Cast("tags", TextField()), Value(json.dumps(tag)))
    return rows.annotate(tag_place=place).filter(tag_place__gt=0)


def with_label(rows: QuerySet[Job], key: str, value: str) -> QuerySet[Job]:
    """Jobs whose label `key` has this value."""
    if connections[rows.db].vendor == "postgresql":
        return rows.filter(labels__contains={key: value})
    return rows.filter(**{f"labels__{key}": value}) if _is_plain(key) else rows.none()


def _is_plain(key: str) -> bool:
    """A key that cannot be mistaken for a lookup; labels' grammar has no underscore pair, but a query may say anything."""
    return bool(key) and "__" not in key
