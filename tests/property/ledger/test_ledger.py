"""The ledger's arithmetic: postings cancel out, parts add up to the whole, a statement is the same to the byte."""

from __future__ import annotations

import itertools
import random
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.resources import RESOURCE_NAMES, Resources
from tenants.billing.ledger.entries import (
    DAY_SECONDS,
    FATES,
    Entry,
    Fate,
    Measured,
    Use,
    add_up,
    day_number,
    fate_of,
    month_bounds,
    month_of,
    postings,
    use_between,
)
from tenants.billing.ledger.prices import PriceBook, PriceFacts, cost_micros
from tenants.billing.ledger.statements import canonical, lines_of_entries, statement
from tenants.capacity.quota.accounting import mark

START = datetime(2026, 1, 25, tzinfo=UTC)
SPAN_SECONDS = 40 * DAY_SECONDS
POOLS = [uuid.UUID(int=number) for number in (1, 2)]
PEOPLE = [uuid.UUID(int=number) for number in (11, 12)]
TENANT = uuid.UUID(int=21)

moments = st.integers(0, SPAN_SECONDS * 10**6).map(lambda micros: START + timedelta(microseconds=micros))
amounts = st.builds(
    Resources, st.integers(0, 10**6), st.one_of(st.just(0), st.integers(2**20, 2**45)), st.sampled_from([0, 125, 1000, 8000])
)


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    started_at, ended_at = sorted((draw(moments), draw(moments)))
    days = range(mark(started_at) // DAY_SECONDS, mark(ended_at) // DAY_SECONDS + 1)
    looked_at = draw(st.lists(st.sampled_from(days), unique=True, max_size=3)) if ended_at > started_at else []
    return Entry(
        attempt_id=draw(st.uuids()),
        number=1,
        job_id=draw(st.uuids()),
        tenant_id=TENANT,
        queue_id=draw(st.sampled_from(PEOPLE)),
        user_id=draw(st.sampled_from(PEOPLE)),
        pool_id=draw(st.sampled_from(POOLS)),
        amount=draw(amounts),
        started_at=started_at,
        ended_at=ended_at,
        fate=draw(st.sampled_from(list(Fate))),
        measured=tuple(Measured(day, draw(st.integers(0, 10**9)), draw(st.integers(0, 10**9))) for day in sorted(looked_at)),
    )


prices = st.lists(
    st.builds(
        PriceFacts,
        st.sampled_from(POOLS),
        st.sampled_from(RESOURCE_NAMES),
        st.integers(mark(START) - 100, mark(START) + SPAN_SECONDS),
        st.integers(0, 10**9),
    ),
    max_size=12,
    unique_by=lambda price: (price.pool_id, price.resource, price.since),
)


@pytest.mark.capability("69", "Every use is a pair of postings that cancel out")
@given(entries(), prices)
def test_postings_of_an_attempt_cancel_out_in_units_and_money_by_every_resource(entry: Entry, rows: list[PriceFacts]) -> None:
    made = postings(entry, PriceBook(rows))
    for resource in RESOURCE_NAMES:
        mine = [posting for posting in made if posting.resource == resource]
        assert sum(posting.unit_seconds for posting in mine) == 0
        assert sum(posting.micros for posting in mine) == 0
        charged = [posting for posting in mine if posting.account == "use"]
        assert sum(posting.unit_seconds for posting in charged) == getattr(entry.amount, resource) * (entry.until - entry.since)
        assert all(posting.account_id == entry.tenant_id and posting.micros >= 0 for posting in charged)


@given(entries(), prices)
def test_days_add_up_to_what_the_postings_charge(entry: Entry, rows: list[PriceFacts]) -> None:
    book = PriceBook(rows)
    whole = sum(add_up([entry], book).values(), start=Use())
    charged = [posting for posting in postings(entry, book) if posting.account == "use"]
    assert whole.micros == sum(posting.micros for posting in charged)
    assert whole.gpu_milli_seconds == entry.amount.gpu_millis * (entry.until - entry.since)
    assert whole == use_between(entry, book, entry.since, entry.until)
    assert whole.attempts == 1


@given(entries(), prices, st.lists(moments, max_size=5))
def test_parts_of_a_use_add_up_to_the_whole_wherever_it_is_cut(
    entry: Entry, rows: list[PriceFacts], cuts: list[datetime]
) -> None:
    book = PriceBook(rows)
    edges = [entry.since, *sorted(min(max(mark(cut), entry.since), entry.until) for cut in cuts), entry.until]
    parts = [use_between(entry, book, first, second) for first, second in itertools.pairwise(edges)]
    whole = use_between(entry, book, entry.since, entry.until)
    assert sum(part.micros for part in parts) == whole.micros
    assert sum(part.used.memory_byte_seconds for part in parts) == whole.memory_byte_seconds
    assert sum(part.gpu_measured_milli_seconds for part in parts) == whole.gpu_measured_milli_seconds
    assert sum(part.gpu_busy_milli_seconds for part in parts) == whole.gpu_busy_milli_seconds


@given(entries(), st.integers(0, 10**9), st.lists(st.integers(mark(START), mark(START) + SPAN_SECONDS), unique=True, max_size=5))
def test_a_change_to_the_same_price_changes_no_cost(entry: Entry, micros: int, changes: list[int]) -> None:
    first = PriceFacts(entry.pool_id, "gpu_millis", 0, micros)
    same = [PriceFacts(entry.pool_id, "gpu_millis", since, micros) for since in changes]
    charged = [
        sum(posting.micros for posting in postings(entry, PriceBook(rows)) if posting.account == "use")
        for rows in ([first], [first, *same])
    ]
    assert charged[0] == charged[1]


@given(entries(), prices, st.integers(0, 10**6), st.integers(0, 10**9))
def test_a_price_set_for_later_changes_nothing_that_is_over(
    entry: Entry, rows: list[PriceFacts], later: int, micros: int
) -> None:
    added = PriceFacts(entry.pool_id, "gpu_millis", entry.until + later, micros)
    before = [row for row in rows if (row.pool_id, row.resource, row.since) != (added.pool_id, added.resource, added.since)]
    assert add_up([entry], PriceBook(before)) == add_up([entry], PriceBook([*before, added]))


@given(st.lists(entries(), max_size=12), prices, st.randoms(use_true_random=False))
def test_a_statement_is_the_same_to_the_byte_in_any_order(
    found: list[Entry], rows: list[PriceFacts], chance: random.Random
) -> None:
    def made() -> bytes:
        book = PriceBook(rows)
        lines = lines_of_entries(found, book, month=202602)
        return canonical(statement(tenant_id=TENANT, month=202602, currency="EUR", lines=lines, book=book))

    first = made()
    chance.shuffle(found)
    chance.shuffle(rows)
    assert made() == first


@given(st.lists(entries(), max_size=12), prices)
def test_every_attempt_stands_in_exactly_one_statement(found: list[Entry], rows: list[PriceFacts]) -> None:
    book = PriceBook(rows)
    documents = [
        statement(tenant_id=TENANT, month=month, currency="EUR", lines=lines_of_entries(found, book, month=month), book=book)
        for month in (202601, 202602, 202603)
    ]
    whole = sum(add_up(found, book).values(), start=Use())
    assert sum(document["totals"]["attempts"] for document in documents) == len(found)
    assert sum(document["totals"]["micros"] for document in documents) == whole.micros
    assert sum(sum(document["totals"]["micros_by_fate"].values()) for document in documents) == whole.micros


def test_a_later_price_stands_in_no_statement_of_a_month_that_is_over() -> None:
    entry = Entry(
        *(uuid.UUID(int=1), 1, uuid.UUID(int=2), TENANT, PEOPLE[0], PEOPLE[0], POOLS[0]),
        *(Resources(gpu_millis=1000), START, START + timedelta(hours=2), Fate.USEFUL),
    )
    now_priced = [PriceFacts(POOLS[0], "gpu_millis", mark(START) - 5, 2_500_000)]
    later = PriceFacts(POOLS[0], "gpu_millis", mark(datetime(2026, 2, 1, tzinfo=UTC)), 9_000_000)

    def made(rows: list[PriceFacts]) -> bytes:
        book = PriceBook(rows)
        lines = lines_of_entries([entry], book, month=202601)
        return canonical(statement(tenant_id=TENANT, month=202601, currency="EUR", lines=lines, book=book))

    assert made(now_priced) == made([*now_priced, later])
    assert b'"micros":5000000' in made(now_priced)


def test_a_use_that_spans_a_change_is_charged_at_both_prices() -> None:
    change = mark(START) + 3_600
    book = PriceBook([PriceFacts(POOLS[0], "gpu_millis", 0, 1_000_000), PriceFacts(POOLS[0], "gpu_millis", change, 3_000_000)])
    assert book.cost(POOLS[0], "gpu_millis", 2_000, mark(START), change + 3_600) == 2_000_000 + 6_000_000
    assert book.at(POOLS[0], "gpu_millis", change - 1) == 1_000_000
    assert book.at(POOLS[0], "gpu_millis", change) == 3_000_000
    assert book.at(POOLS[1], "gpu_millis", change) == 0


@given(st.integers(0, 10**7), st.integers(0, 10**9), st.integers(0, 2 * 10**9), st.integers(0, 10**7))
def test_a_cost_is_within_a_millionth_of_the_exact_one(amount: int, micros: int, since: int, seconds: int) -> None:
    found = cost_micros("gpu_millis", amount, micros, since, since + seconds)
    assert abs(found * 3_600_000 - amount * micros * seconds) < 3_600_000


@pytest.mark.capability("60", "Use is split by what became of it, by tenant, user, queue, pool and job")
def test_what_became_of_an_attempt_decides_where_its_time_stands() -> None:
    outcomes = ("succeeded", "failed", "preempted", "stopped")
    said = {(outcome, goes_on): str(fate_of(outcome, goes_on=goes_on)) for outcome in outcomes for goes_on in (False, True)}
    assert said == {
        ("succeeded", False): "useful", ("succeeded", True): "useful",
        ("failed", False): "failed", ("failed", True): "retried",
        ("preempted", False): "evicted", ("preempted", True): "evicted",
        ("stopped", False): "stopped", ("stopped", True): "evicted",
    }  # fmt: skip
    assert set(said.values()) == set(FATES)


def test_months_meet() -> None:
    assert month_bounds(202612)[1] == month_bounds(202701)[0] == datetime(2027, 1, 1, tzinfo=UTC)
    assert month_of(day_number(datetime(2026, 12, 31, tzinfo=UTC).date())) == 202612
