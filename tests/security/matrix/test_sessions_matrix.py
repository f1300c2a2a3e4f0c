"""Every operation again, by a browser: without the value that only our own pages know, a cookie changes nothing (T13)."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import transaction
from rest_framework.test import APIClient

from tenants.identity.api.authentication import csrf_of
from tests.factories.sockets import Socket
from tests.factories.tenants import make_session
from tests.security.matrix.expectations import EXPECTATIONS, PUBLIC
from tests.security.matrix.operations import Operation, described, websocket_routes
from tests.security.matrix.principals import Who
from tests.security.matrix.sending import request, shown
from tests.security.matrix.world import World, make_world, put_file

pytestmark = [pytest.mark.database]

OPERATIONS = described()
CLOSED = [operation for operation in OPERATIONS if str(operation) not in PUBLIC and operation.path != "/metrics"]
OWN_ORIGIN = "http://127.0.0.1:8620"
COOKIE = "berth-session"


def browser(text: str) -> APIClient:
    client = APIClient(raise_request_exception=False)
    client.cookies[COOKIE] = text
    return client


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("operation", [entry for entry in CLOSED if entry.method != "GET"], ids=str)
def test_a_cookie_alone_changes_nothing(operation: Operation, world: World) -> None:
    with transaction.atomic():
        session = make_session(world.principals[Who.MANAGER].user)
        expect = EXPECTATIONS[str(operation)]
        body = expect.body(world, world.own) if expect.body else None
        response = request(browser(session.text), operation.method, world.own.path(operation.path), body, expect)
        transaction.set_rollback(True)

    assert (response.status_code, response.json()["code"]) == (403, "csrf_failed"), shown(response)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("site", [None, "none", "same-site", "cross-site"])
def test_the_value_without_a_word_of_the_page_that_sent_it_changes_nothing(site: str | None, world: World) -> None:
    """A program with a stolen value sends neither Origin nor Sec-Fetch-Site; every browser sends one of the two."""
    session = make_session(world.principals[Who.MANAGER].user)
    client = browser(session.text)
    client.credentials(HTTP_X_BERTH_CSRF=csrf_of(session.text), **({"HTTP_SEC_FETCH_SITE": site} if site else {}))
    refused = client.patch("/api/v1/preferences", {"theme": "dark"}, format="json")
    by_origin = client.patch("/api/v1/preferences", {"theme": "dark"}, format="json", HTTP_ORIGIN=OWN_ORIGIN)

    assert (refused.status_code, refused.json()["code"]) == (403, "csrf_failed")
    assert by_origin.status_code == (200 if site in {None, "none"} else 403)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("operation", CLOSED, ids=str)
def test_a_session_may_what_its_user_may(operation: Operation, world: World) -> None:
    expect, manager = EXPECTATIONS[str(operation)], world.principals[Who.MANAGER]
    with transaction.atomic():
        session = make_session(manager.user)
        client = browser(session.text)
        client.credentials(HTTP_X_BERTH_CSRF=csrf_of(session.text), HTTP_SEC_FETCH_SITE="same-origin")
        put_file(world, world.own)  # Another cell may have deleted it.
        body = expect.body(world, world.own) if expect.body else None
        path = world.own.path(operation.path) + _query(expect, world)
        response = request(client, operation.method, path, body, expect)
        transaction.set_rollback(True)
    is_session = expect.about == "session"
    allowed = {200, 204, 503} if is_session else expect.statuses(Who.MANAGER, is_own=True)

    assert response.status_code in allowed, shown(response)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("route", websocket_routes())
async def test_a_socket_opens_by_cookie_from_our_own_pages_alone(route: str) -> None:
    world = await sync_to_async(make_world)()
    session = await sync_to_async(make_session)(world.principals[Who.MANAGER].user)
    token = (world.principals[Who.MANAGER].header or "").removeprefix("Bearer ")
    origins = (None, "null", "https://evil.example", f"{OWN_ORIGIN}.evil.example", "http://127.0.0.1")

    assert await opens(route, session.text, OWN_ORIGIN)
    assert [await opens(route, session.text, origin) for origin in origins] == [False] * len(origins)
    assert not await opens(route, token, OWN_ORIGIN)
    assert not await opens(route, session.text + "x", OWN_ORIGIN)


async def opens(path: str, text: str, origin: str | None) -> bool:
    from controlplane.asgi import application

    headers = [(b"cookie", f"{COOKIE}={text}".encode())]
    if origin is not None:
        headers.append((b"origin", origin.encode()))
    socket = Socket(application, path, headers=headers)
    is_open = await socket.connect()
    await socket.disconnect()
    return is_open


def _query(expect: Any, world: World) -> str:
    from urllib.parse import urlencode

    return "?" + urlencode(expect.query(world, world.own)) if expect.query is not None else ""
