"""What the scheduler asks of shares in one scene each: room, keepers, who may take what back, what is above, whose turn it is."""

from __future__ import annotations

import uuid

import pytest

from kernel.resources import Resources
from tenants.capacity.quota.decay import SCALE
from tenants.capacity.quota.limits import Capacity, Limit, LimitedQueue
from tenants.capacity.quota.shares import ONE, WEIGHTLESS, Refusal, Shares, Standing
from tenants.capacity.quota.turns import Turns

POOL, FOREIGN = uuid.UUID(int=900), uuid.UUID(int=901)
CAPACITY = [Capacity(POOL, "a100", Resources(400, 400, 40))]
ROOT, A, B, A_LEFT, A_RIGHT = (uuid.UUID(int=number) for number in range(1, 6))
GPU = 2


def gpus(amount: int) -> tuple[int, int, int]:
    return (0, 0, amount)


def scene(**limits: Limit) -> Shares:
    """Root, tenants a and b, and two queues below a. Limits of GPUs by name; 40 GPUs in one pool."""
    parents = {"a": (A, ROOT), "b": (B, ROOT), "a_left": (A_LEFT, A), "a_right": (A_RIGHT, A)}
    return Shares(
        [LimitedQueue(ROOT, None, "root")]
        + [
            LimitedQueue(queue_id, parent, name, {POOL: {"gpu_millis": limits[name]}} if name in limits else {})
            for name, (queue_id, parent) in parents.items()
        ],
        CAPACITY,
    )


# --- Building ----------------------------------------------------------------------------------------------------------


def test_a_half_life_has_at_least_a_second() -> None:
    with pytest.raises(ValueError, match="half-life"):
        Shares([], CAPACITY, half_life_seconds=0)


def test_without_a_root_there_is_a_hidden_one() -> None:
    shares = Shares([LimitedQueue(A, ROOT, "a"), LimitedQueue(B, uuid.UUID(int=77), "b")], CAPACITY)
    assert shares.queue_ids == (None, A, B)
    assert shares.path[shares.queue_at[A]] == (1, 0)
    assert shares.parent == [-1, 0, 0]


def test_queues_in_a_circle_are_told() -> None:
    with pytest.raises(AssertionError, match="circle"):
        Shares([LimitedQueue(ROOT, None, "root"), LimitedQueue(A, B, "a"), LimitedQueue(B, A, "b")], CAPACITY)


def test_queues_are_numbered_by_their_names_on_the_way_down_whatever_the_order_of_input() -> None:
    rows = [
        LimitedQueue(ROOT, None, "root"),
        LimitedQueue(B, ROOT, "z"),
        LimitedQueue(A, ROOT, "y"),
        LimitedQueue(A_LEFT, B, "a"),
    ]
    for order in (rows, rows[::-1]):
        assert Shares(order, CAPACITY).queue_ids == (ROOT, A, B, A_LEFT)


def test_limits_of_a_pool_that_is_gone_hold_nothing_back() -> None:
    tree = [LimitedQueue(ROOT, None, "root"), LimitedQueue(A, ROOT, "a", {FOREIGN: {"gpu_millis": Limit(9, 9, 9)}})]
    shares = Shares(tree, CAPACITY)
    assert shares.room(shares.queue_at[A], 0, gpus(40)) is Standing.BORROWED


def test_use_that_is_given_at_the_start_is_held() -> None:
    shares = Shares([LimitedQueue(ROOT, None, "root"), LimitedQueue(A, ROOT, "a")], CAPACITY, [(A, POOL, (1, 2, 3))])
    assert shares.used(0, 0) == shares.own(shares.queue_at[A], 0) == (1, 2, 3)
    assert shares.own(0, 0) == gpus(0)


# --- Room --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ask", "expected"),
    [
        ((0, 0, 0), Standing.BORROWED),
        ((0, 0, 40), Standing.BORROWED),
        ((0, 0, 41), Refusal("capacity", 0, 0, GPU, 41, 0, 40)),
        ((401, 0, 41), Refusal("capacity", 0, 0, 0, 401, 0, 400)),
        ((0, 401, 0), Refusal("capacity", 0, 0, 1, 401, 0, 400)),
    ],
)
def test_without_limits_a_pool_is_lent_to_its_last_unit(ask: tuple[int, int, int], expected: Standing | Refusal) -> None:
    shares = scene()
    assert shares.room(shares.queue_at[B], 0, ask) == expected
    assert shares.is_beyond(0, ask) is isinstance(expected, Refusal)


