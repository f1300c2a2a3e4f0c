"""Notices: a request, a booking that nobody used, a planned edit that came to nothing, told to those whom it concerns."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from activity.models import AuditEvent, Delivery, Event, Subscription
from activity.notifications.channels.mail import compose
from activity.notifications.fanout import fan_out
from activity.sequencer import sequence
from jobs.models import Job
from jobs.services.priority_requests import approve, request_for_job, sweep_requests
from kernel.actor import TenantRole
from tenants.capacity.lifecycle import BookingState, EditState
from tenants.capacity.quota.edits import Change
from tenants.models import Booking, Membership, QuotaEdit, User
from tenants.services import NewBooking, apply_due_edits, book, edit_limits, sweep_bookings
from tests.builders.quay import Quay
from tests.factories.clusters import a_cluster
from tests.factories.tenants import Cast, make_queue, now, top_queue

pytestmark = pytest.mark.database


def listen(person: Any, *kinds: str, jobs: str = "own") -> None:
    Subscription.objects.create(user_id=person.user.pk, kinds=list(kinds), channel="mail", target="", jobs=jobs, created_at=now())


def told() -> list[tuple[str, str]]:
    """Who was told what since the last call."""
    sequence(now())
    Delivery.objects.all().delete()
    fan_out(now())
    names = dict(User.objects.values_list("id", "name"))
    return sorted((names[delivery.user_id], delivery.payload["notice"]["title"]) for delivery in Delivery.objects.all())


def test_managers_hear_of_a_request_and_who_asked_of_the_answer(quay: Quay) -> None:
    cast = quay.cast
    for person in (cast.alice, cast.bob, cast.carol):
        listen(person, "priority")
    listen(cast.vera, "priority", "failed", jobs="all")
    listen(cast.otto, "failed", jobs="all")
    job = quay.submit("demo")
    request = request_for_job(actor=cast.bob.actor, job=job, priority=900, reason="Friday.", now=now())

    asks = "bob asks for priority high"
    assert told() == [("alice", asks), ("vera", asks)]
    approve(actor=cast.alice.actor, request=request, answer="Fine.", now=now())
    answer = "alice: the request for priority high is approved"
    assert told() == [("bob", answer), ("vera", answer)]
    mail = compose(
        Delivery.objects.first().payload, sender="berth@example.org", recipient="bob@example.org", delivery_id="1", at=now(),
        server_url="http://berth.example.org",
    )  # fmt: skip
    assert mail["Subject"] == f"[Berth] {answer}"
    assert "Fine." in mail.get_content()
    assert "berth priority list" in mail.get_content()
    second = quay.submit("second")
    request_for_job(actor=cast.bob.actor, job=second, priority=900, now=now())
    told()
    sweep_requests(now() + timedelta(days=30))
    assert told()[0] == ("bob", "The request for priority high is over")


def test_whoever_booked_hears_that_nobody_came_and_it_is_audited(cast: Cast) -> None:
    pool = a_cluster("here").with_nodes(2, gpus=8).build().pools.get()
    for person in (cast.alice, cast.bob):
        listen(person, "capacity")
    start = now()
    wanted = NewBooking(top_queue(cast.tenant).pk, pool.pk, 8000, start, start + timedelta(hours=10))
    booking = book(actor=cast.alice.actor, tenant_id=cast.tenant.pk, wanted=wanted, now=start)

    assert sweep_bookings(start + timedelta(seconds=901)) == 1
    assert Booking.objects.get().state == BookingState.NO_SHOW
    assert told() == [("alice", f"Nobody used the booking of 8 GPUs in pool {pool.name}: it is released")]
    audit = AuditEvent.objects.get(verb="booking.release")
    assert (audit.target_id, audit.after["state"], audit.actor_name) == (str(booking.pk), "no_show", "system:quota")
    assert sweep_bookings(start + timedelta(seconds=902)) == 0


@pytest.fixture
def planned(cast: Cast) -> QuotaEdit:
    """An edit of Alice's that waits for tomorrow."""
    pool = a_cluster("here").with_nodes(2, gpus=8).build().pools.get()
    change = Change(make_queue(cast.tenant, "day").pk, pool.pk, "gpu_millis", {"ceiling": 4000})
    return edit_limits(actor=cast.alice.actor, changes=[change], effective_from=now() + timedelta(days=1), now=now())


def test_a_planned_edit_is_made_while_its_author_may(cast: Cast, planned: QuotaEdit) -> None:
    assert apply_due_edits(now() + timedelta(days=2)) == 1
    planned.refresh_from_db()
    assert planned.state == EditState.APPLIED
    assert not Event.objects.filter(kind="notice.capacity").exists()


@pytest.mark.parametrize("how", ["demoted", "gone", "disabled"])
def test_a_planned_edit_is_refused_once_its_author_may_not_make_it_any_more(cast: Cast, planned: QuotaEdit, how: str) -> None:
    listen(cast.alice, "capacity")
    listen(cast.otto, "capacity", jobs="all")
    Membership.objects.filter(user=cast.bob.user).update(role=str(TenantRole.MANAGER))
    listen(cast.bob, "capacity")
    mine = Membership.objects.filter(user=cast.alice.user)
    if how == "demoted":
        mine.update(role=str(TenantRole.MEMBER))
    elif how == "gone":
        mine.delete()
    else:
        User.objects.filter(id=cast.alice.user.pk).update(is_active=False)

    assert apply_due_edits(now() + timedelta(days=2)) == 1
    planned.refresh_from_db()
    assert planned.state == EditState.REFUSED
    code = "author_disabled" if how == "disabled" else "author_lost_right"
    assert [(problem["path"], problem["code"]) for problem in planned.problems] == [("/changes", code)]
    assert "alice" in planned.problems[0]["message"]
    names = [name for name, _ in told()]
    assert names == (["alice", "bob", "otto"] if how == "demoted" else ["bob", "otto"]), "whoever is gone hears nothing"
    assert AuditEvent.objects.filter(verb="quota_edit.refuse").count() == 1
    assert not Job.objects.exists()
