"""What users and operators say of placement reaches the machines that jobs go to."""

from __future__ import annotations

import pytest

from clusters.engines.fake import Script
from clusters.engines.interface import NodeFacts
from jobs.lifecycle.reasons import explain
from jobs.models import Job
from tests.builders.quay import Quay
from tests.factories.clusters import node_facts
from tests.factories.tenants import Cast

pytestmark = pytest.mark.database

ENDLESS = Script(duration_seconds=1_000_000)
HALF = {"cpu": 4, "memory": "1Gi"}
WHOLE = {"cpu": 8, "memory": "1Gi"}


def rack(name: str, rack: str, **labels: str) -> NodeFacts:
    return node_facts(name, cores=8, labels={"rack": rack, **labels})


def nodes_of(quay: Quay, job: Job) -> list[str]:
    return sorted(task.node_name for task in quay.tasks(job))


def words(quay: Quay, job: Job, language: str = "en") -> str:
    found = Job.objects.get(id=job.id)
    told = explain(found.reason_code, found.reason_detail, language)
    return f"{told.text} {told.hint}"


@pytest.fixture
def racks(cast: Cast) -> Quay:
    """Two machines in each of two racks; one of them is of an older make."""
    return Quay(cast, nodes=[rack("a-1", "a"), rack("a-2", "a", make="old"), rack("b-1", "b"), rack("b-2", "b")])


@pytest.mark.parametrize(
    ("together", "expected"),
    [("pack", ["a-1", "a-1"]), ("spread", ["a-1", "b-1"]), ("rack", ["a-1", "a-1"])],
)
def test_tasks_go_as_near_or_apart_as_the_job_says(racks: Quay, together: str, expected: list[str]) -> None:
    job = racks.submit("train", script=ENDLESS, replicas=2, resources=HALF, placement={"together": together})
    racks.turn()
    assert nodes_of(racks, job) == expected


def test_a_gang_that_insists_on_one_rack_waits_until_one_has_room_for_all(racks: Quay) -> None:
    first = racks.submit("one", script=Script(duration_seconds=5), resources=WHOLE, placement={"labels": {"rack": "a"}})
    second = racks.submit("two", script=ENDLESS, resources=WHOLE, placement={"labels": {"rack": ["b", "c"]}})
    racks.turn()
    gang = racks.submit("gang", script=ENDLESS, replicas=2, resources=WHOLE, placement={"together": "rack"})
    racks.turn()
    assert (nodes_of(racks, first)[0][0], nodes_of(racks, second)[0][0]) == ("a", "b")
    assert racks.reason(gang) == "not_together"
    racks.pass_time(10)
    racks.turn(3)
    assert nodes_of(racks, gang) == ["a-1", "a-2"]


def test_a_gang_that_no_rack_could_ever_hold_says_so(racks: Quay) -> None:
    job = racks.submit("gang", replicas=3, resources=WHOLE, placement={"together": "rack"})
    racks.turn()
    assert racks.reason(job) == "no_place"
    assert "no rack of pool" in words(racks, job)
    assert "placement.together" in words(racks, job, "zh")


def test_a_job_goes_only_to_machines_with_the_labels_that_it_asks_for(racks: Quay) -> None:
    job = racks.submit("train", script=ENDLESS, resources=WHOLE, placement={"labels": {"make": ["old", "older"]}})
    second = racks.submit("second", script=ENDLESS, resources=HALF, placement={"labels": {"make": "old"}})
    racks.turn()
    assert nodes_of(racks, job) == ["a-2"]
    assert racks.reason(second) == "no_room"
    assert "3 of its machines lack a label that it asks for." in words(racks, second)
    assert "3 个节点缺少所要求的标签" in words(racks, second, "zh")


def test_a_job_that_asks_for_a_label_that_no_machine_has_says_so(racks: Quay) -> None:
    job = racks.submit("train", placement={"labels": {"make": "new"}})
    racks.turn()
    assert racks.reason(job) == "label"
    assert "make=new" in words(racks, job)
    assert "make=new" in words(racks, job, "zh")


def test_jobs_that_differ_in_their_placement_alone_are_told_apart(racks: Quay) -> None:
    jobs = [racks.submit(f"to-{name}", script=ENDLESS, placement={"labels": {"rack": name}}) for name in ("b", "a", "b")]
    racks.turn()
    assert [nodes_of(racks, job)[0][0] for job in jobs] == ["b", "a", "b"]
