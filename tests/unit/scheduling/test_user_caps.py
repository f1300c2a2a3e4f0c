"""Caps on users inside a pass: who is over one waits with its numbers, and is woken when something of the same user ends."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

from jobs.scheduling.core.core import Core
from jobs.scheduling.core.state.work import Job
from tenants.quota.caps import TOGETHER, Held, UserCap
from tests.unit.scheduling.test_core import a_core, a_job, admitted, submit, why

TENANT, ABOVE, ALICE, BOB = (uuid.UUID(int=number) for number in range(1, 5))


def capped(*caps: UserCap, **more: Any) -> Core:
    core = a_core(**more)
    core.caps_changed(caps)
    return core


def of(user: uuid.UUID, name: str, **more: Any) -> Job:
    return replace(a_job(name, **more), user=user, tenants=(TENANT, ABOVE))


def test_a_user_holds_no_more_gpus_than_one_may_and_others_go_on() -> None:
    core = capped(UserCap(TENANT, None, gpu_millis=4000))
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
    core = capped(UserCap(ABOVE, ALICE, jobs=1), UserCap(TENANT, None, jobs=3))
    submit(core, of(ALICE, "a"), of(ALICE, "b", at=1), *(of(BOB, f"c{number}", at=2) for number in range(4)))
    assert sorted(admitted(core.decide(5))) == ["a", "c0", "c1", "c2"]
    assert why(core, "b").limit == 1
    assert why(core, "c3").limit == 3


def test_an_elastic_gang_grows_only_as_far_as_the_containers_of_its_user_may() -> None:
    core = capped(UserCap(TENANT, None, containers=5))
    submit(core, of(ALICE, "elastic", tasks=2, most=9))
    core.decide(1)
    assert len(core.running["elastic"].placed.tasks) == 5


def test_who_leaves_counts_until_gone_and_other_caps_count_what_runs() -> None:
    core = capped()
    submit(core, of(ALICE, "a", gpus=4), of(ALICE, "b", gpus=4, at=1))
    core.decide(1)
    core.caps_changed((UserCap(TENANT, None, gpu_millis=8000),))
    submit(core, of(ALICE, "c", at=2))
    core.told_to_leave("a")
    assert admitted(core.decide(2)) == []
    assert why(core, "c").held == 8000
    core.ended("a")
    assert admitted(core.decide(3)) == ["c"]


def test_a_booked_start_of_a_user_is_not_delayed_by_the_users_own_cap() -> None:
    core = capped(UserCap(TENANT, None, gpu_millis=8000), nodes=4, overrun_seconds=0, preempts=False)
    submit(core, replace(a_job("other", 2, tasks=3, gpus=4), max_runtime=100))
    core.decide(0)
    submit(core, replace(of(ALICE, "wide", tasks=2, gpus=4, at=1), max_runtime=10), of(ALICE, "small", at=2))
    assert admitted(core.decide(2)) == []
    core.ended("other")
    assert admitted(core.decide(50)) == ["wide"]
    assert why(core, "small").code == "user_cap"


def test_the_cap_of_one_user_that_is_full_delays_no_job_of_another() -> None:
    """Both count for the tenant as a whole, for which there is no cap."""
    core = capped(UserCap(TENANT, ALICE, jobs=1))
    submit(core, of(ALICE, "runs"))
    core.decide(1)
    people, ask = core.holdings, Held(1000, 1, 1)
    booked, other = of(ALICE, "booked"), of(BOB, "other")
    assert not people.is_delayed(booked, ask, other, ask)
    assert people.is_delayed(booked, ask, of(ALICE, "hers"), ask)
    core.caps_changed((UserCap(TENANT, TOGETHER, jobs=2),))
    assert core.holdings.is_delayed(booked, ask, other, ask)
