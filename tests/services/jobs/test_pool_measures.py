"""How pools are filled, what they usually get, and that the scheduler goes by it."""

from __future__ import annotations

import pytest

from clusters.engines.fake import Script
from clusters.models import PoolMeasure
from clusters.selectors import pools_and_nodes
from clusters.telemetry.metrics import METRICS, pool_subject, scoped
from clusters.telemetry.reading import read_many
from jobs.loading.state import load_state
from jobs.models import DecisionRecord
from jobs.scheduling.core.snapshot import build
from jobs.scheduling.questions.records import policy_version
from jobs.scheduling.replay.log import Log, log_lines, read_log
from tests.builders.quay import Quay
from tests.factories.clusters import node_facts
from tests.factories.tenants import Cast

pytestmark = pytest.mark.database
ENDLESS = Script(duration_seconds=1_000_000)


def gpus(count: float) -> dict[str, object]:
    return {"cpu": 1, "memory": "1Gi", "gpu": count}


@pytest.fixture
def quay(cast: Cast) -> Quay:
    return Quay(cast, nodes=[node_facts(name, cores=64, gpus=8) for name in ("a", "b", "c")])


@pytest.mark.capability("31", "Fragmentation follows its definition, for the mix of jobs that a pool was counted to get")
def test_a_pool_tells_what_could_start_in_it_now_and_how_fragmented_it_is_for_what_it_usually_gets(quay: Quay) -> None:
    quay.submit("wide", script=ENDLESS, resources=gpus(6))
    quay.submit("other", script=ENDLESS, resources=gpus(6))
    quay.turn(2)
    first = PoolMeasure.objects.get(pool=quay.pool)
    assert first.fragmentation_millis is None  # Nobody knew yet what it usually gets.
    assert first.idle["models"]["A100"] == {"gpus": 12, "largest_task": 8, "largest_job": 12, "machines": {"2": 2, "8": 1}}
    quay.submit("waits", resources=gpus(7), replicas=2)  # While somebody waits, there is a pass at every turn.
    quay.pass_time(10)
    quay.turn()
    # Of 12 idle ones a task of 6 finds 4 on machines where it does not fit; 2 more than it needs on the third are of use to it.
    found = PoolMeasure.objects.get(pool=quay.pool)
    assert found.mix == [[1000, 1 << 30, 6000, [], 1000]]
    assert found.fragmentation_millis == 4 * 1000 // 12
    assert found.idle["models"]["A100"]["largest_job"] == 6
    assert found.idle["cpu_millis"] == 64_000


@pytest.mark.capability("29", "Machines are chosen so that idle GPUs stay usable for what the pool usually gets")
def test_the_mix_is_in_the_rules_by_which_machines_are_chosen_and_in_the_file_of_a_state(quay: Quay) -> None:
    for _ in range(3):
        quay.submit("usual", script=Script(duration_seconds=5), resources=gpus(4))
    before = policy_version(build(load_state(quay.now).state))
    quay.turn()
    core = quay.driver.kept.core
    assert core is not None
    quay.submit("next", script=ENDLESS, resources=gpus(1))
    quay.turn()
    assert quay.driver.kept.core is core  # It was told, not made anew.
    state = load_state(quay.now).state
    (rules,) = core.machines.rules.values()
    assert rules.mix is not None
    assert repr(state.pools[0].rules) == repr(rules)
    again = read_log(log_lines(Log(state))).state
    assert again.pools[0].rules is not None
    assert repr(again.pools[0].rules.mix) == repr(rules.mix)
    assert policy_version(build(again)) == policy_version(core) != before
    record = DecisionRecord.objects.filter(kind="start").latest("id").payload
    assert record["policy"] == policy_version(core)
    assert record["scores"][0]["rows"][0]["terms"][0][0] == "fragmentation"


@pytest.mark.capability("31", "The largest job that can start now is told by GPU model, in API and metrics, with its history")
def test_the_history_of_a_pool_is_kept_with_the_telemetry(quay: Quay) -> None:
    quay.submit("wide", script=ENDLESS, resources=gpus(6))
    quay.turn()
    began = quay.now
    for _ in range(30):
        quay.pass_time(5)
        quay.turn()
    subject = scoped(quay.cluster.pk, pool_subject(quay.pool.pk))
    (series,) = read_many([subject], (METRICS["gpu_idle"],), since=began, until=quay.now, now=quay.now, points_max=100)
    assert {value for value in series.values if value is not None} == {18.0}


def test_a_pool_without_gpus_tells_its_cores_alone(cast: Cast) -> None:
    quay = Quay(cast)
    quay.submit("one", script=ENDLESS, resources={"cpu": 3, "memory": "1Gi"})
    quay.turn(2)
    found = PoolMeasure.objects.get(pool=quay.pool)
    assert (found.fragmentation_millis, found.idle) == (None, {"cpu_millis": 5_000, "models": {}})
    assert pools_and_nodes()[0][0].mix == ((3_000, 1 << 30, 0, (), 1000),)
