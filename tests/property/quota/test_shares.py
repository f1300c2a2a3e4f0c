"""Shares along any tree: nothing passes a ceiling, no guarantee is lent, giving undoes taking, and the order is fair."""

from __future__ import annotations

import random
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.resources import RESOURCE_NAMES, Resources
from tenants.capacity.quota.decay import SCALE, faded, keep
from tenants.capacity.quota.limits import Capacity, Limit, LimitedQueue, validate
from tenants.capacity.quota.shares import AHEAD, ONE, WEIGHTLESS, Refusal, Shares, Standing
from tenants.capacity.quota.turns import Turns

POOLS = [Capacity(uuid.UUID(int=900 + n), f"pool{n}", Resources(40, 40, 40)) for n in range(2)]
ROOT = uuid.UUID(int=1)
AMOUNTS = st.tuples(st.integers(0, 6), st.integers(0, 2), st.integers(0, 6))


def queue_id(number: int) -> uuid.UUID:
    return uuid.UUID(int=100 + number)


@st.composite
def trees(draw, promises_hold=True):
    """A valid tree: each parent splits what it has; ceilings fall on the way down."""
    count = draw(st.integers(1, 7))
    parents = [draw(st.integers(-1, index - 1)) for index in range(count)]
    limits = [{} for _ in range(count)]
    for pool in POOLS:
        for resource in RESOURCE_NAMES:
            left = {-1: [40, 40]}
            ceilings = {-1: None}
            for index, parent in enumerate(parents):
                above = left[parent]
                if not draw(st.booleans()):
                    left[index], ceilings[index] = [0, 0], ceilings[parent]
                    continue
                guarantee = draw(st.integers(0, min(above)))
                deserved = draw(st.none() | st.integers(guarantee, above[1]))
                owed = guarantee if deserved is None else deserved
                most = ceilings[parent]
                ceiling = draw(st.none() | st.integers(owed, 40 if most is None else most))
                weight = draw(st.integers(0, 3))
                limits[index].setdefault(pool.pool_id, {})[resource] = Limit(guarantee, deserved, ceiling, weight)
                above[0] -= guarantee
                above[1] -= owed
                left[index] = [guarantee, owed]
                ceilings[index] = ceiling if ceiling is not None else most
    return [LimitedQueue(ROOT, None, "root")] + [
        LimitedQueue(queue_id(index), ROOT if parent < 0 else queue_id(parent), f"q{index}", limits[index])
        for index, parent in enumerate(parents)
    ]


MOVES = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 1), AMOUNTS), max_size=25)


def state(shares):
    return (shares._own, shares._used, shares._inner)


def copied(shares):
    return tuple([list(column) for column in part] for part in state(shares))


def fill(shares, moves):
    """Take whatever finds room; answers what was taken."""
    taken = []
    for number, pool, ask in moves:
        queue = number % len(shares.path)
        if isinstance(shares.room(queue, pool, ask), Standing):
            shares.take(queue, pool, ask)
            taken.append((queue, pool, ask))
    return taken


@given(trees())
def test_the_trees_of_these_tests_hold(tree):
    assert validate(tree, POOLS) == ()


@given(trees(), MOVES)
def test_nothing_passes_a_ceiling_or_the_capacity_of_a_pool(tree, moves):
    shares = Shares(tree, POOLS)
    fill(shares, moves)
    for queue in tree:
        for pool, capacity in enumerate(POOLS):
            used = shares.used(shares.queue_at[queue.id], pool)
            for amount, resource in zip(used, RESOURCE_NAMES, strict=True):
                ceiling = queue.limit(capacity.pool_id, resource).ceiling
                assert amount <= 40
                assert ceiling is None or amount <= ceiling


@pytest.mark.capability("22", "The unused part of a guarantee can always be taken")
@given(trees(), MOVES, st.integers(0, 2))
def test_the_unused_part_of_a_guarantee_can_always_be_taken(tree, moves, place):
    shares = Shares(tree, POOLS)
    fill(shares, moves)
    for queue in tree[1:]:
        index = shares.queue_at[queue.id]
        for pool, capacity in enumerate(POOLS):
            kept = queue.limit(capacity.pool_id, RESOURCE_NAMES[place]).guarantee - max(
                shares.used(index, pool)[place], shares._inner[pool * 3 + place][index]
            )
            if kept <= 0:
                continue
            ask = [0, 0, 0]
            ask[place] = kept
            assert shares.room(index, pool, tuple(ask)) is Standing.GUARANTEED
            shares.take(index, pool, tuple(ask))
            assert shares.used(0, pool)[place] <= 40, "a guarantee that was lent is no guarantee"
            shares.give(index, pool, tuple(ask))


