"""Documents as a whole: what the API server is given."""

from __future__ import annotations

from dataclasses import replace

from clusters.engines.interface import AddressOf, CheckpointDir, CheckpointRef, FileOf, PortOf, TaskName
from clusters.engines.kubernetes import manifests, wrapper
from clusters.engines.kubernetes.manifests import Volume
from tests.unit.engines_kubernetes import samples
from tests.unit.engines_kubernetes.samples import ATTEMPT, CLUSTER, CONFIG, JOB, NAMESPACE


def labels(kind: str, **more: str) -> dict[str, str]:
    return {
        "app.kubernetes.io/managed-by": "berth",
        "berth.dev/cluster": CLUSTER,
        "berth.dev/kind": kind,
        "berth.dev/attempt": str(ATTEMPT),
        "berth.dev/job": str(JOB),
        "berth.dev/number": "1",
        "berth.dev/tenant": "blue",
        **more,
    }


def test_the_pod_of_one_task() -> None:
    config = replace(
        CONFIG, node_selector={"pool": "a100"}, tolerations=({"key": "gpu", "operator": "Exists"},), priority_class="low"
    )
    asked = samples.workload()
    task = replace(asked.tasks[0], node="node-9", secret_env={"TOKEN": "hush"}, shm_bytes=1 << 20)
    asked = replace(asked, tasks=(task,))
    amounts = {"cpu": "2000m", "memory": str(1 << 30), "nvidia.com/gpu": "1"}
    assert manifests.pod(samples.plan(asked, groups=(4,)), 0, config) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"b-{ATTEMPT}-0",
            "namespace": NAMESPACE,
            "labels": labels("task", **{"berth.dev/network": "open"}),
            "annotations": {"berth.dev/role": "worker", "berth.dev/index": "0"},
            "finalizers": ["berth.dev/observed"],
        },
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "serviceAccountName": "berth-task",
            "hostname": "worker-0",
            "schedulingGates": [{"name": "berth.dev/released"}],
            "terminationGracePeriodSeconds": 30,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 200_007,
                "runAsGroup": 200_007,
                "fsGroup": 200_007,
                "fsGroupChangePolicy": "OnRootMismatch",
                "supplementalGroups": [300_004],
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
                {"key": "gpu", "operator": "Exists"},
            ],
            "nodeSelector": {"pool": "a100"},
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-9"]}]}]
                    }
                }
            },
            "priorityClassName": "low",
            "containers": [
                {
                    "name": "task",
                    "image": "registry/digits@sha256:1",
                    "command": [
                        *("/bin/sh", "-c", manifests.literal(wrapper.SCRIPT), "berth"),
                        *(manifests.literal(wrapper.TASK_SCRIPT), "1000", "", "", "", ""),
                        *("train", "--cost=$$5"),
                    ],
                    "env": [
                        {"name": "HOME", "value": "/berth/home"},
                        {"name": "USER", "value": "berth-blue"},
                        {"name": "LOGNAME", "value": "berth-blue"},
                        {"name": "TMPDIR", "value": "/berth/tmp"},
                        {"name": "LEVEL", "value": "1"},
                        {"name": "BERTH_WORKDIR", "value": "/berth/work"},
                        {"name": "BERTH_FILES", "value": ""},
                        {"name": "BERTH_TASK_KEY", "value": f"{ATTEMPT}.worker-0"},
                        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": f"b-{ATTEMPT}-secrets", "key": "0.TOKEN"}}},
                    ],
                    "resources": {"requests": amounts, "limits": amounts},
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                    "volumeMounts": [{"name": "own", "mountPath": "/berth"}, {"name": "shm", "mountPath": "/dev/shm"}],
                    "terminationMessagePolicy": "File",
                }
            ],
            "volumes": [
                {"name": "own", "emptyDir": {}},
                {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": str(1 << 20)}},
            ],
        },
    }


def test_a_gang_without_names_waits_for_the_start_object_and_is_given_addresses_by_it() -> None:
    asked = samples.workload(2, files={"hosts": (AddressOf("worker", 0), "\n"), "tool.sh": ("echo",)})
    env = {"PEER": (AddressOf("worker", 1), ":$", PortOf("worker", 1, "main")), "HOSTS": (FileOf("hosts"),)}
    tasks = tuple(replace(task, env={**env, "TOOL": (FileOf("tool.sh"),)}) for task in asked.tasks)
    asked = replace(asked, tasks=tasks)
    gate = samples.gate(asked)
    gate = replace(gate, tasks=tuple(replace(task, ports={"main": 20_000}) for task in gate.tasks))
    plan = samples.plan(asked, gate=gate)
    found = {item["name"]: item for item in manifests.pod(plan, 0, CONFIG)["spec"]["containers"][0]["env"]}
    start = f"b-{ATTEMPT}-start"
    assert found["BERTH_ADDRESS_1"]["valueFrom"] == {"configMapKeyRef": {"name": start, "key": "address-1"}}
    assert found["BERTH_STARTED"]["valueFrom"] == {"configMapKeyRef": {"name": start, "key": "go"}}
    assert found["PEER"]["value"] == "$(BERTH_ADDRESS_1):$$20000"
    assert found["HOSTS"]["value"] == "/berth/run/files/hosts"
    assert found["BERTH_FILE_TEXT_0"]["value"] == "$(BERTH_ADDRESS_0)\n"
    assert found["TOOL"]["value"] == "/berth-files/tool.sh"  # What is known by now is stored once, for all pods.
    assert "BERTH_FILE_TEXT_1" not in found
    assert manifests.files(plan, CONFIG)["data"] == {"tool.sh": "echo"}
    assert manifests.start(gate, ["10.0.0.1", "10.0.0.2"], CONFIG) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": start, "namespace": NAMESPACE, "labels": labels("start")},
        "data": {"go": "1", "address-0": "10.0.0.1", "address-1": "10.0.0.2"},
        "immutable": True,
    }


