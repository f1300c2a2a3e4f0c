"""Volumes that are claims, on a real kubelet. NFS, of which no test node is a client, is tested as documents."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clusters.engines.interface import CheckpointRef, Claim, Ensured, MountRef, TaskName, Workload
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
