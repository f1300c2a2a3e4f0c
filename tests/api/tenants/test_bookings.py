"""Bookings over HTTP: made, refused with what stands in the way, cancelled, and let go when nobody comes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from activity.models import AuditEvent, Event
from jobs.models import Job
from kernel.resources import Resources
from tenants.capacity import reads as capacity
from tenants.capacity.quota.accounting import mark
from tenants.models import Booking, Reservation
from tenants.services import release, reserve, sweep_bookings
from tests.factories.clusters import a_cluster
from tests.factories.tenants import Cast, ask, limit, make_queue, now, top_queue

if TYPE_CHECKING:
    from rest_framework.test import APIClient

pytestmark = pytest.mark.database
Api = Callable[..., "APIClient"]
PATH = "/api/v1/bookings"


@pytest.fixture
def pool(db: None) -> Any:
    """16 GPUs on two nodes."""
    return a_cluster("here").with_nodes(2, gpus=8).build().pools.get()


def book(api: Api, person: Any, pool: Any, gpus: float, *, start: datetime, hours: float = 10, **options: Any) -> Any:
    window = {"starts_at": start.isoformat(), "ends_at": (start + timedelta(hours=hours)).isoformat()}
    body = {"pool": pool.name, "gpu_millis": int(gpus * 1000), **window, **options}
    return api(person).post(PATH, body, format="json")


def test_a_manager_books_and_everybody_of_the_tenant_sees_it(api: Api, cast: Cast, pool: Any) -> None:
    start = now() + timedelta(days=1)
    made = book(api, cast.alice, pool, 8, start=start, comment="the demo")

    assert made.status_code == 201
    assert made.json()["state"] == "held"
    assert made.json()["queue"]["name"] == "vision"
    assert made.json()["created_by"]["name"] == "alice"
    assert [entry["id"] for entry in api(cast.vera).get(PATH).json()["items"]] == [made.json()["id"]]
    assert api(cast.carol).get(PATH).json()["items"] == []
    assert book(api, cast.bob, pool, 1, start=start).status_code == 403
    assert book(api, cast.carol, pool, 1, start=start, tenant="vision").status_code == 404
    assert AuditEvent.objects.filter(verb="booking.create").count() == 1
    held = capacity.bookings(now())
    assert held.held(pool.pk, mark(start) + 60) == 8000
    assert held.held(pool.pk, mark(start) + 60, but={top_queue(cast.tenant).pk}) == 0, "its own jobs may use it"
    assert held.held(pool.pk, mark(start) - 60) == 0


@pytest.mark.capability("23", "An overlap of bookings is refused with the others, whose owners only some may see")
def test_an_overlap_is_refused_with_the_other_bookings_and_owners_only_for_those_who_see_them(
    api: Api, cast: Cast, pool: Any
) -> None:
    start = now() + timedelta(days=1)
    book(api, cast.carol, pool, 10, start=start)
    book(api, cast.alice, pool, 4, start=start + timedelta(hours=2), hours=2)
    refused = book(api, cast.alice, pool, 4, start=start + timedelta(hours=1))

    assert refused.status_code == 409
    shown = refused.json()
    assert "14 GPUs of the 16 GPUs" in shown["detail"]
    assert "at most 2 GPUs" in shown["hint"]
    assert [entry["code"] for entry in shown["fields"]] == ["overlaps", "overlaps"]
    theirs, own = (entry["message"] for entry in shown["fields"])
    assert theirs.startswith("10 GPUs are booked from")
    assert "elsewhere" not in str(shown)
    assert own.endswith("by vision.")
    assert "by elsewhere." in str(book(api, cast.otto, pool, 4, start=start + timedelta(hours=1), tenant="vision").json())
    assert book(api, cast.alice, pool, 2, start=start + timedelta(hours=1)).status_code == 201
    assert book(api, cast.alice, pool, 16, start=start + timedelta(hours=11), hours=2).status_code == 201


def test_bad_windows_and_sizes_are_refused_with_what_would_be_accepted(api: Api, cast: Cast, pool: Any) -> None:
    def codes(answer: Any) -> list[tuple[str, str]]:
        assert answer.status_code == 422
        return [(entry["path"], entry["code"]) for entry in answer.json()["fields"]]

    later = now() + timedelta(days=1)
    past = book(api, cast.alice, pool, 8, start=now() - timedelta(days=1))
    assert codes(past) == [("/starts_at", "in_the_past"), ("/ends_at", "out_of_range")]
    assert codes(book(api, cast.alice, pool, 8, start=later, hours=-1)) == [("/ends_at", "out_of_range")]
    assert codes(book(api, cast.alice, pool, 8, start=later, hours=24 * 200)) == [("/ends_at", "out_of_range")]
    assert codes(book(api, cast.alice, pool, 8, start=later + timedelta(days=900))) == [("/starts_at", "out_of_range")]
    assert codes(book(api, cast.alice, pool, 17, start=later)) == [("/gpu_millis", "larger_than_pool")]
    assert codes(book(api, cast.alice, pool, 1.5, start=later)) == [("/gpu_millis", "invalid")]
    assert codes(book(api, cast.alice, pool, 0, start=later)) == [("/gpu_millis", "min_value")]
    limit(top_queue(cast.tenant), pool.pk, gpu_millis=4000)
    assert codes(book(api, cast.alice, pool, 8, start=later)) == [("/gpu_millis", "above_ceiling")]
    assert codes(api(cast.alice).post(PATH, {"pool": "h900", "gpu_millis": 1000}, format="json")) == [
        ("/starts_at", "required"),
        ("/ends_at", "required"),
    ]
    unknown = {"pool": "h900", "gpu_millis": 1000, "starts_at": later.isoformat(), "ends_at": (later + timedelta(1)).isoformat()}
    assert codes(api(cast.alice).post(PATH, unknown, format="json")) == [("/pool", "not_found")]
    assert not Booking.objects.exists()


def test_a_booking_is_cancelled_by_its_maker_or_a_manager_and_frees_the_window(api: Api, cast: Cast, pool: Any) -> None:
    start = now() + timedelta(days=1)
    made = book(api, cast.alice, pool, 16, start=start).json()

    assert api(cast.bob).delete(f"{PATH}/{made['id']}").status_code == 403
    assert api(cast.carol).delete(f"{PATH}/{made['id']}").status_code == 404
    assert api(cast.alice).delete(f"{PATH}/{made['id']}").json()["state"] == "cancelled"
    assert api(cast.alice).delete(f"{PATH}/{made['id']}").status_code == 409
    assert book(api, cast.carol, pool, 16, start=start).status_code == 201


@pytest.mark.capability("23", "A booking that nobody uses is released")
def test_nobody_comes_and_the_booking_is_let_go_after_the_grace(api: Api, cast: Cast, pool: Any) -> None:
    made = book(api, cast.alice, pool, 8, start=now()).json()
    grace = timedelta(seconds=900)

    assert sweep_bookings(now() + grace - timedelta(minutes=1)) == 0
    assert sweep_bookings(now() + grace + timedelta(minutes=1)) == 1
    assert api(cast.vera).get(f"{PATH}/{made['id']}").json()["state"] == "no_show"
    assert Event.objects.filter(kind="booking.no_show").count() == 1
    assert not capacity.bookings(now())


def test_a_booking_that_somebody_came_for_holds_until_its_end(api: Api, cast: Cast, pool: Any) -> None:
    made = book(api, cast.alice, pool, 8, start=now()).json()
    elsewhere = ask(top_queue(cast.elsewhere), pool.pk, Resources(gpu_millis=1000))
    below = ask(make_queue(cast.tenant, "day"), pool.pk, Resources(gpu_millis=1000))
    reserve([elsewhere, below], now=now())
    release([below.attempt_id], now=now() + timedelta(minutes=1))
    assert Reservation.objects.filter(released_at__isnull=True).count() == 1

    assert sweep_bookings(now() + timedelta(minutes=2)) == 1
    assert sweep_bookings(now() + timedelta(hours=5)) == 0
    assert api(cast.vera).get(f"{PATH}/{made['id']}").json()["claimed_at"] is not None
    assert sweep_bookings(now() + timedelta(hours=11)) == 1
    assert api(cast.vera).get(f"{PATH}/{made['id']}").json()["state"] == "ended"


def test_a_job_that_ends_as_the_booking_begins_has_not_come_for_it(api: Api, cast: Cast, pool: Any) -> None:
    before = ask(top_queue(cast.tenant), pool.pk, Resources(gpu_millis=1000))
    start = now()
    reserve([before], now=start - timedelta(minutes=5))
    made = book(api, cast.alice, pool, 8, start=start).json()
    release([before.attempt_id], now=now())

    sweep_bookings(now() + timedelta(minutes=1))
    assert api(cast.vera).get(f"{PATH}/{made['id']}").json()["claimed_at"] is None
    during = ask(top_queue(cast.tenant), pool.pk, Resources(gpu_millis=1000))
    reserve([during], now=start - timedelta(minutes=5))
    sweep_bookings(now() + timedelta(minutes=1))
    assert api(cast.vera).get(f"{PATH}/{made['id']}").json()["claimed_at"] is not None, "what runs on into it has"


@pytest.mark.parametrize(
    ("reason", "where", "stays"),
    [
        ("not_together", "here", True),
        ("backfill_reservation", "here", True),
        ("booked", "here", True),  # As a process of the release before writes it.
        ("making_room", None, True),  # Its reason names no pool.
        ("no_room", "elsewhere", False),
        ("user_cap", None, False),
        ("held", None, False),
    ],
)
def test_a_booking_that_a_job_waits_for_is_not_let_go(
    api: Api, cast: Cast, pool: Any, reason: str, where: str | None, stays: bool
) -> None:
    made = book(api, cast.alice, pool, 8, start=now()).json()
    spec = {"name": "wide", "command": "true", "resources": {"cpu": 1, "memory": "1Gi", "gpu": 4}, "replicas": 2}
    submitted = api(cast.alice).post("/api/v1/jobs", {"tenant": cast.tenant.name, "spec": spec}, format="json")
    assert submitted.status_code == 201, submitted.json()
    detail = {} if where is None else {"pool": pool.name if where == "here" else where}
    Job.objects.update(reason_code=reason, reason_detail=detail)

    sweep_bookings(now() + timedelta(seconds=901))
    assert api(cast.vera).get(f"{PATH}/{made['id']}").json()["state"] == ("held" if stays else "no_show")
    Job.objects.update(reason_code="held")
    sweep_bookings(now() + timedelta(seconds=902))
    assert api(cast.vera).get(f"{PATH}/{made['id']}").json()["state"] == "no_show"
