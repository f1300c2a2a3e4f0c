"""Looking for a part of a job's name or tags, by the indexes that the two databases have for it."""

from __future__ import annotations

import re

from django.db import connections
from django.db.models import F, Func, QuerySet, TextField
from django.db.models.expressions import RawSQL

from jobs.models import Job

WORD = re.compile(r"[\w.:@+-]+")  # What names and tags are made of; all else stands in the database's text between them.
PIECE_LENGTH = 3  # Both indexes are made of three-letter pieces: a shorter text is looked for row by row.


class _NameAndTags(Func):
    """What `job_text` indexes on PostgreSQL (`jobs/migrations/0003_lists.py`), letter for letter."""

    template = "upper(%(expressions)s::text)"
    arg_joiner = " || ' ' || "
    output_field = TextField()


def with_text(rows: QuerySet[Job], text: str) -> QuerySet[Job]:
    """Jobs with this text, in whatever case, in their name or in one of their tags."""
    if WORD.fullmatch(text) is None:
        return rows.none()
    if connections[rows.db].vendor == "postgresql":
        return rows.alias(name_and_tags=_NameAndTags(F("name"), F("tags"))).filter(name_and_tags__contains=text.upper())
    if len(text) < PIECE_LENGTH:
        return rows.filter(id__in=RawSQL("SELECT job_id FROM jobs_job_text WHERE instr(upper(text), upper(%s))", [text]))
    phrase = '"' + text.replace('"', '""') + '"'
    return rows.filter(id__in=RawSQL("SELECT job_id FROM jobs_job_text WHERE text MATCH %s", [phrase]))
