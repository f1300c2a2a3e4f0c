"""Why a job waits, what would start it, what was decided about it, and what if."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from clusters.api.representations import ReferenceOut
from jobs.api import what_if_bodies as bodies
from jobs.api.representations import JOB_STATES, PastOut, ReasonOut, reason_json
from jobs.models import DecisionRecord
from jobs.scheduling.questions.records import KINDS
from jobs.selectors.decisions import decisions_json
from jobs.selectors.find import fetch_job
from jobs.services.explaining import explain_job
from jobs.services.what_if import answer_what_if
from kernel.clock import database_now
from tenants.quota.shares import Standing
from webapi.fields import utc_text
from webapi.pagination import page
from webapi.schema import page_of
from webapi.views import ApiView, known_query, query_flag
from webapi.wording import reader_language

LATEST = 5  # Decisions that are told with an explanation.


class FilterOut(serializers.Serializer[Any]):
    """What keeps a task out of how many machines: `need` is what it asks of one, `best` the most that any of them has left."""

    code = serializers.CharField()
    text = serializers.CharField()
    machines = serializers.IntegerField()
    need = serializers.IntegerField()
    best = serializers.IntegerField()
    never = serializers.IntegerField(help_text="How many would refuse even when empty.")


class HolderOut(serializers.Serializer[Any]):
    """What jobs of a queue hold by one standing. `queue` null: of other tenants, together. `kept`: nothing runs on it."""

    queue = ReferenceOut(allow_null=True)
    cpu_millis = serializers.IntegerField()
    memory_bytes = serializers.IntegerField()
    gpu_millis = serializers.IntegerField()
    jobs = serializers.IntegerField()
    since = serializers.DateTimeField(allow_null=True)
    standing = serializers.ChoiceField([one.name.lower() for one in Standing])
    kept = serializers.BooleanField()


class UnmetOut(serializers.Serializer[Any]):
    """One thing that would keep the job waiting on its own. `own`: wherever it might go; `instead`: its end is enough."""

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
    jobs = ReferenceOut(many=True, help_text="Those that it is about, as far as you see them.")
    jobs_count = serializers.IntegerField()


class PlaceOut(serializers.Serializer[Any]):
    """From 1; null where it stands in no line, because something of its own withholds it."""

    in_queue = serializers.IntegerField(allow_null=True)
    queue_length = serializers.IntegerField()
    in_pool = serializers.IntegerField(allow_null=True, help_text="Among all that may use one of its pools, by the fair order.")
    pool_length = serializers.IntegerField()


class QueueFactorOut(serializers.Serializer[Any]):
    """Shares are in billionths of a pool, divided by the queue's weight."""

    queue = ReferenceOut(allow_null=True)
    is_owed = serializers.BooleanField(help_text="It holds less than it deserves, and comes first.")
    share = serializers.IntegerField(help_text="With history; the smallest comes first.")
    share_now = serializers.IntegerField()


class FactorsOut(serializers.Serializer[Any]):
    """What gives a job its place."""

    priority = serializers.IntegerField()
    priority_seconds = serializers.IntegerField(help_text="How much waiting the priority is worth.")
    waited_seconds = serializers.IntegerField()
    order_seconds = serializers.IntegerField(help_text="How far it was moved in its own queue; below 0: forward.")
    queues = QueueFactorOut(many=True, help_text="On the way from root to its own.")


class MakerOut(serializers.Serializer[Any]):
    """Who may make a change by role. `tenant` null: of operators, and of managers of a tenant that you do not see."""

    role = serializers.ChoiceField(["manager", "operator"])
    tenant = ReferenceOut(allow_null=True)


class SuggestionOut(serializers.Serializer[Any]):
    """A change after which the job would start; it was tried on a copy. `starts_now` false: once others were evicted for it."""

    kind = serializers.CharField()
    text = serializers.CharField()
    starts_now = serializers.BooleanField()
    changes = serializers.ListField(
        child=serializers.DictField(), help_text="As POST /what-if takes them from you; empty where it would refuse one of them."
    )
    by = MakerOut(many=True, help_text="Who has to make those changes that you may not make; empty: you may make all.")
    evicts = ReferenceOut(many=True)
    evicts_count = serializers.IntegerField()


