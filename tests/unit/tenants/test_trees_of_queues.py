"""Trees of queues as values: the way up, the way down, ceilings, headroom, batches of claims, and edits of many limits."""

from __future__ import annotations

import uuid

import pytest

from kernel.resources import ZERO, Resources
from tenants.capacity.quota.edits import Change, Over, blame, edited, new_breaks, try_edit
from tenants.capacity.quota.limits import NO_LIMIT, Break, Capacity, Limit, LimitedQueue, validate
from tenants.capacity.quota.tree import (
    NO_CEILING,
    Ceiling,
    Claim,
    LimitRefusal,
    QueueFacts,
    QueueTree,
    grant,
    refusals_of,
)

ROOT, TOP, CHILD, LEAF, OTHER = (uuid.UUID(int=number) for number in range(1, 6))
POOL, FOREIGN = uuid.UUID(int=900), uuid.UUID(int=901)
GPU = "gpu_millis"


def node(
    queue_id: uuid.UUID, parent_id: uuid.UUID | None, *, gpus: int = 0, ceiling: int | None = None, pool: uuid.UUID = POOL
) -> QueueFacts:
    return QueueFacts(
        id=queue_id,
        parent_id=parent_id,
        tenant_id=None,
        name=f"q{queue_id.int}",
        ceilings={} if ceiling is None else {pool: {GPU: ceiling}},
        usage={pool: Resources(gpu_millis=gpus)} if gpus else {},
        limits={} if ceiling is None else {pool: {GPU: Limit(ceiling=ceiling)}},
    )


def a_tree(*, top: int | None = 16, child: int | None = 8, leaf: int | None = None) -> QueueTree:
    return QueueTree(
        [
            node(ROOT, None, gpus=12),
            node(TOP, ROOT, gpus=10, ceiling=top),
            node(CHILD, TOP, gpus=6, ceiling=child),
            node(LEAF, CHILD, gpus=2, ceiling=leaf),
            node(OTHER, ROOT, gpus=2),
        ]
    )


# --- Ways --------------------------------------------------------------------------------------------------------------


def test_the_way_up_begins_with_the_queue_and_ends_at_root() -> None:
    tree = a_tree()
    assert [step.id for step in tree.path(LEAF)] == [LEAF, CHILD, TOP, ROOT]
    assert [step.id for step in tree.path(ROOT)] == [ROOT]
    assert tree.path(uuid.UUID(int=77)) == ()


def test_the_way_down_has_parents_before_children_and_not_the_queue_itself() -> None:
    tree = a_tree()
    assert [step.id for step in tree.below(ROOT)] == [TOP, OTHER, CHILD, LEAF]
    assert tree.below(LEAF) == ()


def test_a_queue_whose_parent_is_not_known_is_a_root_of_its_own() -> None:
    tree = QueueTree([node(CHILD, TOP)])
    assert [step.id for step in tree.path(CHILD)] == [CHILD]


def test_a_circle_of_queues_is_told_and_does_not_run_for_ever() -> None:
    tree = QueueTree([node(TOP, CHILD), node(CHILD, TOP)])
    with pytest.raises(AssertionError, match="circle"):
        tree.path(TOP)


def test_what_a_queue_holds_itself_is_its_use_without_that_of_the_queues_directly_below() -> None:
    own = {queue_id: amount[2] for queue_id, _, amount in a_tree().own_use()}
    assert own == {TOP: 4, CHILD: 4, LEAF: 2, OTHER: 2}, "root's own jobs hold nothing"


