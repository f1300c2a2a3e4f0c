"""What this server is, and the description of its API. All of it is public: it tells nothing about any user."""

from __future__ import annotations

import functools
from typing import Any

from django.http import HttpResponse
from django.templatetags.static import static
from django.utils.html import format_html
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from kernel.clock import database_now, utc_text
from kernel.config import current
from kernel.version import VERSION
from webapi.actors import facts_of
from webapi.description import as_json, describe
from webapi.features import installed
from webapi.views import ApiView, Public

DOCS_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
DOCS_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Berth API</title>
<link rel="icon" href="{icon}">
<link rel="stylesheet" href="{style}">
</head>
<body>
<main id="api"></main>
<noscript>The description of the API is at <a href="openapi.json">openapi.json</a>.</noscript>
<script src="{bundle}"></script>
<script src="docs.js"></script>
</body>
</html>
"""
DOCS_SCRIPT = """window.ui = SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#api",
  deepLinking: true,
  displayRequestDuration: true,
  docExpansion: "none",
  filter: true,
  persistAuthorization: false,
  validatorUrl: null
});
"""


INFO_EXAMPLE = OpenApiExample(
    "A server on a workstation",
    response_only=True,
    value={
        "name": "berth",
        "version": VERSION,
        "time_zone": "UTC",
        "now": "2026-11-20T08:15:30.123456Z",
        "profile": "embedded",
        "url": "http://127.0.0.1:8620",
        "features": {"templates": True, "billing": False},
    },
)


class InfoOut(serializers.Serializer[Any]):
    """Description of the server."""

    name = serializers.CharField(help_text="Always `berth`.")
    version = serializers.CharField()
    time_zone = serializers.CharField(help_text="Time zone of all times in answers.")
    now = serializers.DateTimeField(help_text="Time of the database.")
    profile = serializers.ChoiceField(choices=["embedded", "production"])
    url = serializers.CharField(help_text="Public URL of this server.")
    features = serializers.DictField(
        child=serializers.BooleanField(), help_text="Features of the installation; GET /features lists your features."
    )


class InfoView(ApiView):
    """Get name, version and clock of this server."""

    authentication_classes = ()
    permission_classes = (Public,)

    @extend_schema(responses=InfoOut, examples=[INFO_EXAMPLE])
    def get(self, request: Request) -> Response:
        config = current()
        answer = {
            "name": "berth",
            "version": VERSION,
            "time_zone": "UTC",
            "now": utc_text(database_now()),
            "profile": config.server_profile,
            "url": config.url,
            "features": dict(installed(facts_of(request))),
        }
        return Response(answer)


class DescriptionView(ApiView):
    """Get this description (OpenAPI 3.1)."""

    authentication_classes = ()
    permission_classes = (Public,)

    @extend_schema(responses={200: OpenApiTypes.OBJECT})
    def get(self, request: Request) -> HttpResponse:
        return HttpResponse(_description(), content_type="application/json")


class DocsView(ApiView):
    """Get the description as a page to read and try out; its scripts come from this host."""

    authentication_classes = ()
    permission_classes = (Public,)

    @extend_schema(responses={(200, "text/html"): OpenApiTypes.STR})
    def get(self, request: Request) -> HttpResponse:
        folder = "drf_spectacular_sidecar/swagger-ui-dist"
        page = format_html(
            DOCS_PAGE,
            icon=static(f"{folder}/favicon-32x32.png"),
            style=static(f"{folder}/swagger-ui.css"),
            bundle=static(f"{folder}/swagger-ui-bundle.js"),
        )
        response = HttpResponse(page, content_type="text/html; charset=utf-8")
        response["Content-Security-Policy"] = DOCS_POLICY
        return response


class DocsScriptView(ApiView):
    """Get the script of the description's page; a separate file, because the page allows no inline script."""

    authentication_classes = ()
    permission_classes = (Public,)

    @extend_schema(responses={(200, "text/javascript"): OpenApiTypes.STR})
    def get(self, request: Request) -> HttpResponse:
        return HttpResponse(DOCS_SCRIPT, content_type="text/javascript; charset=utf-8")


@functools.cache
def _description() -> bytes:
    return as_json(describe()).encode()
