"""Jobs, attempts and tasks as JSON, and the serializers that describe it. Everything for a whole page at once."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from django.db.models import Count
from rest_framework import serializers

from clusters.api.representations import ReferenceOut, ResourcesOut
from clusters.isolation_facts import fact_in
from jobs.lifecycle.reasons import exit_in
from jobs.lifecycle.start_waits import wait_json
from jobs.lifecycle.states import AttemptState, JobState, TaskState
from jobs.models import Attempt, Job, StoredSpec, Task
from jobs.selectors.holders import RoomHolder, room_holders
from jobs.selectors.lists import place_in_queue
from jobs.selectors.progress import stragglers_among
from jobs.selectors.reasons import Named, named_in_reasons, told_reason
from jobs.selectors.standing import standings_of
from jobs.services.preview import planned_runtime
from jobs.services.submission import Submission
from jobs.spec.canonical import spec_digest
from kernel.actor import Actor
from kernel.clock import database_now, utc_text
from kernel.resources import RESOURCE_NAMES
from tenants.identity.api.serializers import TenantRef

JOB_STATES = [str(state) for state in JobState]


class PastOut(serializers.Serializer[Any]):
    """Accuracy of the predictions of the last week, for jobs of this tenant that have started since."""

    predictions = serializers.IntegerField()
    by_p90 = serializers.FloatField(allow_null=True, help_text="Part of the jobs that started by then, from 0 to 1.")
    median_error_seconds = serializers.IntegerField(allow_null=True, help_text="Median error of p50.")


class ReasonOut(serializers.Serializer[Any]):
    """Reason for the job's state, in words, with its amounts."""

    code = serializers.CharField()
    text = serializers.CharField()
    hint = serializers.CharField()
    detail = serializers.DictField(
        help_text="Amounts. `kept_for` and `holder` are other jobs: the fields `id`, `name`, `user` and `tenant` are null if you "
        "cannot see the job, `tenant` also if it is that of this job."
    )
    found_at = serializers.DateTimeField(
        allow_null=True, help_text="Time at which the scheduler found why the job waits; null: another reason, or not known."
    )


class ExitOut(serializers.Serializer[Any]):
    """End of the attempt, as classified in docs/exit-codes.md."""

    failure_class = serializers.CharField()
    code = serializers.IntegerField(allow_null=True)
    signal = serializers.IntegerField(allow_null=True)
    task = serializers.CharField(allow_null=True)
    reason = serializers.CharField()
    text = serializers.CharField()
    hint = serializers.CharField()
    who_pays = serializers.CharField()
    stage = serializers.CharField()
    evidence = serializers.CharField()

    def get_fields(self) -> dict[str, Any]:
        return {"class": serializers.CharField(), **super().get_fields()}


class ArrayOut(serializers.Serializer[Any]):
    size = serializers.IntegerField(allow_null=True)
    parallelism = serializers.IntegerField(allow_null=True)
    index = serializers.IntegerField(allow_null=True)


class JobCodeOut(serializers.Serializer[Any]):
    """Code snapshot of the job; null until code from Git is fetched. `commit` is set for code from Git."""

    digest = serializers.CharField()
    commit = serializers.CharField(allow_null=True)


class JobImageOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    digest = serializers.CharField()


class ExpectedStartOut(serializers.Serializer[Any]):
    """Latest predicted start, the same everywhere: `p50_at` is 50 % likely, `p90_at` 90 % likely.

    `p50_at` null beside a `p90_at`: it has passed, or `reason` is `uncertain` (the samples are too far apart, or recent
    predictions of such waits were too far off) or `little_history` (too few jobs have ended; p90 assumes that every job takes its
    maximum run time). Both null: `little_history`, `unknown_ends` (it waits for jobs without a run time limit, and no similar
    job has ended yet), `overdue` (it was predicted with 90 % by `was_by`, which has passed), `horizon` or `passes` (beyond the
    planning horizon), `too_many` (too many jobs wait or run), `not_yet` (it has just begun to wait: predicted by `known_by`),
    else the reason of its wait. `error`: the recent median error of p50, as a part of the wait; null: not known yet.
    """

    p50_at = serializers.DateTimeField(allow_null=True)
    p90_at = serializers.DateTimeField(allow_null=True)
    said_at = serializers.DateTimeField()
    reason = serializers.CharField(allow_blank=True)
    was_by = serializers.DateTimeField(allow_null=True)
    known_by = serializers.DateTimeField(
        allow_null=True, help_text="For `not_yet`: the job has just begun to wait, for the first time or again."
    )
    error = serializers.FloatField(allow_null=True)


class RoomHolderOut(ResourcesOut):
    """Amount that a queue holds of a pool. `queue` null: all queues that you may not see, together."""

    queue = ReferenceOut(allow_null=True)


