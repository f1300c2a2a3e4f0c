"""Why a job waits and what would start it: one scene for each condition and each kind of change."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import pytest

from jobs.scheduling.core.snapshot import State
from jobs.scheduling.core.state.decisions import WaitReason
from jobs.scheduling.questions.explain import Condition, Explanation, Settled, explain
from jobs.scheduling.questions.suggest import Suggestion, outcome, suggest, suggest_within_bounds
from jobs.scheduling.questions.whatif import AddMachines, Ask, Block, End, Rank, Release, apply
from tenants.capacity.quota.bookings import Booked
from tenants.capacity.quota.caps import CapFacts
from tenants.capacity.quota.edits import Change as SetLimits
from tenants.capacity.quota.limits import Limit, validate
from tests.builders.scheduling import GIB, POOL, a_job, a_state, passed


def explained(state: State, job_id: str) -> Explanation:
    found = explain(Settled(state), job_id)
    assert found is not None
    return found


def codes(state: State, job_id: str) -> list[str]:
    return [entry.reason.code for entry in explained(state, job_id).conditions]


def suggested(state: State, job_id: str, **more: Any) -> dict[str, Suggestion]:
    """By kind; each was tried here once more, on a new core."""
    settled = Settled(state)
    explanation = explain(settled, job_id)
    assert explanation is not None
    found = suggest(settled, explanation, **more)
    assert all(outcome(settled.state, suggestion.changes, job_id) == suggestion.clears for suggestion in found)
    return {suggestion.kind: suggestion for suggestion in found}


def condition(state: State, job_id: str, code: str) -> Condition:
    return next(entry for entry in explained(state, job_id).conditions if entry.reason.code == code)


def test_a_job_that_is_not_there_is_not_explained() -> None:
    assert explain(Settled(a_state()), "nobody") is None


def test_a_job_that_would_start_now_says_so() -> None:
    found = explained(a_state(a_job("one")), "one")
    assert found.starts
    assert found.conditions == ()


def test_a_ceiling_says_whose_with_numbers_and_who_holds_what_since_when() -> None:
    full = a_state(a_job("held", tasks=2), limits={"a": Limit(ceiling=2000), "b": Limit()})
    state = passed(full, a_job("more", at=5), at=2000)
    found = condition(state, "more", "ceiling")
    assert found.reason[:8] == ("ceiling", 0, 1, 2, 1000, 2000, 2000, 0)
    (holder,) = found.holders
    assert (holder.queue, holder.amount, holder.gangs, holder.since) == (1, (2000, 2 * GIB, 2000), 1, 1000)
    assert codes(state, "more") == ["ceiling"]


def test_what_is_kept_for_others_says_for_whom() -> None:
    state = a_state(
        a_job("one", tasks=3, gpus=4, at=1), limits={"a": Limit(), "b": Limit(guarantee=4000), "c": Limit(guarantee=1000)}
    )
    found = condition(state, "one", "withheld")
    assert [(holder.queue, holder.amount[2], holder.gangs) for holder in found.holders] == [(2, 4000, 0), (3, 1000, 0)]


def test_all_that_refuses_it_is_told_at_once_most_telling_first() -> None:
    limits = {"a": Limit(ceiling=2000), "b": Limit()}
    full = a_state(a_job("other", queue=2, tasks=3, gpus=4), limits=limits)
    job = a_job("one", tasks=3, withheld=WaitReason("held"), not_before=5000, at=1)
    assert codes(passed(full, job, at=2000), "one") == ["held", "not_before", "ceiling", "no_room"]


def test_where_no_machine_has_room_the_sum_of_the_pool_is_not_told_as_well() -> None:
    full = a_state(a_job("other", queue=2, tasks=3, gpus=4))
    assert codes(passed(full, a_job("one", at=1)), "one") == ["no_room"]


def test_a_model_that_the_pool_has_not_is_blamed_with_how_many_machines() -> None:
    found = condition(a_state(a_job("one", models=("H100",))), "one", "no_machine")
    assert [(refusal.code, refusal.machines) for refusal in found.reason.filters] == [("gpu_model", 3)]


def test_who_waits_behind_another_of_its_queue_says_behind_whom() -> None:
    full = a_state(a_job("other", queue=2, tasks=2, gpus=4), in_order=True)
    state = passed(full, a_job("large", tasks=2, gpus=4, at=1), a_job("small", at=2), at=2000)
    found = explained(state, "small")
    assert [(entry.reason.code, entry.is_own, entry.jobs) for entry in found.conditions] == [("behind", True, ("large",))]
    assert (found.place.in_queue, found.place.queue_length) == (2, 2)


@pytest.mark.parametrize("aging", [0, 216])
def test_a_place_at_the_head_of_the_queue_is_before_shorter_jobs_too(aging: int) -> None:
    state = a_state(a_job("brief", gpus=4, tasks=4, at=1050), limits={"a": Limit(), "b": Limit()})
    state = replace(state, policy=replace(state.policy, in_order=True, aging_seconds=aging))
    state = replace(state, waiting=tuple(replace(job, max_runtime=600) for job in state.waiting))
    state = passed(state, replace(a_job("lengthy", gpus=4, at=1060), max_runtime=7200), at=1100)
    assert codes(state, "lengthy") == ["behind"]
    (rank,) = suggested(state, "lengthy")["bump"].changes
    assert isinstance(rank, Rank)


def test_a_full_array_says_which_siblings_run() -> None:
    siblings = [a_job(f"child-{number}", array="parent", parallel=2, at=number) for number in range(3)]
    found = condition(a_state(*siblings), "child-2", "array_parallelism")
    assert (found.reason.held, found.reason.limit, found.jobs) == (2, 2, ("child-0", "child-1"))


def test_who_takes_its_room_back_says_who_is_leaving_and_needs_nothing_more() -> None:
    full = a_state(a_job("guest", queue=2, tasks=3, gpus=4), limits={"a": Limit(deserved=8000), "b": Limit(deserved=4000)})
    state = passed(full, a_job("owner", gpus=4, at=1500), at=2000)
    found = condition(state, "owner", "claim")
    assert found.jobs == ("guest",)
    assert suggested(state, "owner") == {}


def test_who_may_take_room_back_but_not_yet_says_from_when() -> None:
    limits = {"a": Limit(deserved=8000), "b": Limit(deserved=4000)}
    full = a_state(a_job("guest", queue=2, tasks=3, gpus=4), limits=limits)
    full = replace(full, policy=replace(full.policy, reclaim_least_runtime_seconds=300))
    found = condition(passed(full, a_job("owner", gpus=4, at=1050), at=1100), "owner", "too_young")
    assert found.instead
    assert found.reason.until == 1300


def test_the_place_goes_by_the_fair_order_of_queues_and_not_by_time_alone() -> None:
    full = a_state(a_job("other", queue=1, tasks=3, gpus=4), reclaims=False)
    waiting = [*(a_job(f"a-{number}", at=number) for number in range(3)), a_job("b-0", queue=2, at=9)]
    state = passed(full, *waiting)
    assert explained(state, "b-0").place == replace(explained(state, "a-0").place, queue_length=1, in_pool=1)
    assert [explained(state, f"a-{number}").place.in_pool for number in range(3)] == [2, 3, 4]


def test_the_factors_are_those_of_the_order() -> None:
    full = a_state(a_job("other", queue=1, tasks=3, gpus=4), aging_seconds=10)
    found = explained(passed(full, a_job("one", at=900, priority=600, order=-5)), "one").factors
    assert (found.priority, found.priority_seconds, found.waited_seconds, found.order_seconds) == (600, 6000, 100, -5)
    assert found.place_seconds == 900 - 5 - 6000
    (queue,) = found.queues
    assert (queue.queue, queue.is_owed, queue.share_now) == (1, False, 1_000_000_000)


# --- What would start it ------------------------------------------------------------------------------------------------


def test_a_hold_that_is_all_that_is_missing_is_all_that_is_suggested() -> None:
    state = a_state(a_job("one", withheld=WaitReason("held")))
    assert list(suggested(state, "one").values()) == [Suggestion("release", (Release("one"),))]


def test_a_hold_is_part_of_every_suggestion_where_it_is_not_enough() -> None:
    state = a_state(a_job("one", models=("H100",), withheld=WaitReason("held")))
    found = suggested(state, "one")
    assert found
    assert all(suggestion.changes[0] == Release("one") for suggestion in found.values())


def test_a_ceiling_is_raised_by_no_more_than_it_takes() -> None:
    full = a_state(a_job("held", tasks=2), limits={"a": Limit(ceiling=2000), "b": Limit()})
    state = passed(full, a_job("more", tasks=3, at=5))
    (change,) = suggested(state, "more")["limit"].changes
    assert isinstance(change, SetLimits)
    assert change.values == {"ceiling": 5000}
    less = replace(change, values={"ceiling": 4000})
    assert outcome(Settled(state).state, (less,), "more") is None


def test_fewer_tasks_are_as_many_as_fit() -> None:
    full = a_state(a_job("other", queue=2, tasks=2, gpus=4))
    (change,) = suggested(passed(full, a_job("one", tasks=6, at=5)), "one")["tasks"].changes
    assert isinstance(change, Ask)
    assert change.gang is not None
    assert change.gang.roles[0].minimum == 4


def test_fewer_gpus_are_as_many_as_are_free_on_one_machine() -> None:
    full = a_state(*(a_job(f"other-{number}", queue=2, gpus=1, tasks=1, memory=80) for number in range(3)))
    (change,) = suggested(passed(full, a_job("one", gpus=4, at=5)), "one")["gpus"].changes
    assert isinstance(change, Ask)
    assert change.gang is not None
    assert change.gang.roles[0].ask.gpu_millis == 3000


def test_less_memory_is_as_much_as_is_free() -> None:
    full = a_state(a_job("other", queue=2, tasks=3, memory=100))
    (change,) = suggested(passed(full, a_job("one", memory=60, at=5)), "one")["memory"].changes
    assert isinstance(change, Ask)
    assert change.gang is not None
    assert 20 * GIB < change.gang.roles[0].ask.memory_bytes <= 28 * GIB


def test_any_model_will_do_where_only_the_model_is_missing() -> None:
    found = suggested(a_state(a_job("one", models=("H100",))), "one")
    assert next(iter(found)) == "model"


def test_another_pool_is_suggested_where_it_was_not_named() -> None:
    full = a_state(a_job("other", queue=2, tasks=3, gpus=4))
    state = passed(full, a_job("one", at=5))
    second = replace(state.pools[0], id=state.queues[1].id, name="second")
    machine = replace(state.machines[0], pool=1)
    capacity = replace(state.capacities[0], pool_id=second.id, name="second")
    state = replace(
        state, pools=(*state.pools, second), machines=(*state.machines, machine), capacities=(*state.capacities, capacity)
    )
    assert "pool" not in suggested(state, "one")
    assert suggested(state, "one", also=(1,))["pool"].changes == (Ask("one", pools=(0, 1)),)


def test_of_those_who_could_end_as_few_as_make_room() -> None:
    full = a_state(*(a_job(f"run-{number}", tasks=1, gpus=2, at=number) for number in range(6)))
    found = suggested(passed(full, a_job("one", gpus=4, at=50)), "one")
    assert len(found["end_own"].changes) == 2


def test_work_that_ends_makes_room_for_those_who_are_first_as_well() -> None:
    full = a_state(*(a_job(f"run-{number}", queue=2, gpus=4, at=number) for number in range(3)), reclaims=False)
    state = passed(full, a_job("first", queue=1, gpus=4, at=20), a_job("one", queue=1, gpus=4, at=50))
    changes = suggested(state, "one")["end"].changes
    assert sum(isinstance(change, End) for change in changes) == 2 or any(isinstance(change, Rank) for change in changes)


def test_a_higher_priority_says_whom_it_would_clear_away() -> None:
    full = a_state(a_job("low", tasks=3, gpus=4, priority=500))
    state = passed(full, a_job("one", at=5), at=5000)
    found = suggested(state, "one")["priority"]
    assert found.changes == (Rank("one", priority=501),)
    assert found.clears == ("low",)


def test_a_machine_that_was_cordoned_is_found() -> None:
    state = a_state(a_job("one"), nodes=1)
    state = replace(state, machines=(replace(state.machines[0], blocked="cordoned"),))
    assert suggested(state, "one")["unblock"].changes == (Block(0, "node-000"),)


def test_a_gang_that_no_machine_could_take_asks_for_one_that_could() -> None:
    (change,) = suggested(a_state(a_job("one", gpus=16)), "one")["machines"].changes
    assert isinstance(change, AddMachines)
    assert [machine.gpus for machine in change.machines] == [16]


def test_limits_that_are_suggested_leave_the_tree_whole() -> None:
    state = a_state(a_job("one", tasks=3), limits={"a": Limit(ceiling=2000), "b": Limit(guarantee=11_000)})
    limit = suggested(state, "one")["limit"]
    assert [change.values for change in limit.changes if isinstance(change, SetLimits)] == [
        {"ceiling": 3000},
        {"guarantee": 9000, "deserved": 11_000},
    ]
    assert validate(apply(state, limit.changes).queues, state.capacities) == ()


def test_a_cap_on_its_user_says_what_the_user_has_and_which_job_would_have_to_end() -> None:
    tenant, user = uuid.UUID(int=70), uuid.UUID(int=71)
    mine: dict[str, Any] = {"tenants": (tenant,), "user": user}
    state = replace(a_state(a_job("held", gpus=2, **mine)), caps=(CapFacts(tenant, user, gpu_millis=3000),))
    state = passed(state, a_job("more", gpus=2, at=5, **mine))
    found = condition(state, "more", "user_cap")
    assert (found.reason.what, found.reason.held, found.reason.limit, found.jobs) == ("gpu_millis", 2000, 3000, ("held",))
    told = suggested(state, "more")
    assert told["end_own"].changes == (End("held"),)
    (change,) = told["gpus"].changes
    assert isinstance(change, Ask)
    assert change.gang is not None
    assert change.gang.roles[0].ask.gpu_millis == 1000


def test_room_that_others_start_needs_is_had_by_being_over_before() -> None:
    full = a_state(a_job("held", tasks=2, gpus=4, max_runtime=3000), nodes=3)
    first = a_job("first", tasks=3, gpus=4, at=1, max_runtime=1000)
    state = passed(full, first, a_job("later", gpus=4, at=2, max_runtime=90_000))
    found = condition(state, "later", "backfill_reservation")
    assert 4000 <= found.reason.until < 4100
    (change,) = suggested(state, "later")["runtime"].changes
    assert isinstance(change, Ask)
    assert change.max_runtime is not None
    assert 2900 <= change.max_runtime <= found.reason.until - 1000


def test_what_a_tenant_has_booked_for_now_is_not_there_for_others() -> None:
    window = Booked(uuid.UUID(int=80), uuid.UUID(int=11), POOL, 8000, 0, 9000)
    state = replace(a_state(a_job("one", tasks=2, gpus=4)), bookings=(window,))
    found = condition(state, "one", "advance_reservation")
    assert (found.reason.kept, found.reason.until) == (8000, 9000)
    assert "advance_reservation" in [entry.reason.code for entry in explained(state, "one").conditions]
    assert suggested(state, "one")


def test_what_starts_is_not_evicted_in_the_same_pass() -> None:
    """One that waited for long has the turn before one of higher priority, which takes the room a second later."""
    at = 1_000_000
    state = a_state(a_job("old", gpus=4, priority=100), a_job("urgent", gpus=4, priority=900, at=at), nodes=1)
    settled = Settled(replace(state, at=at, policy=replace(state.policy, least_runtime_seconds=0)))
    assert [type(decision).__name__ for decision in settled.decisions if decision.id == "old"] == ["Admit"]
    explanation = explain(settled, "old")
    assert explanation is not None
    assert explanation.starts
    assert "Evict" in {type(decision).__name__ for decision in settled.core.decide(at + 1) if decision.id == "old"}


def test_a_search_that_ends_at_its_bound_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    settled = Settled(passed(a_state(a_job("held", tasks=3, gpus=4)), a_job("waits", gpus=4, at=5)))
    explanation = explain(settled, "waits")
    assert explanation is not None
    whole = suggest_within_bounds(settled, explanation)
    assert (whole.is_bounded, len(whole.suggestions)) == (False, len(suggest(settled, explanation)))
    monkeypatch.setattr("jobs.scheduling.questions.suggest.TRIES_MAX", 1)
    monkeypatch.setattr("jobs.scheduling.questions.suggest.LAST_MAX", 0)
    short = suggest_within_bounds(settled, explanation)
    assert short.is_bounded
    assert set(short.suggestions) < set(whole.suggestions)