def test_a_queue_above_cannot_use_up_its_ceiling_over_the_guarantee_of_one_below():
    pool = POOLS[0].pool_id
    tree = [
        LimitedQueue(uuid.UUID(int=1), None, "root", {}),
        LimitedQueue(uuid.UUID(int=2), uuid.UUID(int=1), "team", {pool: {"gpu_millis": Limit(17, 17, 17, 1)}}),
        LimitedQueue(uuid.UUID(int=3), uuid.UUID(int=2), "night", {pool: {"gpu_millis": Limit(17, 17, None, 1)}}),
    ]
    shares = Shares(tree, POOLS)
    team, night = (shares.queue_at[queue.id] for queue in tree[1:])
    assert shares.room(team, 0, (0, 0, 1)) == Refusal("ceiling", team, 0, 2, 1, 0, 17, 17)
    assert shares.refusals(team, 0, (0, 0, 1))[0] == Refusal("ceiling", team, 0, 2, 1, 0, 17, 17)
    assert shares.room(night, 0, (0, 0, 17)) is Standing.GUARANTEED


@given(trees(), MOVES, st.randoms(use_true_random=False))
def test_giving_everything_back_in_any_order_is_the_identity(tree, moves, chance):
    shares = Shares(tree, POOLS)
    before = copied(shares)
    taken = fill(shares, moves)
    chance.shuffle(taken)
    for queue, pool, ask in taken:
        shares.give(queue, pool, ask)
    assert state(shares) == before
    assert all(shares.share(queue) % WEIGHTLESS == 0 for queue in range(len(shares.path)))


@given(trees(), MOVES, st.randoms(use_true_random=False))
def test_the_order_of_input_changes_nothing(tree, moves, chance):
    shares = Shares(tree, POOLS)
    taken = fill(shares, moves)
    mixed, later = list(tree), list(taken)
    chance.shuffle(mixed)
    chance.shuffle(later)
    use = [(shares.queue_ids[queue], shares.pool_ids[pool], ask) for queue, pool, ask in later]
    again = Shares(mixed, POOLS, use)
    assert again.queue_ids == shares.queue_ids
    assert state(again) == state(shares)
    assert [again.share(queue) for queue in range(len(again.path))] == [shares.share(queue) for queue in range(len(shares.path))]


@given(trees(), MOVES, AMOUNTS)
def test_room_refuses_exactly_when_some_limit_does_and_says_which(tree, moves, ask):
    shares = Shares(tree, POOLS)
    fill(shares, moves)
    for queue in range(len(shares.path)):
        for pool in range(2):
            answer, every = shares.room(queue, pool, ask), shares.refusals(queue, pool, ask)
            assert isinstance(answer, Refusal) == bool(every)
            if isinstance(answer, Refusal):
                assert answer == every[0] or answer in every
                idle = answer.kept if answer.code == "ceiling" else 0  # In the others `used` has it already.
                assert answer.used + answer.need + idle > answer.limit
                assert answer.need > 0
                if answer.code == "withheld":
                    keepers = shares.keepers(queue, pool, answer.resource)
                    assert sum(amount for _, amount in keepers) == answer.kept > 0


@given(trees(), MOVES, AMOUNTS)
def test_shares_never_fall_when_more_is_held(tree, moves, ask):
    shares = Shares(tree, POOLS)
    fill(shares, moves)
    for queue in range(len(shares.path)):
        before = [shares.share(node) for node in shares.path[queue]]
        shares.take(queue, 0, ask)
        assert all(shares.share(node) >= old for node, old in zip(shares.path[queue], before, strict=True))
        shares.give(queue, 0, ask)
        assert [shares.share(node) for node in shares.path[queue]] == before


