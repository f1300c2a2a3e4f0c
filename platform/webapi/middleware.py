"""The envelope around every request: an id, bounds on the body, headers that tell browsers to trust nothing."""

from __future__ import annotations

import io
import re
import time
import uuid
from collections.abc import Callable
from typing import Any

import structlog
from asgiref.sync import iscoroutinefunction, markcoroutinefunction, sync_to_async
from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

from kernel import deadlines
from kernel.errors import NotAuthenticated
from kernel.words import Text
from webapi import bounds
from webapi.asgi_auth import authenticate_cookie, authenticate_header
from webapi.body_limit import CHECKED, refuse_by_length
from webapi.errors import BadRequest, InternalError
from webapi.problems import as_failure, problem_response, report_fault

PATH_LENGTH_MAX = 200  # Of a path in the log.
REQUEST_SECONDS = 30.0  # Past it a request asks the database nothing more: its thread is wanted by others.
QUIET_PATHS = frozenset({"/livez", "/readyz", "/metrics"})  # Probes every few seconds would be most of the log.
REQUEST_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{7,63}")
HTTPS_ONLY_SECONDS = 365 * 86_400  # As browsers ask of sites that mean it. Of this host alone: of others we know nothing.
API_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
}
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}

log = structlog.get_logger("webapi")


@sync_and_async_middleware
def request_envelope(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Give a request its id and bounds, and its answer the security headers. Works in sync and async chains."""
    run = _run_async(get_response) if iscoroutinefunction(get_response) else _run(get_response)
    run.process_exception = process_exception  # type: ignore[attr-defined]  # Django looks the hook up on the callable.
    return run


RequestEnvelope = request_envelope


def process_exception(request: HttpRequest, error: Exception) -> HttpResponse:
    """Answer what a view outside the API framework raised. Faults are logged here, with their traceback."""
    failure = as_failure(error)
    if isinstance(failure, InternalError):
        report_fault(error, request)
    return problem_response(failure, request, cause=error)


def open_request(request: HttpRequest) -> None:
    """Fix the request's id: the caller's when it is harmless, else a new one. Every log line carries it."""
    offered = request.headers.get("X-Request-ID", "")
    request_id = offered if REQUEST_ID.fullmatch(offered) else uuid.uuid4().hex
    request.request_id = request_id  # type: ignore[attr-defined]  # Read back by actor_of and problem.
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(request_id=request_id)
    agent = request.META.get("HTTP_USER_AGENT", "")
    request.META["HTTP_USER_AGENT"] = "".join(sign for sign in agent[: bounds.USER_AGENT_LENGTH] if sign.isprintable())
    _declare_length(request)


def refuse(request: HttpRequest) -> HttpResponse | None:
    """Refuse requests that no view should have to look at, before anything is read or looked up."""
    if request.path not in QUIET_PATHS:  # Probes come by an address that need not be listed.
        try:
            request.get_host()
        except DisallowedHost:
            return problem_response(
                BadRequest(
                    Text("This server does not answer to the host name of this request.", "此服务器不应答该请求的主机名。"),
                    hint=Text(
                        "Use the address in BERTH_PUBLIC_URL; an operator adds others to BERTH_ALLOWED_HOSTS.",
                        "请使用 BERTH_PUBLIC_URL 中的地址；运维人员可在 BERTH_ALLOWED_HOSTS 中添加其他主机名。",
                    ),
                ),
                request,
            )
    if "\0" in request.path or "%00" in request.META.get("QUERY_STRING", ""):
        return problem_response(BadRequest(Text("The address contains a NUL character.", "地址含有 NUL 字符。")), request)
    return None


def refuse_body(request: HttpRequest) -> HttpResponse | None:
    """Refuse a body by its declared length where `BodyLimit` has not bounded it already (servers without ASGI, tests)."""
    if CHECKED in getattr(request, "scope", {}):
        return None
    length, content_type = request.META.get("CONTENT_LENGTH") or "", request.META.get("CONTENT_TYPE") or ""
    failure = refuse_by_length(str(length), content_type, lambda: _is_known(request))
    return problem_response(failure, request) if failure is not None else None


def close_request(request: HttpRequest, response: HttpResponseBase, *, begin: float) -> HttpResponseBase:
    """Put the id and the security headers on an answer, and log it. A page's own policy stays (the API browser has one)."""
    response["X-Request-ID"] = request.request_id  # type: ignore[attr-defined]  # Set by open_request.
    for name, value in {**HEADERS, **API_HEADERS}.items():
        response.headers.setdefault(name, value)
    if not response.streaming and not response.has_header("Content-Length"):
        response.headers["Content-Length"] = str(len(response.content))  # type: ignore[attr-defined]  # Only what streams has none.
    if settings.IS_HTTPS:
        response.headers.setdefault("Strict-Transport-Security", f"max-age={HTTPS_ONLY_SECONDS}")
    level = log.debug if request.path in QUIET_PATHS else log.info
    level(
        "request",
        method=request.method,
        path=request.path[:PATH_LENGTH_MAX],  # Without the query: whatever people put there, it is in no log.
        status=response.status_code,
        milliseconds=round((time.monotonic() - begin) * 1000, 1),
    )
    return response


def _run(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    def run(request: HttpRequest) -> HttpResponseBase:
        begin = time.monotonic()
        open_request(request)
        with deadlines.within(REQUEST_SECONDS):
            refused = refuse(request) or refuse_body(request)
            return close_request(request, refused if refused is not None else get_response(request), begin=begin)

    return run


def _run_async(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    async def run(request: HttpRequest) -> HttpResponseBase:
        begin = time.monotonic()
        open_request(request)
        with deadlines.within(REQUEST_SECONDS):
            refused = refuse(request)
            if refused is None and CHECKED not in getattr(request, "scope", {}):
                refused = await sync_to_async(refuse_body)(request)
            return close_request(request, refused if refused is not None else await get_response(request), begin=begin)

    return markcoroutinefunction(run)


def _is_known(request: HttpRequest) -> bool:
    try:
        header = request.META.get("HTTP_AUTHORIZATION")
        actor = authenticate_cookie(request.META.get("HTTP_COOKIE")) if header is None else authenticate_header(header)
        return actor is not None
    except NotAuthenticated:
        return False


def _declare_length(request: HttpRequest) -> None:
    """Give a chunked body the length it turned out to have: the API framework takes a body without one for empty."""
    stream = getattr(request, "_stream", None)
    if request.META.get("CONTENT_LENGTH") or "scope" not in request.__dict__ or stream is None or not stream.seekable():
        return
    size = stream.seek(0, io.SEEK_END)
    stream.seek(0)
    if size:
        request.META["CONTENT_LENGTH"] = str(size)
