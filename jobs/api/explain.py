"""Why a job waits, what would start it, what was decided about it, and what if."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from clusters.api.representations import ReferenceOut
from jobs.api import what_if_bodies as bodies
from jobs.api.representations import JOB_STATES, PastOut, ReasonOut, TaskWaitingOut, reason_json
from jobs.lifecycle.start_waits import wait_json
from jobs.lifecycle.states import JobState, TaskState
from jobs.models import DecisionRecord, Job, Task
from jobs.scheduling.questions.records import KINDS
from jobs.selectors.decisions import decisions_json
from jobs.selectors.find import fetch_job
from jobs.selectors.reasons import named_in_reasons
from jobs.services.explaining import explain_job
from jobs.services.what_if import answer_what_if
from kernel.clock import database_now, utc_text
from tenants.capacity.quota.shares import Standing
from webapi.pagination import page
from webapi.schema import page_of
from webapi.views import ApiView, known_query, query_flag
from webapi.wording import reader_language

LATEST = 5  # Decisions that are told with an explanation.
TASKS_NAMED = 10
STARTING = (JobState.ADMITTED, JobState.STARTING)


class FilterOut(serializers.Serializer[Any]):
    """A filter that excludes nodes: `need` is what a task requests of a node, `best` the most that a node has left."""

    code = serializers.CharField()
    text = serializers.CharField()
    machines = serializers.IntegerField()
    need = serializers.IntegerField()
    best = serializers.IntegerField()
    never = serializers.IntegerField(help_text="Number of nodes that do not fit the task even when empty.")


class HolderOut(serializers.Serializer[Any]):
    """Amount that jobs of a queue hold with a standing. `queue` null: other tenants together. `kept`: idle."""

    queue = ReferenceOut(allow_null=True)
    cpu_millis = serializers.IntegerField()
    memory_bytes = serializers.IntegerField()
    gpu_millis = serializers.IntegerField()
    jobs = serializers.IntegerField()
    since = serializers.DateTimeField(allow_null=True)
    standing = serializers.ChoiceField([standing.name.lower() for standing in Standing])
    kept = serializers.BooleanField()


class UnmetOut(serializers.Serializer[Any]):
    """A condition that alone would keep the job waiting. `own`: in any pool; `instead`: its end is enough."""

    code = serializers.CharField()
    text = serializers.CharField()
    own = serializers.BooleanField()
    instead = serializers.BooleanField()
    pool = serializers.CharField(allow_null=True)
    queue = ReferenceOut(allow_null=True)
    resource = serializers.CharField(allow_null=True)
    need = serializers.IntegerField()
    held = serializers.IntegerField()
    limit = serializers.IntegerField()
    kept = serializers.IntegerField()
    fitting = serializers.IntegerField()
    until = serializers.DateTimeField(allow_null=True)
    filters = FilterOut(many=True)
    held_by = HolderOut(many=True)
    jobs = ReferenceOut(many=True, help_text="Jobs that it concerns, as far as you can see them.")
    jobs_count = serializers.IntegerField()


class PlaceOut(serializers.Serializer[Any]):
    """From 1; null if the job is in no order, because it is withheld by a condition of its own."""

    in_queue = serializers.IntegerField(allow_null=True)
    queue_length = serializers.IntegerField()
    in_pool = serializers.IntegerField(
        allow_null=True, help_text="Place among all jobs that may use one of its pools, by the fair order."
    )
    pool_length = serializers.IntegerField()


class QueueFactorOut(serializers.Serializer[Any]):
    """Shares are in billionths of a pool, divided by the queue's weight."""

    queue = ReferenceOut(allow_null=True)
    is_owed = serializers.BooleanField(help_text="The queue holds less than it deserves, and comes first.")
    share = serializers.IntegerField(help_text="Share with history; the smallest comes first.")
    share_now = serializers.IntegerField()


