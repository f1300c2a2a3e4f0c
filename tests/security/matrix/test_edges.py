"""Times, numbers and sizes at the edges of what can be written, in every query parameter and every field: refused or understood,
and never a fault."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import transaction

from tests.security.matrix.expectations import EXPECTATIONS
from tests.security.matrix.operations import Operation, described
from tests.security.matrix.principals import Who
from tests.security.matrix.sending import client_of, request, shown
from tests.security.matrix.world import World

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("quick")]

TIMES = (
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59.999999-14:00",
    "9999-12-31T23:59:59",
    "1970-01-01T00:00:00Z",
    "2199-12-31T23:59:59Z",
    "-0001-01-01T00:00:00Z",
    "10000-01-01T00:00:00Z",
    "0001-W01",
    "9999-W52",
    "0001-01",
    "9999-12",
)
NUMBERS = ("0", "-1", str(2**31), str(2**63 - 1), str(2**63), "9" * 40, "1e400", "-1e400", "nan", "inf", "1.5", "-0")
# In a body as JSON has it. The last ones are no JSON: some parsers read them all the same.
LITERALS = (
    "0",
    "-1",
    "2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "9" * 40,
    "9" * 5000,
    "1e400",
    "1.5",
    "NaN",
    "Infinity",
)
PLACE = "the value goes here"
PRINCIPALS = (Who.MANAGER, Who.OPERATOR)
by_all = pytest.mark.parametrize("by_all", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["in turn", "all"])
"""Whether each value is sent by all principals, or by them in turn: what reads it seldom knows whose request it is."""


def entry_of(operation: Operation) -> dict[str, Any]:
    from webapi.description import describe

    found: dict[str, Any] = describe()["paths"][operation.path][operation.method.lower()]
    return found


def queries(operation: Operation) -> list[str]:
    return [found["name"] for found in entry_of(operation).get("parameters", ()) if found["in"] == "query"]


QUERIED = [operation for operation in described() if queries(operation) and not operation.path.endswith("/stream")]
BODIES = [operation for operation in described() if operation.method != "GET" and EXPECTATIONS[str(operation)].body is not None]


@by_all
@pytest.mark.parametrize("operation", QUERIED, ids=str)
def test_an_edge_in_a_query_is_refused_or_understood(operation: Operation, world: World, by_all: bool) -> None:
    expect = EXPECTATIONS[str(operation)]
    needed = expect.query(world, world.own) if expect.query else {}
    body = expect.body(world, world.own) if expect.body else None
    wrong = []
    for number, (name, value) in enumerate(product(queries(operation), (*TIMES, *NUMBERS))):
        path = f"{world.own.path(operation.path)}?{urlencode({**needed, name: value})}"
        by = PRINCIPALS if by_all else PRINCIPALS[number % 2 :][:1]
        wrong += _faults(operation, world, by, path, body, f"{name}={value[:40]}")
    assert not wrong, "\n".join([str(operation), *wrong])


@by_all
@pytest.mark.parametrize("operation", BODIES, ids=str)
def test_an_edge_in_a_body_is_refused_or_understood(operation: Operation, world: World, by_all: bool) -> None:
    expect = EXPECTATIONS[str(operation)]
    assert expect.body is not None
    body = expect.body(world, world.own)
    if not isinstance(body, dict):
        return  # Bytes or text, which hold no numbers of ours.
    path = world.own.path(operation.path)
    if expect.query is not None:
        path += "?" + urlencode(expect.query(world, world.own))
    wrong = []
    for place, kind in places(operation):
        for number, literal in enumerate(map(json.dumps, TIMES) if kind == "time" else LITERALS, len(str(place))):
            text = json.dumps(_with(body, place, PLACE)).replace(json.dumps(PLACE), literal)
            by = PRINCIPALS if by_all else PRINCIPALS[number % 2 :][:1]
            wrong += _faults(operation, world, by, path, text.encode(), f"{'/'.join(map(str, place))}={literal[:40]}")
    assert not wrong, "\n".join([str(operation), *wrong])


def _faults(operation: Operation, world: World, by: Sequence[Who], path: str, body: Any, cell: str) -> Iterator[str]:
    expect = EXPECTATIONS[str(operation)]
    for who in by:
        if expect.before is not None:
            expect.before(world, world.own)
        with transaction.atomic():
            answer = request(client_of(world.principals[who]), operation.method, path, body, expect)
            transaction.set_rollback(True)
        if answer.status_code >= 500 and operation.path != "/readyz":
            yield f"{who}, {cell}: {answer.status_code} {shown(answer)}"


@cache
def places(operation: Operation) -> tuple[tuple[tuple[str | int, ...], str], ...]:
    """Where the body has a number or a time, as described: with the first item of each list."""
    from webapi.description import describe

    content = entry_of(operation).get("requestBody", {}).get("content", {})
    schema = next((found.get("schema", {}) for name, found in content.items() if "json" in name), {})
    return tuple(_places(schema, describe()["components"]["schemas"], (), 0))


def _places(
    schema: dict[str, Any], named: dict[str, Any], place: tuple[str | int, ...], depth: int
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if depth > 5:
        return
    if "$ref" in schema:
        yield from _places(named[schema["$ref"].rpartition("/")[2]], named, place, depth)
        return
    for option in (*schema.get("oneOf", ()), *schema.get("anyOf", ()), *schema.get("allOf", ())):
        yield from _places(option, named, place, depth + 1)
    kinds = schema.get("type", ())
    kinds = {kinds} if isinstance(kinds, str) else set(kinds)
    if schema.get("format") in {"date-time", "date"}:
        yield place, "time"
    elif kinds & {"integer", "number"} and place:
        yield place, "number"
    for name, inner in schema.get("properties", {}).items():
        yield from _places(inner, named, (*place, name), depth + 1)
    if isinstance(schema.get("items"), dict):
        yield from _places(schema["items"], named, (*place, 0), depth + 1)


def _with(value: Any, place: tuple[str | int, ...], end: Any) -> Any:
    """The body with something else at one place; what is missing on the way is made."""
    if not place:
        return end
    step, rest = place[0], place[1:]
    if isinstance(step, int):
        items = value if isinstance(value, list) and value else [None]
        return [_with(items[0], rest, end), *items[1:]]
    found = value if isinstance(value, dict) else {}
    return {**found, step: _with(found.get(step), rest, end)}
