from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tenants.models import Membership, Queue, Tenant
from tests.factories.tenants import Cast, make_member, make_tenant, make_user

if TYPE_CHECKING:
    from rest_framework.test import APIClient

pytestmark = pytest.mark.database
Api = Callable[..., "APIClient"]
ROOT = "/api/v1/tenants"


def test_everybody_lists_what_they_belong_to_and_operators_all(api: Api, cast: Cast) -> None:
    names = {
        person: [item["name"] for item in api(getattr(cast, person)).get(ROOT).json()["items"]]
        for person in ("alice", "vera", "carol", "otto")
    }

    assert names == {"alice": ["vision"], "vera": ["vision"], "carol": ["elsewhere"], "otto": ["elsewhere", "vision"]}


def test_a_tenant_is_found_by_slug_id_and_name(api: Api, cast: Cast) -> None:
    for text in (cast.tenant.slug, cast.tenant.pk, "vision"):
        answer = api(cast.bob).get(f"{ROOT}/{text}")
        assert answer.json()["slug"] == cast.tenant.slug
        assert answer["ETag"] == '"1"'


def test_a_name_that_two_visible_tenants_bear_is_not_guessed(api: Api, cast: Cast) -> None:
    make_member(make_tenant("vision", parent=cast.elsewhere), cast.bob.user)

    assert api(cast.bob).get(f"{ROOT}/vision").status_code == 404
    assert api(cast.alice).get(f"{ROOT}/vision").status_code == 200


def test_another_tenant_does_not_exist(api: Api, cast: Cast) -> None:
    for text in (cast.tenant.slug, cast.tenant.pk, "vision"):
        missing = api(cast.carol).get(f"{ROOT}/{text}").json()
        assert missing["status"] == 404
        assert api(cast.carol).patch(f"{ROOT}/{text}", {"description": "mine"}).status_code == 404


def test_operators_create_at_the_top_and_become_managers(api: Api, cast: Cast) -> None:
    answer = api(cast.otto).post(ROOT, {"name": "语音"}, format="json")

    assert answer.status_code == 201
    assert answer.json()["role"] == "manager"
    tenant = Tenant.objects.get(name="语音")
    assert tenant.number > cast.elsewhere.number
    assert len(tenant.slug) == 10
    assert Queue.objects.get(tenant=tenant).is_top


def test_managers_create_below_themselves_only(api: Api, cast: Cast) -> None:
    child = api(cast.alice).post(ROOT, {"name": "child", "parent": "vision"}, format="json")
    assert child.status_code == 201
    assert child.json()["parent"]["slug"] == cast.tenant.slug
    assert child.json()["role"] == "manager"

    assert api(cast.alice).post(ROOT, {"name": "top"}, format="json").status_code == 403
    assert api(cast.bob).post(ROOT, {"name": "x", "parent": "vision"}, format="json").status_code == 403
    assert api(cast.carol).post(ROOT, {"name": "x", "parent": cast.tenant.slug}, format="json").status_code == 404


def test_the_parent_is_not_told_to_who_does_not_see_it(api: Api, cast: Cast) -> None:
    child = make_tenant("child", parent=cast.tenant)
    make_member(child, cast.carol.user, "viewer")

    assert api(cast.carol).get(f"{ROOT}/{child.slug}").json()["parent"] is None
    assert api(cast.bob).get(f"{ROOT}/{child.slug}").json()["parent"]["name"] == "vision"


def test_a_taken_name_is_a_conflict_only_among_siblings(api: Api, cast: Cast) -> None:
    client = api(cast.otto)

    assert client.post(ROOT, {"name": "vision"}, format="json").status_code == 409
    assert client.post(ROOT, {"name": "vision", "parent": "elsewhere"}, format="json").status_code == 201


@pytest.mark.parametrize("name", ["", " x", "a/b", "a\tb", "x" * 64, "0190b1a2-0000-7000-8000-000000000000"])
def test_a_bad_name_is_refused_with_its_place(api: Api, cast: Cast, name: str) -> None:
    answer = api(cast.otto).post(ROOT, {"name": name}, format="json")

    assert answer.status_code == 422
    assert answer.json()["fields"][0]["path"] == "/name"


