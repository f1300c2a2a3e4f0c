"""A tree of limits is judged as a whole: every break at once, with where, which, how much and what would be accepted."""

from __future__ import annotations

import math
import uuid

import pytest

from kernel.resources import Resources
from tenants.capacity.quota.limits import AMOUNT_MAX, Capacity, Limit, LimitedQueue, validate

POOL = Capacity(uuid.UUID(int=900), "a100", Resources(64_000, 2**40, 16_000))
ROOT = LimitedQueue(uuid.UUID(int=1), None, "root")


def queue(number, above=ROOT, *, pool=POOL.pool_id, resource="gpu_millis", **limit):
    limits = {pool: {resource: Limit(**limit)}} if limit else {}
    return LimitedQueue(uuid.UUID(int=100 + number), above.id, f"q{number}", limits)


def codes(*queues, pools=(POOL,)):
    return [(found.code, found.column) for found in validate([ROOT, *queues], pools)]


def test_a_tree_without_limits_holds():
    assert codes(queue(0), queue(1)) == []


def test_the_guarantees_of_tenants_add_up_to_at_most_the_pool():
    found = validate([ROOT, queue(0, guarantee=9_000), queue(1, guarantee=9_000)], [POOL])
    assert [(refusal.code, refusal.column, refusal.queue_id) for refusal in found] == [
        ("sum_above_parent", "deserved", ROOT.id),
        ("sum_above_parent", "guarantee", ROOT.id),
    ]
    assert "18 GPUs" in str(found[0].message)
    assert "16 GPUs" in str(found[0].message)
    assert "by 2 GPUs" in str(found[0].hint)
    assert found[1].path == f"/limits/{ROOT.id}/{POOL.pool_id}/gpu_millis/guarantee"


@pytest.mark.capability("22", "Children are promised no more than their parent has, per pool and resource, after any edit")
def test_children_are_given_at_most_what_their_parent_has():
    above = queue(0, guarantee=2_000, deserved=4_000)
    assert codes(above, queue(1, above, guarantee=2_000), queue(2, above, deserved=2_000)) == []
    assert codes(above, queue(1, above, guarantee=2_001)) == [("sum_above_parent", "guarantee")]
    assert codes(above, queue(1, above, deserved=4_001)) == [("sum_above_parent", "deserved")]
    assert codes(queue(3), queue(1, queue(3), guarantee=1)) == [
        ("sum_above_parent", "deserved"),
        ("sum_above_parent", "guarantee"),
    ]


def test_a_ceiling_is_at_most_the_lowest_above_it_but_siblings_may_share_one():
    above = queue(0, ceiling=8_000)
    assert codes(above, queue(1, above, ceiling=8_000), queue(2, above, ceiling=8_000)) == []
    assert codes(above, queue(1, above, ceiling=8_001)) == [("above_parent", "ceiling")]
    [found] = validate([ROOT, above, queue(1, above, ceiling=96_000)], [POOL])
    assert (found.message.en, found.hint.en) == (
        "The ceiling of q1, 96 GPUs, is more than the 8 GPUs that a queue above may use.",
        "Set at most 8 GPUs, or have the limit above raised first.",
    )
    assert found.message.zh == "q1 的上限 96 块 GPU 超过上级队列可用的 8 块 GPU。"
    between = queue(2, above)
    assert codes(above, between, queue(3, between, ceiling=8_001)) == [("above_parent", "ceiling")]


def test_guarantee_deserved_and_ceiling_stand_in_this_order():
    assert codes(queue(0, guarantee=2, deserved=1)) == [("below_guarantee", "deserved")]
    assert codes(queue(0, guarantee=3, ceiling=2)) == [("above_ceiling", "guarantee")]
    assert codes(queue(0, deserved=3, ceiling=2)) == [("above_ceiling", "deserved")]


@pytest.mark.parametrize("column", ["guarantee", "deserved", "ceiling", "weight"])
@pytest.mark.parametrize(
    ("value", "code"),
    [
        (-1, "out_of_range"),
        (AMOUNT_MAX + 1, "out_of_range"),
        (2**70, "out_of_range"),
        (math.nan, "invalid"),
        (math.inf, "invalid"),
        (1.5, "invalid"),
        (True, "invalid"),
        ("8", "invalid"),
    ],
)
def test_what_is_no_amount_is_refused_by_name(column, value, code):
    found = validate([ROOT, queue(0, **{column: value})], [POOL])
    assert [(refusal.code, refusal.column) for refusal in found] == [(code, column)]
    assert str(found[0].hint).startswith("Give ")


def test_every_break_is_told_at_once_and_in_any_order_of_input_the_same():
    queues = [
        ROOT,
        queue(0, guarantee=-1, weight=math.nan),
        queue(1, pool=uuid.UUID(int=5), ceiling=1),
        queue(2, resource="tpus", ceiling=1),
    ]
    found = validate(queues, [POOL])
    assert [(refusal.queue_id.int, refusal.column, refusal.code) for refusal in found] == [
        (100, "guarantee", "out_of_range"),
        (100, "weight", "invalid"),
        (101, "pool", "not_found"),
        (102, "resource", "not_found"),
    ]
    assert "a100" in str(found[2].hint)
    assert "gpu_millis" in str(found[3].hint)
    assert validate(queues[::-1], [POOL]) == found


def test_root_itself_has_no_limits():
    root = LimitedQueue(ROOT.id, None, "root", {POOL.pool_id: {"gpu_millis": Limit(ceiling=3)}})
    assert [found.code for found in validate([root], [POOL])] == ["is_root"]
