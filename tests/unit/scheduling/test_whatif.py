"""What if: each kind of change against the pass without it."""

from __future__ import annotations

import uuid
from dataclasses import replace

from jobs.scheduling.core.core import Policy
from jobs.scheduling.core.place.gangs import GangAsk
from jobs.scheduling.core.snapshot import State, build
from jobs.scheduling.core.state.decisions import Admit, Evict, WaitReason
from jobs.scheduling.questions.whatif import (
    AddMachines,
    Ask,
    Block,
    Change,
    End,
    Rank,
    Release,
    RemoveMachine,
    ReserveWindow,
    SetCap,
    SetPolicy,
    Submit,
    apply,
    told,
    what_if,
)
from tenants.capacity.quota.bookings import Booked
from tenants.capacity.quota.caps import CapFacts
from tenants.capacity.quota.edits import Change as SetLimits
from tenants.capacity.quota.limits import Limit
from tests.builders.scheduling import POOL, a_job, a_state, passed


def test_who_is_submitted_starts_or_waits_and_says_why() -> None:
    state = passed(a_state(a_job("held", tasks=2, gpus=4)))
    answer = what_if(state, [Submit((a_job("fits", gpus=4, at=10), a_job("waits", gpus=4, at=11)))])
    assert answer.starts == ("fits",)
    assert answer.waits == ("waits",)
    (waits,) = answer.after.waits
    assert waits.reason is not None
    assert waits.reason.code == "capacity"


def test_a_ceiling_that_is_raised_starts_who_waited_for_it() -> None:
    full = a_state(a_job("held", tasks=2), a_job("more", at=5), limits={"a": Limit(ceiling=2000), "b": Limit()})
    answer = what_if(passed(full), [SetLimits(full.queues[1].id, POOL, "gpu_millis", {"ceiling": 3000})])
    assert (answer.starts, answer.unknown) == (("more",), ())


def test_limits_that_promise_more_say_who_would_be_evicted() -> None:
    full = passed(a_state(a_job("guest", queue=2, tasks=3, gpus=4)), a_job("owner", gpus=4, at=1500))
    state = replace(full, at=2000)
    answer = what_if(state, [SetLimits(state.queues[1].id, POOL, "gpu_millis", {"deserved": 4000})])
    assert answer.evicted == ("guest",)
    assert next(wait.clears for wait in answer.after.waits if wait.job_id == "owner") == ("guest",)


def test_who_ran_on_a_machine_that_is_gone_waits_again_or_starts_elsewhere() -> None:
    state = passed(a_state(a_job("one", gpus=4), nodes=2))
    where = state.machines[state.running[0].placed.tasks[0].machine]
    answer = what_if(state, [RemoveMachine(0, where.name)])
    assert (answer.displaced, answer.starts) == (("one",), ("one",))
    gone = apply(state, [RemoveMachine(0, machine.name) for machine in state.machines])
    assert (len(gone.machines), gone.capacities[0].total.gpu_millis) == (0, 0)


def test_who_is_displaced_asks_for_what_it_has_where_its_ask_is_not_known() -> None:
    state = passed(a_state(a_job("one", tasks=3, gpus=4)))
    (held,) = state.running
    state = replace(state, running=(replace(held, job=replace(held.job, gang=GangAsk(()))),))
    (job,) = apply(state, [RemoveMachine(0, "node-000")]).waiting
    assert [(role.minimum, role.ask.gpu_millis) for role in job.gang.roles] == [(3, 4000)]


def test_machines_that_come_leave_everybody_where_they_are() -> None:
    state = passed(a_state(a_job("one", gpus=4), nodes=2))
    name = state.machines[state.running[0].placed.tasks[0].machine].name
    first = replace(state.machines[0], name="aaa")
    after = apply(state, [AddMachines((first,))])
    machines = sorted(after.machines, key=lambda machine: machine.name)
    assert machines[after.running[0].placed.tasks[0].machine].name == name
    assert after.capacities[0].total.gpu_millis == 12_000


def test_machines_that_come_or_go_leave_what_is_booked_and_claimed_elsewhere_where_it_is() -> None:
    """They are numbered anew; a reserved start, and room that others are leaving, stay with their machines."""
    running = a_state(a_job("long", gpus=4, max_runtime=900), a_job("low", gpus=4, priority=100), nodes=2)
    policy = replace(running.policy, least_runtime_seconds=0, assumed_runtime_seconds=0)
    state = replace(passed(running), at=2000, policy=policy)
    state = passed(replace(state, waiting=(a_job("above", gpus=4, at=2000), a_job("booked", queue=2, gpus=4, at=2001))))
    (claim,), (booked,) = state.claims, state.reserved

    def places(scene: State) -> list[str]:
        machines = sorted(scene.machines, key=lambda each: (each.pool, each.name))
        return [machines[task.machine].name for kept in (*scene.claims, *scene.reserved) for task in kept.tasks]

    after = apply(state, [AddMachines((replace(state.machines[0], name="aaa"),))])
    assert ([entry.id for entry in after.claims], [entry.id for entry in after.reserved]) == ([claim.id], [booked.id])
    assert places(after) == places(state)
    assert places(apply(after, [RemoveMachine(0, "aaa")])) == places(state)
    where = places(state)
    assert apply(state, [RemoveMachine(0, where[0])]).claims == ()
    assert apply(state, [RemoveMachine(0, where[1])]).reserved == ()


