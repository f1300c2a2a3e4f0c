"""Every failure leaves as one shape: `application/problem+json` (RFC 9457), whoever raised it.

Inside Django REST framework `handle_exception` is the exception handler; outside of it (unknown paths, broken requests,
faults in middleware) the `handler*` views and the request envelope make the same answer. A fault of ours is logged with its
traceback and answered with its request id: no answer ever holds a stack trace.
"""

from __future__ import annotations

import contextlib
import errno
import json
import uuid
from typing import Any

import structlog
from django.core import exceptions as django_errors
from django.core.signals import got_request_exception
from django.db import DatabaseError, InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.http.multipartparser import MultiPartParserError
from django.urls import Resolver404, resolve
from psycopg_pool import PoolTimeout
from rest_framework import exceptions as drf_errors
from rest_framework.response import Response

from kernel import errors
from webapi import errors as web_errors
from webapi.pointers import flatten
from webapi.units import sqlstate_of
from webapi.wording import Language, language_of, title_of

CONTENT_TYPE = "application/problem+json"
REFERENCE_PATH = "/docs/errors"  # `type` is this path and the code: stable, also where nobody serves the page.
DATABASE_RETRY_SECONDS = 1  # Busy is over with the writer's transaction, which lasts milliseconds.
# SQLSTATE, and the words of SQLite, which has none.
NO_ROOM = frozenset({"53100"})
NO_ROOM_WORDS = ("no space left on device", "database or disk is full")
READ_ONLY = frozenset({"25006"})
CUT_OFF = frozenset({"08", "57"})  # Classes: connection exception, operator intervention (a shutdown, a crash).
IDS_FROM = 4  # Of the words of /api/v1/jobs/ID: where an id may stand first.
PATH_WORDS_MAX = 12
STATEMENT_ENDED = "57014"  # Of the same class, but of one statement alone: its time was over.
NO_HANDLES = frozenset({errno.EMFILE, errno.ENFILE})

log = structlog.get_logger("webapi")


def handle_exception(error: Exception, context: dict[str, Any]) -> Response:
    """Turn whatever a view raised into a problem; the exception handler of Django REST framework."""
    request = context.get("request")
    django_request: HttpRequest | None = getattr(request, "_request", request)
    failure = as_failure(error)
    if isinstance(failure, web_errors.InternalError):
        report_fault(error, django_request)
    response = Response(problem(failure, django_request), status=failure.status, content_type=CONTENT_TYPE)
    for name, value in headers_of(failure, error).items():
        response[name] = value
    return response


def problem_response(failure: errors.BerthError, request: HttpRequest | None, *, cause: Exception | None = None) -> HttpResponse:
    """The same answer outside Django REST framework: from middleware, plain views and error handlers."""
    body = json.dumps(problem(failure, request), ensure_ascii=False).encode()
    response = HttpResponse(body, status=failure.status, content_type=CONTENT_TYPE)
    for name, value in headers_of(failure, cause).items():
        response[name] = value
    return response


def problem(failure: errors.BerthError, request: HttpRequest | None) -> dict[str, Any]:
    """The body of one problem. `hint` and `fields` are present only where there is something to say."""
    language = language_of(request.META.get("HTTP_ACCEPT_LANGUAGE", "")) if request is not None else Language.ENGLISH
    return problem_body(failure, request_id=getattr(request, "request_id", ""), language=language)


def problem_body(failure: errors.BerthError, *, request_id: str, language: Language = Language.ENGLISH) -> dict[str, Any]:
    """The body of one problem where there is no Django request, such as at the ASGI layer."""
    body: dict[str, Any] = {
        "type": f"{REFERENCE_PATH}#{failure.code}",
        "title": title_of(failure, language),
        "status": failure.status,
        "code": failure.code,
        "detail": failure.detail,
        "retryable": failure.retryable,
        "request_id": request_id,
    }
    if failure.hint:
        body["hint"] = failure.hint
    if failure.fields:
        body["fields"] = [field.as_dict() for field in failure.fields]
    if isinstance(failure, errors.PlanChanged):
        body["plan"] = failure.plan
    return body


