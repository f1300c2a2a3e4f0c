"""Namespaces as documents, and the cluster's configuration, rights and inventory by plain values."""

from __future__ import annotations

import base64
import json
import uuid
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from clusters.engines.interface import (
    CheckpointRef,
    Claim,
    CodeRef,
    HostDir,
    ImageKind,
    ImageRef,
    MountRef,
    Places,
    PullAccount,
    Share,
    TaskName,
)
from clusters.engines.kubernetes import manifests, storage, tenancy
from clusters.engines.kubernetes.api import Conflict
from clusters.engines.kubernetes.config import ConfigInvalid, read_config
from clusters.engines.kubernetes.inventory import quantity_millis, read_inventory, requests_of
from clusters.engines.kubernetes.metrics import read_summary
from clusters.engines.kubernetes.names import is_dns_label
from clusters.engines.kubernetes.permissions import needed
from clusters.engines.kubernetes.record import Gate, GateUnreadable, StopRecord, gate_document, read_gate, with_stop
from clusters.engines.kubernetes.starting import refuse
from clusters.placement import GPU_CUDA, GPU_DRIVER
from kernel.resources import Resources
from tests.unit.engines_kubernetes import samples
from tests.unit.engines_kubernetes.samples import ATTEMPT, CLUSTER, CONFIG, JOB
from tests.unit.engines_kubernetes.test_api import Answer, Server, status
from tests.unit.engines_kubernetes.test_states import stopped

OURS = uuid.UUID(CLUSTER)
OWNED = {"app.kubernetes.io/managed-by": "berth", "berth.dev/cluster": CLUSTER}


# --- Namespaces ---------------------------------------------------------------------------------------------------------


