"""The board of a queue over HTTP: who runs, who waits, what is borrowed."""

from __future__ import annotations

import uuid
from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from clusters.api.representations import ReferenceOut
from jobs.api.representations import JOB_STATES, ExpectedStartOut, ReasonOut, reason_json
from jobs.models import Job
from jobs.selectors.board import RUNNING_MAX, Board, read_board
from jobs.selectors.reasons import Named, named_in_reasons
from kernel.clock import database_now, utc_text
from tenants.identity.access import tenants_with
from tenants.selectors import queues_below
from webapi.bounds import PAGE_SIZE_MAX
from webapi.pagination import page_size
from webapi.views import ApiView, known_query
from webapi.wording import reader_language

ROWS = 100  # Of each side, when nothing is said: a screen and a half.
GPU = 1000


class BoardRowOut(serializers.Serializer[Any]):
    """A job of the queue, or of one below it. `job`, `user` and `tenant` null: you may not see whose it is."""

    job = ReferenceOut(allow_null=True)
    user = ReferenceOut(allow_null=True)
    tenant = serializers.CharField(allow_null=True)
    queue = ReferenceOut(allow_null=True)
    gpus = serializers.FloatField(help_text="Amount of the whole job.")
    priority = serializers.IntegerField()


class RunningRowOut(BoardRowOut):
    """A job that is starting, running or stopping."""

    state = serializers.ChoiceField(JOB_STATES)
    pool = serializers.CharField(allow_null=True)
    started_at = serializers.DateTimeField(allow_null=True)
    borrowed = serializers.BooleanField(
        help_text="The job runs on borrowed capacity, beyond the deserved share of its queue or of a queue above it on this "
        "board, which may be reclaimed."
    )


class WaitingRowOut(BoardRowOut):
    """A waiting job."""

    position = serializers.IntegerField(allow_null=True, help_text="Place in its queue, from 1; null while it is held.")
    hold = serializers.BooleanField()
    submitted_at = serializers.DateTimeField()
    reason = ReasonOut(allow_null=True)
    expected_start = ExpectedStartOut(allow_null=True, help_text="Null: not predicted yet.")


class BoardOut(serializers.Serializer[Any]):
    """Counts cover all jobs; rows cover the jobs that started first and the jobs that start next."""

    queue = ReferenceOut()
    at = serializers.DateTimeField()
    running = RunningRowOut(many=True)
    running_count = serializers.IntegerField()
    borrowed_count = serializers.IntegerField(help_text=f"Of the first {RUNNING_MAX:,} running jobs.")
    waiting = WaitingRowOut(many=True)
    waiting_count = serializers.IntegerField()


class QueueBoardView(ApiView):
    """A queue and those below it at a glance."""

    @extend_schema(
        operation_id="queues_board",
        parameters=[OpenApiParameter("limit", int, description=f"Rows of each side, 1 to {PAGE_SIZE_MAX}; default: {ROWS}.")],
        responses=BoardOut,
    )
    def get(self, request: Request, queue_id: uuid.UUID) -> Response:
        """Get the board of a queue and the queues below it: running jobs, with borrowed capacity, and waiting jobs in order."""
        known_query(request, ("limit",))
        queues = queues_below(self.actor, str(queue_id))
        limit = page_size(request) if "limit" in request.query_params else ROWS
        now = database_now()
        board = read_board(queues, limit=limit, now=now)
        seen, language = tenants_with(self.actor, "job.read"), reader_language(request)
        named = named_in_reasons(board.waiting, self.actor)
        top = next(queue for queue in queues if queue.id == queue_id)
        return Response(
            {
                "queue": {"id": str(top.id), "name": top.name},
                "at": utc_text(now),
                "running": [_running(job, board, seen) for job in board.running],
                "running_count": board.running_count,
                "borrowed_count": len(board.borrowed),
                "waiting": [_waiting(job, board, seen, named, language) for job in board.waiting],
                "waiting_count": board.waiting_count,
            }
        )


def _running(job: Job, board: Board, seen: frozenset[uuid.UUID] | None) -> dict[str, Any]:
    attempt = job.attempt
    return {
        **_row(job, seen),
        "state": job.state,
        "pool": None if attempt is None else attempt.pool_name,
        "started_at": utc_text(job.started_at),
        "borrowed": job.id in board.borrowed,
    }


def _waiting(job: Job, board: Board, seen: frozenset[uuid.UUID] | None, named: Named, language: str) -> dict[str, Any]:
    told = board.expected.get(job.id)
    is_seen = _is_seen(job, seen)
    return {
        **_row(job, seen),
        "position": board.positions.get(job.id),
        "hold": job.hold,
        "submitted_at": utc_text(job.submitted_at),
        "reason": reason_json(job, named, language) if is_seen else None,
        "expected_start": None if told is None else told.as_json(),
    }


def _row(job: Job, seen: frozenset[uuid.UUID] | None) -> dict[str, Any]:
    names: dict[str, Any] = dict.fromkeys(("job", "user", "tenant", "queue"))
    if _is_seen(job, seen):
        names = {
            "job": {"id": str(job.id), "name": job.name},
            "user": {"id": str(job.user_id), "name": job.user.name},
            "tenant": job.tenant.name,
            "queue": {"id": str(job.queue_id), "name": job.queue.name},
        }
    return {**names, "gpus": job.gpu_millis / GPU, "priority": job.priority}


def _is_seen(job: Job, seen: frozenset[uuid.UUID] | None) -> bool:
    return seen is None or job.tenant_id in seen
