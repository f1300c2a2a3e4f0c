"""The second term of a GPU pool's score is chosen by what it gets, told, and used; an operator's word wins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from rest_framework.test import APIClient

from clusters.engines.fake import Script
from clusters.models import Pool, PoolMeasure
from jobs.loading.state import load_state
from jobs.reconcile.learning import learn_pools
from jobs.tasks import learn_task
from tests.builders.quay import Quay
from tests.factories.clusters import node_facts
from tests.factories.tenants import Cast

pytestmark = pytest.mark.database

Api = Callable[..., APIClient]
ENDLESS = Script(duration_seconds=1_000_000)
PACK = {"balanced": 1, "pack": 2}  # Keeps halves of machines for tasks of four GPUs.


@pytest.fixture
def quay(cast: Cast) -> Quay:
    """Tasks of four GPUs and of one were started."""
    quay = Quay(cast, nodes=[node_facts(f"node-{number:02}", cores=64, gpus=8) for number in range(24)])
    quay.submit("four", script=ENDLESS, replicas=30, resources={"cpu": 1, "memory": "1Gi", "gpu": 4})
    quay.submit("one", script=ENDLESS, replicas=30, resources={"cpu": 4, "memory": "1Gi", "gpu": 1})
    quay.turn()
    return quay


def rules_of(quay: Quay) -> dict[str, int]:
    rules = load_state(quay.now).state.pools[0].rules
    assert rules is not None
    return dict(rules.weights)


def told(api: Api, quay: Quay) -> dict[str, Any] | None:
    found: dict[str, Any] | None = api(quay.cast.vera).get(f"/api/v1/pools/{quay.pool.pk}").json()["learned"]
    return found


def test_what_a_pool_got_of_late_chooses_its_second_term_and_the_pool_tells_by_what_result(quay: Quay, api: Api) -> None:
    assert told(api, quay) is None
    assert learn_pools(quay.now) == 1
    assert rules_of(quay) == PACK
    found = told(api, quay)
    assert found is not None
    assert (found["weights"], found["tasks"], found["machines"]) == (PACK, 60, 24)
    allocated = [trial["allocated"] for trial in found["tried"]]
    assert max(allocated) == next(trial["allocated"] for trial in found["tried"] if trial["weights"] == PACK)
    chosen_at = found["chosen_at"]
    quay.pass_time(600)
    assert learn_pools(quay.now) == 0, "the same again is no other choice"
    found = told(api, quay)
    assert found is not None
    assert (found["chosen_at"], found["learned_at"] > chosen_at) == (chosen_at, True)


def test_the_core_at_work_is_told_and_not_made_anew(quay: Quay) -> None:
    quay.submit("before", resources={"cpu": 1, "memory": "1Gi", "gpu": 1})
    quay.turn()
    core = quay.driver.kept.core
    assert core is not None
    learn_task()
    quay.submit("after", resources={"cpu": 1, "memory": "1Gi", "gpu": 1})
    quay.turn()
    assert quay.driver.kept.core is core, "it was told, not made anew"
    assert core.machines.rules[0].weights == PACK


def test_an_operators_word_wins_and_a_switch_turns_learning_off(quay: Quay, api: Api, configure: Callable[..., object]) -> None:
    learn_pools(quay.now)
    url = f"/api/v1/pools/{quay.pool.pk}"
    api(quay.cast.otto).patch(url, {"weights": {"pack": 7}}, format="json")
    assert (rules_of(quay), told(api, quay)) == ({"pack": 7}, None)
    PoolMeasure.objects.update(learned=None)
    assert learn_pools(quay.now) == 0, "nobody asks for what would not be used"
    api(quay.cast.otto).patch(url, {"weights": None}, format="json")
    assert learn_pools(quay.now) == 1
    assert rules_of(quay) == PACK
    api(quay.cast.otto).patch(url, {"policy": "pack"}, format="json")
    assert (rules_of(quay), told(api, quay)) == ({}, None)
    api(quay.cast.otto).patch(url, {"policy": None}, format="json")
    configure(scheduler_learns=False)
    assert (rules_of(quay), told(api, quay), learn_pools(quay.now)) == ({}, None, 0)


def test_the_pools_that_were_asked_for_longest_ago_come_first_and_one_with_nothing_to_go_by_keeps_none_waiting(
    quay: Quay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.reconcile.learning.POOLS_AT_ONCE", 1)
    other = Pool.objects.get(pk=quay.pool.pk)
    other.pk, other.name, other.rules = None, "other", {"policy": "fragmentation"}
    other.save(force_insert=True)
    for _ in range(2):
        learn_pools(quay.now)
        quay.pass_time(600)
    found = PoolMeasure.objects.get(pool=quay.pool).learned
    assert found is not None
    assert found["weights"] == PACK
    empty = PoolMeasure.objects.get(pool=other)
    assert (empty.learned, empty.learned_at is not None) == (None, True)