def test_a_gang_with_names_has_a_service_and_a_file_of_them() -> None:
    asked = samples.workload(2, files={"hosts": (AddressOf("worker", 1), "\n")})
    gate = replace(samples.gate(asked), hosts=("worker-0.x", "worker-1.x"))
    plan = samples.plan(asked, gate=gate)
    assert manifests.files(plan, CONFIG)["data"] == {"hosts": "worker-1.x\n"}
    assert manifests.pod(plan, 1, CONFIG)["spec"]["subdomain"] == f"b-{ATTEMPT}"
    assert manifests.service(plan, CONFIG) == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": f"b-{ATTEMPT}", "namespace": NAMESPACE, "labels": labels("names")},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {"berth.dev/attempt": str(ATTEMPT), "berth.dev/kind": "task"},
        },
    }


def test_the_tasks_of_an_attempt_may_talk_to_each_other_alone() -> None:
    peers = {"podSelector": {"matchLabels": {"berth.dev/attempt": str(ATTEMPT)}}}
    assert manifests.routes(samples.plan(samples.workload(2)), CONFIG)["spec"] == {
        "podSelector": peers["podSelector"],
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": [peers]}],
        "egress": [{"to": [peers]}],
    }


def test_secrets_stand_in_one_object_by_task_and_name() -> None:
    asked = samples.workload(2)
    asked = replace(asked, tasks=(asked.tasks[0], replace(asked.tasks[1], secret_env={"TOKEN": "hush"})))
    document = manifests.secrets(samples.plan(asked), CONFIG)
    assert document is not None
    assert document["data"] == {"1.TOKEN": "aHVzaA=="}
    assert manifests.secrets(samples.plan(samples.workload()), CONFIG) is None


def test_a_checkpoint_directory_is_mounted_and_seen_where_the_job_asked() -> None:
    kept = CheckpointRef(JOB, "/srv/berth/checkpoints/j", "ckpt")
    asked = samples.workload(checkpoint=kept)
    asked = replace(asked, tasks=(replace(asked.tasks[0], env={"BERTH_CHECKPOINT_DIR": (CheckpointDir(), "/worker")}),))
    volume = Volume("shared-1", "shared-1", "/berth-checkpoint", "checkpoints/j")
    spec = manifests.pod(samples.plan(asked, volumes=(volume,)), 0, CONFIG)["spec"]
    assert {"name": "shared-1", "persistentVolumeClaim": {"claimName": "shared-1"}} in spec["volumes"]
    mounts = spec["containers"][0]["volumeMounts"]
    assert {"name": "shared-1", "mountPath": "/berth-checkpoint", "subPath": "checkpoints/j"} in mounts
    assert spec["containers"][0]["command"][5:10] == ["1000", "", "", "/berth-checkpoint/worker", "ckpt"]


def test_a_claim_that_is_only_read_is_mounted_so_as_a_whole() -> None:
    read, written = Volume("a", "a", "/a", read_only=True), Volume("b", "b", "/b", read_only=True)
    part = Volume("shared-1", "shared-1", "/c", "volumes/c", read_only=True)
    plan = samples.plan(samples.workload(), volumes=(read, written, replace(written, target="/c", read_only=False), part))
    found = [item["persistentVolumeClaim"] for item in manifests.pod(plan, 0, CONFIG)["spec"]["volumes"][-3:]]
    assert found == [{"claimName": "a", "readOnly": True}, {"claimName": "b"}, {"claimName": "shared-1"}]


def test_shares_cores_and_adapters_are_asked_for_by_the_operators_names() -> None:
    config = replace(CONFIG, gpu_shares={"250": "nvidia.com/mig-1g.10gb"}, rdma_resource="rdma/ib", cpu_request_percent=50)
    task = replace(samples.workload().tasks[0], rdma=True)
    shared = replace(task, resources=replace(task.resources, gpu_millis=250))
    assert manifests.limits(shared, config)["nvidia.com/mig-1g.10gb"] == "1"
    assert manifests.limits(shared, config)["rdma/ib"] == "1"
    alone = replace(task, cpu_exclusive=True, resources=replace(task.resources, cpu_millis=1_500))
    assert manifests.limits(alone, config)["cpu"] == "2000m"


def test_an_image_without_a_shell_runs_as_it_is() -> None:
    asked = samples.workload()
    container = manifests.pod(samples.plan(asked, gate=samples.gate(asked, framed=False)), 0, CONFIG)["spec"]["containers"][0]
    assert container["command"] == ["train", "--cost=$$5"]


def test_the_only_address_of_a_single_task_is_its_own() -> None:
    asked = samples.workload()
    asked = replace(asked, tasks=(replace(asked.tasks[0], env={"MASTER": (AddressOf("worker", 0),)}),))
    env = manifests.pod(samples.plan(asked), 0, CONFIG)["spec"]["containers"][0]["env"]
    assert env[0] == {"name": "BERTH_ADDRESS_0", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    assert {"name": "MASTER", "value": "$(BERTH_ADDRESS_0)"} in env
    assert samples.gate(asked).task(TaskName("worker", 0)) == 0
