"""Every operation, every kind of caller, objects of their own tenant and of another one: no answer is unexplained."""

from __future__ import annotations

import json

import pytest
from django.db import transaction

from tests.security.matrix.expectations import DONE, EXPECTATIONS, PUBLIC, Expect
from tests.security.matrix.operations import OUTSIDE_DESCRIPTION, Operation, described, routes
from tests.security.matrix.principals import RANK, STRANGERS, Who
from tests.security.matrix.sending import client_of, leaks, request, send, shown
from tests.security.matrix.world import World

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("quick")]

OPERATIONS = described()
NO_IDS = (
    "00000000-0000-0000-0000-000000000000",
    "nothing",
    "%27%20OR%201=1--",
    "%C3%A9",
    "livez",
    "..%2F..%2Fetc%2Fpasswd",
    "x" * 300,
)


@pytest.mark.capability("26", "Every operation gives each kind of caller what is theirs, for own and foreign objects")
def test_every_operation_has_an_expectation_and_every_expectation_an_operation() -> None:
    assert {str(operation) for operation in OPERATIONS} == set(EXPECTATIONS)


def test_every_route_is_described() -> None:
    known = set(OPERATIONS)
    missing = [
        str(Operation(path, method))
        for path, methods in routes()
        for method in methods
        if Operation(path, method) not in known and path not in OUTSIDE_DESCRIPTION
    ]

    assert not missing


def test_the_public_operations_are_exactly_those_on_the_list() -> None:
    from webapi.description import describe

    open_in_table = {name for name, expect in EXPECTATIONS.items() if expect.about == "public" or expect.answers}
    paths = describe()["paths"]
    open_in_description = {
        f"{method.upper()} {path}"
        for path, entry in paths.items()
        for method, found in entry.items()
        if not found.get("security")
    }

    assert open_in_table == PUBLIC
    assert open_in_description == PUBLIC


@pytest.mark.capability("26", "Every operation gives each kind of caller what is theirs, for own and foreign objects")
@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_nobody_gets_an_answer_that_is_not_theirs(operation: Operation, world: World) -> None:
    expect = EXPECTATIONS.get(str(operation))
    assert expect is not None, f"{operation} has no expectation"
    wrong = []
    for principal in world.principals.values():
        for side in (world.own, world.foreign):
            response = send(operation, expect, principal, world, side)
            allowed = expect.statuses(principal.who, is_own=side is world.own)
            cell = f"{principal.who} -> {side.name}: {response.status_code} {shown(response)}"
            if response.status_code not in allowed:
                wrong.append(f"{cell} (expected {sorted(allowed)})")
            wrong += [f"{cell} holds {text}" for text in leaks(response, principal, world, side)]

    assert not wrong, "\n".join([str(operation), *wrong])


@pytest.mark.capability(
    "26", "What another tenant has cannot be named in a query, cursor or body, nor by a field of the server's"
)
@pytest.mark.parametrize("operation", [entry for entry in OPERATIONS if EXPECTATIONS.get(str(entry), Expect()).bad_ids], ids=str)
def test_an_id_of_another_tenant_in_the_body_does_not_exist(operation: Operation, world: World) -> None:
    expect = EXPECTATIONS[str(operation)]
    wrong = []
    for number, make in enumerate(expect.bad_ids):
        body = make(world, world.own)
        for who in (Who.VIEWER, Who.MEMBER, Who.OWNER, Who.MANAGER):
            response = send(operation, expect, world.principals[who], world, world.own, body=body)
            if response.status_code not in {403, 404, 422}:
                wrong.append(f"body {number}, {who}: {response.status_code} {shown(response)}")
            held = [text for text in leaks(response, world.principals[who], world, world.own) if text not in json.dumps(body)]
            wrong += [f"body {number}, {who} holds {text}" for text in held]

    assert not wrong, "\n".join([str(operation), *wrong])


@pytest.mark.parametrize("operation", [operation for operation in OPERATIONS if "{" in operation.path], ids=str)
def test_an_id_that_is_none_does_not_exist(operation: Operation, world: World) -> None:
    """Ids are data: whatever stands in their place, the answer is that there is no such thing."""
    expect = EXPECTATIONS[str(operation)]
    wrong = []
    for text in NO_IDS:
        parts = [text if part.startswith("{") else part for part in operation.path.split("/")]
        client = client_of(world.principals[Who.MANAGER])
        with transaction.atomic():
            body = expect.body(world, world.own) if expect.body else None
            response = request(client, operation.method, "/".join(parts), body, expect)
            transaction.set_rollback(True)
        if response.status_code not in {400, 401 if expect.about == "session" else 404, 403, 404, 416, 422}:
            wrong.append(f"{text[:40]}: {response.status_code} {shown(response)}")

    assert not wrong, "\n".join([str(operation), *wrong])


@pytest.mark.capability("56", "Viewers, members, managers and operators may do what the table of permissions says")
def test_the_matrix_covers_what_it_claims() -> None:
    """The table itself: success for the least caller, refusal just below."""
    line = Expect(Who.MEMBER)
    assert line.statuses(Who.VIEWER, is_own=True) == {403}
    assert line.statuses(Who.MEMBER, is_own=True) == DONE
    assert line.statuses(Who.MANAGER, is_own=False) == {404}
    assert line.statuses(Who.OTHER, is_own=True) == {404}
    assert line.statuses(Who.OTHER, is_own=False) == DONE
    assert set(RANK) | set(STRANGERS) | {Who.OPERATOR} == set(Who)