class ProgressOut(serializers.Serializer[Any]):
    """Work done, as the program said by its last line `berth: progress DONE/TOTAL`, in units of its own."""

    done = serializers.IntegerField()
    total = serializers.IntegerField()
    at = serializers.DateTimeField(help_text="Time at which it was said first.")


class StragglerOut(serializers.Serializer[Any]):
    """A running task that has done less than half of what the median task of its role has done of its work."""

    behind_percent = serializers.IntegerField(help_text="`median_percent` less the share that this task has done.")
    median_percent = serializers.IntegerField(help_text="Share of their work that the tasks of the role have done: the median.")


class JobOut(serializers.Serializer[Any]):
    """A job and its present state."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    kind = serializers.CharField()
    tenant = TenantRef()
    queue = ReferenceOut()
    user = ReferenceOut()
    state = serializers.ChoiceField(choices=JOB_STATES)
    desired = serializers.ChoiceField(choices=["run", "stop"])
    reason = ReasonOut(allow_null=True)
    exit = ExitOut(allow_null=True)
    condition = serializers.CharField(allow_null=True)
    priority = serializers.IntegerField()
    hold = serializers.BooleanField()
    tags = serializers.ListField(child=serializers.CharField())
    labels = serializers.DictField(child=serializers.CharField())
    framework = serializers.CharField()
    image = JobImageOut()
    code = JobCodeOut(allow_null=True)
    resources = ResourcesOut()
    parent_id = serializers.UUIDField(allow_null=True)
    array = ArrayOut(allow_null=True)
    origin = serializers.DictField(allow_null=True)
    warnings = serializers.ListField(
        child=serializers.CharField(),
        required=False,
        help_text="In the answer to a submission: secrets in variables, and variables that a shell would have to replace.",
    )
    attempt = serializers.IntegerField(help_text="Number of the latest attempt; 0 before the first.")
    cluster = serializers.CharField(allow_null=True)
    pool = serializers.CharField(allow_null=True)
    isolation = serializers.CharField(allow_null=True)
    gpus_simulated = serializers.BooleanField()
    counts = serializers.DictField(child=serializers.IntegerField(), allow_null=True)
    place = serializers.IntegerField(
        allow_null=True,
        help_text="Place of a queued job in its queue; 1 comes first. Null beyond 500, after the queue, and in lists without "
        "`standing`.",
    )
    expected_start = ExpectedStartOut(
        required=False,
        allow_null=True,
        help_text="Only in lists with `standing`. Null: the job does not wait, or is not predicted yet.",
    )
    held = ResourcesOut(
        required=False,
        allow_null=True,
        help_text="Only in lists with `standing`: resources that a live job holds now; an elastic job may hold less than "
        "`resources`.",
    )
    held_by = RoomHolderOut(
        many=True,
        required=False,
        help_text="Only in lists with `standing`: queues that hold the capacity that a waiting job lacks, largest first, in "
        "the pool that its reason names.",
    )
    progress = ProgressOut(
        required=False,
        allow_null=True,
        help_text="Only of a job that is asked for alone: the sum of the tasks of its latest attempt that said their progress. "
        "Null: none did.",
    )
    spec_digest = serializers.CharField()
    max_runtime_seconds = serializers.IntegerField(allow_null=True)
    planned_runtime_seconds = serializers.IntegerField(
        allow_null=True,
        help_text="Planned run time: `max_runtime`, else the time within which nine in ten similar jobs ended, else the "
        "queue's default, else the installation's; null: no limit. A job without `max_runtime` is not "
        "ended then; with it, the job may start sooner.",
    )
    not_before_at = serializers.DateTimeField(allow_null=True)
    submitted_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    version = serializers.IntegerField()


class QueueCountsOut(serializers.Serializer[Any]):
    """Number of jobs of the queue itself, without the queues below it, that have not ended."""

    queue_id = serializers.UUIDField()
    states = serializers.DictField(child=serializers.IntegerField())


class JobCountsOut(serializers.Serializer[Any]):
    """Number of jobs; an array counts once."""

    states = serializers.DictField(child=serializers.IntegerField(), help_text="Number of jobs by state, including 0.")
    total = serializers.IntegerField()
    queues = QueueCountsOut(many=True, required=False, help_text="Only with `by_queue`.")


class TaskWaitingOut(serializers.Serializer[Any]):
    """What a task waits for that has a place and has not begun."""

    code = serializers.CharField()
    text = serializers.CharField(help_text="What the code means, in your language.")
    detail = serializers.CharField(allow_blank=True, help_text="The cluster's own words; empty: it has none.")
    since = serializers.DateTimeField()


class TaskOut(serializers.Serializer[Any]):
    """A replica of a role."""

    role = serializers.CharField()
    index = serializers.IntegerField()
    state = serializers.ChoiceField(choices=[str(state) for state in TaskState])
    node = serializers.CharField(allow_null=True)
    address = serializers.CharField(allow_null=True)
    ports = serializers.DictField(child=serializers.IntegerField())
    gpus = serializers.ListField(child=serializers.CharField())
    gpus_simulated = serializers.BooleanField()
    resources = ResourcesOut()
    exit = serializers.DictField(allow_null=True)
    waiting = TaskWaitingOut(allow_null=True, help_text="Of a pending task; null: not known.")
    progress = ProgressOut(allow_null=True, help_text="Null: the task has said none.")
    straggler = StragglerOut(
        allow_null=True,
        help_text="Null: not far behind, not running, fewer than 3 tasks of its role have said their progress, or their median "
        "is below 20 %. No task is stopped for it.",
    )
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)


class AttemptOut(serializers.Serializer[Any]):
    """One attempt of a job."""

    id = serializers.UUIDField()
    number = serializers.IntegerField()
    state = serializers.ChoiceField(choices=[str(state) for state in AttemptState])
    outcome = serializers.CharField(allow_null=True)
    exit = ExitOut(allow_null=True)
    cluster = serializers.CharField()
    pool = serializers.CharField()
    isolation = serializers.CharField(allow_null=True)
    gpus_simulated = serializers.BooleanField()
    condition = serializers.CharField(allow_null=True)
    stop_cause = serializers.CharField(allow_null=True)
    logs_complete = serializers.BooleanField()
    outputs_complete = serializers.BooleanField()
    created_at = serializers.DateTimeField()
    launched_at = serializers.DateTimeField(allow_null=True)
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    tasks = TaskOut(many=True)


def standing_json(jobs: Sequence[Job], *, actor: Actor, language: str = "en") -> list[dict[str, Any]]:
    """The same with where they stand: six more queries at most."""
    found = standings_of(jobs, database_now())
    holders = room_holders(jobs, actor)
    rows = job_json(jobs, actor=actor, language=language)
    for job, row in zip(jobs, rows, strict=True):
        row["held_by"] = [_room_holder(holder) for holder in holders.get(job.id, ())]
        expected, held = found.expected.get(job.id), found.held.get(job.id)
        row["place"] = found.places.get(job.id)
        row["expected_start"] = None if expected is None else expected.as_json()
        row["held"] = None if held is None else held.as_dict()
    return rows


def _room_holder(holder: RoomHolder) -> dict[str, Any]:
    queue = None if holder.queue_id is None else {"id": str(holder.queue_id), "name": holder.queue_name}
    return {"queue": queue, **holder.held.as_dict()}


def job_json(jobs: Sequence[Job], *, actor: Actor, language: str = "en") -> list[dict[str, Any]]:
    """Jobs that came with tenant, queue and user; four more queries at most for the whole page."""
    attempts = {
        row["id"]: row
        for row in Attempt.objects.filter(id__in=[job.attempt_id for job in jobs if job.attempt_id]).values(
            "id", "cluster_name", "pool_name", "isolation", "gpus_simulated"
        )
    }
    digests = dict(StoredSpec.objects.filter(id__in={job.spec_id for job in jobs}).values_list("id", "digest"))
    counts = child_counts([job.id for job in jobs if job.array_size is not None])
    named = named_in_reasons(jobs, actor)
    return [
        _job(
            job,
            tenant={"id": str(job.tenant_id), "slug": job.tenant.slug, "name": job.tenant.name},
            queue_name=job.queue.name,
            user_name=job.user.name,
            attempt=attempts.get(job.attempt_id or job.id, {}),
            digest=digests[job.spec_id],
            counts=counts,
            named=named,
            language=language,
        )
        for job in jobs
    ]


def new_job_json(row: Mapping[str, Any], submission: Submission, actor: Actor, *, language: str = "en") -> dict[str, Any]:
    """A job that was stored in this very request, by the row that was written: no query but for its place."""
    job = Job(**row)
    tenant = submission.tenant
    body = _job(
        job,
        tenant={"id": str(tenant.id), "slug": tenant.slug, "name": tenant.name},
        queue_name=submission.queue.name,
        user_name=actor.name,
        attempt={},
        digest=spec_digest(submission.spec),
        counts={job.id: {str(JobState.QUEUED): job.array_size}} if job.array_size else {},
        named={},
        language=language,
    )
    return {**body, "place": place_in_queue(job)}


def child_counts(parent_ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, dict[str, int]]:
    """How many children of each array are in each state. One query, none without arrays."""
    counts: dict[uuid.UUID, dict[str, int]] = defaultdict(dict)
    if parent_ids:
        rows = Job.objects.filter(parent_id__in=parent_ids).order_by().values_list("parent_id", "state")
        for parent_id, state, number in rows.annotate(number=Count("id")):
            counts[parent_id][state] = number
    return counts


def _job(
    job: Job,
    *,
    tenant: Mapping[str, str],
    queue_name: str,
    user_name: str,
    attempt: Mapping[str, Any],
    digest: str,
    counts: Mapping[uuid.UUID, Mapping[str, int]],
    named: Named,
    language: str,
) -> dict[str, Any]:
    is_array = job.array_size is not None or job.parent_id is not None
    return {
        "id": str(job.id),
        "name": job.name,
        "kind": job.kind,
        "tenant": tenant,
        "queue": {"id": str(job.queue_id), "name": queue_name},
        "user": {"id": str(job.user_id), "name": user_name},
        "state": job.state,
        "desired": job.desired,
        "reason": reason_json(job, named, language),
        "exit": exit_in(job.exit, language),
        "condition": job.condition or None,
        "priority": job.priority,
        "hold": job.hold,
        "tags": job.tags,
        "labels": job.labels,
        "framework": job.framework,
        "image": {"name": job.image_name, "digest": job.image_digest},
        "code": {"digest": job.code_digest, "commit": job.code_commit} if job.code_digest else None,
        "resources": {name: getattr(job, name) for name in RESOURCE_NAMES},
        "parent_id": str(job.parent_id) if job.parent_id else None,
        "array": {"size": job.array_size, "parallelism": job.array_parallelism, "index": job.array_index} if is_array else None,
        "origin": {"id": str(job.origin_id), "kind": job.origin_kind} if job.origin_id else None,
        "attempt": job.attempt_count,
        "cluster": attempt.get("cluster_name"),
        "pool": attempt.get("pool_name"),
        "isolation": fact_in(attempt.get("isolation") or "", language) or None,
        "gpus_simulated": attempt.get("gpus_simulated", False),
        "counts": dict(counts[job.id]) if job.array_size is not None else None,
        "place": None,
        "spec_digest": digest,
        "max_runtime_seconds": job.max_runtime_seconds,
        "planned_runtime_seconds": planned_runtime(job.max_runtime_seconds, job.cautious_seconds),
        "not_before_at": utc_text(job.not_before_at),
        "submitted_at": utc_text(job.submitted_at),
        "started_at": utc_text(job.started_at),
        "ended_at": utc_text(job.ended_at),
        "version": job.version,
    }


def reason_json(job: Job, named: Named, language: str = "en") -> dict[str, Any] | None:
    """Why a job waits, or how it came to its end; None while it runs as it should."""
    if not job.reason_code:
        return None
    return told_reason(job.reason_code, job.reason_detail, named, job.tenant_id, language)


def attempt_json(attempts: Sequence[Attempt], language: str = "en") -> list[dict[str, Any]]:
    """Attempts with their tasks; one query for all tasks, and one for those that are behind."""
    tasks: dict[uuid.UUID, list[dict[str, Any]]] = defaultdict(list)
    rows = list(Task.objects.filter(attempt_id__in=[attempt.id for attempt in attempts]).order_by("role", "index"))
    for task, body in zip(rows, task_json(rows, language), strict=True):
        tasks[task.attempt_id].append(body)
    return [
        {
            "id": str(attempt.id),
            "number": attempt.number,
            "state": attempt.state,
            "outcome": attempt.outcome or None,
            "exit": exit_in(attempt.exit, language),
            "cluster": attempt.cluster_name,
            "pool": attempt.pool_name,
            "isolation": fact_in(attempt.isolation, language) or None,
            "gpus_simulated": attempt.gpus_simulated,
            "condition": attempt.condition or None,
            "stop_cause": attempt.stop_cause or None,
            "logs_complete": attempt.logs_stored,
            "outputs_complete": attempt.outputs_stored,
            "created_at": utc_text(attempt.created_at),
            "launched_at": utc_text(attempt.launched_at),
            "started_at": utc_text(attempt.started_at),
            "ended_at": utc_text(attempt.ended_at),
            "tasks": tasks[attempt.id],
        }
        for attempt in attempts
    ]


def task_json(tasks: Sequence[Task], language: str = "en") -> list[dict[str, Any]]:
    """Tasks, and how far they are behind; one query more where a running one has said its progress."""
    behind = stragglers_among(tasks)
    return [
        {
            "role": task.role,
            "index": task.index,
            "state": task.state,
            "node": task.node_name or None,
            "address": task.address or None,
            "ports": task.ports,
            "gpus": task.gpus,
            "gpus_simulated": task.gpus_simulated,
            "resources": {name: getattr(task, name) for name in RESOURCE_NAMES},
            "exit": task.exit,
            "waiting": wait_json(task.waiting, language) if task.state == TaskState.PENDING else None,
            "progress": task.progress,
            "straggler": asdict(behind[task.id]) if task.id in behind else None,
            "started_at": utc_text(task.started_at),
            "ended_at": utc_text(task.ended_at),
        }
        for task in tasks
    ]
