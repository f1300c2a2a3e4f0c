"""Scopes: a token that may only read changes nothing, whatever its user may do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import transaction

from tests.factories.tenants import make_token
from tests.security.matrix.expectations import EXPECTATIONS
from tests.security.matrix.operations import Operation, described
from tests.security.matrix.principals import Principal, Who
from tests.security.matrix.sending import client_of, send, shown
from tests.security.matrix.world import World

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("quick")]

# Writes that a token for reading may send, each with the reason. Whatever is not here asks a scope.
FOR_READERS = {
    "POST /api/v1/tickets": "A ticket carries the scopes of the token that asked for it.",
    "POST /api/v1/what-if": "It is a question: nothing is written.",
    "POST /api/v1/jobs:convert": "As above.",
    "POST /api/v1/tenants/{tenant}/registries/{host}/check": "As above; the account's password stays with the platform.",
    "POST /api/v1/templates/{template_id}/render": "It makes a document; submitting it asks for the scope jobs.",
    "POST /api/v1/announcements/{announcement_id}/dismiss": "It hides words from whoever asked, and from nobody else.",
    "POST /api/v1/session": "The password is the credential, whatever token is sent along.",
    "POST /api/v1/device-codes": "It gives nothing before somebody approved it.",
    "POST /api/v1/device-codes:redeem": "The code is the credential.",
}
UNSAFE = [operation for operation in described() if operation.method != "GET"]


@pytest.mark.parametrize("operation", UNSAFE, ids=str)
def test_a_token_for_reading_changes_nothing(operation: Operation, world: World) -> None:
    expect = EXPECTATIONS[str(operation)]
    for who in (Who.MANAGER, Who.OWNER, Who.OPERATOR):
        user: Any = world.principals[who].user
        with transaction.atomic():
            reader = Principal(who, f"Bearer {make_token(user, scopes=('read',)).text}", user)
            answer = send(operation, expect, reader, world, world.own)
            transaction.set_rollback(True)
        if str(operation) in FOR_READERS:
            continue
        refused = {401, 403, 404} | ({422} if who is Who.OPERATOR else set())
        assert answer.status_code in refused, f"{who}: {answer.status_code} {shown(answer)}"


def test_accepting_an_invitation_asks_for_the_account_and_its_address(world: World) -> None:
    """A real code: the matrix has none."""
    from kernel.actor import TenantRole
    from tenants.identity.services.invitations import invite_user
    from tenants.models import Membership
    from tests.factories.tenants import SYSTEM, make_user, now

    with transaction.atomic():
        guest, other = make_user("guest", email="guest@example.org"), make_user("someone", email="someone@example.org")
        issued = invite_user(actor=SYSTEM, tenant_id=world.third.pk, email="Guest@example.org", role=TenantRole.MEMBER, now=now())
        answers = {}
        for name, user, scope in (("reader", guest, "read"), ("other", other, "all"), ("guest", guest, "account")):
            principal = Principal(Who.MEMBER, f"Bearer {make_token(user, scopes=(scope,)).text}", user)
            operation = Operation("/api/v1/invitations:accept", "POST")
            answers[name] = client_of(principal).generic(
                operation.method, operation.path, json.dumps({"token": issued.text}).encode(), content_type="application/json"
            )
        roles = list(Membership.objects.filter(tenant=world.third).values_list("user__name", flat=True))
        transaction.set_rollback(True)

    assert {name: answer.status_code for name, answer in answers.items()} == {"reader": 403, "other": 403, "guest": 201}
    assert "scope" in answers["reader"].json()["detail"]
    assert "another address" in answers["other"].json()["detail"]
    assert "guest@example.org" not in answers["other"].content.decode().lower()
    assert roles == ["guest"]
