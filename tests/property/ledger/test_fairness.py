"""The arithmetic of deserved and delivered shares."""

from __future__ import annotations

import random
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as some

from kernel.resources import Resources
from tenants.billing.ledger.fairness import (
    HOUR,
    Holding,
    Limits,
    Share,
    ShareKey,
    Wanted,
    divide,
    share_statement,
    shares,
    week_of,
    week_starts,
)
from tenants.billing.ledger.statements import canonical, digest
from tenants.billing.shares import week_number, week_text
from tenants.capacity.quota.limits import Limit, LimitedQueue

POOL = uuid.UUID(int=1)
ROOT, A, B, C, BELOW = (uuid.UUID(int=number) for number in range(10, 15))
GPU = "gpu_millis"
DIGEST = "d4532cae99696c0badf8b30c690f3d5fdda3aa73629aa5f46a5c2f5a8379d448"


def limits(**of: Limit) -> tuple[LimitedQueue, ...]:
    """Root, tenants a, b and c, and a queue below a."""
    ids = {"a": A, "b": B, "c": C, "below": BELOW}
    found = [LimitedQueue(ROOT, None, "root")]
    for name, queue_id in ids.items():
        rows = {POOL: {GPU: of[name]}} if name in of else {}
        found.append(LimitedQueue(queue_id, A if name == "below" else ROOT, name, rows))
    return tuple(found)


def held(queue: uuid.UUID, gpus: int, since: int = 0, until: int = HOUR) -> Holding:
    return Holding(queue, POOL, Resources(0, 0, gpus * 1000), since, until)


def wanted(queue: uuid.UUID, gpus: int, hour: int = 0, seconds: int = HOUR) -> Wanted:
    return Wanted(hour, queue, POOL, 0, gpus * 1000 * seconds)


def gpu_hours(found: dict[ShareKey, Share], queue: uuid.UUID) -> dict[str, float]:
    share = found[ShareKey(queue, POOL, GPU)]
    return {name: value / 1000 / HOUR for name, value in {**share._asdict(), "deficit": share.deficit}.items()}


@pytest.mark.capability("33", "Every queue reads what it deserved, wanted and got, and what is missing")
def test_who_holds_less_than_it_deserves_and_wants_it_has_a_shortfall() -> None:
    history = [Limits(0, limits(a=Limit(deserved=6000), b=Limit(deserved=2000)))]
    found = shares(since=0, until=HOUR, history=history, held=[held(A, 2), held(B, 6)], waiting=[wanted(A, 10)])

    a, b = gpu_hours(found, A), gpu_hours(found, B)
    assert (a["deserved"], a["requested"], a["due"], a["delivered"], a["shortfall"]) == (6, 12, 6, 2, 4)
    assert (a["fair"], a["deficit"]) == (6, 4)
    assert (b["fair"], b["deficit"], b["shortfall"]) == (2, -4, 0)


def test_nobody_is_owed_what_they_did_not_ask_for() -> None:
    history = [Limits(0, limits(a=Limit(deserved=6000), b=Limit(deserved=2000)))]
    found = shares(since=0, until=HOUR, history=history, held=[held(B, 8)], waiting=[wanted(B, 1)])

    assert gpu_hours(found, A) | {"deficit": 0.0, "shortfall": 0.0, "fair": 0.0} == gpu_hours(found, A)
    assert gpu_hours(found, B)["deficit"] == 0


def test_nothing_is_wanted_above_a_ceiling() -> None:
    history = [Limits(0, limits(a=Limit(deserved=4000, ceiling=4000), b=Limit()))]
    found = shares(since=0, until=HOUR, history=history, held=[held(A, 4), held(B, 4)], waiting=[wanted(A, 100)])

    assert gpu_hours(found, A)["requested"] == 4
    assert gpu_hours(found, A)["deficit"] == 0


def test_what_no_queue_deserves_is_divided_by_weight_among_those_who_want_more() -> None:
    history = [Limits(0, limits(a=Limit(weight=1), b=Limit(weight=2), c=Limit(weight=3)))]
    found = shares(
        since=0, until=HOUR, history=history, held=[held(A, 2), held(B, 2), held(C, 2)],
        waiting=[wanted(queue, 50) for queue in (A, B, C)],
    )  # fmt: skip

    assert [gpu_hours(found, queue)["fair"] for queue in (A, B, C)] == [1, 2, 3]
    assert [gpu_hours(found, queue)["deficit"] for queue in (A, B, C)] == [-1, 0, 1]


