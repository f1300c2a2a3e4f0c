"""Every WebSocket route, every kind of caller: strangers are refused before the socket opens, foreign things do not exist."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from tests.factories.sockets import Socket
from tests.security.matrix.operations import websocket_routes
from tests.security.matrix.principals import STRANGERS, Principal, Who
from tests.security.matrix.world import Side, World, make_world

pytestmark = [pytest.mark.database, pytest.mark.django_db(transaction=True)]

ROUTES = websocket_routes()

# One line per route: what a caller may listen to with an object of a side. A route without a line fails.
SUBSCRIPTIONS: dict[str, Callable[[Side], dict[str, Any]]] = {
    "/ws/v1/live": lambda side: {"subscribe": {"tenant": str(side.tenant.pk)}, "id": "cell"},
}


def test_every_route_has_an_expectation() -> None:
    assert set(ROUTES) == set(SUBSCRIPTIONS)


def test_every_path_but_these_is_refused() -> None:
    """One router serves them, by exact path."""
    assert all(route.startswith("/ws/v1/") and "{" not in route for route in ROUTES)


@pytest.mark.parametrize("route", ROUTES)
async def test_whoever_is_not_known_is_refused_before_the_socket_opens(route: str) -> None:
    world = await sync_to_async(make_world)()
    for who in STRANGERS:
        assert not await opens(route, world.principals[who]), who


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("place", ["token", "access_token", "authorization", "ticket"])
async def test_a_token_in_the_address_counts_for_nothing(route: str, place: str) -> None:
    world = await sync_to_async(make_world)()
    token = (world.principals[Who.MANAGER].header or "").removeprefix("Bearer ")

    assert not await opens(f"{route}?{place}={token}", world.principals[Who.ANONYMOUS])


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "null",
        "http://127.0.0.1:8620.evil.example",
        "http://evil.example/127.0.0.1:8620",
        "http://127.0.0.1",
    ],
)
async def test_a_page_of_another_origin_is_refused_with_a_valid_token(route: str, origin: str) -> None:
    world = await sync_to_async(make_world)()

    assert not await opens(route, world.principals[Who.MANAGER], origin=origin)


@pytest.mark.parametrize("route", ROUTES)
async def test_a_caller_hears_its_own_tenant_and_no_other_exists(route: str) -> None:
    world = await sync_to_async(make_world)()
    wrong = []
    for who in (Who.VIEWER, Who.MEMBER, Who.MANAGER, Who.OTHER):
        for side in (world.own, world.foreign):
            answer = await first_answer(route, world, who, side)
            expected = "subscribed" if (side is world.own) != (who is Who.OTHER) else "error"
            if answer.get("type") != expected or (expected == "error" and answer.get("code") != "not_found"):
                wrong.append(f"{who} -> {side.name}: {answer}")
            if expected == "error" and side.canary in json.dumps(answer):
                wrong.append(f"{who} -> {side.name} holds {side.canary}")

    assert not wrong


def connection(path: str, principal: Principal, origin: str | None = None) -> Socket:
    from controlplane.asgi import application

    headers = [] if principal.header is None else [(b"authorization", principal.header.encode())]
    if origin is not None:
        headers.append((b"origin", origin.encode()))
    return Socket(application, path, headers=headers)


async def opens(path: str, principal: Principal, *, origin: str | None = None) -> bool:
    socket = connection(path, principal, origin)
    is_open = await socket.connect()
    await socket.disconnect()
    return is_open


async def first_answer(route: str, world: World, who: Who, side: Side) -> dict[str, Any]:
    socket = connection(route, world.principals[who])
    assert await socket.connect(), who
    try:
        await socket.send(SUBSCRIPTIONS[route](side))
        return dict(await socket.receive())
    finally:
        await socket.disconnect()
