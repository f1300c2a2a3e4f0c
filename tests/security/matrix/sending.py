"""One request of the matrix: sent, undone, and looked at for what it must not hold."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

from django.db import transaction
from rest_framework.test import APIClient

from tests.security.matrix.expectations import Expect
from tests.security.matrix.operations import Operation
from tests.security.matrix.principals import STRANGERS, Principal, Who
from tests.security.matrix.world import Side, World

UUID_LENGTH = 36


def send(operation: Operation, expect: Expect, principal: Principal, world: World, side: Side, *, body: Any = None) -> Any:
    """One cell: the request, and everything undone that it did."""
    if body is None and expect.body is not None:
        body = expect.body(world, side)
    path = side.path(operation.path)
    if expect.query is not None:
        path += "?" + urlencode(expect.query(world, side))
    if expect.before is not None:
        expect.before(world, side)
    with transaction.atomic():
        response = request(client_of(principal), operation.method, path, body, expect)
        transaction.set_rollback(True)
    return response


def client_of(principal: Principal) -> APIClient:
    client = APIClient(raise_request_exception=False)
    if principal.header is not None:
        client.credentials(HTTP_AUTHORIZATION=principal.header)
    return client


def request(client: APIClient, method: str, path: str, body: Any, expect: Expect) -> Any:
    content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    options = {"content_type": expect.content_type} if content is not None else {}
    headers = {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in (expect.headers or {}).items()}
    response = client.generic(method, path, content or b"", **options, **headers)
    response.sent = (content or b"").decode(errors="replace")
    return response


def leaks(response: Any, principal: Principal, world: World, side: Side, *, sent: str = "") -> list[str]:
    """What marks a tenant that the caller does not belong to: names, slugs, ids. What the request itself held may come back."""
    if principal.who is Who.OPERATOR or response.streaming:
        return []
    if principal.who in STRANGERS:
        hidden = [world.own, world.foreign]
    else:
        hidden = [world.own if principal.who is Who.OTHER else world.foreign]
    request = response.wsgi_request
    said = f"{sent} {response.sent} {request.get_full_path()} {request.META.get('HTTP_AUTHORIZATION', '')}"
    text = response.content.decode(errors="replace") + str(dict(response.headers))
    found = [mark for entry in hidden for mark in marks_of(entry, world) if mark in text]
    return [mark for mark in found if mark not in said]


def marks_of(side: Side, world: World) -> list[str]:
    """Texts by which one tenant's things would be known again: its canary, and every id that the other side does not have."""
    shared = set(world.other(side).values.values())
    ids = {value for value in side.values.values() if len(value) == UUID_LENGTH} - shared
    return [side.canary, side.tenant.slug, str(side.tenant.pk), str(side.owner.pk), *sorted(ids | side.rows)]


def shown(response: Any) -> str:
    return "(stream)" if response.streaming else response.content.decode(errors="replace")[:300]