class ExpectedOut(serializers.Serializer[Any]):
    """When it starts if nothing else is submitted: as likely as not by p50, nine times in ten by p90, as lists and boards say.

    p50_at null beside a p90: it has passed, or `reason` is `uncertain` (the samples are too far apart, or likely starts of such
    waits were too far off of late) or `little_history` (too few jobs have ended; p90 is by when it starts if all take as long as
    they may). Both null: `little_history`, `unknown_ends` (it waits for jobs that may run for any time, and no similar job has
    finished yet), `overdue` (it was expected nine times in ten by `was_by`, which has passed), `horizon` or `passes` (further
    away than was looked), `too_many` (too many jobs wait or run to look ahead), `not_yet` (it began to wait just now: known by
    `known_by`), else what it waits for. `error`: the median error of such p50 of late, as a part of the wait; null: not known
    yet.
    """

    p50_at = serializers.DateTimeField(allow_null=True)
    p90_at = serializers.DateTimeField(allow_null=True)
    said_at = serializers.DateTimeField()
    reason = serializers.CharField(allow_blank=True)
    was_by = serializers.DateTimeField(allow_null=True)
    known_by = serializers.DateTimeField(allow_null=True, help_text="Of `not_yet`: it began to wait just now, first or again.")
    error = serializers.FloatField(allow_null=True)
    past = PastOut()


class LatestOut(serializers.Serializer[Any]):
    """By when it starts at the latest, which is a bound and no expectation.

    `booked`: no later job may delay it; it gives way to an older right, a lost machine or a lowered limit, and then has another.
    `line`: if nothing else is submitted and no job is evicted. Null where none can be told: `runtime_unknown`, others may run for
    any time; else what would keep it waiting even alone.
    """

    at = serializers.DateTimeField(allow_null=True)
    kind = serializers.ChoiceField(["booked", "line"], allow_null=True)
    reason = serializers.CharField(allow_blank=True)
    next_reservation_from = serializers.DateTimeField(
        allow_null=True, help_text="From then on the next reserved start in its pools goes to this job."
    )
    text = serializers.CharField()


class DecisionOut(serializers.Serializer[Any]):
    """One decision of the scheduler about the job, with what it was weighed against at that moment."""

    id = serializers.UUIDField()
    at = serializers.DateTimeField()
    kind = serializers.ChoiceField(KINDS)
    pool = serializers.CharField(allow_null=True)
    detail = serializers.DictField()


class ExplainOut(serializers.Serializer[Any]):
    """Why a job waits. For one that does not, only the state, the reason and what was decided."""

    job = ReferenceOut()
    state = serializers.ChoiceField(JOB_STATES)
    at = serializers.DateTimeField()
    reason = ReasonOut(allow_null=True)
    starts = serializers.BooleanField(help_text="The next pass would start it.")
    conditions = UnmetOut(many=True)
    place = PlaceOut(allow_null=True)
    factors = FactorsOut(allow_null=True)
    suggestions = SuggestionOut(many=True)
    suggestions_bounded = serializers.BooleanField(
        help_text="The search for suggestions ended at its bound: other changes may help, too."
    )
    expected = ExpectedOut(allow_null=True)
    latest = LatestOut(allow_null=True)
    decisions = DecisionOut(many=True, help_text=f"The latest {LATEST}.")


class JobExplainView(ApiView):
    """Why a job waits, and what would start it."""

    @extend_schema(
        operation_id="jobs_explain",
        parameters=[OpenApiParameter("quick", bool, description="Without suggestions and expected start, which take longest.")],
        responses=ExplainOut,
    )
    def get(self, request: Request, job: str) -> Response:
        """All that keeps a job waiting, with what is held and by whom, its place, and tried changes that would start it."""
        known_query(request, ("quick",))
        language = reader_language(request)
        found, now = fetch_job(self.actor, job, "job.read"), database_now()
        nothing = dict.fromkeys(("place", "factors", "expected", "latest"))
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
                "reason": reason_json(found, language),
                **(explained or empty),
                "decisions": decisions_json(list(latest), self.actor, language),
            }
        )


class JobDecisionsView(ApiView):
    """What the scheduler decided about a job."""

    @extend_schema(operation_id="jobs_decisions", responses=page_of(DecisionOut))
    def get(self, request: Request, job: str) -> Response:
        """Every start, eviction and refusal, newest first, with candidates, filters, scores, victims and policy."""
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
        """Who would start, wait or be evicted after these changes, against the pass without them. Nothing is changed."""
        known_query(request, ())
        body = bodies.WhatIfIn.validated(request.data)
        answer = answer_what_if(
            body["changes"], tenant=body.get("tenant"), actor=self.actor, now=database_now(), language=reader_language(request)
        )
        return Response(answer)
