"""Answers that are kept for an Idempotency-Key: given to the rights that carried the request out, and without any secret."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from django.db import transaction

from kernel.actor import TenantRole
from tenants.models import Invitation, Membership, Token
from tests.factories.tenants import Cast, make_token
from tests.security.matrix.expectations import DONE, EXPECTATIONS
from tests.security.matrix.operations import Operation, described
from tests.security.matrix.principals import Who
from tests.security.matrix.sending import client_of, request, shown
from tests.security.matrix.world import World
from webapi.models import IdempotencyKey

pytestmark = pytest.mark.database

Api = Callable[..., Any]
HOOK = {"channel": "webhook", "target": "https://hooks.example.com/x"}
# Of answers: what opens something. Whatever is named so is shown once, and a new name comes here.
SECRET_FIELDS = frozenset({"token", "secret", "ticket", "recovery_codes", "device_code", "uri", "url_with_secret"})
# Not made twice by a key at all: each has its own way to be repeated.
WITHOUT_KEYS = {
    "POST /api/v1/device-codes": "Nobody is signed in: keys belong to users.",
    "POST /api/v1/device-codes:redeem": "As above; the code works once.",
    "POST /api/v1/invitations:accept": "As above; whoever is signed in gets no token by it.",
    "POST /api/v1/tickets": "A ticket lasts 30 seconds.",
    "POST /api/v1/totp": "A session's; a second call replaces the first secret, which was never confirmed.",
    "POST /api/v1/totp:confirm": "A session's; wrong codes are counted, which a key would take back.",
    "PATCH /api/v1/subscriptions/{subscription}": "Its answer holds no secret; changes are guarded by If-Match.",
}


def with_key(client: Any, path: str, body: dict[str, Any], key: str = "k") -> Any:
    return client.post(path, body, format="json", HTTP_IDEMPOTENCY_KEY=key)


def test_a_token_with_fewer_scopes_does_not_get_the_answer_that_another_one_was_given(cast: Cast, api: Api) -> None:
    made = with_key(api(cast.bob), "/api/v1/subscriptions", HOOK)
    assert made.status_code == 201
    reader = api(make_token(cast.bob.user, scopes=("read",)).text)

    refused = with_key(reader, "/api/v1/subscriptions", HOOK)

    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert made.json()["secret"] not in refused.content.decode()
    assert made.json()["id"] not in refused.content.decode()


def test_who_has_lost_the_role_since_does_not_get_the_kept_answer(cast: Cast, api: Api) -> None:
    path, body = f"/api/v1/tenants/{cast.tenant.slug}/service-accounts", {"name": "robot", "role": "viewer"}
    made = with_key(api(cast.alice), path, body)
    assert made.status_code == 201, made.content
    assert with_key(api(cast.alice), path, body).json() == made.json()

    Membership.objects.filter(tenant=cast.tenant, user=cast.alice.user).update(role=TenantRole.VIEWER)
    refused = with_key(api(cast.alice), path, body)

    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert made.json()["id"] not in refused.content.decode()


def test_whoever_has_as_many_rights_or_more_gets_it(cast: Cast, api: Api) -> None:
    body = {"page": "jobs", "name": "mine", "query": "state=running"}
    made = with_key(api(make_token(cast.bob.user, scopes=("account",)).text), "/api/v1/saved-filters", body)
    assert made.status_code == 201, made.content

    again = with_key(api(cast.bob), "/api/v1/saved-filters", body)

    assert (again.status_code, again.json(), again["Idempotency-Replayed"]) == (201, made.json(), "true")


@pytest.mark.parametrize("what", ["webhook", "token", "invitation"])
def test_what_is_shown_once_is_kept_nowhere_and_repeating_says_so(cast: Cast, api: Api, what: str) -> None:
    path, body = {
        "webhook": ("/api/v1/subscriptions", HOOK),
        "token": ("/api/v1/tokens", {"name": "ci"}),
        "invitation": ("/api/v1/invitations", {"email": "new@example.org", "tenant": cast.tenant.slug, "role": "member"}),
    }[what]
    counted = (Token.objects.count(), Invitation.objects.count())
    first = with_key(api(cast.alice), path, body)
    assert first.status_code == 201, first.content
    again = with_key(api(cast.alice), path, body)

    assert (again.status_code, again.json()["code"]) == (409, "shown_once")
    row = IdempotencyKey.objects.get(key="k")
    assert (row.body, row.is_shown_once) == ("", True)
    made = sum((Token.objects.count(), Invitation.objects.count())) - sum(counted)
    assert made == (0 if what == "webhook" else 1)


@cache
def answers_with_secrets() -> tuple[Operation, ...]:
    """Writes whose answer, as described, has a field that opens something."""
    from webapi.description import describe

    document = describe()
    found = []
    for operation in described():
        responses = document["paths"][operation.path][operation.method.lower()]["responses"]
        schemas = [
            content.get("schema", {}).get("$ref", "").rpartition("/")[2]
            for status, response in responses.items()
            if status.startswith("2")
            for content in response.get("content", {}).values()
        ]
        names = {name for schema in schemas if schema for name in document["components"]["schemas"][schema].get("properties", {})}
        if operation.method != "GET" and names & SECRET_FIELDS:
            found.append(operation)
    return tuple(found)


def has_key(operation: Operation) -> bool:
    from webapi.description import describe

    parameters = describe()["paths"][operation.path][operation.method.lower()].get("parameters", ())
    return any(found["name"] == "Idempotency-Key" for found in parameters)


def test_every_answer_with_a_secret_is_known_here() -> None:
    assert {str(operation) for operation in answers_with_secrets() if not has_key(operation)} == set(WITHOUT_KEYS)


@pytest.mark.usefixtures("quick")
def test_no_kept_answer_of_any_operation_holds_a_secret(world: World) -> None:
    """Every write with a key that the matrix can make: what is kept of it has no field that opens something."""
    from webapi.idempotency import _keys

    kept = 0
    for operation in described():
        if operation.method == "GET" or not has_key(operation):
            continue
        expect = EXPECTATIONS[str(operation)]
        for who in (Who.MANAGER, Who.OWNER, Who.OPERATOR):
            if expect.before is not None:
                expect.before(world, world.own)
            with transaction.atomic():
                body = expect.body(world, world.own) if expect.body else None
                client = client_of(world.principals[who])
                client.credentials(HTTP_AUTHORIZATION=world.principals[who].header, HTTP_IDEMPOTENCY_KEY=f"key of {operation}")
                path = world.own.path(operation.path)
                if expect.query is not None:
                    path += "?" + "&".join(f"{name}={value}" for name, value in expect.query(world, world.own).items())
                answer = request(client, operation.method, path, body, expect)
                row = IdempotencyKey.objects.filter(key=f"key of {operation}").first()
                again = request(client, operation.method, path, body, expect) if row is not None else None
                transaction.set_rollback(True)
            if answer.status_code not in DONE or row is None:
                continue
            kept += 1
            text = _keys().decrypt(row.body.encode()).decode() if row.body else "{}"
            assert not _names(json.loads(text)) & SECRET_FIELDS, str(operation)
            assert again is not None
            assert again.status_code == (409 if row.is_shown_once else answer.status_code), f"{operation}: {shown(again)}"
            break
    assert kept > 20, "the matrix made too few of them"


def _names(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value) | {name for inner in value.values() for name in _names(inner)}
    return {name for inner in value for name in _names(inner)} if isinstance(value, list) else set()
