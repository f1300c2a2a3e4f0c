"""Volumes that are claims, on a real kubelet. NFS, of which no test node is a client, is tested as documents."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clusters.engines.interface import CheckpointRef, Claim, Ensured, MountRef, StartStep, TaskName, Workload
from clusters.engines.kubernetes.storage import volume_claim
from tests.contract.engines.bench import Behaviour, Script, succeeds
from tests.engines.kubernetes.conftest import Place

pytestmark = pytest.mark.kubernetes
FIRST = TaskName("worker", 0)
SIZE = {"storage": "1Gi"}


def mounting(
    place: Place, text: str, claim: Claim, *, read_only: bool = False, checkpoint: CheckpointRef | None = None
) -> Workload:
    """A job that has the claim at /data, started."""
    plain = place.bench.workload(Behaviour(text, Script()), checkpoint=checkpoint)
    workload = replace(plain, mounts=(MountRef(uuid.uuid4(), claim, "/data", read_only=read_only),))
    assert place.engine.ensure([workload]) == [Ensured(workload.attempt_id, created=True)]
    return workload


def output_of(place: Place, workload: Workload) -> bytes:
    """What it printed, if it ended well."""
    assert [task.exit.code for task in place.bench.wait_for_end(workload.attempt_id) if task.exit] == [0]
    return place.bench.read_all(workload.attempt_id, FIRST)


def its_own(place: Place) -> uuid.UUID:
    return uuid.UUID(place.engine.config.cluster_id)


def provide(place: Place, name: str, storage_class: str = "") -> str:
    """A PersistentVolume on a directory of the node, as an operator makes it; it goes when the test is over."""
    folder = Path(place.engine.config.shared_paths[0], name)
    folder.mkdir()
    folder.chmod(0o777)
    metadata = {"name": f"{place.namespace()}-{name}", "labels": {"berth.dev/cluster": place.engine.config.cluster_id}}
    spec: dict[str, Any] = {"capacity": SIZE, "accessModes": ["ReadWriteMany"], "hostPath": {"path": str(folder)}}
    spec["storageClassName"] = storage_class
    place.cluster.create({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec})
    return str(metadata["name"])


@pytest.mark.capability(
    "44", "A job of a Kubernetes cluster reads on a claim what another wrote, and changes nothing that is read-only"
)
def test_what_one_job_writes_on_an_operators_claim_another_reads_and_cannot_change(place: Place) -> None:
    place.bench.wait_for_end(place.bench.start(succeeds()).attempt_id)  # The namespace is there.
    spec = {"accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeName": provide(place, "digits")}
    document = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": {**spec, "resources": {"requests": SIZE}}}
    place.cluster.create({**document, "metadata": {"name": "digits", "namespace": place.namespace()}})
    claim = Claim(its_own(place), "digits")
    output_of(place, mounting(place, "echo seven > /data/label", claim))
    reader = mounting(place, "cat /data/label; touch /data/more && exit 9; exit 0", claim, read_only=True)
    assert output_of(place, reader) == b"seven\n"


@pytest.mark.capability("44", "A claim and a checkpoint directory of a storage class are made once, and kept over attempts")
def test_claims_of_the_storage_class_are_made_and_kept_over_attempts(open_place: Callable[..., Place]) -> None:
    place = open_place(storage_class="by-hand", storage_bytes=1 << 30)
    for name in ("one", "two"):
        provide(place, name, "by-hand")
    claim = Claim(its_own(place), f"volume-{uuid.uuid4()}", is_made=True)
    kept = CheckpointRef(uuid.uuid4(), "/of/the/platform/alone", "ckpt")
    output_of(place, mounting(place, 'echo 7 > /data/seed; echo 8 > "$BERTH_CHECKPOINT_DIR/step"', claim, checkpoint=kept))
    later = mounting(place, 'cat /data/seed "$BERTH_CHECKPOINT_DIR/step"', claim, checkpoint=kept)
    assert output_of(place, later) == b"7\n8\n"


def test_a_claim_that_nothing_provides_ends_the_job_with_that_reason(open_place: Callable[..., Place]) -> None:
    place = open_place(storage_class="of-nobody", unschedulable_patience_seconds=1.0)
    claim = Claim(its_own(place), f"volume-{uuid.uuid4()}", is_made=True, size_bytes=1 << 30)
    workload = mounting(place, "exit 0", claim)
    (task,) = place.bench.wait_for_end(workload.attempt_id)
    assert task.exit is not None
    assert task.exit.given_up == "unschedulable"
    assert "PersistentVolumeClaims" in task.exit.evidence
    path = f"/api/v1/namespaces/{place.namespace()}/persistentvolumeclaims/{claim.name}"
    made = place.cluster.request("GET", path)
    wanted = volume_claim(claim, place.namespace(), place.engine.config)
    assert {name: made["spec"][name] for name in wanted["spec"]} == wanted["spec"]


DRIVER = "disks.berth.test"  # Of no CSI driver that runs: the scheduler asks the node's CSINode alone.
ELSEWHERE = {
    "required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["nowhere"]}]}]}
}


@pytest.fixture
def one_disk_a_node(place: Place) -> Iterator[None]:
    """The node says that it can attach one volume of the driver."""
    [node] = place.cluster.nodes
    path, merge = f"/apis/storage.k8s.io/v1/csinodes/{node.name}", "application/merge-patch+json"
    driver = {"name": DRIVER, "nodeID": node.name, "topologyKeys": [], "allocatable": {"count": 1}}
    place.cluster.request("PATCH", path, {"spec": {"drivers": [driver]}}, content_type=merge)
    yield
    place.cluster.request("PATCH", path, {"spec": {"drivers": []}}, content_type=merge)


def claim_on(place: Place, name: str, mode: str = "ReadWriteOnce", **volume: Any) -> Claim:
    """An operator's claim with its volume."""
    space = place.namespace()
    metadata = {"name": f"{space}-{name}", "labels": {"berth.dev/cluster": place.engine.config.cluster_id}}
    shape = {"accessModes": [mode], "storageClassName": ""}
    place.cluster.create(
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": {**shape, **volume, "capacity": SIZE}}
    )
    spec = {**shape, "volumeName": metadata["name"], "resources": {"requests": SIZE}}
    place.cluster.create(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": space}, "spec": spec}
    )
    return Claim(its_own(place), name)


