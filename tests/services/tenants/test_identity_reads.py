"""Reads of tenants and people, and how a credential becomes an actor: who is found by what, and in how many queries."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from kernel.actor import ANONYMOUS, Actor, TenantRole
from kernel.errors import NotAuthenticated, NotFound
from tenants.identity import credentials, selectors
from tenants.identity.credentials import (
    LAST_USED_EVERY,
    authenticate,
    authenticate_session,
    authenticate_token,
    recipients,
    refresh_actors,
    user_of_cookies,
)
from tenants.identity.facts import sight_of
from tenants.identity.standing import Disabled, TenantDisabled, demand_enabled, disabled_tenants
from tenants.models import Preference, Secret, Tenant, Token, TokenKind
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
Queries = Callable[[int], Any]


def renamed(tenant: Tenant, name: str) -> Tenant:
    Tenant.objects.filter(id=tenant.pk).update(name=name)
    return tenant


# --- Which tenant is meant ---------------------------------------------------------------------------------------------


def test_a_tenant_is_found_by_id_slug_and_name_by_those_who_see_it(cast: Cast) -> None:
    for text in (cast.tenant.pk, str(cast.tenant.pk), str(cast.tenant.pk).upper(), cast.tenant.slug, "vision"):
        found = selectors.find_tenant(cast.vera.actor, text)
        assert (found.id, found.slug, found.name, found.number) == (
            cast.tenant.pk, cast.tenant.slug, "vision", cast.tenant.number,
        )  # fmt: skip
        for outsider in (cast.carol.actor, ANONYMOUS):
            with pytest.raises(NotFound):
                selectors.find_tenant(outsider, text)


@pytest.mark.parametrize("text", ["", "nothing", "Vision", "visio", "%", "x" * 5_000, str(uuid.UUID(int=5))])
def test_what_names_no_tenant_is_not_guessed(cast: Cast, text: str) -> None:
    with pytest.raises(NotFound) as refused:
        selectors.find_tenant(cast.otto.actor, text)
    assert len(str(refused.value)) < 300


def test_a_slug_is_meant_before_a_name_and_a_name_of_two_means_neither(cast: Cast) -> None:
    below = make_tenant("below", parent=cast.tenant)
    renamed(below, cast.elsewhere.slug)
    assert selectors.get_tenant(cast.otto.actor, cast.elsewhere.slug) == cast.elsewhere
    assert selectors.get_tenant(actor_of(cast.alice.user), cast.elsewhere.slug).pk == below.pk, "whose slug she does not see"
    renamed(below, "elsewhere")
    with pytest.raises(NotFound):
        selectors.get_tenant(cast.otto.actor, "elsewhere")


def test_without_a_name_the_only_tenant_is_meant_that_one_could_work_in(cast: Cast) -> None:
    below = make_tenant("below", parent=cast.tenant)
    bob, vera = (selectors.get_tenant(actor_of(person.user), None) for person in (cast.bob, cast.vera))
    assert bob.pk == vera.pk == cast.tenant.pk, "the topmost, and a viewer's for want of another"
    make_member(cast.elsewhere, cast.bob.user, "viewer")
    assert selectors.get_tenant(actor_of(cast.bob.user), None).pk == cast.tenant.pk, "where he only looks does not count"
    make_member(make_tenant("third"), cast.bob.user)
    for actor in (actor_of(cast.bob.user), cast.otto.actor, ANONYMOUS):
        with pytest.raises(NotFound):
            selectors.get_tenant(actor, None)
    lone = make_user()
    make_member(below, lone)
    assert selectors.get_tenant(actor_of(lone), None).pk == below.pk


def test_ones_tenants_come_with_roles_and_parents_that_one_sees_in_one_query(
    cast: Cast, django_assert_num_queries: Queries
) -> None:
    below = make_tenant("below", parent=cast.tenant)
    make_tenant("deep", parent=below)
    lone = make_user()
    make_member(below, lone, "viewer")
    actors = [actor_of(cast.alice.user), actor_of(lone), cast.otto.actor]
    with django_assert_num_queries(2):  # For a user without a tenant, none.
        alice, guest, operator = (selectors.tenants_of(actor) for actor in actors)
    assert [(row.name, row.role, row.parent_id) for row in alice] == [
        ("vision", TenantRole.MANAGER, None),
        ("below", TenantRole.MANAGER, cast.tenant.pk),
        ("deep", TenantRole.MANAGER, below.pk),
    ]
    assert [(row.name, row.role, row.parent_id) for row in guest] == [
        ("below", TenantRole.VIEWER, None),
        ("deep", TenantRole.VIEWER, below.pk),
    ]
    assert operator == []


def test_deleted_tenants_stay_on_the_way_up_and_are_left_out_on_the_way_down(cast: Cast) -> None:
    below = make_tenant("below", parent=cast.tenant)
    deep = make_tenant("deep", parent=below)
    assert selectors.tenant_paths()[deep.pk] == (deep.pk, below.pk, cast.tenant.pk)
    assert selectors.tenants_below(cast.tenant.pk) == [cast.tenant.pk, below.pk, deep.pk]
    Tenant.objects.filter(id=deep.pk).update(deleted_at=now(), disabled_at=now())
    assert selectors.tenants_below(cast.tenant.pk) == [cast.tenant.pk, below.pk]
    assert deep.pk in selectors.tenant_paths(), "its use still counts above"
    assert deep.pk not in actor_of(cast.alice.user).roles


# --- People ------------------------------------------------------------------------------------------------------------


def test_people_are_counted_once_and_programs_not_at_all(cast: Cast) -> None:
    make_service_account(cast.tenant)
    make_member(cast.elsewhere, cast.alice.user)
    assert selectors.people_in([cast.tenant.pk]) == 3
    assert selectors.people_in([cast.tenant.pk, cast.elsewhere.pk, cast.tenant.pk]) == 4
    assert selectors.people_in([]) == 0


@pytest.mark.parametrize(
    ("reader", "seen"),
    [
        ("alice", {"alice", "bob", "vera"}),
        ("vera", {"alice", "bob", "vera"}),
        ("carol", {"carol"}),
        ("otto", {"alice", "bob", "vera", "carol", "otto"}),
    ],
)
def test_users_are_found_by_name_and_id_where_a_tenant_is_shared(cast: Cast, reader: str, seen: set[str]) -> None:
    actor = getattr(cast, reader).actor
    for name in ("alice", "bob", "vera", "carol", "otto"):
        user = getattr(cast, name).user
        for text in (name, str(user.pk)):
            assert selectors.find_visible_user(actor, text) == (user.pk if name in seen else None)
            if name in seen:
                assert selectors.find_user(actor, text) == user
            else:
                with pytest.raises(NotFound):
                    selectors.find_user(actor, text)


def test_names_and_facts_of_many_take_one_query_and_leave_out_what_is_not_there(
    cast: Cast, django_assert_num_queries: Queries
) -> None:
    people = [make_user() for _ in range(20)]
    gone = uuid.uuid4()
    with django_assert_num_queries(2):
        names = selectors.user_names([*(user.pk for user in people), gone])
        facts = selectors.tenant_facts([cast.tenant.pk, cast.elsewhere.pk, gone])
    assert names == {user.pk: user.name for user in people}
    assert {row.name for row in facts.values()} == {"vision", "elsewhere"}
    assert (selectors.find_user_id("alice"), selectors.find_user_id("nobody")) == (cast.alice.user.pk, None)


def test_secrets_of_a_tenant_are_its_own(cast: Cast) -> None:
    for tenant in (cast.tenant, cast.elsewhere):
        Secret.objects.create(tenant=tenant, name=f"OF_{tenant.name}", ciphertext="x", created_at=now(), updated_at=now())
    assert selectors.secret_names(cast.tenant.pk) == {"OF_vision"}
    assert selectors.secret_names(uuid.uuid4()) == frozenset()


def test_what_is_remembered_for_one_actor_is_not_shown_to_another_who_sees_less(cast: Cast) -> None:
    narrow = make_token(cast.alice.user, scopes=("read",))
    service = make_service_account(cast.tenant)
    actors = [cast.alice.actor, cast.bob.actor, cast.otto.actor, actor_of(cast.alice.user, narrow), actor_of(service), ANONYMOUS]
    assert len({sight_of(actor) for actor in actors}) == len(actors)
    assert sight_of(SYSTEM) != sight_of(ANONYMOUS)


# --- Credentials -------------------------------------------------------------------------------------------------------


def test_a_token_counts_until_the_second_of_its_end(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    issued = make_token(cast.bob.user)
    assert authenticate_token(issued.text).user_id == cast.bob.user.pk
    facts = credentials.look()

    class At:
        find = facts.find
        at = issued.token.expires_at - timedelta(microseconds=1)

    monkeypatch.setattr(credentials, "look", lambda: At)
    assert authenticate(issued.text).user == cast.bob.user
    At.at = issued.token.expires_at
    with pytest.raises(NotAuthenticated):
        authenticate(issued.text)


@pytest.mark.parametrize(
    "text",
    ["", "berth_", "berth_000000000000_x", "berth_000000000000_" + "x" * 400, "berthsession_000000000000_x", "\u00e9", "\x00"],
)
def test_an_invented_token_has_no_user(db: None, text: str) -> None:
    for ask in (authenticate_token, authenticate_session):
        with pytest.raises(NotAuthenticated):
            ask(text)


def test_the_prefix_alone_opens_nothing_and_kinds_are_never_taken_for_each_other(cast: Cast) -> None:
    issued, session = make_token(cast.bob.user), make_session(cast.bob.user)
    for text in (issued.text[:-1], issued.text + "x", issued.text.swapcase(), f"berth_{issued.token.prefix}_x", session.text):
        with pytest.raises(NotAuthenticated):
            authenticate_token(text)
    with pytest.raises(NotAuthenticated):
        authenticate_session(issued.text)
    forged = session.text.replace("berthsession_", "berth_", 1)
    with pytest.raises(NotAuthenticated):
        authenticate_token(forged)
    assert authenticate_session(session.text).user_id == cast.bob.user.pk


def test_the_last_use_is_known_to_the_minute_and_written_once(cast: Cast, django_assert_num_queries: Queries) -> None:
    issued = make_token(cast.bob.user)
    authenticate_token(issued.text)
    first = Token.objects.get(id=issued.token.pk).last_used_at
    assert first is not None
    with django_assert_num_queries(1):  # Whether anything changed.
        authenticate_token(issued.text)
    assert Token.objects.get(id=issued.token.pk).last_used_at == first
    assert timedelta(seconds=30) <= LAST_USED_EVERY <= timedelta(minutes=5)


@pytest.mark.parametrize("cookies", [None, "", "berth-session=", "other=1", "berth-session=x"])
def test_cookies_without_a_session_have_no_user(db: None, cookies: str | None) -> None:
    assert user_of_cookies(cookies) is None


def test_a_cookie_names_its_user_until_the_session_ends(cast: Cast) -> None:
    session = make_session(cast.bob.user)
    assert user_of_cookies(f"a=b; berth-session={session.text}") == cast.bob.user
    Token.objects.filter(id=session.token.pk).update(revoked_at=now())
    assert user_of_cookies(f"berth-session={session.text}") is None


def test_long_connections_keep_their_credentials_limits_and_end_with_them(cast: Cast) -> None:
    narrow, session = make_token(cast.bob.user, scopes=("jobs",)), make_session(cast.bob.user)
    before: list[Actor] = [actor_of(cast.bob.user, narrow), actor_of(cast.bob.user, session), actor_of(cast.bob.user), ANONYMOUS]
    make_member(cast.elsewhere, cast.bob.user, "viewer")
    by_token, by_session, without, anonymous = refresh_actors(before)
    assert by_token is not None
    assert by_token.scopes == {"jobs", "read"}
    assert by_token.roles[cast.elsewhere.pk] == TenantRole.VIEWER
    assert by_session is not None
    assert without is not None
    assert anonymous is None
    Token.objects.filter(kind=TokenKind.SESSION).update(last_used_at=now() - timedelta(days=365))
    Token.objects.filter(id=narrow.token.pk).update(expires_at=now())
    assert [actor is None for actor in refresh_actors(before)] == [True, True, False, True]
    assert refresh_actors([]) == []


def test_those_who_are_written_to_have_their_language_and_their_claimed_address(cast: Cast) -> None:
    Preference.objects.create(user=cast.bob.user, language="zh")
    Preference.objects.create(user=cast.vera.user)
    cast.bob.user.email_claimed = "new@example.org"
    cast.bob.user.save()
    cast.carol.user.is_active = False
    cast.carol.user.save()
    found = recipients([person.user.pk for person in (cast.alice, cast.bob, cast.vera, cast.carol)])
    assert {row.name: row.language for row in found.values()} == {"alice": "en", "bob": "zh", "vera": "en"}
    assert found[cast.bob.user.pk].email == "new@example.org"
    assert found[cast.bob.user.pk].actor.scopes is None


# --- Disabled tenants --------------------------------------------------------------------------------------------------


def test_those_below_a_disabled_tenant_are_disabled_too_without_its_reason(cast: Cast) -> None:
    below = make_tenant("below", parent=cast.tenant)
    disable_tenant(actor=cast.otto.actor, tenant=cast.tenant, reason="unpaid", now=now())
    assert disabled_tenants() == {
        cast.tenant.pk: Disabled(reason="unpaid"),
        below.pk: Disabled(is_above=True),
    }
    disable_tenant(actor=cast.otto.actor, tenant=below, reason="moved", now=now())
    assert disabled_tenants()[below.pk] == Disabled(reason="moved"), "its own reason comes first"
    enable_tenant(actor=cast.otto.actor, tenant=cast.tenant, now=now())
    assert set(disabled_tenants()) == {below.pk}


@pytest.mark.parametrize(
    ("verb", "is_refused", "is_refused_when_deleted"),
    [
        ("job.submit", True, True),
        ("volume.create", True, True),
        ("tenant.create", True, True),
        ("member.edit", False, True),
        ("secret.edit", False, True),
        ("job.read", False, False),
        ("job.stop", False, False),
        ("secret.delete", False, False),
    ],
)
def test_in_a_disabled_tenant_nothing_begins_and_in_a_deleted_one_no_user_joins(
    cast: Cast, verb: str, is_refused: bool, is_refused_when_deleted: bool
) -> None:
    def refuses() -> bool:
        try:
            demand_enabled(cast.tenant.pk, verb)
        except TenantDisabled:
            return True
        return False

    assert not refuses()
    Tenant.objects.filter(id=cast.tenant.pk).update(disabled_at=now(), disabled_reason="unpaid")
    assert refuses() is is_refused
    Tenant.objects.filter(id=cast.tenant.pk).update(deleted_at=now())
    assert refuses() is is_refused_when_deleted
