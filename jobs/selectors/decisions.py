"""Decisions that were kept, for one reader: what they name of others is left out (amounts stay)."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jobs.lifecycle.unmet import filter_text
from jobs.models import DecisionRecord, Job
from kernel.actor import Actor
from tenants.access import role_allows
from tenants.capacity import limits_tree
from webapi.access import visible
from webapi.fields import utc_text

Shown = dict[str, Any]


def decisions_json(rows: Sequence[DecisionRecord], actor: Actor, language: str = "en") -> list[Shown]:
    """Records as JSON. Three queries for any number."""
    jobs = _visible_jobs({job_id for row in rows for job_id in _jobs_in(row.payload)}, actor)
    queues = _visible_queues(actor) if rows else {}
    return [
        {
            "id": str(row.id),
            "at": utc_text(row.at),
            "kind": row.kind,
            "pool": row.pool or None,
            "detail": _detail(row.payload, jobs, queues, language),
        }
        for row in rows
    ]


def _jobs_in(payload: Mapping[str, Any]) -> Iterable[str]:
    yield from (str(one["job"]) for one in payload.get("victims", ()) if one.get("job"))
    if payload.get("claimant"):
        yield str(payload["claimant"])


def _visible_jobs(texts: Iterable[str], actor: Actor) -> dict[str, str]:
    ids = []
    for text in texts:
        try:
            ids.append(uuid.UUID(text))
        except ValueError:
            continue
    rows = visible(actor, Job).filter(id__in=ids) if ids else Job.objects.none()
    return {str(job_id): name for job_id, name in rows.values_list("id", "name")}


def _visible_queues(actor: Actor) -> dict[str, str]:
    tree = limits_tree()
    return {str(queue.id): queue.name for queue in tree.queues if role_allows(actor, tree.tenants.get(queue.id), "queue.read")}


def _detail(payload: Mapping[str, Any], jobs: Mapping[str, str], queues: Mapping[str, str], language: str) -> Shown:
    found = dict(payload)
    if "claimant" in found:
        found["claimant"] = _job(found["claimant"], jobs)
    if "victims" in found:
        found["victims"] = [{**one, "job": _job(one.get("job"), jobs)} for one in found["victims"]]
    if "queue" in found:
        found["queue"] = _queue(found["queue"], queues)
    if "roles" in found:
        found["roles"] = [{**one, "filters": _filters(one.get("filters", ()), language)} for one in found["roles"]]
    for key in ("reason", "waited_for"):
        if key in found:
            reason = dict(found[key])
            if "queue" in reason:
                reason["queue"] = _queue(reason["queue"], queues)
            if "filters" in reason:
                reason["filters"] = _filters(reason["filters"], language)
            found[key] = reason
    return found


def _job(job_id: object, jobs: Mapping[str, str]) -> Shown | None:
    text = str(job_id or "")
    return {"id": text, "name": jobs[text]} if text in jobs else None


def _queue(queue_id: object, queues: Mapping[str, str]) -> Shown | None:
    text = str(queue_id or "")
    return {"id": text, "name": queues[text]} if text in queues else None


def _filters(filters: Iterable[Mapping[str, Any]], language: str) -> list[Shown]:
    return [{**one, "text": filter_text(str(one.get("code", "")), language)} for one in filters]
