"""Every query parameter, filter and cursor: what is named there belongs to the caller, or nobody hears of it."""

from __future__ import annotations

from functools import cache
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import transaction

from tests.security.matrix.expectations import EXPECTATIONS
from tests.security.matrix.operations import Operation, described
from tests.security.matrix.principals import Who
from tests.security.matrix.sending import UUID_LENGTH, client_of, leaks, request, shown
from tests.security.matrix.world import Side, World

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("quick")]

PAGING = {"limit", "cursor"}  # No names: a number, and what a signature protects.


@cache
def parameters(operation: Operation) -> tuple[str, ...]:
    """The names of an operation's query parameters, as the description has them."""
    from webapi.description import describe

    entry = describe()["paths"][operation.path][operation.method.lower()]
    return tuple(found["name"] for found in entry.get("parameters", ()) if found["in"] == "query")


OPERATIONS = [operation for operation in described() if parameters(operation)]


def names_of(side: Side) -> list[str]:
    """Every way to name something of a tenant: by id, by name, by a part of a name."""
    made = [side.objects["queue"].name, side.objects["volume"].name, f"{side.canary}-job", side.canary[:-1]]
    ids = {value for value in side.values.values() if len(value) == UUID_LENGTH}
    return [side.tenant.slug, str(side.tenant.pk), side.owner.name, *made, *sorted(ids)]


def ask(operation: Operation, world: World, who: Who, query: dict[str, Any]) -> Any:
    expect = EXPECTATIONS[str(operation)]
    own = world.own if who is not Who.OTHER else world.foreign
    needed = expect.query(world, own) if expect.query else {}
    if expect.before is not None:
        expect.before(world, own)
    body = expect.body(world, own) if expect.body else None
    with transaction.atomic():
        path = f"{own.path(operation.path)}?{urlencode({**needed, **query})}"
        response = request(client_of(world.principals[who]), operation.method, path, body, expect)
        transaction.set_rollback(True)
    return response


@pytest.mark.capability(
    "26", "What another tenant has cannot be named in a query, cursor or body, nor by a field of the server's"
)
@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_what_another_tenant_has_cannot_be_named_in_a_query(operation: Operation, world: World) -> None:
    wrong = []
    for name in set(parameters(operation)) - PAGING:
        for value in names_of(world.foreign):
            response = ask(operation, world, Who.MANAGER, {name: value})
            cell = f"{name}={value}: {response.status_code} {shown(response)}"
            if response.status_code >= 500:
                wrong.append(cell)
            held = leaks(response, world.principals[Who.MANAGER], world, world.own, sent=value)
            wrong += [f"{cell} holds {mark}" for mark in held]

    assert not wrong, "\n".join([str(operation), *wrong])


@pytest.mark.parametrize("operation", [entry for entry in OPERATIONS if "cursor" in parameters(entry)], ids=str)
def test_a_cursor_of_somebody_else_leads_to_nothing_of_theirs(operation: Operation, world: World) -> None:
    first = ask(operation, world, Who.OTHER, {"limit": "1"})
    assert first.status_code == 200, shown(first)
    cursor = first.json().get("next") or first.json().get("cursor")
    if not cursor:
        return  # One page: nothing to pass on.
    response = ask(operation, world, Who.MANAGER, {"cursor": cursor})

    assert response.status_code in {200, 400}, shown(response)
    assert not leaks(response, world.principals[Who.MANAGER], world, world.own, sent=cursor)
