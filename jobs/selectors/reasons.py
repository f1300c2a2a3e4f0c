"""Reasons as one reader is told them: in words, with the other jobs that they are about. Reads only.

A reason is stored with the id of the job that room is kept for, or that holds it. That job is named to those who see it; to all
others it is a job of another tenant, of which not even the id is told. One that has moved on since - room was kept for it and it
runs, or it held room and has ended - is told to nobody: it would send people to the wrong user.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from jobs.lifecycle.reasons import explain
from jobs.lifecycle.states import JobState
from jobs.lifecycle.wait_record import FOUND_AT, OTHER_JOBS
from jobs.models import Job
from jobs.selectors.board import RUNNING
from kernel.actor import Actor
from webapi.access import visible

IDS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class NamedJob:
    """A job that the reader sees."""

    id: uuid.UUID
    name: str
    user_id: uuid.UUID
    user: str
    tenant_id: uuid.UUID
    tenant: str
    state: str


Named = Mapping[str, NamedJob]


def told_reason(code: str, detail: Mapping[str, Any], named: Named, tenant_id: uuid.UUID, language: str = "en") -> dict[str, Any]:
    """A reason as JSON. `tenant_id`: of the job that waits, or ended."""
    told = told_detail(detail, named, tenant_id)
    found_at = told.pop(FOUND_AT, None)
    words = explain(code, told, language)
    return {"code": words.code, "text": words.text, "hint": words.hint, "detail": told, "found_at": found_at}


def named_jobs(actor: Actor, job_ids: Iterable[str]) -> Named:
    """Those of these jobs that the reader sees, by id. One query for 500, none for none."""
    wanted = sorted({found for text in job_ids if (found := _uuid(text)) is not None})
    named: dict[str, NamedJob] = {}
    columns = ("id", "name", "user_id", "user__name", "tenant_id", "tenant__name", "state")
    for start in range(0, len(wanted), IDS_AT_ONCE):
        rows = visible(actor, Job).filter(id__in=wanted[start : start + IDS_AT_ONCE]).order_by()
        named |= {str(row[0]): NamedJob(*row) for row in rows.values_list(*columns)}
    return named


def named_in_reasons(jobs: Iterable[Job], actor: Actor) -> Named:
    """The other jobs that the reasons of these are about. One query at most for a page."""
    return named_jobs(actor, {job_id for job in jobs for job_id in others_in(job.reason_detail)})


def others_in(detail: Mapping[str, Any]) -> set[str]:
    """The ids of other jobs in the amounts of a reason."""
    return {found["job"] for key in OTHER_JOBS if isinstance(found := detail.get(key), Mapping) and "job" in found}


def told_detail(detail: Mapping[str, Any], named: Named, tenant_id: uuid.UUID) -> dict[str, Any]:
    """The amounts of a reason as they are told to its reader: other jobs by name, or as another tenant's. `tenant_id`: of the job
    that waits."""
    told = dict(detail)
    for key in OTHER_JOBS & told.keys():
        told[key] = other = _told(told[key], named, tenant_id, RUNNING if key == "holder" else (JobState.QUEUED,))
        if other is None:
            del told[key]
    return told


def _told(stored: Mapping[str, Any], named: Named, tenant_id: uuid.UUID, states: Iterable[str]) -> dict[str, Any] | None:
    amounts = {key: value for key, value in stored.items() if key != "job"}
    job = named.get(str(stored.get("job")))
    if job is None:
        amounts.pop("until", None)  # When it ends is for those who see it.
        return {"id": None, "name": None, "user": None, "tenant": None, **amounts}
    if job.state not in states:
        return None
    tenant = job.tenant if job.tenant_id != tenant_id else None
    return {"id": str(job.id), "name": job.name, "user": job.user, "tenant": tenant, **amounts}


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None
