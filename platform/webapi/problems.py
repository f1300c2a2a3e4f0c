"""Every failure leaves as one shape: `application/problem+json` (RFC 9457), wherever it was raised.

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
from kernel.units import sqlstate_of
from kernel.words import Language, Text, as_text
from webapi import errors as web_errors
from webapi.pointers import flatten
from webapi.refusals import words_of
from webapi.wording import language_of

CONTENT_TYPE = "application/problem+json"
REFERENCE_PATH = "/docs/errors"  # `type` is this path and the code: stable, also where the page is not served.
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
    for name, value in headers_of(failure, error, language=_language(django_request)).items():
        response[name] = value
    return response


def problem_response(failure: errors.BerthError, request: HttpRequest | None, *, cause: Exception | None = None) -> HttpResponse:
    """The same answer outside Django REST framework: from middleware, plain views and error handlers."""
    body = json.dumps(problem(failure, request), ensure_ascii=False).encode()
    response = HttpResponse(body, status=failure.status, content_type=CONTENT_TYPE)
    for name, value in headers_of(failure, cause, language=_language(request)).items():
        response[name] = value
    return response


def problem(failure: errors.BerthError, request: HttpRequest | None) -> dict[str, Any]:
    """The body of one problem. `hint` and `fields` are present only where there is something to say."""
    return problem_body(failure, request_id=getattr(request, "request_id", ""), language=_language(request))


def _language(request: HttpRequest | None) -> Language:
    return language_of(request.META.get("HTTP_ACCEPT_LANGUAGE", "")) if request is not None else Language.ENGLISH


def problem_body(failure: errors.BerthError, *, request_id: str, language: Language = Language.ENGLISH) -> dict[str, Any]:
    """The body of one problem where there is no Django request, such as at the ASGI layer."""
    body: dict[str, Any] = {
        "type": f"{REFERENCE_PATH}#{failure.code}",
        "title": failure.title.in_language(language),
        "status": failure.status,
        "code": failure.code,
        "detail": failure.detail_text.in_language(language),
        "retryable": failure.retryable,
        "request_id": request_id,
    }
    if hint := failure.hint_text.in_language(language):
        body["hint"] = hint
    if failure.fields:
        body["fields"] = [field.as_dict(language) for field in failure.fields]
    if isinstance(failure, errors.PlanChanged):
        body["plan"] = failure.plan
    return body


def headers_of(
    failure: errors.BerthError, cause: Exception | None = None, *, language: Language = Language.ENGLISH
) -> dict[str, str]:
    """Headers that belong to a failure: when to retry, how to sign in, which methods exist; `language`: of its reader."""
    is_translated = failure.detail_text.in_language(language) != failure.detail
    headers = {"Content-Language": language.value if is_translated else Language.ENGLISH.value}
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
        return errors.NotFound(Text("There is no such object.", "没有这个对象。"))
    if isinstance(error, django_errors.RequestDataTooBig):
        return errors.TooLarge(
            Text("The body is larger than Berth reads.", "请求体过大。"),
            hint=Text("Send less at once, or use an upload.", "请减少一次发送的内容，或使用上传。"),
        )
    if isinstance(error, django_errors.PermissionDenied):
        return errors.Forbidden(
            Text("This is not allowed.", "不允许此操作。"), hint=Text("Ask a manager of the tenant.", "请联系租户管理员。")
        )
    if isinstance(error, (django_errors.SuspiciousOperation, django_errors.BadRequest, MultiPartParserError, UnicodeDecodeError)):
        return web_errors.BadRequest(
            Text("The request breaks rules of HTTP.", "请求不符合 HTTP 规则。"),
            hint=Text("Check headers, host name and encoding.", "请检查请求头、主机名与编码。"),
        )
    if isinstance(error, DatabaseError | InterfaceError):
        failure = from_database(error)
        if failure is not None:
            return failure
    if isinstance(error, OSError) and error.errno in NO_HANDLES:
        return errors.Unavailable(
            Text("The server has as many files and connections open as it may.", "服务器打开的文件和连接已达上限。"),
            hint=Text("Send the same request again in a moment.", "请稍后重新发送同一请求。"),
            retry_after_seconds=DATABASE_RETRY_SECONDS,
        )
    return web_errors.InternalError(
        Text("Something failed inside Berth, and nothing of this request was kept.", "Berth 内部出错，此请求未保存任何内容。"),
        hint=Text(
            "Send the request id to an operator; the log holds the details.", "请将请求 ID 发给运维人员；日志中有详细信息。"
        ),
    )


def from_database(error: Exception) -> errors.BerthError | None:
    """What a failure of the database means to the caller; None for a fault of ours.

    A statement that failed changed nothing. A connection that broke leaves it open: it may have been the answer to COMMIT that
    was lost, and then all was done. The caller is told which of the two it is.
    """
    state, words = sqlstate_of(error), str(error).lower()
    if state in NO_ROOM or any(text in words for text in NO_ROOM_WORDS):
        return errors.StorageFull(
            Text("The database's disk is full; nothing was changed.", "数据库磁盘已满；未做任何修改。"),
            hint=Text(
                "An operator has to free room; it goes on by itself then. Reading still works.",
                "需由运维人员腾出空间，之后自动恢复。仍可读取。",
            ),
            retry_after_seconds=60,
        )
    if state in READ_ONLY or "readonly database" in words:
        return errors.Unavailable(
            Text("The database takes no changes at the moment; nothing was changed.", "数据库目前不接受修改；未做任何修改。"),
            hint=Text("Send the same request again later. Reading still works.", "请稍后重新发送同一请求。仍可读取。"),
            retry_after_seconds=30,
        )
    if not isinstance(error, (OperationalError, InterfaceError)):
        return None
    is_certain = state == STATEMENT_ENDED or bool(state and state[:2] not in CUT_OFF)
    if is_certain or isinstance(error.__cause__, PoolTimeout) or "locked" in words:
        return errors.Unavailable(
            Text("The database is busy or cannot be reached.", "数据库繁忙或无法连接。"),
            hint=Text("Nothing was changed; send the same request again.", "未做任何修改；请重新发送同一请求。"),
            retry_after_seconds=DATABASE_RETRY_SECONDS,
        )
    return errors.Unavailable(
        Text("The database cannot be reached.", "无法连接数据库。"),
        hint=Text(
            "If this was to change something, it may have been done or not: send it again with the same Idempotency-Key.",
            "如为修改操作，可能已完成，也可能未完成：请用同一 Idempotency-Key 重新发送。",
        ),
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
    detail = words_of(error.detail) if isinstance(error.detail, str) else Text("The input is not valid.", "输入无效。")
    if isinstance(error, drf_errors.ValidationError):
        return invalid_input(error.detail)
    if isinstance(error, drf_errors.ParseError):
        return web_errors.MalformedBody(
            detail, hint=Text("Check the body's syntax and its Content-Type.", "请检查请求体的语法及其 Content-Type。")
        )
    if isinstance(error, (drf_errors.AuthenticationFailed, drf_errors.NotAuthenticated)):
        return errors.NotAuthenticated(
            Text("This needs a valid token.", "此操作需要有效的令牌。")
            if isinstance(error, drf_errors.NotAuthenticated)
            else detail,
            hint=Text(
                "Run `berth login`, or send `Authorization: Bearer <token>`.",
                "请运行 `berth login`，或发送 `Authorization: Bearer <token>`。",
            ),
        )
    if isinstance(error, drf_errors.PermissionDenied):
        return errors.Forbidden(
            detail,
            hint=Text(
                "Ask a manager of the tenant, or use a token with the needed scope.",
                "请联系租户管理员，或使用具有所需权限范围的令牌。",
            ),
        )
    if isinstance(error, drf_errors.NotFound):
        return errors.NotFound(detail)
    if isinstance(error, drf_errors.MethodNotAllowed):
        return web_errors.MethodNotAllowed(
            detail, hint=Text("The Allow header lists the methods of this path.", "Allow 响应头列出此路径支持的方法。")
        )
    if isinstance(error, drf_errors.NotAcceptable):
        return web_errors.NotAcceptable(detail, hint=Text("Ask for application/json.", "请求 application/json。"))
    if isinstance(error, drf_errors.UnsupportedMediaType):
        return web_errors.UnsupportedMediaType(
            detail,
            hint=Text("The API description lists the content types of each operation.", "API 说明列出每个操作的内容类型。"),
        )
    if isinstance(error, drf_errors.Throttled):
        return errors.TooManyRequests(
            Text("This token sent more requests than it may.", "此令牌发送的请求过多。"),
            hint=Text(
                "Wait as long as Retry-After says; ask for pages and batches instead of single objects.",
                "请等待 Retry-After 所示的时间；请使用分页与批量，而非逐个请求。",
            ),
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
    first_zh = f"：{fields[0].path or '/'} - {as_text(fields[0].message).zh}" if fields else "。"
    return errors.InvalidInput(
        Text(f"{words}{first}", f"{count} 个字段无效{first_zh}"),
        fields=fields,
        hint=Text("`fields` lists every one of them with its path.", "`fields` 列出每个字段及其路径。"),
    )


def handler404(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer an unknown path, or one in which something else stands where an id belongs."""
    failure: errors.BerthError | None = _not_an_id(request.path)
    if failure is None:
        failure = web_errors.RouteNotFound(
            Text("No operation has this path.", "没有操作使用此路径。"),
            hint=Text("The API is described at /api/v1/docs.", "API 说明见 /api/v1/docs。"),
        )
    return problem_response(failure, request)


_ID_FORM = Text(
    "An id has 32 hexadecimal digits, like 01890a5d-ac96-774b-bcce-b302099a8057.",
    "ID 有 32 位十六进制数字，如 01890a5d-ac96-774b-bcce-b302099a8057。",
)


def _not_an_id(path: str) -> errors.NotFound | None:
    """Told where the path would be one with an id in place of one of its words: a name, or a typing mistake in a command."""
    words = path.split("/")
    for place in range(IDS_FROM, min(len(words), PATH_WORDS_MAX)):
        above = "/".join(words[:place])
        if words[place] and _leads_somewhere("/".join([above, str(uuid.UUID(int=0)), *words[place + 1 :]])):
            hint = _ID_FORM
            if _leads_somewhere(above):
                hint = Text(f"{hint.en} GET {above[:200]} tells them.", f"{hint.zh}GET {above[:200]} 可列出。")
            return errors.NotFound(
                Text(f"There is nothing of the id {words[place][:80]!r}.", f"没有 ID 为 {words[place][:80]!r} 的对象。"),
                hint=hint,
            )
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
