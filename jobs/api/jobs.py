"""Submitting, listing, reading and changing jobs over HTTP."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any, Protocol

from django.db.models import QuerySet
from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.api import examples
from jobs.api.representations import JOB_STATES, JobCountsOut, JobOut, job_json, new_job_json, standing_json
from jobs.api.requests import AgainIn, BatchIn, EditIn, StopIn, SubmitIn, many_documents, one_document, priority_reason
from jobs.loading.specs import load_spec
from jobs.models import Job, StoredSpec
from jobs.selectors.counts import job_counts, job_counts_by_queue
from jobs.selectors.find import fetch_job
from jobs.selectors.lists import place_in_queue, with_label, with_tag
from jobs.selectors.progress import progress_of
from jobs.selectors.text import with_text
from jobs.services.batches import prepare_batch
from jobs.services.edit import change_tag, edit_job
from jobs.services.forecast import forecast
from jobs.services.layout import layout_json
from jobs.services.preview import batch_plan_json, plan_json, warned_in
from jobs.services.rerun import prepare_again, run_again
from jobs.services.stop import stop_jobs
from jobs.services.store import store, submit
from jobs.services.submit import ask_registries, prepare
from jobs.spec.advice import advise
from jobs.spec.model import JobKind
from jobs.spec.schema import json_schema
from kernel.clock import database_now
from kernel.errors import BerthError, FieldError, InvalidInput
from kernel.ids import id_at
from kernel.words import Text
from tenants.identity.access import role_allows
from tenants.selectors import find_queue_ids, find_user_id, get_tenant
from webapi.access import visible
from webapi.actors import facts_of
from webapi.etags import check_if_match, expected_version, with_etag
from webapi.features import is_on
from webapi.fields import read_utc
from webapi.idempotency import idempotent
from webapi.pagination import page
from webapi.parsers import LimitedJSONParser, NdjsonBody, YamlBody
from webapi.plans import asked_plan, hold_to, named
from webapi.schema import PLAN, page_of
from webapi.views import ApiView, Public, known_query, query_flag
from webapi.wording import reader_language


class RowsShown(Protocol):
    """Jobs as the rows of a list."""

    def __call__(self, jobs: Sequence[Job], *, language: str) -> list[dict[str, Any]]: ...


FILTERS = (
    "tenant", "state", "queue", "user", "name", "tag", "label", "kind", "since", "until", "parent", "q", "mine", "sort",
)  # fmt: skip
RELATED = ("tenant", "queue", "user")
SORTS: dict[str, tuple[str, ...]] = {"created": ("-id",), "finished": ("-ended_at", "-id"), "priority": ("-priority", "-id")}


# Ids sort by the clock of the host that made them, times are the database's: a day lies safely between the two.
CLOCKS_APART = timedelta(days=1)


class JobListView(ApiView):
    """List jobs, newest first."""

    parser_classes = [LimitedJSONParser, YamlBody]

    @extend_schema(
        operation_id="jobs_list",
        parameters=[
            OpenApiParameter("tenant", str, description="Id, slug or name."),
            OpenApiParameter("state", str, many=True, enum=JOB_STATES, description="May be repeated: any of them."),
            OpenApiParameter("queue", str, description="Id or name."),
            OpenApiParameter("user", str, description="Name."),
            OpenApiParameter("mine", bool, description="Only your own jobs."),
            OpenApiParameter("name", str, description="Exact name."),
            OpenApiParameter("q", str, description="Part of the name or of a tag, case-insensitive."),
            OpenApiParameter("tag", str, many=True, description="May be repeated: all of them."),
            OpenApiParameter("label", str, many=True, description="`key=value`; may be repeated: jobs with all of them."),
            OpenApiParameter("kind", str, enum=list(JobKind)),
            OpenApiParameter("since", str, description="Submitted at or after this time; ended, with `sort=finished`."),
            OpenApiParameter("until", str, description="Submitted before this time; ended, with `sort=finished`."),
            OpenApiParameter("parent", str, description="Children of this array. Otherwise children are not listed."),
            OpenApiParameter(
                "sort",
                str,
                enum=list(SORTS),
                description="`created`: newest first, the default. `finished`: ended jobs, latest end first. `priority`: "
                "highest first.",
            ),
            OpenApiParameter(
                "standing",
                bool,
                description="Include `place` and `expected_start` of waiting jobs, the holders of the capacity that they lack, "
                "and the resources of running jobs.",
            ),
        ],
        responses=page_of(JobOut),
        examples=[examples.answer("Page", {"items": [examples.JOB], "next": None})],
    )
    def get(self, request: Request) -> Response:
        known_query(request, (*FILTERS, "standing"))
        show = partial(standing_json if query_flag(request, "standing") else job_json, actor=self.actor)
        sort = request.query_params.get("sort", "created")
        if sort not in SORTS:
            message = Text(f"There is no order {sort[:80]!r}.", f"没有排序方式 {sort[:80]!r}。")
            hint = Text(f"Orders are: {', '.join(SORTS)}.", f"排序方式：{', '.join(SORTS)}。")
            raise InvalidInput(message, hint=hint, fields=[FieldError("/sort", "choice", message, hint)])
        rows = _within(request, _filtered(self, request, visible(self.actor, Job)), ends=sort == "finished")
        order = SORTS[sort]
        keys = rows.values(*(name.removeprefix("-") for name in order))  # The page's keys by an index alone; then its rows.
        return page(
            request,
            keys,
            order=order,
            filled=frozenset({"ended_at"}),
            serialize=partial(_rows_json, show=show, language=reader_language(request)),
        )

    @extend_schema(
        operation_id="jobs_create",
        request=SubmitIn,
        parameters=[
            OpenApiParameter("dry_run", bool, description="Dry run: check everything, store nothing."),
            PLAN,
            OpenApiParameter(
                "forecast",
                bool,
                description="With `dry_run`: include predicted start and cost, for the requested size, half and a quarter of it.",
            ),
            OpenApiParameter(
                "priority_reason",
                str,
                description="Reason for a priority above your limit: the job is stored with your limit, and the rest is "
                "requested. Without a reason, such a job is refused.",
            ),
        ],
        responses={201: JobOut, 200: examples.PlanOut},
        examples=[examples.request("Two workers", examples.SUBMIT), examples.answer("Stored", examples.JOB, status="201")],
    )
    @idempotent
    def post(self, request: Request) -> Response:
        """Submit a job. The answer holds the job and the reason why it waits."""
        tenant, document = one_document(request)
        facts, actor = facts_of(request), self.actor
        reason = priority_reason(request)
        submission = prepare(actor=actor, tenant=tenant, document=document, facts=facts, priority_reason=reason)
        asked = asked_plan(request)
        if asked is not None or query_flag(request, "dry_run"):
            plan = plan_json(submission)
            if query_flag(request, "dry_run"):
                shown = warned_in(
                    reader_language(request), submission, named(plan)
                )  # Before the forecast, which is of the moment and no part of the plan.
                if query_flag(request, "forecast"):
                    with_cost = is_on(request, "billing", submission.tenant.id)
                    shown["forecast"] = forecast(submission, actor=actor, with_cost=with_cost, now=facts.now)
                    shown["layout"] = layout_json(submission.spec)
                return Response(shown)
            hold_to(asked, plan)
        row = store([submission], actor=actor, now=facts.now)[0]
        if submission.dependencies or not role_allows(actor, submission.tenant.id, "job.read", actor.user_id):
            return _job_response(self, str(row["id"]), status=201)  # Settled meanwhile; or refused, as reading it would be.
        language = reader_language(request)
        body = new_job_json(row, submission, actor, language=language)
        if advice := advise(submission.spec):
            body["warnings"] = [words.in_language(language) for words in advice]
        return with_etag(Response(body, status=201, headers={"Location": f"/api/v1/jobs/{row['id']}"}), row["version"])

    def beforehand(self, request: Request) -> None:
        """Registries are asked before the transaction of the key."""
        with suppress(BerthError):
            tenant, document = one_document(request)
            ask_registries(actor=self.actor, tenant=tenant, documents=[document], facts=facts_of(request))


class JobCountsView(ApiView):
    """How many jobs there are."""

    @extend_schema(
        operation_id="jobs_counts",
        parameters=[
            OpenApiParameter("tenant", str, description="Id, slug or name."),
            OpenApiParameter("queue", str, description="Id or name."),
            OpenApiParameter("by_queue", bool, description="Include each queue with jobs that have not ended."),
        ],
        responses=JobCountsOut,
        examples=[examples.answer("Counts", examples.COUNTS)],
    )
    def get(self, request: Request) -> Response:
        """Count jobs by state; an array counts once. The numbers are maintained, not computed per call."""
        known_query(request, ("tenant", "queue", "by_queue"))
        query = request.query_params
        tenant_id = get_tenant(self.actor, query["tenant"]).id if "tenant" in query else None
        queue_ids = find_queue_ids(self.actor, query["queue"]) if "queue" in query else None
        counts = job_counts(self.actor, tenant_id=tenant_id, queue_ids=queue_ids)
        answer: dict[str, Any] = {"states": counts, "total": sum(counts.values())}
        if query_flag(request, "by_queue"):
            found = job_counts_by_queue(self.actor, tenant_id=tenant_id, queue_ids=queue_ids)
            answer["queues"] = [{"queue_id": str(queue_id), "states": states} for queue_id, states in found.items()]
        return Response(answer)


class JobBatchView(ApiView):
    """Many jobs in one call."""

    parser_classes = [LimitedJSONParser, NdjsonBody]

    @extend_schema(
        operation_id="jobs_batch",
        request=BatchIn,
        parameters=[OpenApiParameter("dry_run", bool), PLAN],
        responses={201: examples.BatchOut, 200: examples.BatchPlanOut},
        examples=[examples.request("Three seeds", examples.BATCH)],
    )
    @idempotent
    def post(self, request: Request) -> Response:
        """Submit up to 10,000 jobs, all or none: a spec with items that differ, or a spec per line (NDJSON)."""
        tenant, items, base = many_documents(request)
        facts = facts_of(request)
        submissions = prepare_batch(actor=self.actor, tenant=tenant, items=items, base=base, facts=facts)
        asked = asked_plan(request)
        if asked is not None or query_flag(request, "dry_run"):
            plan = batch_plan_json(submissions)
            if query_flag(request, "dry_run"):
                first = warned_in(reader_language(request), submissions[0], plan["first"])
                return Response({**named(plan), "first": first})
            hold_to(asked, plan)
        ids = submit(submissions, actor=self.actor, now=facts.now, call="job.submit_batch")
        return Response({"count": len(ids), "ids": [str(job_id) for job_id in ids]}, status=201)

    def beforehand(self, request: Request) -> None:
        with suppress(BerthError):
            tenant, items, base = many_documents(request)
            ask_registries(actor=self.actor, tenant=tenant, documents=[base, *items], facts=facts_of(request))


class JobView(ApiView):
    """Get a job."""

    @extend_schema(operation_id="jobs_get", responses=JobOut, examples=[examples.answer("A job", examples.JOB)])
    def get(self, request: Request, job: str) -> Response:
        return _job_response(self, job)

    @extend_schema(operation_id="jobs_edit", request=EditIn, responses=JobOut)
    def patch(self, request: Request, job: str) -> Response:
        """Change priority, tags or hold; the queue while it waits; max_runtime (upwards only by a manager)."""
        changes = EditIn.validated(request.data)
        found = fetch_job(self.actor, job, "job.edit")
        check_if_match(request, found.version)
        changed = edit_job(
            actor=self.actor, job=found, changes=changes, expected_version=expected_version(request), now=database_now()
        )
        return with_etag(Response(job_json([changed], actor=self.actor, language=reader_language(request))[0]), changed.version)


class JobSpecView(ApiView):
    """Get the stored spec: the same bytes for every way of submission."""

    @extend_schema(operation_id="jobs_spec", responses={200: dict})
    def get(self, request: Request, job: str) -> HttpResponse:
        found = fetch_job(self.actor, job, "job.read")
        document = StoredSpec.objects.get(id=found.spec_id)
        response = HttpResponse(document.document, content_type="application/json")
        response["ETag"] = f'"{document.digest}"'
        return response


class JobStopView(ApiView):
    """Ask a job to stop."""

    @extend_schema(operation_id="jobs_stop", request=StopIn, responses={202: JobOut})
    @idempotent
    def post(self, request: Request, job: str) -> Response:
        """Stop a job or a whole array. Ended jobs are unchanged."""
        body = StopIn.validated(request.data or {})
        found = fetch_job(self.actor, job, "job.stop")
        stop_jobs(
            [found], actor=self.actor, grace_seconds=body.get("grace_seconds"), now=database_now(), note=body.get("reason", "")
        )
        return _job_response(self, str(found.id), status=202)


class JobAgainView(ApiView):
    """Run a job once more."""

    kind = "rerun"

    def beforehand(self, request: Request, job: str) -> None:
        with suppress(BerthError):
            changes = AgainIn.validated(request.data or {}).get("changes") or {}
            found = fetch_job(self.actor, job, "job.rerun")
            documents = [changes if "image" in changes else {"image": load_spec(found.spec_id).image}]
            ask_registries(actor=self.actor, tenant=str(found.tenant_id), documents=documents, facts=facts_of(request))

    @idempotent
    def post(self, request: Request, job: str) -> Response:
        body = AgainIn.validated(request.data or {})
        found = fetch_job(self.actor, job, "job.rerun")
        submission = prepare_again(actor=self.actor, job=found, kind=self.kind, changes=body.get("changes") or {})
        plan = plan_json(submission, compared_with=found)
        if query_flag(request, "dry_run"):
            return Response(warned_in(reader_language(request), submission, named(plan)))
        hold_to(asked_plan(request), plan)
        job_id = run_again(actor=self.actor, job=found, kind=self.kind, submission=submission, now=database_now())
        return _job_response(self, str(job_id), status=201)


_DRY_RUN = OpenApiParameter("dry_run", bool, description="Dry run: answer with the plan and the differences.")


@extend_schema_view(
    post=extend_schema(
        operation_id="jobs_rerun", request=AgainIn, responses={201: JobOut, 200: examples.PlanOut}, parameters=[_DRY_RUN, PLAN]
    )
)
class JobRerunView(JobAgainView):
    """Resubmit a job, with the same spec or with changes."""

    kind = "rerun"


@extend_schema_view(
    post=extend_schema(
        operation_id="jobs_clone", request=AgainIn, responses={201: JobOut, 200: examples.PlanOut}, parameters=[_DRY_RUN, PLAN]
    )
)
class JobCloneView(JobAgainView):
    """Clone a job: submit its spec under another name; secrets must be named again."""

    kind = "clone"


class JobTagView(ApiView):
    """One tag of a job."""

    @extend_schema(operation_id="jobs_tag", request=None, responses=JobOut)
    def put(self, request: Request, job: str, tag: str) -> Response:
        """Add a tag."""
        return self._change(job, tag, present=True)

    @extend_schema(operation_id="jobs_untag", responses={200: JobOut})
    def delete(self, request: Request, job: str, tag: str) -> Response:
        """Remove a tag."""
        return self._change(job, tag, present=False)

    def _change(self, job: str, tag: str, *, present: bool) -> Response:
        found = fetch_job(self.actor, job, "job.edit")
        changed = change_tag(actor=self.actor, job=found, tag=tag, present=present, now=database_now())
        return _job_response(self, str(changed.id))


class JobSpecSchemaView(ApiView):
    """Get the JSON Schema of job files, for editors."""

    permission_classes = [Public]

    @extend_schema(operation_id="schemas_job_spec", responses={200: dict})
    def get(self, request: Request) -> Response:
        return Response(json_schema(), headers={"Cache-Control": "public, max-age=300"})


def _job_response(view: ApiView, job: str, *, status: int = 200) -> Response:
    found = fetch_job(view.actor, job, "job.read")
    body = job_json([found], actor=view.actor, language=reader_language(view.request))[0]
    response = Response({**body, "place": place_in_queue(found), "progress": progress_of(found)}, status=status)
    if status == 201:
        response["Location"] = f"/api/v1/jobs/{found.id}"
    return with_etag(response, found.version)


def _rows_json(keys: Sequence[Mapping[str, Any]], *, show: RowsShown, language: str) -> list[dict[str, Any]]:
    """The jobs of one page, in the order of its keys."""
    ids = [key["id"] for key in keys]
    found = {job.id: job for job in Job.objects.filter(id__in=ids).select_related(*RELATED)}
    return show([found[job_id] for job_id in ids if job_id in found], language=language)


def _filtered(view: ApiView, request: Request, rows: QuerySet[Job]) -> QuerySet[Job]:
    """Each filter is a condition on an indexed column; what a filter names must be visible, or the list is empty."""
    query = request.query_params
    if "tenant" in query:
        rows = rows.filter(tenant_id=get_tenant(view.actor, query["tenant"]).id)
    states = [part for text in query.getlist("state") for part in text.lower().split(",") if part]
    wrong = sorted(set(states) - set(JOB_STATES))
    if wrong:
        message = Text(f"There is no state {wrong[0][:80]!r}.", f"没有状态 {wrong[0][:80]!r}。")
        raise InvalidInput(
            message,
            hint=Text(f"States are: {', '.join(JOB_STATES)}.", f"状态：{', '.join(JOB_STATES)}。"),
            fields=[FieldError("/state", "choice", message)],
        )
    if states:
        rows = rows.filter(state__in=states)
    if "queue" in query:
        rows = rows.filter(queue_id__in=find_queue_ids(view.actor, query["queue"]))
    if "user" in query:
        rows = rows.filter(user_id=find_user_id(query["user"]) or uuid.UUID(int=0))
    if "mine" in query and query_flag(request, "mine"):
        rows = rows.filter(user_id=view.actor.user_id or uuid.UUID(int=0))
    if "name" in query:
        rows = rows.filter(name=query["name"])
    if "kind" in query:
        rows = rows.filter(kind=_known_kind(query["kind"]))
    if query.get("q"):
        rows = with_text(rows, query["q"][:255])
    rows = _by_labels(query, rows)
    if "parent" in query:
        return rows.filter(parent_id=fetch_job(view.actor, query["parent"], "job.read").id)
    return rows.filter(parent_id__isnull=True)


def _within(request: Request, rows: QuerySet[Job], *, ends: bool) -> QuerySet[Job]:
    """Those submitted between two times; of those that ended, what ended between them. Each along the index of its order."""
    query = request.query_params
    since = read_utc(query["since"], name="since") if "since" in query else None
    until = read_utc(query["until"], name="until") if "until" in query else None
    if ends:
        rows = rows.filter(ended_at__isnull=False)
        rows = rows if since is None else rows.filter(ended_at__gte=since)
        return rows if until is None else rows.filter(ended_at__lt=until)
    if since is not None:
        rows = rows.filter(submitted_at__gte=since, id__gte=id_at(since - CLOCKS_APART))
    if until is not None:
        rows = rows.filter(submitted_at__lt=until, id__lt=id_at(until + CLOCKS_APART))
    return rows


def _known_kind(text: str) -> str:
    if text not in set(JobKind):
        message = Text(f"There is no kind {text[:80]!r}.", f"没有种类 {text[:80]!r}。")
        raise InvalidInput(
            message,
            hint=Text(f"Kinds are: {', '.join(JobKind)}.", f"种类：{', '.join(JobKind)}。"),
            fields=[FieldError("/kind", "choice", message)],
        )
    return text


def _by_labels(query: Any, rows: QuerySet[Job]) -> QuerySet[Job]:
    for tag in query.getlist("tag")[:20]:
        rows = with_tag(rows, tag)
    for label in query.getlist("label")[:20]:
        key, sign, value = label.partition("=" if "=" in label else ":")
        if not sign:
            message = Text(f"label is written key=value, not {label[:80]!r}.", f"label 应写成 key=value，而非 {label[:80]!r}。")
            raise InvalidInput(message, fields=[FieldError("/label", "form", message)])
        rows = with_label(rows, key, value)
    return rows
