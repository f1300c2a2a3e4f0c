"""Work goes where its image and its data are already, as far as engines tell or as earlier work has brought them there."""

from __future__ import annotations

import math
import uuid
from dataclasses import replace
from typing import Any

import pytest

from clusters.engines.fake import Script
from clusters.engines.interface import ObservedNode
from clusters.models import Node, NodeContents
from clusters.selectors import pools_and_nodes
from clusters.services import Held, note_contents, record_inventory
from clusters.services.contents import HELD_MAX
from images.models import Image
from jobs.loading.state import load_state
from jobs.models import DecisionRecord, Job
from jobs.reconcile.driver import SchedulerDriver
from jobs.scheduling.replay.log import Log, log_lines, read_log
from tests.builders.quay import Quay
from tests.factories.clusters import node_facts
from tests.factories.images import make_image
from tests.factories.storage import make_volume
from tests.factories.tenants import Cast

pytestmark = pytest.mark.database
ENDLESS = Script(duration_seconds=1_000_000)
SMALL = {"cpu": 1, "memory": "1Gi"}
NAMES = ("a", "b", "c")


def facts(name: str, **given: Any) -> ObservedNode:
    return replace(node_facts(name, labels={"rack": name}), **given)


@pytest.fixture
def quay(cast: Cast) -> Quay:
    return Quay(cast, nodes=[facts(name) for name in NAMES])


def where(quay: Quay, job: Job) -> str:
    (task,) = quay.tasks(job)
    return task.node_name


def terms(job: Job, role: str = "worker") -> dict[str, dict[str, int]]:
    """By machine, the values of the terms of the table that was kept."""
    payload = DecisionRecord.objects.filter(job_id=job.id, kind__in=["start", "wait_turned_start"]).latest("id").payload
    (table,) = [score["rows"] for score in payload["scores"] if score["role"] == role]
    return {row["machine"]: {name: value for name, value, _ in row["terms"]} for row in table}


@pytest.mark.capability("91", "A machine where a volume was mounted before is preferred, and the table of scores says so")
def test_work_goes_where_earlier_work_has_brought_its_data_and_the_table_says_so(quay: Quay) -> None:
    volume = make_volume(quay.cast.tenant, "digits")
    reads = {"resources": SMALL, "mounts": [{"volume": "digits", "path": "/data"}]}
    first = quay.submit("first", script=Script(duration_seconds=5), placement={"labels": {"rack": "c"}}, **reads)
    quay.turn(2)
    assert where(quay, first) == "c"
    quay.pass_time(10)
    quay.turn(3)
    assert quay.state(first) == "succeeded"
    near, apart = quay.submit("near", script=ENDLESS, **reads), quay.submit("apart", script=ENDLESS, resources=SMALL)
    quay.turn(2)
    assert (where(quay, near), where(quay, apart)) == ("c", "a")
    found = terms(near)
    assert found["c"]["data"] == 10_000
    assert {values["data"] for name, values in found.items() if name != "c"} <= {0}
    assert "data" not in terms(apart)["a"]
    assert NodeContents.objects.get(node__name="c").data == [str(volume.id)]


@pytest.mark.capability("90", "A machine that has the image already is preferred")
def test_work_goes_where_an_engine_says_that_its_image_is(quay: Quay) -> None:
    image = make_image(quay.cast.tenant, "env")
    Image.objects.filter(id=image.id).update(state="ready", location="/images/env", digest="sha256:" + "7" * 64)
    waits = quay.submit("waits", script=ENDLESS, image="env", resources=SMALL, hold=True)
    quay.turn()
    told = [facts(name, images=frozenset({"sha256:" + "7" * 64}) if name == "b" else frozenset()) for name in NAMES]
    record_inventory(quay.cluster.pk, replace(quay.engine.inventory(), nodes=tuple(told)), quay.now)
    quay.turn()
    Job.objects.filter(id=waits.id).update(hold=False)
    job = quay.submit("train", script=ENDLESS, image="env", resources=SMALL)
    quay.turn()
    assert where(quay, job) == "b"
    assert terms(job)["b"]["image"] == 10_000
    # It is an authority: what it does not list any more is not there.
    record_inventory(
        quay.cluster.pk, replace(quay.engine.inventory(), nodes=tuple(facts(n, images=frozenset()) for n in NAMES)), quay.now
    )
    assert not any(node.images for node in pools_and_nodes()[1])