@pytest.mark.parametrize(("need", "limit", "never"), [(8, 8, False), (9, 8, True)])
def test_a_refusal_says_whether_waiting_helps(need: int, limit: int, never: bool) -> None:
    assert Refusal("ceiling", 0, 0, 0, need, 0, limit).can_never_fit is never


def test_every_limit_that_refuses_is_told_nearest_first_and_the_pool_last() -> None:
    shares = scene(a=Limit(ceiling=20), a_left=Limit(ceiling=10), b=Limit(guarantee=30))
    left, a = shares.queue_at[A_LEFT], shares.queue_at[A]
    shares.take(left, 0, gpus(8))
    assert [
        (refusal.code, refusal.queue, refusal.used, refusal.limit, refusal.kept) for refusal in shares.refusals(left, 0, gpus(13))
    ] == [
        ("ceiling", left, 8, 10, 0),
        ("ceiling", a, 8, 20, 0),
        ("withheld", 0, 38, 40, 30),
    ]
    assert shares.refusals(left, 0, gpus(2)) == ()
    assert shares.refusals(left, 0, gpus(0)) == ()


def test_a_ceiling_counts_what_guarantees_below_keep() -> None:
    shares = scene(a=Limit(guarantee=10, ceiling=12), a_left=Limit(guarantee=8))
    a, right = shares.queue_at[A], shares.queue_at[A_RIGHT]
    assert shares.room(right, 0, gpus(4)) is not None
    refused = shares.room(right, 0, gpus(5))
    assert isinstance(refused, Refusal)
    assert (refused.code, refused.queue, refused.used, refused.limit, refused.kept) == ("ceiling", a, 0, 12, 8)


def test_those_who_keep_most_are_named_first_and_those_on_ones_own_way_never() -> None:
    shares = scene(a=Limit(guarantee=12), a_left=Limit(guarantee=5), b=Limit(guarantee=9))
    a, b, left, right = (shares.queue_at[queue] for queue in (A, B, A_LEFT, A_RIGHT))
    assert shares.keepers(right, 0, GPU) == ((b, 9), (left, 5))
    assert shares.keepers(b, 0, GPU) == ((a, 12),)
    shares.take(b, 0, gpus(9))
    assert shares.keepers(right, 0, GPU) == ((left, 5),)
    assert shares.keepers(right, 0, 0) == ()


@pytest.mark.parametrize(
    ("limits", "binds"),
    [
        ({}, False),
        ({"a": Limit(ceiling=40)}, False),
        ({"b": Limit(guarantee=1)}, True),
        ({"b": Limit(deserved=10)}, False),
    ],
)
def test_two_tenants_bind_each_other_by_guarantees_alone(limits: dict[str, Limit], binds: bool) -> None:
    shares = scene(**limits)
    assert shares.may_bind(shares.queue_at[A], shares.queue_at[B], 0) is binds


def test_two_queues_of_a_tenant_bind_each_other_by_its_ceiling() -> None:
    shares = scene(a=Limit(ceiling=39))
    assert shares.may_bind(shares.queue_at[A_LEFT], shares.queue_at[A_RIGHT], 0)


def test_giving_back_more_than_was_held_is_our_mistake() -> None:
    shares = scene()
    shares.take(shares.queue_at[A], 0, gpus(1))
    with pytest.raises(AssertionError, match="more than was held"):
        shares.give(shares.queue_at[A], 0, gpus(2))


def test_what_was_asked_is_true_at_a_version_that_every_move_ends() -> None:
    shares = scene()
    shares.take(shares.queue_at[A], 0, gpus(1))
    shares.give(shares.queue_at[A], 0, gpus(1))
    assert shares.version == 2


# --- Taking back -------------------------------------------------------------------------------------------------------


def test_nothing_is_taken_back_within_one_queue_or_where_nothing_was_said_to_be_deserved() -> None:
    shares = scene(a=Limit(deserved=10))
    a, b, left = (shares.queue_at[queue] for queue in (A, B, A_LEFT))
    shares.take(b, 0, gpus(40))
    assert not shares.may_reclaim(a, a, 0, gpus(1))
    assert not shares.may_reclaim(b, a, 0, gpus(1))
    assert shares.may_reclaim(left, b, 0, gpus(10))
    assert not shares.may_reclaim(left, b, 0, (1, 0, 0)), "of cores nothing is deserved"
    assert not shares.may_reclaim(left, b, 0, gpus(0))