# --- Ceilings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("top", "child", "leaf", "lowest", "room"),
    [
        (None, None, None, None, None),
        (16, None, None, 16, 6),
        (16, 8, None, 8, 2),
        (16, 8, 3, 3, 1),
        (10, 8, None, 8, 0),
        (9, 8, None, 8, 0),
        (16, 8, 0, 0, 0),
    ],
)
def test_the_lowest_ceiling_on_the_way_holds_and_headroom_is_never_below_nothing(
    top: int | None, child: int | None, leaf: int | None, lowest: int | None, room: int | None
) -> None:
    tree = a_tree(top=top, child=child, leaf=leaf)
    assert tree.effective_ceiling(LEAF, POOL).gpu_millis == lowest
    assert tree.headroom(LEAF, POOL).gpu_millis == room
    assert tree.headroom(LEAF, FOREIGN) == NO_CEILING
    if room is not None:
        assert tree.refusals(LEAF, POOL, Resources(gpu_millis=room)) == () or room == 0
        assert tree.refusals(LEAF, POOL, Resources(gpu_millis=room + 1))


def test_all_limits_that_refuse_are_told_nearest_first_with_their_numbers() -> None:
    assert a_tree(top=10, child=8, leaf=2).refusals(LEAF, POOL, Resources(gpu_millis=9)) == (
        LimitRefusal(LEAF, POOL, GPU, 2, 9, 2),
        LimitRefusal(CHILD, POOL, GPU, 6, 9, 8),
        LimitRefusal(TOP, POOL, GPU, 10, 9, 10),
    )


@pytest.mark.parametrize(("needed", "ceiling", "never"), [(8, 8, False), (9, 8, True), (1, 0, True)])
def test_what_alone_is_above_a_ceiling_never_fits(needed: int, ceiling: int, never: bool) -> None:
    assert LimitRefusal(TOP, POOL, GPU, 0, needed, ceiling).can_never_fit is never


def test_every_resource_is_judged_alone_and_asking_for_none_is_never_refused() -> None:
    ceiling = Ceiling(cpu_millis=0, memory_bytes=10, gpu_millis=None)
    found = refusals_of(TOP, POOL, Resources(5, 5, 10**9), Resources(0, 6, 10**9), ceiling)
    assert [(refusal.resource, refusal.used, refusal.needed, refusal.ceiling) for refusal in found] == [
        ("memory_bytes", 5, 6, 10)
    ]
    assert ceiling.as_dict() == {"cpu_millis": 0, "memory_bytes": 10, "gpu_millis": None}


def test_a_wanted_ceiling_is_compared_with_the_lowest_one_further_up() -> None:
    tree = a_tree(top=4, child=8)
    assert tree.excess_ceilings(LEAF, POOL, Ceiling(gpu_millis=4)) == ()
    ((resource, most, queue),) = tree.excess_ceilings(LEAF, POOL, Ceiling(gpu_millis=5))
    assert (resource, most, queue.id) == (GPU, 4, TOP)
    assert tree.excess_ceilings(TOP, POOL, Ceiling(gpu_millis=10**9)) == (), "nothing above bounds it"
    assert tree.excess_ceilings(LEAF, FOREIGN, Ceiling(gpu_millis=5)) == ()


def test_a_queue_without_limits_of_a_pool_has_none() -> None:
    facts = a_tree().nodes[TOP]
    assert facts.ceiling(FOREIGN) == NO_CEILING
    assert facts.limit(FOREIGN, GPU) == facts.limit(POOL, "cpu_millis") == NO_LIMIT
    assert facts.used(FOREIGN) == ZERO
    assert {queue.name: queue.limit(POOL, GPU).ceiling for queue in a_tree().limited()} == {
        "q1": None, "q2": 16, "q3": 8, "q4": None, "q5": None,
    }  # fmt: skip


# --- Batches -----------------------------------------------------------------------------------------------------------


def claim(number: int, gpus: int, *, pool: uuid.UUID = POOL, queues: tuple[uuid.UUID, ...] = (CHILD, TOP)) -> Claim:
    return Claim(uuid.UUID(int=1_000 + number), pool, Resources(gpu_millis=gpus), queues)


def numbers(granted: set[uuid.UUID]) -> list[int]:
    return sorted(queue_id.int - 1_000 for queue_id in granted)


