"""A query parameter that an operation does not know: refused, so that a misspelt filter never returns everything."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest

from tests.security.matrix.expectations import EXPECTATIONS, PUBLIC
from tests.security.matrix.operations import Operation, described
from tests.security.matrix.principals import Who
from tests.security.matrix.sending import client_of, shown
from tests.security.matrix.world import World, put_file

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("quick")]

# Without a description of their own: pages and probes, which read no query at all.
PLAIN = {"GET /livez", "GET /readyz", "GET /metrics", "GET /api/v1/docs", "GET /api/v1/docs.js", "GET /api/v1/openapi.json"}
READS = [entry for entry in described() if entry.method == "GET" and str(entry) not in PLAIN]


@pytest.mark.parametrize("operation", READS, ids=str)
def test_a_parameter_that_nothing_describes_is_refused(operation: Operation, world: World) -> None:
    expect = EXPECTATIONS[str(operation)]
    put_file(world, world.own)
    needed = expect.query(world, world.own) if expect.query else {}
    path = f"{world.own.path(operation.path)}?{urlencode({**needed, 'tenannt': 'x'})}"
    answers = [client_of(world.principals[who]).get(path) for who in (Who.MANAGER, Who.OWNER, Who.OPERATOR)]
    if expect.about == "session":
        assert {answer.status_code for answer in answers} == {401}
        return
    told = [answer for answer in answers if answer.status_code == 422]
    assert told, f"{answers[0].status_code} {shown(answers[0])}"
    assert told[0].json()["fields"][0]["path"] == "/tenannt"
    assert all(answer.status_code in {403, 404, 422} for answer in answers)
    if str(operation) in PUBLIC:
        assert all(answer.status_code == 422 for answer in answers)