def waits(place: Place, claims: Sequence[Claim], step: StartStep, words: str) -> None:
    """A job that has these claims waits for that, in the words of the cluster's scheduler."""
    plain = place.bench.workload(succeeds())
    mounts = tuple(MountRef(uuid.uuid4(), claim, f"/data/{claim.name}", read_only=False) for claim in claims)
    place.engine.ensure([replace(plain, mounts=mounts)])

    def is_told() -> bool:
        seen = place.bench.see(plain.attempt_id)
        told = seen.tasks[0].waiting if seen else None
        return told is not None and told.code is step and words in told.text

    place.bench.wait_until(is_told, step)


@pytest.mark.capability("89", "What the cluster's scheduler alone knows of volumes is told by a code of its own")
@pytest.mark.usefixtures("one_disk_a_node")
def test_what_a_job_waits_for_is_told_where_only_the_clusters_scheduler_knows_it(place: Place) -> None:
    place.bench.wait_for_end(place.bench.start(succeeds()).attempt_id)  # The namespace is there.
    folder = {"hostPath": {"path": place.engine.config.shared_paths[0]}}
    waits(place, [Claim(its_own(place), "absent")], StartStep.VOLUME_UNBOUND, "not found")
    waits(place, [claim_on(place, "far", **folder, nodeAffinity=ELSEWHERE)], StartStep.VOLUME_ELSEWHERE, "node affinity")
    alone = claim_on(place, "alone", "ReadWriteOncePod", **folder)
    place.bench.wait_for_output(mounting(place, "echo has it; exec sleep 600", alone).attempt_id, b"has it\n")
    waits(place, [alone], StartStep.VOLUME_IN_USE, "ReadWriteOncePod")
    disks = [claim_on(place, name, csi={"driver": DRIVER, "volumeHandle": name}) for name in ("disk-1", "disk-2")]
    waits(place, disks, StartStep.VOLUMES_ATTACHED, "max volume count")
