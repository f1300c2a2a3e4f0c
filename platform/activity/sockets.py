"""What every WebSocket of ours does alike: it opens for one who is known, and closes with a code that says why."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Mapping
from typing import Any

import structlog
from channels.generic.websocket import AsyncWebsocketConsumer
from django.db import DatabaseError, InterfaceError

from activity import connecting
from activity.feed import Overrun
from kernel.actor import Actor
from kernel.errors import BerthError, InvalidInput, NotAuthenticated, Unavailable
from kernel.words import Text
from webapi.asgi_auth import header_of
from webapi.errors import MalformedBody
from webapi.parsers import parse_json
from webapi.wording import language_of

CLOSED_SLOW, CLOSED_REFUSED, CLOSED_SIGNED_OUT = 1013, 1008, 4401


class Socket(AsyncWebsocketConsumer):
    """One client's connection. A page of another origin and an unknown caller are refused before it opens.

    What is sent comes from the database or from a program: there is no channel layer, and a socket lives without a broker.
    """

    called = ""  # In the log.
    send_seconds_max = 10.0  # A reader that takes nothing for so long is slow; its kernel buffers are full by then.

    async def connect(self) -> None:
        self._is_closing = False
        if not connecting.is_from_own_page(self.scope):
            await self.close()
            return
        try:
            actor = await connecting.authenticate(self.scope)
        except NotAuthenticated:
            await self.close()
            return
        except (DatabaseError, InterfaceError, Unavailable):  # Refusing before it opens would say that the caller may never.
            await self.accept()
            await self._close(CLOSED_SLOW)
            return
        await self.accept()
        await self._begin(actor)

    @property
    def language(self) -> str:
        """The language that the client reads: `language` in the address, for browsers, whose pages choose no headers; else by the
        header of the request that opened the socket."""
        asked = connecting.query_of(self.scope).get("language", [])
        return language_of(asked[0] if asked else header_of(self.scope, b"accept-language") or "")

    async def _begin(self, actor: Actor) -> None:
        """It is open, and this is who is at its other end."""
        raise NotImplementedError

    async def _guarded(self, work: Awaitable[None]) -> None:
        """Outermost frame of each task: a slow reader is told so, and what fails unexpectedly closes the socket."""
        try:
            await work
        except (TimeoutError, Overrun):
            await self._close(CLOSED_SLOW)
        except OSError:  # The client went away while we sent; the server cleans up after it.
            await self._close(1001)
        except (DatabaseError, InterfaceError, Unavailable) as error:  # A client that comes back goes on where it was.
            structlog.get_logger(self.called).warning("socket_without_database", error=type(error).__name__)
            await self._close(CLOSED_SLOW)
        except Exception:
            if not self._is_closing:  # Sending on a socket that just went away fails, and is no fault.
                structlog.get_logger(self.called).exception("socket_failed")
                await self._close(1011)

    async def _send(self, message: Mapping[str, Any]) -> None:
        text = json.dumps(message, separators=(",", ":"), ensure_ascii=False, default=str)
        async with asyncio.timeout(self.send_seconds_max):
            await self.send(text_data=text)

    async def _close(self, code: int) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        with contextlib.suppress(Exception):  # The other side may be gone already.
            await self.close(code=code)


def parse_text(text: str) -> Any:
    """Parse a JSON text of a client. InvalidInput for what is none, and for what no database and no encoding holds."""
    try:
        return parse_json(text.encode())
    except (MalformedBody, UnicodeEncodeError) as error:
        said = (
            error.detail_text
            if isinstance(error, MalformedBody)
            else Text("It holds half of a surrogate pair.", "其中有不成对的代理字符（surrogate）。")
        )
        raise InvalidInput(
            Text(f"This is no JSON text that Berth reads. {said.en}", f"这不是 Berth 可读取的 JSON 文本。{said.zh}")
        ) from None


def error_text(error: BerthError, language: str, **more: Any) -> dict[str, Any]:
    """An error as a socket tells it, in the language of its reader."""
    detail, hint = error.detail_text.in_language(language), error.hint_text.in_language(language)
    return {"type": "error", **more, "code": error.code, "detail": detail, "hint": hint}
