"""Every collection asked for without filters: the answer holds no ids, no names and no counts of another tenant."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import transaction

from activity.sequencer import sequence
from tests.factories.tenants import make_member, make_tenant, make_user
from tests.security.matrix.expectations import EXPECTATIONS
from tests.security.matrix.operations import Operation, described
from tests.security.matrix.principals import Who
from tests.security.matrix.sending import client_of, leaks, request
from tests.security.matrix.world import MAKERS, Side, World

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("quick")]

COLLECTIONS = [entry for entry in described() if entry.method == "GET" and "{" not in entry.path]
INSIDE = (Who.VIEWER, Who.MEMBER, Who.OWNER, Who.MANAGER)
ENDLESS = {"GET /api/v1/events/stream"}  # `test_websocket_matrix.py` and the doors listen to what comes by it.
# Parts of a whole that all tenants make together: the numbers of the others change one's own by what they are.
OF_ALL = {"GET /api/v1/shares": "It tells what was wanted and delivered by all, as the measure of a fair share."}
# What an answer says of its own moment: it differs between two answers, whoever asks.
MOMENTS = re.compile(r'\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)|"request_id":"\w+"|_seconds":\d+')


def ask_plainly(operation: Operation, world: World, who: Who) -> Any:
    """The operation with the parameters that it must have, and without the tenant."""
    expect = EXPECTATIONS[str(operation)]
    needed = expect.query(world, world.own) if expect.query else {}
    query = urlencode({name: value for name, value in needed.items() if name != "tenant"})
    with transaction.atomic():
        response = request(client_of(world.principals[who]), "GET", f"{operation.path}?{query}", None, expect)
        transaction.set_rollback(True)
    return response


def foreign_in(operation: Operation, world: World) -> list[str]:
    """What callers of each tenant find of the other one in an answer without filters."""
    wrong = []
    for who in (*INSIDE, Who.OTHER):
        response = ask_plainly(operation, world, who)
        held = leaks(response, world.principals[who], world, world.own)
        wrong += [f"{who}: {response.status_code} holds {mark}" for mark in held]
    return wrong


def counted_in(operation: Operation, world: World) -> list[str]:
    """Answers that change because a tenant appears of which the caller is no member."""
    sequence(datetime.now(UTC))  # What is chained now is not chained by what comes.
    before = {who: _still(ask_plainly(operation, world, who)) for who in INSIDE}
    with transaction.atomic():
        add_tenant(world)
        after = {who: _still(ask_plainly(operation, world, who)) for who in INSIDE}
        transaction.set_rollback(True)
    return [_difference(who, before[who], after[who]) for who in INSIDE if before[who] != after[who]]


def add_tenant(world: World) -> Side:
    """One more tenant with one object of each kind; of the installation's own things it adds none."""
    side = Side("appeared", make_tenant("appeared-canary-tenant"))
    side.owner = make_user("appeared-canary-owner", email="appeared-canary@example.org")
    make_member(side.tenant, side.owner, "member")
    for make in MAKERS:
        make(World(world.own, side, world.third, world.principals), side)
    return side


def _difference(who: Who, before: str, after: str) -> str:
    pairs = enumerate(zip(before, after, strict=False))
    start = max(0, next((index for index, (old, new) in pairs if old != new), min(len(before), len(after))) - 100)
    return f"{who}: ...{before[start : start + 200]} became ...{after[start : start + 200]}"


def _still(response: Any) -> str:
    if response.streaming:
        return f"{response.status_code} {MOMENTS.sub('(moment)', b''.join(response.streaming_content).decode())}"
    return f"{response.status_code} {MOMENTS.sub('(moment)', response.content.decode())}"


@pytest.mark.parametrize("operation", COLLECTIONS, ids=str)
def test_a_list_without_filters_holds_nothing_of_another_tenant(operation: Operation, world: World) -> None:
    assert not foreign_in(operation, world)


@pytest.mark.parametrize("operation", [entry for entry in COLLECTIONS if str(entry) not in {*ENDLESS, *OF_ALL}], ids=str)
def test_what_another_tenant_adds_changes_no_answer(operation: Operation, world: World) -> None:
    assert not counted_in(operation, world)


@pytest.mark.parametrize(
    ("path", "module"),
    [("/api/v1/priority-requests", "jobs.api.order"), ("/api/v1/quota/requests", "tenants.capacity.api.quota_requests")],
)
def test_a_list_that_forgets_its_tenants_is_found(path: str, module: str, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of this matrix: it is worth no more than what it catches."""
    operation = Operation(path, "GET")
    assert not foreign_in(operation, world)
    monkeypatch.setattr(f"{module}.visible", lambda actor, model: model.objects.all())

    for found in (foreign_in(operation, world), counted_in(operation, world)):
        assert {entry.partition(":")[0] for entry in found} >= set(INSIDE)


def test_a_count_of_what_is_not_visible_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bare number holds no mark of anybody; that it moves gives it away."""
    operation = Operation("/api/v1/jobs:counts", "GET")
    monkeypatch.setattr("jobs.selectors.counts.tenants_with", lambda actor, permission: None)

    assert {entry.partition(":")[0] for entry in counted_in(operation, world)} == set(INSIDE)
