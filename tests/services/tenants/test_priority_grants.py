"""Which priority each role may use: nearest line, bounds, who may say so, and what that leaves in the audit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from activity.models import AuditEvent
from kernel.actor import ANONYMOUS, TenantRole
from kernel.config import current
from kernel.errors import BerthError, Forbidden, InvalidInput, NotAuthenticated, NotFound
from kernel.priorities import PRIORITIES, PRIORITY_MAX
from tenants.capacity.grants import default_grant, granted_to, priority_grants
from tenants.capacity.services.grants import set_priority_grants
from tenants.models import PriorityGrant, Tenant
from tests.factories.tenants import SYSTEM, Cast, actor_of, make_member, make_tenant, make_token, make_user, now

pytestmark = pytest.mark.database
MEMBER, MANAGER, VIEWER = TenantRole.MEMBER, TenantRole.MANAGER, TenantRole.VIEWER
Api = Callable[..., Any]


def grant(actor: Any, tenant: Tenant, **lines: int | None) -> None:
    set_priority_grants(actor=actor, tenant=tenant, lines={TenantRole(role): value for role, value in lines.items()}, now=now())


def refused(call: Callable[[], Any]) -> tuple[type[BerthError], list[tuple[str, str]]]:
    with pytest.raises(BerthError) as raised:
        call()
    return type(raised.value), [(field.path, field.code) for field in raised.value.fields]


def highest(tenant: Tenant) -> dict[str, int]:
    grants = priority_grants()
    return {str(role): grants.highest(tenant.pk, role, default_grant(role)) for role in (MEMBER, MANAGER)}


def test_without_lines_the_installations_priorities_hold(cast: Cast, configure: Callable[..., Any]) -> None:
    configure(priority_member=40, priority_manager=70)
    assert highest(cast.tenant) == {"member": 40, "manager": 70}
    grants = priority_grants()
    found = {
        name: granted_to(getattr(cast, name).actor, cast.tenant.pk, grants) for name in ("alice", "bob", "vera", "carol", "otto")
    }
    assert found == {"alice": 70, "bob": 40, "vera": 0, "carol": 0, "otto": PRIORITY_MAX}
    assert (granted_to(SYSTEM, cast.tenant.pk, grants), granted_to(ANONYMOUS, cast.tenant.pk, grants)) == (PRIORITY_MAX, 0)
    assert default_grant(VIEWER) == default_grant(None) == 0


def test_a_line_holds_here_and_below_until_a_nearer_one_and_null_takes_it_away(cast: Cast) -> None:
    below = make_tenant("below", parent=cast.tenant)
    grant(cast.otto.actor, cast.tenant, member=10, manager=90)
    grant(cast.otto.actor, below, member=0)
    assert (highest(cast.tenant), highest(below)) == ({"member": 10, "manager": 90}, {"member": 0, "manager": 90})
    grant(cast.otto.actor, below, member=None)
    assert highest(below) == {"member": 10, "manager": 90}
    assert highest(cast.elsewhere) == {"member": current().priority_member, "manager": current().priority_manager}


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ({"member": -1}, [("/member", "out_of_range")]),
        ({"member": PRIORITY_MAX + 1}, [("/member", "out_of_range")]),
        ({"member": -1, "manager": PRIORITY_MAX + 1}, [("/member", "out_of_range"), ("/manager", "out_of_range")]),
        ({"member": 60, "manager": 59}, [("/member", "above_managers")]),
    ],
)
def test_bad_lines_are_told_together_and_change_nothing(
    cast: Cast, lines: dict[str, int], expected: list[tuple[str, str]]
) -> None:
    assert refused(lambda: grant(cast.otto.actor, cast.tenant, **lines)) == (InvalidInput, expected)
    assert not PriorityGrant.objects.exists()
    assert not AuditEvent.objects.filter(verb="priority_grant.edit").exists()


@pytest.mark.parametrize(("priority", "is_allowed"), [(0, True), (70, True), (71, False)])
def test_a_manager_grants_members_what_managers_may_use_and_no_more(
    cast: Cast, configure: Callable[..., Any], priority: int, is_allowed: bool
) -> None:
    configure(priority_member=40, priority_manager=70)
    if is_allowed:
        grant(cast.alice.actor, cast.tenant, member=priority)
        assert highest(cast.tenant)["member"] == priority
    else:
        assert refused(lambda: grant(cast.alice.actor, cast.tenant, member=priority))[1] == [("/member", "above_own_grant")]


@pytest.mark.parametrize(
    ("person", "error"), [("bob", Forbidden), ("vera", Forbidden), ("carol", NotFound), ("alice", Forbidden), ("otto", None)]
)
def test_what_managers_may_use_is_said_from_above(cast: Cast, person: str, error: type[BerthError] | None) -> None:
    actor = getattr(cast, person).actor
    if error is None:
        grant(actor, cast.tenant, manager=PRIORITY_MAX)
    else:
        assert refused(lambda: grant(actor, cast.tenant, manager=PRIORITY_MAX))[0] is error
    assert refused(lambda: grant(ANONYMOUS, cast.tenant, member=1))[0] is NotAuthenticated


def test_a_manager_of_the_tenant_above_says_it_and_one_of_the_tenant_itself_does_not(cast: Cast) -> None:
    below = make_tenant("below", parent=cast.tenant)
    mia = make_user("mia")
    make_member(below, mia, MANAGER)
    assert refused(lambda: grant(actor_of(mia), below, manager=1))[0] is Forbidden
    grant(actor_of(mia), below, member=1)
    grant(actor_of(cast.alice.user), below, manager=30)
    assert highest(below) == {"member": 1, "manager": 30}


@pytest.mark.parametrize(
    ("own", "below", "is_refused"),
    [
        ({"manager": 30}, {"member": 31}, True),
        ({"manager": 30}, {"member": 30}, False),
        ({"member": 60}, {"manager": 59}, True),
        ({"member": 60}, {"manager": 60}, False),
        ({"manager": 30}, {"member": 31, "manager": 40}, False),
        ({"member": None}, {"manager": 39}, True),
    ],
)
def test_no_line_lets_members_of_a_tenant_below_use_more_than_their_managers(
    cast: Cast, configure: Callable[..., Any], own: dict[str, int | None], below: dict[str, int], is_refused: bool
) -> None:
    configure(priority_member=40, priority_manager=70)
    grant(cast.otto.actor, cast.tenant, member=0)
    grant(cast.otto.actor, make_tenant("below", parent=cast.tenant), **below)
    before = highest(cast.tenant)
    own = {"member": 0, **own} if "manager" in own else own
    if is_refused:
        assert ("/" + next(reversed(own)), "above_managers") in refused(lambda: grant(cast.otto.actor, cast.tenant, **own))[1]
        assert highest(cast.tenant) == before
    else:
        grant(cast.otto.actor, cast.tenant, **own)


def test_a_tenant_that_was_deleted_stops_no_line_above_it(cast: Cast) -> None:
    below = make_tenant("below", parent=cast.tenant)
    grant(cast.otto.actor, below, member=default_grant(MANAGER))
    Tenant.objects.filter(id=below.pk).update(disabled_at=now(), deleted_at=now())
    grant(cast.otto.actor, cast.tenant, member=0, manager=0)
    assert highest(cast.tenant) == {"member": 0, "manager": 0}


def test_what_was_turned_over_before_stops_no_other_line(cast: Cast, configure: Callable[..., Any]) -> None:
    below = make_tenant("below", parent=cast.tenant)
    PriorityGrant.objects.create(id=below.pk, tenant=below, role=str(MEMBER), priority=900)
    grant(cast.otto.actor, cast.tenant, member=10)
    assert highest(cast.tenant)["member"] == 10


def test_the_same_lines_again_leave_no_audit_row_and_others_leave_both_sides(cast: Cast) -> None:
    grant(cast.otto.actor, cast.tenant, member=10)
    grant(cast.otto.actor, cast.tenant, member=10)
    grant(cast.otto.actor, cast.tenant)
    (audit,) = AuditEvent.objects.filter(verb="priority_grant.edit")
    assert (audit.tenant_id, audit.target_id) == (cast.tenant.pk, str(cast.tenant.pk))
    assert audit.before == {"member": None, "manager": None}
    assert audit.after == {"member": 10, "manager": None}


def test_all_lines_of_all_tenants_take_two_queries(cast: Cast, django_assert_num_queries: Callable[[int], Any]) -> None:
    above = cast.tenant
    for number in range(6):
        above = make_tenant(f"deep-{number}", parent=above)
        grant(cast.otto.actor, above, member=number)
    with django_assert_num_queries(2):
        grants = priority_grants()
    assert grants.highest(above.pk, MEMBER, 99) == 5


# --- Over HTTP ---------------------------------------------------------------------------------------------------------


def lines_of(api: Api, person: Any, tenant: str = "vision") -> Any:
    return api(person).get(f"/api/v1/tenants/{tenant}/priority-grants")


@pytest.mark.parametrize(("person", "status"), [("alice", 200), ("bob", 200), ("vera", 200), ("carol", 404), ("otto", 200)])
def test_all_roles_of_a_tenant_read_its_lines(api: Api, cast: Cast, person: str, status: int) -> None:
    answer = lines_of(api, getattr(cast, person))
    assert answer.status_code == status
    if status == 200:
        assert answer.json()["classes"] == PRIORITIES
        assert [row["role"] for row in answer.json()["items"]] == ["member", "manager"]
        assert [row["tenant"] for row in answer.json()["items"]] == [None, None]


def test_a_line_names_its_tenant_to_those_who_see_it(api: Api, cast: Cast) -> None:
    below = make_tenant("below", parent=cast.tenant)
    mia = make_user("mia")
    make_member(below, mia)
    grant(cast.otto.actor, cast.tenant, member=10)
    seen = lines_of(api, cast.alice, "below").json()["items"][0]
    assert (seen["priority"], seen["tenant"]["name"]) == (10, "vision")
    hidden = lines_of(api, make_token(mia).text, "below").json()
    assert (hidden["items"][0]["priority"], hidden["items"][0]["tenant"], hidden["yours"]) == (10, None, 10)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"member": "normal"}, 200),
        ({"member": 0}, 200),
        ({"member": None}, 200),
        ({}, 200),
        ({"member": "urgent-ish"}, 422),
        ({"member": -1}, 422),
        ({"member": 1.5}, 422),
        ({"member": True}, 422),
        ({"viewer": 1}, 422),
    ],
)
def test_lines_are_numbers_of_the_range_or_classes_by_name(api: Api, cast: Cast, body: dict[str, Any], status: int) -> None:
    assert api(cast.alice).put("/api/v1/tenants/vision/priority-grants", body, format="json").status_code == status


@pytest.mark.parametrize(("person", "status"), [("bob", 403), ("vera", 403), ("carol", 404)])
def test_others_set_no_line(api: Api, cast: Cast, person: str, status: int) -> None:
    answer = api(getattr(cast, person)).put("/api/v1/tenants/vision/priority-grants", {"member": 1}, format="json")
    assert answer.status_code == status
    assert not PriorityGrant.objects.exists()
