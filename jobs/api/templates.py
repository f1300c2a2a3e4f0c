"""Job templates over HTTP: a gallery, its editors, and filling one in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import Q
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.models import TEMPLATE_NAME_LENGTH, Template
from jobs.selectors.templates import with_tag, with_words
from jobs.services import template_tests
from jobs.services import templates as service
from jobs.spec.templating import PARAMETERS_MAX, TITLE_LENGTH, TYPES
from kernel.clock import database_now, utc_text
from kernel.errors import FieldError, InvalidInput
from kernel.limits import NAME_LENGTH
from kernel.words import Text
from tenants.identity.access import demand
from tenants.identity.api.serializers import TenantRef, UserRef
from tenants.portal.features import tenants_without
from tenants.selectors import find_tenant, tenant_facts, user_names
from webapi.access import allows, fetch, visible
from webapi.actors import facts_of
from webapi.etags import expected_version, with_etag
from webapi.fields import NameField
from webapi.idempotency import idempotent
from webapi.pagination import page
from webapi.schema import IF_MATCH, page_of
from webapi.serializers import StrictSerializer
from webapi.views import ApiView, known_query
from webapi.wording import reader_language

ABOUT_LENGTH = 4_000
SEARCH_LENGTH = 200
EXAMPLE = {
    "name": "train",
    "title": "Train the model",
    "description": "One GPU, our data.",
    "tags": ["vision"],
    "parameters": [
        {"name": "rate", "title": "Learning rate", "type": "number", "default": 0.1, "minimum": 0, "maximum": 1},
        {"name": "gpus", "title": "GPUs", "type": "integer", "default": 1, "minimum": 1, "maximum": 8, "required": True},
    ],
    "spec": {
        "name": "train",
        "command": "python train.py --rate ${{ parameters.rate }}",
        "resources": {"gpu": "${{ parameters.gpus }}"},
    },
}


@extend_schema_field(OpenApiTypes.ANY)
class AnyValue(serializers.JSONField):
    """A text, a number, true or false."""


class ParameterOut(serializers.Serializer[Any]):
    """A parameter of a template. `minimum` and `maximum` bound a number, or the length of a text."""

    name = serializers.CharField()
    type = serializers.ChoiceField(TYPES)
    title = serializers.CharField()
    title_zh = serializers.CharField()
    description = serializers.CharField()
    description_zh = serializers.CharField()
    default = AnyValue(allow_null=True)
    minimum = serializers.FloatField(allow_null=True)
    maximum = serializers.FloatField(allow_null=True)
    choices = serializers.ListField(child=AnyValue())
    required = serializers.BooleanField(  # type: ignore[assignment]  # Only the name of a key.
        help_text="A missing value or an empty text is refused."
    )


class TestJobOut(serializers.Serializer[Any]):
    """The job of a test run."""

    id = serializers.UUIDField()
    name = serializers.CharField()


class TestRunOut(serializers.Serializer[Any]):
    """The last test run of a template: a job with its defaults."""

    result = serializers.ChoiceField(
        template_tests.RESULTS, help_text="`outdated`: document or parameters have changed since. A stopped job counts as failed."
    )
    at = serializers.DateTimeField(allow_null=True, help_text="Time of submission.")
    job = TestJobOut(allow_null=True, help_text="Null for users who may not see it.")


class TemplateOut(serializers.Serializer[Any]):
    """A template. `tenant` null: it is public."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    title = serializers.CharField()
    title_zh = serializers.CharField(help_text="Empty: use `title`.")
    description = serializers.CharField()
    description_zh = serializers.CharField()
    icon = serializers.CharField(help_text="A single word; empty for none.")
    tags = serializers.ListField(child=serializers.CharField())
    tenant = TenantRef(allow_null=True)
    public = serializers.BooleanField()
    shipped = serializers.BooleanField(help_text="The template is part of the release.")
    owner = UserRef(allow_null=True, help_text="Null if the template is public.")
    parameters = ParameterOut(many=True)
    spec = serializers.DictField(help_text="A job, as in a job file, with `${{ parameters.NAME }}` in its texts.")
    uses = serializers.IntegerField(help_text="Number of uses.")
    test = TestRunOut()
    may_edit = serializers.BooleanField()
    may_publish = serializers.BooleanField()
    version = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()
    published_at = serializers.DateTimeField(allow_null=True)