def test_a_change_of_limits_counts_from_its_second_on() -> None:
    history = [Limits(0, limits(a=Limit(deserved=4000))), Limits(HOUR // 4, limits(a=Limit(deserved=8000)))]
    found = shares(since=0, until=HOUR, history=history, held=[], waiting=[wanted(A, 10)])

    assert gpu_hours(found, A)["deserved"] == 1 + 6


def test_a_queue_is_judged_by_all_that_runs_below_it_and_its_children_among_themselves() -> None:
    found = shares(since=0, until=HOUR, history=[Limits(0, limits())], held=[held(BELOW, 3), held(A, 1), held(B, 4)], waiting=[])

    assert gpu_hours(found, A)["delivered"] == 4
    assert gpu_hours(found, A)["delivered_by_all"] == 8
    assert gpu_hours(found, BELOW)["delivered_by_all"] == 3


amounts = some.integers(0, 20)
queue_ids = some.sampled_from([A, B, C, BELOW])
holdings = some.lists(
    some.tuples(queue_ids, amounts, some.integers(0, 3 * HOUR), some.integers(0, 3 * HOUR)).map(
        lambda row: held(row[0], row[1], min(row[2:]), max(row[2:]))
    ),
    max_size=8,
)
wishes = some.lists(some.tuples(queue_ids, amounts, some.integers(0, 2)).map(lambda row: wanted(*row)), max_size=6)
limit = some.builds(
    Limit, some.just(0), some.one_of(some.none(), some.integers(0, 20_000)), some.one_of(some.none(), some.integers(0, 30_000)),
    some.integers(0, 3),
)  # fmt: skip
histories = some.tuples(limit, limit, limit, some.integers(1, 3 * HOUR - 1), limit).map(
    lambda row: [Limits(0, limits(a=row[0], b=row[1], c=row[2])), Limits(row[3], limits(a=row[4], b=row[1], c=row[2]))]
)


@pytest.mark.capability("33", "Every queue reads what it deserved, wanted and got, and what is missing")
@given(histories, holdings, wishes)
def test_deficits_of_siblings_cancel_out_and_fair_parts_add_up_to_what_all_got(
    history: list[Limits], runs: list[Holding], waits: list[Wanted]
) -> None:
    found = shares(since=0, until=3 * HOUR, history=history, held=runs, waiting=waits)
    tops = [share for key, share in found.items() if key.queue_id in (A, B, C)]

    assert sum(share.deficit for share in tops) == 0
    assert sum(share.fair for share in tops) == sum(run.amount.gpu_millis * (run.until - run.since) for run in runs)
    for share in found.values():
        assert share.fair <= share.requested <= share.requested_by_all
        assert share.due <= share.deserved
        assert share.due - share.delivered <= share.shortfall <= share.due


@pytest.mark.capability("6.10", "A statement of each tenant's week is signed, and made again from ledger and limits, to the byte")
@given(histories, holdings, wishes, some.randoms(use_true_random=False))
def test_a_statement_is_the_same_to_the_byte_in_any_order(
    history: list[Limits], runs: list[Holding], waits: list[Wanted], chance: random.Random
) -> None:
    def made() -> bytes:
        found = shares(since=0, until=3 * HOUR, history=history, held=runs, waiting=waits)
        return canonical(
            share_statement(tenant_id=ROOT, queue_id=A, week="1970-W01", since=0, until=3 * HOUR, found=found, history=history)
        )

    before = made()
    chance.shuffle(runs)
    chance.shuffle(waits)
    for entry in history:
        history[history.index(entry)] = entry._replace(queues=tuple(chance.sample(entry.queues, len(entry.queues))))
    assert made() == before


def test_a_signed_document_keeps_its_keys_whatever_they_are_called_elsewhere() -> None:
    """Its digest is that of the release before: stored weeks are made again, and compared by it."""
    history = [Limits(0, limits(a=Limit(deserved=6000), b=Limit(deserved=2000)))]
    found = shares(since=0, until=HOUR, history=history, held=[held(A, 2), held(B, 4)], waiting=[wanted(A, 10)])
    document = share_statement(
        tenant_id=ROOT, queue_id=A, week="1970-W01", since=0, until=HOUR, found=found, history=history
    )  # fmt: skip
    [line] = document["lines"]
    assert line["promised"] == gpu_hours(found, A)["deserved"] * 1000 * HOUR == 6000 * HOUR
    assert digest(canonical(document)) == DIGEST


@given(some.integers(0, 1000), some.dictionaries(some.integers(0, 9), some.tuples(some.integers(0, 5), some.integers(0, 300))))
def test_nothing_is_left_over_while_somebody_wants_more(total: int, claims: dict[int, tuple[int, int]]) -> None:
    parts = divide(total, claims)

    assert sum(parts.values()) == min(total, sum(most for _, most in claims.values()))
    assert all(parts[key] <= most for key, (_, most) in claims.items())
    for key, (weight, most) in claims.items():
        for other, (heavier, _) in claims.items():
            if parts[key] < most and weight and heavier:  # Who wants more has no less for its weight than anybody else.
                assert (parts[key] + 1) * heavier >= parts[other] * weight - heavier * len(claims)


def test_weeks_begin_on_monday_and_their_names_are_read_back() -> None:
    for second in (0, 345_599, 345_600, 1_798_761_600):
        week = week_of(second)
        assert week_starts(week) <= second < week_starts(week + 1)
        assert week_number(week_text(week)) == week
    assert week_text(week_of(1_798_761_600)) == "2026-W53"
