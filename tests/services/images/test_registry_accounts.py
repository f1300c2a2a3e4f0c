"""Accounts at registries: sealed, used for the tenant's own images, and told apart by who may set them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from clusters.registries import references
from images import registry as registries
from images.models import RegistryAccount
from images.services.accounts import account_at, accounts_at, rotate_accounts, set_account
from kernel import config
from tests.builders.registry import PASSWORD, USER, Member, RealRegistry, registry
from tests.factories.tenants import SYSTEM, make_tenant, now

pytestmark = pytest.mark.database

HELLO = [Member("hello", b"hello\n")]


@pytest.fixture(scope="module")
def closed() -> Iterator[RealRegistry]:
    with registry(password=PASSWORD) as found:
        found.push("team/private:1", [HELLO])
        yield found


@pytest.fixture
def allowed(closed: RealRegistry) -> Iterator[RealRegistry]:
    """The registry is one that operators named, and is asked at submission."""
    before = config.current()
    config.replace(replace(before, registry_plain_hosts=closed.host, registry_seconds=5.0))
    registries.forget()
    yield closed
    config.replace(before)
    registries.forget()


def path(cast, host: str, more: str = "") -> str:
    return f"/api/v1/tenants/{cast.tenant.slug}/registries/{host}{more}"


def add(api, cast, host: str, *, password: str = PASSWORD):
    return api(cast.alice).put(path(cast, host), {"username": USER, "password": password}, format="json")


def test_an_account_is_set_replaced_listed_and_removed(api, cast, allowed) -> None:
    made = add(api, cast, allowed.host)
    assert made.status_code == 201, made.data
    assert add(api, cast, allowed.host, password="another").status_code == 200
    listed = api(cast.bob).get(f"/api/v1/tenants/{cast.tenant.slug}/registries")
    assert [(item["host"], item["username"]) for item in listed.data["items"]] == [(allowed.host, USER)]
    assert api(cast.alice).delete(path(cast, allowed.host)).status_code == 204
    assert api(cast.alice).delete(path(cast, allowed.host)).status_code == 404


def test_a_password_is_in_no_answer_row_or_audit(api, cast, allowed, django_assert_max_num_queries) -> None:
    from activity.models import AuditEvent

    answers = [add(api, cast, allowed.host), api(cast.alice).get(f"/api/v1/tenants/{cast.tenant.slug}/registries")]
    answers.append(api(cast.alice).post(path(cast, allowed.host, "/check"), {}, format="json"))
    for answer in answers:
        assert PASSWORD not in answer.content.decode()
    assert PASSWORD not in json.dumps(list(RegistryAccount.objects.values()), default=str)
    assert PASSWORD not in json.dumps(list(AuditEvent.objects.values()), default=str)
    assert account_at(cast.tenant.pk, allowed.host).password == PASSWORD  # type: ignore[union-attr]
    assert PASSWORD not in repr(account_at(cast.tenant.pk, allowed.host))


def test_who_may_do_what(api, cast, allowed) -> None:
    add(api, cast, allowed.host)
    body = {"username": USER, "password": "x"}
    assert api(cast.bob).put(path(cast, allowed.host), body, format="json").status_code == 403
    assert api(cast.otto).put(path(cast, allowed.host), body, format="json").status_code == 403
    assert api(cast.carol).put(path(cast, allowed.host), body, format="json").status_code == 404
    assert api(cast.vera).get(f"/api/v1/tenants/{cast.tenant.slug}/registries").status_code == 403
    assert api(cast.bob).post(path(cast, allowed.host, "/check"), {}, format="json").status_code == 200


def test_an_account_copied_to_another_tenant_does_not_open(cast, api, allowed) -> None:
    add(api, cast, allowed.host)
    other = make_tenant()
    row = RegistryAccount.objects.get(tenant_id=cast.tenant.pk)
    row.pk, row.tenant_id, row._state.adding = None, other.pk, True
    RegistryAccount.objects.bulk_create([RegistryAccount(tenant_id=other.pk, host=row.host, username=row.username,
        ciphertext=row.ciphertext, created_at=row.created_at, updated_at=row.updated_at)])  # fmt: skip
    assert set(accounts_at([(cast.tenant.pk, row.host), (other.pk, row.host)])) == {(cast.tenant.pk, row.host)}


def test_accounts_are_encrypted_anew_under_a_new_key(cast, api, allowed, settings) -> None:
    add(api, cast, allowed.host)
    before = RegistryAccount.objects.get().ciphertext
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "another key of the same length, for a test of rotation alone"
    assert rotate_accounts() == 1
    settings.SECRET_KEY_FALLBACKS = []
    assert RegistryAccount.objects.get().ciphertext != before
    assert account_at(cast.tenant.pk, allowed.host).password == PASSWORD  # type: ignore[union-attr]


def test_a_check_says_what_the_registry_says(api, cast, allowed) -> None:
    add(api, cast, allowed.host)
    url = path(cast, allowed.host, "/check")
    good = api(cast.bob).post(url, {"image": f"{allowed.host}/team/private:1"}, format="json")
    assert (good.data["ok"], good.data["code"], good.data["digest"][:7]) == (True, None, "sha256:")
    gone = api(cast.bob).post(url, {"image": f"{allowed.host}/team/private:9"}, format="json")
    assert (gone.data["ok"], gone.data["code"]) == (False, "image_absent")
    chinese = api(cast.bob).post(url, {"image": f"{allowed.host}/team/private:9"}, format="json", HTTP_ACCEPT_LANGUAGE="zh")
    assert chinese.data["title"] == "镜像仓库中没有该镜像"
    elsewhere = api(cast.bob).post(url, {"image": "registry.example.org/team/private:1"}, format="json")
    assert elsewhere.status_code == 422
    add(api, cast, allowed.host, password="wrong")
    refused = api(cast.bob).post(url, {}, format="json")
    assert (refused.data["ok"], refused.data["code"]) == (False, "image_denied")


def test_a_registry_that_keeps_checks_waiting_takes_few_threads(api, cast, allowed, monkeypatch) -> None:
    """Whoever may see an account may check it: of a registry that does not answer, each check holds a thread of the server."""
    add(api, cast, allowed.host)
    url = path(cast, allowed.host, "/check")
    monkeypatch.setattr(registries, "WAITING_SECONDS", 0.0)
    assert api(cast.bob).post(url, {}, format="json").data["code"] is None, "the first of a minute waits"
    assert api(cast.bob).post(url, {}, format="json").data["code"] == "registry_timeout"
    registries.forget()
    asked = []

    def slow(host: str, account: object) -> None:
        asked.append(registries._waiting[cast.tenant.pk])
        registries.check_account(tenant_id=cast.tenant.pk, host=host)

    monkeypatch.setattr(registries, "WAITING_SECONDS", 20.0)
    monkeypatch.setattr(registries, "_check", slow)
    assert api(cast.bob).post(url, {}, format="json").data["code"] == "registry_timeout"
    assert asked == list(range(1, registries.WAITING_AT_ONCE_MAX + 1))
    assert not registries._waiting, "each place is given back"


def test_of_an_image_only_what_is_asked_for_is_remembered(cast, allowed) -> None:
    """Its maker may have written megabytes into it, and ten thousand are remembered."""
    allowed.push("team/large:1", [HELLO], env=[f"V{number}={'x' * 30_000}" for number in range(50)] + ["CUDA_VERSION=12.4.1"])
    reference = references.parse(f"{allowed.host}/team/large:1")
    assert reference is not None
    set_account(actor=SYSTEM, tenant_id=cast.tenant.pk, host=allowed.host, username=USER, password=PASSWORD, now=now())
    found = registries.look_up(tenant_id=cast.tenant.pk, reference=reference)
    assert found.cuda == "cuda>=12.0"
    assert len(repr(found)) < 1_000


@pytest.mark.parametrize(
    ("host", "body", "where"),
    [
        ("bad host", {"username": "a", "password": "b"}, "/host"),
        ("169.254.169.254:22", {"username": "a", "password": "b"}, "/host"),
        ("registry.example.org", {"username": "a:b", "password": "b"}, "/username"),
        ("registry.example.org", {"username": "a", "password": "b\r\nX-Injected: 1"}, "/password"),
    ],
)
def test_bad_accounts_are_refused_with_their_fields(api, cast, host: str, body: dict[str, str], where: str) -> None:
    answer = api(cast.alice).put(path(cast, host), body, format="json")
    assert answer.status_code == 422, answer.content
    assert where in {field["path"] for field in answer.json()["fields"]}
