"""Bookings of GPUs over HTTP."""

from __future__ import annotations

from collections.abc import Sequence

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from clusters.selectors import PoolFacts, list_pools
from kernel.clock import database_now, utc_text
from kernel.errors import FieldError, InvalidInput
from kernel.words import Text
from tenants.capacity import selectors as queue_selectors
from tenants.capacity.api import quota_bodies as bodies
from tenants.capacity.api.pools import find_pool, pool_ref
from tenants.capacity.lifecycle import BOOKING_STATES
from tenants.capacity.models import Booking
from tenants.capacity.services.bookings import NewBooking, book, cancel_booking
from tenants.identity import selectors
from tenants.identity.api.shapes import Shown, tenant_ref, user_ref
from tenants.portal.features import tenants_without
from webapi.access import fetch, visible
from webapi.actors import facts_of
from webapi.idempotency import idempotent
from webapi.pagination import page
from webapi.schema import page_of
from webapi.views import ApiView, known_query

TENANT = OpenApiParameter("tenant", str, description="Slug, id or name of a tenant.")
STATE = OpenApiParameter("state", str, enum=BOOKING_STATES, description="Only bookings in this state.")
RELATED = ("tenant", "queue", "created_by")


class BookingsView(ApiView):
    """GPUs of a pool for a tenant and a window."""

    feature = "bookings"

    @extend_schema(parameters=[TENANT, STATE], responses=page_of(bodies.BookingOut))
    def get(self, request: Request) -> Response:
        """List bookings of tenants that you can see, newest first."""
        known_query(request, ("tenant", "state"))
        rows = visible(self.actor, Booking).select_related(*RELATED)
        off = tenants_without(facts_of(request), self.feature)
        if off:
            rows = rows.exclude(tenant_id__in=off)
        if request.query_params.get("tenant"):
            rows = rows.filter(tenant=selectors.get_tenant(self.actor, request.query_params["tenant"]))
        if state := request.query_params.get("state"):
            if state not in BOOKING_STATES:
                message = Text(f"state is one of {', '.join(BOOKING_STATES)}.", f"state 可选：{', '.join(BOOKING_STATES)}。")
                raise InvalidInput(message, fields=[FieldError("/state", "invalid", message)])
            rows = rows.filter(state=state)
        pools = list_pools()
        return page(request, rows, order=("-id",), serialize=lambda rows: show_bookings(rows, pools))

    @extend_schema(request=bodies.BookingIn, responses={201: bodies.BookingOut})
    @idempotent
    def post(self, request: Request) -> Response:
        """Book GPUs for a tenant that you manage. In the window no other tenant gets them.

        Refused (409) if they are booked already, with those bookings. Released at the end, or if no job uses them in time.
        """
        body = bodies.BookingIn.validated(request.data)
        tenant = selectors.get_tenant(self.actor, body["tenant"])
        queue = queue_selectors.resolve_queue(self.actor, tenant.pk, body["queue"])
        pools = list_pools()
        wanted = NewBooking(
            queue_id=queue.id,
            pool_id=find_pool(body["pool"], pools, path="/pool").id,
            gpu_millis=body["gpu_millis"],
            starts_at=body["starts_at"],
            ends_at=body["ends_at"],
            comment=body["comment"],
        )
        made = book(actor=self.actor, tenant_id=tenant.pk, wanted=wanted, now=database_now())
        row = Booking.objects.select_related(*RELATED).get(id=made.pk)
        return Response(show_bookings([row], pools)[0], status=201)


class BookingView(ApiView):
    """One booking."""

    feature = "bookings"

    @extend_schema(responses=bodies.BookingOut)
    def get(self, request: Request, booking_id: str) -> Response:
        """Get a booking, with its window and its outcome."""
        booking = fetch(self.actor, Booking, booking_id, "booking.read", related=RELATED)
        self.check_feature(booking.tenant_id)
        return Response(show_bookings([booking], list_pools())[0])

    @extend_schema(responses={200: bodies.BookingOut})
    def delete(self, request: Request, booking_id: str) -> Response:
        """Cancel a booking. It stays in the list; jobs that run on it continue as ordinary jobs."""
        booking = fetch(self.actor, Booking, booking_id, "booking.cancel", related=RELATED)
        self.check_feature(booking.tenant_id)
        cancel_booking(actor=self.actor, booking=booking, now=database_now())
        return Response(show_bookings([booking], list_pools())[0])


def show_bookings(rows: Sequence[Booking], pools: Sequence[PoolFacts]) -> list[Shown]:
    """Rows come with their tenant, queue and creator."""
    return [
        {
            "id": str(row.pk),
            "state": row.state,
            "tenant": tenant_ref(row.tenant),
            "queue": {"id": str(row.queue_id), "name": row.queue.name},
            "pool": pool_ref(row.pool_id, pools),
            "gpu_millis": row.gpu_millis,
            "starts_at": utc_text(row.starts_at),
            "ends_at": utc_text(row.ends_at),
            "comment": row.comment,
            "created_at": utc_text(row.created_at),
            "created_by": user_ref(row.created_by),
            "claimed_at": utc_text(row.claimed_at),
            "released_at": utc_text(row.released_at),
        }
        for row in rows
    ]
