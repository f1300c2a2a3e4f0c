"""What clusters run and a restored database does not know, for operators: list it, give it to its job, or stop it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from clusters.services import quarantine
from clusters.services.quarantine import QuarantinedRow
from jobs.services import adopt
from kernel.clock import database_now, utc_text
from kernel.words import Text
from webapi.pagination import page
from webapi.schema import page_of
from webapi.views import ApiView, known_query
from webapi.wording import reader_language

DECISIONS = ("undecided", "stopping")


class QuarantinedTaskOut(serializers.Serializer[Any]):
    """A task as last reported by its cluster."""

    role = serializers.CharField()
    index = serializers.IntegerField()
    node = serializers.CharField()
    state = serializers.CharField()
    cpu_millis = serializers.IntegerField()
    memory_bytes = serializers.IntegerField()
    gpu_millis = serializers.IntegerField()


class QuarantinedOut(serializers.Serializer[Any]):
    """An attempt on a cluster that is not in the database. `problem`: why no job can adopt it; null if a job can."""

    attempt = serializers.UUIDField()
    cluster = serializers.CharField()
    job = serializers.UUIDField(allow_null=True)
    number = serializers.IntegerField(allow_null=True)
    name = serializers.CharField()
    running = serializers.BooleanField(help_text="False: the attempt has ended, but its cluster has not removed it yet.")
    decision = serializers.ChoiceField(choices=DECISIONS)
    fits = serializers.BooleanField(help_text="Its job waits for this attempt and can adopt it.")
    problem = serializers.CharField(allow_null=True)
    tasks = QuarantinedTaskOut(many=True)
    started_at = serializers.DateTimeField(allow_null=True)
    first_seen_at = serializers.DateTimeField()
    last_seen_at = serializers.DateTimeField()


class AdoptedOut(serializers.Serializer[Any]):
    """Job that adopted the attempt."""

    job = serializers.UUIDField()
    attempt = serializers.UUIDField()


_ATTEMPT = "01936f3e-8d1c-7a40-9c2b-5f0e6a7d2001"
_JOB = "01936f3e-8d1c-7a40-9c2b-5f0e6a7d2002"
_EXAMPLE = {
    "attempt": _ATTEMPT,
    "cluster": "local",
    "job": _JOB,
    "number": 1,
    "name": "digits",
    "running": True,
    "decision": "undecided",
    "fits": True,
    "problem": None,
    "tasks": [
        {
            "role": "worker",
            "index": 0,
            "node": "gpu-01",
            "state": "running",
            "cpu_millis": 4_000,
            "memory_bytes": 17_179_869_184,
            "gpu_millis": 1_000,
        }
    ],
    "started_at": "2026-11-20T08:15:30Z",
    "first_seen_at": "2026-11-20T09:00:02Z",
    "last_seen_at": "2026-11-20T09:05:00Z",
}


class QuarantineView(ApiView):
    """Attempts in quarantine, oldest first. Only operators see any."""

    @extend_schema(
        operation_id="quarantine_list",
        responses=page_of(QuarantinedOut),
        examples=[OpenApiExample("After a restore", response_only=True, value={"items": [_EXAMPLE], "next": None})],
    )
    def get(self, request: Request) -> Response:
        """List attempts in quarantine, which wait for a decision or for their cluster to apply it."""
        known_query(request, ())
        return page(
            request,
            quarantine.visible_rows(self.actor),
            order=("attempt_id",),
            serialize=partial(_shown, language=reader_language(request)),
        )


class QuarantineAdoptView(ApiView):
    """Giving an attempt back to its job."""

    @extend_schema(
        operation_id="quarantine_adopt",
        request=None,
        responses=AdoptedOut,
        examples=[OpenApiExample("Adopted", response_only=True, value={"job": _JOB, "attempt": _ATTEMPT})],
    )
    def post(self, request: Request, attempt: str) -> Response:
        """Adopt the attempt: it becomes an attempt of its job, and its progress is observed as usual."""
        row = quarantine.fetch_row(self.actor, attempt, "quarantine.edit")
        job_id = adopt.adopt(actor=self.actor, attempt_id=row.attempt_id, now=database_now())
        return Response({"job": str(job_id), "attempt": str(row.attempt_id)})


class QuarantineStopView(ApiView):
    """Ending an attempt that no job shall have."""

    @extend_schema(
        operation_id="quarantine_stop",
        request=None,
        responses=QuarantinedOut,
        examples=[
            OpenApiExample("Asked for", response_only=True, value={**_EXAMPLE, "decision": "stopping", "fits": False}),
        ],
    )
    def post(self, request: Request, attempt: str) -> Response:
        """Stop the attempt on its cluster. It leaves the list when the cluster has removed it; its outputs are lost."""
        row = quarantine.fetch_row(self.actor, attempt, "quarantine.edit")
        stopped = quarantine.stop_quarantined(actor=self.actor, attempt_id=row.attempt_id, now=database_now())
        return Response(_shown([stopped], language=reader_language(request))[0])


def _shown(rows: Sequence[QuarantinedRow], *, language: str) -> list[dict[str, Any]]:
    problems = adopt.problems_of(rows)
    return [_row_body(row, problems[row.attempt_id], language) for row in rows]


def _row_body(row: QuarantinedRow, problem: Text[str] | None, language: str) -> dict[str, Any]:
    is_undecided = row.stop_asked_at is None
    return {
        "attempt": str(row.attempt_id),
        "cluster": row.cluster.name,
        "job": str(row.job_id) if row.job_id else None,
        "number": row.number,
        "name": row.name,
        "running": row.runs,
        "decision": DECISIONS[not is_undecided],
        "fits": is_undecided and not problem,
        "problem": problem.in_language(language) if problem is not None else None,
        "tasks": row.tasks,
        "started_at": utc_text(row.started_at) if row.started_at else None,
        "first_seen_at": utc_text(row.first_seen_at),
        "last_seen_at": utc_text(row.last_seen_at),
    }
