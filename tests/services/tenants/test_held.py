"""What was held and not worked with: before an attempt was with its cluster, and in bookings that nobody used."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest
from rest_framework.test import APIClient

from kernel.resources import Resources
from tenants.billing.idle_capacity import held_idle, unused
from tenants.billing.usage import UsageFilter
from tenants.models import Booking, Price, Reservation
from tenants.services import LedgerLine, append_ledger, release, reserve
from tests.factories.tenants import Cast, ask, now, top_queue

pytestmark = pytest.mark.database
POOL = uuid.UUID(int=1)
HOUR = timedelta(hours=1)


@pytest.mark.capability("6.4", "Waste is split by the outcome of jobs, and what was held and not used is counted")
def test_from_admission_to_the_cluster_is_held_and_not_charged(cast: Cast) -> None:
    at = now().replace(minute=0, second=0, microsecond=0) - 10 * HOUR
    price = {"resource": "gpu_millis", "micros_per_hour": 2_000_000, "currency": "EUR"}
    Price.objects.create(pool_id=POOL, effective_at=at - HOUR, created_at=at, **price)
    line = _attempt(cast, at, launched=at + HOUR / 2, ended=at + 3 * HOUR)

    (row,) = held_idle(UsageFilter(frozenset({cast.tenant.pk})), now=at + 4 * HOUR)
    assert (row.kind, row.used.gpu_milli_seconds, row.micros) == ("starting", 2_000 * 1_800, 2_000_000)
    cut = UsageFilter(frozenset({cast.tenant.pk}), since=at + HOUR / 4)
    assert held_idle(cut, now=at + 4 * HOUR)[0].used.gpu_milli_seconds == 2_000 * 900
    assert line.gpu_millis == 2_000


@pytest.mark.capability("6.4", "Waste is split by the outcome of jobs, and what was held and not used is counted")
def test_of_a_booking_what_its_queue_did_not_use_is_held_for_nobody(cast: Cast) -> None:
    at = now().replace(minute=0, second=0, microsecond=0) - 10 * HOUR
    Booking.objects.create(
        tenant=cast.tenant, queue=top_queue(cast.tenant), pool_id=POOL, gpu_millis=4_000, starts_at=at, ends_at=at + 8 * HOUR,
        released_at=at + 4 * HOUR, state="cancelled", created_at=at - HOUR,
    )  # fmt: skip
    _attempt(cast, at + HOUR, launched=at + HOUR, ended=at + 3 * HOUR)

    (row,) = held_idle(UsageFilter(frozenset({cast.tenant.pk})), now=at + 9 * HOUR)
    assert (row.kind, row.used.gpu_milli_seconds) == ("booked", (4_000 * 4 - 2_000 * 2) * 3_600)


def test_a_tenant_reads_its_own_and_its_members_no_money(cast: Cast) -> None:
    at = now() - 5 * HOUR
    _attempt(cast, at, launched=at + HOUR, ended=at + 2 * HOUR)

    def get(token: str, status: int = 200, **query: str) -> Any:
        client = APIClient()
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
        answer = client.get("/api/v1/usage:held", query)
        assert answer.status_code == status
        return answer.json().get("items")

    assert [(row["kind"], row["micros"]) for row in get(cast.alice.token)] == [("starting", 0)]
    assert get(cast.vera.token)[0]["micros"] is None
    assert get(cast.carol.token) == []
    get(cast.carol.token, 404, tenant=cast.tenant.slug)


def test_the_rest_of_an_amount_is_cut_where_others_begin_and_end() -> None:
    assert list(unused(4, 0, 10, [(2, 6, 3), (4, 20, 3)])) == [(0, 2, 4), (2, 4, 1), (6, 10, 1)]


def _attempt(cast: Cast, admitted: Any, *, launched: Any, ended: Any) -> LedgerLine:
    queue = top_queue(cast.tenant)
    request = ask(queue, POOL, Resources(0, 0, 2_000))
    assert reserve([request], now=admitted)
    release([request.attempt_id], now=ended)
    line = LedgerLine(
        attempt_id=request.attempt_id, number=1, job_id=request.job_id, tenant_id=cast.tenant.pk, queue_id=queue.pk,
        user_id=cast.bob.user.pk, pool_id=POOL, cluster_id=uuid.UUID(int=9), cpu_millis=0, memory_bytes=0, gpu_millis=2_000,
        started_at=launched, ended_at=ended, outcome="succeeded",
    )  # fmt: skip
    append_ledger([line], now=ended)
    assert Reservation.objects.filter(attempt_id=request.attempt_id).exists()
    return line
