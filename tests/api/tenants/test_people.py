from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.apps import apps

from activity.models import AuditEvent
from kernel.config import current
from tenants.models import Invitation, Membership, Token, User
from tests.factories.tenants import Cast, make_service_account, make_token, make_user, now

if TYPE_CHECKING:
    from rest_framework.test import APIClient

pytestmark = pytest.mark.database
Api = Callable[..., "APIClient"]
TOKENS, USERS, INVITATIONS = "/api/v1/tokens", "/api/v1/users", "/api/v1/invitations"
PASSWORD = "correct horse battery"


# --- Tokens ----------------------------------------------------------------------------------------------------------


def test_a_token_is_shown_once_and_works(api: Api, cast: Cast) -> None:
    made = api(cast.bob).post(TOKENS, {"name": "laptop"}, format="json")

    assert made.status_code == 201
    assert api(made.json()["token"]).get("/api/v1/whoami").json()["token"]["name"] == "laptop"
    assert made.json()["token"] not in api(cast.bob).get(TOKENS).content.decode()
    assert Token.objects.get(name="laptop").expires_at - now() > timedelta(days=89)


def test_a_narrow_token_makes_no_wider_one(api: Api, cast: Cast) -> None:
    narrow = api(make_token(cast.alice.user, scopes=("account", "jobs")).text)

    assert narrow.post(TOKENS, {"name": "a", "scopes": ["jobs"]}, format="json").status_code == 201
    inherited = narrow.post(TOKENS, {"name": "b"}, format="json")
    assert inherited.json()["scopes"] == ["account", "jobs", "read"]
    for scopes in (["all"], ["tenant"], ["jobs", "tenant"]):
        refused = narrow.post(TOKENS, {"name": "c", "scopes": scopes}, format="json")
        assert refused.status_code == 422
        assert refused.json()["fields"][0]["code"] == "beyond_own"


def test_a_token_does_only_what_its_scopes_say(api: Api, cast: Cast) -> None:
    reader = api(make_token(cast.alice.user, scopes=("read",)).text)

    assert reader.get("/api/v1/tenants/vision").status_code == 200
    assert reader.patch("/api/v1/tenants/vision", {"description": "x"}, format="json").status_code == 403
    assert reader.post(TOKENS, {"name": "x"}, format="json").status_code == 403
    assert reader.delete(f"/api/v1/tenants/vision/members/{cast.bob.user.pk}").status_code == 403


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"name": ""}, "/name"),
        ({"name": "x", "scopes": ["root"]}, "/scopes/0"),
        ({"name": "x", "expires_at": "2001-01-01T00:00:00Z"}, "/expires_at"),
        ({"name": "x", "expires_at": "2999-01-01T00:00:00Z"}, "/expires_at"),
        ({"name": "x", "expires_at": "soon"}, "/expires_at"),
        ({"name": "x", "user": "alice"}, "/user"),
    ],
)
def test_a_bad_token_is_refused_with_its_place(api: Api, cast: Cast, body: dict[str, Any], path: str) -> None:
    answer = api(cast.bob).post(TOKENS, body, format="json")

    assert (answer.status_code, answer.json()["fields"][0]["path"]) == (422, path)


def test_nobody_makes_or_ends_tokens_of_somebody_else(api: Api, cast: Cast) -> None:
    account = make_service_account(cast.tenant)
    victim = make_token(cast.bob.user)

    assert api(cast.alice).post(TOKENS, {"name": "x", "service_account": str(cast.bob.user.pk)}, format="json").status_code == 403
    assert api(cast.bob).post(TOKENS, {"name": "x", "service_account": account.name}, format="json").status_code == 403
    assert api(cast.carol).post(TOKENS, {"name": "x", "service_account": account.name}, format="json").status_code == 404
    for person in (cast.alice, cast.carol):
        assert api(person).delete(f"{TOKENS}/{victim.token.pk}").status_code == 404


