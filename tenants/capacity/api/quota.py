"""Edits of limits, caps per person, and time limits of queues, over HTTP."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.db.models import Q
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from clusters.selectors import PoolFacts, list_pools
from kernel.actor import Actor
from kernel.clock import database_now, utc_text
from kernel.errors import FieldError, InvalidInput
from kernel.words import Text
from tenants.capacity import reads as capacity
from tenants.capacity import selectors as queue_selectors
from tenants.capacity.api import quota_bodies as bodies
from tenants.capacity.api.pools import names_of_pools, pool_ref
from tenants.capacity.lifecycle import EDIT_STATES
from tenants.capacity.models import Queue, QueueRule, QuotaEdit, UserCap
from tenants.capacity.quota.caps import CAPPED, default_runtime, runtime_limit
from tenants.capacity.quota.edits import COLUMNS, Change
from tenants.capacity.services.caps import LINES_MAX, CapLine, set_rules, set_user_caps
from tenants.capacity.services.edits import Trial, cancel_edit, edit_limits, forecast, read_change, try_limits
from tenants.identity import selectors
from tenants.identity.access import demand
from tenants.identity.api.shapes import Shown, tenant_ref, user_ref
from tenants.identity.models import User
from webapi.access import fetch, require, visible
from webapi.etags import expected_version, with_etag
from webapi.idempotency import idempotent
from webapi.pagination import page
from webapi.plans import asked_plan, hold_to, name_of, named
from webapi.schema import IF_MATCH, PLAN, page_of
from webapi.views import ApiView, known_query

TENANT = OpenApiParameter("tenant", str, description="Slug, id or name of a tenant.")
STATE = OpenApiParameter("state", str, enum=EDIT_STATES, description="Only edits in this state.")


class QuotaEditsView(ApiView):
    """Edits of limits: tried, made, or planned."""

    @extend_schema(parameters=[TENANT, STATE], responses=page_of(bodies.EditOut))
    def get(self, request: Request) -> Response:
        """List edits of limits that you can see, newest first. Operators see edits of tenants' top queues."""
        known_query(request, ("tenant", "state"))
        rows = visible(self.actor, QuotaEdit).select_related("tenant", "created_by")
        if request.query_params.get("tenant"):
            rows = rows.filter(tenant=selectors.get_tenant(self.actor, request.query_params["tenant"]))
        if state := request.query_params.get("state"):
            if state not in EDIT_STATES:
                message = Text(f"state is one of {', '.join(EDIT_STATES)}.", f"state 可选：{', '.join(EDIT_STATES)}。")
                raise InvalidInput(message, fields=[FieldError("/state", "invalid", message)])
            rows = rows.filter(state=state)
        pools = list_pools()
        return page(request, rows, order=("-id",), serialize=lambda rows: show_edits(rows, pools))

    @extend_schema(parameters=[PLAN], request=bodies.EditIn, responses={200: bodies.EditOut, 201: bodies.EditOut})
    @idempotent
    def post(self, request: Request) -> Response:
        """Change limits of many queues together, now or from `effective_from` on; `dry_run` shows the effect only.

        Managers of the queue above a queue set its limits. Refused as a whole, with each violation at its change.
        """
        body = bodies.EditIn.validated(request.data)
        pools = list_pools()
        changes = read_changes(self.actor, body["changes"], body["tenant"], pools)
        asked = asked_plan(request)
        confirm = None
        if body["dry_run"] or asked is not None:
            trial = try_limits(actor=self.actor, changes=changes)
            plan = self._show_trial(trial, body, pools)
            if body["dry_run"]:
                return Response(named(plan))
            if not trial.fields():  # What is wrong by now is told by the edit itself, and says more.
                hold_to(asked, plan)
                confirm = self._same_as(plan, body, pools)
        edit = edit_limits(
            actor=self.actor,
            changes=changes,
            effective_from=body["effective_from"],
            comment=body["comment"],
            expected_versions=_versions(body["versions"]),
            confirm=confirm,
            now=database_now(),
        )
        row = QuotaEdit.objects.select_related("tenant", "created_by").get(id=edit.pk)
        return Response(show_edits([row], pools)[0], status=201)

    def _same_as(self, plan: Shown, body: Mapping[str, Any], pools: Sequence[PoolFacts]) -> Callable[[Trial], None]:
        """Limits are compared once more under the lock; what becomes of jobs is as it was a moment ago."""

        def confirm(trial: Trial) -> None:
            hold_to(name_of(plan), self._show_trial(trial, body, pools, jobs=plan["forecast"]["jobs"]))

        return confirm

    def _show_trial(
        self, trial: Trial, body: Mapping[str, Any], pools: Sequence[PoolFacts], *, jobs: list[Shown] | None = None
    ) -> Shown:
        names = {queue.id: queue.name for queue in trial.tree.queues}
        limits = {queue.id: queue for queue in trial.tree.queues}
        if jobs is None:
            found = forecast(trial, actor=self.actor, now=database_now())
            jobs = None if found is None else [
                {"what": job.what, "job_id": str(job.job_id), "name": job.name, "why": job.why} for job in found
            ]  # fmt: skip
        problems = [found.as_dict() for found in trial.fields()]
        return {
            "id": None,
            "state": "dry_run",
            "tenant": None,
            "changes": [
                {
                    "queue": queue_ref(change.queue_id, names),
                    "pool": pool_ref(change.pool_id, pools),
                    "resource": change.resource,
                    "values": dict(change.values),
                    "before": limits[change.queue_id].limit(change.pool_id, change.resource).as_dict(),
                }
                for change in trial.changes
            ],
            "problems": problems,
            "comment": body["comment"],
            "effective_from": utc_text(body["effective_from"]),
            "created_at": None,
            "created_by": None,
            "decided_at": None,
            "forecast": {
                "problems": problems,
                "over": [
                    {
                        "queue": queue_ref(over.queue_id, names),
                        "pool": pool_ref(over.pool_id, pools),
                        "resource": over.resource,
                        "column": over.column,
                        "used": over.used,
                        "limit": over.limit,
                        "was_over": over.was_over,
                    }
                    for over in trial.outcome.over
                ],
                "jobs": jobs,
            },
        }


