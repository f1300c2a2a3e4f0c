"""Only operators learn that an e-mail address belongs to an account elsewhere, and people get nothing of others by writing their
address into an account of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tenants.identity.identity_claims import Claims, SignInFailed
from tenants.identity.services.external import Policy, connect, person_of
from tenants.models import Invitation, Membership, User
from tests.api.tenants.test_sessions import PASSWORD, browser, code_of, sign_in
from tests.factories.tenants import Cast, make_user, now

pytestmark = pytest.mark.database

Api = Callable[..., Any]
USERS, INVITATIONS = "/api/v1/users", "/api/v1/invitations"
TAKEN, FREE = "victor@example.org", "nobody@example.org"
ANY = Policy("oidc", creates_users=True, links_by_email=True, domains=frozenset(), groups=())


@pytest.fixture
def victor() -> User:
    """Somebody of another tenant, whose address an operator wrote."""
    return make_user("victor", email=TAKEN, password=PASSWORD)


def told(call: Callable[[], Any]) -> tuple[object, ...]:
    """What a caller can tell two answers apart by: status, fields of the body, and the statements that were made."""
    with CaptureQueriesContext(
        connection,
    ) as queries:
        response = call()
    shapes = [query["sql"].split(" ", 1)[0] for query in queries.captured_queries]
    body = response.json() if response.content else {}
    return response.status_code, sorted(body), body.get("code"), shapes


def change(api: Api, who: Any, email: str) -> Any:
    return api(who).patch(f"{USERS}/{who.user.pk}", {"email": email}, format="json")


def invite(api: Api, who: Any, email: str) -> Any:
    return api(who).post(INVITATIONS, {"email": email, "tenant": "vision", "role": "member"}, format="json")


def accept(api: Api, token: str, who: Any = None, **body: Any) -> Any:
    return api(who).post(f"{INVITATIONS}:accept", {"token": token, **body}, format="json")


def claims(email: str, *, subject: str = "subject-1") -> Claims:
    return Claims(issuer="https://id", subject=subject, email=email, email_verified=True, name="victor", groups=None)


def test_changing_ones_own_address_does_not_tell_whose_it_is(api: Api, cast: Cast, victor: User) -> None:
    change(api, cast.bob, "first@example.org")  # The first change differs: bob's address was confirmed until then.

    assert told(lambda: change(api, cast.bob, FREE)) == told(lambda: change(api, cast.bob, TAKEN.upper()))
    assert User.objects.get(id=victor.pk).email == TAKEN


def test_inviting_does_not_tell_who_has_an_account(api: Api, cast: Cast, victor: User) -> None:
    api(cast.alice).get("/api/v1/whoami")

    assert told(lambda: invite(api, cast.alice, FREE)) == told(lambda: invite(api, cast.alice, TAKEN))


def test_a_manager_who_accepts_the_invitation_in_somebodys_place_learns_nothing(api: Api, cast: Cast, victor: User) -> None:
    tokens = [invite(api, cast.alice, email).json()["token"] for email in (FREE, TAKEN)]

    reads = [told(lambda token=token: api().post(f"{INVITATIONS}:read", {"token": token}, format="json")) for token in tokens]
    taken_up = [told(lambda at=at: accept(api, tokens[at], name=f"guest-{at}", password=PASSWORD)) for at in range(2)]

    assert reads[0] == reads[1]
    assert taken_up[0] == taken_up[1]
    assert taken_up[0][0] == 201
    assert not User.objects.filter(name__startswith="guest-").exclude(email="").exists()
    assert not Membership.objects.filter(user=victor).exists(), "the account elsewhere was not touched"


def test_trying_to_sign_in_by_an_address_that_one_claims_tells_nothing(api: Api, cast: Cast, victor: User) -> None:
    bob: User = cast.bob.user
    bob.set_password("a password of bob alone")
    bob.save()
    for email in (FREE, TAKEN):
        change(api, cast.bob, email)
        assert code_of(sign_in(browser(), email, "a password of bob alone")) == "bad_credentials", email
    assert sign_in(browser(), TAKEN, PASSWORD).json()["user"]["name"] == "victor", "its owner signs in by it as before"


def test_whoever_claims_an_address_does_not_get_its_owners_single_sign_on(cast: Cast) -> None:
    """Somebody waits with the address of a person who has never been here, in an account that links by address."""
    trap = make_user("trap", email_claimed=TAKEN, email_claimed_at=now())

    person = person_of(claims(TAKEN), policy=ANY, now=now())

    assert person.pk != trap.pk
    assert person.email_is_confirmed


@pytest.mark.parametrize("kept", [TAKEN, TAKEN.replace("i", "\u0131")])
def test_another_mailbox_that_a_database_takes_for_the_same_opens_no_account(cast: Cast, kept: str) -> None:
    """`victor` with a dotless i is another mailbox; PostgreSQL finds either by the capitals of the other."""
    there = make_user("there", email=kept)
    other = TAKEN if kept != TAKEN else TAKEN.replace("i", "\u0131")

    assert person_of(claims(other), policy=ANY, now=now()).pk != there.pk
    assert person_of(claims(kept.upper() if kept.isascii() else kept, subject="subject-2"), policy=ANY, now=now()).pk == there.pk


def test_whoever_claims_an_address_keeps_its_owner_out_of_nothing(api: Api, cast: Cast) -> None:
    change(api, cast.bob, TAKEN)

    assert api(cast.otto).post(USERS, {"name": "victor", "email": TAKEN}, format="json").status_code == 201
    csv = "name,email,tenant,role\nvic,VIC@example.org,,\n"
    change(api, cast.bob, "vic@example.org")
    assert api(cast.otto).post(f"{USERS}:import", csv, content_type="text/csv").status_code == 200


def test_where_accounts_are_not_made_the_owner_of_an_address_is_sent_to_connect(cast: Cast) -> None:
    make_user("invited", email_claimed=TAKEN)
    policy = Policy("oidc", creates_users=False, links_by_email=True, domains=frozenset(), groups=())

    with pytest.raises(SignInFailed) as refused:
        person_of(claims(TAKEN), policy=policy, now=now())

    assert refused.value.code == "link_needed"


def test_an_address_is_confirmed_by_the_provider_of_whoever_connects(api: Api, cast: Cast, victor: User) -> None:
    change(api, cast.bob, FREE)
    user = connect(claims(FREE.upper()), actor=cast.bob.actor, policy=ANY, now=now())
    assert User.objects.get(id=user.pk).email_is_confirmed

    change(api, cast.carol, TAKEN)
    other = connect(claims(TAKEN, subject="subject-2"), actor=cast.carol.actor, policy=ANY, now=now())
    assert not User.objects.get(id=other.pk).email_is_confirmed, "victor has it confirmed"


def test_a_code_for_somebody_else_is_not_taken_up_by_writing_that_address_into_ones_account(
    api: Api, cast: Cast, victor: User
) -> None:
    token = invite(api, cast.alice, TAKEN).json()["token"]
    change(api, cast.carol, TAKEN)

    assert accept(api, token, cast.carol).status_code == 403
    later = invite(api, cast.alice, TAKEN).json()["token"]
    assert accept(api, later, cast.carol).status_code == 201, "the manager who invites again means this account"
    assert Invitation.objects.filter(accepted_at__isnull=True).count() == 1


def test_ones_own_confirmed_address_in_other_letters_stays_confirmed(api: Api, cast: Cast, victor: User) -> None:
    assert change(api, cast.bob, "Bob@Example.org").json()["email_is_confirmed"] is True
    assert change(api, cast.bob, "other@example.org").json()["email_is_confirmed"] is False
    assert change(api, cast.bob, "bob@example.org").json()["email_is_confirmed"] is True, "it was kept until then"
    assert change(api, cast.bob, "").json()["email"] == ""
    assert change(api, cast.bob, "bob@example.org").json()["email_is_confirmed"] is False


def test_operators_are_told_of_an_address_that_another_account_has(api: Api, cast: Cast, victor: User) -> None:
    client = api(cast.otto)

    assert client.patch(f"{USERS}/{cast.bob.user.pk}", {"email": TAKEN}, format="json").status_code == 409
    change(api, cast.bob, FREE)
    confirmed = client.patch(f"{USERS}/{cast.bob.user.pk}", {"email": FREE}, format="json").json()
    assert (confirmed["email"], confirmed["email_is_confirmed"]) == (FREE, True)
