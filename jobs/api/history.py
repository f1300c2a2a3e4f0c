"""What happened to a job: attempts, tasks, transitions, the timeline of its phases, its use of resources."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from clusters.api.representations import SeriesListOut, series_json
from clusters.api.views import read_span
from clusters.engines.interface import TaskName
from clusters.telemetry.metrics import METRICS
from clusters.telemetry.reading import job_metrics
from jobs.api import examples
from jobs.api.representations import AttemptOut, TaskOut, attempt_json, task_json
from jobs.lifecycle.reasons import explain
from jobs.models import Attempt, Job, Task
from jobs.selectors.find import fetch_job
from jobs.selectors.timeline import timeline
from kernel.clock import database_now, utc_text
from kernel.errors import FieldError, InvalidInput, NotFound
from kernel.words import Text
from reconciling.models import Transition
from webapi.pagination import page
from webapi.schema import page_of
from webapi.views import ApiView, known_query
from webapi.wording import reader_language


class TransitionOut(serializers.Serializer[Any]):
    """A change of state of the job or of an attempt or task."""

    id = serializers.UUIDField()
    subject = serializers.DictField()
    from_state = serializers.CharField(allow_null=True)
    to_state = serializers.CharField()
    reason = serializers.CharField(allow_null=True)
    reason_text = serializers.CharField(allow_null=True, help_text="The reason in words, in your language.")
    detail = serializers.DictField()
    actor = serializers.CharField()
    at = serializers.DateTimeField()


class PhaseOut(serializers.Serializer[Any]):
    """A phase of a job's life. The phases follow each other without a gap, so their durations add up to its age."""

    phase = serializers.CharField()
    cause = serializers.CharField(allow_null=True)
    reason_text = serializers.CharField(allow_null=True, help_text="The cause in words, in your language.")
    attempt = serializers.IntegerField(allow_null=True)
    began_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True, help_text="Null while the phase lasts.")
    seconds = serializers.FloatField()


class TimelineOut(serializers.Serializer[Any]):
    phases = PhaseOut(many=True)
    seconds = serializers.FloatField()


class JobEventsView(ApiView):
    """List the transitions of a job, oldest first."""

    @extend_schema(
        operation_id="jobs_events",
        parameters=[OpenApiParameter("all", bool, description="Include transitions of tasks.")],
        responses=page_of(TransitionOut),
    )
    def get(self, request: Request, job: str) -> Response:
        known_query(request, ("all",))
        found = fetch_job(self.actor, job, "job.read")
        rows = Transition.objects.filter(job_id=found.id)
        if request.query_params.get("all", "").lower() not in {"1", "true", "yes"}:
            rows = rows.exclude(subject_kind="task")
        language = reader_language(request)
        return page(request, rows, order=("id",), serialize=lambda found: [_transition(row, language) for row in found])


def _transition(row: Transition, language: str) -> dict[str, Any]:
    return {
        "id": str(row.id),
        "subject": {"kind": row.subject_kind, "id": str(row.subject_id)},
        "from_state": row.from_state or None,
        "to_state": row.to_state,
        "reason": row.reason or None,
        "reason_text": _reason_text(row.reason, row.detail, language),
        "detail": row.detail,
        "actor": row.actor,
        "at": utc_text(row.at),
    }


def _reason_text(code: str, detail: Mapping[str, Any], language: str) -> str | None:
    return explain(code, detail, language).text if code else None


class JobTimelineView(ApiView):
    """Get the duration of each phase of a job, with reasons."""

    @extend_schema(operation_id="jobs_timeline", responses=TimelineOut)
    def get(self, request: Request, job: str) -> Response:
        found = fetch_job(self.actor, job, "job.read")
        phases, language = timeline(found, now=database_now()), reader_language(request)
        return Response(
            {
                "phases": [
                    {
                        "phase": phase.name,
                        "cause": phase.cause or None,
                        "reason_text": _reason_text(phase.cause, phase.detail, language),
                        "attempt": phase.attempt,
                        "began_at": utc_text(phase.began_at),
                        "ended_at": utc_text(phase.ended_at),
                        "seconds": phase.seconds,
                    }
                    for phase in phases
                ],
                "seconds": round(sum(phase.seconds for phase in phases), 6),
            }
        )


