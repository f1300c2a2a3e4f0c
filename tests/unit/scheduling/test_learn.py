"""The second term of the score is chosen by what a pool gets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jobs.scheduling.core.place.machines import Machine, TaskAsk
from jobs.scheduling.core.place.scores import PoolRules
from jobs.scheduling.questions import learn as learning
from jobs.scheduling.questions.learn import CANDIDATES, Learned, learn

GIB = 1 << 30
BALANCED, PACK, RATIO, NONE = CANDIDATES
RULES = PoolRules("fragmentation", shares=True)


def a_pool(machines: int = 12, gpus: int = 8) -> list[Machine]:
    return [Machine(f"n{number:04}", 0, 64_000, 256 * GIB, gpus, "A100") for number in range(machines)]


def task(cores: int, gpu_millis: int) -> TaskAsk:
    return TaskAsk(cores * 1000, 4 * GIB, gpu_millis)


def mixed(*parts: tuple[TaskAsk, int]) -> list[TaskAsk]:
    """So many of each, spread evenly."""
    total = sum(often for _, often in parts)
    given = [(((2 * at + 1) * total) // often, number) for number, (_, often) in enumerate(parts) for at in range(often)]
    return [parts[number][0] for _, number in sorted(given)]


HALVES = mixed((task(1, 500), 100), (task(1, 4000), 140), (task(1, 2000), 20))  # Whole machines matter, and cores do not.
CORES = mixed((task(16, 1000), 160), (task(1, 1000), 160))  # Some tasks take the cores that other GPUs need.
SHORT = mixed((task(16, 1000), 200), (task(1, 2000), 120), (task(1, 0), 20))  # Cores run out before GPUs do.


def chosen(machines: list[Machine], recent: list[TaskAsk], rules: PoolRules = RULES) -> Learned:
    found = learn(machines, rules, recent, seed=0)
    assert found is not None
    return found


def test_machines_are_packed_where_wide_tasks_need_them_whole() -> None:
    found = chosen(a_pool(), HALVES)
    assert found.weights == PACK
    by = {tuple(trial.weights.items()): trial.mean for trial in found.tried}
    assert by[tuple(PACK.items())] > by[tuple(BALANCED.items())] + 100


def test_machines_are_filled_evenly_where_some_tasks_take_the_cores_that_other_gpus_need() -> None:
    found = chosen(a_pool(), CORES, replace(RULES, weights=PACK))
    assert found.weights == BALANCED
    assert found.tried[0].mean > found.tried[1].mean + 100
    assert chosen(a_pool(), SHORT, replace(RULES, weights=PACK)).weights == RATIO


@pytest.mark.parametrize("present", CANDIDATES)
def test_what_makes_no_difference_changes_nothing(present: learning.Weights) -> None:
    found = chosen(a_pool(), mixed((task(1, 1000), 60)), replace(RULES, weights=present))
    assert found.weights == present
    assert len({trial.allocated for trial in found.tried}) == 1


def test_a_small_or_uncertain_difference_keeps_what_is() -> None:
    present = learning.Tried(BALANCED, (9000, 9000, 9000, 9000))

    def other(*allocated: int) -> bool:
        return learning._is_better(learning.Tried(PACK, allocated), present)

    assert other(9030, 9031, 9029, 9030)
    assert not other(9010, 9010, 9010, 9010)  # For sure, but less than is worth a change.
    assert not other(9400, 8900, 9000, 9300)  # More, but one order says otherwise than another.
    assert not other(9000, 9000, 9000, 9000)


def test_once_chosen_it_stays_chosen() -> None:
    for recent in (HALVES, CORES, SHORT):
        first = chosen(a_pool(), recent)
        assert chosen(a_pool(), recent, replace(RULES, weights=first.weights)).weights == first.weights


def test_the_same_input_in_any_order_of_machines_gives_the_same_table_and_another_seed_other_orders() -> None:
    first = chosen(a_pool(), SHORT)
    assert chosen(a_pool()[::-1], SHORT) == first
    other = learn(a_pool(), RULES, SHORT, seed=1)
    assert other is not None
    assert other.tried != first.tried
    assert other.tried[0].allocated[0] == first.tried[0].allocated[0]  # The first order is that in which they came.


def test_the_other_terms_stay_as_they_are() -> None:
    rules = replace(RULES, weights={"image": 50, **PACK})
    assert learning._with_second_term(rules.weights, RATIO) == {"image": 50, **RATIO}


def test_without_enough_to_go_by_nothing_is_chosen() -> None:
    few = [task(1, 1000)] * (learning.RECENT_LEAST - 1)
    assert learn(a_pool(), RULES, few + [task(1, 0)] * 1000, seed=0) is None
    assert learn(a_pool(gpus=0), RULES, CORES, seed=0) is None
    assert learn([replace(machine, blocked="cordoned") for machine in a_pool()], RULES, CORES, seed=0) is None
    assert learn(a_pool(), PoolRules("pack"), CORES, seed=0) is None


@pytest.mark.parametrize(
    ("machines", "recent"),
    [
        (4000, CORES),
        (4000, mixed((task(1, 50), 400), (task(1, 8000), 1))),  # So small that no order fills a large pool.
        (2, CORES),
        (300, mixed((task(1, 0), 6000), (task(1, 1000), 60))),
    ],
)
def test_the_cost_is_bounded_however_large_the_pool_and_however_small_the_tasks(
    machines: int, recent: list[TaskAsk], monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks: list[int] = []

    def counting(chosen: object, rules: object, order: list[TaskAsk]) -> int:
        tasks.append(len(order))
        return 0

    monkeypatch.setattr(learning, "_filled", counting)
    found = chosen(a_pool(machines), recent)
    assert found.weights == BALANCED
    assert found.machines <= machines
    assert max(tasks) <= learning.ORDER_MAX
    assert sum(tasks) <= len(CANDIDATES) * (learning.DECISIONS_MAX + learning.ORDER_MAX)
    assert all(learning.ORDERS_LEAST <= len(trial.allocated) <= learning.ORDERS_MAX for trial in found.tried)


def test_of_a_large_pool_every_kind_takes_part() -> None:
    large = a_pool(2000) + [replace(machine, name=f"old-{machine.name}", model="V100") for machine in a_pool(3)]
    sample = learning._sample(large, 500 * 1000)
    assert {machine.model for machine in sample} == {"A100", "V100"}
    assert sum(machine.gpus for machine in sample) <= 600
    assert learning._sample(large[::-1], 500 * 1000) == sample
