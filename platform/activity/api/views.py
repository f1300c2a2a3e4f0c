"""Events, audit, tickets, subscriptions and deliveries over HTTP. Views translate; services and the feed act."""

from __future__ import annotations

import uuid
from typing import Any

from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from activity import registry
from activity.api import serializers as shapes
from activity.api.streams import HEARTBEAT_SECONDS, LiveStream
from activity.feed import FeedChannel
from activity.models import AuditEvent, Delivery, Event, Subscription
from activity.notifications import subscriptions
from activity.notifications.channels import offered
from activity.notifications.kinds import DeliveryState
from activity.tickets import issue_ticket
from kernel.actor import Actor
from kernel.clock import database_now, utc_text
from kernel.config import current
from kernel.errors import FieldError, InvalidInput
from kernel.words import Text
from webapi import access
from webapi.etags import check_if_match, expected_version, with_etag
from webapi.fields import INTEGER_MAX, read_utc
from webapi.idempotency import OnceResponse, idempotent
from webapi.pagination import page
from webapi.sse import event_stream, last_event_id
from webapi.views import ApiView, known_query
from webapi.wording import reader_language

TENANT = OpenApiParameter("tenant", str, description="Slug, id or name of a tenant.")
JOB = OpenApiParameter("job", str, description="Id of the job.")
AFTER = OpenApiParameter("after", int, description="Only events with a higher `seq`, oldest first.")
LAST_EVENT_ID = OpenApiParameter("Last-Event-ID", str, OpenApiParameter.HEADER, description="Last received `seq`.")
LIMIT = OpenApiParameter("limit", int, description="Maximum number of items, up to 500.")
CURSOR = OpenApiParameter("cursor", str, description="`next` of the previous page.")
AUDIT_FILTERS = ("tenant", "actor", "verb", "target_kind", "target_id", "since", "until")


class EventsView(ApiView):
    """What happened, by its one order."""

    @extend_schema(parameters=[TENANT, JOB, AFTER, LIMIT, CURSOR], responses=shapes.EventPageOut)
    def get(self, request: Request) -> Response:
        """List events that you can see: newest first, or with `after` the later events, oldest first."""
        known_query(request, ("tenant", "job", "after"))
        rows = access.visible(self.actor, Event).filter(seq__isnull=False)
        channel = _channel(self.actor, request)
        if channel.kind != "user":
            rows = rows.filter(**{f"{channel.kind}_id": channel.id})
        after = _seq(request.query_params.get("after", ""))
        if after is None:
            return page(request, rows, order=("-seq",), serialize=shapes.show_events)
        return page(request, rows.filter(seq__gt=after), order=("seq",), serialize=shapes.show_events)


class EventStreamView(ApiView):
    """The same as it happens, as server-sent events."""

    @extend_schema(parameters=[TENANT, JOB, AFTER, LAST_EVENT_ID], responses={(200, "text/event-stream"): OpenApiTypes.STR})
    def get(self, request: Request) -> StreamingHttpResponse:
        """Follow events, from `Last-Event-ID` or `after` on if given; they are sent as JSON with their `seq` as id."""
        known_query(request, ("tenant", "job", "after"))
        stream = LiveStream(self.actor, _channel(self.actor, request), after=_seq(last_event_id(request)))
        return event_stream(
            stream.events(),
            heartbeat_seconds=HEARTBEAT_SECONDS,
            is_allowed=stream.is_allowed,
            language=reader_language(request),
        )


class TicketsView(ApiView):
    """One-time tickets for live connections."""

    @extend_schema(request=None, responses={201: shapes.TicketOut})
    def post(self, request: Request) -> Response:
        """Get a ticket that opens one WebSocket within 30 seconds."""
        ticket = issue_ticket(actor=self.actor, now=database_now())
        return Response({"ticket": ticket.text, "expires_at": utc_text(ticket.expires_at)}, status=201)


class AuditView(ApiView):
    """Who did what."""

    @extend_schema(
        parameters=[
            TENANT,
            OpenApiParameter("actor", OpenApiTypes.UUID, description="Id of the user."),
            OpenApiParameter("verb", str, description="Such as `job.submit`."),
            OpenApiParameter("target_kind", str, description="Such as `job`."),
            OpenApiParameter("target_id", str, description="Only with `target_kind`."),
            OpenApiParameter("since", OpenApiTypes.DATETIME),
            OpenApiParameter("until", OpenApiTypes.DATETIME),
            LIMIT,
            CURSOR,
        ],
        responses=shapes.AuditPageOut,
    )
    def get(self, request: Request) -> Response:
        """List accepted calls in the tenants that you manage, newest first."""
        known_query(request, AUDIT_FILTERS)
        rows = _filtered_audit(self.actor, request, access.visible(self.actor, AuditEvent))
        return page(request, rows, order=("-id",), serialize=shapes.show_audit)


class NotificationChannelsView(ApiView):
    """How you can be told."""

    @extend_schema(responses=shapes.ChannelsOut)
    def get(self, request: Request) -> Response:
        """List the notification channels of this installation, with their fields."""
        known_query(request, ())
        return Response({"items": [shapes.show_channel(channel) for channel in offered(current())]})