@given(trees(), MOVES, AMOUNTS)
def test_two_queues_never_may_take_the_same_amount_from_each_other(tree, moves, ask):
    shares = Shares(tree, POOLS)
    fill(shares, moves)
    for claimant in range(1, len(shares.path)):
        assert not shares.may_reclaim(claimant, claimant, 0, ask)
        for victim in range(1, len(shares.path)):
            if shares.may_reclaim(claimant, victim, 0, ask):
                unit = tuple(1 if amount else 0 for amount in ask)
                lend = [
                    place for place in range(3) if ask[place] and shares._above(victim, common(shares, claimant, victim), place)
                ]
                assert lend
                shares.take(claimant, 0, ask)
                for place in lend:
                    only = tuple(unit[place] if at == place else 0 for at in range(3))
                    assert not shares.may_reclaim(victim, claimant, 0, only)
                shares.give(claimant, 0, ask)


def common(shares, left, right):
    return next(node for node in shares.path[right] if node in shares.path[left])


@given(trees(), MOVES, AMOUNTS)
def test_who_holds_no_more_than_its_guarantee_is_never_a_victim(tree, moves, ask):
    shares = Shares(tree, POOLS)
    fill(shares, moves)
    tops = [queue for queue in range(1, len(shares.path)) if shares.parent[queue] == 0]
    for victim in tops:
        within = all(
            amount <= shares._guarantee[place][victim] for place, amount in enumerate(shares.used(victim, 0)) if ask[place]
        )
        for claimant in tops:
            if within:
                assert not shares.may_reclaim(claimant, victim, 0, ask)


@pytest.mark.capability("22", "After limits changed, a guarantee is free or held by work that may be taken back")
@given(trees(), trees(), MOVES, st.integers(0, 1))
def test_after_limits_changed_a_guarantee_is_free_or_held_by_work_that_may_be_taken_back(tree, later, moves, pool):
    shares = Shares(tree, POOLS)
    names = {queue.id for queue in later}
    use = [
        (shares.queue_ids[queue], shares.pool_ids[where], ask)
        for queue, where, ask in fill(shares, moves)
        if shares.queue_ids[queue] in names
    ]
    changed = Shares(later, POOLS, use)
    for queue in range(1, len(changed.path)):
        for place in range(3):
            column = pool * 3 + place
            ask = [0, 0, 0]
            ask[place] = kept = changed._guarantee[column][queue] - changed.used(queue, pool)[place]
            if kept <= 0 or any(
                changed.used(above, pool)[place] + kept > changed._owed[column][above]
                for above in changed.path[queue][:-1]
                if changed._owed[column][above] >= 0
            ):
                continue
            if changed.used(0, pool)[place] + kept > 40:
                victims = [other for other in range(len(changed.path)) if changed._own[column][other]]
                assert any(changed.may_reclaim(queue, victim, pool, tuple(ask)) for victim in victims)


def naive_next(shares, waits):
    """The rule of the fair order read literally: sort everything at each level."""
    here = 0
    while True:
        below = [
            ((0 if shares.is_owed(child) else 1, shares.share(child), child), child)
            for child in shares.children[here]
            if any(child in shares.path[queue] for queue in waits)
        ]
        if here in waits:
            below.append(((1, shares.own_share(here), here), here))
        chosen = min(below)[1]
        if chosen == here:
            return here
        here = chosen


@settings(max_examples=60)
@given(trees(), MOVES, st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20), AMOUNTS), max_size=30))
def test_the_order_by_heaps_is_the_order_by_sorting(tree, moves, steps):
    shares = Shares(tree, POOLS)
    taken = fill(shares, moves)
    waits = {number % len(shares.path) for _, number, _ in steps}
    turns = Turns(shares, waits)
    for kind, number, ask in steps:
        queue = number % len(shares.path)
        if kind == 0:
            shares.take(queue, 0, ask)
            taken.append((queue, 0, ask))
        elif kind == 1 and taken:
            shares.give(*taken.pop(number % len(taken)))
        elif kind == 2:
            waits.discard(queue)
            turns.drop(queue)
        else:
            waits.add(queue)
            turns.add(queue)
        assert turns.next() == (naive_next(shares, waits) if waits else None)