def test_an_operator_finds_and_ends_one_token_of_somebody(api: Api, cast: Cast) -> None:
    """One that leaked, while its owner works on; in the operator's own list it does not stand."""
    leaked, kept = (make_token(cast.bob.user) for _ in range(2))

    def listed(person: Any, **query: str) -> set[str]:
        return {item["id"] for item in api(person).get(TOKENS, query).json()["items"]}

    ids = {str(leaked.token.pk), str(kept.token.pk)}
    for name in ("bob", str(cast.bob.user.pk)):
        assert ids <= listed(cast.otto, user=name)
    assert not ids & listed(cast.otto)
    assert listed(cast.bob) == listed(cast.bob, user="bob")
    assert listed(cast.alice, user="bob") == set()
    nobody = api(cast.otto).get(TOKENS, {"user": "nobody"})
    assert (nobody.status_code, nobody.json()["fields"][0]["path"]) == (422, "/user")

    assert api(cast.otto).delete(f"{TOKENS}/{leaked.token.pk}").status_code == 204
    assert api(leaked.text).get("/api/v1/whoami").status_code == 401
    assert api(kept.text).get("/api/v1/whoami").status_code == 200
    entry = AuditEvent.objects.get(verb="token.delete")
    assert (entry.actor_id, entry.target_id) == (cast.otto.user.pk, str(leaked.token.pk))


def test_a_revoked_token_ends_at_once_and_revoking_twice_is_harmless(api: Api, cast: Cast) -> None:
    token = make_token(cast.bob.user)
    path = f"{TOKENS}/{token.token.pk}"

    assert [api(cast.bob).delete(path).status_code for _ in range(2)] == [204, 204]
    assert api(token.text).get("/api/v1/whoami").status_code == 401


# --- Users -----------------------------------------------------------------------------------------------------------


def test_people_see_themselves_and_whoever_shares_a_tenant(api: Api, cast: Cast) -> None:
    seen = {
        person: [(item["name"], item["email"]) for item in api(getattr(cast, person)).get(USERS).json()["items"]]
        for person in ("bob", "carol", "otto")
    }

    assert seen["bob"] == [("alice", None), ("bob", "bob@example.org"), ("vera", None)]
    assert seen["carol"] == [("carol", "carol@example.org")]
    assert len(seen["otto"]) == 5


def test_only_operators_create_users(api: Api, cast: Cast) -> None:
    body = {"name": "dave", "email": "dave@example.org"}

    assert api(cast.alice).post(USERS, body, format="json").status_code == 403
    assert api(cast.otto).post(USERS, body, format="json").status_code == 201
    assert api(cast.otto).post(USERS, body, format="json").status_code == 409
    assert not User.objects.get(name="dave").has_usable_password()


@pytest.mark.parametrize("field", ["is_operator", "is_active"])
def test_nobody_promotes_or_enables_themselves(api: Api, cast: Cast, field: str) -> None:
    answer = api(cast.alice).patch(f"{USERS}/{cast.alice.user.pk}", {field: True}, format="json")

    assert answer.status_code == 403


def test_a_disabled_user_is_out_at_once(api: Api, cast: Cast) -> None:
    disabled = api(cast.otto).patch(f"{USERS}/{cast.bob.user.pk}", {"is_active": False}, format="json")

    assert disabled.json()["is_active"] is False
    assert api(cast.bob).get("/api/v1/whoami").status_code == 401
    enabled = api(cast.otto).patch(f"{USERS}/{cast.bob.user.pk}", {"is_active": True}, format="json")
    assert enabled.json()["is_active"] is True
    assert api(cast.bob).get("/api/v1/whoami").status_code == 401, "old tokens stay revoked"


def test_operators_do_not_disable_themselves(api: Api, cast: Cast) -> None:
    assert api(cast.otto).patch(f"{USERS}/{cast.otto.user.pk}", {"is_active": False}, format="json").status_code == 409


def test_people_change_their_own_address_but_not_that_of_others(api: Api, cast: Cast) -> None:
    client = api(cast.bob)

    assert client.patch(f"{USERS}/{cast.bob.user.pk}", {"email": "b@example.org"}, format="json").status_code == 200
    shown = client.get(f"{USERS}/{cast.bob.user.pk}").json()
    assert (shown["email"], shown["email_is_confirmed"]) == ("b@example.org", False)
    assert client.patch(f"{USERS}/{cast.vera.user.pk}", {"email": "v@example.org"}, format="json").status_code == 403
    assert client.patch(f"{USERS}/{cast.carol.user.pk}", {"email": "v@example.org"}, format="json").status_code == 404