def test_a_queue_takes_back_from_its_sibling_only_what_it_deserves_inside_the_tenant() -> None:
    shares = scene(a=Limit(deserved=20), a_left=Limit(deserved=12), a_right=Limit(deserved=8))
    left, right = shares.queue_at[A_LEFT], shares.queue_at[A_RIGHT]
    shares.take(right, 0, gpus(20))
    assert shares.may_reclaim(left, right, 0, gpus(12))
    assert not shares.may_reclaim(left, right, 0, gpus(13))
    shares.give(right, 0, gpus(12))
    assert not shares.may_reclaim(left, right, 0, gpus(1)), "the sibling holds what it deserves"


@pytest.mark.parametrize(
    ("weight", "claimant_holds", "ask", "expected"),
    [(1, 0, 10, True), (1, 10, 10, True), (1, 10, 11, False), (2, 10, 11, True), (3, 20, 10, True), (3, 28, 10, False)],
)
def test_borrowers_are_evened_out_by_weight_and_never_back_and_forth(
    weight: int, claimant_holds: int, ask: int, expected: bool
) -> None:
    shares = scene(a=Limit(deserved=0, weight=weight), b=Limit(deserved=0))
    a, b = shares.queue_at[A], shares.queue_at[B]
    shares.take(b, 0, gpus(30 if weight == 1 else 12))
    shares.take(a, 0, gpus(claimant_holds))
    gives = gpus(10 if weight == 1 else 1)
    assert shares.may_rebalance(a, b, 0, gpus(ask), gives) is expected
    if expected:
        shares.take(a, 0, gpus(ask))
        shares.give(b, 0, gives)
        assert not shares.may_rebalance(b, a, 0, gives, gpus(ask))


def test_nothing_is_evened_out_between_a_queue_and_one_above_it_or_without_a_promise() -> None:
    shares = scene(a=Limit(deserved=0), b=Limit(ceiling=40))
    a, b, left = (shares.queue_at[queue] for queue in (A, B, A_LEFT))
    shares.take(b, 0, gpus(40))
    assert not shares.may_rebalance(left, a, 0, gpus(1))
    assert not shares.may_rebalance(a, left, 0, gpus(1))
    assert not shares.may_rebalance(a, b, 0, gpus(1)), "b deserves nothing that was said"


def test_the_reach_of_a_queue_ends_where_it_would_hold_more_than_it_deserves() -> None:
    shares = scene(a=Limit(deserved=10), a_left=Limit(deserved=6))
    a, left, right = (shares.queue_at[queue] for queue in (A, A_LEFT, A_RIGHT))
    assert shares.reach(left, 0, gpus(6)) == 0
    assert shares.reach(left, 0, gpus(7)) == -1
    shares.take(right, 0, gpus(6))
    assert shares.reach(left, 0, gpus(5)) == a, "within the tenant alone"
    assert shares.reach(shares.queue_at[B], 0, gpus(1)) == -1


def test_a_queue_that_holds_all_that_it_deserves_reaches_no_other() -> None:
    shares = scene(a=Limit(deserved=10), a_left=Limit(deserved=6), b=Limit(ceiling=4))
    left, b = shares.queue_at[A_LEFT], shares.queue_at[B]
    assert shares.may_reach(left, 0)
    shares.take(left, 0, gpus(6))
    assert not shares.may_reach(left, 0)
    assert shares.may_reach(shares.queue_at[A], 0), "it may take from the queues below it"
    assert not shares.may_reach(b, 0)


@pytest.mark.parametrize(("held", "excess", "is_owed"), [(0, 0, True), (9, 0, True), (10, 0, False), (14, 4, False)])
def test_what_is_above_the_deserved_amount_is_its_excess(held: int, excess: int, is_owed: bool) -> None:
    shares = scene(a=Limit(deserved=10))
    shares.take(shares.queue_at[A_LEFT], 0, (5, 0, held))
    assert shares.excess(shares.queue_at[A], 0) == (5, 0, excess), "of cores all of it"
    assert shares.is_owed(shares.queue_at[A]) is is_owed