def test_a_later_smaller_attempt_passes_an_earlier_one_that_did_not_fit() -> None:
    granted, growth = grant([claim(0, 5), claim(1, 3), claim(2, 2)], {}, {(TOP, POOL): Ceiling(gpu_millis=4)})
    assert numbers(granted) == [1]
    assert growth == {(CHILD, POOL): Resources(gpu_millis=3), (TOP, POOL): Resources(gpu_millis=3)}


def test_an_attempt_in_two_pools_gets_both_or_none() -> None:
    ceilings = {(TOP, FOREIGN): Ceiling(gpu_millis=1)}
    both = [claim(0, 4), claim(0, 2, pool=FOREIGN)]
    assert grant(both, {}, ceilings) == (set(), {})
    granted, growth = grant([claim(0, 4), claim(0, 1, pool=FOREIGN)], {}, ceilings)
    assert numbers(granted) == [0]
    assert growth[(TOP, FOREIGN)] == Resources(gpu_millis=1)


def test_two_claims_of_one_attempt_on_one_pool_count_together() -> None:
    ceilings = {(CHILD, POOL): Ceiling(gpu_millis=4)}
    assert numbers(grant([claim(0, 2), claim(0, 2)], {}, ceilings)[0]) == [0]
    assert numbers(grant([claim(0, 2), claim(0, 3)], {}, ceilings)[0]) == []


def test_what_is_used_already_counts_and_no_claims_grant_nothing() -> None:
    ceilings = {(TOP, POOL): Ceiling(gpu_millis=4)}
    assert numbers(grant([claim(0, 1)], {(TOP, POOL): Resources(gpu_millis=4)}, ceilings)[0]) == []
    assert numbers(grant([claim(0, 1)], {(TOP, POOL): Resources(gpu_millis=3)}, ceilings)[0]) == [0]
    assert grant([], {}, ceilings) == (set(), {})


# --- Limits and their edits --------------------------------------------------------------------------------------------

CAPACITY = Capacity(POOL, "a100", Resources(0, 0, 16))


def queues(top: Limit = NO_LIMIT, child: Limit = NO_LIMIT, pool: uuid.UUID = POOL) -> list[LimitedQueue]:
    return [
        LimitedQueue(ROOT, None, "root"),
        LimitedQueue(TOP, ROOT, "top", {} if top == NO_LIMIT else {pool: {GPU: top}}),
        LimitedQueue(CHILD, TOP, "child", {} if child == NO_LIMIT else {pool: {GPU: child}}),
    ]


@pytest.mark.parametrize(
    ("limit", "owed", "is_promise"),
    [
        (NO_LIMIT, 0, False),
        (Limit(ceiling=8), 0, False),
        (Limit(guarantee=2), 2, True),
        (Limit(deserved=0), 0, True),
        (Limit(guarantee=2, deserved=6), 6, True),
        (Limit(guarantee=6, deserved=2), 6, True),
    ],
)
def test_a_limit_owes_the_larger_of_guarantee_and_deserved_amount(limit: Limit, owed: int, is_promise: bool) -> None:
    assert (limit.owed, limit.is_promise) == (owed, is_promise)


def test_a_limit_of_an_unknown_pool_or_resource_is_told_once_and_breaks_no_sum() -> None:
    found = validate(queues(Limit(guarantee=99), pool=FOREIGN), [CAPACITY])
    assert [(problem.column, problem.code) for problem in found] == [("pool", "not_found")]
    odd = LimitedQueue(TOP, ROOT, "top", {POOL: {"fpga": Limit(guarantee=1)}})
    assert [(problem.column, problem.code) for problem in validate([queues()[0], odd], [CAPACITY])] == [("resource", "not_found")]
    assert validate(queues(Limit(guarantee=1)), [])[0].hint.en.endswith("none.")