class TemplateChange(StrictSerializer):
    """Fields of a template that may change."""

    name = serializers.CharField(max_length=TEMPLATE_NAME_LENGTH, help_text="Small letters, digits and inner hyphens.")
    title = NameField(max_length=TITLE_LENGTH)
    title_zh = NameField(max_length=TITLE_LENGTH, required=False, allow_blank=True)
    description = serializers.CharField(max_length=ABOUT_LENGTH, required=False, allow_blank=True)
    description_zh = serializers.CharField(max_length=ABOUT_LENGTH, required=False, allow_blank=True)
    icon = serializers.CharField(max_length=40, required=False, allow_blank=True, help_text="A single word, such as `flame`.")
    tags = serializers.ListField(child=serializers.CharField(max_length=NAME_LENGTH), required=False, max_length=64)
    parameters = serializers.ListField(
        child=serializers.DictField(),
        required=False,
        max_length=PARAMETERS_MAX,
        help_text="Each with `name` and `type`; optionally `title`, `description` (and `_zh`), `default`, `minimum`, "
        "`maximum`, `choices`, `required`.",
    )
    spec = serializers.JSONField(help_text="A job, as in a job file, with `${{ parameters.NAME }}` in its texts.")


class TemplateIn(TemplateChange):
    """A new template for a tenant or, by operators, for all tenants."""

    tenant = serializers.CharField(
        max_length=NAME_LENGTH, required=False, allow_null=True, help_text="Default: your only tenant."
    )
    public = serializers.BooleanField(required=False, default=False, help_text="For all tenants, without a tenant of its own.")


class TestIn(StrictSerializer):
    """Tenant and queue of the test run."""

    tenant = serializers.CharField(
        max_length=NAME_LENGTH,
        required=False,
        allow_null=True,
        default=None,
        help_text="Default: the tenant of the template, or your only tenant.",
    )
    queue = serializers.CharField(max_length=NAME_LENGTH, required=False, allow_blank=True, default="")


class RenderIn(StrictSerializer):
    """Parameters of a template."""

    parameters = serializers.DictField(required=False, default=dict, help_text='Such as {"gpus": 2}. Omitted: the defaults.')
    name = serializers.CharField(max_length=NAME_LENGTH, required=False, allow_blank=True, default="", help_text="Of the job.")
    tenant = serializers.CharField(
        max_length=NAME_LENGTH,
        required=False,
        allow_null=True,
        default=None,
        help_text="Also check the objects of the tenant that the job names: queue, image, volumes, secrets.",
    )
    queue = serializers.CharField(max_length=NAME_LENGTH, required=False, allow_blank=True, default="")
    preview = serializers.BooleanField(required=False, default=False, help_text="Preview only: not counted as a use.")


class SpecProblemOut(serializers.Serializer[Any]):
    """A problem that prevents submission, at a place of `spec`."""

    path = serializers.CharField()
    code = serializers.CharField()
    message = serializers.CharField()
    hint = serializers.CharField(required=False)


class RenderOut(serializers.Serializer[Any]):
    """The job. Send `spec` to POST /jobs, with or without `dry_run`."""

    spec = serializers.DictField()
    problems = SpecProblemOut(many=True, help_text="Empty: the job can be submitted.")