class FactorsOut(serializers.Serializer[Any]):
    """Factors of a job's place."""

    priority = serializers.IntegerField()
    priority_seconds = serializers.IntegerField(help_text="Waiting time that the priority is equal to.")
    waited_seconds = serializers.IntegerField()
    order_seconds = serializers.IntegerField(help_text="How far the job was moved in its queue; below 0: forward.")
    queues = QueueFactorOut(many=True, help_text="Queues from the root to its own.")


class MakerOut(serializers.Serializer[Any]):
    """Users who may make a change, by role. `tenant` null: operators, and managers of a tenant that you cannot see."""

    role = serializers.ChoiceField(["manager", "operator"])
    tenant = ReferenceOut(allow_null=True)


class SuggestionOut(serializers.Serializer[Any]):
    """A change after which the job would start, tried on a copy. `starts_now` false: after the preemption of other jobs."""

    kind = serializers.CharField()
    text = serializers.CharField()
    starts_now = serializers.BooleanField()
    changes = serializers.ListField(
        child=serializers.DictField(),
        help_text="Changes in the form of POST /what-if; empty if it would refuse a change from you.",
    )
    by = MakerOut(many=True, help_text="Users who may make the changes that you may not make; empty: you may make all.")
    evicts = ReferenceOut(many=True)
    evicts_count = serializers.IntegerField()


class ExpectedOut(serializers.Serializer[Any]):
    """Predicted start if no further job is submitted, as in lists and boards: `p50_at` is 50 % likely, `p90_at` 90 % likely.

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
    past = PastOut()


class LatestOut(serializers.Serializer[Any]):
    """Latest start, which is a bound and no prediction.

    `backfill_reservation`: the start is reserved; no later job may delay it. It yields only to a prior claim, a lost node or a
    lowered limit, and is then reserved anew. `claim`: other jobs leave for it, and their longest grace is over by then. `line`:
    if no further job is submitted and no job is preempted. Null where there is no bound: `runtime_unknown` (other jobs have no
    run time limit), `grace_over` (other jobs take longer than their grace), else the reason that would keep it waiting even
    alone.
    """

    at = serializers.DateTimeField(allow_null=True)
    kind = serializers.ChoiceField(["backfill_reservation", "claim", "line"], allow_null=True)
    reason = serializers.CharField(allow_blank=True)
    next_reservation_from = serializers.DateTimeField(
        allow_null=True, help_text="Time from which the job gets the next reserved start in its pools."
    )
    text = serializers.CharField()


class StartWaitOut(TaskWaitingOut):
    """What tasks of a job that starts wait for; those that wait for the same are told once."""

    tasks = serializers.ListField(child=serializers.CharField(), help_text=f"`<role>-<index>`; the first {TASKS_NAMED}.")
    tasks_count = serializers.IntegerField()


class DecisionOut(serializers.Serializer[Any]):
    """A decision of the scheduler about the job, with the candidates of that time."""

    id = serializers.UUIDField()
    at = serializers.DateTimeField()
    kind = serializers.ChoiceField(KINDS)
    pool = serializers.CharField(allow_null=True)
    detail = serializers.DictField()


class ExplainOut(serializers.Serializer[Any]):
    """Reasons why a job waits. For a job that does not wait: only state, reason, decisions and what its tasks wait for.

    `reason` is the one that lists show. The first of `conditions` is the same cause; if that has gone since `reason.found_at`, it
    is the cause of `now`.
    """

    job = ReferenceOut()
    state = serializers.ChoiceField(JOB_STATES)
    at = serializers.DateTimeField()
    reason = ReasonOut(allow_null=True)
    now = ReasonOut(allow_null=True, help_text="Reason as of now, if `reason` holds no longer.")
    starts = serializers.BooleanField(help_text="The next pass of the scheduler would start the job.")
    conditions = UnmetOut(many=True)
    place = PlaceOut(allow_null=True)
    factors = FactorsOut(allow_null=True)
    suggestions = SuggestionOut(many=True)
    suggestions_bounded = serializers.BooleanField(
        help_text="The search for suggestions ended at its limit; other changes may help, too."
    )
    expected = ExpectedOut(allow_null=True)
    latest = LatestOut(allow_null=True)
    starting = StartWaitOut(many=True, help_text="What its tasks wait for that have a place and have not begun.")
    decisions = DecisionOut(many=True, help_text=f"The last {LATEST}.")


class JobExplainView(ApiView):
    """Why a job waits, and what would start it."""

    @extend_schema(
        operation_id="jobs_explain",
        parameters=[OpenApiParameter("quick", bool, description="Omit suggestions and predicted start, which take longest.")],
        responses=ExplainOut,
    )
    def get(self, request: Request, job: str) -> Response:
        """Explain why a job waits: reasons, holders of what it lacks, its place, and tested changes that would start it."""
        known_query(request, ("quick",))
        language = reader_language(request)
        found, now = fetch_job(self.actor, job, "job.read"), database_now()
        nothing = dict.fromkeys(("now", "place", "factors", "expected", "latest"))
        empty: dict[str, Any] = {"starts": False, "conditions": [], "suggestions": [], "suggestions_bounded": False, **nothing}
        explained = None
        if found.state == "queued" and found.array_size is None:
            suggests = not query_flag(request, "quick")
            explained = explain_job(found, actor=self.actor, now=now, language=language, suggests=suggests)
        latest = DecisionRecord.objects.filter(job_id=found.id).order_by("-id")[:LATEST]
        return Response(
            {
                "job": {"id": str(found.id), "name": found.name},
                "state": found.state,
                "at": utc_text(now),
                "reason": reason_json(found, named_in_reasons((found,), self.actor), language),
                **(explained or empty),
                "starting": starting_json(found, language),
                "decisions": decisions_json(list(latest), self.actor, language),
            }
        )


def starting_json(job: Job, language: str) -> list[dict[str, Any]]:
    """What the tasks wait for, by code and the cluster's words, most tasks first; one query for a job that starts."""
    if job.state not in STARTING or job.attempt_id is None:
        return []
    tasks = Task.objects.filter(attempt_id=job.attempt_id, state=TaskState.PENDING, waiting__isnull=False)
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for task in tasks.order_by("role", "index"):
        wait = wait_json(task.waiting, language)
        if wait is not None:
            shared = found.setdefault((wait["code"], wait["detail"]), {**wait, "tasks": [], "tasks_count": 0})
            shared["since"] = min(shared["since"], wait["since"])
            shared["tasks_count"] += 1
            shared["tasks"] += [f"{task.role}-{task.index}"] if shared["tasks_count"] <= TASKS_NAMED else []
    return sorted(found.values(), key=lambda wait: -int(wait["tasks_count"]))