@pytest.mark.parametrize(("guarantee", "excess"), [(0, []), (16, []), (17, [1, 1]), (20, [4, 4])])
def test_guarantees_below_root_fill_the_pool_to_the_last_unit_and_no_further(guarantee: int, excess: list[int]) -> None:
    assert [problem.excess for problem in validate(queues(Limit(guarantee=guarantee)), [CAPACITY])] == excess


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, Limit(2, 4, 8, 3)),
        ({"guarantee": 1}, Limit(1, 4, 8, 3)),
        ({"guarantee": None}, Limit(0, 4, 8, 3)),
        ({"deserved": None}, Limit(2, None, 8, 3)),
        ({"ceiling": None}, Limit(2, 4, None, 3)),
        ({"weight": None}, Limit(2, 4, 8, 1)),
        ({"weight": 0}, Limit(2, 4, 8, 0)),
        ({"guarantee": 0, "deserved": 0, "ceiling": 0, "weight": 7}, Limit(0, 0, 0, 7)),
    ],
)
def test_an_edit_changes_the_columns_that_it_names(values: dict[str, int | None], expected: Limit) -> None:
    before = queues(Limit(2, 4, 8, 3))
    after = edited(before, [Change(TOP, POOL, GPU, values)])
    assert after[1].limit(POOL, GPU) == expected
    assert before[1].limit(POOL, GPU) == Limit(2, 4, 8, 3), "what is given stays as it is"


def test_an_edit_that_nothing_is_left_of_holds_nothing_over() -> None:
    used = {(TOP, POOL): Resources(gpu_millis=5)}
    assert try_edit(queues(), [Change(TOP, POOL, GPU, {"ceiling": 5})], [CAPACITY], used).over == ()
    (over,) = try_edit(queues(), [Change(TOP, POOL, GPU, {"ceiling": 4})], [CAPACITY], used).over
    assert over == Over(TOP, POOL, GPU, "ceiling", 5, 4, False)
    tight = queues(Limit(ceiling=4))
    (again,) = try_edit(tight, [Change(TOP, POOL, GPU, {"ceiling": 3})], [CAPACITY], used).over
    assert (again.limit, again.was_over) == (3, True)


def test_of_an_edit_of_an_unknown_pool_the_break_is_told_and_no_queue_is_over() -> None:
    outcome = try_edit(queues(), [Change(TOP, FOREIGN, GPU, {"ceiling": 0})], [CAPACITY], {(TOP, FOREIGN): Resources(0, 0, 9)})
    assert [refusal.code for refusal in outcome.breaks] == ["not_found"]
    assert outcome.over == ()


def a_break(queue_id: uuid.UUID, *, code: str = "sum_above_parent", excess: int = 1, resource: str = GPU) -> Break:
    return Break(queue_id, POOL, resource, "guarantee", code, "", "", excess)


def test_a_break_that_was_there_is_no_news_until_it_grows() -> None:
    old = a_break(TOP, excess=2)
    assert new_breaks([old], [a_break(TOP, excess=2)]) == ()
    assert new_breaks([old], [a_break(TOP, excess=1)]) == ()
    assert new_breaks([old], [a_break(TOP, excess=3)]) == (a_break(TOP, excess=3),)
    assert new_breaks([old], [a_break(TOP, code="above_ceiling", excess=1)]) == (a_break(TOP, code="above_ceiling", excess=1),)


def test_a_break_of_another_resource_is_no_fault_of_a_change() -> None:
    parents = {ROOT: None, TOP: ROOT, CHILD: TOP}
    changes = [Change(OTHER, POOL, GPU, {}), Change(ROOT, POOL, GPU, {}), Change(CHILD, POOL, GPU, {})]
    assert blame(a_break(TOP), changes, parents) == 2, "a child's before that of a queue above"
    assert blame(a_break(CHILD), changes[:2], parents) == 1
    assert blame(a_break(TOP, resource="cpu_millis"), changes, parents) is None
    assert blame(a_break(TOP), changes[:1], {TOP: CHILD, CHILD: TOP}) is None, "a circle ends"
