"""Edits are tried before they are made; caps count what one person holds, and shorten what runs for too long."""

from __future__ import annotations

import uuid

from hypothesis import given
from hypothesis import strategies as st

from kernel.resources import Resources
from tenants.capacity.quota.caps import (
    CAPPED,
    TOGETHER,
    CapAsk,
    CapFacts,
    CapRefusal,
    Held,
    RuntimeRefusal,
    UserCaps,
    check_runtime,
    held_along,
    over_caps,
)
from tenants.capacity.quota.edits import Change, Over, blame, edited, try_edit
from tenants.capacity.quota.limits import NO_LIMIT, Capacity, Limit, LimitedQueue, validate

POOL = Capacity(uuid.UUID(int=900), "a100", Resources(0, 0, 16))
ROOT, TOP, CHILD, OTHER = (uuid.UUID(int=number) for number in range(1, 5))


def tree(top=NO_LIMIT, child=NO_LIMIT, other=NO_LIMIT):
    def row(limit):
        return {} if limit == NO_LIMIT else {POOL.pool_id: {"gpu_millis": limit}}

    return [
        LimitedQueue(ROOT, None, "root"),
        LimitedQueue(TOP, ROOT, "top", row(top)),
        LimitedQueue(CHILD, TOP, "child", row(child)),
        LimitedQueue(OTHER, ROOT, "other", row(other)),
    ]


def change(queue_id, **values):
    return Change(queue_id, POOL.pool_id, "gpu_millis", values)


def test_what_an_edit_does_not_name_stays_as_it_is():
    after = edited(tree(top=Limit(2, 4, 8, 3)), [change(TOP, ceiling=None), change(TOP, guarantee=1)])
    assert after[1].limit(POOL.pool_id, "gpu_millis") == Limit(1, 4, None, 3)
    assert after[2:] == tuple(tree(top=Limit(2, 4, 8, 3))[2:])


def test_a_whole_tree_may_be_moved_at_once_where_single_steps_would_break_it():
    start = tree(top=Limit(8), child=Limit(8), other=Limit(8))
    swap = [change(TOP, guarantee=4), change(CHILD, guarantee=4), change(OTHER, guarantee=12)]
    assert try_edit(start, swap, [POOL], {}).breaks == ()
    for step in swap[::2]:
        assert try_edit(start, [step], [POOL], {}).breaks


def test_who_holds_more_than_is_left_to_it_is_named():
    used = {(TOP, POOL.pool_id): Resources(gpu_millis=10), (OTHER, POOL.pool_id): Resources(gpu_millis=1)}
    outcome = try_edit(tree(top=Limit(0, 9, 12)), [change(TOP, deserved=6, ceiling=8), change(OTHER, ceiling=8)], [POOL], used)
    assert outcome.breaks == ()
    assert outcome.over == (
        Over(TOP, POOL.pool_id, "gpu_millis", "deserved", 10, 6, True),
        Over(TOP, POOL.pool_id, "gpu_millis", "ceiling", 10, 8, False),
    )


def test_a_tree_that_broke_by_itself_can_be_mended_in_steps_but_not_worsened():
    broken = tree(top=Limit(10), other=Limit(10))
    assert validate(broken, [POOL])
    assert try_edit(broken, [change(TOP, guarantee=9)], [POOL], {}).breaks == ()
    assert [found.excess for found in try_edit(broken, [change(TOP, guarantee=11)], [POOL], {}).breaks] == [5, 5]


def test_a_break_is_shown_at_the_change_that_made_it():
    start = tree(top=Limit(8), child=Limit(4))
    parents = {queue.id: queue.parent_id for queue in start}
    for changes, at in (
        ([change(OTHER, weight=2), change(CHILD, guarantee=9)], 1),
        ([change(TOP, guarantee=3)], 0),
        ([change(OTHER, guarantee=9)], 0),
    ):
        (found, *_) = try_edit(start, changes, [POOL], {}).breaks
        assert blame(found, changes, parents) == at
    ceilings = tree(top=Limit(ceiling=8), child=Limit(ceiling=8))
    (found,) = try_edit(ceilings, [change(TOP, ceiling=7)], [POOL], {}).breaks
    assert found.queue_id == CHILD
    assert blame(found, [change(TOP, ceiling=7)], parents) == 0


def test_a_queue_that_does_not_exist_is_told_by_its_place():
    assert try_edit(tree(), [change(TOP, ceiling=1), change(uuid.UUID(int=77), ceiling=1)], [POOL], {}).unknown == (1,)