def test_tenants_nest_eight_deep(api: Api, cast: Cast) -> None:
    parent = cast.tenant
    for _ in range(7):
        parent = make_tenant(parent=parent)

    answer = api(cast.alice).post(ROOT, {"name": "too deep", "parent": parent.slug}, format="json")

    assert (answer.status_code, answer.json()["code"]) == (422, "quota_exceeded")


def test_renaming_needs_the_version_that_was_read(api: Api, cast: Cast) -> None:
    client = api(cast.alice)
    path = f"{ROOT}/{cast.tenant.slug}"

    renamed = client.patch(path, {"name": "sight"}, format="json", headers={"If-Match": '"1"'})
    late = client.patch(path, {"name": "eyes"}, format="json", headers={"If-Match": '"1"'})

    assert (renamed.status_code, renamed["ETag"], late.status_code) == (200, '"2"', 412)
    cast.tenant.refresh_from_db()
    assert cast.tenant.name == "sight"
    assert Queue.objects.get(tenant=cast.tenant, is_top=True).name == "sight"


@pytest.mark.parametrize("person", ["bob", "vera"])
def test_only_managers_rename(api: Api, cast: Cast, person: str) -> None:
    assert api(getattr(cast, person)).patch(f"{ROOT}/vision", {"name": "x"}, format="json").status_code == 403


