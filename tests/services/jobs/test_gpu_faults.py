"""A GPU that is out of order: its node is cordoned with the evidence, its job is tried again at the platform's expense."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from activity.models import AuditEvent, Delivery, Event
from activity.notifications import fan_out
from activity.sequencer import sequence
from clusters.engines.fake import Script
from clusters.engines.interface import GpuFault, GpuFaultKind
from clusters.models import Node
from clusters.services import cordon_node, uncordon_node
from clusters.services.gpu_faults import record_gpu_faults
from clusters.services.maintenance import ACTOR as MAINTENANCE
from clusters.telemetry.prometheus import cluster_families
from jobs.models import Job, Task
from jobs.services.gpu_faults import look
from tests.builders.quay import Quay
from tests.factories.clusters import node_facts
from tests.factories.tenants import Cast

pytestmark = pytest.mark.database

ENDLESS = Script(duration_seconds=1_000_000)
BAD = "GPU-node-1-0"


@pytest.fixture
def quay(cast: Cast) -> Quay:
    """Two machines of 2 GPUs."""
    return Quay(cast, nodes=[node_facts(name, gpus=2) for name in ("node-1", "node-2")])


def fault(quay: Quay, kind: GpuFaultKind = GpuFaultKind.XID, number: int = 79, *, after: float = 0.0) -> GpuFault:
    return GpuFault("node-1", BAD, kind, number, quay.now + timedelta(seconds=after))


def node(name: str = "node-1") -> Node:
    return Node.objects.get(name=name)


def running_on_bad_gpu(quay: Quay) -> Job:
    """A job of two tasks that hold all GPUs of both machines."""
    resources = {"gpu": 2, "memory": "1Gi"}
    job = quay.submit("train", script=ENDLESS, replicas=2, resources=resources)
    quay.turn(2)
    assert quay.state(job) == "running"
    Task.objects.filter(job_id=job.id, node_name="node-1").update(gpus=[BAD, "GPU-node-1-1"])
    return job


@pytest.mark.capability("57", "Signs of ill health cordon a node by themselves, with the evidence")
@pytest.mark.capability("59", "A fault of the hardware cordons the node, with its evidence; an error of a program does not")
@pytest.mark.parametrize("code", [48, 64, 74, 79, 95, 119, 120, 140])
def test_an_xid_of_broken_hardware_cordons_the_node_with_its_evidence(quay: Quay, code: int) -> None:
    assert record_gpu_faults(quay.cluster.pk, [fault(quay, number=code)], quay.now) == 1
    assert node().cordoned
    assert f"{BAD}: Xid {code}, " in node().cordon_reason
    assert node().cordoned_by == "system:gpu-health"
    assert not node("node-2").cordoned
    told = AuditEvent.objects.get(verb="node.cordon")
    assert told.after is not None
    assert told.after["evidence"][0]["number"] == code
    assert set(Event.objects.filter(subject_id=node().pk).values_list("kind", flat=True)) >= {"node.gpu_fault", "node.cordoned"}


@pytest.mark.capability("59", "A fault of the hardware cordons the node, with its evidence; an error of a program does not")
@pytest.mark.parametrize("code", [13, 31, 43, 63, 92, 94, 999])
def test_an_xid_of_one_program_or_of_a_corrected_error_cordons_nothing(quay: Quay, code: int) -> None:
    assert record_gpu_faults(quay.cluster.pk, [fault(quay, number=code)], quay.now) == 0
    assert not node().cordoned
    assert node().gpu_faults == []


def test_the_same_evidence_again_changes_nothing(quay: Quay) -> None:
    record_gpu_faults(quay.cluster.pk, [fault(quay)], quay.now)
    before = Node.objects.values().get(name="node-1")
    assert record_gpu_faults(quay.cluster.pk, [fault(quay)], quay.now + timedelta(seconds=60)) == 0
    assert Node.objects.values().get(name="node-1") == before
    assert AuditEvent.objects.filter(verb="node.cordon").count() == 1


def test_an_operator_who_returns_the_node_resolves_it_until_there_is_new_evidence(quay: Quay) -> None:
    record_gpu_faults(quay.cluster.pk, [fault(quay), fault(quay, GpuFaultKind.ECC, 3)], quay.now)
    uncordon_node(actor=quay.cast.alice.actor, node_id=node().pk, now=quay.now)
    assert not node().cordoned
    assert {entry["resolved_by"] for entry in node().gpu_faults} == {quay.cast.alice.actor.name}
    assert record_gpu_faults(quay.cluster.pk, [fault(quay), fault(quay, GpuFaultKind.ECC, 3)], quay.now) == 0
    assert record_gpu_faults(quay.cluster.pk, [fault(quay, GpuFaultKind.ECC, 4)], quay.now) == 1
    uncordon_node(actor=quay.cast.alice.actor, node_id=node().pk, now=quay.now)
    assert record_gpu_faults(quay.cluster.pk, [fault(quay, after=60)], quay.now) == 1, "the same Xid, reported again"


@pytest.mark.capability("59", "A job on a broken device goes on elsewhere, and the platform pays")
def test_a_job_on_the_device_is_tried_again_elsewhere_and_pays_nothing_for_it(quay: Quay) -> None:
    job = running_on_bad_gpu(quay)
    record_gpu_faults(quay.cluster.pk, [fault(quay)], quay.now)
    assert look(quay.now) == 1
    assert look(quay.now) == 0, "it was told to go"
    assert quay.reason(job) == "gpu_fault_stop"
    quay.turn(2)
    quay.pass_time(60)
    quay.turn()
    [first] = quay.attempts(job)
    assert first.exit is not None
    assert (first.exit["class"], first.exit["failure_class"], first.exit["who_pays"]) == ("gpu_fault", "platform", "platform")
    assert quay.state(job) == "queued", "half of what it needs is cordoned"
    uncordon_node(actor=quay.cast.alice.actor, node_id=node().pk, now=quay.now)
    quay.pass_time(600)
    quay.turn(3)
    assert len(quay.attempts(job)) == 2


def test_a_job_on_another_device_of_the_node_stays(quay: Quay) -> None:
    job = running_on_bad_gpu(quay)
    Task.objects.filter(job_id=job.id).update(gpus=["GPU-node-1-1"])
    record_gpu_faults(quay.cluster.pk, [fault(quay)], quay.now)
    assert look(quay.now) == 0
    assert quay.state(job) == "running"


@pytest.mark.parametrize("kind", [GpuFaultKind.THROTTLE, GpuFaultKind.REMAP])
def test_a_device_that_is_slow_gets_nothing_new_and_what_runs_there_ends_in_peace(quay: Quay, kind: GpuFaultKind) -> None:
    running_on_bad_gpu(quay)
    record_gpu_faults(quay.cluster.pk, [fault(quay, kind, 0)], quay.now)
    assert node().cordoned
    assert look(quay.now) == 0


def test_the_end_of_a_maintenance_window_does_not_return_a_node_with_a_broken_device(quay: Quay) -> None:
    cordon_node(actor=MAINTENANCE, node_id=node().pk, reason="Maintenance", now=quay.now)
    record_gpu_faults(quay.cluster.pk, [fault(quay)], quay.now)
    assert node().cordoned_by == "system:gpu-health"
    assert "Xid 79" in node().cordon_reason


def test_a_persons_cordon_stays_theirs(quay: Quay) -> None:
    cordon_node(actor=quay.cast.alice.actor, node_id=node().pk, reason="Looking at it.", now=quay.now)
    record_gpu_faults(quay.cluster.pk, [fault(quay)], quay.now)
    assert (node().cordon_reason, len(node().gpu_faults)) == ("Looking at it.", 1)


def test_the_api_shows_the_device_as_not_healthy_with_the_evidence(quay: Quay, api: Callable[..., Any]) -> None:
    record_gpu_faults(quay.cluster.pk, [fault(quay)], quay.now)
    shown = api(quay.cast.alice).get(f"/api/v1/nodes/{node().pk}").json()
    assert [gpu["healthy"] for gpu in shown["gpus"]] == [False, True]
    [told] = shown["gpus"][0]["faults"]
    assert (told["kind"], told["number"], told["text"]) == ("xid", 79, f"{BAD}: Xid 79, it has fallen off the bus")


def test_a_reader_of_chinese_is_told_the_evidence_in_chinese(quay: Quay, api: Callable[..., Any]) -> None:
    record_gpu_faults(quay.cluster.pk, [fault(quay)], quay.now)
    for address in (f"/api/v1/nodes/{node().pk}", "/api/v1/nodes"):
        answer = api(quay.cast.alice).get(address, HTTP_ACCEPT_LANGUAGE="zh").json()
        gpu = answer.get("items", [answer])[0]["gpus"][0]
        assert [told["text"] for told in gpu["faults"]] == [f"{BAD}: Xid 79，设备已从总线脱落"]


def test_operators_who_asked_are_told_once_and_members_are_not(quay: Quay, api: Callable[..., Any]) -> None:
    for person in (quay.cast.otto, quay.cast.alice):
        answer = api(person).post("/api/v1/subscriptions", {"channel": "mail", "kinds": ["capacity"]}, format="json")
        assert answer.status_code == 201, answer.content
    for seconds in (0, 60):
        record_gpu_faults(quay.cluster.pk, [fault(quay)], quay.now + timedelta(seconds=seconds))
    sequence(quay.now)
    fan_out(quay.now)
    [delivery] = Delivery.objects.all()
    assert delivery.user_id == quay.cast.otto.user.pk
    notice = delivery.payload["notice"]
    assert notice["title"] == "GPU out of order on node node-1: it is cordoned"
    assert f"{BAD}: Xid 79, it has fallen off the bus" in notice["text"]
    assert notice["command"] == "berth nodes show node-1"


def test_prometheus_counts_faults_until_the_node_is_returned(quay: Quay) -> None:
    def counted() -> dict[str, float]:
        families = {family.name: family for family in cluster_families(quay.now)}
        return {sample.labels["kind"]: sample.value for sample in families["berth_gpu_faults"].samples}

    assert set(counted().values()) == {0}
    record_gpu_faults(quay.cluster.pk, [fault(quay), fault(quay, GpuFaultKind.ECC, 3)], quay.now)
    assert counted() == {"xid": 1, "ecc": 1, "remap": 0, "throttle": 0, "lost": 0}
    uncordon_node(actor=quay.cast.otto.actor, node_id=node().pk, now=quay.now)
    assert set(counted().values()) == {0}
