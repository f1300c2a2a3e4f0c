"""Checked submissions become rows: jobs, transitions, events and one audit row, in one transaction."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db import transaction

from activity import hints
from activity.services import NewAudit, NewEvent, record_together
from jobs.lifecycle.states import CheckpointGate, JobState
from jobs.loading.specs import store_specs
from jobs.models import Dependency, Job, PriorityRequest
from jobs.services.dependencies import CODE, settle
from jobs.services.priority_requests import new_request, tell_requested
from jobs.services.submission import Origin, Submission
from jobs.spec.canonical import canonical, spec_digest
from kernel.actor import Actor
from kernel.ids import new_ids
from kernel.resources import RESOURCE_NAMES
from kernel.wait_codes import WaitCode
from reconciling.bulk import BATCH_ROWS
from reconciling.crashpoints import crashpoint
from reconciling.models import Transition
from storage.services.checkpoints import begin_from

Row = dict[str, Any]
NEW = Origin()


def submit(
    submissions: Sequence[Submission], *, actor: Actor, now: datetime, origin: Origin = NEW, call: str = "job.submit"
) -> list[uuid.UUID]:
    """Store jobs and say so: rows, transitions, events and one audit row in one transaction. Returns ids in order.

    All submissions are of one tenant. An array gives the id of its parent.
    """
    return [row["id"] for row in store(submissions, actor=actor, now=now, origin=origin, call=call)]


def store(
    submissions: Sequence[Submission], *, actor: Actor, now: datetime, origin: Origin = NEW, call: str = "job.submit"
) -> list[Row]:
    """The same, returning the rows as they were written, the parent's of an array."""
    tenant = submissions[0].tenant
    fetches, submissions = _with_fetches(submissions)
    documents = [canonical(submission.spec) for submission in (*submissions, *fetches.values())]
    digests = [spec_digest(document) for document in documents]
    with transaction.atomic():
        specs = store_specs(tenant.id, dict(zip(digests, documents, strict=True)), now=now)
        heads = [
            {**_job_row(submission, specs[digest], actor, origin, now), "id": job_id}
            for submission, digest, job_id in zip(submissions, digests, new_ids(len(submissions)), strict=False)
        ]
        for (job_id, fetch), digest in zip(fetches.items(), digests[len(submissions) :], strict=True):
            _write([{**_job_row(fetch, specs[digest], actor, NEW, now), "id": job_id}], [], None, actor, now)
        audit: NewAudit | None = NewAudit(
            actor=actor,
            verb=call,
            tenant_id=tenant.id,
            target_kind="job",
            target_id=heads[0]["id"],
            target_name=submissions[0].spec.name,
            after={"spec_digest": digests[0], "queue": submissions[0].queue.name},
            count=len(heads) + sum(row["array_size"] or 0 for row in heads),
            at=now,
        )
        sources = {
            row["id"]: submission.checkpoint_from
            for row, submission in zip(heads, submissions, strict=True)
            if submission.checkpoint_from
        }
        for chunk in _chunks(_with_children(heads)):
            dependencies = list(_dependencies(chunk, submissions, heads))
            _write(chunk, dependencies, audit, actor, now)
            audit = None  # One row for the whole call.
            _begin_from(chunk, sources, now)
        _request_the_rest(heads, submissions, actor, now)
        if any(submission.dependencies for submission in submissions):
            # Jobs that were waited for may have started or ended before this was stored.
            settle(sorted({on_id for submission in submissions for _, on_id in submission.dependencies}), now=now)
        crashpoint("jobs.submit.before_commit")
    crashpoint("jobs.submit.after_commit")
    return heads


def _with_fetches(submissions: Sequence[Submission]) -> tuple[dict[uuid.UUID, Submission], Sequence[Submission]]:
    """The jobs that fetch code, by the id that each gets, and the submissions that wait for them. Equal fetches are one."""
    wanted = {
        spec_digest(canonical(submission.fetch.spec)): submission.fetch
        for submission in submissions
        if submission.fetch is not None
    }
    if not wanted:
        return {}, submissions
    ids = dict(zip(wanted, new_ids(len(wanted)), strict=True))
    fetches = {ids[digest]: fetch for digest, fetch in wanted.items()}
    waiting = [
        submission
        if submission.fetch is None
        else replace(
            submission, dependencies=(*submission.dependencies, (CODE, ids[spec_digest(canonical(submission.fetch.spec))]))
        )
        for submission in submissions
    ]
    return fetches, waiting


def _request_the_rest(heads: Sequence[Row], submissions: Sequence[Submission], actor: Actor, now: datetime) -> None:
    """Ask for the priority that the submitter may not use without approval, where they gave a reason."""
    requests = [
        new_request(
            actor=actor,
            tenant_id=row["tenant_id"],
            job_id=row["id"],
            user_id=row["user_id"],
            priority=submission.spec.priority,
            reason=submission.priority_reason,
            now=now,
        )
        for row, submission in zip(heads, submissions, strict=True)
        if submission.priority_reason is not None
    ]
    if requests:
        PriorityRequest.objects.bulk_create(requests)
        tell_requested(requests, actor, now)


