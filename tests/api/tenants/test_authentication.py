from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tenants.models import Token, User
from tests.factories.tenants import Cast, make_member, make_tenant, make_token, make_user, now

if TYPE_CHECKING:
    from rest_framework.test import APIClient

pytestmark = pytest.mark.database
Api = Callable[..., "APIClient"]


def whoami(api: Api, credential: Any = None) -> Any:
    return api(credential).get("/api/v1/whoami")


def test_a_token_says_who_acts_with_inherited_roles(api: Api, cast: Cast) -> None:
    child = make_tenant("child", parent=cast.tenant)
    answer = whoami(api, cast.bob).json()

    assert answer["user"]["name"] == "bob"
    assert answer["token"]["prefix"] == cast.bob.token.split("_")[1]
    assert answer["token"]["scopes"] == ["all"]
    assert [(tenant["name"], tenant["role"], tenant["parent"]) for tenant in answer["tenants"]] == [
        ("vision", "member", None),
        (child.name, "member", cast.tenant.slug),
    ]


def test_the_stronger_of_own_and_inherited_role_counts(api: Api, cast: Cast) -> None:
    child = make_tenant("child", parent=cast.tenant)
    make_member(child, cast.bob.user, "manager")
    make_member(child, cast.alice.user, "viewer")

    assert [tenant["role"] for tenant in whoami(api, cast.bob).json()["tenants"]] == ["member", "manager"]
    assert [tenant["role"] for tenant in whoami(api, cast.alice).json()["tenants"]] == ["manager", "manager"]


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", "Basic YTpi", "Bearer garbage", "Bearer berth_000000000000_x", "Bearer " + "a" * 5000, "berth_x_y"],
)
def test_what_is_no_token_lets_nobody_in(api: Api, cast: Cast, header: str) -> None:
    client = api()
    client.credentials(HTTP_AUTHORIZATION=header)

    answer = client.get("/api/v1/whoami")

    assert answer.status_code == 401
    assert answer["Content-Type"].startswith("application/problem+json")


def test_a_token_with_the_right_prefix_and_another_secret_lets_nobody_in(api: Api, cast: Cast) -> None:
    assert whoami(api, cast.bob.token[:-1] + ("A" if cast.bob.token[-1] != "A" else "B")).status_code == 401


def test_expired_revoked_and_disabled_are_refused_each_with_its_own_words(api: Api, cast: Cast) -> None:
    expired, revoked, orphan = make_token(cast.bob.user), make_token(cast.bob.user), make_token(make_user("gone"))
    Token.objects.filter(id=expired.token.pk).update(
        created_at=now() - timedelta(days=2), expires_at=now() - timedelta(seconds=1)
    )
    Token.objects.filter(id=revoked.token.pk).update(revoked_at=now())
    User.objects.filter(name="gone").update(is_active=False)

    answers = [whoami(api, issued.text) for issued in (expired, revoked, orphan)]

    assert [answer.status_code for answer in answers] == [401] * 3
    details = [answer.json()["detail"] for answer in answers]
    assert ["expired" in details[0], "revoked" in details[1], "disabled" in details[2]] == [True] * 3
    assert len({answer.json()["hint"] for answer in answers}) == 3


def test_authentication_takes_one_query_whatever_the_number_of_tenants(cast: Cast) -> None:
    from tenants.identity.credentials import authenticate_token

    for _ in range(5):
        make_tenant(parent=cast.tenant)
    authenticate_token(cast.bob.token)
    with CaptureQueriesContext(connection) as queries:
        actor = authenticate_token(cast.bob.token)

    assert len(queries) == 1
    assert len(actor.roles) == 6


def test_last_use_is_noted_at_most_once_a_minute(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    from tenants.identity import credentials

    row = Token.objects.filter(user=cast.bob.user)
    credentials.authenticate_token(cast.bob.token)
    first = row.get().last_used_at
    credentials.authenticate_token(cast.bob.token)
    assert first is not None
    assert row.get().last_used_at == first

    monkeypatch.setattr(credentials, "LAST_USED_EVERY", timedelta(0))  # The minute is over.
    credentials.authenticate_token(cast.bob.token)
    assert row.get().last_used_at > first  # type: ignore[operator]


def test_the_digest_and_the_password_appear_in_no_answer(api: Api, cast: Cast) -> None:
    client = api(cast.otto)
    row = Token.objects.get(user=cast.otto.user)
    cast.otto.user.set_password("a long password of otto's")
    cast.otto.user.save()
    stored = [password for password in User.objects.values_list("password", flat=True) if password]
    for path in ("whoami", "tokens", "users", f"users/{cast.alice.user.pk}", f"tenants/{cast.tenant.slug}/members"):
        text = client.get(f"/api/v1/{path}").content.decode()
        assert row.digest not in text
        assert '"password"' not in text
        assert not [password for password in stored if password in text]