def test_one_that_has_to_leave_in_the_pass_that_admits_it_does_not_start() -> None:
    state = a_state(a_job("in-and-out", gpus=4), nodes=1)
    core = build(state)
    (admit,) = [decision for decision in core.decide(state.at) if isinstance(decision, Admit)]
    made = told(state, core, (admit, Evict(admit.id, "another", 0)))
    assert (made.starts, [wait.job_id for wait in made.waits]) == ((), [admit.id])


def test_a_cordon_keeps_work_away_and_leaves_what_runs() -> None:
    state = passed(a_state(a_job("one"), nodes=1), a_job("two", at=5))
    answer = what_if(state, [Block(0, "node-000", "cordoned")])
    assert (answer.starts_not, answer.displaced) == (("two",), ())


def test_a_job_that_ends_or_is_released_or_asks_for_less() -> None:
    full = passed(
        a_state(a_job("one", tasks=3, gpus=4)), a_job("two", gpus=4, at=5), a_job("held", at=6, withheld=WaitReason("held"))
    )
    assert what_if(full, [End("one")]).starts == ("two",)
    assert what_if(full, [End("one"), Release("held")]).starts == ("held", "two")
    nothing = a_job("two", gpus=0, at=5).gang
    assert what_if(full, [Ask("two", nothing)]).starts == ("two",)


def test_another_policy_and_another_priority_decide_who_is_first() -> None:
    full = passed(a_state(a_job("one", tasks=3, gpus=4)), a_job("early", gpus=4, at=5), a_job("late", gpus=4, at=6))
    room: list[Change] = [End("one"), *(Block(0, f"node-00{number}", "cordoned") for number in (0, 1))]
    assert what_if(full, room).starts == ("early",)
    assert what_if(full, [*room, Rank("late", priority=900)]).starts == ("late",)
    assert what_if(full, [*room, Rank("late", order=-10)]).starts == ("late",)
    assert apply(full, [SetPolicy(Policy(in_order=True))]).policy.in_order


def test_a_booking_keeps_its_room_from_others() -> None:
    state = a_state(a_job("one", tasks=2, gpus=4))
    window = Booked(uuid.UUID(int=80), state.queues[2].id, POOL, 8000, 0, 9000)
    answer = what_if(state, [ReserveWindow(window)])
    assert answer.starts_not == ("one",)
    assert [wait.reason.code for wait in answer.after.waits if wait.reason] == ["advance_reservation"]
    assert what_if(state, [ReserveWindow(replace(window, queue_id=uuid.UUID(int=99)))]).unknown == (0,)


def test_a_cap_that_is_raised_for_one_user_leaves_that_of_everybody() -> None:
    tenant, alice, bob = (uuid.UUID(int=number) for number in (70, 71, 72))
    caps = (CapFacts(tenant, None, gpu_millis=8000, jobs=1),)
    first, second, his, his_too = (
        a_job(name, at=at, user=who, tenants=(tenant,))
        for at, (name, who) in enumerate([("first", alice), ("second", alice), ("his", bob), ("his-too", bob)])
    )
    state = passed(replace(a_state(first), caps=caps), second, his, his_too)
    answer = what_if(state, [SetCap(tenant, alice, "jobs", 2)])
    assert answer.starts == ("second",)
    assert {start.job_id for start in answer.before.starts} == {"his"}
    changed = apply(state, [SetCap(tenant, alice, "jobs", 2)])
    assert changed.caps == (*caps, CapFacts(tenant, alice, gpu_millis=8000, jobs=2))
    assert apply(changed, [SetCap(tenant, alice, "jobs", None)]).caps == (*caps, CapFacts(tenant, alice, gpu_millis=8000))


def test_starts_that_are_booked_stay_on_their_machines_when_machines_are_added() -> None:
    held = a_job("held", tasks=2, gpus=4, max_runtime=600)
    state = passed(passed(a_state(held), a_job("wide", tasks=3, gpus=4, at=5)))
    (booked,) = state.reserved
    before = [sorted(machine.name for machine in state.machines)[task.machine] for task in booked.tasks]
    for name in ("a-first", "z-last"):
        changed = apply(state, [AddMachines((replace(state.machines[0], name=name, blocked="cordoned"),))])
        core = build(changed)
        core.decide(changed.at)
        (kept,) = core.reservations.kept()
        assert (kept.id, kept.at) == ("wide", booked.at)
        assert [core.machines.at[task.machine].name for task in kept.tasks] == before


def test_changes_that_name_nothing_are_told_by_their_place() -> None:
    state = a_state(a_job("one"))
    known = AddMachines((state.machines[0],))
    unknown: list[Change] = [
        End("nobody"),
        Release("one"),
        RemoveMachine(0, "nowhere"),
        Rank("nobody"),
        known,
        Block(1, "node-000"),
    ]
    assert what_if(state, unknown).unknown == (0, 2, 3, 4, 5)
