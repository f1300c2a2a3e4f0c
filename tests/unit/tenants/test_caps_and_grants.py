"""Caps of users, of tenants and of run times, and the priorities of roles: which line holds, and where exactly it refuses."""

from __future__ import annotations

import uuid

import pytest

from kernel.actor import TenantRole
from tenants.capacity.quota.caps import (
    TOGETHER,
    CapAsk,
    CapFacts,
    CapRefusal,
    Held,
    RuntimeRefusal,
    UserCaps,
    check_runtime,
    default_runtime,
    held_along,
    over_caps,
    places_of,
    runtime_limit,
)
from tenants.capacity.quota.grants import GRANTED_ROLES, PriorityGrants

HERE, ABOVE, TOP = (uuid.UUID(int=number) for number in (1, 2, 3))
ALICE, BOB = (uuid.UUID(int=number) for number in (11, 12))
PATH = (HERE, ABOVE, TOP)


# --- Caps --------------------------------------------------------------------------------------------------------------


def test_no_caps_refuse_nothing() -> None:
    caps = UserCaps([])
    assert not caps
    assert not caps.counts_together
    assert caps.cap_of(HERE, ALICE) is None
    assert caps.refusals(PATH, ALICE, Held(10**9, 10**9, 10**9), {}) == ()


@pytest.mark.parametrize(
    ("limit", "used", "need", "is_refused"),
    [
        (None, 10**9, 10**9, False),
        (0, 0, 0, False),
        (0, 0, 1, True),
        (8, 0, 8, False),
        (8, 0, 9, True),
        (8, 7, 1, False),
        (8, 8, 1, True),
        (8, 8, 0, False),
        (8, 12, 0, False),
        (8, 12, 1, True),
    ],
)
@pytest.mark.parametrize("what", ["gpu_millis", "jobs", "containers"])
def test_a_cap_refuses_from_the_first_unit_above_it_and_never_an_ask_for_none(
    what: str, limit: int | None, used: int, need: int, is_refused: bool
) -> None:
    caps = UserCaps([CapFacts(HERE, None, **{what: limit})])
    found = caps.refusals([HERE], ALICE, Held(**{what: need}), {(HERE, ALICE): Held(**{what: used})})
    assert [(refusal.what, refusal.used, refusal.need, refusal.limit) for refusal in found] == (
        [(what, used, need, limit)] if is_refused else []
    )


def test_a_cap_of_all_together_counts_what_all_hold_and_no_line_for_each_user_stands_in_for_it() -> None:
    caps = UserCaps([CapFacts(HERE, TOGETHER, jobs=2), CapFacts(HERE, None, jobs=5)])
    held = {(HERE, ALICE): Held(jobs=1), (HERE, BOB): Held(jobs=1), (HERE, TOGETHER): Held(jobs=2)}
    assert caps.counts_together
    assert caps.refusals([HERE], ALICE, Held(jobs=1), held) == (CapRefusal(HERE, "jobs", 1, 2, 2, together=True),)
    only_each = UserCaps([CapFacts(HERE, None, jobs=5)])
    assert only_each.cap_of(HERE, TOGETHER) is None
    assert not only_each.counts_together


def test_refusals_come_from_the_nearest_tenant_first_and_of_the_user_before_all_together() -> None:
    caps = UserCaps(
        [CapFacts(TOP, None, gpu_millis=0), CapFacts(HERE, TOGETHER, jobs=0), CapFacts(HERE, ALICE, gpu_millis=0, containers=0)]
    )
    found = caps.refusals(PATH, ALICE, Held(1, 1, 1), {})
    assert [(refusal.tenant_id, refusal.what, refusal.together) for refusal in found] == [
        (HERE, "gpu_millis", False),
        (HERE, "containers", False),
        (HERE, "jobs", True),
        (TOP, "gpu_millis", False),
    ]


def test_a_users_own_line_without_an_amount_lifts_the_cap_of_all_users() -> None:
    caps = UserCaps([CapFacts(HERE, None, gpu_millis=1), CapFacts(HERE, ALICE)])
    assert caps.refusals([HERE], ALICE, Held(10**6), {}) == ()
    assert len(caps.refusals([HERE], BOB, Held(10**6), {})) == 1


@pytest.mark.parametrize(("need", "limit", "never"), [(8, 8, False), (9, 8, True), (1, 0, True)])
def test_waiting_does_not_help_where_the_ask_alone_is_above_the_cap(need: int, limit: int, never: bool) -> None:
    assert CapRefusal(HERE, "jobs", need, 0, limit).can_never_fit is never


def test_what_is_given_back_leaves_what_was_held() -> None:
    before, more = Held(5, 2, 3), Held(1, 1, 1)
    assert before + more - more == before
    assert before - before == Held()


