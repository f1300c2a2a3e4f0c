"""Bookings by the service: windows that meet, ends that are reached to the second, and ceilings on the way up."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from activity.models import AuditEvent, Event
from kernel.config import current
from kernel.errors import Conflict, Forbidden, InvalidInput
from kernel.resources import Resources
from tenants.capacity.services import bookings as service
from tenants.capacity.services.bookings import AHEAD, LATE, LENGTH_MAX, NewBooking, book, cancel_booking, sweep_bookings
from tenants.models import Booking, Queue
from tenants.services import reserve
from tests.factories.clusters import a_cluster
from tests.factories.tenants import Cast, Person, ask, limit, make_queue, top_queue

pytestmark = pytest.mark.database
NOON = datetime(2028, 2, 28, 12, tzinfo=UTC)
SECOND, HOUR, DAY = timedelta(seconds=1), timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def pool_id(db: None) -> uuid.UUID:
    """16 GPUs."""
    found: uuid.UUID = a_cluster("here").with_nodes(2, gpus=8).build().pools.get().pk
    return found


def booked(
    person: Person, queue: Queue, pool_id: uuid.UUID, start: datetime, end: datetime, gpus: float = 16, now: datetime = NOON
) -> Booking:
    assert queue.tenant_id is not None
    wanted = NewBooking(queue.pk, pool_id, int(gpus * 1000), start, end)
    return book(actor=person.actor, tenant_id=queue.tenant_id, wanted=wanted, now=now)


def refused(*args: Any, **options: Any) -> list[tuple[str, str]]:
    with pytest.raises(InvalidInput) as found:
        booked(*args, **options)
    return [(entry.path, entry.code) for entry in found.value.fields]


def test_a_window_may_begin_as_another_ends_and_end_as_another_begins_even_on_a_leap_day(cast: Cast, pool_id: uuid.UUID) -> None:
    ours, theirs = top_queue(cast.tenant), top_queue(cast.elsewhere)
    leap = datetime(2028, 2, 29, tzinfo=UTC)

    booked(cast.alice, ours, pool_id, leap, leap + DAY)
    booked(cast.carol, theirs, pool_id, leap - DAY / 2, leap)
    booked(cast.carol, theirs, pool_id, leap + DAY, leap + 2 * DAY)
    for start, end in ((leap - HOUR, leap + SECOND), (leap + DAY - SECOND, leap + DAY + HOUR), (leap + HOUR, leap + 2 * HOUR)):
        with pytest.raises(Conflict):
            booked(cast.carol, theirs, pool_id, start, end, gpus=1)
    assert Booking.objects.count() == 3


def test_what_is_left_beside_others_is_told_and_can_be_booked(cast: Cast, pool_id: uuid.UUID) -> None:
    theirs = top_queue(cast.elsewhere)
    booked(cast.alice, top_queue(cast.tenant), pool_id, NOON + HOUR, NOON + 3 * HOUR, gpus=6)
    booked(cast.alice, top_queue(cast.tenant), pool_id, NOON + 2 * HOUR, NOON + 4 * HOUR, gpus=7)

    with pytest.raises(Conflict, match=r"13 GPUs of the 16 GPUs in pool .* 4 GPUs more do not fit") as found:
        booked(cast.carol, theirs, pool_id, NOON, NOON + 5 * HOUR, gpus=4)
    assert found.value.hint.startswith("Book at most 3 GPUs, or begin at 2028-02-28 15:00")
    assert all("by vision" not in str(entry.message) for entry in found.value.fields)
    assert len(found.value.fields) == 2
    booked(cast.carol, theirs, pool_id, NOON, NOON + 5 * HOUR, gpus=3)


def test_a_start_of_a_moment_ago_is_now_and_one_of_a_minute_and_more_is_over(cast: Cast, pool_id: uuid.UUID) -> None:
    queue = top_queue(cast.tenant)

    row = booked(cast.alice, queue, pool_id, NOON - LATE, NOON + HOUR)
    assert row.starts_at == NOON
    assert refused(cast.alice, queue, pool_id, NOON - LATE - SECOND, NOON + HOUR) == [("/starts_at", "in_the_past")]


def test_the_longest_window_and_the_farthest_start_are_allowed_and_a_second_more_is_not(cast: Cast, pool_id: uuid.UUID) -> None:
    queue = top_queue(cast.tenant)
    far = NOON + AHEAD

    booked(cast.alice, queue, pool_id, far, far + LENGTH_MAX)
    assert refused(cast.alice, queue, pool_id, NOON, NOON + LENGTH_MAX + SECOND) == [("/ends_at", "out_of_range")]
    assert refused(cast.alice, queue, pool_id, far + SECOND, far + HOUR) == [("/starts_at", "out_of_range")]


def test_all_that_is_wrong_with_a_window_is_told_at_once(cast: Cast, pool_id: uuid.UUID) -> None:
    queue = top_queue(cast.tenant)

    assert refused(cast.alice, queue, pool_id, NOON - DAY, NOON - DAY, gpus=0.5) == [
        ("/gpu_millis", "invalid"),
        ("/starts_at", "in_the_past"),
        ("/ends_at", "out_of_range"),
    ]
    assert refused(cast.alice, queue, pool_id, NOON + HOUR, NOON + HOUR) == [("/ends_at", "out_of_range")]
    assert refused(cast.alice, queue, uuid.uuid4(), NOON, NOON + HOUR) == [("/pool", "not_found")]


def test_a_ceiling_of_a_queue_further_up_bounds_what_is_booked_below(cast: Cast, pool_id: uuid.UUID) -> None:
    own = make_queue(cast.tenant, "night")
    limit(top_queue(cast.tenant), pool_id, gpu_millis=4_000)

    assert refused(cast.alice, own, pool_id, NOON, NOON + HOUR, gpus=5) == [("/gpu_millis", "above_ceiling")]
    booked(cast.alice, own, pool_id, NOON, NOON + HOUR, gpus=4)
    limit(own, pool_id, gpu_millis=0)
    assert refused(cast.alice, own, pool_id, NOON + DAY, NOON + DAY + HOUR, gpus=1) == [("/gpu_millis", "above_ceiling")]


def test_a_booking_is_given_up_until_its_end_and_frees_the_rest_of_its_window(cast: Cast, pool_id: uuid.UUID) -> None:
    first = booked(cast.alice, top_queue(cast.tenant), pool_id, NOON, NOON + HOUR)
    later = booked(cast.alice, top_queue(cast.tenant), pool_id, NOON + DAY, NOON + DAY + HOUR)

    with pytest.raises(Forbidden):
        cancel_booking(actor=cast.bob.actor, booking=later, now=NOON)
    with pytest.raises(Conflict, match="over already"):
        cancel_booking(actor=cast.alice.actor, booking=first, now=NOON + HOUR)
    cancel_booking(actor=cast.alice.actor, booking=later, now=NOON + DAY + HOUR / 2)
    with pytest.raises(Conflict):
        cancel_booking(actor=cast.alice.actor, booking=later, now=NOON + DAY + HOUR / 2)
    at = NOON + DAY + HOUR / 2
    booked(cast.carol, top_queue(cast.elsewhere), pool_id, at, at + HOUR, now=at)
    assert AuditEvent.objects.filter(verb="booking.cancel").count() == 1


def test_a_tenant_holds_so_many_bookings_and_those_that_are_over_do_not_count(
    cast: Cast, pool_id: uuid.UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "PER_TENANT", 1)
    queue = top_queue(cast.tenant)
    booked(cast.alice, queue, pool_id, NOON, NOON + HOUR, gpus=1)

    with pytest.raises(Conflict, match="at most 1 bookings"):
        booked(cast.alice, queue, pool_id, NOON + DAY, NOON + DAY + HOUR, gpus=1)
    booked(cast.carol, top_queue(cast.elsewhere), pool_id, NOON, NOON + HOUR, gpus=1)
    booked(cast.alice, queue, pool_id, NOON + DAY, NOON + DAY + HOUR, gpus=1, now=NOON + HOUR)


def test_a_booking_ends_at_its_end_and_is_let_go_at_the_end_of_the_grace_to_the_second(cast: Cast, pool_id: uuid.UUID) -> None:
    grace = timedelta(seconds=current().booking_grace_seconds)
    missed = booked(cast.alice, top_queue(cast.tenant), pool_id, NOON, NOON + grace + HOUR, gpus=2)
    came = booked(cast.carol, top_queue(cast.elsewhere), pool_id, NOON, NOON + grace + HOUR, gpus=2)
    below = make_queue(cast.elsewhere, "below")
    reserve([ask(below, pool_id, Resources(gpu_millis=1_000))], now=NOON + SECOND)

    assert sweep_bookings(NOON - SECOND) == 0
    assert sweep_bookings(NOON + grace - SECOND) == 1, "somebody came, for a queue below"
    assert sweep_bookings(NOON + grace) == 1
    missed.refresh_from_db()
    assert (missed.state, missed.released_at) == ("no_show", NOON + grace)
    assert sweep_bookings(came.ends_at - SECOND) == 0
    assert sweep_bookings(came.ends_at) == 1
    came.refresh_from_db()
    assert came.state == "ended"
    notices = [row for row in Event.objects.filter(subject_id=missed.pk) if "Nobody used the booking" in str(row.data)]
    assert len(notices) == 1
    assert "2 GPUs" in str(notices[0].data)


def test_work_without_gpus_of_another_queue_or_in_another_pool_has_not_come_for_a_booking(cast: Cast, pool_id: uuid.UUID) -> None:
    grace = timedelta(seconds=current().booking_grace_seconds)
    own = make_queue(cast.tenant, "night")
    row = booked(cast.alice, own, pool_id, NOON, NOON + grace + HOUR, gpus=2)
    others = [
        ask(own, pool_id, Resources(cpu_millis=1_000)),
        ask(own, uuid.uuid4(), Resources(gpu_millis=1_000)),
        ask(top_queue(cast.tenant), pool_id, Resources(gpu_millis=1_000)),
    ]
    assert len(reserve(others, now=NOON)) == 3

    sweep_bookings(NOON + grace)

    row.refresh_from_db()
    assert row.state == "no_show"