class QuotaEditView(ApiView):
    """One edit of limits."""

    @extend_schema(responses=bodies.EditOut)
    def get(self, request: Request, edit_id: str) -> Response:
        """Get an edit with its changes, and the reason of a refusal."""
        edit = fetch(self.actor, QuotaEdit, edit_id, "quota_edit.read", related=("tenant", "created_by"))
        return Response(show_edits([edit], list_pools())[0])

    @extend_schema(responses={200: bodies.EditOut})
    def delete(self, request: Request, edit_id: str) -> Response:
        """Cancel a scheduled edit. It stays in the list."""
        edit = fetch(self.actor, QuotaEdit, edit_id, "quota_edit.cancel", related=("tenant", "created_by"))
        cancel_edit(actor=self.actor, edit=edit, now=database_now())
        return Response(show_edits([edit], list_pools())[0])


class TenantCapsView(ApiView):
    """What one person may hold in a tenant."""

    @extend_schema(responses=bodies.CapsOut)
    def get(self, request: Request, tenant: str) -> Response:
        """List all caps of a tenant, the cap of all users first."""
        return self._show(self._tenant(tenant, "cap.read"))

    @extend_schema(request=bodies.CapIn(many=True), responses=bodies.CapsOut)
    def put(self, request: Request, tenant: str) -> Response:
        """Replace all caps of a tenant. They apply to future starts; no running job is stopped."""
        found = self._tenant(tenant, "cap.edit")
        items = bodies.CapIn.validated_list(request.data, length_max=LINES_MAX)
        set_user_caps(actor=self.actor, tenant=found, lines=self._lines(items), now=database_now())
        return self._show(found)

    def _tenant(self, text: str, verb: str) -> Any:
        tenant = selectors.get_tenant(self.actor, text)
        demand(self.actor, tenant.pk, verb)
        return tenant

    def _lines(self, items: Sequence[Mapping[str, Any]]) -> list[CapLine]:
        """Users by name or id, among those whom the actor sees. One query."""
        texts = {item["user"] for item in items if item["user"] is not None}
        ids = {found for text in texts if (found := _uuid(text)) is not None}
        users: dict[str, uuid.UUID] = {}
        for known_id, name in visible(self.actor, User).filter(Q(id__in=ids) | Q(name__in=texts)).values_list("id", "name"):
            users[str(known_id)] = users[name] = known_id
        lines: list[CapLine] = []
        fields: list[FieldError] = []
        for index, item in enumerate(items):
            text = item["user"]
            user_id = None if text is None else users.get(str(_uuid(text) or text))
            if text is not None and user_id is None:
                message = Text(f"There is no user {text[:80]!r} that you see.", f"没有您可见的用户 {text[:80]!r}。")
                fields.append(
                    FieldError(
                        f"/{index}/user",
                        "not_found",
                        message,
                        Text("`berth members` lists them.", "`berth members` 可列出成员。"),
                    )
                )
            lines.append(CapLine(user_id, **{what: item[what] for what in CAPPED}))
        if fields:
            raise InvalidInput(fields[0].message, fields=fields)
        return lines

    def _show(self, tenant: Any) -> Response:
        rows = visible(self.actor, UserCap).filter(tenant=tenant).select_related("user")
        ordered = sorted(rows, key=lambda row: (row.user is not None, row.user.name if row.user else ""))
        return Response(
            {"items": [{"user": user_ref(row.user), **{what: getattr(row, what) for what in CAPPED}} for row in ordered]}
        )