MODEL_FIELDS = (
    "id", "password", "is_operator", "is_active", "kind", "tenant", "tenant_id", "version",
    "created_at", "digest", "prefix", "user", "user_id", "role", "number", "slug",
    "ciphertext", "last_used_at", "revoked_at", "accepted_by", "path", "is_top", "queue_id",
)  # fmt: skip


def test_no_write_takes_a_field_that_belongs_to_the_server(api: Api, cast: Cast) -> None:
    client = api(cast.alice)
    writes: list[tuple[str, str, dict[str, Any]]] = [
        ("post", "/api/v1/tenants", {"name": "x", "parent": "vision"}),
        ("patch", "/api/v1/tenants/vision", {"description": "x"}),
        ("post", "/api/v1/tenants/vision/members", {"user": "vera", "role": "viewer"}),
        ("patch", f"/api/v1/tenants/vision/members/{cast.bob.user.pk}", {"role": "viewer"}),
        ("put", "/api/v1/tenants/vision/secrets/X", {"value": "v"}),
        ("post", "/api/v1/tenants/vision/service-accounts", {"name": "x"}),
        ("patch", f"{USERS}/{cast.alice.user.pk}", {"email": "a@example.org"}),
        ("post", TOKENS, {"name": "x"}),
        ("post", INVITATIONS, {"email": "x@example.org", "tenant": "vision"}),
        ("post", "/api/v1/queues", {"name": "x", "tenant": "vision"}),
    ]
    for method, path, body in writes:
        for field in MODEL_FIELDS:
            if field in body or (path == f"{USERS}/{cast.alice.user.pk}" and field in ("is_operator", "is_active")):
                continue
            if (field in ("tenant", "role") and path == INVITATIONS) or (field == "role" and "service" in path):
                continue
            if field == "tenant" and path == "/api/v1/queues":
                continue
            answer = getattr(client, method)(path, {**body, field: "1"}, format="json")
            assert answer.status_code == 422, (method, path, field)
            assert f"/{field}" in [entry["path"] for entry in answer.json()["fields"]]


# --- Invitations -----------------------------------------------------------------------------------------------------


def invite(api: Api, person: Any, **body: Any) -> Any:
    return api(person).post(INVITATIONS, {"email": "new@example.org", "tenant": "vision", **body}, format="json")


def accept(api: Api, token: str, credential: Any = None, **body: Any) -> Any:
    return api(credential).post(f"{INVITATIONS}:accept", {"token": token, **body}, format="json")


def test_an_invited_person_gets_an_account_a_role_and_a_token_once(api: Api, cast: Cast) -> None:
    invited = invite(api, cast.alice, role="viewer").json()
    accepted = accept(api, invited["token"], name="nina", password=PASSWORD)

    assert accepted.status_code == 201
    assert invited["command"] == f"berth users accept --server {current().url}"
    assert "url" not in invited
    token = accepted.json()["token"]
    assert (token["scopes"], token["name"]) == (["all"], "first token")
    assert datetime.fromisoformat(token["expires_at"]) - datetime.fromisoformat(token["created_at"]) == timedelta(days=90)
    who = api(accepted.json()["token"]["token"]).get("/api/v1/whoami").json()
    assert [(tenant["name"], tenant["role"]) for tenant in who["tenants"]] == [("vision", "viewer")]
    assert User.objects.get(name="nina").check_password(PASSWORD)
    assert accept(api, invited["token"], name="nora", password=PASSWORD).status_code == 404
    assert api(cast.alice).get(INVITATIONS).json()["items"][0]["state"] == "accepted"


def test_the_first_token_is_in_the_audit_log_without_its_secret(api: Api, cast: Cast) -> None:
    invited = invite(api, cast.alice).json()
    accepted = accept(api, invited["token"], name="nina", password=PASSWORD).json()

    row = apps.get_model("activity.AuditEvent").objects.get(verb="invitation.accept")
    assert row.after["first_token"]["prefix"] == accepted["token"]["prefix"]
    assert row.after["first_token"]["scopes"] == ["all"]
    assert not [secret for secret in (invited["token"], accepted["token"]["token"], PASSWORD) if secret in str(row.after)]


