"""What this server is, and the description of its API. All of it is public: it tells nothing about anybody."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from kernel.clock import database_now
from kernel.config import current
from webapi.description import as_json, describe
from webapi.fields import utc_text
from webapi.views import ApiView, Public

SOURCE_VERSION = "0.1.0"  # Of a server that runs from its source tree without being installed.


class InfoOut(serializers.Serializer[Any]):
    """What a server says about itself."""

    name = serializers.CharField()
    version = serializers.CharField()
    time_zone = serializers.CharField()
    now = serializers.DateTimeField()
    profile = serializers.CharField()
    url = serializers.CharField()


class InfoView(ApiView):
    """Name, version and clock of this server."""

    authentication_classes = ()
    permission_classes = (Public,)

    @extend_schema(responses=InfoOut)
    def get(self, request: Request) -> Response:
        config = current()
        answer = {
            "name": "berth",
            "version": server_version(),
            "time_zone": "UTC",
            "now": utc_text(database_now()),
            "profile": config.profile,
            "url": config.url,
        }
        return Response(answer)


class DescriptionView(ApiView):
    """The description of the API (OpenAPI 3.1)."""

    authentication_classes = ()
    permission_classes = (Public,)

    @extend_schema(responses={(200, "application/json"): dict})
    def get(self, request: Request) -> HttpResponse:
        return HttpResponse(as_json(describe()), content_type="application/json")


class DocsView(ApiView):
    """The description as a page to read and try; its scripts are served by this host."""

    authentication_classes = ()
    permission_classes = (Public,)

    @extend_schema(exclude=True)
    def get(self, request: Request) -> HttpResponse:
        return HttpResponse(b"", content_type="text/html; charset=utf-8")


def server_version() -> str:
    """The installed version; the source tree's when it runs without being installed."""
    try:
        return version("berth-server")
    except PackageNotFoundError:
        return SOURCE_VERSION
