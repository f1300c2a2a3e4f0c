"""Every WebSocket route, every kind of caller: strangers are refused before the socket opens, foreign things do not exist."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from tests.factories.sockets import Socket
from tests.security.matrix.operations import websocket_routes
from tests.security.matrix.principals import STRANGERS, Principal, Who
from tests.security.matrix.world import Side, World, make_world

pytestmark = [pytest.mark.database, pytest.mark.django_db(transaction=True)]

ROUTES = websocket_routes()


@dataclass(frozen=True)
class Expectation:
    """What a caller sends to a route about an object of a side, and the answer of each caller of `own` about its own object."""

    query: Callable[[Side], str]
    message: Callable[[Side], dict[str, Any]]
    own: dict[Who, str]


# One entry per route. A route without one fails.
EXPECTATIONS: dict[str, Expectation] = {
    "/ws/v1/live": Expectation(
        query=lambda side: "",
        message=lambda side: {"subscribe": {"tenant": str(side.tenant.pk)}, "id": "cell"},
        own=dict.fromkeys((Who.VIEWER, Who.MEMBER, Who.OWNER, Who.MANAGER, Who.OPERATOR), "subscribed"),
    ),
    "/ws/v1/exec": Expectation(
        query=lambda side: f"?job={side.values['jobs']}",
        message=lambda side: {"start": {}},
        own={
            Who.VIEWER: "forbidden",
            Who.MEMBER: "forbidden",
            Who.OWNER: "exec_not_running",
            Who.MANAGER: "exec_not_running",
            Who.OPERATOR: "forbidden",
        },
    ),
}


def test_every_route_has_an_expectation() -> None:
    assert set(ROUTES) == set(EXPECTATIONS)


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


@pytest.mark.capability("26", "A live connection hears its own tenant and no other")
@pytest.mark.parametrize("route", ROUTES)
async def test_a_caller_hears_its_own_tenant_and_no_other_exists(route: str) -> None:
    world = await sync_to_async(make_world)()
    expected, wrong = EXPECTATIONS[route].own, []
    for who in expected:
        answer = await first_answer(route, world, who, world.own)
        if expected[who] not in (answer["type"], answer.get("code")):
            wrong.append(f"{who} -> own: {answer}")
    for who, side in [(Who.OTHER, world.own), *((who, world.foreign) for who in expected if who is not Who.OPERATOR)]:
        answer = await first_answer(route, world, who, side)
        if (answer["type"], answer.get("code")) != ("error", "not_found"):
            wrong.append(f"{who} -> {side.name}: {answer}")
        if side.canary in json.dumps(answer):
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
    socket = connection(route + EXPECTATIONS[route].query(side), world.principals[who])
    assert await socket.connect(), who
    try:
        await socket.send(EXPECTATIONS[route].message(side))
        return dict(await socket.receive())
    finally:
        await socket.disconnect()
