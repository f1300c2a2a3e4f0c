"""Bounds of users, secrets, caps and rules of queues: the largest values, the counts, and all that is wrong at once."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from activity.models import AuditEvent
from kernel.actor import TenantRole
from kernel.errors import BerthError, Conflict, Forbidden, InvalidInput, NotFound, PreconditionFailed, QuotaExceeded
from tenants import services
from tenants.bounds import SECRET_BYTES
from tenants.capacity.quota.caps import RUNTIME_MAX_SECONDS
from tenants.capacity.quota.limits import AMOUNT_MAX
from tenants.capacity.services import caps
from tenants.capacity.services import queues as queue_service
from tenants.capacity.services.caps import CapLine, set_rules, set_user_caps
from tenants.identity.services import secrets as secret_service
from tenants.models import Membership, Queue, QueueRule, Secret, User, UserCap
from tests.factories.tenants import Cast, actor_of, make_queue, make_user, top_queue

pytestmark = pytest.mark.database
NOON = datetime(2028, 2, 29, 12, tzinfo=UTC)


def wrong(call: Callable[[], Any]) -> list[tuple[str, str]]:
    with pytest.raises(InvalidInput) as found:
        call()
    return [(entry.path, entry.code) for entry in found.value.fields]


# --- Users -----------------------------------------------------------------------------------------------------------


def test_a_new_user_is_told_all_that_is_wrong(cast: Cast) -> None:
    def create(**given: Any) -> User:
        made: User = services.create_user(actor=cast.otto.actor, now=NOON, **given)
        return made

    assert wrong(lambda: create(name="Dora!", email="none", password="short")) == [
        ("/name", "bad_user_name"),
        ("/email", "bad_email"),
        ("/password", "bad_password"),
    ]
    assert wrong(lambda: create(name="dorothea", password="Dorothea-12345")) == [("/password", "weak_password")]
    assert wrong(lambda: create(name="x", email="dorothea@example.org", password="my-dorothea-1")) == [
        ("/password", "weak_password")
    ]
    assert create(name="dorothea", email="d@example.org", password="correct horse battery").email_is_confirmed


@pytest.mark.parametrize("given", [{"name": "bob"}, {"name": "robert", "email": "BOB@example.org"}])
def test_a_name_or_a_confirmed_address_belongs_to_one_user(cast: Cast, given: dict[str, str]) -> None:
    with pytest.raises(Conflict, match="name is taken" if given["name"] == "bob" else "e-mail address is taken"):
        services.create_user(actor=cast.otto.actor, now=NOON, **given)


def test_a_change_from_an_old_version_changes_nothing_and_disabling_twice_is_once(cast: Cast) -> None:
    bob = cast.bob.user
    services.update_user(actor=cast.otto.actor, user=bob, email="robert@example.org", expected_version=bob.version, now=NOON)

    with pytest.raises(PreconditionFailed):
        services.update_user(actor=cast.otto.actor, user=bob, is_active=False, expected_version=bob.version - 1, now=NOON)
    assert User.objects.get(id=bob.pk).is_active
    for _ in range(2):
        services.disable_user(actor=cast.otto.actor, user=User.objects.get(id=bob.pk), now=NOON)
    assert not User.objects.get(id=bob.pk).is_active


def test_a_password_is_changed_by_its_owner_alone_and_to_another_one(cast: Cast) -> None:
    password = "correct horse battery"
    user = make_user("paula", password=password)

    with pytest.raises(Forbidden):
        services.set_password(actor=cast.otto.actor, user=user, old=password, new="another password", now=NOON)
    same = wrong(lambda: services.set_password(actor=actor_of(user), user=user, old=password, new=password, now=NOON))
    assert same == [("/new", "same_password")]
    both = wrong(lambda: services.set_password(actor=actor_of(user), user=user, old="x" * 2_000, new="paula-paula", now=NOON))
    assert both[:2] == [("/current", "wrong_password"), ("/new", "bad_password")]
    assert User.objects.get(id=user.pk).check_password(password)


def test_nobody_makes_a_program_with_more_rights_than_their_own_or_twice_of_one_name(cast: Cast) -> None:
    Membership.objects.filter(user=cast.bob.user).update(role="manager")
    services.create_service_account(
        actor=actor_of(cast.bob.user), tenant=cast.tenant, name="ci", role=TenantRole.MANAGER, now=NOON
    )

    with pytest.raises(Conflict):
        services.create_service_account(actor=cast.alice.actor, tenant=cast.tenant, name="ci", now=NOON)
    assert wrong(lambda: services.create_service_account(actor=cast.alice.actor, tenant=cast.tenant, name="C I", now=NOON)) == [
        ("/name", "bad_user_name")
    ]
    elsewhere = services.create_service_account(actor=cast.carol.actor, tenant=cast.elsewhere, name="ci", now=NOON)
    assert elsewhere.name == f"ci@{cast.elsewhere.slug}"


# --- Secrets ---------------------------------------------------------------------------------------------------------


def put(cast: Cast, name: str = "HF_TOKEN", value: str = "x") -> bool:
    is_new: bool = services.set_secret(actor=cast.alice.actor, tenant_id=cast.tenant.pk, name=name, value=value, now=NOON)
    return is_new


def test_the_largest_secret_is_counted_in_bytes_and_not_in_characters(cast: Cast) -> None:
    assert put(cast, value="数" * (SECRET_BYTES // 3))
    assert wrong(lambda: put(cast, value="数" * (SECRET_BYTES // 3) + "xxx")) == [("/value", "too_large")]
    assert put(cast, "OTHER", "x" * SECRET_BYTES)
    assert services.decrypt_secrets(cast.tenant.pk, ["HF_TOKEN"]) == {"HF_TOKEN": "数" * (SECRET_BYTES // 3)}


def test_all_that_is_wrong_with_a_secret_is_told_at_once_and_never_its_value(cast: Cast) -> None:
    assert wrong(lambda: put(cast, "1 bad", "")) == [("/name", "bad_secret_name"), ("/value", "empty")]
    for value in ("canary\x00", "canary\ud800"):
        with pytest.raises(InvalidInput) as found:
            put(cast, value=value)
        assert [entry.code for entry in found.value.fields] == ["not_text"]
        assert "canary" not in f"{found.value} {found.value.fields}"
    assert not Secret.objects.exists()


def test_a_full_tenant_changes_the_secrets_that_it_has_and_gets_no_new_one(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret_service, "SECRETS_PER_TENANT", 1)
    assert put(cast)

    assert not put(cast, value="newer"), "it is no new one"
    with pytest.raises(QuotaExceeded):
        put(cast, "OTHER")
    services.delete_secret(actor=cast.alice.actor, tenant_id=cast.tenant.pk, name="HF_TOKEN", now=NOON)
    with pytest.raises(NotFound):
        services.delete_secret(actor=cast.alice.actor, tenant_id=cast.tenant.pk, name="HF_TOKEN", now=NOON)
    assert put(cast, "OTHER")
    assert AuditEvent.objects.filter(verb="secret.delete").count() == 1


# --- Caps and rules --------------------------------------------------------------------------------------------------


def capped(cast: Cast, *lines: CapLine) -> None:
    set_user_caps(actor=cast.alice.actor, tenant=cast.tenant, lines=lines, now=NOON)


def test_caps_of_nothing_and_of_the_most_are_caps_and_all_others_are_refused_together(cast: Cast) -> None:
    bob = cast.bob.user.pk
    capped(cast, CapLine(None, gpu_millis=0), CapLine(bob, jobs=AMOUNT_MAX))
    assert UserCap.objects.count() == 2

    found = wrong(
        lambda: capped(cast, CapLine(bob, jobs=-1), CapLine(bob, containers=AMOUNT_MAX + 1), CapLine(None), CapLine(None))
    )
    assert found == [
        ("/0/jobs", "out_of_range"),
        ("/1/user", "repeated"),
        ("/1/containers", "out_of_range"),
        ("/3/user", "repeated"),
    ]
    assert UserCap.objects.count() == 2


def test_the_same_caps_again_leave_no_row_in_the_audit_and_none_at_all_lift_them(cast: Cast) -> None:
    for _ in range(2):
        capped(cast, CapLine(None, gpu_millis=4_000))
    assert AuditEvent.objects.filter(verb="cap.edit").count() == 1
    capped(cast)
    assert not UserCap.objects.exists()
    assert AuditEvent.objects.filter(verb="cap.edit").count() == 2


def test_there_are_caps_for_so_many_people(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caps, "LINES_MAX", 1)

    assert wrong(lambda: capped(cast, CapLine(None), CapLine(cast.bob.user.pk))) == [("", "too_many")]


def ruled(cast: Cast, queue: Queue, expected_version: int | None = None, **rules: int | None) -> None:
    fresh = Queue.objects.select_related("parent").get(id=queue.pk)
    set_rules(actor=cast.otto.actor, queue=fresh, rules=rules, expected_version=expected_version, now=NOON)


def test_rules_lie_between_a_second_and_the_longest_time_and_all_that_is_wrong_is_told(cast: Cast) -> None:
    top, below = top_queue(cast.tenant), make_queue(cast.tenant, "night")

    ruled(cast, top, max_runtime_seconds=RUNTIME_MAX_SECONDS, default_runtime_seconds=1, max_jobs=0, max_containers=AMOUNT_MAX)
    found = wrong(lambda: ruled(cast, below, max_runtime_seconds=0, default_runtime_seconds=RUNTIME_MAX_SECONDS + 1, max_jobs=-1))
    assert found == [
        ("/max_runtime_seconds", "out_of_range"),
        ("/default_runtime_seconds", "out_of_range"),
        ("/max_jobs", "out_of_range"),
        ("/max_jobs", "not_top_queue"),
    ]
    assert not QueueRule.objects.filter(queue=below).exists()


def test_a_rule_that_is_not_named_stays_and_null_lifts_one(cast: Cast) -> None:
    top = top_queue(cast.tenant)
    ruled(cast, top, max_runtime_seconds=60, max_jobs=5)
    ruled(cast, top, max_jobs=None)

    row = QueueRule.objects.get(queue=top)
    assert (row.max_runtime_seconds, row.max_jobs) == (60, None)
    version = Queue.objects.get(id=top.pk).version
    with pytest.raises(PreconditionFailed):
        ruled(cast, top, version - 1, max_jobs=1)
    with pytest.raises(Conflict, match="root queue"):
        ruled(cast, Queue.objects.get(tenant__isnull=True), max_jobs=1)


# --- Queues ----------------------------------------------------------------------------------------------------------


def test_a_queue_has_a_name_of_its_own_in_its_tenant_and_a_parent_there(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    def create(name: str, parent_id: uuid.UUID | None = None) -> Queue:
        return queue_service.create_queue(
            actor=cast.alice.actor, tenant_id=cast.tenant.pk, name=name, parent_id=parent_id, now=NOON
        )

    night = create("night")
    with pytest.raises(Conflict, match="already has a queue 'night'"):
        create("night")
    assert wrong(lambda: create("day", top_queue(cast.elsewhere).pk)) == [("/parent", "not_found")]
    assert wrong(lambda: create("-day")) == [("/name", "leading_hyphen")]
    day = create("day")
    with pytest.raises(Conflict, match="already has a queue 'night'"):
        queue_service.rename_queue(actor=cast.alice.actor, queue=day, name="night", now=NOON)
    with pytest.raises(BerthError):
        queue_service.rename_queue(actor=cast.otto.actor, queue=Queue.objects.get(tenant__isnull=True), name="x", now=NOON)
    monkeypatch.setattr(queue_service, "QUEUE_DEPTH", night.path.count("/"))
    with pytest.raises(QuotaExceeded, match="deep"):
        create("deeper", night.pk)
    monkeypatch.setattr(queue_service, "QUEUES_PER_TENANT", 3)
    with pytest.raises(QuotaExceeded, match="at most 3 queues"):
        create("wider")