def headers_of(failure: errors.BerthError, cause: Exception | None = None) -> dict[str, str]:
    """Headers that belong to a failure: when to retry, how to sign in, which methods exist."""
    headers = {"Content-Language": "en"}
    if failure.retry_after_seconds is not None:
        headers["Retry-After"] = str(max(1, failure.retry_after_seconds))
    if failure.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="berth"'
    allowed = getattr(cause, "allowed_methods", None)
    if allowed:
        headers["Allow"] = ", ".join(allowed)
    return headers


def as_failure(error: Exception) -> errors.BerthError:
    """The expected failure that an exception stands for; InternalError when it stands for none."""
    if isinstance(error, errors.BerthError):
        return error
    if isinstance(error, drf_errors.APIException):
        return _from_drf(error)
    if isinstance(error, Http404):
        return errors.NotFound("There is no such object.")
    if isinstance(error, django_errors.RequestDataTooBig):
        return errors.TooLarge("The body is larger than Berth reads.", hint="Send less at once, or use an upload.")
    if isinstance(error, django_errors.PermissionDenied):
        return errors.Forbidden("This is not allowed.", hint="Ask a manager of the tenant.")
    if isinstance(error, (django_errors.SuspiciousOperation, django_errors.BadRequest, MultiPartParserError, UnicodeDecodeError)):
        return web_errors.BadRequest("The request breaks rules of HTTP.", hint="Check headers, host name and encoding.")
    if isinstance(error, DatabaseError | InterfaceError):
        failure = from_database(error)
        if failure is not None:
            return failure
    if isinstance(error, OSError) and error.errno in NO_HANDLES:
        return errors.Unavailable(
            "The server has as many files and connections open as it may.",
            hint="Send the same request again in a moment.",
            retry_after_seconds=DATABASE_RETRY_SECONDS,
        )
    return web_errors.InternalError(
        "Something failed inside Berth, and nothing of this request was kept.",
        hint="Send the request id to an operator; the log holds the details.",
    )


def from_database(error: Exception) -> errors.BerthError | None:
    """What a failure of the database means to whoever asked; None for one that is a fault of ours.

    A statement that failed changed nothing. A connection that broke leaves it open: it may have been the answer to COMMIT that
    was lost, and then all was done. Whoever asks is told which of the two it is.
    """
    state, words = sqlstate_of(error), str(error).lower()
    if state in NO_ROOM or any(text in words for text in NO_ROOM_WORDS):
        return errors.StorageFull(
            "The database's disk is full; nothing was changed.",
            hint="An operator has to free room; it goes on by itself then. Reading still works.",
            retry_after_seconds=60,
        )
    if state in READ_ONLY or "readonly database" in words:
        return errors.Unavailable(
            "The database takes no changes at the moment; nothing was changed.",
            hint="Send the same request again later. Reading still works.",
            retry_after_seconds=30,
        )
    if not isinstance(error, (OperationalError, InterfaceError)):
        return None
    is_certain = state == STATEMENT_ENDED or bool(state and state[:2] not in CUT_OFF)
    if is_certain or isinstance(error.__cause__, PoolTimeout) or "locked" in words:
        return errors.Unavailable(
            "The database is busy or cannot be reached.",
            hint="Nothing was changed; send the same request again.",
            retry_after_seconds=DATABASE_RETRY_SECONDS,
        )
    return errors.Unavailable(
        "The database cannot be reached.",
        hint="If this was to change something, it may have been done or not: send it again with the same Idempotency-Key.",
        retry_after_seconds=DATABASE_RETRY_SECONDS,
    )


def report_fault(error: Exception, request: HttpRequest | None) -> None:
    """Log a fault of ours with its traceback, and tell Django's signal, which test clients raise it from."""
    path = request.path[:200] if request is not None else ""
    method = request.method if request is not None else ""
    is_database = isinstance(error, DatabaseError)
    log.error("request_failed", path=path, method=method, error=type(error).__name__, is_database=is_database, exc_info=error)
    got_request_exception.send(sender=None, request=request)


