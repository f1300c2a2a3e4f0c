"""Caps on users inside a pass: who is over one waits with its numbers, and is woken when something of the same user ends."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import pytest

from jobs.scheduling.core.core import Core, Policy
from jobs.scheduling.core.place.gangs import Placed, PlacedTask
from jobs.scheduling.core.place.machines import Machine, Machines
from jobs.scheduling.core.state.decisions import Reserve
from jobs.scheduling.core.state.work import JobAsk, Seat
from kernel.resources import Resources
from tenants.capacity.quota.caps import TOGETHER, CapFacts, Held
from tenants.capacity.quota.limits import Capacity, LimitedQueue
from tenants.capacity.quota.shares import Shares
from tests.unit.scheduling.test_core import GIB, a_core, a_job, admitted, submit, why

TENANT, ABOVE, ALICE, BOB = (uuid.UUID(int=number) for number in range(1, 5))


def capped(*caps: CapFacts, **more: Any) -> Core:
    core = a_core(**more)
    core.caps_changed(caps)
    return core


def of(user: uuid.UUID, name: str, **more: Any) -> JobAsk:
    return replace(a_job(name, **more), user=user, tenants=(TENANT, ABOVE))


def test_a_user_holds_no_more_gpus_than_one_may_and_others_go_on() -> None:
    core = capped(CapFacts(TENANT, None, gpu_millis=4000))
    submit(core, of(ALICE, "a", gpus=3), of(ALICE, "b", gpus=2, at=1), of(BOB, "c", gpus=2, at=2))
    assert sorted(admitted(core.decide(5))) == ["a", "c"]
    reason = why(core, "b")
    assert (reason.code, reason.what, reason.need, reason.held, reason.limit) == ("user_cap", "gpu_millis", 2000, 3000, 4000)
    assert reason.of == str(TENANT)
    core.ended("c")
    assert admitted(core.decide(6)) == []
    core.ended("a")
    assert admitted(core.decide(7)) == ["b"]


def test_caps_of_a_tenant_above_count_what_is_held_below_it() -> None:
    core = capped(CapFacts(ABOVE, ALICE, jobs=1), CapFacts(TENANT, None, jobs=3))
    submit(core, of(ALICE, "a"), of(ALICE, "b", at=1), *(of(BOB, f"c{number}", at=2) for number in range(4)))
    assert sorted(admitted(core.decide(5))) == ["a", "c0", "c1", "c2"]
    assert why(core, "b").limit == 1
    assert why(core, "c3").limit == 3


def test_an_elastic_gang_grows_only_as_far_as_the_containers_of_its_user_may() -> None:
    core = capped(CapFacts(TENANT, None, containers=5))
    submit(core, of(ALICE, "elastic", tasks=2, most=9))
    core.decide(1)
    assert len(core.running["elastic"].placed.tasks) == 5


def test_who_leaves_counts_until_gone_and_other_caps_count_what_runs() -> None:
    core = capped()
    submit(core, of(ALICE, "a", gpus=4), of(ALICE, "b", gpus=4, at=1))
    core.decide(1)
    core.caps_changed((CapFacts(TENANT, None, gpu_millis=8000),))
    submit(core, of(ALICE, "c", at=2))
    core.told_to_leave("a")
    assert admitted(core.decide(2)) == []
    assert why(core, "c").held == 8000
    core.ended("a")
    assert admitted(core.decide(3)) == ["c"]


def test_a_booked_start_of_a_user_is_not_delayed_by_the_users_own_cap() -> None:
    core = capped(CapFacts(TENANT, None, gpu_millis=8000), nodes=4, overrun_seconds=0, preempts=False)
    submit(core, replace(a_job("other", 2, tasks=3, gpus=4), max_runtime=100))
    core.decide(0)
    submit(core, replace(of(ALICE, "wide", tasks=2, gpus=4, at=1), max_runtime=10), of(ALICE, "small", at=2))
    assert admitted(core.decide(2)) == []
    core.ended("other")
    assert admitted(core.decide(50)) == ["wide"]
    assert why(core, "small").code == "user_cap"


@pytest.mark.parametrize("who", [None, ALICE, TOGETHER])
def test_a_cap_that_becomes_too_small_for_a_booked_start_frees_its_room_at_once(who: uuid.UUID | None) -> None:
    core = capped(nodes=4, overrun_seconds=0, preempts=False)
    submit(core, replace(a_job("other", 2, tasks=3, gpus=4), max_runtime=100))
    core.decide(0)
    submit(core, replace(of(ALICE, "wide", tasks=4, gpus=4, at=1), max_runtime=10), of(BOB, "small", at=2))
    assert [(decision.id, decision.at) for decision in core.decide(2) if isinstance(decision, Reserve)] == [("wide", 100)]
    assert why(core, "small").code == "backfill_reservation"
    small_for_it = CapFacts(TENANT, who, containers=3)
    core.caps_changed((small_for_it,))
    decisions = core.decide(3)
    assert [(decision.id, decision.at, decision.cause) for decision in decisions if isinstance(decision, Reserve)] == [
        ("wide", 0, "limits")
    ]
    assert admitted(decisions) == ["small"]
    assert why(core, "wide").code in ("user_cap", "tenant_cap")
    core.caps_changed(())
    assert [
        decision.id for decision in core.decide(4) if isinstance(decision, Reserve)
    ] == []  # It waits for `small`, whose end is not known.


def test_the_cap_of_one_user_that_is_full_delays_no_job_of_another() -> None:
    """Both count for the tenant as a whole, for which there is no cap."""
    core = capped(CapFacts(TENANT, ALICE, jobs=1))
    submit(core, of(ALICE, "runs"))
    core.decide(1)
    people, ask = core.holdings, Held(1000, 1, 1)
    booked, other = of(ALICE, "booked"), of(BOB, "other")
    assert not people.is_delayed(booked, ask, other, ask)
    assert people.is_delayed(booked, ask, of(ALICE, "hers"), ask)
    core.caps_changed((CapFacts(TENANT, TOGETHER, jobs=2),))
    assert core.holdings.is_delayed(booked, ask, other, ask)


@pytest.mark.parametrize("is_raised", [False, True])
def test_a_cap_that_is_free_again_lets_who_waited_for_it_have_the_next_start_in_every_pool(is_raised: bool) -> None:
    pools = (uuid.UUID(int=20), uuid.UUID(int=21))
    machines = Machines([Machine("node", pool, 32_000, 128 * GIB, 4) for pool in (0, 1)])
    root = LimitedQueue(uuid.UUID(int=1), None, "root")
    queues = [root, *(LimitedQueue(uuid.UUID(int=10 + number), root.id, name, {}) for number, name in enumerate("ab"))]
    shares = Shares(queues, [Capacity(pool, "pool", Resources(32_000, 128 * GIB, 4000)) for pool in pools])
    policy = Policy(starvation_guard_seconds=5, overrun_seconds=0, shortest_first=0)
    core = Core(machines, shares, policy, caps=[CapFacts(TENANT, TOGETHER, jobs=1)])
    submit(
        core,
        a_job("other", 2, gpus=2, max_runtime=100),
        of(ALICE, "mine", queue=2, max_runtime=50, pools=(1,)),
        of(ALICE, "wide", queue=2, gpus=4, max_runtime=50, at=1),
    )
    assert admitted(core.decide(1)) == ["mine", "other"]
    assert why(core, "wide").code == "tenant_cap"
    submit(core, of(ALICE, "long", queue=1, gpus=2, max_runtime=500, at=8))
    core.decide(9)
    core.decide(10)
    core.caps_changed([CapFacts(TENANT, TOGETHER, jobs=2)]) if is_raised else core.ended("mine")
    assert admitted(core.decide(11)) == []
    assert why(core, "long").code == "backfill_reservation", "who has waited for long comes first"


def test_room_kept_for_a_gang_that_does_not_come_back_counts_for_its_user_no_more() -> None:
    core = capped(CapFacts(TENANT, None, jobs=1))
    moved = of(ALICE, "moved")
    placed = Placed(0, (PlacedTask("worker", 0, 0, moved.gang.roles[0].ask, (0,)),))
    core.seats.restore(Seat(moved, placed, core.live.need_of(placed), "gone", until=60))
    submit(core, of(ALICE, "next"))
    assert admitted(core.decide(1)) == []
    assert why(core, "next").code == "user_cap"
    assert core.next_pass_at == 60
    assert admitted(core.decide(60)) == ["next"]