class JobDecisionsView(ApiView):
    """What the scheduler decided about a job."""

    @extend_schema(operation_id="jobs_decisions", responses=page_of(DecisionOut))
    def get(self, request: Request, job: str) -> Response:
        """List starts, preemptions and refusals, newest first, with candidates, filters, scores, victims and policy."""
        known_query(request, ())
        found = fetch_job(self.actor, job, "job.read")
        rows, language = DecisionRecord.objects.filter(job_id=found.id), reader_language(request)
        return page(request, rows, order=("-id",), serialize=lambda rows: decisions_json(rows, self.actor, language))


class WhatIfView(ApiView):
    """What the scheduler would do if."""

    @extend_schema(
        operation_id="what_if",
        request=bodies.WhatIfIn,
        responses=bodies.WhatIfOut,
        examples=[OpenApiExample("a higher ceiling", bodies.EXAMPLE, request_only=True)],
    )
    def post(self, request: Request) -> Response:
        """Predict which jobs would start, wait or be preempted after changes, against a pass without them. Nothing changes."""
        known_query(request, ())
        body = bodies.WhatIfIn.validated(request.data)
        answer = answer_what_if(
            body["changes"], tenant=body.get("tenant"), actor=self.actor, now=database_now(), language=reader_language(request)
        )
        return Response(answer)