def _from_drf(error: drf_errors.APIException) -> errors.BerthError:
    detail = error.detail if isinstance(error.detail, str) else "The input is not valid."
    if isinstance(error, drf_errors.ValidationError):
        return invalid_input(error.detail)
    if isinstance(error, drf_errors.ParseError):
        return web_errors.MalformedBody(detail, hint="Check the body's syntax and its Content-Type.")
    if isinstance(error, (drf_errors.AuthenticationFailed, drf_errors.NotAuthenticated)):
        return errors.NotAuthenticated(
            "This needs a valid token." if isinstance(error, drf_errors.NotAuthenticated) else detail,
            hint="Run `berth login`, or send `Authorization: Bearer <token>`.",
        )
    if isinstance(error, drf_errors.PermissionDenied):
        return errors.Forbidden(detail, hint="Ask a manager of the tenant, or use a token with the needed scope.")
    if isinstance(error, drf_errors.NotFound):
        return errors.NotFound(detail)
    if isinstance(error, drf_errors.MethodNotAllowed):
        return web_errors.MethodNotAllowed(detail, hint="The Allow header lists the methods of this path.")
    if isinstance(error, drf_errors.NotAcceptable):
        return web_errors.NotAcceptable(detail, hint="Ask for application/json.")
    if isinstance(error, drf_errors.UnsupportedMediaType):
        return web_errors.UnsupportedMediaType(detail, hint="The API description lists the content types of each operation.")
    if isinstance(error, drf_errors.Throttled):
        return errors.TooManyRequests(
            "This token sent more requests than it may.",
            hint="Wait as long as Retry-After says; ask for pages and batches instead of single objects.",
            retry_after_seconds=int(getattr(error, "wait", None) or 1),
        )
    if error.status_code >= 500:
        return errors.Unavailable(detail, retry_after_seconds=DATABASE_RETRY_SECONDS)
    return web_errors.BadRequest(detail)


def invalid_input(detail: Any) -> errors.InvalidInput:
    """One failure with all field errors of a serializer, each with its JSON pointer."""
    fields = flatten(detail)
    count = len(fields)
    words = "1 field is not valid" if count == 1 else f"{count} fields are not valid"
    first = f": {fields[0].path or '/'} - {fields[0].message}" if fields else "."
    return errors.InvalidInput(f"{words}{first}", fields=fields, hint="`fields` lists every one of them with its path.")


def handler404(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer an unknown path, or one in which something else stands where an id belongs."""
    failure: errors.BerthError | None = _not_an_id(request.path)
    if failure is None:
        failure = web_errors.RouteNotFound("No operation has this path.", hint="The API is described at /api/v1/docs.")
    return problem_response(failure, request)


def _not_an_id(path: str) -> errors.NotFound | None:
    """Told where the path would be one with an id in place of one of its words: a name, or a typing mistake in a command."""
    words = path.split("/")
    for place in range(IDS_FROM, min(len(words), PATH_WORDS_MAX)):
        above = "/".join(words[:place])
        if words[place] and _leads_somewhere("/".join([above, str(uuid.UUID(int=0)), *words[place + 1 :]])):
            hint = "An id has 32 hexadecimal digits, like 01890a5d-ac96-774b-bcce-b302099a8057."
            if _leads_somewhere(above):
                hint += f" GET {above[:200]} tells them."
            return errors.NotFound(f"There is nothing of the id {words[place][:80]!r}.", hint=hint)
    return None


def _leads_somewhere(path: str) -> bool:
    with contextlib.suppress(Resolver404):
        resolve(path)
        return True
    return False


def handler400(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer a request that Django itself refused."""
    return problem_response(as_failure(exception), request, cause=exception)


def handler403(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer PermissionDenied raised outside the API."""
    return problem_response(as_failure(exception), request, cause=exception)


def handler500(request: HttpRequest) -> HttpResponse:
    """Answer a fault outside the API. The envelope has logged it already."""
    with contextlib.suppress(Exception):
        return problem_response(as_failure(RuntimeError()), request)
    return HttpResponse(b'{"code": "internal_error", "status": 500}', status=500, content_type=CONTENT_TYPE)