class AttemptListView(ApiView):
    """List the attempts of a job, newest first."""

    @extend_schema(operation_id="jobs_attempts", responses=page_of(AttemptOut))
    def get(self, request: Request, job: str) -> Response:
        known_query(request, ())
        found = fetch_job(self.actor, job, "job.read")
        return page(
            request,
            Attempt.objects.filter(job_id=found.id),
            order=("-number",),
            serialize=partial(attempt_json, language=reader_language(request)),
        )


class AttemptView(ApiView):
    """Get an attempt."""

    @extend_schema(operation_id="jobs_attempt", responses=AttemptOut)
    def get(self, request: Request, job: str, number: int) -> Response:
        found = fetch_job(self.actor, job, "job.read")
        return Response(attempt_json([get_attempt(found, number)], reader_language(request))[0])


class TaskListView(ApiView):
    """List the tasks of an attempt, by default of the latest."""

    @extend_schema(
        operation_id="jobs_tasks",
        parameters=[OpenApiParameter("attempt", int, description="Number of the attempt.")],
        responses=page_of(TaskOut),
        examples=[examples.answer("A straggler", {"items": [examples.TASK], "next": None})],
    )
    def get(self, request: Request, job: str) -> Response:
        known_query(request, ("attempt",))
        found = fetch_job(self.actor, job, "job.read")
        attempt = find_attempt(found, request.query_params.get("attempt"))
        rows = Task.objects.filter(attempt_id=attempt.id) if attempt is not None else Task.objects.none()
        return page(request, rows, order=("role", "index"), serialize=partial(task_json, language=reader_language(request)))


class JobMetricsView(ApiView):
    """Get the resource usage of the tasks of an attempt over time; gaps are null."""

    @extend_schema(
        operation_id="jobs_metrics",
        parameters=[
            OpenApiParameter("metric", str, enum=list(METRICS)),
            OpenApiParameter("task", str, description="`<role>-<index>`; default: all tasks."),
            OpenApiParameter("attempt", int),
            OpenApiParameter("since", datetime, description="Default: start of the attempt."),
            OpenApiParameter("until", datetime),
            OpenApiParameter("points", int),
        ],
        responses=SeriesListOut,
    )
    def get(self, request: Request, job: str) -> Response:
        known_query(request, ("metric", "task", "attempt", "since", "until", "points"))
        found = fetch_job(self.actor, job, "job.read")
        attempt = find_attempt(found, request.query_params.get("attempt"))
        if attempt is None:
            return Response({"items": []})
        now = database_now()
        since, until, points = read_span(request, now)
        if "since" not in request.query_params:
            since = min(attempt.launched_at or attempt.created_at, until)
        tasks = _tasks(attempt, request.query_params.get("task"))
        series = job_metrics(attempt.id, tasks, request.query_params.get("metric"), since, until, now=now, points_max=points)
        simulated = {entry.subject for entry in series} if attempt.gpus_simulated else ()
        return Response({"items": series_json(series, simulated=simulated)})


def _tasks(attempt: Attempt, wanted: str | None) -> list[TaskName]:
    names = [
        TaskName(*row)
        for row in Task.objects.filter(attempt_id=attempt.id).order_by("role", "index").values_list("role", "index")
    ]
    if wanted is None:
        return names
    found = [name for name in names if str(name) == wanted]
    if not found:
        raise NotFound(
            Text(f"The attempt has no task {wanted[:80]!r}.", f"该尝试没有任务 {wanted[:80]!r}。"),
            hint=Text("A task is named <role>-<index>, such as worker-0.", "任务名为 <role>-<index>，例如 worker-0。"),
        )
    return found


def get_attempt(job: Job, number: int) -> Attempt:
    found = Attempt.objects.filter(job_id=job.id, number=number).first()
    if found is None:
        raise NotFound(
            Text(f"Job {job.name} has no attempt {number}.", f"作业 {job.name} 没有第 {number} 次尝试。"),
            hint=Text(f"Its latest attempt is {job.attempt_count}.", f"最近一次是第 {job.attempt_count} 次尝试。")
            if job.attempt_count
            else Text("It has not started yet.", "尚未启动。"),
        )
    return found


def find_attempt(job: Job, text: str | None) -> Attempt | None:
    """The attempt with this number, the latest without one, None before the first."""
    if text is None:
        return Attempt.objects.filter(id=job.attempt_id).first() if job.attempt_id else None
    if not (text.isascii() and text.isdecimal() and len(text) <= 6):
        message = Text("attempt must be a whole number from 1.", "attempt 须为从 1 开始的整数。")
        raise InvalidInput(message, fields=[FieldError("/attempt", "invalid", message)])
    return get_attempt(job, int(text))