def test_many_moves_leave_no_pile_of_old_entries():
    tree = [LimitedQueue(ROOT, None, "root")] + [LimitedQueue(queue_id(n), ROOT, f"q{n}") for n in range(5)]
    shares = Shares(tree, POOLS)
    turns = Turns(shares, range(1, 6))
    chance = random.Random(7)
    for _ in range(2_000):
        shares.take(chance.randrange(1, 6), 0, (1, 0, 0))
        assert turns.next() is not None
    assert len(turns._heaps[0]) < 200


def test_the_turn_goes_to_whoever_is_owed_then_to_the_smallest_share_by_weight():
    pool = POOLS[0].pool_id

    def tree(**limits):
        return [LimitedQueue(ROOT, None, "root")] + [
            LimitedQueue(queue_id(n), ROOT, name, {pool: {"gpu_millis": limit}})
            for n, (name, limit) in enumerate(sorted(limits.items()))
        ]

    shares = Shares(tree(heavy=Limit(weight=3), light=Limit(), owed=Limit(deserved=10), zero=Limit(weight=0)), POOLS)
    heavy, light, owed, zero = (shares.queue_at[queue_id(n)] for n in range(4))
    turns = Turns(shares, (heavy, light, owed, zero))
    served = []
    for _ in range(22):
        queue = turns.next()
        served.append(queue)
        shares.take(queue, 0, (0, 0, 1))
    assert served[:10] == [owed] * 10, "what it deserves comes first"
    assert (served.count(heavy), served.count(light)) == (9, 3), "then three to one"
    for queue in (heavy, light, owed):
        turns.drop(queue)
    assert turns.next() == zero, "weight 0 is served when nobody else wants anything"


def test_standings_go_from_guaranteed_through_deserved_to_borrowed():
    pool = POOLS[0].pool_id
    tree = [
        LimitedQueue(ROOT, None, "root"),
        LimitedQueue(queue_id(0), ROOT, "a", {pool: {"gpu_millis": Limit(4, 8, 20)}}),
        LimitedQueue(queue_id(1), ROOT, "b", {pool: {"gpu_millis": Limit(10, 20)}}),
    ]
    shares = Shares(tree, POOLS)
    a, b = shares.queue_at[queue_id(0)], shares.queue_at[queue_id(1)]
    assert shares.room(a, 0, (40, 0, 4)) is Standing.GUARANTEED, "cores were not promised and do not weaken it"
    assert shares.room(a, 0, (0, 0, 8)) is Standing.DESERVED
    assert shares.room(a, 0, (0, 0, 9)) is Standing.BORROWED
    assert shares.room(a, 0, (3, 0, 0)) is Standing.BORROWED, "nothing was promised of cores"
    assert shares.room(a, 0, (0, 0, 21)) == Refusal("ceiling", a, 0, 2, 21, 0, 20)
    shares.take(b, 0, (0, 0, 24))
    assert shares.room(a, 0, (0, 0, 16)) is Standing.BORROWED
    shares.give(b, 0, (0, 0, 24))
    loose = Shares([*tree, LimitedQueue(queue_id(2), ROOT, "c")], POOLS)
    c = loose.queue_at[queue_id(2)]
    refused = loose.room(c, 0, (0, 0, 27))
    assert refused == Refusal("withheld", 0, 0, 2, 27, 14, 40, 14)
    assert loose.keepers(c, 0, 2) == ((loose.queue_at[queue_id(1)], 10), (loose.queue_at[queue_id(0)], 4))


def test_what_was_lent_is_reclaimed_and_what_is_deserved_is_not():
    pool = POOLS[0].pool_id
    tree = [
        LimitedQueue(ROOT, None, "root"),
        LimitedQueue(queue_id(0), ROOT, "a", {pool: {"gpu_millis": Limit(0, 20)}}),
        LimitedQueue(queue_id(1), ROOT, "b", {pool: {"gpu_millis": Limit(0, 20)}}),
        LimitedQueue(queue_id(2), queue_id(0), "a-deep"),
    ]
    shares = Shares(tree, POOLS)
    a, b, deep = (shares.queue_at[queue_id(n)] for n in range(3))
    shares.take(b, 0, (0, 0, 30))
    assert shares.may_reclaim(a, b, 0, (0, 0, 20))
    assert shares.may_reclaim(deep, b, 0, (0, 0, 20)), "a queue without a promise of its own uses its tenant's"
    assert not shares.may_reclaim(a, b, 0, (0, 0, 21)), "more than it deserves"
    assert not shares.may_reclaim(a, b, 0, (0, 0, 20), short=(True, True, False)), "it does not lack what was lent"
    shares.give(b, 0, (0, 0, 10))
    assert not shares.may_reclaim(a, b, 0, (0, 0, 20)), "what it deserves itself is safe"
    assert shares.excess(b, 0) == (0, 0, 0)


