"""People of an identity provider or a directory: whose account they get, and what a changed mapping of groups does to it."""

from __future__ import annotations

from typing import Any

import pytest

from kernel.actor import TenantRole
from tenants.identity.identity_claims import Claims, SignInFailed
from tenants.identity.services.external import Policy, connect, person_of, wanted_roles
from tenants.models import ExternalIdentity, Membership, User
from tests.factories.tenants import Cast, make_member, make_token, make_user, now

pytestmark = pytest.mark.database
ISSUER = "https://id.example.org"


def claims(subject: str = "1", **given: Any) -> Claims:
    values: dict[str, Any] = {
        "issuer": ISSUER, "subject": subject, "email": "nina@example.org", "email_verified": True, "name": "nina", "groups": None,
    }  # fmt: skip
    return Claims(**{**values, **given})


def policy(*groups: tuple[str, str, str], creates: bool = True, links: bool = False, domains: str = "") -> Policy:
    return Policy("oidc", creates, links, frozenset(domains.split()), groups)


def failure(given: Claims, by: Policy, **options: Any) -> str:
    """Why somebody does not come in; no account and no connection was made by it."""
    before = User.objects.count(), ExternalIdentity.objects.count()
    with pytest.raises(SignInFailed) as refused:
        person_of(given, policy=by, now=now(), **options)
    assert (User.objects.count(), ExternalIdentity.objects.count()) == before
    return refused.value.code


def roles_of(user: User) -> dict[str, str]:
    return {row.tenant.name: row.role for row in Membership.objects.filter(user=user).select_related("tenant")}


# --- Whose account ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("Nina.Meier", "nina.meier"),
        ("nina@example.org", "nina"),
        ("--nina--", "nina"),
        ("Nina O'Neil", "nina-o-neil"),
        ("n" * 60, "n" * 40),
    ],
)
def test_a_new_account_gets_a_name_like_the_one_elsewhere(db: None, said: str, name: str) -> None:
    assert person_of(claims(name=said), policy=policy(), now=now()).name == name


@pytest.mark.parametrize("said", ["数据", "", "...", "12345678-1234-1234-1234-123456789abc"])
def test_a_name_that_leaves_nothing_of_ours_becomes_a_user_with_a_number(db: None, said: str) -> None:
    first = person_of(claims("1", name=said, email=""), policy=policy(), now=now()).name
    second = person_of(claims("2", name=said, email=""), policy=policy(), now=now()).name

    assert first.startswith("user-")
    assert second.startswith("user-")
    assert first != second


def test_a_name_that_is_taken_gets_a_number_and_the_account_that_has_it_is_left_alone(cast: Cast) -> None:
    made = person_of(claims(name="bob"), policy=policy(), now=now())

    assert made.name.startswith("bob-")
    assert made.pk != cast.bob.user.pk
    assert not ExternalIdentity.objects.filter(user=cast.bob.user).exists()


def test_the_same_person_comes_back_to_the_same_account_whatever_else_changed(db: None) -> None:
    first = person_of(claims(), policy=policy(), now=now())

    again = person_of(claims(email="married@example.org", name="other"), policy=policy(creates=False), now=now())

    assert again.pk == first.pk
    assert again.email == "nina@example.org"
    assert ExternalIdentity.objects.get().last_used_at is not None


def test_another_subject_of_the_same_provider_gets_no_account_by_an_address_that_moved_on(db: None) -> None:
    person_of(claims("1"), policy=policy(), now=now())

    assert failure(claims("2"), policy(links=True)) == "link_needed"


def test_an_account_that_was_used_is_connected_by_its_address_only_where_operators_say_so(db: None) -> None:
    nina = make_user("nina", email="nina@example.org")
    make_token(nina)

    assert failure(claims(), policy()) == "link_needed"
    assert person_of(claims(), policy=policy(links=True), now=now()).pk == nina.pk


@pytest.mark.parametrize("email", ["", "no-address", f"{'n' * 60}@{'.'.join(['d' * 60] * 4)}.org"])
def test_an_address_that_is_none_or_too_long_to_be_kept_is_left_out(db: None, email: str) -> None:
    made = person_of(claims(email=email), policy=policy(), now=now())

    assert (made.email, made.email_claimed) == ("", None)


def test_an_address_that_nobody_verified_is_not_written(db: None) -> None:
    assert person_of(claims(email_verified=False), policy=policy(), now=now()).email == ""


def test_a_disabled_account_stays_out_by_its_subject_and_by_its_address(db: None) -> None:
    known = person_of(claims("1", email="known@example.org"), policy=policy(), now=now())
    User.objects.filter(id=known.pk).update(is_active=False)
    make_user("former", email="nina@example.org", is_active=False)

    assert failure(claims("1", email="known@example.org"), policy()) == "account_disabled"
    assert failure(claims("2"), policy(links=True)) == "account_disabled"


def test_where_no_accounts_are_made_whoever_claims_the_address_is_sent_to_connect(db: None) -> None:
    make_user("somebody", email_claimed="Nina@example.org")

    assert failure(claims(), policy(creates=False)) == "link_needed"
    assert failure(claims(email="other@example.org"), policy(creates=False)) == "no_account"


