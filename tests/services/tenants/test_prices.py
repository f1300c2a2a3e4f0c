"""Prices as operators set them: the moments at which one may begin, all that is wrong at once, and what is said of it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from activity.models import AuditEvent, Event
from kernel.errors import Conflict, Forbidden, InvalidInput, NotFound
from tenants.billing.ledger.prices import PRICE_MAX
from tenants.billing.services import prices as service
from tenants.billing.services.prices import AHEAD_MAX, NOTICE, set_prices, withdraw_price
from tenants.models import Price
from tests.factories.clusters import a_cluster
from tests.factories.tenants import Cast

pytestmark = pytest.mark.database
NOON = datetime(2028, 2, 28, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
GPU = {"gpu_millis": 2_500_000}


@pytest.fixture
def pool_id(db: None) -> uuid.UUID:
    found: uuid.UUID = a_cluster("here").with_nodes(1, gpus=8).build().pools.get().pk
    return found


def given(
    cast: Cast, pool_id: uuid.UUID | None, prices: Mapping[str, int] = GPU, at: datetime | None = None, now: datetime = NOON
) -> list[Price]:
    return set_prices(actor=cast.otto.actor, pool_id=pool_id, prices=prices, effective_at=at, now=now)


def refused(cast: Cast, *args: Any, **options: Any) -> list[tuple[str, str]]:
    before = Price.objects.count()
    with pytest.raises(InvalidInput) as found:
        given(cast, *args, **options)
    assert Price.objects.count() == before
    return [(entry.path, entry.code) for entry in found.value.fields]


@pytest.mark.parametrize(
    ("now", "begins"),
    [
        (NOON, NOON + timedelta(minutes=1)),
        (NOON + SECOND, NOON + timedelta(minutes=2)),
        (NOON + timedelta(microseconds=1), NOON + timedelta(minutes=2)),
        (NOON + timedelta(hours=11, minutes=59), datetime(2028, 2, 29, tzinfo=UTC)),  # Into a leap day.
        (datetime(2028, 12, 31, 23, 59, 30, tzinfo=UTC), datetime(2029, 1, 1, 0, 1, tzinfo=UTC)),
    ],
)
def test_without_a_moment_a_price_begins_with_the_first_full_minute_that_gives_notice(
    cast: Cast, pool_id: uuid.UUID, now: datetime, begins: datetime
) -> None:
    (row,) = given(cast, pool_id, now=now)

    assert row.effective_at == begins


def test_a_price_begins_neither_sooner_than_the_notice_nor_later_than_ten_years(cast: Cast, pool_id: uuid.UUID) -> None:
    assert refused(cast, pool_id, at=NOON + NOTICE - SECOND) == [("/effective_at", "in_the_past")]
    assert refused(cast, pool_id, at=NOON + AHEAD_MAX + SECOND) == [("/effective_at", "out_of_range")]
    given(cast, pool_id, at=NOON + NOTICE)
    given(cast, pool_id, at=NOON + AHEAD_MAX)
    assert Price.objects.count() == 2


def test_all_that_is_wrong_is_told_at_once(cast: Cast) -> None:
    wrong = {"gpu_millis": -1, "cpu_millis": PRICE_MAX + 1, "memory_bytes": 0}

    assert refused(cast, None, wrong, at=NOON + timedelta(seconds=1, microseconds=5)) == [
        ("/pool", "not_found"),
        ("/gpu_hour_micros", "out_of_range"),
        ("/cpu_hour_micros", "out_of_range"),
        ("/effective_at", "invalid"),
        ("/effective_at", "in_the_past"),
    ]
    assert refused(cast, uuid.uuid4(), {}) == [("/pool", "not_found"), ("", "required")]


def test_the_least_and_the_largest_price_are_prices(cast: Cast, pool_id: uuid.UUID) -> None:
    rows = given(cast, pool_id, {"gpu_millis": PRICE_MAX, "cpu_millis": 0})

    assert {row.resource: row.micros_per_hour for row in rows} == {"gpu_millis": PRICE_MAX, "cpu_millis": 0}


def test_a_moment_that_has_a_price_is_told_with_it_and_takes_other_resources(cast: Cast, pool_id: uuid.UUID) -> None:
    at = NOON + timedelta(hours=1)
    given(cast, pool_id, at=at)

    with pytest.raises(InvalidInput) as found:
        given(cast, pool_id, {"gpu_millis": 1, "cpu_millis": 1}, at=at)
    (entry,) = found.value.fields
    assert (entry.path, entry.code) == ("/gpu_hour_micros", "already_priced")
    assert "gpu_millis 2.500000 EUR an hour" in str(entry.message)
    assert str(Price.objects.get().pk) in str(entry.hint)
    given(cast, pool_id, {"cpu_millis": 1}, at=at)
    assert Price.objects.count() == 2


def test_a_moment_that_is_over_is_told_with_what_held_then(cast: Cast, pool_id: uuid.UUID) -> None:
    for hours, micros in ((1, 1_000_000), (2, 2_000_000), (9, 9_000_000)):
        given(cast, pool_id, {"gpu_millis": micros}, at=NOON + timedelta(hours=hours))

    def told(hours: int) -> str:
        with pytest.raises(InvalidInput) as found:
            given(cast, pool_id, at=NOON + timedelta(hours=hours), now=NOON + timedelta(hours=5))
        return next(str(entry.message) for entry in found.value.fields if entry.code == "in_the_past")

    assert "What stands there: gpu_millis 2.000000 EUR" in told(3)
    assert "Nothing was priced then" in told(0)


def test_a_price_is_taken_back_until_its_notice_begins_and_not_after(cast: Cast, pool_id: uuid.UUID) -> None:
    (row,) = given(cast, pool_id, at=NOON + timedelta(hours=1))

    def withdraw(now: datetime) -> None:
        withdraw_price(actor=cast.otto.actor, price_id=row.pk, now=now)

    with pytest.raises(Conflict, match="or does within a minute"):
        withdraw(row.effective_at - NOTICE + SECOND)
    withdraw(row.effective_at - NOTICE)
    with pytest.raises(NotFound):
        withdraw(NOON)
    kinds = Event.objects.filter(kind__startswith="price.").order_by("row").values_list("kind", flat=True)
    assert list(kinds) == ["price.changed", "price.withdrawn"]
    assert AuditEvent.objects.filter(verb="price.edit").count() == 2


def test_managers_set_and_withdraw_no_prices(cast: Cast, pool_id: uuid.UUID) -> None:
    (row,) = given(cast, pool_id)

    with pytest.raises(Forbidden):
        set_prices(actor=cast.alice.actor, pool_id=pool_id, prices=GPU, now=NOON)
    with pytest.raises(Forbidden):
        withdraw_price(actor=cast.alice.actor, price_id=row.pk, now=NOON)


def test_no_price_is_set_in_another_currency_than_those_that_there_are(cast: Cast, pool_id: uuid.UUID, configure: Any) -> None:
    given(cast, pool_id)
    configure(currency="USD")

    with pytest.raises(InvalidInput, match="All prices are in EUR, and this server is set to USD") as found:
        given(cast, pool_id, at=NOON + timedelta(hours=1))
    assert "BERTH_CURRENCY=EUR" in found.value.hint
    Price.objects.all().delete()
    (row,) = given(cast, pool_id)
    assert row.currency == "USD"


def test_there_are_so_many_prices_and_no_more(cast: Cast, pool_id: uuid.UUID, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "ROWS_MAX", 2)
    given(cast, pool_id)

    assert refused(cast, pool_id, {"gpu_millis": 1, "cpu_millis": 1}, at=NOON + timedelta(hours=1)) == [("", "too_many")]
    given(cast, pool_id, {"cpu_millis": 1}, at=NOON + timedelta(hours=1))


def test_of_two_who_set_the_same_price_at_once_the_second_is_told_what_stands_there(
    cast: Cast, pool_id: uuid.UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second has looked before the first wrote: what refuses it is the database."""
    check, calls = service._check, []

    def late(*args: Any) -> None:
        calls.append(args)
        if len(calls) > 1:
            check(*args)

    at = NOON + timedelta(hours=1)
    given(cast, pool_id, at=at)
    monkeypatch.setattr(service, "_check", late)

    with pytest.raises(InvalidInput) as found:
        given(cast, pool_id, {"cpu_millis": 5, "gpu_millis": 5}, at=at)
    assert [(entry.path, entry.code) for entry in found.value.fields] == [("/gpu_hour_micros", "already_priced")]
    assert Price.objects.count() == 1, "nothing of the second stays"