@given(st.integers(0, 2**53), st.integers(0, 2**53), st.integers(0, 10**8), st.integers(1, 10**7))
def test_a_history_lies_between_what_was_and_what_is(old, used, seconds, half_life):
    after = faded(old * SCALE, used, keep(seconds, half_life))
    assert min(old, used) * SCALE - 1 <= after <= max(old, used) * SCALE


def test_a_history_halves_in_a_half_life():
    assert faded(1_000 * SCALE, 0, keep(3_600, 3_600)) == 500 * SCALE
    assert faded(1_000 * SCALE, 0, keep(7_200, 3_600)) == 250 * SCALE
    assert abs(faded(1_000_000 * SCALE, 0, keep(1_800, 3_600)) / SCALE - 707_106.78) < 0.1


def test_a_history_made_anew_from_what_was_held_is_the_one_that_grew():
    tree = [LimitedQueue(ROOT, None, "root")] + [LimitedQueue(queue_id(n), ROOT, f"q{n}") for n in range(2)]
    grown, anew = (Shares(tree, POOLS, half_life_seconds=1_000) for _ in range(2))
    first, second = grown.queue_at[queue_id(0)], grown.queue_at[queue_id(1)]
    held = [(first, (0, 0, 20), 0, 700), (second, (4, 0, 8), 300, 900), (first, (0, 0, 3), 1_500, 2_000)]
    for moment in sorted({time for *_, start, end in held for time in (start, end)}):
        grown.advance(moment)
        for queue, ask, start, end in held:
            if start == moment:
                grown.take(queue, 0, ask)
            if end == moment:
                grown.give(queue, 0, ask)
    anew.advance(2_000)
    for queue, ask, start, end in held:
        anew.remember(queue, 0, ask, start, end)
    assert grown.history().keys() == anew.history().keys()
    assert all(abs(amount - anew.history()[key]) <= 8 for key, amount in grown.history().items())


def test_history_weighs_on_whoever_used_much_until_it_fades():
    tree = [LimitedQueue(ROOT, None, "root")] + [LimitedQueue(queue_id(n), ROOT, f"q{n}") for n in range(2)]
    shares = Shares(tree, POOLS, half_life_seconds=100)
    busy, idle = shares.queue_at[queue_id(0)], shares.queue_at[queue_id(1)]
    shares.advance(0)
    shares.take(busy, 0, (0, 0, 20))
    shares.advance(1_000)
    shares.give(busy, 0, (0, 0, 20))
    turns = Turns(shares, (busy, idle))
    assert shares.share(busy) > 0
    assert turns.next() == idle
    kept = shares.history()
    later = Shares(tree, POOLS, half_life_seconds=100)
    later.recall(kept, 1_000)
    assert later.share(busy) == shares.share(busy)
    shares.advance(100_000)
    assert shares.share(busy) == 0
    assert turns.next() == busy, "then the name decides"


HELD = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 1), AMOUNTS, st.integers(0, 10**6)), max_size=12)


def lived(tree, held):
    """Each amount is held from its number of seconds after the one before on, and given back after the last but two."""
    shares, now, taken = Shares(tree, POOLS, half_life_seconds=100_000), 0, []
    for number, pool, ask, seconds in held:
        shares.advance(now)
        taken.append((number % len(shares.path), pool, ask))
        shares.take(*taken[-1])
        now += seconds
    shares.advance(now)
    for holding in taken[:-2]:
        shares.give(*holding)
    return shares, taken[-2:], now


@settings(max_examples=60)
@given(trees(), HELD)
def test_a_history_that_was_kept_gives_the_same_shares_to_every_queue(tree, held):
    shares, holds, now = lived(tree, held)
    again = Shares(list(reversed(tree)), list(POOLS), half_life_seconds=100_000)
    for holding in holds:
        again.take(*holding)
    again.recall(shares.history(), now)
    for queue in range(len(shares.path)):
        assert again.share(queue) == shares.share(queue)
        assert again.own_share(queue) == shares.own_share(queue)
    assert again.history() == shares.history()


