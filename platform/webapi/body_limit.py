"""Bodies are bounded before they are read: 1 MiB for any caller, more only with a valid token.

Django collects a body before any of its own code runs, so the bound sits around the whole ASGI application (`BodyLimit`).
It counts what arrives, declared or not (chunked bodies declare nothing), and asks for the token exactly when a body goes on
past the first MiB. A refused body is not read further and the connection is closed.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from django.db import DatabaseError, InterfaceError

from kernel import limits
from kernel.errors import BerthError, NotAuthenticated, TooLarge
from kernel.words import Text
from webapi import bounds
from webapi.asgi_auth import authenticate_scope, authenticate_scope_cookie, header_of
from webapi.errors import BadRequest, InternalError, RequestTimeout
from webapi.problems import CONTENT_TYPE, as_failure, headers_of, problem_body
from webapi.wording import language_of

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

IDLE_SECONDS = 30.0  # Between two pieces of a body; a stalled sender holds a connection no longer.
BODY_SECONDS = 300.0  # For a whole body: 32 MiB at 1 Mbit/s.
CHECKED = "berth.body_is_bounded"  # In the scope: the request envelope need not look again.


def bytes_max(content_type: str) -> int:
    """The most that Berth reads of one body from an authenticated caller."""
    if content_type.partition(";")[0].strip().lower() == "application/offset+octet-stream":
        return limits.UPLOAD_CHUNK_BYTES
    return bounds.BODY_BYTES


def too_large(bytes_limit: int) -> TooLarge:
    """The refusal of a body that is larger than it may be."""
    return TooLarge(
        Text(f"The body is larger than {bytes_limit} bytes.", f"请求体超过 {bytes_limit} 字节。"),
        hint=Text(
            "Send less at once; files go through POST /api/v1/uploads in pieces.",
            "请减少一次发送的内容；文件请分块通过 POST /api/v1/uploads 上传。",
        ),
    )


def needs_token() -> NotAuthenticated:
    """The refusal of a large body from an unknown caller."""
    return NotAuthenticated(
        Text(
            f"A body of more than {bounds.BODY_BYTES_BEFORE_AUTH} bytes needs a valid token.",
            f"超过 {bounds.BODY_BYTES_BEFORE_AUTH} 字节的请求体需要有效的令牌。",
        ),
        hint=Text(
            "Run `berth login`, or send `Authorization: Bearer <token>`.",
            "请运行 `berth login`，或发送 `Authorization: Bearer <token>`。",
        ),
    )


def refuse_by_length(length: str, content_type: str, is_known: Callable[[], bool]) -> BerthError | None:
    """Judge a declared length: the refusal, or None. `is_known` is asked only if the answer depends on it."""
    if not length:
        return None
    if not (length.isascii() and length.isdecimal()):
        return BadRequest(Text("Content-Length is not a number.", "Content-Length 不是数字。"))
    size = int(length[:20])
    if size > bytes_max(content_type):
        return too_large(bytes_max(content_type))
    if size > bounds.BODY_BYTES_BEFORE_AUTH and not is_known():
        return needs_token()
    return None


class BodyLimit:
    """ASGI middleware around the whole application that bounds what a caller can make us read."""

    def __init__(
        self, application: Application, *, idle_seconds: float = IDLE_SECONDS, body_seconds: float = BODY_SECONDS
    ) -> None:
        self._application = application
        self._idle_seconds = idle_seconds
        self._body_seconds = body_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        body = _Body(scope, receive, idle_seconds=self._idle_seconds, body_seconds=self._body_seconds)
        await body.judge_declared_length()
        if body.refusal is None:
            scope[CHECKED] = True
            try:
                await self._application(scope, body.receive, body.watch(send))
            except (OSError, DatabaseError) as error:  # A service that is down for all, before or after all views.
                body.refuse_by_failure(error)
        if body.refusal is not None and not body.is_answered:
            await send_problem(scope, send, body.refusal)


class _Body:
    """One request's body while it arrives. Once refused, the application is told that the caller has gone."""

    def __init__(self, scope: Scope, receive: Receive, *, idle_seconds: float, body_seconds: float) -> None:
        self.refusal: BerthError | None = None
        self.is_answered = False
        self._scope = scope
        self._receive = receive
        self._idle_seconds = idle_seconds
        self._deadline = time.monotonic() + body_seconds
        self._received = 0
        self._is_complete = False
        self._is_known: bool | None = None
        self._bytes_max = bytes_max(header_of(scope, b"content-type") or "")

    async def judge_declared_length(self) -> None:
        length = header_of(self._scope, b"content-length") or ""
        if length.isdecimal() and len(length) < 20 and int(length) > bounds.BODY_BYTES_BEFORE_AUTH:
            await self._identify()
        if self.refusal is not None:
            return
        self.refusal = refuse_by_length(length, header_of(self._scope, b"content-type") or "", lambda: bool(self._is_known))

    def refuse_by_failure(self, error: Exception) -> None:
        """Answer what is no fault of ours, such as too many open files, as a view would have; raise the rest."""
        failure = as_failure(error)
        if self.is_answered or isinstance(failure, InternalError):
            raise error
        self.refusal = failure

    async def receive(self) -> Message:
        if self._is_complete:
            return await self._receive()
        message = await self._next_piece()
        if message["type"] != "http.request":
            self._is_complete = True
            return message
        self._received += len(message.get("body", b""))
        await self._judge_received()
        if self.refusal is not None:
            self._is_complete = True
            return {"type": "http.disconnect"}
        self._is_complete = not message.get("more_body", False)
        return message

    def watch(self, send: Send) -> Send:
        """Notice whether the application has begun to answer: a refusal is impossible after that."""

        async def watched(message: Message) -> None:
            self.is_answered = True
            await send(message)

        return watched

    async def _next_piece(self) -> Message:
        seconds = min(self._idle_seconds, self._deadline - time.monotonic())
        try:
            async with asyncio.timeout(max(0.0, seconds)):  # Unlike `wait_for` without a task of its own.
                return await self._receive()
        except TimeoutError:
            self.refusal = RequestTimeout(
                Text("The body did not arrive in time.", "请求体未在时限内到达。"),
                hint=Text("Send it again, in smaller parts.", "请分成更小的部分重新发送。"),
            )
            return {"type": "http.disconnect"}

    async def _judge_received(self) -> None:
        if self._received > self._bytes_max:
            self.refusal = too_large(self._bytes_max)
        elif self._received > bounds.BODY_BYTES_BEFORE_AUTH:
            await self._identify()
            if self.refusal is None and not self._is_known:
                self.refusal = needs_token()

    async def _identify(self) -> None:
        if self._is_known is None:
            try:
                actor = await authenticate_scope(self._scope) or await authenticate_scope_cookie(self._scope)
                self._is_known = actor is not None
            except NotAuthenticated:
                self._is_known = False
            except (DatabaseError, InterfaceError) as error:
                self.refusal = as_failure(error)


async def send_problem(scope: Scope, send: Send, failure: BerthError) -> None:
    """Answer with a problem document and close the connection, where there is no request of Django."""
    language = language_of(header_of(scope, b"accept-language") or "")
    body = json.dumps(problem_body(failure, request_id="", language=language), ensure_ascii=False).encode()
    headers = {
        "Content-Type": CONTENT_TYPE,
        "Content-Length": str(len(body)),
        "Connection": "close",
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        **headers_of(failure, language=language),
    }
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": failure.status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