@pytest.mark.parametrize("password", ["", "x", "short-enough", "aaaaaaaaaaaaaaaa", "nina-nina-ni"])
def test_a_weak_password_is_refused_and_the_invitation_stays_open(api: Api, cast: Cast, password: str) -> None:
    invited = invite(api, cast.alice).json()
    refused = accept(api, invited["token"], name="nina", password=password if password != "short-enough" else "short-enoug")

    assert refused.status_code == 422
    assert accept(api, invited["token"], name="nina", password=PASSWORD).status_code == 201


def test_somebody_signed_in_accepts_for_their_own_account(api: Api, cast: Cast) -> None:
    User.objects.filter(id=cast.carol.user.pk).update(email="carol@example.org")
    invited = invite(api, cast.alice, email="Carol@example.org").json()

    assert accept(api, invited["token"], cast.carol, name="x", password=PASSWORD).status_code == 422
    accepted = accept(api, invited["token"], cast.carol)
    assert accepted.json()["token"] is None
    assert Membership.objects.get(tenant=cast.tenant, user=cast.carol.user).role == "member"


def test_an_invitation_takes_no_role_away(api: Api, cast: Cast) -> None:
    User.objects.filter(id=cast.alice.user.pk).update(email="alice@example.org")
    invited = invite(api, cast.alice, role="viewer", email="alice@example.org").json()
    assert accept(api, invited["token"], cast.alice).status_code == 201

    assert Membership.objects.get(tenant=cast.tenant, user=cast.alice.user).role == "manager"


def test_a_managers_invitation_does_not_take_up_an_existing_account(api: Api, cast: Cast) -> None:
    make_user("imported", email="imported@example.org")
    by_manager = invite(api, cast.alice, email="imported@example.org").json()
    by_operator = invite(api, cast.otto, email="Imported@example.org").json()

    assert accept(api, by_manager["token"], name="imported", password=PASSWORD).status_code == 409
    assert accept(api, by_operator["token"], name="another", password=PASSWORD).status_code == 409
    assert accept(api, by_operator["token"], name="imported", password=PASSWORD).status_code == 201


def test_an_account_with_a_password_is_never_taken_up(api: Api, cast: Cast) -> None:
    make_user("owner", email="owner@example.org", password=PASSWORD)
    invited = invite(api, cast.otto, email="owner@example.org").json()

    assert accept(api, invited["token"], name="owner", password="another password!").status_code == 409
    assert User.objects.get(name="owner").check_password(PASSWORD)


def test_withdrawn_expired_and_invented_invitations_open_nothing(api: Api, cast: Cast) -> None:
    withdrawn, expired = invite(api, cast.alice).json(), invite(api, cast.alice).json()
    assert api(cast.alice).delete(f"{INVITATIONS}/{withdrawn['id']}").status_code == 204
    Invitation.objects.filter(id=expired["id"]).update(expires_at=now() - timedelta(seconds=1))

    for token in (withdrawn["token"], expired["token"], "bi_invented"):
        assert accept(api, token, name="nina", password=PASSWORD).status_code == 404


@pytest.mark.parametrize(("person", "status"), [("bob", 403), ("vera", 403), ("carol", 404), ("otto", 201)])
def test_managers_and_operators_invite(api: Api, cast: Cast, person: str, status: int) -> None:
    invited = invite(api, getattr(cast, person), tenant=cast.tenant.slug)

    assert invited.status_code == status


def test_invitations_of_another_tenant_do_not_exist(api: Api, cast: Cast) -> None:
    invited = invite(api, cast.alice).json()

    assert api(cast.carol).get(INVITATIONS).json()["items"] == []
    assert api(cast.carol).delete(f"{INVITATIONS}/{invited['id']}").status_code == 404
    assert api(cast.bob).delete(f"{INVITATIONS}/{invited['id']}").status_code == 404