def test_a_tenants_namespace_is_restricted_and_refuses_traffic() -> None:
    config = replace(CONFIG, egress=("0.0.0.0/0",), tenant_quota={"pods": "50"})
    first, account, quota, deny, dns, outside = tenancy.tenant_documents("berth-t-blue", "blue", config)
    modes = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")}
    assert first == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "berth-t-blue", "labels": {**OWNED, **modes, "berth.dev/tenant": "blue"}},
    }
    assert account["automountServiceAccountToken"] is False
    assert quota["spec"] == {"hard": {"pods": "50"}}
    assert deny["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    assert dns["spec"]["policyTypes"] == ["Egress"]
    assert outside["spec"] == {
        "podSelector": {"matchLabels": {"berth.dev/network": "open"}},
        "policyTypes": ["Egress"],
        "egress": [{"to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["169.254.0.0/16"]}}]}],
    }
    assert tenancy.path_of(deny) == "/apis/networking.k8s.io/v1/namespaces/berth-t-blue/networkpolicies/berth-deny"


def test_a_namespace_of_somebody_else_is_refused_and_one_that_goes_is_waited_for() -> None:
    foreign = Answer(200, {"metadata": {"labels": {}}})
    with pytest.raises(tenancy.NamespaceForeign):
        tenancy.Tenancy(Server(foreign).api(), CONFIG).tenant("blue")
    going = Answer(200, {"metadata": {"labels": OWNED, "deletionTimestamp": "2026-01-01T00:00:00Z"}})
    with pytest.raises(tenancy.NamespaceNotReady):
        tenancy.Tenancy(Server(going).api(), CONFIG).tenant("blue")


def test_a_namespace_is_seen_to_once_in_a_while() -> None:
    server = Server(status(404, "NotFound"), *[Answer(200, {})] * 5)
    spaces = tenancy.Tenancy(server.api(), CONFIG)
    assert [spaces.tenant("blue") for _ in range(3)] == ["berth-t-blue"] * 3
    assert len(server.asked) == 6
    spaces.forget("berth-t-blue")
    server.answers = [status(409, "Conflict")]
    with pytest.raises(Conflict):
        spaces.tenant("blue")


def test_an_account_at_a_registry_is_a_pull_secret_of_its_attempt() -> None:
    account = PullAccount("registry.example.org", "robot", "canary-password")
    asked = samples.workload(image=ImageRef(ImageKind.REGISTRY, "", "registry.example.org/a:1", account, unchecked=True))
    plan = samples.plan(asked)
    document = manifests.account(plan, CONFIG)
    assert document is not None
    assert (document["type"], document["metadata"]["labels"]["berth.dev/attempt"]) == (
        "kubernetes.io/dockerconfigjson",
        str(ATTEMPT),
    )
    content = json.loads(base64.b64decode(document["data"][".dockerconfigjson"]))
    assert content["auths"]["registry.example.org"]["password"] == "canary-password"
    assert manifests.account(samples.plan(samples.workload()), CONFIG) is None
    spec = manifests.pod(plan, 0, CONFIG)["spec"]
    assert spec["imagePullSecrets"] == [{"name": document["metadata"]["name"]}]
    assert spec["containers"][0]["imagePullPolicy"] == "Always"
    assert "canary" not in repr(asked) + json.dumps(spec)


# --- Configuration ------------------------------------------------------------------------------------------------------


def test_all_mistakes_of_a_configuration_are_told_at_once() -> None:
    document = {
        "pool": "x",
        "namespace_prefix": "Not A Label",
        "ports": [5, 4],
        "shared_paths": ["relative"],
        "nfs_servers": ["nfs.example:/exports"],
        "requests_per_second": -1,
        "pod_addresses": "yes",
        "cpu_request_percent": 200,
        "node_selector": {"a": 1},
    }
    with pytest.raises(ConfigInvalid) as caught:
        read_config(CLUSTER, document)
    assert {problem.split(":")[0] for problem in caught.value.problems} == set(document)


def test_a_configuration_is_read_with_the_installations_defaults() -> None:
    config = read_config(CLUSTER, {"ports": [20000, 20100], "requests_per_second": 10}, uid_base=5, log_quota_bytes=7)
    assert (config.ports, config.requests_per_second, config.uid_base, config.log_quota_bytes) == ((20_000, 20_100), 10, 5, 7)
    assert "kubeconfig" not in repr(config)


def test_rights_follow_the_configuration() -> None:
    def kinds(**changes: Any) -> set[str]:
        return {item.resource for item in needed(replace(CONFIG, **changes))}

    assert "services" not in kinds()
    assert "services" in kinds(pod_addresses=False)
    assert {"persistentvolumes", "persistentvolumeclaims"} <= kinds(shared_paths=("/srv",))
    assert {"persistentvolumes", "persistentvolumeclaims"} <= kinds(nfs_servers=("nfs.example",))
    assert "persistentvolumes" not in kinds(storage_class="fast")
    assert "nodes/proxy" in kinds(kubelet_summary=True)


# --- Gates --------------------------------------------------------------------------------------------------------------


def test_a_gate_is_read_as_it_was_written() -> None:
    gate = samples.gate(
        samples.workload(2), stop=stopped(), verdicts={TaskName("worker", 1): "image_absent: x"}, hosts=("a", "b")
    )
    document = gate_document(gate, cluster_id=CLUSTER, namespace="c")
    assert read_gate(document, cluster_id=CLUSTER) == gate
    assert gate.labels.amounts[TaskName("worker", 0)] == Resources(2_000, 1 << 30, 1_000)


def test_a_tombstone_keeps_nothing_but_its_day() -> None:
    buried = samples.gate(samples.workload()).buried(datetime(2026, 1, 2, tzinfo=UTC).date())
    document = gate_document(buried, cluster_id=CLUSTER, namespace="c")
    assert document["data"] == {}
    assert document["metadata"]["labels"]["berth.dev/forgotten-on"] == "2026-01-02"
    assert read_gate(document, cluster_id=CLUSTER) == Gate(ATTEMPT, is_tombstone=True, forgotten_on=buried.forgotten_on)


@pytest.mark.parametrize(
    "change",
    [
        {"labels": {}},
        {"labels": {"berth.dev/attempt": str(ATTEMPT), "berth.dev/cluster": "other", "berth.dev/kind": "gate"}},
        {"name": "attempt-x"},
    ],
)
def test_what_is_not_our_gate_is_not_read(change: dict[str, Any]) -> None:
    document = gate_document(samples.gate(samples.workload()), cluster_id=CLUSTER, namespace="c")
    document["metadata"] |= change
    with pytest.raises(GateUnreadable):
        read_gate(document, cluster_id=CLUSTER)
    document = gate_document(samples.gate(samples.workload()), cluster_id=CLUSTER, namespace="c")
    document["data"] = {"attempt.json": '{"released": true}'}
    with pytest.raises(GateUnreadable):
        read_gate(document, cluster_id=CLUSTER)


def test_the_first_cause_stands_and_the_shorter_grace_counts() -> None:
    first, later = stopped(), stopped(at="2026-01-01T09:00:00Z")
    gate = with_stop(with_stop(samples.gate(samples.workload()), first), replace(later, signal="INT"))
    assert gate.stop == StopRecord(first.cause, first.signal, first.asked_at, later.kill_at, first.tasks)


# --- What cannot be given -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"image": ImageRef(ImageKind.PYTHON, "", "/env")}, "workload_invalid"),
        ({"isolation_key": "No Label"}, "workload_invalid"),
        ({"files": {"../x": ("y",)}}, "workload_invalid"),
        ({"files": {"x": ("y" * 1_100_000,)}}, "workload_invalid"),
        ({"workdir": "../x"}, "workload_invalid"),
        ({"mounts": (MountRef(JOB, HostDir("/data/v"), "/v", read_only=True),)}, "storage_not_shared"),
        ({"mounts": (MountRef(JOB, Claim(JOB, "digits"), "/v", read_only=True),)}, "storage_not_shared"),
        ({"mounts": (MountRef(JOB, Claim(OURS, "volume-1", is_made=True), "/v", read_only=True),)}, "storage_not_shared"),
        ({"mounts": (MountRef(JOB, Share("nfs.example", "/x"), "/v", read_only=True),)}, "storage_not_shared"),
        ({"checkpoint": CheckpointRef(JOB, "/data/c", "ckpt")}, "storage_not_shared"),
        ({"checkpoint": CheckpointRef(JOB, "/srv/c", "../x")}, "workload_invalid"),
        ({"code": CodeRef("d", "/nonexistent/code")}, "code_not_carried"),
    ],
)
def test_what_the_cluster_can_never_run(changes: dict[str, Any], code: str) -> None:
    refused = refuse(samples.workload(**changes), replace(CONFIG, shared_paths=("/srv",)))
    assert refused is not None
    assert refused[0] == code


def test_a_share_needs_a_resource_and_a_job_of_the_hosts_programs_a_default_image() -> None:
    asked = samples.workload()
    shared = replace(asked, tasks=(replace(asked.tasks[0], resources=Resources(100, 0, 250)),))
    refused = refuse(shared, CONFIG)
    assert refused is not None
    assert refused[0] == "gpu_share_invalid"
    assert refuse(shared, replace(CONFIG, gpu_shares={"250": "nvidia.com/mig-1g.10gb"})) is None
    host = samples.workload(image=ImageRef(ImageKind.HOST, ""))
    assert refuse(host, CONFIG) is None
    assert refuse(host, replace(CONFIG, default_image="")) is not None


def test_a_shared_path_is_a_volume_that_only_its_tenant_can_claim() -> None:
    config = replace(CONFIG, shared_paths=("/srv/berth",))
    volume, claim = storage.shared_claim("/srv/berth", "berth-t-blue", config)
    assert volume["spec"]["claimRef"]["namespace"] == "berth-t-blue"
    assert volume["spec"]["hostPath"] == {"path": "/srv/berth", "type": "Directory"}
    assert claim["spec"]["volumeName"] == volume["metadata"]["name"]
    assert storage.root_of("/srv/berth/../../etc", config) is None
    assert storage.root_of("/srv/berthier", config) is None
    (found,) = storage.volumes_of(samples.workload(checkpoint=CheckpointRef(JOB, "/srv/berth/a/b", "ckpt")), config)
    assert (found.sub_path, found.target, found.claim) == ("a/b", "/berth-checkpoint", claim["metadata"]["name"])


def test_volumes_on_claims_and_nfs_are_claims_of_the_tenants_namespace() -> None:
    config = replace(CONFIG, storage_class="fast", nfs_servers=("nfs.example",))
    share = Share("nfs.example", "/exports/digits")
    mounts = (
        MountRef(JOB, Claim(OURS, "of-the.operator"), "/a", read_only=True),
        MountRef(JOB, Claim(OURS, "volume-1", is_made=True, size_bytes=5), "/b", read_only=False),
        MountRef(JOB, Claim(OURS, "volume-2", is_made=True), "/c", read_only=False),
        MountRef(JOB, share, "/d", read_only=True),
        MountRef(JOB, share, "/e", read_only=False),
    )
    workload = samples.workload(mounts=mounts)
    assert refuse(workload, config) is None
    *made, disk, share_claim = storage.claims_of(workload, "berth-t-blue", config)
    assert disk["spec"]["nfs"] == {"server": "nfs.example", "path": "/exports/digits"}
    assert disk["spec"]["claimRef"]["namespace"] == share_claim["metadata"]["namespace"] == "berth-t-blue"
    assert share_claim["spec"]["volumeName"] == disk["metadata"]["name"]
    assert [(item["metadata"]["name"], item["spec"]["resources"]["requests"]["storage"]) for item in made] == [
        ("volume-1", "5"),
        ("volume-2", str(config.storage_bytes)),
    ]
    assert {(item["spec"]["storageClassName"], *item["spec"]["accessModes"]) for item in made} == {("fast", "ReadWriteMany")}
    found = storage.volumes_of(workload, config)
    assert [(volume.claim, volume.target, volume.read_only) for volume in found] == [
        ("of-the.operator", "/a", True),
        ("volume-1", "/b", False),
        ("volume-2", "/c", False),
        (share_claim["metadata"]["name"], "/d", True),
        (share_claim["metadata"]["name"], "/e", False),
    ]
    assert all(is_dns_label(volume.name) for volume in found), "a pod's volume has no dots in its name"


# --- Inventory and measurements -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "millis"),
    [("2", 2_000), ("1500m", 1_500), ("1Ki", 1_024_000), ("1.5Gi", 1_610_612_736_000), ("1e3", 1_000_000), ("x", 0), (None, 0)],
)
def test_a_quantity(text: object, millis: int) -> None:
    assert quantity_millis(text) == millis


