"""Many edits and bookings at once: the sums hold, the last GPUs are given once, and nobody waits for ever."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kernel.errors import Conflict, InvalidInput
from kernel.resources import Resources
from tenants.capacity.lifecycle import BookingState, EditState
from tenants.capacity.quota.edits import Change
from tenants.capacity.quota.limits import validate
from tenants.capacity.reads import bookings, capacities, limits_tree
from tenants.models import Booking, QuotaEdit
from tenants.services import NewBooking, apply_due_edits, book, cancel_edit, edit_limits, recount_usage, reserve
from tests.builders.threads import at_once
from tests.factories.clusters import a_cluster
from tests.factories.tenants import SYSTEM, ask, make_tenant, now, top_queue

pytestmark = [pytest.mark.database, pytest.mark.django_db(transaction=True)]

WORKERS = 6


def test_edits_that_fit_one_by_one_but_not_together_never_both_succeed() -> None:
    pool = a_cluster("here").with_nodes(2, gpus=8).build().pools.get()
    queues = [top_queue(make_tenant()) for _ in range(WORKERS)]

    def work(number: int) -> bool:
        reserve([ask(queues[number], pool.pk, Resources(gpu_millis=100))], now=now())
        change = Change(queues[number].pk, pool.pk, "gpu_millis", {"guarantee": 5_000})
        try:
            edit_limits(actor=SYSTEM, changes=[change], now=now())
        except InvalidInput:
            return False
        return True

    assert sum(at_once(WORKERS, work)) == 3
    assert validate(limits_tree().queues, capacities()) == ()
    assert recount_usage(now=now()) == []


def test_the_last_gpus_of_a_window_are_booked_once() -> None:
    pool = a_cluster("here").with_nodes(2, gpus=8).build().pools.get()
    queues = [top_queue(make_tenant()) for _ in range(WORKERS)]
    start = now() + timedelta(days=1)

    def work(number: int) -> bool:
        wanted = NewBooking(queues[number].pk, pool.pk, 5_000, start, start + timedelta(hours=1))
        tenant_id = queues[number].tenant_id
        assert tenant_id is not None
        try:
            book(actor=SYSTEM, tenant_id=tenant_id, wanted=wanted, now=now())
        except Conflict:
            return False
        return True

    assert sum(at_once(WORKERS, work)) == 3
    assert Booking.objects.filter(state=BookingState.HELD).count() == 3
    assert max(step.gpu_millis for step in bookings(now()).steps(pool.pk)) == 15_000


def test_an_edit_is_made_once_or_cancelled_but_never_both() -> None:
    pool = a_cluster("here").with_nodes(2, gpus=8).build().pools.get()
    queue = top_queue(make_tenant())
    change = Change(queue.pk, pool.pk, "gpu_millis", {"guarantee": 5_000})
    later = now() + timedelta(days=1)
    edit = edit_limits(actor=SYSTEM, changes=[change], effective_from=later, now=now())

    def work(number: int) -> str:
        if number % 2:
            return "applied" if apply_due_edits(later + timedelta(seconds=1)) else ""
        try:
            cancel_edit(actor=SYSTEM, edit=QuotaEdit.objects.get(id=edit.pk), now=later)
        except Conflict:
            return ""
        return "cancelled"

    (outcome,) = [done for done in at_once(WORKERS, work) if done]
    edit.refresh_from_db()
    assert edit.state == outcome
    (own,) = [found for found in limits_tree().queues if found.id == queue.pk]
    assert own.limit(pool.pk, "gpu_millis").guarantee == (5_000 if outcome == EditState.APPLIED else 0)
