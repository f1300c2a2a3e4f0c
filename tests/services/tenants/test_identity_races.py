"""Two requests at once on identity and the portal: one of them wins, the other is told, and nothing is written twice."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyotp
import pytest

from activity.models import AuditEvent, Event
from kernel.actor import TenantRole
from kernel.errors import BerthError, Conflict
from kernel.priorities import PRIORITY_MAX
from tenants.capacity.services.grants import set_priority_grants
from tenants.identity.services import tokens
from tenants.identity.services.members import add_member, remove_member
from tenants.identity.services.second_factor import begin_second_factor, confirm_second_factor, demand_second_factor
from tenants.identity.services.secrets import set_secret
from tenants.identity.services.tokens import create_token, revoke_token
from tenants.models import FeatureSetting, Membership, PriorityGrant, SavedFilter, Secret, Token, TokenKind
from tenants.portal import services as portal
from tests.builders.threads import at_once
from tests.factories.tenants import Cast, actor_of, make_cast, make_member, make_token, make_user, now

pytestmark = [pytest.mark.database, pytest.mark.django_db(transaction=True)]
WORKERS = 4
PASSWORD = "four words of alice"


@pytest.fixture
def people(transactional_db: None) -> Cast:
    return make_cast()


def outcomes(work: Any) -> list[str]:
    """What each of several at once was told: `done`, or the code of its refusal."""

    def attempt(number: int) -> str:
        try:
            work(number)
        except BerthError as refused:
            return refused.code
        return "done"

    return sorted(at_once(WORKERS, attempt))


def test_a_member_is_added_once(people: Cast) -> None:
    dora = make_user("dora")
    told = outcomes(
        lambda _: add_member(actor=people.alice.actor, tenant_id=people.tenant.pk, user=dora, role=TenantRole.MEMBER, now=now())
    )
    assert told == [Conflict.code] * (WORKERS - 1) + ["done"]
    assert Event.objects.filter(kind="member.added").count() == AuditEvent.objects.filter(verb="member.edit").count() == 1


def test_of_managers_who_leave_at_once_one_stays(people: Cast) -> None:
    managers = [people.alice.user, *(make_user() for _ in range(WORKERS - 1))]
    for user in managers[1:]:
        make_member(people.tenant, user, TenantRole.MANAGER)
    rows = [Membership.objects.select_related("user").get(tenant=people.tenant, user=user) for user in managers]
    told = outcomes(lambda number: remove_member(actor=actor_of(managers[number]), membership=rows[number], now=now()))
    assert told == [Conflict.code] + ["done"] * (WORKERS - 1)
    assert Membership.objects.filter(tenant=people.tenant, role=TenantRole.MANAGER).count() == 1


def test_a_token_is_revoked_once(people: Cast) -> None:
    token = make_token(people.bob.user).token
    found = at_once(WORKERS, lambda _: revoke_token(actor=people.bob.actor, token=token, now=now()))
    assert sorted(found) == [False] * (WORKERS - 1) + [True]
    assert AuditEvent.objects.filter(verb="token.delete").count() == 1


def test_no_user_has_more_tokens_than_there_may_be(people: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "TOKENS_PER_USER", 3)  # One is there.
    told = outcomes(lambda number: create_token(actor=people.bob.actor, user=people.bob.user, name=f"t{number}", now=now()))
    assert told.count("done") == 2
    assert Token.objects.filter(user=people.bob.user, kind=TokenKind.PERSONAL).count() == 3


def test_a_code_of_an_authenticator_lets_one_in(people: Cast) -> None:
    alice, at = people.alice.user, now()
    alice.set_password(PASSWORD)
    alice.save()
    secret = begin_second_factor(actor=people.alice.actor, user=alice, password=PASSWORD, now=at).secret
    done = confirm_second_factor(actor=people.alice.actor, user=alice, code=pyotp.TOTP(secret).at(at), now=at)
    later = at + timedelta(minutes=5)
    for code in (pyotp.TOTP(secret).at(later), done.recovery_codes[0]):
        told = outcomes(lambda _: demand_second_factor(alice, code, now=later))  # noqa: B023 - all threads end in this round.
        assert told == ["bad_code"] * (WORKERS - 1) + ["done"]


def test_a_secret_that_many_write_is_one_row_and_new_once(people: Cast) -> None:
    def write(number: int) -> bool:
        return set_secret(
            actor=people.alice.actor, tenant_id=people.tenant.pk, name="HF_TOKEN", value=f"value-{number}", now=now()
        )

    assert sorted(at_once(WORKERS, write)) == [False] * (WORKERS - 1) + [True]
    assert Secret.objects.count() == 1


def test_a_feature_and_a_filter_are_one_row_each(people: Cast) -> None:
    told = outcomes(
        lambda number: portal.set_feature(
            actor=people.otto.actor, name="templates", enabled=bool(number % 2), tenant_id=None, now=now()
        )
    )
    assert set(told) <= {"done", Conflict.code}
    assert FeatureSetting.objects.count() == 1
    assert AuditEvent.objects.filter(verb="feature.edit").count() == told.count("done") > 0
    told = outcomes(lambda _: portal.save_filter(actor=people.bob.actor, page="jobs", name="mine", query="", now=now()))
    assert told == [Conflict.code] * (WORKERS - 1) + ["done"]
    assert SavedFilter.objects.count() == 1


def test_members_never_get_more_than_their_managers_in_either_order(people: Cast) -> None:
    """One raises what members may use, another lowers what managers may: both at once would break the order."""
    lines = [{TenantRole.MEMBER: PRIORITY_MAX}, {TenantRole.MANAGER: PRIORITY_MAX - 1}]
    set_priority_grants(
        actor=people.otto.actor, tenant=people.tenant, lines={TenantRole.MEMBER: 0, TenantRole.MANAGER: PRIORITY_MAX}, now=now()
    )
    told = outcomes(
        lambda number: set_priority_grants(actor=people.otto.actor, tenant=people.tenant, lines=lines[number % 2], now=now())
    )
    assert "done" in told
    rows = dict(PriorityGrant.objects.filter(tenant=people.tenant).values_list("role", "priority"))
    assert rows["member"] <= rows["manager"]
