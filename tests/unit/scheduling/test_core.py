"""The core of scheduling: one scene for each phase of a pass."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import pytest

from jobs.scheduling.core.core import Core, Policy
from jobs.scheduling.core.place.gangs import GangAsk, RoleAsk
from jobs.scheduling.core.place.machines import Machine, Machines, TaskAsk
from jobs.scheduling.core.place.scores import PoolRules
from jobs.scheduling.core.state.decisions import Admit, Claim, Decision, Evict, Reserve, Wait, WaitReason
from jobs.scheduling.core.state.work import JobAsk
from kernel.resources import Resources
from tenants.capacity.quota.caps import CapFacts
from tenants.capacity.quota.limits import Capacity, Limit, LimitedQueue
from tenants.capacity.quota.shares import Shares

GIB = 1 << 30
POOL = uuid.UUID(int=9)


def a_core(nodes: int = 3, gpus: int = 4, limits: dict[str, Limit] | None = None, **policy: Any) -> Core:
    """Machines of one pool, and a queue per entry of `limits`, by GPU; the numbers of queues follow their names from 1. Jobs come
    in the order in which they were submitted, and nothing is assumed of how long they run, unless a policy says so."""
    policy = {"shortest_first": 0, "assumed_runtime_seconds": 0, **policy}
    limits = limits or {"a": Limit(), "b": Limit()}
    machines = Machines(
        [Machine(f"node-{number:03}", 0, 32_000, 128 * GIB, gpus) for number in range(nodes)], {0: PoolRules(policy="pack")}
    )
    root = LimitedQueue(uuid.UUID(int=1), None, "root")
    queues = [
        LimitedQueue(uuid.UUID(int=10 + number), root.id, name, {POOL: {"gpu_millis": limit}})
        for number, (name, limit) in enumerate(sorted(limits.items()))
    ]
    total = Resources(nodes * 32_000, nodes * 128 * GIB, nodes * gpus * 1000)
    return Core(machines, Shares([root, *queues], [Capacity(POOL, "pool", total)]), Policy(**policy))


def owed(gpus: int, **more: Any) -> Limit:
    return Limit(deserved=gpus * 1000, **more)


def a_job(name: str, queue: int = 1, tasks: int = 1, gpus: int = 1, at: int = 0, **more: Any) -> JobAsk:
    most = more.pop("most", tasks)
    together = more.pop("together", "")
    gang = GangAsk((RoleAsk("worker", TaskAsk(1000, GIB, gpus * 1000), tasks, most, together),))
    return replace(JobAsk(name, queue, gang, (0,), at), **more)


def submit(core: Core, *jobs: JobAsk) -> None:
    for job in jobs:
        core.submit(job)


def admitted(decisions: tuple[Decision, ...]) -> list[str]:
    return [decision.id for decision in decisions if isinstance(decision, Admit)]


def evicted(decisions: tuple[Decision, ...]) -> list[str]:
    return sorted(decision.id for decision in decisions if isinstance(decision, Evict))


def booked(decisions: tuple[Decision, ...]) -> dict[str, int]:
    return {decision.id: decision.at for decision in decisions if isinstance(decision, Reserve)}


def why(core: Core, name: str) -> WaitReason:
    reason = core.why(name)
    assert reason is not None
    return reason


@pytest.mark.capability("14", "Allocate: what fits starts, whole gangs only")
def test_of_four_jobs_of_four_workers_on_twelve_cards_three_run_and_the_fourth_holds_none() -> None:
    core = a_core()
    submit(core, *(a_job(f"job-{number}", tasks=4, at=number) for number in range(4)))
    decisions = core.decide(10)
    assert admitted(decisions) == ["job-0", "job-1", "job-2"]
    assert sum(len(decision.placed.tasks) for decision in decisions if isinstance(decision, Admit)) == 12
    reason = why(core, "job-3")
    assert (reason.code, reason.need, reason.held, reason.limit) == ("capacity", 4000, 12_000, 12_000)
    assert core.machines.free(0).gpu_millis == 0
    core.ended("job-1")
    assert admitted(core.decide(20)) == ["job-3"]


def test_a_pass_in_which_nothing_changed_decides_nothing() -> None:
    core = a_core()
    submit(core, *(a_job(f"job-{number}", tasks=4, at=number) for number in range(5)))
    core.decide(10)
    assert core.decide(11) == ()


@pytest.mark.capability("14", "Enqueue: what may not start by itself is in no line and says why")
def test_a_job_waits_with_the_reason_of_its_own() -> None:
    core = a_core()
    submit(core, a_job("held", withheld=WaitReason("held")), a_job("later", not_before=50), a_job("free"))
    assert admitted(core.decide(10)) == ["free"]
    assert why(core, "held").code == "held"
    assert why(core, "later") == WaitReason("not_before", until=50)
    assert core.next_pass_at == 50
    assert admitted(core.decide(50)) == ["later"]
    submit(core, a_job("held"))
    assert admitted(core.decide(51)) == ["held"]


def test_of_an_array_as_many_run_as_may() -> None:
    core = a_core()
    submit(core, *(a_job(f"child-{number}", at=number, array="array", parallel=2) for number in range(4)))
    assert admitted(core.decide(10)) == ["child-0", "child-1"]
    assert why(core, "child-3").code == "array_parallelism"
    core.ended("child-0")
    assert admitted(core.decide(11)) == ["child-2"]


@pytest.mark.capability("15", "proportion: a queue that holds less than it deserves comes first, and no queue passes its ceiling")
def test_a_ceiling_refuses_with_amounts_and_lets_others_pass() -> None:
    core = a_core(limits={"a": Limit(ceiling=4000), "b": Limit()})
    submit(core, a_job("large", 1, tasks=5), a_job("small", 1, tasks=3, at=1), a_job("other", 2, tasks=8, at=2))
    assert sorted(admitted(core.decide(5))) == ["other", "small"]
    reason = why(core, "large")
    assert (reason.code, reason.queue, reason.need, reason.held, reason.limit) == ("ceiling", 1, 5000, 0, 4000)


@pytest.mark.capability("15", "proportion: a queue that holds less than it deserves comes first, and no queue passes its ceiling")
@pytest.mark.capability("15", "priority: a higher priority comes first in its queue, and waiting makes up for it in the end")
def test_whoever_is_owed_comes_first_and_a_class_higher_before_a_class_lower() -> None:
    core = a_core(nodes=1, limits={"a": Limit(), "b": owed(4)}, aging_seconds=0)
    submit(core, a_job("early", 1, at=0), a_job("low", 2, tasks=2, at=1), a_job("high", 2, tasks=2, at=2, priority=900))
    assert admitted(core.decide(5)) == ["high", "low"]


@pytest.mark.capability("15", "priority: a higher priority comes first in its queue, and waiting makes up for it in the end")
def test_waiting_is_worth_a_class_in_the_end() -> None:
    core = a_core(nodes=1, gpus=1, aging_seconds=10)
    submit(core, a_job("old", at=0, priority=100), a_job("new", at=4001, priority=500))
    assert admitted(core.decide(4002)) == ["old"]


def test_an_elastic_gang_grows_as_far_as_limits_and_room_allow() -> None:
    core = a_core(limits={"a": Limit(ceiling=7000), "b": Limit()})
    submit(core, a_job("elastic", tasks=2, most=20))
    decisions = core.decide(1)
    assert [len(decision.placed.tasks) for decision in decisions if isinstance(decision, Admit)] == [7]
    assert core.shares.used(1, 0)[2] == 7000


@pytest.mark.capability("14", "Reclaim: what is lent comes back when its owner asks")
def test_what_is_lent_comes_back_when_its_owner_asks() -> None:
    core = a_core(limits={"a": owed(8), "b": owed(4)}, least_runtime_seconds=0)
    submit(core, *(a_job(f"lent-{number}", 2, gpus=4, at=number) for number in range(3)))
    assert len(admitted(core.decide(3))) == 3
    core.checkpointed("lent-0", 90)
    submit(core, a_job("owner", 1, gpus=4, at=100))
    decisions = core.decide(100)
    assert evicted(decisions) == ["lent-0"]
    assert next(decision for decision in decisions if isinstance(decision, Evict)).cost == 10 * 4000
    claim = next(decision for decision in decisions if isinstance(decision, Claim))
    assert (claim.id, claim.victims) == ("owner", ("lent-0",))
    submit(core, a_job("thief", 2, gpus=4, at=101))
    assert admitted(core.decide(101)) == []
    assert why(core, "owner").code == "claim"
    core.ended("lent-0")
    assert admitted(core.decide(130)) == ["owner"]


def test_what_its_holder_deserves_is_never_taken() -> None:
    core = a_core(limits={"a": owed(8), "b": owed(4)}, least_runtime_seconds=0)
    submit(core, a_job("mine", 2, gpus=4), *(a_job(f"yours-{number}", 1, gpus=4) for number in range(2)))
    core.decide(0)
    submit(core, a_job("more", 1, gpus=4, at=1))
    assert evicted(core.decide(1000)) == []
    assert why(core, "more").code == "capacity"


def test_nobody_leaves_before_the_least_run_time_and_the_claimant_is_looked_at_again_then() -> None:
    core = a_core(nodes=1, limits={"a": owed(4), "b": Limit()}, reclaim_least_runtime_seconds=300)
    submit(core, a_job("young", 2, gpus=4))
    core.decide(0)
    submit(core, a_job("owner", 1, gpus=4, at=1))
    assert evicted(core.decide(1)) == []
    assert why(core, "owner") == WaitReason("too_young", pool=0, queue=1, until=300)
    assert core.next_pass_at == 300
    assert evicted(core.decide(300)) == ["young"]


def test_who_needs_the_room_of_several_is_told_when_enough_of_them_have_run_for_long_enough() -> None:
    """Not when the first of them has: nothing starts then."""
    core = a_core(nodes=1, limits={"a": owed(4), "b": Limit()}, reclaim_least_runtime_seconds=300)
    for number in range(4):
        submit(core, a_job(f"young-{number}", 2, at=number * 50))
        core.decide(number * 50)
    submit(core, a_job("owner", 1, gpus=2, at=200))
    assert evicted(core.decide(200)) == []
    assert why(core, "owner") == WaitReason("too_young", pool=0, queue=1, until=350)
    assert evicted(core.decide(310)) == [], "one has run for long enough, and two are needed"
    assert why(core, "owner") == WaitReason("too_young", pool=0, queue=1, until=350)
    assert evicted(core.decide(350)) == ["young-0", "young-1"]


def test_who_could_not_have_the_room_of_the_young_is_not_told_to_wait_for_them() -> None:
    core = a_core(nodes=2, limits={"a": owed(8), "b": owed(4)}, reclaim_least_runtime_seconds=300)
    submit(core, a_job("mine", 2, gpus=4))
    core.decide(0)
    submit(core, a_job("yours", 1, gpus=4, at=1))
    core.decide(1)
    submit(core, a_job("more", 1, gpus=4, at=2))
    core.decide(2)
    assert why(core, "more").code != "too_young", "what b deserves never leaves"


@pytest.mark.capability("98", "A lender waits no longer than the grace for what it deserves, however often it comes and goes")
def test_a_queue_waits_no_longer_than_the_grace_for_machines_that_it_deserves() -> None:
    core = a_core(nodes=1, limits={"a": owed(4), "b": Limit()}, grace_seconds=30)
    submit(core, a_job("young", 2, gpus=4))
    core.decide(0)
    submit(core, a_job("owner", 1, gpus=4))
    assert evicted(core.decide(0)) == [], "nobody leaves in the moment of its start"
    assert core.next_pass_at == 1
    assert evicted(core.decide(1)) == ["young"]
    core.ended("young")
    assert admitted(core.decide(31)) == ["owner"]


def test_the_least_run_time_holds_against_priority_and_not_against_what_is_taken_back() -> None:
    core = a_core(nodes=1, limits={"a": owed(4), "b": Limit()})
    submit(core, a_job("young", 2, gpus=4, priority=100))
    core.decide(0)
    submit(core, a_job("urgent", 2, gpus=4, at=1, priority=900))
    assert evicted(core.decide(1)) == []
    assert why(core, "urgent") == WaitReason("too_young", pool=0, queue=2, until=300)
    submit(core, a_job("owner", 1, gpus=4, at=2))
    assert evicted(core.decide(2)) == ["young"]


def test_each_least_run_time_holds_for_itself_whichever_is_longer() -> None:
    core = a_core(nodes=1, limits={"a": owed(4), "b": Limit()}, least_runtime_seconds=20, reclaim_least_runtime_seconds=600)
    submit(core, a_job("young", 2, gpus=4, priority=100))
    core.decide(0)
    submit(core, a_job("urgent", 2, gpus=4, at=1, priority=900), a_job("owner", 1, gpus=4, at=1))
    assert evicted(core.decide(1)) == []
    assert evicted(core.decide(20)) == ["young"], "its own queue waits for 20 seconds"
    assert next(iter(core.transfers)) == "urgent", "the owner of the machine waits for 600"


@pytest.mark.capability("14", "Preempt: a higher priority takes from a lower of its own queue only")
def test_a_higher_class_takes_from_a_lower_of_its_own_queue_only() -> None:
    core = a_core(nodes=2, limits={"a": Limit(), "b": Limit()}, least_runtime_seconds=0)
    submit(core, a_job("mine", 1, gpus=4, priority=100), a_job("yours", 2, gpus=4, priority=100))
    core.decide(0)
    submit(core, a_job("urgent", 1, gpus=4, at=1, priority=900))
    assert evicted(core.decide(1)) == ["mine"]


def test_a_higher_class_takes_a_place_below_the_ceiling_of_its_queue() -> None:
    core = a_core(limits={"a": Limit(ceiling=4000), "b": Limit()}, least_runtime_seconds=0)
    submit(core, a_job("mine", 1, gpus=4, priority=100))
    core.decide(0)
    submit(core, a_job("urgent", 1, gpus=2, at=1, priority=900))
    assert evicted(core.decide(1)) == ["mine"]
    core.ended("mine")
    assert admitted(core.decide(2)) == ["urgent"]


def test_the_fewest_seconds_are_lost_and_nobody_leaves_in_vain() -> None:
    core = a_core(nodes=3, limits={"a": owed(12), "b": Limit()}, least_runtime_seconds=0)
    for number, started in enumerate((0, 40, 60)):
        submit(core, *(a_job(f"n{number}-{copy}", 2, gpus=2, at=started) for copy in range(2)))
        core.decide(started)
    submit(core, a_job("owner", 1, tasks=2, gpus=4, at=100))
    assert evicted(core.decide(100)) == ["n1-0", "n1-1", "n2-0", "n2-1"]


@pytest.mark.capability("98", "With a least run time between queues a lender evicts no more often than that, and waits no longer")
def test_a_brake_stops_a_storm_of_evictions_until_the_window_is_over() -> None:
    core = a_core(limits={"a": owed(12), "b": Limit()}, least_runtime_seconds=0, evictions_per_window=1, window_seconds=60)
    submit(core, *(a_job(f"lent-{number}", 2, gpus=4) for number in range(3)))
    core.decide(0)
    submit(core, *(a_job(f"owner-{number}", 1, gpus=4, at=1) for number in range(2)))
    assert len(evicted(core.decide(1))) == 1
    assert why(core, "owner-1").code == "brake"
    assert why(core, "owner-1").until == 61
    assert len(evicted(core.decide(61))) == 1


def test_a_wide_claim_that_the_brake_refused_is_not_passed_by_small_ones_behind_it() -> None:
    limits = {"a": owed(3), "b": owed(3), "c": Limit()}
    core = a_core(nodes=8, gpus=1, limits=limits, least_runtime_seconds=0, evictions_per_window=3, window_seconds=60)
    submit(core, *(a_job(f"lent-{number}", 3) for number in range(8)))
    core.decide(0)
    submit(core, a_job("first", 2, at=1))
    assert len(evicted(core.decide(1))) == 1
    submit(core, a_job("wide", 1, tasks=3, at=2))
    assert evicted(core.decide(2)) == []
    submit(core, a_job("small", 2, at=3))
    assert evicted(core.decide(3)) == []
    assert (why(core, "wide").code, why(core, "small").code) == ("brake", "brake")
    decisions = core.decide(61)
    assert [decision.claimant for decision in decisions if isinstance(decision, Evict)] == ["wide"] * 3
    assert why(core, "small").code == "brake"
    assert [decision.claimant for decision in core.decide(121) if isinstance(decision, Evict)] == ["small"]


def test_who_gives_up_a_claim_leaves_the_room_to_those_who_are_leaving() -> None:
    core = a_core(nodes=1, limits={"a": owed(4), "b": Limit()}, least_runtime_seconds=0)
    submit(core, a_job("lent", 2, gpus=4))
    core.decide(0)
    submit(core, a_job("owner", 1, gpus=2, at=1))
    assert evicted(core.decide(1)) == ["lent"]
    submit(core, a_job("small", 1, gpus=2, at=2))
    assert admitted(core.decide(2)) == []
    core.withdraw("owner")
    assert admitted(core.decide(3)) == []
    core.ended("lent")
    assert admitted(core.decide(4)) == ["small"]
    assert core.machines.free(0).gpu_millis == 2000


def test_who_gives_up_a_claim_that_is_clear_gives_all_of_it_back_once() -> None:
    core = a_core(nodes=1, limits={"a": owed(4), "b": Limit()}, least_runtime_seconds=0)
    submit(core, a_job("lent", 2, gpus=4))
    core.decide(0)
    submit(core, a_job("owner", 1, gpus=2, at=1))
    core.decide(1)
    core.ended("lent")
    core.withdraw("owner")
    assert core.decide(2) == ()
    assert core.machines.devices_left(0) == (1000, 1000, 1000, 1000)
    assert core.shares.used(0, 0)[2] == 0


def test_a_queue_that_is_served_in_order_lets_nobody_pass() -> None:
    core = a_core(in_order=True, backfill_depth=0)
    submit(core, a_job("large", tasks=13), a_job("small", at=1), a_job("other", 2, at=2))
    assert admitted(core.decide(5)) == ["other"]
    assert why(core, "small").code == "behind"
    core.withdraw("large")
    assert admitted(core.decide(6)) == ["small"]


@pytest.mark.capability("15", "sla: who has waited for longer than the starvation guard gets the next reserved start")
def test_one_that_has_waited_for_long_gets_the_next_reserved_start() -> None:
    """Queue a holds all, so by fair order each reserved start would be for queue b."""
    core = a_core(nodes=1, starvation_guard_seconds=100)
    submit(core, a_job("first", gpus=2, max_runtime=500), a_job("second", gpus=2, max_runtime=600))
    assert admitted(core.decide(0)) == ["first", "second"]
    submit(core, *(a_job(name, queue, gpus=4, at=1, max_runtime=50) for name, queue in (("old", 1), ("new", 2))))
    assert booked(core.decide(2)) == {"new": 660}
    submit(core, a_job("newer", 2, gpus=4, at=90, max_runtime=50))
    core.withdraw("new")
    assert booked(core.decide(101)) == {"old": 660}


def test_nobody_waits_behind_one_that_has_waited_for_long_and_cannot_start() -> None:
    core = a_core(starvation_guard_seconds=100)
    submit(core, a_job("never", tasks=9, gpus=4))
    assert admitted(core.decide(1)) == []
    submit(core, a_job("late", at=5_000))
    assert admitted(core.decide(5_000)) == ["late"]


def test_a_machine_that_comes_back_wakes_whoever_waits_for_it() -> None:
    core = a_core(nodes=1)
    facts = core.machines.at[0]
    core.machine_changed(replace(facts, blocked="cordoned"))
    submit(core, a_job("job"))
    assert admitted(core.decide(1)) == []
    assert why(core, "job").filters[0].code == "blocked"
    core.machine_changed(facts)
    assert admitted(core.decide(2)) == ["job"]


def test_equal_jobs_are_told_once_and_answered_each() -> None:
    core = a_core(nodes=1)
    submit(core, *(a_job(f"job-{number}", gpus=3, at=number) for number in range(5)))
    waits = [decision for decision in core.decide(9) if isinstance(decision, Wait)]
    assert [(wait.id, wait.jobs) for wait in waits] == [("job-1", 4)]
    assert why(core, "job-4") == waits[0].reason


def test_a_job_whose_time_has_come_when_it_is_told_waits_like_any_other() -> None:
    core = a_core()
    core.decide(100)
    submit(core, a_job("late", not_before=50))
    assert "late" in core.ordering
    assert admitted(core.decide(100)) == ["late"]


def test_who_was_told_to_leave_is_evicted_for_nobody_also_once_it_has_run_for_long() -> None:
    core = a_core(nodes=1, limits={"a": owed(4), "b": Limit()}, least_runtime_seconds=20)
    submit(core, a_job("lent", 2, gpus=4))
    core.decide(0)
    core.told_to_leave("lent")
    submit(core, a_job("owner", 1, gpus=4, at=10))
    assert [evicted(core.decide(now)) for now in (10, 20, 40)] == [[], [], []]


def test_other_limits_are_looked_at_also_by_whom_room_woke_just_before() -> None:
    core = a_core(nodes=3, limits={"a": Limit(), "b": Limit(), "c": Limit()}, least_runtime_seconds=0)
    submit(core, a_job("ends", 2, gpus=4), a_job("lent", 3, tasks=2, gpus=4))
    core.decide(10)
    submit(core, a_job("owner", 2, at=20))
    assert not admitted(core.decide(20))
    core.ended("ends")
    core.limits_changed(a_core(nodes=3, limits={"a": Limit(guarantee=4000), "b": owed(4), "c": Limit()}).shares)
    assert evicted(core.decide(30)) == ["lent"]


def test_a_machine_with_room_for_some_tasks_of_a_gang_is_cleared_for_more_of_them() -> None:
    core = a_core(nodes=1, limits={"a": owed(4), "b": Limit()}, least_runtime_seconds=0)
    submit(core, a_job("lent", 2, gpus=2))
    core.decide(0)
    submit(core, a_job("owner", 1, tasks=4, gpus=1, at=10))
    assert evicted(core.decide(10)) == ["lent"]


def test_room_elsewhere_makes_a_gang_ask_again_whom_it_may_evict() -> None:
    core = a_core(nodes=2, limits={"a": owed(8), "b": Limit()}, least_runtime_seconds=0)
    submit(core, a_job("kept", 2, gpus=4, evictable=False), a_job("lent", 2, gpus=4, at=1))
    core.decide(1)
    submit(core, a_job("owner", 1, tasks=2, gpus=4, at=10))
    assert not evicted(core.decide(10))
    core.ended("kept")
    assert evicted(core.decide(20)) == ["lent"]


def test_what_starts_below_one_that_waits_in_its_queue_makes_room_for_it_when_that_becomes_possible() -> None:
    core = a_core(nodes=2, least_runtime_seconds=0, aging_seconds=0)
    submit(core, a_job("other", 2, gpus=4))
    core.decide(0)
    submit(
        core,
        a_job("high", 1, tasks=2, gpus=4, at=10, priority=900),
        a_job("low", 1, gpus=4, at=10, priority=100, max_runtime=900),
    )
    assert admitted(core.decide(10)) == ["low"]
    core.ended("other")
    assert evicted(core.decide(20)) == ["low"]


DAY = 86_400
NEVER_ALONE = {
    "a GPU model that nobody has": {"ask": {"models": frozenset({"H100"})}},
    "a label that no machine carries": {"ask": {"needs": (("zone", frozenset({"x"})),)}},
    "wider than the machines in service": {"tasks": 4, "gpus": 4},
    "in total, but in no shape": {"tasks": 2, "gpus": 3, "ask": {"needs": (("large", frozenset({"yes"})),)}},
    "above the ceiling of its queue": {"tasks": 3, "gpus": 3},
}


@pytest.mark.parametrize("ask", NEVER_ALONE.values(), ids=NEVER_ALONE.keys())
def test_a_job_that_would_not_start_alone_stops_nobody_however_long_it_waits(ask: dict[str, Any]) -> None:
    """Nobody in front of it is what it lacks: its queue goes on beside it, for ever."""
    core = a_core(limits={"a": Limit(ceiling=8000), "b": Limit()})
    core.machine_changed(replace(core.machines.at[0], labels={"large": "yes"}))
    never = a_job("never", tasks=ask.get("tasks", 1), gpus=ask.get("gpus", 1), at=10)
    (role,) = never.gang.roles
    core.submit(replace(never, gang=GangAsk((replace(role, ask=replace(role.ask, **ask.get("ask", {}))),))))
    assert admitted(core.decide(10)) == []
    for at in (3_600, 10 + DAY, 2 * DAY, 30 * DAY):
        core.submit(a_job(f"at-{at}", at=at))
        assert admitted(core.decide(at)) == [f"at-{at}"]


def test_a_user_at_a_cap_stops_no_colleague_and_a_lowered_ceiling_no_queue() -> None:
    tenant, owner, colleague = (uuid.UUID(int=number) for number in (77, 501, 502))
    core = a_core()
    core.caps_changed([CapFacts(tenant, None, jobs=1)])
    mine = {"user": owner, "tenants": (tenant,)}
    submit(core, a_job("runs", at=1, **mine), a_job("waits", at=2, **mine), a_job("wide", queue=2, tasks=2, gpus=4, at=3))
    assert admitted(core.decide(5)) == ["runs", "wide"]
    assert why(core, "waits").code == "user_cap"
    core.submit(a_job("also-wide", queue=2, tasks=2, gpus=4, at=6))
    core.decide(6)
    fewer = a_core(limits={"a": Limit(), "b": Limit(ceiling=4000)}).shares
    core.limits_changed(fewer)
    core.ended("wide")
    for at in (10 + DAY, 30 * DAY):
        core.submit(a_job(f"colleague-{at}", at=at, user=colleague, tenants=(tenant,)))
        core.submit(a_job(f"small-{at}", queue=2, at=at))
        assert sorted(admitted(core.decide(at))) == [f"colleague-{at}", f"small-{at}"]
        core.ended(f"colleague-{at}")


def test_once_a_machine_is_back_a_job_that_waited_for_it_has_a_reserved_start_that_small_jobs_leave_alone() -> None:
    core = a_core(nodes=2)
    core.machine_changed(replace(core.machines.at[1], blocked="cordoned"))
    submit(core, a_job("wide", tasks=2, gpus=4, at=1, max_runtime=100), a_job("small", at=2, max_runtime=DAY * 2))
    assert admitted(core.decide(2)) == ["small"]
    core.machine_changed(replace(core.machines.at[1], blocked=""))
    core.decide(3)
    submit(core, a_job("later", at=DAY, max_runtime=2 * DAY), a_job("brief", at=DAY, max_runtime=100))
    assert admitted(core.decide(DAY)) == ["brief"]
    assert why(core, "later").code == "backfill_reservation"
    for name in ("small", "brief"):
        core.ended(name)
    assert "wide" in admitted(core.decide(DAY + 30))


def test_a_job_that_waits_is_submitted_again_in_its_place_with_something_else_of_it_changed() -> None:
    core = a_core()
    waiting = [a_job(f"job-{number}", tasks=4, gpus=4, at=number, checkpoint_seconds=10) for number in range(8)]
    submit(core, *waiting)
    core.decide(10)
    for job in waiting:
        submit(core, replace(job, checkpoint_seconds=20), replace(job, checkpoint_seconds=30))
    core.decide(11)
    assert [job.checkpoint_seconds for job in core.waiting()] == [30] * 8
    group = core.ordering.group("job-0")
    assert group is not None
    assert [job.id for job in group.firsts(3)] == ["job-0", "job-1", "job-2"], "each once"


def test_a_reason_that_names_a_moment_is_found_out_anew_once_that_has_come() -> None:
    core = a_core(nodes=2, limits={"a": owed(4), "b": Limit()}, reclaim_least_runtime_seconds=20, backfill_depth=0)
    submit(core, a_job("first", 2, gpus=4), a_job("second", 2, gpus=4))
    core.decide(0)
    submit(core, a_job("owner", gpus=4, at=1))
    core.decide(1)
    assert (why(core, "owner").code, why(core, "owner").until) == ("too_young", 20)
    core.ended("first")
    submit(core, a_job("urgent", gpus=4, at=2, priority=900))
    assert admitted(core.decide(5)) == ["urgent"], "what the queue deserves is used by now"
    decisions = core.decide(20)
    assert why(core, "owner").code == "capacity"
    assert [decision.id for decision in decisions if isinstance(decision, Wait)] == ["owner"], "it is told, too"


def test_of_asks_that_came_and_went_nothing_is_kept() -> None:
    core = a_core(nodes=1)
    submit(core, a_job("runs", gpus=4), a_job("waits", gpus=2))
    core.decide(0)
    for number in range(50):
        submit(core, a_job(f"ask-{number}", tasks=number + 1, queue=1 + number % 2, at=number, priority=number))
        core.decide(number)
        core.withdraw(f"ask-{number}")
    core.ended("runs")
    assert admitted(core.decide(60)) == ["waits"]
    submit(core, a_job("last", gpus=4, at=61))
    core.decide(61)
    core.ended("waits")
    assert admitted(core.decide(62)) == ["last"]
    refused = [by_shape for by_queue in core.wakeups._refused[0].values() for by_shape in by_queue.values()]
    assert core.ordering.groups() == []
    assert len(core.ordering.by_shape) == 0
    assert sum(map(len, refused)) <= 1
    assert len(core.live.shapes._known) == len(core.live.shapes._by_identity) <= 2
    assert core.machines.free(0).gpu_millis == 0
