"""A query parameter is compared with what is there and is no part of a statement: on each database, whose grammars differ."""

from __future__ import annotations

import pytest

from tests.security.matrix.operations import Operation
from tests.security.matrix.principals import Who
from tests.security.matrix.sending import leaks, shown
from tests.security.matrix.test_queries import OPERATIONS, ask, parameters
from tests.security.matrix.world import World

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("quick")]

# Ways out of a query, in the grammars that could lie behind a filter: SQL on both databases, lookups of the ORM, patterns.
INJECTIONS = (
    "' OR '1'='1' --",
    "') UNION SELECT digest, name FROM tenants_token; DROP TABLE tenants_user;--",
    "tenant_id__isnull=true&(?:a+)+$",
    "%_\\\u2028" + "9" * 400,
)


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_a_query_is_data_and_never_part_of_a_statement(operation: Operation, world: World) -> None:
    wrong = []
    for name in parameters(operation):
        for value in INJECTIONS:
            response = ask(operation, world, Who.MANAGER, {name: value})
            cell = f"{name}={value[:60]}: {response.status_code} {shown(response)}"
            if response.status_code >= 500:
                wrong.append(cell)
            wrong += [f"{cell} holds {mark}" for mark in leaks(response, world.principals[Who.MANAGER], world, world.own)]

    assert not wrong, "\n".join([str(operation), *wrong])
