"""Is it alive, can it work, how much does it do: `/livez`, `/readyz` and `/metrics`, outside the API prefix.

`/livez` only says that this process answers. `/readyz` runs every registered check by name and is 503 while any fails.
Both tell nothing about tenants, and their paths are compared exactly: no object can be named into their permission.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog
from django.db import connection
from django.http import HttpResponse
from django.urls import path
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from kernel.config import current
from kernel.errors import BerthError, Forbidden, NotAuthenticated
from kernel.words import Text
from webapi import metrics
from webapi.asgi_auth import authenticate_header
from webapi.views import ApiView, Public

CHECKS_SECONDS = 2.0  # Answers are reused so long: a flood of probes costs one round of checks.
DETAIL_LENGTH_MAX = 300

Check = Callable[[], str]  # Returns a short detail; raises what is wrong.

log = structlog.get_logger("webapi")


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of a check."""

    name: str
    is_ok: bool
    detail: str
    milliseconds: int


_checks: dict[str, Check] = {}
_lock = threading.Lock()
_last: tuple[float, tuple[CheckResult, ...]] = (float("-inf"), ())


def register_check(name: str, check: Check) -> None:
    """Add a named check to `/readyz`. It returns a short detail or raises; it must answer within a second or so."""
    _checks[name] = check


def run_checks(*, fresh: bool = False) -> tuple[CheckResult, ...]:
    """All checks, each with its own answer; one that raises is not ok and does not hide the others."""
    global _last
    with _lock:
        at, results = _last
        if fresh or time.monotonic() - at > CHECKS_SECONDS or {result.name for result in results} != set(_checks):
            results = tuple(_run(name, check) for name, check in sorted(_checks.items()))
            _last = (time.monotonic(), results)
    return results


def _run(name: str, check: Check) -> CheckResult:
    begin = time.monotonic()
    try:
        is_ok, detail = True, check()
    except BerthError as error:
        is_ok, detail = False, error.detail
    except Exception as error:  # A probe reports whatever is wrong; the log has the traceback.
        log.warning("check_failed", check=name, exc_info=error)
        is_ok, detail = False, type(error).__name__
    return CheckResult(name, is_ok, detail[:DETAIL_LENGTH_MAX], int((time.monotonic() - begin) * 1000))


def check_database() -> str:
    """Ask the database for a constant."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        cursor.fetchone()
    return connection.vendor


register_check("database", check_database)


class LivezOut(serializers.Serializer[Any]):
    """An answer from a live process."""

    ok = serializers.BooleanField()


class CheckOut(serializers.Serializer[Any]):
    """Result of a check."""

    ok = serializers.BooleanField()
    detail = serializers.CharField()
    milliseconds = serializers.IntegerField()


class ReadyzOut(serializers.Serializer[Any]):
    """Results of all checks, by name."""

    ok = serializers.BooleanField()
    checks = serializers.DictField(child=CheckOut())


LIVE_EXAMPLE = OpenApiExample("Alive", value={"ok": True}, response_only=True)
READY_EXAMPLE = OpenApiExample(
    "One check fails",
    response_only=True,
    status_codes=["503"],
    value={
        "ok": False,
        "checks": {
            "broker": {"ok": False, "detail": "Redis does not answer.", "milliseconds": 250},
            "database": {"ok": True, "detail": "postgresql", "milliseconds": 1},
        },
    },
)


class LivezView(ApiView):
    """Check that this process answers."""

    authentication_classes = ()
    permission_classes = (Public,)
    throttle_classes = ()

    @extend_schema(responses=LivezOut, examples=[LIVE_EXAMPLE])
    def get(self, request: Request) -> Response:
        return Response({"ok": True})


class ReadyzView(ApiView):
    """Check that all dependencies of this process work."""

    authentication_classes = ()
    permission_classes = (Public,)
    throttle_classes = ()

    @extend_schema(responses={200: ReadyzOut, 503: ReadyzOut}, examples=[READY_EXAMPLE])
    def get(self, request: Request) -> Response:
        results = run_checks()
        is_ok = all(result.is_ok for result in results)
        checks = {
            result.name: {"ok": result.is_ok, "detail": result.detail, "milliseconds": result.milliseconds} for result in results
        }
        return Response({"ok": is_ok, "checks": checks}, status=200 if is_ok else 503)


class MetricsView(ApiView):
    """Get metrics in the text format of Prometheus, for operators and for the holder of the scrape token."""

    authentication_classes = ()
    permission_classes = (Public,)

    @extend_schema(responses={(200, "text/plain"): OpenApiTypes.STR})
    def get(self, request: Request) -> HttpResponse:
        if not _is_scrape_token(request):
            actor = authenticate_header(request.headers.get("Authorization"))
            if actor is None:
                raise NotAuthenticated(
                    Text("Metrics need a token.", "读取指标需要令牌。"),
                    hint=Text("Use an operator's token or BERTH_METRICS_TOKEN.", "请使用运维人员的令牌或 BERTH_METRICS_TOKEN。"),
                )
            if not actor.is_operator:
                raise Forbidden(
                    Text("Metrics are for operators.", "指标仅供运维人员使用。"),
                    hint=Text("Use an operator's token or BERTH_METRICS_TOKEN.", "请使用运维人员的令牌或 BERTH_METRICS_TOKEN。"),
                )
        return HttpResponse(metrics.render(), content_type="text/plain; version=0.0.4; charset=utf-8")


def _is_scrape_token(request: Any) -> bool:
    expected = current().metrics_token
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    return bool(expected) and scheme.lower() == "bearer" and secrets.compare_digest(given.encode(), expected.encode())


urlpatterns = [
    path("livez", LivezView.as_view(), name="livez"),
    path("readyz", ReadyzView.as_view(), name="readyz"),
    path("metrics", MetricsView.as_view(), name="metrics"),
]