def test_the_inventory_counts_other_peoples_pods_and_names_taints() -> None:
    node = {
        "metadata": {"name": "n1", "labels": {"nvidia.com/gpu.product": "A100", "nvidia.com/gpu.memory": "81920"}},
        "spec": {"taints": [{"key": "team", "value": "x", "effect": "NoSchedule"}]},
        "status": {
            "allocatable": {"cpu": "8", "memory": "16Gi", "nvidia.com/gpu": "2"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    other = {"spec": {"nodeName": "n1", "containers": [{"resources": {"requests": {"cpu": "500m", "nvidia.com/gpu": "1"}}}]}}
    found = read_inventory([node], [other], CONFIG, datetime.now(UTC))
    (seen,) = found.nodes
    assert seen.capacity == Resources(7_500, 16 << 30, 1_000)
    assert (seen.gpu_model, len(seen.gpus), seen.gpus[0].memory_bytes) == ("A100", 2, 81_920 << 20)
    assert seen.labels["berth.dev/taint.team"] == "NoSchedule"
    assert found.abilities.image_kinds == {ImageKind.REGISTRY, ImageKind.HOST}
    assert found.abilities.places == Places(below=(), claims=True, checkpoints=False)
    silent = {**node, "status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}}
    (lost,) = read_inventory([silent], [], CONFIG, datetime.now(UTC)).nodes
    assert (lost.ready, lost.reason) == (False, "NodeStatusUnknown")


@pytest.mark.parametrize(
    ("labels", "driver", "cuda"),
    [
        (
            {"nvidia.com/cuda.driver-version.full": "550.54.15", "nvidia.com/cuda.runtime-version.full": "12.4"},
            "550.54.15",
            "12.4",
        ),
        (
            {
                "nvidia.com/cuda.driver.major": "535",
                "nvidia.com/cuda.driver.minor": "183",
                "nvidia.com/cuda.driver.rev": "06",
                "nvidia.com/cuda.runtime.major": "12",
                "nvidia.com/cuda.runtime.minor": "2",
            },
            "535.183.06",
            "12.2",
        ),
        ({"nvidia.com/cuda.driver.major": "535"}, "535", None),
        ({}, None, None),
    ],
)
def test_the_driver_is_what_gpu_feature_discovery_labels(labels: dict[str, str], driver: str | None, cuda: str | None) -> None:
    node = {"metadata": {"name": "n1", "labels": labels}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    (seen,) = read_inventory([node], [], CONFIG, datetime.now(UTC)).nodes
    assert (seen.labels.get(GPU_DRIVER), seen.labels.get(GPU_CUDA)) == (driver, cuda)


def test_a_node_takes_as_many_tasks_as_others_leave_of_its_pods() -> None:
    def node(name: str, **allocatable: str) -> dict[str, Any]:
        return {"metadata": {"name": name}, "status": {"allocatable": allocatable}}

    pods = [{"spec": {"nodeName": "n1", "containers": []}}] * 12
    seen = read_inventory([node("n1", pods="110"), node("n2", pods="110"), node("n3")], pods, CONFIG, datetime.now(UTC)).nodes
    assert [found.tasks_max for found in seen] == [98, 110, None]


def test_a_pod_counts_as_its_containers_or_its_dearest_start() -> None:
    def container(cpu: str, **more: str) -> dict[str, Any]:
        return {"resources": {"requests": {"cpu": cpu}}, **more}

    spec = {
        "containers": [container("1"), container("1")],
        "initContainers": [container("3"), container("500m", restartPolicy="Always")],
    }
    assert requests_of({"spec": {**spec, "overhead": {"cpu": "100m"}}}, CONFIG).cpu_millis == 3_100


def test_a_kubelets_summary_is_read_for_our_tasks_alone() -> None:
    pod = samples.pod(
        metadata={"labels": {"berth.dev/attempt": "a"}, "annotations": {"berth.dev/role": "w", "berth.dev/index": "3"}}
    )
    measured = {"name": "task", "cpu": {"usageNanoCores": 1_500_000_000}, "memory": {"workingSetBytes": 5}}
    summary = {
        "node": {"nodeName": "n1", "cpu": {"usageNanoCores": 2_000_000}, "fs": {"usedBytes": 7}},
        "pods": [
            {"podRef": {"namespace": "berth-t-blue", "name": pod["metadata"]["name"]}, "containers": [measured]},
            {"podRef": {"namespace": "x", "name": "y"}, "containers": [measured]},
        ],
    }
    running = {("berth-t-blue", pod["metadata"]["name"]): pod}
    assert {(item.subject, item.metric, item.value) for item in read_summary(summary, running)} == {
        ("node:n1", "cpu_millis", 2.0),
        ("node:n1", "disk_used_bytes", 7.0),
        ("task:a:w:3", "cpu_millis", 1_500.0),
        ("task:a:w:3", "memory_bytes", 5.0),
    }
