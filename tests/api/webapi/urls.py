"""Operations that exist only in tests: one per convention of the HTTP layer."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

from django.db import OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import include, path
from rest_framework import serializers
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request
from rest_framework.response import Response

from kernel.actor import Actor
from kernel.clock import database_now
from kernel.errors import Conflict, NotAuthenticated
from webapi import health
from webapi.etags import check_if_match, is_unchanged, with_etag
from webapi.idempotency import idempotent
from webapi.models import IdempotencyKey
from webapi.pagination import page
from webapi.parsers import LimitedJSONParser, UploadChunk
from webapi.serializers import StrictSerializer
from webapi.sse import Event, event_stream, last_event_id
from webapi.views import ApiView, Public

ALICE = Actor(user_id=uuid.UUID(int=1), name="alice", token_id=uuid.UUID(int=11))
BOB = Actor(user_id=uuid.UUID(int=2), name="bob", token_id=uuid.UUID(int=12))
CREDENTIALS = {"alice-token": ALICE, "bob-token": BOB}


def actor_by_token(token: str) -> Actor:
    try:
        return CREDENTIALS[token]
    except KeyError:
        raise NotAuthenticated("The token is not valid.") from None


class ByTable(BaseAuthentication):
    def authenticate(self, request: Request) -> tuple[Any, Actor] | None:
        header = request.META.get("HTTP_AUTHORIZATION")
        if header is None:
            return None
        actor = actor_by_token(header.removeprefix("Bearer "))
        return actor, actor


class View(ApiView):
    authentication_classes = (ByTable,)


class RoleIn(StrictSerializer):
    replicas = serializers.IntegerField(min_value=1)


class JobIn(StrictSerializer):
    name = serializers.CharField(max_length=20)
    roles = RoleIn(many=True, required=False)


class Echo(View):
    parser_classes = (LimitedJSONParser, UploadChunk)

    def get(self, request: Request) -> Response:
        return Response({"actor": self.actor.name, "request_id": self.actor.request_id})

    def post(self, request: Request) -> Response:
        return Response({"got": request.data if not isinstance(request.data, bytes) else len(request.data)})


class Strict(View):
    def post(self, request: Request) -> Response:
        return Response(JobIn.validated(request.data))

    def put(self, request: Request) -> Response:
        return Response(RoleIn.validated_list(request.data, length_max=3), status=200)


class Fails(View):
    permission_classes = (Public,)

    def get(self, request: Request, how: str) -> Response:
        if how == "conflict":
            raise Conflict("Job a is already over.", hint="Submit it again.")
        if how == "missing":
            raise Http404
        if how == "busy":
            raise OperationalError("database is locked")
        raise ZeroDivisionError("the secret detail")


class Versioned(View):
    def get(self, request: Request) -> Response:
        if is_unchanged(request, 3):
            return with_etag(Response(status=304), 3)
        return with_etag(Response({"version": 3}), 3)

    def patch(self, request: Request) -> Response:
        check_if_match(request, 3)
        return with_etag(Response({"version": 4}), 4)


class Effects(View):
    """Each call makes a row, so that a test can count effects."""

    @idempotent
    def post(self, request: Request) -> Response:
        now = database_now()
        effect = IdempotencyKey.objects.create(
            actor_id=uuid.UUID(int=99),
            key=f"effect-{uuid.uuid4()}",
            operation="effect",
            body_digest="",
            created_at=now,
            expires_at=now + timedelta(days=1),
        )
        if request.data.get("fail"):
            raise Conflict("Asked to fail.")
        response = Response({"id": str(effect.id)}, status=201)
        response["Location"] = f"/effects/{effect.id}"
        return response


class Rows(View):
    order: tuple[str, ...] = ("-created_at", "id")
    as_values = False

    def get(self, request: Request) -> Response:
        rows: Any = IdempotencyKey.objects.filter(operation="row")
        order = tuple(request.query_params.get("order", ",".join(self.order)).split(","))
        if self.as_values:
            return page(
                request,
                rows.values("id", "key", "created_at", "status"),
                order=order,
                serialize=lambda found: [{"key": row["key"]} for row in found],
            )
        return page(request, rows, order=order, serialize=lambda found: [{"key": row.key} for row in found])


class ValueRows(Rows):
    as_values = True


class Stream(View):
    def get(self, request: Request) -> HttpResponse:
        begin = int(last_event_id(request) or 0)

        async def events() -> AsyncIterator[Event]:
            for number in range(begin + 1, 4):
                yield Event({"text": "a\nb"}, id=str(number), event="line")

        return event_stream(events())


def plain_failure(request: HttpRequest) -> HttpResponse:
    raise ZeroDivisionError("the secret detail")


urlpatterns = [
    path("api/v1/echo", Echo.as_view()),
    path("api/v1/strict", Strict.as_view()),
    path("api/v1/fails/<str:how>", Fails.as_view()),
    path("api/v1/versioned", Versioned.as_view()),
    path("api/v1/effects", Effects.as_view()),
    path("api/v1/rows", Rows.as_view()),
    path("api/v1/value-rows", ValueRows.as_view()),
    path("api/v1/stream", Stream.as_view()),
    path("api/v1/plain", plain_failure),
    path("api/v1/", include("webapi.api.urls")),
    *health.urlpatterns,
]
handler400 = "webapi.problems.handler400"
handler403 = "webapi.problems.handler403"
handler404 = "webapi.problems.handler404"
handler500 = "webapi.problems.handler500"