class TemplatesView(ApiView):
    """Jobs to fill in."""

    feature = "templates"

    @extend_schema(
        parameters=[
            OpenApiParameter("tenant", str, description="Slug, id or name of a tenant: its own templates and public ones."),
            OpenApiParameter("public", bool, description="Only public templates, or only others."),
            OpenApiParameter("q", str, description="Words of the name, title or tags, case-insensitive."),
            OpenApiParameter("tag", str, many=True, description="May be repeated: all of them."),
        ],
        responses=page_of(TemplateOut),
    )
    def get(self, request: Request) -> Response:
        """List templates that you may use, newest first."""
        known_query(request, ("tenant", "public", "q", "tag"))
        query = request.query_params
        rows = visible(self.actor, Template)
        off = tenants_without(facts_of(request), self.feature)
        if off:
            rows = rows.exclude(tenant_id__in=off)
        if query.get("tenant"):
            rows = rows.filter(Q(tenant_id=find_tenant(self.actor, query["tenant"]).id) | Q(tenant_id__isnull=True))
        if "public" in query:
            rows = rows.filter(tenant_id__isnull=_flag(query["public"]))
        if query.get("q"):
            rows = with_words(rows, _short("q", query["q"]))
        for tag in query.getlist("tag")[:16]:
            rows = with_tag(rows, _short("tag", tag))
        return page(request, rows, order=("-id",), serialize=lambda found: show_templates(self, found))

    @extend_schema(
        request=TemplateIn, responses={201: TemplateOut}, examples=[OpenApiExample("one GPU", EXAMPLE, request_only=True)]
    )
    @idempotent
    def post(self, request: Request) -> Response:
        """Create a template. A document that no parameters could make valid is refused, with all errors."""
        body = TemplateIn.validated(request.data)
        public, tenant = body.pop("public"), body.pop("tenant", None)
        tenant_id = None if public else find_tenant(self.actor, tenant).id
        self.check_feature(tenant_id)
        demand(self.actor, tenant_id, "template.publish" if public else "template.create", self.actor.user_id)
        row = service.create_template(actor=self.actor, tenant_id=tenant_id, given=body, now=database_now())
        response = Response(show_templates(self, [row])[0], status=201, headers={"Location": f"/api/v1/templates/{row.pk}"})
        return with_etag(response, row.version)


class TemplateView(ApiView):
    """One template."""

    feature = "templates"

    @extend_schema(responses=TemplateOut)
    def get(self, request: Request, template_id: str) -> Response:
        """Get a template with its parameters."""
        row = _fetch(self, template_id, "template.read")
        return with_etag(Response(show_templates(self, [row])[0]), row.version)

    @extend_schema(parameters=[IF_MATCH], request=TemplateChange, responses=TemplateOut)
    def patch(self, request: Request, template_id: str) -> Response:
        """Change a template. `parameters` and `spec` are replaced as a whole, and must fit each other."""
        row = _fetch(self, template_id, "template.edit")
        body = TemplateChange.validated(request.data, partial=True)
        changed = service.update_template(
            actor=self.actor, template=row, changes=body, expected_version=expected_version(request), now=database_now()
        )
        return with_etag(Response(show_templates(self, [changed])[0]), changed.version)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, template_id: str) -> Response:
        """Delete a template. Its jobs are unchanged."""
        row = _fetch(self, template_id, "template.delete")
        service.delete_template(actor=self.actor, template=row, now=database_now())
        return Response(status=204)


class TemplateRenderView(ApiView):
    """Fill a template in."""

    feature = "templates"

    @extend_schema(request=RenderIn, responses={200: RenderOut})
    def post(self, request: Request, template_id: str) -> Response:
        """Render a template with parameters to a job. Nothing is submitted.

        Invalid parameters are refused, all at once. Problems of the resulting job are in `problems`.
        """
        row = _fetch(self, template_id, "template.read")
        body = RenderIn.validated(request.data or {})
        made = service.render(
            actor=self.actor,
            template=row,
            parameters=body["parameters"],
            name=body["name"],
            queue=body["queue"],
            tenant=body["tenant"],
        )
        if not body["preview"]:
            service.count_use(row.pk)
        return Response({"spec": made.spec, "problems": [entry.as_dict(reader_language(request)) for entry in made.problems]})