def test_beside_an_account_of_the_typed_name_nobody_is_made(db: None) -> None:
    namesake = make_user("nina")

    assert failure(claims(), policy(), namesake=namesake) == "link_needed"
    namesake.is_active = False
    assert failure(claims(), policy(), namesake=namesake) == "account_disabled"


@pytest.mark.parametrize(
    ("email", "verified", "comes_in"),
    [
        ("a@example.org", True, True),
        ("a@EXAMPLE.ORG", True, True),
        ("a@example.org", False, False),
        ("a@sub.example.org", True, False),
        ("", True, False),
    ],
)
def test_only_a_verified_address_of_a_named_domain_lets_in(db: None, email: str, verified: bool, comes_in: bool) -> None:
    given = claims(email=email, email_verified=verified)

    if comes_in:
        assert person_of(given, policy=policy(domains="example.org"), now=now()).email == email
    else:
        assert failure(given, policy(domains="example.org")) == "oidc_domain"


# --- Connecting ------------------------------------------------------------------------------------------------------


def test_its_owner_connects_an_account_twice_without_harm_and_nobody_else_after_that(cast: Cast) -> None:
    for _ in range(2):
        assert connect(claims(), actor=cast.bob.actor, policy=policy(), now=now()).pk == cast.bob.user.pk

    assert ExternalIdentity.objects.count() == 1
    with pytest.raises(SignInFailed) as refused:
        connect(claims(), actor=cast.vera.actor, policy=policy(), now=now())
    assert refused.value.code == "oidc_taken"


def test_connecting_confirms_the_address_that_was_claimed_and_no_other(cast: Cast) -> None:
    nina = User.objects.filter(id=cast.bob.user.pk)
    nina.update(email="", email_claimed="Nina@Example.org", email_claimed_at=now())

    connect(claims("1", email="other@example.org"), actor=cast.bob.actor, policy=policy(), now=now())
    assert not nina.get().email_is_confirmed
    connect(claims("1", email_verified=False), actor=cast.bob.actor, policy=policy(), now=now())
    assert not nina.get().email_is_confirmed
    connect(claims("1"), actor=cast.bob.actor, policy=policy(), now=now())
    assert nina.get().email == "Nina@Example.org"


def test_whoever_was_disabled_on_the_way_connects_nothing(cast: Cast) -> None:
    User.objects.filter(id=cast.bob.user.pk).update(is_active=False)

    with pytest.raises(SignInFailed) as refused:
        connect(claims(), actor=cast.bob.actor, policy=policy(), now=now())
    assert refused.value.code == "account_disabled"
    assert not ExternalIdentity.objects.exists()


# --- Groups ----------------------------------------------------------------------------------------------------------


def test_of_several_groups_of_a_tenant_the_strongest_role_counts_in_any_order() -> None:
    lines = (("staff", "vision", "viewer"), ("leads", "vision", "manager"), ("ml", "vision", "member"), ("ml", "other", "viewer"))

    for order in (lines, lines[::-1]):
        assert wanted_roles(claims(groups=("staff", "leads", "ml")), policy(*order)) == {
            "vision": TenantRole.MANAGER,
            "other": TenantRole.VIEWER,
        }
    assert wanted_roles(claims(groups=()), policy(*lines)) == {"vision": None, "other": None}
    assert wanted_roles(claims(groups=("staff",)), policy()) == {}


def test_where_groups_are_mapped_a_provider_that_says_nothing_of_them_lets_nobody_in(cast: Cast) -> None:
    assert failure(claims(groups=None), policy(("ml", "vision", "member"))) == "oidc_groups"
    assert roles_of(person_of(claims(groups=()), policy=policy(("ml", "vision", "member")), now=now())) == {}


def test_a_changed_mapping_is_in_force_with_the_next_sign_in(cast: Cast) -> None:
    def signs_in(*lines: tuple[str, str, str]) -> dict[str, str]:
        return roles_of(person_of(claims(groups=("ml",)), policy=policy(*lines), now=now()))

    assert signs_in(("ml", "vision", "member")) == {"vision": "member"}
    assert signs_in(("ml", "vision", "manager")) == {"vision": "manager"}, "another role"
    assert signs_in(("ml", "elsewhere", "viewer")) == {"vision": "manager", "elsewhere": "viewer"}, "what no line names stays"
    assert signs_in(("ops", "vision", "member"), ("ml", "elsewhere", "viewer")) == {"elsewhere": "viewer"}, "no group of it"


def test_a_line_for_a_tenant_that_there_is_not_keeps_nobody_from_the_others(cast: Cast) -> None:
    lines = (("ml", "gone", "member"), ("ml", "vision", "member"))

    assert roles_of(person_of(claims(groups=("ml",)), policy=policy(*lines), now=now())) == {"vision": "member"}


def test_the_last_manager_stays_one_whatever_the_groups_say(cast: Cast) -> None:
    ExternalIdentity.objects.create(user=cast.alice.user, issuer=ISSUER, subject="1", created_at=now())
    none, less = policy(("leads", "vision", "manager")), policy(("ml", "vision", "viewer"))

    for by in (none, less):
        person_of(claims(groups=("ml",) if by is less else ()), policy=by, now=now())
        assert roles_of(cast.alice.user) == {"vision": "manager"}
    make_member(cast.tenant, make_user(), "manager")
    person_of(claims(groups=("ml",)), policy=less, now=now())
    assert roles_of(cast.alice.user) == {"vision": "viewer"}
