"""Decisions that were kept, for one reader: what they name of others is left out (amounts stay)."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from jobs.lifecycle.filter_words import filter_text
from jobs.lifecycle.unmet import condition_text
from jobs.models import DecisionRecord, Job
from kernel.actor import Actor
from kernel.clock import utc_text
from kernel.wait_codes import present_code
from tenants.capacity.reads import limits_tree
from tenants.identity.access import role_allows
from webapi.access import visible

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
    yield from (str(victim["job"]) for victim in payload.get("victims", ()) if victim.get("job"))
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
    tree = limits_tree(with_deleted=True)
    return {str(queue.id): queue.name for queue in tree.queues if role_allows(actor, tree.tenants.get(queue.id), "queue.read")}


def _detail(payload: Mapping[str, Any], jobs: Mapping[str, str], queues: Mapping[str, str], language: str) -> Shown:
    found = dict(payload)
    if "claimant" in found:
        found["claimant"] = _job(found["claimant"], jobs)
    if "victims" in found:
        found["victims"] = [{**victim, "job": _job(victim.get("job"), jobs)} for victim in found["victims"]]
    if "queue" in found:
        found["queue"] = _queue(found["queue"], queues)
    if "roles" in found:
        found["roles"] = [{**role, "filters": _filters(role.get("filters", ()), language)} for role in found["roles"]]
    for key in ("reason", "waited_for"):
        if key in found:
            reason = {**found[key], "code": present_code(found[key]["code"])}
            if "queue" in reason:
                reason["queue"] = _queue(reason["queue"], queues)
            reason["text"] = _reason_text(reason, language)
            if "filters" in reason:
                reason["filters"] = _filters(reason["filters"], language)
            found[key] = reason
    return found


def _reason_text(reason: Mapping[str, Any], language: str) -> str:
    """The words of a stored reason whose queue is already shown as its reader may see it."""
    queue = (reason.get("queue") or {}).get("name")
    return condition_text(
        {**reason, "queue": queue, "since": _moment(reason, "since"), "until": _moment(reason, "until")}, language
    )


def _moment(reason: Mapping[str, Any], key: str) -> str | None:
    found = reason.get(key)
    return utc_text(datetime.fromtimestamp(found, UTC)) if isinstance(found, int) else None


def _job(job_id: object, jobs: Mapping[str, str]) -> Shown | None:
    text = str(job_id or "")
    return {"id": text, "name": jobs[text]} if text in jobs else None


def _queue(queue_id: object, queues: Mapping[str, str]) -> Shown | None:
    text = str(queue_id or "")
    return {"id": text, "name": queues[text]} if text in queues else None


def _filters(filters: Iterable[Mapping[str, Any]], language: str) -> list[Shown]:
    return [{**row, "text": filter_text(str(row.get("code", "")), language)} for row in filters]