class SubscriptionsView(ApiView):
    """What you are told, and how."""

    @extend_schema(parameters=[LIMIT, CURSOR], responses=shapes.SubscriptionPageOut)
    def get(self, request: Request) -> Response:
        """List your subscriptions, newest first."""
        known_query(request, ())
        return page(request, access.visible(self.actor, Subscription), order=("-id",), serialize=shapes.show_subscriptions)

    @extend_schema(request=shapes.SubscriptionIn, responses={201: shapes.SubscriptionOut})
    @idempotent
    def post(self, request: Request) -> Response:
        """Subscribe. The signing secret of a webhook is only in this answer."""
        body = shapes.SubscriptionIn.validated(request.data)
        access.require(self.actor, Subscription(user_id=self.actor.user_id or uuid.UUID(int=0)), "subscription.create")
        tenant = body.pop("tenant")
        tenant_id = None if tenant is None else registry.resolve_channel(self.actor, "tenant", tenant)
        made = subscriptions.create_subscription(actor=self.actor, tenant_id=tenant_id, now=database_now(), **body)
        answer = shapes.show_subscription(made.subscription)
        if not made.secret:
            return with_etag(Response(answer, status=201), made.subscription.version)
        return with_etag(OnceResponse({**answer, "secret": made.secret}, status=201), made.subscription.version)


class SubscriptionView(ApiView):
    """One of your subscriptions."""

    @extend_schema(responses=shapes.SubscriptionOut)
    def get(self, request: Request, subscription: uuid.UUID) -> Response:
        """Get a subscription, without its secret."""
        found = access.fetch(self.actor, Subscription, subscription, "subscription.read")
        return with_etag(Response(shapes.show_subscription(found)), found.version)

    @extend_schema(request=shapes.SubscriptionChange, responses=shapes.SubscriptionOut)
    def patch(self, request: Request, subscription: uuid.UUID) -> Response:
        """Change a subscription, or switch it off."""
        found = access.fetch(self.actor, Subscription, subscription, "subscription.edit")
        body = shapes.SubscriptionChange.validated(request.data, partial=True, context={"subscription": found})
        check_if_match(request, found.version)
        changed = subscriptions.update_subscription(
            actor=self.actor, subscription=found, expected_version=expected_version(request), now=database_now(), **body
        )
        return with_etag(Response(shapes.show_subscription(changed)), changed.version)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, subscription: uuid.UUID) -> Response:
        """Unsubscribe."""
        found = access.fetch(self.actor, Subscription, subscription, "subscription.delete")
        subscriptions.delete_subscription(actor=self.actor, subscription=found, now=database_now())
        return Response(status=204)


class SubscriptionTestView(ApiView):
    """Does it arrive?"""

    @extend_schema(request=None, responses={202: shapes.DeliveryOut})
    def post(self, request: Request, subscription: uuid.UUID) -> Response:
        """Send a test message; the delivery shows its result."""
        found = access.fetch(self.actor, Subscription, subscription, "subscription.edit")
        delivery = subscriptions.send_test(actor=self.actor, subscription=found, now=database_now())
        return Response(shapes.show_deliveries([delivery])[0], status=202)


class DeliveriesView(ApiView):
    """How your notifications fared."""

    @extend_schema(
        parameters=[
            OpenApiParameter("subscription", OpenApiTypes.UUID),
            OpenApiParameter("state", str, enum=[str(state) for state in DeliveryState]),
            LIMIT,
            CURSOR,
        ],
        responses=shapes.DeliveryPageOut,
    )
    def get(self, request: Request) -> Response:
        """List your deliveries, newest first."""
        known_query(request, ("subscription", "state"))
        rows = access.visible(self.actor, Delivery)
        if subscription := request.query_params.get("subscription"):
            rows = rows.filter(subscription_id=_uuid(subscription, "subscription"))
        if state := request.query_params.get("state"):
            rows = rows.filter(state=state)
        return page(request, rows, order=("-id",), serialize=shapes.show_deliveries)


class DeliveryRetryView(ApiView):
    """Another try."""

    @extend_schema(request=None, responses={202: shapes.DeliveryOut})
    def post(self, request: Request, delivery: uuid.UUID) -> Response:
        """Resend a failed delivery."""
        found = access.fetch(self.actor, Delivery, delivery, "delivery.retry", related=("subscription",))
        retried = subscriptions.retry_delivery(actor=self.actor, delivery=found, now=database_now())
        return Response(shapes.show_deliveries([retried])[0], status=202)


def _channel(actor: Actor, request: Request) -> FeedChannel:
    """What the query asks for: a job, a tenant, or everything that the actor sees."""
    for kind in ("job", "tenant"):
        text = request.query_params.get(kind, "")
        if text:
            return FeedChannel(kind, registry.resolve_channel(actor, kind, text))
    return FeedChannel("user", actor.user_id or uuid.UUID(int=0))


def _filtered_audit(actor: Actor, request: Request, rows: QuerySet[AuditEvent]) -> QuerySet[AuditEvent]:
    query = request.query_params
    conditions: dict[str, Any] = {name: query[name] for name in ("verb", "target_kind", "target_id") if query.get(name)}
    if query.get("tenant"):
        conditions["tenant_id"] = registry.resolve_channel(actor, "tenant", query["tenant"])
    if query.get("actor"):
        conditions["actor_id"] = _uuid(query["actor"], "actor")
    if query.get("since"):
        conditions["at__gte"] = read_utc(query["since"], name="since")
    if query.get("until"):
        conditions["at__lt"] = read_utc(query["until"], name="until")
    return rows.filter(**conditions)


def _seq(text: str) -> int | None:
    """An event's number; None for none."""
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= INTEGER_MAX):
        message = Text("after must be the `seq` of an event, a whole number.", "after 须为某个事件的 `seq`，即整数。")
        raise InvalidInput(message, fields=[FieldError("/after", "invalid", message)])
    return int(text)


def _uuid(text: str, name: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError:
        message = Text(f"{name} must be an id.", f"{name} 须为 ID。")
        raise InvalidInput(message, fields=[FieldError(f"/{name}", "invalid", message)]) from None