@pytest.mark.parametrize(
    ("cores", "held", "is_owed"), [(5, 5, True), (4, 9, True), (5, 10, False), (6, 5, False), (6, 10, False)]
)
def test_a_queue_is_owed_something_while_it_holds_more_of_nothing(cores: int, held: int, is_owed: bool) -> None:
    limits = {POOL: {"cpu_millis": Limit(deserved=5), "gpu_millis": Limit(deserved=10)}}
    shares = Shares([LimitedQueue(ROOT, None, "root"), LimitedQueue(A, ROOT, "a", limits)], CAPACITY)
    shares.take(shares.queue_at[A], 0, (cores, 0, held))
    assert shares.is_owed(shares.queue_at[A]) is is_owed


# --- Sizes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("weight", "expected"), [(1, ONE // 4), (2, ONE // 8), (5, ONE // 20)])
def test_a_share_is_the_part_of_the_pool_by_weight(weight: int, expected: int) -> None:
    shares = scene(a=Limit(weight=weight))
    shares.take(shares.queue_at[A_LEFT], 0, gpus(10))
    assert shares.share(shares.queue_at[A]) == expected


def test_a_queue_of_weight_0_comes_after_all_others_and_among_its_like_by_what_it_holds() -> None:
    shares = scene(a=Limit(weight=0), b=Limit(weight=0))
    a, b = shares.queue_at[A], shares.queue_at[B]
    assert shares.share(a) >= WEIGHTLESS, "also while it holds nothing"
    shares.take(b, 0, gpus(1))
    assert WEIGHTLESS <= shares.share(a) < shares.share(b)


def test_a_queue_without_others_below_it_has_no_place_among_them() -> None:
    shares = scene()
    shares.take(shares.queue_at[A], 0, gpus(8))
    shares.take(shares.queue_at[B], 0, gpus(8))
    shares.refresh()
    assert shares.own_share(shares.queue_at[A]) == ONE // 5
    assert shares.own_share(shares.queue_at[B]) == 0


def test_changed_queues_are_told_once() -> None:
    shares = scene()
    shares.changed()
    shares.take(shares.queue_at[A_LEFT], 0, gpus(1))
    assert shares.changed() == {0, shares.queue_at[A], shares.queue_at[A_LEFT]}
    assert shares.changed() == set()


def test_a_history_needs_a_moment_and_time_does_not_run_back() -> None:
    shares = scene()
    a = shares.queue_at[A]
    assert shares.history_at is None
    with pytest.raises(ValueError, match="moment"):
        shares.remember(a, 0, gpus(1), 0, 1)
    shares.take(a, 0, gpus(4))
    shares.advance(1_000)
    assert shares.history() == {}, "the first moment starts the clock alone"
    shares.advance(900)
    assert shares.history_at == 1_000
    shares.advance(1_000 + 604_800)
    assert shares.history() == {(0, 0, GPU): 2 * SCALE, (a, 0, GPU): 2 * SCALE}
    again = scene()
    again.recall(shares.history(), 5)
    assert (again.history(), again.history_at) == (shares.history(), 5)


def test_what_is_remembered_ends_at_the_moment_of_the_history() -> None:
    shares, cut = scene(), scene()
    for each, end in ((shares, 10**9), (cut, 604_800)):
        each.advance(604_800)
        each.remember(each.queue_at[A], 0, gpus(4), 0, end)
    assert shares.history() == cut.history() == {(0, 0, GPU): 2 * SCALE, (shares.queue_at[A], 0, GPU): 2 * SCALE}


# --- Turns -------------------------------------------------------------------------------------------------------------


def test_no_queue_waits_no_turn() -> None:
    assert Turns(scene(), ()).next() is None


def test_a_queue_is_added_and_dropped_once_however_often_it_is_said() -> None:
    shares = scene()
    a, b = shares.queue_at[A], shares.queue_at[B]
    turns = Turns(shares, (a, a))
    turns.add(a)
    assert turns.next() == a
    turns.drop(a)
    turns.drop(a)
    turns.drop(b)
    assert turns.next() is None
    turns.add(b)
    assert turns.next() == b


def test_equal_queues_take_turns_by_name_and_own_jobs_stand_among_the_queues_below() -> None:
    shares = scene()
    a, b, left, right = (shares.queue_at[queue] for queue in (A, B, A_LEFT, A_RIGHT))
    turns = Turns(shares, (a, b, left, right))
    served = []
    for _ in range(8):
        queue = turns.next()
        assert queue is not None
        served.append(queue)
        shares.take(queue, 0, gpus(1))
    assert served.count(b) == 4, "the two tenants take turns"
    assert sorted(served.count(queue) for queue in (a, left, right)) == [1, 1, 2]
