from __future__ import annotations

import itertools
import uuid
from datetime import UTC

from hypothesis import given
from hypothesis import strategies as st

from kernel.resources import RESOURCE_NAMES, ZERO, Resources
from tenants.capacity.quota.accounting import seconds_between, seconds_within
from tenants.capacity.quota.tree import Ceiling, Claim, QueueFacts, QueueTree, grant

POOL = uuid.UUID(int=1)
amounts = st.builds(Resources, st.integers(0, 20), st.integers(0, 20), st.integers(0, 20))
limits = st.dictionaries(st.sampled_from(RESOURCE_NAMES), st.integers(0, 60), max_size=3)


@st.composite
def trees(draw: st.DrawFn) -> QueueTree:
    """Up to eight queues, each below an earlier one; use is given to leaves' own and summed upwards."""
    size = draw(st.integers(1, 8))
    ids = [uuid.UUID(int=100 + index) for index in range(size)]
    parents = [None, *[ids[draw(st.integers(0, index - 1))] for index in range(1, size)]]
    own = [draw(amounts) for _ in ids]
    used = dict.fromkeys(ids, ZERO)
    above = dict(zip(ids, parents, strict=True))
    for queue_id, amount in zip(ids, own, strict=True):
        here: uuid.UUID | None = queue_id
        while here is not None:
            used[here] += amount
            here = above[here]
    return QueueTree(
        QueueFacts(queue_id, above[queue_id], None, str(index), False, {POOL: draw(limits)}, {POOL: used[queue_id]})
        for index, queue_id in enumerate(ids)
    )


def fits(room: Ceiling, amount: Resources) -> bool:
    return all(
        (limit := getattr(room, name)) is None or getattr(amount, name) == 0 or getattr(amount, name) <= limit
        for name in RESOURCE_NAMES
    )


@given(trees(), st.integers(0, 7), amounts)
def test_an_amount_is_refused_exactly_where_it_does_not_fit_the_headroom(tree: QueueTree, index: int, amount: Resources) -> None:
    queue_id = list(tree.nodes)[index % len(tree.nodes)]

    assert (not tree.refusals(queue_id, POOL, amount)) == fits(tree.headroom(queue_id, POOL), amount)


@given(trees(), st.lists(st.tuples(st.integers(0, 7), amounts), max_size=30))
def test_a_batch_never_passes_a_ceiling_that_held_before(tree: QueueTree, asked: list[tuple[int, Resources]]) -> None:
    ids = list(tree.nodes)
    claims = [
        Claim(uuid.UUID(int=1000 + n), POOL, amount, tuple(node.id for node in tree.path(ids[index % len(ids)])))
        for n, (index, amount) in enumerate(asked)
    ]
    used = {(node.id, POOL): node.used(POOL) for node in tree}
    granted, growth = grant(claims, used, {(node.id, POOL): node.ceiling(POOL) for node in tree})

    for node in tree:
        more = growth.get((node.id, POOL), ZERO)
        assert more == sum_of([claim.amount for claim in claims if claim.attempt_id in granted and node.id in claim.queue_ids])
        for name, limit in node.ceilings[POOL].items():
            assert getattr(more, name) == 0 or getattr(node.used(POOL), name) + getattr(more, name) <= limit


@given(trees(), st.lists(st.tuples(st.integers(0, 7), amounts), min_size=1, max_size=10))
def test_what_is_left_out_would_not_have_fitted_at_its_turn(tree: QueueTree, asked: list[tuple[int, Resources]]) -> None:
    """Granting one by one gives the same answer as granting the batch."""
    ids = list(tree.nodes)
    ceilings = {(node.id, POOL): node.ceiling(POOL) for node in tree}
    used = {(node.id, POOL): node.used(POOL) for node in tree}
    claims = [
        Claim(uuid.UUID(int=1000 + n), POOL, amount, tuple(node.id for node in tree.path(ids[index % len(ids)])))
        for n, (index, amount) in enumerate(asked)
    ]
    whole, _ = grant(claims, used, ceilings)

    one_by_one: set[uuid.UUID] = set()
    for claim in claims:
        granted, growth = grant([claim], used, ceilings)
        one_by_one |= granted
        for key, amount in growth.items():
            used[key] += amount
    assert whole == one_by_one


def sum_of(parts: list[Resources]) -> Resources:
    result = ZERO
    for part in parts:
        result += part
    return result


moments = st.datetimes(timezones=st.just(UTC))


@given(st.lists(moments, min_size=2, max_size=2).map(sorted), st.lists(moments, max_size=6).map(sorted))
def test_parts_of_an_interval_add_up_to_the_whole(interval: list, cuts: list) -> None:  # type: ignore[type-arg]
    edges = [None, *cuts, None]
    parts = [seconds_within(*interval, since=since, until=until) for since, until in itertools.pairwise(edges)]

    assert sum(parts) == seconds_between(*interval)
