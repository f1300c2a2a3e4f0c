"""Volumes that are claims, on a real kubelet. NFS, of which no test node is a client, is tested as documents."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from clusters.engines.interface import Claim, Ensured, MountRef, TaskName, Workload
from clusters.engines.kubernetes.storage import volume_claim
from tests.contract.engines.bench import Behaviour, Script, succeeds
from tests.engines.kubernetes.conftest import Place

pytestmark = pytest.mark.kubernetes
FIRST = TaskName("worker", 0)


def mounting(place: Place, text: str, claim: Claim, *, read_only: bool = False) -> Workload:
    """A job that has the claim at /data, started."""
    plain = place.bench.workload(Behaviour(text, Script()))
    workload = replace(plain, mounts=(MountRef(uuid.uuid4(), claim, "/data", read_only=read_only),))
    assert place.engine.ensure([workload]) == [Ensured(workload.attempt_id, created=True)]
    return workload


def its_own(place: Place) -> uuid.UUID:
    return uuid.UUID(place.engine.config.cluster_id)


def test_what_one_job_writes_on_an_operators_claim_another_reads_and_cannot_change(place: Place) -> None:
    place.bench.wait_for_end(place.bench.start(succeeds()).attempt_id)  # The namespace is there.
    folder = Path(place.engine.config.shared_paths[0], "of-the-operator")
    folder.mkdir()
    folder.chmod(0o777)
    spec = {"accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeName": f"{place.namespace()}-digits"}
    size = {"storage": "1Gi"}
    labels = {"berth.dev/cluster": place.engine.config.cluster_id}  # So that it goes when the test is over.
    disk = {"capacity": size, "accessModes": ["ReadWriteMany"], "storageClassName": "", "hostPath": {"path": str(folder)}}
    metadata = {"name": f"{place.namespace()}-digits", "labels": labels}
    place.cluster.create({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": disk})
    metadata = {"name": "digits", "namespace": place.namespace()}
    document = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}
    place.cluster.create({**document, "spec": {**spec, "resources": {"requests": size}}})
    claim = Claim(its_own(place), "digits")
    writer = mounting(place, "echo seven > /data/label", claim)
    assert [task.exit.code for task in place.bench.wait_for_end(writer.attempt_id) if task.exit] == [0]
    reader = mounting(place, "cat /data/label; touch /data/more && exit 9; exit 0", claim, read_only=True)
    assert [task.exit.code for task in place.bench.wait_for_end(reader.attempt_id) if task.exit] == [0]
    assert place.bench.read_all(reader.attempt_id, FIRST) == b"seven\n"


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