def _with_children(heads: Iterable[Row]) -> Iterator[Row]:
    """All rows, each array's children behind their parent. One at a time: an array may have 100,000."""
    for head in heads:
        yield head
        if head["array_size"]:
            child = {**head, "parent_id": head["id"], "origin_id": None, "origin_kind": ""}
            child |= {
                "array_size": None,
                "array_parallelism": None,
                "reason_code": WaitCode.HELD if head["hold"] else WaitCode.SCHEDULING,
            }
            for index, child_id in enumerate(new_ids(head["array_size"])):
                yield {**child, "id": child_id, "array_index": index}


def _chunks(rows: Iterator[Row]) -> Iterator[list[Row]]:
    chunk: list[Row] = []
    for row in rows:
        chunk.append(row)
        if len(chunk) == BATCH_ROWS:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _dependencies(chunk: Sequence[Row], submissions: Sequence[Submission], heads: Sequence[Row]) -> Iterator[Row]:
    """What each job that may run waits for; the parent of an array never runs itself."""
    wanted = {row["id"]: submission.dependencies for row, submission in zip(heads, submissions, strict=True)}
    for row in chunk:
        if row["array_size"]:
            continue
        edges = wanted[row["parent_id"] or row["id"]]
        for edge_id, (condition, on_id) in zip(new_ids(len(edges)), edges, strict=True):
            yield {"id": edge_id, "job_id": row["id"], "on_id": on_id, "condition": condition, "met": None}


def _job_row(submission: Submission, spec_id: uuid.UUID, actor: Actor, origin: Origin, now: datetime) -> Row:
    spec, ask, array = submission.spec, submission.ask, submission.spec.array
    return {
        "tenant_id": submission.tenant.id,
        "queue_id": submission.queue.id,
        "user_id": actor.user_id,
        "spec_id": spec_id,
        "image_id": submission.image.id,
        "image_kind": str(submission.image.kind),
        "image_name": submission.image.name,
        "image_digest": submission.image.digest,
        "code_digest": submission.code_digest,
        "code_commit": submission.code_commit,
        "name": spec.name,
        "kind": str(spec.kind),
        "framework": spec.framework,
        "labels": dict(spec.labels),
        "tags": list(spec.tags),
        "pool_name": spec.pool or "",
        "state": JobState.QUEUED,
        "desired": "run",
        "hold": spec.hold,
        "priority": submission.priority,
        "reason_code": WaitCode.ARRAY if array else WaitCode.HELD if spec.hold else WaitCode.SCHEDULING,
        "reason_detail": {},
        "condition": "",
        **{name: getattr(ask, name) for name in RESOURCE_NAMES},
        "max_runtime_seconds": submission.max_runtime_seconds,
        "cautious_seconds": submission.cautious_seconds,
        "parent_id": None,
        "array_index": None,
        "array_size": array.size if array else None,
        "array_parallelism": array.parallelism if array else None,
        "origin_id": origin.job_id,
        "origin_kind": origin.kind,
        "build_request_id": origin.build_request_id,
        "open_dependencies": len(submission.dependencies),
        "dependency_failed": False,
        "checkpoint": _gate(submission),
        "attempt_count": 0,
        "paid": {},
        "not_before_at": spec.start_after,
        "submitted_at": now,
        "queued_at": now,
        "version": 1,
    }


def _begin_from(chunk: Sequence[Row], sources: Mapping[uuid.UUID, uuid.UUID], now: datetime) -> None:
    """Each job that runs gets a copy of its own of the checkpoint that it starts from."""
    for head_id, source in sources.items():
        begin = {
            row["id"]: row["tenant_id"] for row in chunk if head_id in (row["id"], row["parent_id"]) and not row["array_size"]
        }
        begin_from(begin, source=source, now=now)
    if sources:
        hints.wake("checkpoints")


def _gate(submission: Submission) -> str | None:
    """A directory inside a mount is the user's own: the platform does not look into it."""
    checkpoint = submission.spec.checkpoint
    if checkpoint is None or checkpoint.path.startswith("/"):
        return None
    return CheckpointGate.CHECKING if submission.checkpoint_from is not None else CheckpointGate.KEPT


def _write(jobs: Sequence[Row], dependencies: Sequence[Row], audit: NewAudit | None, actor: Actor, now: datetime) -> None:
    """Rows, and the first transition of every job, from nothing to QUEUED, and its event."""
    transitions = [
        {
            "id": transition_id,
            "tenant_id": job["tenant_id"],
            "subject_kind": "job",
            "subject_id": job["id"],
            "job_id": job["id"],
            "from_state": "",
            "to_state": JobState.QUEUED,
            "reason": "submitted",
            "detail": {},
            "actor": actor.name,
            "at": now,
        }
        for job, transition_id in zip(jobs, new_ids(len(jobs)), strict=True)
    ]
    record_together(
        [(Job, jobs), (Dependency, dependencies), (Transition, transitions)],
        events=[_queued(job, actor, now) for job in jobs],
        audit=audit,
    )
    hints.wake("scheduler")


def _queued(job: Mapping[str, Any], actor: Actor, now: datetime) -> NewEvent:
    return NewEvent(
        kind="job.queued",
        tenant_id=job["tenant_id"],
        subject_kind="job",
        subject_id=job["id"],
        job_id=job["id"],
        data={"from": "", "to": JobState.QUEUED, "reason": "submitted", "name": job["name"], "user": actor.name},
        at=now,
    )