@settings(max_examples=60)
@given(trees(), HELD, HELD)
def test_shares_that_follow_what_changed_are_those_of_a_new_start(tree, held, later):
    """Only what moved, and what time changed, is computed again: nothing else may be out of date."""
    shares, holds, now = lived(tree, held)
    for number, pool, ask, seconds in later:
        shares.refresh()
        if seconds % 2:
            now += seconds
            shares.advance(now)
        holds.append((number % len(shares.path), pool, ask))
        shares.take(*holds[-1])
    again = Shares(tree, POOLS, half_life_seconds=100_000)
    again.recall(shares.history(), now)
    for holding in holds:
        again.take(*holding)
    assert [shares.share(queue) for queue in range(len(shares.path))] == [again.share(queue) for queue in range(len(shares.path))]


@given(trees(), MOVES)
def test_without_a_history_a_share_is_present_use(tree, moves):
    shares = Shares(tree, POOLS)
    fill(shares, moves)
    for queue in range(1, len(shares.path)):
        parts = [
            (WEIGHTLESS if not shares._weight[column][queue] else 0) + amount * ONE // (40 * (shares._weight[column][queue] or 1))
            for column, used in enumerate(shares._used)
            if (amount := used[queue])
        ]
        assert shares.share(queue) == max(parts, default=0) + (WEIGHTLESS if shares._weightless[queue] else 0)


def one_pass(weights, used, total):
    """GPUs that each queue gets in one pass that gives out all of them, one by one, after each held `used` for a week."""
    pool = Capacity(uuid.UUID(int=900), "pool", Resources(0, 0, total))
    tree = [LimitedQueue(ROOT, None, "root")] + [
        LimitedQueue(queue_id(n), ROOT, f"q{n}", {pool.pool_id: {"gpu_millis": Limit(weight=weight)}})
        for n, weight in enumerate(weights)
    ]
    shares = Shares(tree, [pool])
    shares.advance(0)
    for index, amount in enumerate(used, start=1):
        shares.take(index, 0, (0, 0, amount))
    shares.advance(7 * 86_400)
    for index, amount in enumerate(used, start=1):
        shares.give(index, 0, (0, 0, amount))
    turns = Turns(shares, range(1, len(tree)))
    got = [0] * len(weights)
    for _ in range(total):
        queue = turns.next()
        shares.take(queue, 0, (0, 0, 1))
        got[queue - 1] += 1
    return got


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.booleans())
def test_queues_that_used_their_parts_take_turns_within_one_pass(weights, had_used):
    total = 20 * sum(weights)
    got = one_pass(weights, [20 * weight if had_used else 0 for weight in weights], total)
    assert all(abs(amount - 20 * weight) <= 2 for amount, weight in zip(got, weights, strict=True))


@given(st.lists(st.integers(10, 50), min_size=2, max_size=6))
def test_a_queue_without_a_history_gets_no_more_in_one_pass_than_twice_what_another_had_or_has(used):
    *others, newcomer = one_pass([1] * (len(used) + 1), [*used, 0], sum(used))
    assert all(newcomer <= max(AHEAD * had, has) + 2 for had, has in zip(used, others, strict=True))


def test_own_jobs_of_a_queue_remember_as_the_queues_below_it_do():
    tree = [LimitedQueue(ROOT, None, "root"), LimitedQueue(queue_id(0), ROOT, "tenant")]
    tree.append(LimitedQueue(queue_id(1), queue_id(0), "team"))
    shares = Shares(tree, POOLS)
    tenant, team = shares.queue_at[queue_id(0)], shares.queue_at[queue_id(1)]
    shares.advance(0)
    shares.take(tenant, 0, (0, 0, 20))
    shares.take(team, 0, (0, 0, 10))
    shares.advance(86_400)
    shares.give(tenant, 0, (0, 0, 20))
    shares.give(team, 0, (0, 0, 10))
    turns = Turns(shares, (tenant, team))
    assert turns.next() == team, "the tenant's own jobs had more"
    assert abs(shares.own_share(tenant) - 2 * shares.share(team)) * 10_000 <= shares.own_share(tenant)