@pytest.mark.capability(
    "91", "What a machine is known to hold is bounded, and the same for a scheduler that follows, one that loads, and a file"
)
def test_a_scheduler_that_follows_and_one_that_loads_all_and_a_file_know_the_same_contents(quay: Quay) -> None:
    make_volume(quay.cast.tenant, "digits")
    reads = {"mounts": [{"volume": "digits", "path": "/data"}], "placement": {"labels": {"rack": "b"}}}
    quay.submit("first", script=ENDLESS, resources=SMALL, **reads)
    waits = quay.submit("waits", resources={"cpu": 8, "memory": "1Gi"}, **reads)
    quay.turn(3)
    loaded = load_state(quay.now).state
    (asked,) = [job for job in loaded.waiting if job.id == str(waits.id)]
    quay.driver.changes.full_load_at = -math.inf  # The next look reads everything again.
    quay.turn()
    (kept,) = quay.driver.kept.waiting.values()
    assert asked.gang == kept.gang
    assert len(asked.gang.roles[0].data) == 1
    core = quay.driver.kept.core
    assert core is not None
    assert tuple(core.machines.at) == loaded.machines
    assert [machine.name for machine in loaded.machines if machine.data] == ["b"]
    assert read_log(log_lines(Log(loaded))).state.machines == loaded.machines


@pytest.mark.capability(
    "91", "What a machine is known to hold is bounded, and the same for a scheduler that follows, one that loads, and a file"
)
def test_what_a_node_is_known_to_hold_is_bounded_and_the_oldest_goes_first(quay: Quay) -> None:
    ids = [str(uuid.UUID(int=number)) for number in range(HELD_MAX + 2)]
    for dataset in ids:
        note_contents(quay.cluster.pk, [Held("a", data=frozenset({dataset})), Held("nowhere", data=frozenset({dataset}))])
    assert NodeContents.objects.get().data == ids[2:]
    note_contents(quay.cluster.pk, [Held("a", data=frozenset({ids[-1]}), images=frozenset({"sha256:1"}))])
    _, nodes = pools_and_nodes()
    assert {node.name: (len(node.data), sorted(node.images)) for node in nodes} == {
        "a": (HELD_MAX, ["sha256:1"]),
        "b": (0, []),
        "c": (0, []),
    }


def test_new_contents_wake_nobody_and_change_where_the_next_goes(quay: Quay) -> None:
    make_volume(quay.cast.tenant, "digits")
    quay.turn()
    larger = node_facts("larger", cores=16)
    record_inventory(quay.cluster.pk, replace(quay.engine.inventory(), nodes=(*quay.nodes, larger)), quay.now)
    blocked = quay.submit("blocked", resources={"cpu": 9, "memory": "1Gi"})
    Node.objects.filter(name="larger").delete()
    quay.driver.forget()
    quay.turn()
    core = quay.driver.kept.core
    assert core is not None
    quay.submit(
        "first", script=ENDLESS, resources=SMALL, placement={"labels": {"rack": "c"}}, mounts=[{"volume": "digits", "path": "/d"}]
    )
    quay.turn(3)
    second = quay.submit("second", script=ENDLESS, resources=SMALL, mounts=[{"volume": "digits", "path": "/d"}])
    quay.turn()
    assert quay.driver.kept.core is core
    assert where(quay, second) == "c"
    assert quay.state(blocked) == "queued"
    fresh = SchedulerDriver()
    fresh.run(now=quay.now)
    assert fresh.kept.held == quay.driver.kept.held != frozenset()


def test_a_full_load_between_two_looks_loses_nothing_of_what_is_preferred(quay: Quay) -> None:
    make_volume(quay.cast.tenant, "digits")
    reads = {"mounts": [{"volume": "digits", "path": "/data"}], "placement": {"labels": {"rack": "b"}}}
    quay.submit("first", script=ENDLESS, resources=SMALL, **reads)
    quay.submit("waits", resources={"cpu": 8, "memory": "1Gi"}, **reads)
    for _ in range(4):
        quay.driver.changes.full_load_at = -math.inf
        quay.turn()
    (kept,) = quay.driver.kept.waiting.values()
    assert len(kept.gang.roles[0].data) == 1