TENANT, ABOVE, USER = (uuid.UUID(int=number) for number in (50, 51, 60))
AMOUNTS = st.builds(Held, *[st.integers(0, 5)] * 3)
CAP = st.none() | st.integers(0, 8)


@given(st.builds(CapFacts, st.just(TENANT), st.just(None), CAP, CAP, CAP), st.lists(AMOUNTS, max_size=12))
def test_nobody_ever_holds_more_than_a_cap(cap, asks):
    caps, held = UserCaps([cap]), Held()
    for ask in asks:
        if not caps.refusals([TENANT], USER, ask, {(TENANT, USER): held}):
            held = held + ask
    assert all(getattr(cap, what) is None or getattr(held, what) <= getattr(cap, what) for what in CAPPED)


def test_a_persons_own_line_stands_in_place_of_everybodys_and_tenants_above_count_too():
    caps = UserCaps([CapFacts(TENANT, None, gpu_millis=4), CapFacts(TENANT, USER, gpu_millis=8), CapFacts(ABOVE, None, jobs=1)])
    held = {(TENANT, USER): Held(gpu_millis=5), (ABOVE, USER): Held(gpu_millis=5, jobs=1)}
    assert caps.refusals([TENANT, ABOVE], USER, Held(3, 0, 0), held) == ()
    assert caps.refusals([TENANT, ABOVE], USER, Held(9, 1, 1), held) == (
        CapRefusal(TENANT, "gpu_millis", 9, 5, 8),
        CapRefusal(ABOVE, "jobs", 1, 1, 1),
    )
    assert caps.refusals([TENANT], USER, Held(9), held)[0].can_never_fit
    assert caps.refusals([TENANT], uuid.UUID(int=61), Held(5), {})[0].limit == 4


def test_what_is_held_below_counts_above():
    other = uuid.UUID(int=61)
    running = [(TENANT, USER, Held(1_000, 1, 2)), (ABOVE, USER, Held(500, 1, 1)), (TENANT, other, Held(0, 1, 1))]
    assert held_along({TENANT: (TENANT, ABOVE), ABOVE: (ABOVE,)}, running) == {
        (TENANT, USER): Held(1_000, 1, 2),
        (ABOVE, USER): Held(1_500, 2, 3),
        (TENANT, other): Held(0, 1, 1),
        (ABOVE, other): Held(0, 1, 1),
        (TENANT, TOGETHER): Held(1_000, 2, 3),
        (ABOVE, TOGETHER): Held(1_500, 3, 4),
    }


@given(
    st.lists(
        st.builds(CapFacts, st.sampled_from([TENANT, ABOVE]), st.sampled_from([None, USER, TOGETHER]), CAP, CAP, CAP), max_size=5
    ),
    st.lists(st.tuples(st.sampled_from([USER, uuid.UUID(int=61)]), st.booleans(), AMOUNTS), max_size=12),
)
def test_a_batch_is_granted_exactly_as_far_as_every_cap_goes(lines, wanted):
    caps = UserCaps(lines)
    asks = [
        CapAsk(uuid.UUID(int=number), user, (ABOVE,) if is_above else (TENANT, ABOVE), amounts)
        for number, (user, is_above, amounts) in enumerate(wanted)
    ]
    refused = over_caps(caps, asks, {})
    held = {}
    for ask in asks:
        fits = not caps.refusals(ask.tenants, ask.user_id, ask.amounts, held)
        assert fits == (ask.job_id not in refused)
        if fits:
            running = [(ask.tenants[0], ask.user_id, ask.amounts)]
            for place, amounts in held_along({ask.tenants[0]: ask.tenants}, running).items():
                held[place] = held.get(place, Held()) + amounts
    for (tenant_id, who), amounts in held.items():
        cap = caps.cap_of(tenant_id, who)
        assert cap is None or all(getattr(cap, what) is None or getattr(amounts, what) <= getattr(cap, what) for what in CAPPED)


def test_the_shortest_time_on_the_way_up_holds():
    limits = {CHILD: 7_200, TOP: 3_600}
    path = [CHILD, TOP, ROOT]
    assert check_runtime(3_600, path, limits) == 3_600
    assert check_runtime(None, path, limits) == 3_600
    assert check_runtime(7_200, path, limits) == RuntimeRefusal(TOP, 7_200, 3_600)
    assert check_runtime(None, [OTHER, ROOT], limits) is None