class QueueRulesView(ApiView):
    """How long jobs of a queue may run, and how many may."""

    @extend_schema(responses=bodies.RulesOut)
    def get(self, request: Request, queue_id: str) -> Response:
        """Get the run time and number limits of a queue, and the run time limits that result from it and the queues above."""
        return self._show(fetch(self.actor, Queue, queue_id, "queue.read"))

    @extend_schema(parameters=[IF_MATCH], request=bodies.RulesIn, responses=bodies.RulesOut)
    def put(self, request: Request, queue_id: str) -> Response:
        """Set the run time limit of a queue and the queues below it, and the number limits of a tenant's top queue.

        The number limits are the jobs and containers that hold capacity at a time. `default_runtime_seconds` is the planned run
        time of jobs without `max_runtime`. Omitted fields are unchanged. For managers of the queue above it."""
        queue = fetch(self.actor, Queue, queue_id, "queue.read", related=("parent",))
        require(self.actor, queue, "queue.limit")
        body = bodies.RulesIn.validated(request.data)
        changed = set_rules(
            actor=self.actor,
            queue=queue,
            rules=body,
            expected_version=expected_version(request),
            now=database_now(),
        )
        return self._show(changed)

    def _show(self, queue: Queue) -> Response:
        limits, defaults, names = capacity.runtime_limits(), capacity.default_runtimes(), ("max_jobs", "max_containers")
        counts = QueueRule.objects.filter(queue=queue).values(*names).first() or dict.fromkeys(names)
        path = [uuid.UUID(hex=step) for step in reversed(queue.path.split("/")) if step]
        shortest = runtime_limit(path, limits)
        shown = {
            "max_runtime_seconds": limits.get(queue.pk),
            "default_runtime_seconds": defaults.get(queue.pk),
            **counts,
            "effective_max_runtime_seconds": None if shortest is None else shortest[1],
            "effective_default_runtime_seconds": default_runtime(path, defaults),
            "version": queue.version,
        }
        return with_etag(Response(shown), queue.version)