# --- Import ----------------------------------------------------------------------------------------------------------


def post_csv(api: Api, person: Any, text: str, query: str = "") -> Any:
    return api(person).post(f"{USERS}:import{query}", text.encode(), content_type="text/csv")


def test_a_file_is_imported_once_and_the_second_time_nothing_changes(api: Api, cast: Cast) -> None:
    text = (
        f"name,email,tenant,role\ndora,dora@example.org,vision,member\nemil,,,\nbob,bob@example.org,{cast.tenant.slug},viewer\n"
    )
    dry = post_csv(api, cast.otto, text, "?dry_run=true").json()
    assert not User.objects.filter(name="dora").exists()

    first, second = post_csv(api, cast.otto, text).json(), post_csv(api, cast.otto, text).json()

    assert {key: dry[key] for key in ("created", "updated")} == {"created": 2, "updated": 1}
    assert [line["action"] for line in first["lines"]] == ["created", "created", "updated"]
    assert {line["action"] for line in second["lines"]} == {"unchanged"}
    assert Membership.objects.get(user__name="dora").role == "member"


def test_all_errors_of_a_file_come_at_once_and_nothing_is_written(api: Api, cast: Cast) -> None:
    text = "\n".join(
        [
            "name,email,tenant,role",
            "OK,no-address,vision,boss",
            "fine,fine@example.org,nowhere,member",
            "fine,other@example.org,vision,",
        ]
    )
    answer = post_csv(api, cast.otto, text)

    assert answer.status_code == 422
    assert {entry["path"] for entry in answer.json()["fields"]} == {
        "/lines/2/name",
        "/lines/2/email",
        "/lines/2/role",
        "/lines/3/tenant",
        "/lines/4/role",
        "/lines/4/email",
    }
    assert not User.objects.filter(name="fine").exists()


@pytest.mark.parametrize(
    "body", [b"\xff\xfe", b"a,b\n1,2\n", b"", b'name,email,tenant,role\n"open\n', b"name,email,tenant,role\nx\x00y,,,\n"]
)
def test_what_is_no_such_file_is_refused(api: Api, cast: Cast, body: bytes) -> None:
    answer = api(cast.otto).post(f"{USERS}:import", body, content_type="text/csv")

    assert answer.status_code == 422


def test_only_operators_import(api: Api, cast: Cast) -> None:
    assert post_csv(api, cast.alice, "name,email,tenant,role\n").status_code == 403


def test_a_code_says_what_it_is_for_and_is_not_used_up_by_that(api: Api, cast: Cast) -> None:
    invited = invite(api, cast.alice, email="nina@example.org", role="viewer").json()

    for _ in range(2):
        told = api().post(f"{INVITATIONS}:read", {"token": invited["token"]}, format="json")
        assert told.status_code == 200
        assert (told.json()["tenant"]["slug"], told.json()["role"]) == (cast.tenant.slug, "viewer")
        assert (told.json()["email"], told.json()["invited_by"]["name"]) == ("nina@example.org", cast.alice.user.name)
        assert told.json()["name"] is None, "whoever has no account chooses a name"
    assert accept(api, invited["token"], name="nina", password=PASSWORD).status_code == 201
    assert api().post(f"{INVITATIONS}:read", {"token": invited["token"]}, format="json").status_code == 404


def test_a_code_tells_the_name_of_an_account_only_to_whom_it_may_be_given(api: Api, cast: Cast) -> None:
    make_user("imported", email="imported@example.org")
    names = []
    for person in (cast.alice, cast.otto):
        token = invite(api, person, email="imported@example.org").json()["token"]
        names.append(api().post(f"{INVITATIONS}:read", {"token": token}, format="json").json()["name"])

    assert names == [None, "imported"], "a manager's invitation does not find out who has an account"


def test_joining_in_a_browser_leaves_no_token_behind(api: Api, cast: Cast) -> None:
    invited = invite(api, cast.alice).json()
    joined = accept(api, invited["token"], name="nina", password=PASSWORD, with_token=False)

    assert joined.status_code == 201
    assert joined.json()["token"] is None
    assert not Token.objects.filter(user__name="nina").exists()
