"""Tokens, members, secrets and standing in their services: days, bounds, roles, versions, audit rows and events."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from activity.models import AuditEvent, Event
from kernel.actor import ANONYMOUS, Actor, TenantRole
from kernel.errors import BerthError, Conflict, Forbidden, InvalidInput, NotAuthenticated, NotFound, QuotaExceeded, Unavailable
from tenants.identity.permissions import Scope
from tenants.identity.services import tokens
from tenants.identity.services.members import add_member, change_role, remove_member
from tenants.identity.services.secrets import decrypt_secrets, delete_secret, missing_secrets, rotate_secrets, set_secret
from tenants.identity.services.standing import REASON_LENGTH
from tenants.identity.services.tokens import create_token, issue, revoke_all, revoke_token
from tenants.models import DeviceCode, Membership, Secret, Tenant, Token, TokenKind, User
from tenants.services import disable_tenant, enable_tenant
from tests.factories.tenants import (
    SYSTEM,
    Cast,
    actor_of,
    make_member,
    make_service_account,
    make_session,
    make_tenant,
    make_token,
    make_user,
    now,
)

pytestmark = pytest.mark.database
SECOND, DAY = timedelta(seconds=1), timedelta(days=1)
VIEWER, MEMBER, MANAGER = TenantRole.VIEWER, TenantRole.MEMBER, TenantRole.MANAGER


def refused(call: Callable[[], Any]) -> tuple[type[BerthError], list[tuple[str, str]]]:
    with pytest.raises(BerthError) as raised:
        call()
    return type(raised.value), [(field.path, field.code) for field in raised.value.fields]


def audits(verb: str) -> list[AuditEvent]:
    return list(AuditEvent.objects.filter(verb=verb).order_by("id"))


# --- Tokens ------------------------------------------------------------------------------------------------------------


def create(cast: Cast, **given: Any) -> tokens.IssuedToken:
    return create_token(**{"actor": cast.bob.actor, "user": cast.bob.user, "name": "laptop", "now": now(), **given})


@pytest.mark.parametrize(
    ("ahead", "is_refused"),
    [(-SECOND, True), (0 * SECOND, True), (SECOND, False), (365 * DAY, False), (365 * DAY + SECOND, True)],
)
def test_a_token_ends_in_the_future_and_within_a_year(cast: Cast, ahead: timedelta, is_refused: bool) -> None:
    at = now()
    if is_refused:
        assert refused(lambda: create(cast, expires_at=at + ahead, now=at)) == (InvalidInput, [("/expires_at", "out_of_range")])
    else:
        assert create(cast, expires_at=at + ahead, now=at).token.expires_at == at + ahead


def test_a_token_without_an_end_is_good_for_ninety_days_and_is_in_the_audit_without_its_text(cast: Cast) -> None:
    at = now()
    made = create(cast, scopes=("jobs", "jobs", "read"), now=at)
    assert (made.token.expires_at - at, made.token.scopes) == (90 * DAY, ["jobs", "read"])
    assert made.text not in str(Token.objects.filter(id=made.token.pk).values().get())
    (audit,) = audits("token.create")
    assert audit.after["prefix"] == made.token.prefix
    assert made.text.rpartition("_")[2] not in str(audit.after)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"name": ""}, [("/name", "bad_name")]),
        ({"name": "  "}, [("/name", "bad_name")]),
        ({"name": "x" * 100}, []),
        ({"name": "x" * 101}, [("/name", "bad_name")]),
        ({"name": "a\nb"}, [("/name", "bad_name")]),
        ({"scopes": ()}, [("/scopes", "empty")]),
        ({"scopes": ("read", "root", "x" * 1_000)}, [("/scopes/1", "unknown_scope"), ("/scopes/2", "unknown_scope")]),
        (
            {"name": "", "scopes": ("root",), "expires_at": "past"},
            [("/name", "bad_name"), ("/expires_at", "out_of_range"), ("/scopes/0", "unknown_scope")],
        ),
    ],
)
def test_all_that_is_wrong_with_a_token_is_told_at_once(
    cast: Cast, given: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    if given.get("expires_at") == "past":
        given = {**given, "expires_at": now() - DAY}
    if expected:
        assert refused(lambda: create(cast, **given)) == (InvalidInput, expected)
    else:
        create(cast, **given)
    assert len(audits("token.create")) == (not expected)


@pytest.mark.parametrize(
    ("own", "asked", "beyond"),
    [
        (("all",), ("all",), []),
        (("account", "jobs"), ("jobs",), []),
        (("account", "jobs"), ("read",), []),
        (("account", "jobs"), ("data",), [0]),
        (("account",), ("all",), [0]),
        (("account", "jobs"), ("jobs", "tenant", "operate"), [1, 2]),
    ],
)
def test_a_token_makes_none_that_may_more(cast: Cast, own: tuple[str, ...], asked: tuple[str, ...], beyond: list[int]) -> None:
    actor = actor_of(cast.bob.user, make_token(cast.bob.user, scopes=own))
    if beyond:
        assert refused(lambda: create(cast, actor=actor, scopes=asked))[1] == [(f"/scopes/{at}", "beyond_own") for at in beyond]
    else:
        assert set(create(cast, actor=actor, scopes=asked).token.scopes) == set(asked)
    assert (
        refused(lambda: create(cast, actor=actor_of(cast.bob.user, make_token(cast.bob.user, scopes=("jobs",)))))[0] is Forbidden
    )


def test_a_user_has_so_many_live_tokens_and_those_that_are_over_or_sessions_do_not_count(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "TOKENS_PER_USER", 2)
    make_session(cast.bob.user)
    over = create(cast)
    assert refused(lambda: create(cast))[0] is QuotaExceeded
    Token.objects.filter(id=over.token.pk).update(created_at=now() - 2 * DAY, expires_at=now())
    again = create(cast)
    assert refused(lambda: create(cast))[0] is QuotaExceeded
    revoke_token(actor=cast.bob.actor, token=again.token, now=now())
    create(cast)


@pytest.mark.parametrize(
    ("person", "makes", "revokes"),
    [
        ("alice", None, True),
        ("bob", Forbidden, False),
        ("vera", Forbidden, False),
        ("carol", NotFound, False),
        ("otto", Forbidden, False),
    ],
)
def test_tokens_of_a_program_are_its_managers_business(
    cast: Cast, person: str, makes: type[BerthError] | None, revokes: bool
) -> None:
    account, actor = make_service_account(cast.tenant), getattr(cast, person).actor
    if makes is None:
        create(cast, actor=actor, user=account)
    else:
        assert refused(lambda: create(cast, actor=actor, user=account))[0] is makes
    token = make_token(account).token
    if revokes:
        assert revoke_token(actor=actor, token=token, now=now())
    else:
        assert refused(lambda: revoke_token(actor=actor, token=token, now=now()))[0] in (Forbidden, NotFound)
    assert refused(lambda: create(cast, actor=cast.otto.actor))[0] is Forbidden, "a person's tokens are made by that person"


def test_a_token_is_revoked_once_with_one_event_and_one_audit_row(cast: Cast) -> None:
    token = make_token(cast.bob.user).token
    assert [revoke_token(actor=cast.bob.actor, token=token, now=now()) for _ in range(2)] == [True, False]
    assert len(audits("token.delete")) == Event.objects.filter(kind="token.revoked").count() == 1
    assert refused(lambda: revoke_token(actor=cast.vera.actor, token=token, now=now()))[0] is Forbidden
    assert refused(lambda: revoke_token(actor=ANONYMOUS, token=token, now=now()))[0] is NotAuthenticated


def test_ending_all_spares_the_one_that_is_named_and_the_kinds_that_are_not(cast: Cast) -> None:
    user = make_user()
    kept, session, personal = make_token(user), make_session(user), make_token(user)
    code = DeviceCode.objects.create(
        digest="x" * 64, user_code="ABCDEFGH", client="berth", interval_seconds=5, created_at=now(), expires_at=now() + DAY,
        user=user, decided_at=now(), is_approved=True,
    )  # fmt: skip
    assert revoke_all(user, now=now(), kinds=(TokenKind.SESSION,)) == 1
    assert revoke_all(user, now=now(), but=kept.token.pk) == 1
    assert revoke_all(user, now=now(), but=kept.token.pk) == 0
    live = set(Token.objects.filter(user=user, revoked_at__isnull=True).values_list("id", flat=True))
    assert live == {kept.token.pk}
    assert {session.token.pk, personal.token.pk} == {
        event.subject_id for event in Event.objects.filter(kind="token.revoked", data__user_id=str(user.pk))
    }
    code.refresh_from_db()
    assert not code.is_approved, "a command line that waits gets no token afterwards"


def test_texts_of_tokens_never_repeat(cast: Cast) -> None:
    texts = {issue(cast.bob.user, name="x", scopes=[Scope.ALL], lifetime=DAY, now=now()).text for _ in range(50)}
    assert len({text.split("_")[1] for text in texts}) == len({text.split("_", 2)[2] for text in texts}) == 50
    assert min(len(text.split("_", 2)[2]) for text in texts) >= 43


# --- Members -----------------------------------------------------------------------------------------------------------


def membership(tenant: Tenant, user: User) -> Membership:
    return Membership.objects.select_related("user").get(tenant=tenant, user=user)


@pytest.mark.parametrize(
    ("person", "error"), [("alice", None), ("bob", Forbidden), ("vera", Forbidden), ("carol", NotFound), ("otto", None)]
)
def test_who_adds_changes_and_removes_members(cast: Cast, person: str, error: type[BerthError] | None) -> None:
    actor, dora = getattr(cast, person).actor, make_user("dora")
    at = now()

    def add() -> Membership:
        return add_member(actor=actor, tenant_id=cast.tenant.pk, user=dora, role=VIEWER, now=at)

    if error is not None:
        vera = membership(cast.tenant, cast.vera.user)
        if vera.user_id != actor.user_id:
            assert refused(lambda: remove_member(actor=actor, membership=vera, now=at))[0] is error
        assert refused(add)[0] is refused(lambda: change_role(actor=actor, membership=vera, role=MEMBER, now=at))[0] is error
        assert not Event.objects.filter(kind__startswith="member.").exists()
        return
    made = add()
    assert refused(add)[0] is Conflict
    change_role(actor=actor, membership=membership(cast.tenant, dora), role=MEMBER, expected_version=1, now=at)
    remove_member(actor=actor, membership=membership(cast.tenant, dora), now=at)
    kinds = Event.objects.filter(subject_id=dora.pk).order_by("row").values_list("kind", "data__role")
    assert list(kinds) == [("member.added", "viewer"), ("member.changed", "member"), ("member.removed", "member")]
    assert [(row.before, row.after) for row in audits("member.edit")] == [
        (None, {"role": "viewer"}),
        ({"role": "viewer"}, {"role": "member"}),
        ({"role": "member"}, None),
    ]
    assert made.tenant_id == cast.tenant.pk


def test_a_member_leaves_by_themselves_unless_their_token_is_too_narrow(cast: Cast) -> None:
    bob, narrow = membership(cast.tenant, cast.bob.user), make_token(cast.bob.user, scopes=("jobs",))
    assert refused(lambda: remove_member(actor=actor_of(cast.bob.user, narrow), membership=bob, now=now()))[0] is Forbidden
    remove_member(actor=cast.bob.actor, membership=bob, now=now())
    assert not Membership.objects.filter(id=bob.pk).exists()
    ownerless = membership(cast.tenant, cast.vera.user)
    ownerless.user_id = None  # type: ignore[assignment]
    assert refused(lambda: remove_member(actor=ANONYMOUS, membership=ownerless, now=now()))[0] is NotAuthenticated


@pytest.mark.parametrize("change", ["remove", "lower"])
def test_the_last_manager_stays_until_there_is_another_person_who_can_manage(cast: Cast, change: str) -> None:
    alice = membership(cast.tenant, cast.alice.user)

    def go() -> object:
        if change == "remove":
            return remove_member(actor=cast.alice.actor, membership=alice, now=now())
        return change_role(actor=cast.alice.actor, membership=alice, role=MEMBER, now=now())

    make_service_account(cast.tenant, role=MANAGER)
    make_member(cast.tenant, make_user(is_active=False), MANAGER)
    below = make_tenant("below", parent=cast.tenant)
    make_member(below, make_user(), MANAGER)
    assert refused(go)[0] is Conflict, "programs, disabled people and managers below do not count"
    make_member(cast.tenant, make_user(), MANAGER)
    go()


# --- Secrets -----------------------------------------------------------------------------------------------------------


def keep(cast: Cast, name: str = "HF_TOKEN", value: str = "value", actor: Actor | None = None) -> bool:
    return set_secret(actor=actor or cast.alice.actor, tenant_id=cast.tenant.pk, name=name, value=value, now=now())


@pytest.mark.parametrize("person", ["bob", "vera", "carol", "otto"])
def test_managers_alone_write_and_delete_secrets_and_operators_do_not(cast: Cast, person: str) -> None:
    actor = getattr(cast, person).actor
    keep(cast)
    assert refused(lambda: keep(cast, value="theirs", actor=actor))[0] in (Forbidden, NotFound)
    with pytest.raises((Forbidden, NotFound)):
        delete_secret(actor=actor, tenant_id=cast.tenant.pk, name="HF_TOKEN", now=now())
    assert decrypt_secrets(cast.tenant.pk, ["HF_TOKEN"]) == {"HF_TOKEN": "value"}


def test_a_secret_is_new_once_and_gone_once(cast: Cast) -> None:
    assert [keep(cast, value=value) for value in ("one", "two")] == [True, False]
    assert decrypt_secrets(cast.tenant.pk, ["HF_TOKEN"]) == {"HF_TOKEN": "two"}
    delete_secret(actor=cast.alice.actor, tenant_id=cast.tenant.pk, name="HF_TOKEN", now=now())
    with pytest.raises(NotFound):
        delete_secret(actor=cast.alice.actor, tenant_id=cast.tenant.pk, name="HF_TOKEN", now=now())
    assert [row.after for row in audits("secret.edit")] == [{"created": True}, {"created": False}]
    assert len(audits("secret.delete")) == 1


def test_names_that_are_missing_are_told_together_in_one_query(
    cast: Cast, django_assert_num_queries: Callable[[int], Any]
) -> None:
    keep(cast, "HAVE")
    with django_assert_num_queries(2):
        assert missing_secrets(cast.tenant.pk, ["Z", "HAVE", "A", "Z"]) == ["A", "Z"]
        found = refused(lambda: decrypt_secrets(cast.tenant.pk, ["Z", "HAVE", "A"]))
    assert found == (InvalidInput, [("/secrets", "secret_missing")] * 2)
    with django_assert_num_queries(0):
        assert (missing_secrets(cast.tenant.pk, []), decrypt_secrets(cast.tenant.pk, [])) == ([], {})
    assert missing_secrets(uuid.uuid4(), ["HAVE"]) == ["HAVE"]


def test_a_secret_under_a_key_that_is_gone_is_told_without_its_value(cast: Cast, settings: Any) -> None:
    keep(cast)
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "another", []
    with pytest.raises(Unavailable) as told:
        decrypt_secrets(cast.tenant.pk, ["HF_TOKEN"])
    assert Secret.objects.get().ciphertext not in str(told.value)
    keep(cast, value="again")
    assert decrypt_secrets(cast.tenant.pk, ["HF_TOKEN"]) == {"HF_TOKEN": "again"}
    assert rotate_secrets() == 1


# --- Standing ----------------------------------------------------------------------------------------------------------


def test_a_tenant_is_disabled_from_its_first_moment_with_its_newest_reason(cast: Cast) -> None:
    first = now()
    for at, reason in ((first, "unpaid"), (first + DAY, None), (first + 2 * DAY, "still unpaid")):
        disable_tenant(actor=cast.otto.actor, tenant=cast.tenant, reason=reason, now=at)
    cast.tenant.refresh_from_db()
    assert (cast.tenant.disabled_at, cast.tenant.disabled_reason, cast.tenant.version) == (first, "still unpaid", 3)
    assert Event.objects.filter(kind="tenant.disabled").count() == 2, "what changes nothing is no event"
    for _ in range(2):
        enable_tenant(actor=cast.otto.actor, tenant=cast.tenant, now=first + 3 * DAY)
    cast.tenant.refresh_from_db()
    assert (cast.tenant.disabled_at, cast.tenant.disabled_reason) == (None, "")
    assert Event.objects.filter(kind="tenant.enabled").count() == 1
    assert len(audits("tenant.disable")) == 5


@pytest.mark.parametrize(("length", "is_refused"), [(0, False), (REASON_LENGTH, False), (REASON_LENGTH + 1, True)])
def test_a_reason_has_a_length(cast: Cast, length: int, is_refused: bool) -> None:
    def disable() -> Tenant:
        return disable_tenant(actor=cast.otto.actor, tenant=cast.tenant, reason="x" * length, now=now())

    if is_refused:
        assert refused(disable) == (InvalidInput, [("/reason", "bad_length")])
    else:
        assert disable().disabled_reason == "x" * length


@pytest.mark.parametrize("person", ["alice", "bob", "carol"])
def test_operators_alone_disable_a_tenant_and_none_enables_a_deleted_one(cast: Cast, person: str) -> None:
    actor = getattr(cast, person).actor
    assert refused(lambda: disable_tenant(actor=actor, tenant=cast.tenant, now=now()))[0] is Forbidden
    assert refused(lambda: enable_tenant(actor=actor, tenant=cast.tenant, now=now()))[0] is Forbidden
    Tenant.objects.filter(id=cast.tenant.pk).update(deleted_at=now(), disabled_at=now())
    with pytest.raises(Conflict):
        enable_tenant(actor=SYSTEM, tenant=cast.tenant, now=now())
