"""A credential is worth what its user may do now: after each event that ends or narrows it, the next request says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from activity.tickets import issue_ticket, redeem_ticket
from kernel.errors import NotAuthenticated
from tenants.identity.access import actor_for
from tenants.identity.credentials import refresh_actors
from tenants.identity.services import tokens, users
from tenants.models import Membership, Token, User
from tests.factories.tenants import Cast, make_service_account, make_token

pytestmark = pytest.mark.database

Api = Callable[..., Any]
JOB = {"spec": {"command": "true"}}


@dataclass
class Scene:
    """Bob, or a service account of Alice's, with a token that was made before the event."""

    cast: Cast
    api: Api
    user: User
    issued: tokens.IssuedToken

    @property
    def membership(self) -> str:
        return f"/api/v1/tenants/{self.cast.tenant.slug}/members/{self.user.pk}"


@pytest.fixture
def scene(cast: Cast, api: Api, configure: Callable[..., Any]) -> Scene:
    configure(requests_per_minute=0)
    cast.bob.user.set_password("a long old password")
    cast.bob.user.save()
    return Scene(cast, api, cast.bob.user, make_token(cast.bob.user))


def revoked_by_its_owner(scene: Scene) -> None:
    other = scene.api(scene.cast.bob)
    assert other.delete(f"/api/v1/tokens/{scene.issued.token.pk}").status_code == 204


def used_to_revoke_itself(scene: Scene) -> None:
    assert scene.api(scene.issued.text).delete(f"/api/v1/tokens/{scene.issued.token.pk}").status_code == 204


def password_changed(scene: Scene) -> None:
    now = datetime.now(UTC)
    users.set_password(
        actor=scene.cast.bob.actor, user=scene.user, old="a long old password", new="quite another long one", now=now
    )


def disabled_by_an_operator(scene: Scene) -> None:
    answer = scene.api(scene.cast.otto).patch(f"/api/v1/users/{scene.user.pk}", {"is_active": False}, format="json")
    assert answer.status_code == 200


def expired(scene: Scene) -> None:
    past = datetime.now(UTC) - timedelta(seconds=1)
    Token.objects.filter(pk=scene.issued.token.pk).update(created_at=past - timedelta(days=1), expires_at=past)


def account_of_the_tenant_removed(scene: Scene) -> None:
    scene.user = make_service_account(scene.cast.tenant)
    scene.issued = make_token(scene.user)
    assert scene.api(scene.issued.text).get("/api/v1/whoami").status_code == 200
    path = f"/api/v1/tenants/{scene.cast.tenant.slug}/service-accounts/{scene.user.pk}"
    assert scene.api(scene.cast.alice).delete(path).status_code == 204


ENDING = [
    revoked_by_its_owner,
    used_to_revoke_itself,
    password_changed,
    disabled_by_an_operator,
    expired,
    account_of_the_tenant_removed,
]


@pytest.mark.parametrize("event", ENDING, ids=lambda event: event.__name__)
def test_a_token_ends_with_the_event_everywhere(event: Callable[[Scene], None], scene: Scene) -> None:
    actor = actor_for(scene.user, scene.issued.token)
    ticket = issue_ticket(actor=actor, now=datetime.now(UTC))
    assert scene.api(scene.issued.text).get("/api/v1/whoami").status_code == 200

    event(scene)

    client = scene.api(scene.issued.text)
    assert client.get("/api/v1/whoami").status_code == 401
    assert client.post("/api/v1/jobs", JOB, format="json").status_code == 401
    assert client.post("/api/v1/tickets").status_code == 401
    assert client.get("/api/v1/events/stream").status_code == 401
    assert refresh_actors([actor_for(scene.user, scene.issued.token)]) == [None]  # What open connections are asked by.
    with pytest.raises(NotAuthenticated):
        redeem_ticket(ticket.text if event is not account_of_the_tenant_removed else "bt_none", now=datetime.now(UTC))


def test_a_ticket_ends_with_the_token_that_asked_for_it_and_not_with_another(scene: Scene) -> None:
    other = make_token(scene.user)
    kept = issue_ticket(actor=actor_for(scene.user, other.token), now=datetime.now(UTC))

    revoked_by_its_owner(scene)

    assert redeem_ticket(kept.text, now=datetime.now(UTC)).user_id == scene.user.pk


def test_whoever_left_a_tenant_keeps_the_token_and_loses_the_tenant(scene: Scene) -> None:
    client = scene.api(scene.issued.text)
    assert client.post("/api/v1/jobs", JOB, format="json").status_code == 201
    assert scene.api(scene.cast.alice).delete(scene.membership).status_code == 204

    assert client.get("/api/v1/whoami").json()["tenants"] == []
    assert client.get("/api/v1/jobs").json()["items"] == []
    assert client.get(f"/api/v1/tenants/{scene.cast.tenant.slug}").status_code == 404
    assert client.post("/api/v1/jobs", JOB, format="json").status_code in {404, 422}


def test_a_lower_role_acts_on_the_next_request(scene: Scene) -> None:
    client = scene.api(scene.issued.text)
    assert client.post("/api/v1/jobs", JOB, format="json").status_code == 201
    changed = scene.api(scene.cast.alice).patch(scene.membership, {"role": "viewer"}, format="json")
    assert changed.status_code == 200

    assert client.post("/api/v1/jobs", JOB, format="json").status_code == 403
    assert len(client.get("/api/v1/jobs").json()["items"]) == 1


def test_a_higher_role_elsewhere_gives_nothing_here(scene: Scene) -> None:
    Membership.objects.create(tenant=scene.cast.elsewhere, user=scene.user, role="manager", created_at=datetime.now(UTC))
    client = scene.api(scene.issued.text)

    assert client.get("/api/v1/audit", {"tenant": scene.cast.tenant.slug}).json()["items"] == []
    assert (
        client.post(f"/api/v1/tenants/{scene.cast.tenant.slug}/service-accounts", {"name": "x"}, format="json").status_code == 403
    )


def test_a_narrow_token_does_not_widen_with_the_role(scene: Scene) -> None:
    narrow = make_token(scene.user, scopes=("read",))
    scene.api(scene.cast.alice).patch(scene.membership, {"role": "manager"}, format="json")

    assert scene.api(narrow.text).post("/api/v1/jobs", JOB, format="json").status_code == 403
    assert scene.api(narrow.text).post("/api/v1/tokens", {"name": "wider"}, format="json").status_code == 403