def read_changes(
    actor: Actor, entries: Sequence[Mapping[str, Any]], tenant: str | None, pools: Sequence[PoolFacts]
) -> list[Change]:
    """Queues by id or by a name that only one visible queue has (in the tenant, if one is given); every unknown queue and
    pool is named. One query, and one for the tenant."""
    named = Q() if tenant is None else Q(tenant=selectors.get_tenant(actor, tenant))
    texts = {entry["queue"] for entry in entries}
    ids = {found for text in texts if (found := _uuid(text)) is not None}
    queues: dict[str, set[uuid.UUID]] = {}
    rows = visible(actor, Queue).filter(Q(id__in=ids) | (named & Q(name__in=texts))).values_list("id", "name")
    for queue_id, name in rows:
        queues.setdefault(str(queue_id), set()).add(queue_id)
        queues.setdefault(name, set()).add(queue_id)
    pools_by_text = names_of_pools(pools)
    changes, fields = [], []
    for index, entry in enumerate(entries):
        meant: dict[str, uuid.UUID] = {}
        for noun, known, lists in (
            (Text("queue", "队列"), queues, "berth queues"),
            (Text("pool", "资源池"), pools_by_text, "berth nodes"),
        ):
            what = noun.en
            text = entry[what]
            matches = known.get(str(_uuid(text) or text), set())
            if len(matches) == 1:
                meant[what] = next(iter(matches))
                continue
            message = (
                Text(f"There is no {what} {text[:80]!r} that you see.", f"没有您可见的{noun.zh} {text[:80]!r}。")
                if not matches
                else Text(f"Several have the name {text[:80]!r}.", f"有多个对象名为 {text[:80]!r}。")
            )
            fields.append(
                FieldError(
                    f"/changes/{index}/{what}",
                    "not_found",
                    message,
                    Text(f"`{lists}` lists them; use the id.", f"`{lists}` 可列出；请使用 ID。"),
                )
            )
        if len(meant) == 2:
            values = {column: entry[column] for column in COLUMNS if column in entry}
            changes.append(Change(meant["queue"], meant["pool"], entry["resource"], values))
    if fields:
        raise InvalidInput(fields[0].message, fields=fields)
    return changes


def show_edits(rows: Sequence[QuotaEdit], pools: Sequence[PoolFacts]) -> list[Shown]:
    """Rows come with their tenant and creator. One query for the names of queues."""
    changes = {row.pk: [read_change(entry) for entry in row.changes] for row in rows}
    names = queue_selectors.queue_names({change.queue_id for own in changes.values() for change in own})
    return [
        {
            "id": str(row.pk),
            "state": row.state,
            "tenant": tenant_ref(row.tenant) if row.tenant else None,
            "changes": [
                {
                    "queue": queue_ref(change.queue_id, names),
                    "pool": pool_ref(change.pool_id, pools),
                    "resource": change.resource,
                    "values": dict(change.values),
                    "before": _before(row, change),
                }
                for change in changes[row.pk]
            ],
            "problems": row.problems,
            "comment": row.comment,
            "effective_from": utc_text(row.effective_from),
            "created_at": utc_text(row.created_at),
            "created_by": user_ref(row.created_by),
            "decided_at": utc_text(row.decided_at),
            "forecast": None,
        }
        for row in rows
    ]


def _before(row: QuotaEdit, change: Change) -> Shown | None:
    key = {"queue": str(change.queue_id), "pool": str(change.pool_id), "resource": change.resource}
    for entry in row.before:
        if all(entry[name] == value for name, value in key.items()):
            return {column: entry[column] for column in COLUMNS}
    return None


def queue_ref(queue_id: uuid.UUID, names: Mapping[uuid.UUID, str]) -> Shown | None:
    """A queue by id and name; None for one that is gone."""
    return {"id": str(queue_id), "name": names[queue_id]} if queue_id in names else None


def _versions(given: Mapping[str, int]) -> dict[uuid.UUID, int]:
    fields = [
        FieldError(
            f"/versions/{text[:80]}",
            "invalid",
            Text("This is no id of a queue.", "这不是队列的 ID。"),
            Text("Give queue ids with their versions.", "请给出队列的 ID 及其版本。"),
        )
        for text in given
        if _uuid(text) is None
    ]
    if fields:
        raise InvalidInput(fields[0].message, fields=fields)
    return {uuid.UUID(text): version for text, version in given.items()}


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text) if len(text) == 36 else None
    except ValueError:
        return None