def test_of_a_batch_the_first_that_fits_holds_against_the_later_ones_and_a_refused_one_does_not() -> None:
    caps = UserCaps([CapFacts(HERE, None, gpu_millis=4), CapFacts(TOP, TOGETHER, jobs=2)])
    jobs = [uuid.UUID(int=100 + number) for number in range(5)]
    asks = [
        CapAsk(jobs[0], ALICE, PATH, Held(5, 1, 1)),
        CapAsk(jobs[1], ALICE, PATH, Held(4, 1, 1)),
        CapAsk(jobs[2], ALICE, PATH, Held(1, 1, 1)),
        CapAsk(jobs[3], BOB, PATH, Held(4, 1, 1)),
        CapAsk(jobs[4], BOB, (TOP,), Held(0, 1, 1)),
    ]
    refused = over_caps(caps, asks, {})
    assert {job: (refusal.tenant_id, refusal.what, refusal.used) for job, refusal in refused.items()} == {
        jobs[0]: (HERE, "gpu_millis", 0),
        jobs[2]: (HERE, "gpu_millis", 4),
        jobs[4]: (TOP, "jobs", 2),
    }
    given = {(HERE, ALICE): Held(1)}
    assert set(over_caps(caps, asks[1:2], given)) == {jobs[1]}
    assert given == {(HERE, ALICE): Held(1)}, "what is given stays as it is"


def test_what_is_held_counts_in_every_tenant_on_the_way_up_for_the_user_and_for_all() -> None:
    assert places_of([HERE, TOP], ALICE) == [(HERE, ALICE), (HERE, TOGETHER), (TOP, ALICE), (TOP, TOGETHER)]
    assert held_along({}, [(HERE, ALICE, Held(1, 1, 1))]) == {
        (HERE, ALICE): Held(1, 1, 1),
        (HERE, TOGETHER): Held(1, 1, 1),
    }
    assert held_along({}, []) == {}


# --- Run times ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, None),
        ({TOP: 60}, (TOP, 60)),
        ({HERE: 60, TOP: 60}, (HERE, 60)),
        ({HERE: 61, ABOVE: 60, TOP: 60}, (ABOVE, 60)),
        ({HERE: 60, ABOVE: 61}, (HERE, 60)),
        ({uuid.UUID(int=99): 1}, None),
    ],
)
def test_the_shortest_limit_holds_and_the_nearest_of_equals_is_named(
    limits: dict[uuid.UUID, int], expected: tuple[uuid.UUID, int] | None
) -> None:
    assert runtime_limit(PATH, limits) == expected


@pytest.mark.parametrize(
    ("asked", "expected"),
    [(None, 60), (0, 0), (59, 59), (60, 60), (61, RuntimeRefusal(ABOVE, 61, 60))],
)
def test_a_run_time_is_refused_from_the_first_second_above_the_limit(
    asked: int | None, expected: int | RuntimeRefusal | None
) -> None:
    assert check_runtime(asked, PATH, {ABOVE: 60}) == expected


def test_without_a_limit_a_job_runs_as_long_as_it_says() -> None:
    assert check_runtime(None, PATH, {}) is None
    assert check_runtime(10**9, PATH, {}) == 10**9


def test_the_default_run_time_is_that_of_the_nearest_queue_and_not_the_shortest() -> None:
    assert default_runtime(PATH, {HERE: 900, TOP: 60}) == 900
    assert default_runtime(PATH, {TOP: 60}) == 60
    assert default_runtime(PATH, {}) is None
    assert default_runtime((), {HERE: 900}) is None


# --- Priorities of roles -----------------------------------------------------------------------------------------------

MEMBER, MANAGER = TenantRole.MEMBER, TenantRole.MANAGER


@pytest.mark.parametrize(
    ("lines", "role", "expected"),
    [
        ({}, MEMBER, (50, None)),
        ({(HERE, MEMBER): 70}, MEMBER, (70, HERE)),
        ({(TOP, MEMBER): 70}, MEMBER, (70, TOP)),
        ({(HERE, MEMBER): 10, (TOP, MEMBER): 70}, MEMBER, (10, HERE)),
        ({(HERE, MEMBER): 0}, MEMBER, (0, HERE)),
        ({(HERE, MANAGER): 90}, MEMBER, (50, None)),
    ],
)
def test_the_nearest_line_of_a_role_says_which_priority_it_may_use(
    lines: dict[tuple[uuid.UUID, TenantRole], int], role: TenantRole, expected: tuple[int, uuid.UUID | None]
) -> None:
    grants = PriorityGrants(lines, {HERE: PATH})
    assert grants.source(HERE, role, 50) == expected
    assert grants.highest(HERE, role, 50) == expected[0]


def test_a_tenant_whose_way_up_is_not_known_has_its_own_line_and_no_other() -> None:
    grants = PriorityGrants({(HERE, MEMBER): 70, (TOP, MEMBER): 80}, {})
    assert grants.source(HERE, MEMBER, 50) == (70, HERE)
    assert grants.source(ABOVE, MEMBER, 50) == (50, None)


def test_viewers_have_no_priority_since_they_submit_nothing() -> None:
    assert TenantRole.VIEWER not in GRANTED_ROLES
    assert set(GRANTED_ROLES) == set(TenantRole) - {TenantRole.VIEWER}