def test_creating_twice_with_one_key_makes_one_tenant(api: Api, cast: Cast) -> None:
    client = api(cast.otto)
    answers = [client.post(ROOT, {"name": "once"}, format="json", headers={"Idempotency-Key": "k1"}) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [201, 201]
    assert answers[0].json() == answers[1].json()
    assert Tenant.objects.filter(name="once").count() == 1


# --- Members ---------------------------------------------------------------------------------------------------------


def members(cast: Cast) -> str:
    return f"{ROOT}/{cast.tenant.slug}/members"


def test_members_are_listed_to_members_with_addresses_for_managers(api: Api, cast: Cast) -> None:
    seen = {
        person: [
            (item["user"]["name"], item["user"]["email"])
            for item in api(getattr(cast, person)).get(members(cast)).json()["items"]
        ]
        for person in ("alice", "vera")
    }

    assert seen["alice"] == [("alice", "alice@example.org"), ("bob", "bob@example.org"), ("vera", "vera@example.org")]
    assert seen["vera"] == [("alice", None), ("bob", None), ("vera", "vera@example.org")]
    assert api(cast.carol).get(members(cast)).status_code == 404


def test_a_manager_adds_only_whom_they_see(api: Api, cast: Cast) -> None:
    make_member(cast.elsewhere, cast.alice.user, "viewer")
    stranger = make_user("stranger")

    added = api(cast.alice).post(members(cast), {"user": "carol", "role": "viewer"}, format="json")
    unknown = api(cast.alice).post(members(cast), {"user": "nobody", "role": "viewer"}, format="json")
    unseen = api(cast.alice).post(members(cast), {"user": "stranger", "role": "viewer"}, format="json")

    assert added.status_code == 201
    assert (unknown.status_code, unseen.status_code) == (404, 404)
    assert unknown.json()["detail"].replace("nobody", "stranger") == unseen.json()["detail"]
    assert not Membership.objects.filter(user=stranger).exists()


@pytest.mark.parametrize(("person", "status"), [("bob", 403), ("vera", 403), ("carol", 404)])
def test_others_add_nobody(api: Api, cast: Cast, person: str, status: int) -> None:
    answer = api(getattr(cast, person)).post(members(cast), {"user": person, "role": "manager"}, format="json")

    assert answer.status_code == status


def test_an_operator_appoints_others_but_not_themselves(api: Api, cast: Cast) -> None:
    client = api(cast.otto)

    assert client.post(members(cast), {"user": "carol", "role": "manager"}, format="json").status_code == 201
    assert client.post(members(cast), {"user": "otto", "role": "viewer"}, format="json").status_code == 403


def test_the_last_manager_stays(api: Api, cast: Cast) -> None:
    client = api(cast.alice)
    mine, bobs = f"{members(cast)}/{cast.alice.user.pk}", f"{members(cast)}/{cast.bob.user.pk}"

    assert client.patch(mine, {"role": "viewer"}, format="json").status_code == 409
    assert client.delete(mine).status_code == 409
    assert client.patch(bobs, {"role": "manager"}, format="json").status_code == 200
    assert client.delete(mine).status_code == 204
    assert client.get(members(cast)).status_code == 404


def test_anybody_leaves_by_themselves_and_removes_nobody_else(api: Api, cast: Cast) -> None:
    client = api(cast.bob)

    assert client.delete(f"{members(cast)}/{cast.vera.user.pk}").status_code == 403
    assert client.delete(f"{members(cast)}/{cast.bob.user.pk}").status_code == 204


def test_a_member_of_another_tenant_is_not_reached_through_ones_own(api: Api, cast: Cast) -> None:
    path = f"{ROOT}/elsewhere/members/{cast.bob.user.pk}"

    assert api(cast.carol).patch(path, {"role": "viewer"}, format="json").status_code == 404
    assert api(cast.carol).delete(path).status_code == 404


# --- Secrets ---------------------------------------------------------------------------------------------------------

CANARY = "canary-7f3a-value"


def secrets(cast: Cast) -> str:
    return f"{ROOT}/{cast.tenant.slug}/secrets"


def test_a_secret_is_written_listed_by_name_and_deleted(api: Api, cast: Cast) -> None:
    client = api(cast.alice)

    assert client.put(f"{secrets(cast)}/HF_TOKEN", {"value": CANARY}, format="json").status_code == 201
    assert client.put(f"{secrets(cast)}/HF_TOKEN", {"value": CANARY + "2"}, format="json").status_code == 200
    listed = api(cast.bob).get(secrets(cast))
    assert [item["name"] for item in listed.json()["items"]] == ["HF_TOKEN"]
    assert CANARY not in listed.content.decode()
    assert client.delete(f"{secrets(cast)}/HF_TOKEN").status_code == 204
    assert client.delete(f"{secrets(cast)}/HF_TOKEN").status_code == 404


@pytest.mark.parametrize(
    ("person", "listing", "writing"), [("bob", 200, 403), ("vera", 403, 403), ("carol", 404, 404), ("otto", 403, 403)]
)
def test_secrets_are_for_their_tenant_alone_also_before_operators(
    api: Api, cast: Cast, person: str, listing: int, writing: int
) -> None:
    client = api(getattr(cast, person))

    assert client.get(secrets(cast)).status_code == listing
    assert client.put(f"{secrets(cast)}/X", {"value": "v"}, format="json").status_code == writing
    assert client.delete(f"{secrets(cast)}/X").status_code == writing


@pytest.mark.parametrize(("name", "value"), [("1X", "v"), ("A B", "v"), ("X", ""), ("X", "x" * 65537), ("X" * 129, "v")])
def test_a_bad_secret_is_refused_without_repeating_its_value(api: Api, cast: Cast, name: str, value: str) -> None:
    answer = api(cast.alice).put(f"{secrets(cast)}/{name}", {"value": value}, format="json")

    assert answer.status_code == 422
    assert "x" * 100 not in answer.content.decode()


# --- Service accounts ------------------------------------------------------------------------------------------------


def test_a_service_account_gets_a_token_from_its_manager_and_works_in_its_tenant(api: Api, cast: Cast) -> None:
    accounts = f"{ROOT}/{cast.tenant.slug}/service-accounts"
    made = api(cast.alice).post(accounts, {"name": "ci"}, format="json")
    assert made.status_code == 201
    assert made.json()["name"] == f"ci@{cast.tenant.slug}"

    token = api(cast.alice).post("/api/v1/tokens", {"name": "ci", "service_account": made.json()["id"]}, format="json")
    who = api(token.json()["token"]).get("/api/v1/whoami").json()
    assert (who["user"]["kind"], [tenant["name"] for tenant in who["tenants"]]) == ("service", ["vision"])

    assert api(cast.bob).get(accounts).json()["items"][0]["name"] == made.json()["name"]
    assert api(cast.alice).delete(f"{accounts}/{made.json()['id']}").status_code == 204
    assert api(token.json()["token"]).get("/api/v1/whoami").status_code == 401


@pytest.mark.parametrize(("person", "status"), [("bob", 403), ("vera", 403), ("carol", 404), ("otto", 403)])
def test_others_make_no_service_account(api: Api, cast: Cast, person: str, status: int) -> None:
    answer = api(getattr(cast, person)).post(f"{ROOT}/{cast.tenant.slug}/service-accounts", {"name": "x"}, format="json")

    assert answer.status_code == status