class TemplatePublishView(ApiView):
    """Give a template to all users."""

    feature = "templates"

    @extend_schema(request=None, responses={200: TemplateOut})
    @idempotent
    def post(self, request: Request, template_id: str) -> Response:
        """Make a tenant's template public, as an operator. It leaves the tenant: operators maintain it from then on."""
        row = _fetch(self, template_id, "template.publish")
        made = service.publish_template(actor=self.actor, template=row, now=database_now())
        return with_etag(Response(show_templates(self, [made])[0]), made.version)


class TemplateTestView(ApiView):
    """Try a template."""

    feature = "templates"

    @extend_schema(
        request=TestIn, responses={201: TemplateOut}, examples=[OpenApiExample("in its tenant", {}, request_only=True)]
    )
    @idempotent
    def post(self, request: Request, template_id: str) -> Response:
        """Submit a template with its defaults as your job, with the tag `template-test`.

        For users who may edit the template. The gallery shows the result to all users of the template.
        """
        row = _fetch(self, template_id, "template.edit")
        body = TestIn.validated(request.data or {})
        tenant = body["tenant"] or (str(row.tenant_id) if row.tenant_id is not None else None)
        made = template_tests.start_test(actor=self.actor, template=row, tenant=tenant, queue=body["queue"], now=database_now())
        headers = {"Location": f"/api/v1/jobs/{made.test_job_id}"}
        return with_etag(Response(show_templates(self, [made])[0], status=201, headers=headers), made.version)


def _fetch(view: ApiView, template_id: str, verb: str) -> Template:
    row = fetch(view.actor, Template, template_id, verb)
    if row.tenant_id is not None:
        view.check_feature(row.tenant_id)
    return row


def show_templates(view: ApiView, rows: Sequence[Template]) -> list[dict[str, Any]]:
    """Templates for the API. Two queries, whatever their number, and one where some had a test run."""
    tenant_ids, owner_ids = service.names_of(rows)
    tenants, owners = tenant_facts(tenant_ids), user_names(owner_ids)
    tests = template_tests.last_runs(view.actor, rows)
    shown = []
    for row in rows:
        tenant = tenants.get(row.tenant_id) if row.tenant_id is not None else None
        owner = owners.get(row.owner_id) if tenant is not None and row.owner_id is not None else None
        shown.append(
            {
                "id": str(row.pk),
                "name": row.name,
                "title": row.title,
                "title_zh": row.title_zh,
                "description": row.description,
                "description_zh": row.description_zh,
                "icon": row.icon,
                "tags": row.tags,
                "tenant": {"id": str(tenant.id), "slug": tenant.slug, "name": tenant.name} if tenant is not None else None,
                "public": row.tenant_id is None,
                "shipped": row.is_shipped,
                "owner": {"id": str(row.owner_id), "name": owner} if owner is not None else None,
                "parameters": row.parameters,
                "spec": row.spec,
                "uses": row.uses,
                "test": _show_test(tests.get(row.pk, template_tests.NEVER)),
                "may_edit": allows(view.actor, row, "template.edit"),
                "may_publish": row.tenant_id is not None and allows(view.actor, row, "template.publish"),
                "version": row.version,
                "created_at": utc_text(row.created_at),
                "updated_at": utc_text(row.updated_at),
                "published_at": utc_text(row.published_at),
            }
        )
    return shown


def _show_test(run: template_tests.LastRun) -> dict[str, Any]:
    job = {"id": str(run.job_id), "name": run.job_name} if run.job_id is not None else None
    return {"result": run.result, "at": utc_text(run.at), "job": job}


def _short(name: str, text: str) -> str:
    if len(text) > SEARCH_LENGTH or "\x00" in text:
        message = Text(f"{name} has at most {SEARCH_LENGTH} characters.", f"{name} 最多 {SEARCH_LENGTH} 个字符。")
        raise InvalidInput(message, fields=[FieldError(f"/{name}", "invalid", message)])
    return text


def _flag(text: str) -> bool:
    if text not in {"true", "false"}:
        message = Text("public must be true or false.", "public 须为 true 或 false。")
        raise InvalidInput(message, fields=[FieldError("/public", "invalid", message)])
    return text == "true"
