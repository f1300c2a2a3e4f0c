"""Invitations at their edges: the moment of their end, a tenant that is gone, roles, and whose account it is."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.apps import apps

from kernel.actor import TenantRole
from kernel.errors import BerthError, Conflict, Forbidden, InvalidInput, NotFound, QuotaExceeded
from tenants import services
from tenants.identity.services import invitations
from tenants.identity.services.invitations import LIFETIME, IssuedInvitation, accept_invitation, read_invitation
from tenants.models import Invitation, Membership, Tenant, Token, User
from tenants.services.deleting import delete_belongings
from tests.factories.tenants import Cast, Person, actor_of, make_service_account, make_user, now

pytestmark = pytest.mark.database
PASSWORD = "correct horse battery"
AT = now()


def invite(
    cast: Cast, email: str = "nina@example.org", *, role: TenantRole = TenantRole.MEMBER, by: Person | None = None
) -> IssuedInvitation:
    actor = (by or cast.alice).actor
    return services.invite_user(actor=actor, tenant_id=cast.tenant.pk, email=email, role=role, now=AT)


def test_a_code_works_until_its_last_moment_and_not_in_the_next(cast: Cast) -> None:
    first, second = invite(cast), invite(cast, "olga@example.org")
    last = AT + LIFETIME - timedelta(microseconds=1)

    accept_invitation(text=first.text, name="nina", password=PASSWORD, now=last)
    for use in (
        lambda: read_invitation(text=second.text, now=AT + LIFETIME),
        lambda: accept_invitation(text=second.text, name="olga", password=PASSWORD, now=AT + LIFETIME),
    ):
        with pytest.raises(NotFound):
            use()
    assert not User.objects.filter(name="olga").exists()


def test_a_code_that_was_used_is_told_like_one_that_never_was(cast: Cast) -> None:
    code = invite(cast).text
    accept_invitation(text=code, name="nina", password=PASSWORD, now=AT)

    told = []
    for text in (code, "bi_invented"):
        with pytest.raises(NotFound) as refused:
            accept_invitation(text=text, name="other", password=PASSWORD, now=AT)
        told.append((str(refused.value), refused.value.hint))
    assert told[0] == told[1]


def test_an_invitation_that_fails_after_the_code_was_claimed_stays_open(cast: Cast) -> None:
    """The name is taken: the row that was written first goes back with the rest."""
    code = invite(cast).text

    with pytest.raises(Conflict, match="name is taken"):
        accept_invitation(text=code, name="bob", password=PASSWORD, now=AT)
    accept_invitation(text=code, name="nina", password=PASSWORD, now=AT)
    assert Membership.objects.get(user__name="nina").tenant_id == cast.tenant.pk


def test_nothing_is_withdrawn_twice_or_after_it_was_used(cast: Cast) -> None:
    used, open_one = invite(cast), invite(cast, "olga@example.org")
    accept_invitation(text=used.text, name="nina", password=PASSWORD, now=AT)
    services.withdraw_invitation(actor=cast.alice.actor, invitation=open_one.invitation, now=AT)

    for row in (used.invitation, open_one.invitation):
        with pytest.raises(Conflict):
            services.withdraw_invitation(actor=cast.alice.actor, invitation=row, now=AT)
    verbs = apps.get_model("activity.AuditEvent").objects.values_list("verb", flat=True)
    assert list(verbs).count("invitation.delete") == 1


def test_what_is_over_does_not_count_against_those_that_are_open(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invitations, "OPEN_PER_TENANT", 1)
    first = invite(cast)

    with pytest.raises(QuotaExceeded):
        invite(cast, "olga@example.org")
    Invitation.objects.filter(id=first.invitation.pk).update(expires_at=AT)
    second = invite(cast, "olga@example.org")
    services.withdraw_invitation(actor=cast.alice.actor, invitation=second.invitation, now=AT)
    third = invite(cast, "petra@example.org")
    accept_invitation(text=third.text, name="petra", password=PASSWORD, now=AT)
    invite(cast, "rosa@example.org")


def test_the_invitations_of_a_tenant_that_was_deleted_open_nothing(cast: Cast) -> None:
    code = invite(cast).text
    Tenant.objects.filter(id=cast.tenant.pk).update(disabled_at=AT)
    tenant = Tenant.objects.get(id=cast.tenant.pk)

    delete_belongings(actor=cast.otto.actor, tenant=tenant, gone={}, now=AT)

    with pytest.raises(NotFound):
        accept_invitation(text=code, name="nina", password=PASSWORD, now=AT)


@pytest.mark.parametrize("email", ["", "   ", "no-address", "a@b", f"{'a' * 250}@example.org", "x\x00@example.org"])
def test_only_to_an_address_somebody_is_invited(cast: Cast, email: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        invite(cast, email)

    assert [(entry.path, entry.code) for entry in refused.value.fields] == [("/email", "bad_email")]
    assert not Invitation.objects.exists()


def test_a_name_and_a_password_that_are_both_wrong_are_told_together(cast: Cast) -> None:
    with pytest.raises(InvalidInput) as refused:
        accept_invitation(text=invite(cast).text, name="Nina!", password="zzqz", now=AT)

    assert {(entry.path, entry.code) for entry in refused.value.fields} == {
        ("/name", "bad_user_name"),
        ("/password", "bad_password"),
        ("/password", "weak_password"),
    }


def test_whoever_is_signed_in_brings_no_name_and_no_password(cast: Cast) -> None:
    code = invite(cast, "carol@example.org").text

    with pytest.raises(InvalidInput) as refused:
        accept_invitation(text=code, actor=cast.carol.actor, password=PASSWORD, now=AT)
    assert [entry.code for entry in refused.value.fields] == ["signed_in"]
    before = Token.objects.count()
    done = accept_invitation(text=code, actor=cast.carol.actor, now=AT)
    assert (done.user.pk, done.token, Token.objects.count()) == (cast.carol.user.pk, None, before)


def test_an_invitation_is_for_its_address_and_for_no_program(cast: Cast) -> None:
    code = invite(cast, "nina@example.org").text
    account = make_service_account(cast.elsewhere)

    with pytest.raises(Forbidden, match="another address"):
        accept_invitation(text=code, actor=cast.carol.actor, now=AT)
    with pytest.raises(BerthError):
        accept_invitation(text=code, actor=actor_of(account), now=AT)
    assert read_invitation(text=code, now=AT).invitation.accepted_at is None


def test_an_address_that_was_claimed_before_the_invitation_is_enough_and_one_claimed_after_is_not(cast: Cast) -> None:
    early = make_user("early", email_claimed="nina@example.org", email_claimed_at=AT)
    late = make_user("late", email_claimed="nina@example.org", email_claimed_at=AT + timedelta(microseconds=1))

    with pytest.raises(Forbidden):
        accept_invitation(text=invite(cast).text, actor=actor_of(late), now=AT + timedelta(hours=1))
    done = accept_invitation(text=invite(cast).text, actor=actor_of(early), now=AT + timedelta(hours=1))
    assert done.user.pk == early.pk


@pytest.mark.parametrize(
    ("held", "given", "expected"),
    [("viewer", "manager", "manager"), ("member", "member", "member"), ("manager", "viewer", "manager")],
)
def test_a_member_who_is_invited_again_rises_and_never_falls(cast: Cast, held: str, given: str, expected: str) -> None:
    row = Membership.objects.get(tenant=cast.tenant, user=cast.bob.user)
    Membership.objects.filter(id=row.pk).update(role=held)

    done = accept_invitation(text=invite(cast, "bob@example.org", role=TenantRole(given)).text, actor=cast.bob.actor, now=AT)

    assert done.membership.role == expected
    assert done.membership.version == row.version + (expected != held)


def test_an_operators_invitation_sets_a_first_password_only_under_the_accounts_own_name(cast: Cast) -> None:
    services.import_users_csv(actor=cast.otto.actor, text="name,email,tenant,role\nnina,Nina@example.org,,\n", now=AT)
    code = invite(cast, by=cast.otto).text

    assert read_invitation(text=code, now=AT).name == "nina"
    with pytest.raises(Conflict, match="for the account nina"):
        accept_invitation(text=code, name="another", password=PASSWORD, now=AT)
    done = accept_invitation(text=code, name="nina", password=PASSWORD, now=AT)
    assert User.objects.get(name="nina").check_password(PASSWORD)
    assert done.token is not None
    again = invite(cast, by=cast.otto).text
    assert read_invitation(text=again, now=AT).name is None, "it has a password now"


def test_an_account_that_is_disabled_gets_no_password_by_an_invitation(cast: Cast) -> None:
    nina = make_user("nina", email="nina@example.org", is_active=False)

    done = accept_invitation(text=invite(cast, by=cast.otto).text, name="nina-2", password=PASSWORD, now=AT)

    nina.refresh_from_db()
    assert (done.user.name, nina.has_usable_password(), nina.is_active) == ("nina-2", False, False)
    assert not done.user.email_is_confirmed, "the address stays that of the account which has it confirmed"
