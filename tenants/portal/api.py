"""What the portal keeps, over HTTP: features, announcements, one's own preferences and saved filters."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db.models import Q
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from kernel.clock import database_now, utc_text
from kernel.limits import NAME_LENGTH
from kernel.words import LANGUAGES
from tenants.identity import selectors
from tenants.identity.access import demand
from tenants.identity.api.serializers import TenantRef, UserRef
from tenants.identity.api.shapes import tenant_ref, user_ref
from tenants.portal import features
from tenants.portal import services as service
from tenants.portal.access import announced_in
from tenants.portal.models import LEVELS, THEMES, Announcement, AnnouncementDismissal, Preference, SavedFilter
from webapi.access import allows, fetch, visible
from webapi.actors import facts_of
from webapi.etags import expected_version, with_etag
from webapi.features import FEATURES
from webapi.fields import NameField, SlugField, UtcTimeField, WordsField
from webapi.idempotency import idempotent
from webapi.pagination import page
from webapi.schema import IF_MATCH, page_of
from webapi.serializers import StrictSerializer
from webapi.views import ApiView, known_query, query_flag

Out = serializers.Serializer[Any]
TENANT = OpenApiParameter("tenant", str, description="Slug, id or name of a tenant.")
WORDS_LENGTH = 2_000
QUERY_LENGTH = 1_000


class FeatureOut(Out):
    """A feature that can be switched off. While it is off, its pages and operations do not exist (404, `feature_off`)."""

    name = serializers.CharField()
    title = serializers.CharField()
    title_zh = serializers.CharField()
    enabled = serializers.BooleanField(help_text="In the requested tenant; otherwise in any of your tenants.")
    installation = serializers.BooleanField(help_text="Default of tenants without a setting of their own.")
    setting = serializers.BooleanField(allow_null=True, help_text="Setting of the tenant itself; null: inherited.")


class FeaturesOut(Out):
    items = FeatureOut(many=True)


class FeatureIn(StrictSerializer):
    """On, off, or null: inherited."""

    enabled = serializers.BooleanField(allow_null=True)
    tenant = serializers.CharField(max_length=NAME_LENGTH, required=False, allow_null=True, default=None)


class AnnouncementChange(StrictSerializer):
    """Text and times of an announcement."""

    text = WordsField(max_length=WORDS_LENGTH)
    text_zh = WordsField(max_length=WORDS_LENGTH, required=False, allow_blank=True, help_text="Empty: as `text`.")
    level = serializers.ChoiceField(LEVELS, required=False)
    starts_at = UtcTimeField(required=False, allow_null=True, help_text="Default: now.")
    ends_at = UtcTimeField(required=False, allow_null=True, help_text="Null: until it is withdrawn.")


class AnnouncementIn(AnnouncementChange):
    """A new announcement."""

    tenant = serializers.CharField(
        max_length=NAME_LENGTH, required=False, allow_null=True, default=None, help_text="Null: all users; operators only."
    )


class AnnouncementOut(Out):
    """Announcement to all users, or to a tenant and the tenants below it."""

    id = serializers.UUIDField()
    tenant = TenantRef(allow_null=True, help_text="Null also for a tenant above yours of which you are not a member.")
    everybody = serializers.BooleanField(help_text="The announcement is for all tenants.")
    level = serializers.ChoiceField(LEVELS)
    text = serializers.CharField()
    text_zh = serializers.CharField()
    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField(allow_null=True)
    active = serializers.BooleanField(help_text="The announcement is currently shown.")
    dismissed = serializers.BooleanField(help_text="You dismissed the announcement.")
    may_edit = serializers.BooleanField()
    version = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    created_by = UserRef(allow_null=True, help_text="Null for announcements to all users, and of tenants above yours.")


class PreferenceIn(StrictSerializer):
    """Preferences for the portal."""

    language = serializers.ChoiceField(
        ["", *LANGUAGES], required=False, allow_blank=True, help_text="Empty: the language of the browser."
    )
    theme = serializers.ChoiceField(THEMES, required=False)
    time_zone = serializers.CharField(
        max_length=64, required=False, allow_blank=True, help_text="Such as Asia/Shanghai. Empty: the time zone of the browser."
    )
    default_tenant = serializers.CharField(max_length=NAME_LENGTH, required=False, allow_null=True, help_text="Slug, id or name.")
    first_steps_done = serializers.BooleanField(
        required=False, help_text="The portal no longer shows the steps from an example to a first job."
    )


class PreferenceOut(Out):
    """Preferences for the portal."""

    language = serializers.ChoiceField(["", *LANGUAGES])
    theme = serializers.ChoiceField(THEMES)
    time_zone = serializers.CharField()
    default_tenant = TenantRef(allow_null=True)
    first_steps_done = serializers.BooleanField()


class SavedFilterIn(StrictSerializer):
    """A named query string."""

    page = SlugField(max_length=40, help_text="Name of a page of the portal, such as `jobs`.")
    name = NameField(max_length=63)
    query = serializers.CharField(max_length=QUERY_LENGTH, allow_blank=True, help_text="Such as `state=running&tag=vision`.")


class SavedFilterOut(Out):
    """A saved filter of yours."""

    id = serializers.UUIDField()
    page = serializers.CharField()
    name = serializers.CharField()
    query = serializers.CharField()
    created_at = serializers.DateTimeField()


class FeaturesView(ApiView):
    """What is switched on."""

    @extend_schema(operation_id="features_list", parameters=[TENANT], responses=FeaturesOut)
    def get(self, request: Request) -> Response:
        """List features, and whether each is on in a tenant, by default in any of your tenants."""
        known_query(request, ("tenant",))
        facts = facts_of(request)
        text = request.query_params.get("tenant")
        tenant_id = selectors.find_tenant(self.actor, text).id if text else None
        source, settings = features.Features(), features.settings(facts)
        whole = source.installation(facts)
        items = [
            {
                "name": feature.name,
                "title": feature.title.en,
                "title_zh": feature.title.zh,
                "enabled": source.is_on(facts, self.actor, feature.name, tenant_id),
                "installation": whole[feature.name],
                "setting": settings.get((tenant_id, feature.name)),
            }
            for feature in FEATURES.values()
        ]
        return Response({"items": items})


class FeatureView(ApiView):
    """One feature."""

    @extend_schema(
        operation_id="features_put",
        request=FeatureIn,
        responses={204: None},
        examples=[OpenApiExample("off for a tenant", {"enabled": False, "tenant": "vision"}, request_only=True)],
    )
    def put(self, request: Request, name: str) -> Response:
        """Switch a feature on or off, as an operator, for the installation or for a tenant and the tenants below it."""
        demand(self.actor, None, "feature.edit")
        body = FeatureIn.validated(request.data)
        tenant_id = None if body["tenant"] is None else selectors.find_tenant(self.actor, body["tenant"]).id
        service.set_feature(actor=self.actor, name=name, enabled=body["enabled"], tenant_id=tenant_id, now=database_now())
        return Response(status=204)


class AnnouncementsView(ApiView):
    """Announcements to all users, or to a tenant."""

    feature = "announcements"

    @extend_schema(
        parameters=[
            TENANT,
            OpenApiParameter(
                "all", bool, description="Include planned and past announcements. Default: current announcements only."
            ),
        ],
        responses=page_of(AnnouncementOut),
    )
    def get(self, request: Request) -> Response:
        """List announcements to all users, to your tenants and to tenants above them, newest first, including dismissed ones."""
        known_query(request, ("tenant", "all"))
        now = database_now()
        rows = visible(self.actor, Announcement).select_related("tenant", "created_by")
        if request.query_params.get("tenant"):
            rows = rows.filter(announced_in([selectors.get_tenant(self.actor, request.query_params["tenant"]).pk]))
        if not query_flag(request, "all"):
            rows = rows.filter(Q(ends_at__isnull=True) | Q(ends_at__gt=now), starts_at__lte=now)
        off = features.tenants_without(facts_of(request), "announcements")
        if off:
            rows = rows.exclude(tenant_id__in=off)
        return page(request, rows, order=("-id",), serialize=lambda found: show_announcements(self, found, now))

    @extend_schema(request=AnnouncementIn, responses={201: AnnouncementOut})
    @idempotent
    def post(self, request: Request) -> Response:
        """Publish an announcement to a tenant that you manage and all tenants below it; as an operator also to all users."""
        body = AnnouncementIn.validated(request.data)
        text = body.pop("tenant")
        tenant_id = None if text is None else selectors.find_tenant(self.actor, text).id
        now = database_now()
        row = service.announce(actor=self.actor, tenant_id=tenant_id, given=body, now=now)
        return with_etag(Response(show_announcements(self, [_again(row)], now)[0], status=201), row.version)


class AnnouncementView(ApiView):
    """One announcement."""

    feature = "announcements"

    @extend_schema(parameters=[IF_MATCH], request=AnnouncementChange, responses=AnnouncementOut)
    def patch(self, request: Request, announcement_id: str) -> Response:
        """Change an announcement. Users who dismissed it see it again."""
        row = _fetch(self, announcement_id, "announcement.edit")
        body, now = AnnouncementChange.validated(request.data, partial=True), database_now()
        changed = service.change_announcement(
            actor=self.actor, announcement=row, changes=body, expected_version=expected_version(request), now=now
        )
        return with_etag(Response(show_announcements(self, [_again(changed)], now)[0]), changed.version)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, announcement_id: str) -> Response:
        """Withdraw an announcement."""
        row = _fetch(self, announcement_id, "announcement.delete")
        service.take_back(actor=self.actor, announcement=row, now=database_now())
        return Response(status=204)


class AnnouncementDismissView(ApiView):
    """Read it, and be done with it."""

    feature = "announcements"

    @extend_schema(request=None, responses={204: None})
    def post(self, request: Request, announcement_id: str) -> Response:
        """Dismiss an announcement. May be repeated."""
        row = _fetch(self, announcement_id, "announcement.read")
        service.dismiss(actor=self.actor, announcement=row)
        return Response(status=204)


class PreferencesView(ApiView):
    """Preferences for the portal."""

    @extend_schema(operation_id="preferences_get", responses=PreferenceOut)
    def get(self, request: Request) -> Response:
        """Get your preferences."""
        known_query(request, ())
        row = Preference.objects.select_related("default_tenant").filter(Q(user_id=self.actor.user_id)).first()
        return Response(self._shown(row or Preference()))

    @extend_schema(
        operation_id="preferences_update",
        request=PreferenceIn,
        responses=PreferenceOut,
        examples=[OpenApiExample("dark, in Shanghai", {"theme": "dark", "time_zone": "Asia/Shanghai"}, request_only=True)],
    )
    def patch(self, request: Request) -> Response:
        """Change your preferences."""
        demand(self.actor, None, "preference.edit")
        body = PreferenceIn.validated(request.data, partial=True)
        if "default_tenant" in body:
            text = body.pop("default_tenant")
            body["default_tenant_id"] = None if text is None else selectors.find_tenant(self.actor, text).id
        row = service.set_preferences(actor=self.actor, changes=body)
        return Response(self._shown(Preference.objects.select_related("default_tenant").get(pk=row.pk)))

    def _shown(self, row: Preference) -> dict[str, Any]:
        tenant = row.default_tenant
        seen = tenant is not None and (self.actor.is_operator or tenant.pk in self.actor.roles)
        return {
            "language": row.language,
            "theme": row.theme,
            "time_zone": row.time_zone,
            "default_tenant": tenant_ref(tenant) if tenant is not None and seen else None,
            "first_steps_done": row.first_steps_done,
        }


class SavedFiltersView(ApiView):
    """Your own filters."""

    @extend_schema(
        parameters=[OpenApiParameter("page", str, description="Only filters of this page.")], responses=page_of(SavedFilterOut)
    )
    def get(self, request: Request) -> Response:
        """List your saved filters, by page and name."""
        known_query(request, ("page",))
        rows = visible(self.actor, SavedFilter)
        if request.query_params.get("page"):
            rows = rows.filter(page=request.query_params["page"][:40].replace("\x00", ""))
        return page(request, rows, order=("page", "name", "id"), serialize=show_filters)

    @extend_schema(request=SavedFilterIn, responses={201: SavedFilterOut})
    @idempotent
    def post(self, request: Request) -> Response:
        """Save a filter for yourself."""
        demand(self.actor, None, "saved_filter.create")
        body = SavedFilterIn.validated(request.data)
        row = service.save_filter(actor=self.actor, now=database_now(), **body)
        return Response(show_filters([row])[0], status=201)


class SavedFilterView(ApiView):
    """One of your own filters."""

    @extend_schema(responses={204: None})
    def delete(self, request: Request, filter_id: str) -> Response:
        """Delete a saved filter of yours."""
        service.delete_filter(fetch(self.actor, SavedFilter, filter_id, "saved_filter.delete"))
        return Response(status=204)


def _fetch(view: ApiView, announcement_id: str, verb: str) -> Announcement:
    row = fetch(view.actor, Announcement, announcement_id, verb)
    if row.tenant_id is not None:
        view.check_feature(row.tenant_id)
    return row


def show_announcements(view: ApiView, rows: Sequence[Announcement], now: datetime) -> list[dict[str, Any]]:
    """Rows come with their tenant and author. One query for what the reader has dismissed."""
    dismissed = set(
        AnnouncementDismissal.objects.filter(
            Q(user_id=view.actor.user_id), announcement__in=[row.pk for row in rows]
        ).values_list("announcement_id", flat=True)
    )
    return [
        {
            "id": str(row.pk),
            "tenant": tenant_ref(row.tenant) if row.tenant is not None and _belongs(view, row) else None,
            "everybody": row.tenant_id is None,
            "level": row.level,
            "text": row.text,
            "text_zh": row.text_zh,
            "starts_at": utc_text(row.starts_at),
            "ends_at": utc_text(row.ends_at),
            "active": row.starts_at <= now and (row.ends_at is None or row.ends_at > now),
            "dismissed": row.pk in dismissed,
            "may_edit": allows(view.actor, row, "announcement.edit"),
            "version": row.version,
            "created_at": utc_text(row.created_at),
            "created_by": user_ref(row.created_by) if row.tenant is not None and _belongs(view, row) else None,
        }
        for row in rows
    ]


def _belongs(view: ApiView, row: Announcement) -> bool:
    """Whether the reader knows its tenant; those above one's own have no names."""
    return row.tenant_id in view.actor.roles or view.actor.is_operator


def show_filters(rows: Sequence[SavedFilter]) -> list[dict[str, Any]]:
    return [
        {"id": str(row.pk), "page": row.page, "name": row.name, "query": row.query, "created_at": utc_text(row.created_at)}
        for row in rows
    ]


def _again(row: Announcement) -> Announcement:
    return Announcement.objects.select_related("tenant", "created_by").get(pk=row.pk)
