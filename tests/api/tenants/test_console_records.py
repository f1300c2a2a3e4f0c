"""Actions of the operators' console on tenants and people: each goes by its service, with its audit row, and tells refusals."""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from activity.models import AuditEvent
from tenants.capacity.lifecycle import BookingState, EditState
from tenants.capacity.quota.edits import Change
from tenants.capacity.services.quota_requests import request_limits
from tenants.models import Booking, QuotaEdit, QuotaRequest, Token
from tenants.services import NewBooking, book, edit_limits
from tests.factories.clusters import a_cluster
from tests.factories.tenants import SYSTEM, Cast, make_session, make_token, make_user, now, top_queue

pytestmark = pytest.mark.database
LATER = timedelta(days=1)


@pytest.fixture
def pool(db: None) -> Any:
    return a_cluster("here").with_nodes(2, gpus=8).build().pools.get()


@pytest.fixture
def console(cast: Cast) -> Client:
    """Otto's browser, with a session of the portal, from an address of its own."""
    client = Client(REMOTE_ADDR=f"2001:db8:{secrets.randbelow(1 << 16):x}::1")
    client.cookies["berth-session"] = make_session(cast.otto.user).text
    return client


def act(console: Client, action: str, *rows: Any) -> str:
    """Do an action of a list to rows; what the page says afterwards."""
    path = reverse(f"admin:tenants_{rows[0]._meta.model_name}_changelist")
    answer = console.post(path, {"action": action, "_selected_action": [str(row.pk) for row in rows]}, follow=True)
    assert answer.status_code == 200
    return " ".join(str(message) for message in answer.context["messages"])


def test_locking_people_out_ends_the_tokens_of_all_of_them(console: Client, cast: Cast) -> None:
    act(console, "disable", cast.bob.user, cast.vera.user)
    for person in (cast.bob, cast.vera):
        person.user.refresh_from_db()
        assert not person.user.is_active
        assert not Token.objects.filter(user=person.user, revoked_at__isnull=True).exists()
    assert Token.objects.filter(user=cast.alice.user, revoked_at__isnull=True).exists()
    assert AuditEvent.objects.filter(actor_id=cast.otto.user.pk, target_id=str(cast.bob.user.pk)).count() == 1


def test_an_operator_who_locks_themselves_out_is_told_and_stays(console: Client, cast: Cast) -> None:
    assert act(console, "disable", cast.otto.user)
    cast.otto.user.refresh_from_db()
    assert cast.otto.user.is_active


def test_tokens_and_sessions_are_revoked_by_hand_and_twice_is_once(console: Client, cast: Cast) -> None:
    token, kept = make_token(cast.bob.user).token, make_token(cast.bob.user).token
    for _ in range(2):
        act(console, "revoke", token)
    token.refresh_from_db()
    kept.refresh_from_db()
    assert (token.revoked_at is None, kept.revoked_at) == (False, None)
    assert AuditEvent.objects.filter(verb="token.delete", target_id=str(token.pk)).count() == 1


def test_a_planned_edit_is_cancelled_and_one_that_was_made_is_not(console: Client, cast: Cast, pool: Any) -> None:
    queue, at = top_queue(cast.tenant), now()

    def edit(**given: Any) -> QuotaEdit:
        change = Change(queue.pk, pool.pk, "gpu_millis", {"ceiling": 4_000})
        return edit_limits(actor=SYSTEM, changes=[change], now=at, **given)

    planned, made = edit(effective_from=at + LATER), edit()
    act(console, "cancel", planned)
    act(console, "cancel", made)
    planned.refresh_from_db()
    made.refresh_from_db()
    assert (planned.state, made.state) == (EditState.CANCELLED, EditState.APPLIED)


@pytest.mark.parametrize(("action", "state", "ceiling"), [("approve", "approved", 4_000), ("deny", "denied", None)])
def test_a_request_is_decided_once(console: Client, cast: Cast, pool: Any, action: str, state: str, ceiling: int | None) -> None:
    queue = top_queue(cast.tenant)
    change = Change(queue.pk, pool.pk, "gpu_millis", {"ceiling": 4_000})
    row = request_limits(
        actor=cast.alice.actor, tenant=cast.tenant, changes=[change], effective_from=None, reason="A deadline.", now=now()
    )
    for each in (action, "approve", "deny"):
        act(console, each, row)
    row.refresh_from_db()
    assert row.state == state
    assert row.decided_by_id == cast.otto.user.pk
    assert [limit.ceiling for limit in queue.limits.all()] == ([] if ceiling is None else [ceiling])
    assert QuotaRequest.objects.count() == 1


def test_a_booking_is_given_up_and_frees_its_window(console: Client, cast: Cast, pool: Any) -> None:
    start = now() + LATER
    wanted = NewBooking(top_queue(cast.tenant).pk, pool.pk, 16_000, start, start + LATER)
    row = book(actor=SYSTEM, tenant_id=cast.tenant.pk, wanted=wanted, now=now())
    act(console, "cancel", row)
    row.refresh_from_db()
    assert row.state == BookingState.CANCELLED
    assert book(actor=SYSTEM, tenant_id=cast.tenant.pk, wanted=wanted, now=now()).pk != row.pk
    assert Booking.objects.filter(state=BookingState.HELD).count() == 1


@pytest.mark.parametrize("person", ["alice", "bob", "carol"])
def test_managers_do_nothing_in_the_console(cast: Cast, person: str) -> None:
    client = Client(REMOTE_ADDR=f"2001:db8:{secrets.randbelow(1 << 16):x}::1")
    client.cookies["berth-session"] = make_session(getattr(cast, person).user).text
    victim = make_user()
    path = reverse("admin:tenants_user_changelist")
    answer = client.post(path, {"action": "disable", "_selected_action": [str(victim.pk)]})
    assert answer.status_code in (302, 403, 404)
    victim.refresh_from_db()
    assert victim.is_active


@pytest.mark.parametrize("place", ["x", "00000000-0000-0000-0000-000000000001", "%2e%2e"])
def test_limits_of_a_queue_that_is_none_are_not_found(console: Client, place: str) -> None:
    assert console.get(f"/admin/tenants/queue/{place}/limits/").status_code == 404
