"""How a WebSocket begins, whatever it is for: from a page of this server or none, with a header, a ticket or a cookie."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

from activity import origins
from activity.threads import in_thread
from activity.tickets import redeem_ticket
from kernel.actor import Actor
from kernel.clock import database_now
from kernel.config import current
from kernel.errors import NotAuthenticated
from kernel.words import Text
from webapi.asgi_auth import authenticate_scope, authenticate_scope_cookie

_FIELDS_MAX = 16  # Names in the address; every socket of ours knows a handful.


def is_from_own_page(scope: Mapping[str, Any]) -> bool:
    """Whether the page that opens this connection, if a page does, is one of this server's."""
    return origins.is_allowed(_origins(scope), current())


async def authenticate(scope: Mapping[str, Any]) -> Actor:
    """The actor of a connection; raises NotAuthenticated. A ticket is used up by this. A cookie counts for a page of ours
    alone, which always tells its origin: ask `is_from_own_page` first."""
    actor = await authenticate_scope(scope)
    if actor is not None:
        return actor
    tickets = query_of(scope).get("ticket", [])
    if not tickets and _origins(scope):
        actor = await authenticate_scope_cookie(scope)
        if actor is not None:
            return actor
    if len(tickets) != 1:
        raise NotAuthenticated(
            Text("A live connection needs a header, a ticket or a session.", "实时连接需要请求头、票据或会话。")
        )
    return await in_thread(_redeem, tickets[0])


def query_of(scope: Mapping[str, Any]) -> dict[str, list[str]]:
    """The values in the address by name; none where there are more names than any request needs."""
    try:
        return parse_qs(scope.get("query_string", b"").decode("latin-1"), max_num_fields=_FIELDS_MAX)
    except ValueError:
        return {}


def _origins(scope: Mapping[str, Any]) -> list[str]:
    return [value.decode("latin-1") for name, value in scope["headers"] if name.lower() == b"origin"]


def _redeem(text: str) -> Actor:
    return redeem_ticket(text, now=database_now())
