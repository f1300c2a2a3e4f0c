"""The cluster that other tests stand on: it runs what it is asked to, survives the death of its parts, and leaves nothing."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders.kubernetes import PYTHON_IMAGE, TOLERATION, pod, resets_before_handshakes, skip_without_kubernetes
from tools.kubernetes.api import ApiRefused
from tools.kubernetes.cluster import Cluster
from tools.kubernetes.programs import VERSION
from tools.progress import Stop

pytestmark = [pytest.mark.kubernetes, resets_before_handshakes]

ROOT = Path(__file__).resolve().parents[2]
WAIT_SECONDS_MAX = 120.0
KUBELET_PORT = 10250


def wait_until(is_so: Callable[[], bool], seconds: float = WAIT_SECONDS_MAX) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it did not come to this in time"
        time.sleep(0.1)


@pytest.fixture
def namespace(own_kubernetes_cluster: Cluster) -> Iterator[str]:
    with own_kubernetes_cluster.namespace() as name:
        yield name


def exit_code(ended: dict[str, Any]) -> Any:
    return ended["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"]


# --- What runs -------------------------------------------------------------------------------------------------------


def test_it_is_the_version_that_is_pinned(own_kubernetes_cluster: Cluster) -> None:
    assert own_kubernetes_cluster.request("GET", "/version")["gitVersion"] == VERSION
    [node] = own_kubernetes_cluster.request("GET", "/api/v1/nodes")["items"]
    assert node["status"]["nodeInfo"]["kubeletVersion"] == VERSION


def test_a_restricted_pod_ends_with_its_exit_code_and_its_log(own_kubernetes_cluster: Cluster, namespace: str) -> None:
    own_kubernetes_cluster.create(pod("first", namespace, "echo from the pod; id -u; exit 7"))

    ended = own_kubernetes_cluster.wait_for_pod(namespace, "first", "Failed", "Succeeded")

    assert (ended["status"]["phase"], exit_code(ended)) == ("Failed", 7)
    assert own_kubernetes_cluster.logs(namespace, "first") == "from the pod\n10001\n"


def test_a_pod_runs_python(own_kubernetes_cluster: Cluster, namespace: str) -> None:
    program = "python3 -c 'import ctypes, hashlib, json, socket, sqlite3, ssl; print(json.dumps([1]))'"
    own_kubernetes_cluster.create(pod("python", namespace, program, image=PYTHON_IMAGE))

    ended = own_kubernetes_cluster.wait_for_pod(namespace, "python", "Failed", "Succeeded")

    assert own_kubernetes_cluster.logs(namespace, "python") == "[1]\n"
    assert ended["status"]["phase"] == "Succeeded"


def test_a_pod_that_restricted_pod_security_forbids_is_refused(own_kubernetes_cluster: Cluster, namespace: str) -> None:
    with pytest.raises(ApiRefused, match="violates PodSecurity") as refused:
        own_kubernetes_cluster.create(pod("root", namespace, "true", spec={"securityContext": {"runAsUser": 0}}))

    assert (refused.value.status, refused.value.reason) == (403, "Forbidden")


def test_pods_get_the_gpus_that_the_node_pretends_to_have_and_no_more(own_kubernetes_cluster: Cluster, namespace: str) -> None:
    four = {"limits": {"nvidia.com/gpu": "4"}}
    own_kubernetes_cluster.create(pod("four", namespace, "sleep 600", resources=four))
    own_kubernetes_cluster.wait_for_pod(namespace, "four", "Running")
    own_kubernetes_cluster.create(pod("fifth", namespace, "true", resources={"limits": {"nvidia.com/gpu": "1"}}))

    def is_unschedulable() -> bool:
        conditions = own_kubernetes_cluster.pod(namespace, "fifth")["status"].get("conditions", ())
        return any(each.get("reason") == "Unschedulable" and "nvidia.com/gpu" in each["message"] for each in conditions)

    wait_until(is_unschedulable)
    own_kubernetes_cluster.delete(pod("four", namespace, ""))
    own_kubernetes_cluster.wait_for_pod(namespace, "fifth", "Succeeded")


def test_commands_run_in_a_pod_and_its_address_is_reached(own_kubernetes_cluster: Cluster, namespace: str) -> None:
    serve = "mkdir /tmp/www; echo hello > /tmp/www/index.html; exec httpd -f -p 8080 -h /tmp/www"
    own_kubernetes_cluster.create(pod("server", namespace, serve))
    running = own_kubernetes_cluster.wait_for_pod(namespace, "server", "Running")

    assert own_kubernetes_cluster.kubectl("-n", namespace, "exec", "server", "--", "cat", "/tmp/www/index.html") == "hello\n"
    address = running["status"]["podIP"]
    own_kubernetes_cluster.create(pod("client", namespace, f"wget -q -O - http://{address}:8080/"))
    own_kubernetes_cluster.wait_for_pod(namespace, "client", "Succeeded")
    assert own_kubernetes_cluster.logs(namespace, "client") == "hello\n"
    fetched = subprocess.run(
        ["/bin/busybox", "wget", "-q", "-O", "-", f"http://{address}:8080/"], capture_output=True, timeout=30
    )
    assert fetched.stdout == b"hello\n"


def test_pods_of_a_headless_service_find_each_other_by_name(own_kubernetes_cluster: Cluster, namespace: str) -> None:
    selector = {"app": "train"}
    spec = {"clusterIP": "None", "selector": selector, "publishNotReadyAddresses": True}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "train", "namespace": namespace}, "spec": spec}
    own_kubernetes_cluster.create(service)
    worker = pod("worker-0", namespace, "sleep 600", spec={"hostname": "worker-0", "subdomain": "train"})
    worker["metadata"]["labels"] = selector
    own_kubernetes_cluster.create(worker)
    address = own_kubernetes_cluster.wait_for_pod(namespace, "worker-0", "Running")["status"]["podIP"]

    resolve = "import socket; print(socket.gethostbyname('worker-0.train'))"
    program = f'until python3 -c "{resolve}"; do sleep 0.2; done 2>/dev/null'
    own_kubernetes_cluster.create(pod("asks", namespace, program, image=PYTHON_IMAGE))

    own_kubernetes_cluster.wait_for_pod(namespace, "asks", "Succeeded")
    assert own_kubernetes_cluster.logs(namespace, "asks") == f"{address}\n"


def test_a_pod_with_an_account_reaches_the_api_server(own_kubernetes_cluster: Cluster, namespace: str) -> None:
    program = (
        "import os, ssl, urllib.request as r; d='/var/run/secrets/kubernetes.io/serviceaccount/'; "
        "q=r.Request('https://%(KUBERNETES_SERVICE_HOST)s:%(KUBERNETES_SERVICE_PORT)s/version' % os.environ, "
        "headers={'Authorization': 'Bearer ' + open(d + 'token').read()}); "
        "print(r.urlopen(q, context=ssl.create_default_context(cafile=d + 'ca.crt')).status)"
    )
    spec = {"automountServiceAccountToken": True}
    own_kubernetes_cluster.create(pod("inside", namespace, f'python3 -c "{program}"', image=PYTHON_IMAGE, spec=spec))

    own_kubernetes_cluster.wait_for_pod(namespace, "inside", "Succeeded")

    assert own_kubernetes_cluster.logs(namespace, "inside") == "200\n"


# --- Who may what ----------------------------------------------------------------------------------------------------


def test_a_person_may_do_what_rbac_says(own_kubernetes_cluster: Cluster, namespace: str) -> None:
    alice = own_kubernetes_cluster.kubeconfig_for("alice", ["team:vision"])
    with pytest.raises(Stop, match='User "alice" cannot list resource "pods"'):
        own_kubernetes_cluster.kubectl("-n", namespace, "get", "pods", kubeconfig=alice)

    own_kubernetes_cluster.kubectl(
        "-n", namespace, "create", "rolebinding", "vision", "--clusterrole=view", "--group=team:vision"
    )

    wait_until(lambda: can(own_kubernetes_cluster, alice, "list", "pods", namespace))
    assert not can(own_kubernetes_cluster, alice, "create", "pods", namespace)


def test_an_account_may_do_what_rbac_says(own_kubernetes_cluster: Cluster, namespace: str) -> None:
    own_kubernetes_cluster.kubectl("-n", namespace, "create", "serviceaccount", "engine")
    own_kubernetes_cluster.kubectl(
        "-n", namespace, "create", "rolebinding", "engine", "--clusterrole=edit", f"--serviceaccount={namespace}:engine"
    )

    engine = own_kubernetes_cluster.kubeconfig_of_account(namespace, "engine")

    wait_until(lambda: can(own_kubernetes_cluster, engine, "create", "pods", namespace))
    assert not can(own_kubernetes_cluster, engine, "list", "nodes", namespace)


def can(cluster: Cluster, kubeconfig: Path, verb: str, resource: str, namespace: str) -> bool:
    try:
        answer = cluster.kubectl("-n", namespace, "auth", "can-i", verb, resource, kubeconfig=kubeconfig)
    except Stop:
        return False
    return answer.strip() == "yes"


# --- What dies and comes back ----------------------------------------------------------------------------------------


def test_a_pod_runs_on_while_the_api_server_is_killed_and_started_again(own_kubernetes_cluster: Cluster, namespace: str) -> None:
    control_plane = own_kubernetes_cluster.control_plane
    own_kubernetes_cluster.create(pod("long", namespace, "sleep 5; echo it ran on"))
    before = own_kubernetes_cluster.wait_for_pod(namespace, "long", "Running")

    control_plane.kill("kube-apiserver")
    with pytest.raises(OSError):  # noqa: PT011 - whatever the machine says of a port that nothing listens on.
        own_kubernetes_cluster.pod(namespace, "long")
    control_plane.start("kube-apiserver")

    after = own_kubernetes_cluster.wait_for_pod(namespace, "long", "Succeeded")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert own_kubernetes_cluster.logs(namespace, "long") == "it ran on\n"


def test_a_pod_runs_on_while_etcd_is_killed_and_started_again(own_kubernetes_cluster: Cluster, namespace: str) -> None:
    own_kubernetes_cluster.create(pod("long", namespace, "sleep 3"))
    own_kubernetes_cluster.wait_for_pod(namespace, "long", "Running")

    own_kubernetes_cluster.control_plane.kill("etcd")
    own_kubernetes_cluster.control_plane.start("etcd")
    own_kubernetes_cluster.control_plane.wait_ready()

    own_kubernetes_cluster.wait_for_pod(namespace, "long", "Succeeded")


def test_a_pod_runs_on_while_the_kubelet_is_killed_and_started_again(own_kubernetes_cluster: Cluster, namespace: str) -> None:
    [node] = own_kubernetes_cluster.nodes
    own_kubernetes_cluster.create(pod("long", namespace, "sleep 6; exit 3"))
    before = own_kubernetes_cluster.wait_for_pod(namespace, "long", "Running")

    node.kill("kubelet")
    node.start("kubelet")

    after = own_kubernetes_cluster.wait_for_pod(namespace, "long", "Failed")
    assert exit_code(after) == 3
    older, newer = (each["status"]["containerStatuses"][0]["containerID"] for each in (before, after))
    assert newer == older
    capacity = own_kubernetes_cluster.request("GET", f"/api/v1/nodes/{node.name}")["status"]["allocatable"]
    assert capacity["nvidia.com/gpu"] == "4"


def test_a_node_that_is_cut_off_keeps_its_pods_and_comes_back(own_kubernetes_cluster: Cluster, namespace: str) -> None:
    [node] = own_kubernetes_cluster.nodes
    own_kubernetes_cluster.create(pod("far", namespace, "echo started; sleep 600"))
    own_kubernetes_cluster.wait_for_pod(namespace, "far", "Running")
    wait_until(lambda: own_kubernetes_cluster.logs(namespace, "far") == "started\n")

    path = f"/api/v1/namespaces/{namespace}/pods/far/log"
    node.cut_off()
    try:
        with pytest.raises((ApiRefused, TimeoutError)):  # The API server may wait longer on a connection that it has.
            own_kubernetes_cluster.api.text("GET", path, seconds=4.0)
    finally:
        node.reconnect()

    assert own_kubernetes_cluster.logs(namespace, "far") == "started\n"
    assert own_kubernetes_cluster.pod(namespace, "far")["status"]["phase"] == "Running"


@pytest.mark.parametrize("chain", ["INPUT", "OUTPUT"])
def test_a_node_loses_packets_one_way(own_kubernetes_cluster: Cluster, chain: str) -> None:
    [node] = own_kubernetes_cluster.nodes
    kubelet = (node.address, KUBELET_PORT)

    node.drop(chain)
    try:
        with pytest.raises(TimeoutError):
            socket.create_connection(kubelet, timeout=2.0)
    finally:
        node.pass_all()

    socket.create_connection(kubelet, timeout=WAIT_SECONDS_MAX).close()


def test_a_node_that_was_switched_off_has_none_of_its_pods(own_kubernetes_cluster: Cluster, namespace: str) -> None:
    [node] = own_kubernetes_cluster.nodes
    own_kubernetes_cluster.create(pod("lost", namespace, "sleep 600"))
    own_kubernetes_cluster.wait_for_pod(namespace, "lost", "Running")

    node.power_off()
    node.power_on()

    own_kubernetes_cluster.wait_for_pod(namespace, "lost", "Failed")
    own_kubernetes_cluster.create(pod("next", namespace, "true"))
    own_kubernetes_cluster.wait_for_pod(namespace, "next", "Succeeded")


# --- Simulated nodes -------------------------------------------------------------------------------------------------

OUTCOMES = {
    "succeed": ("Succeeded", 0, "Completed"),
    "fail": ("Failed", 5, "Error"),
    "oom": ("Failed", 137, "OOMKilled"),
    "evict": ("Failed", 137, "Error"),
}


def simulated_pod(name: str, namespace: str, outcome: str) -> dict[str, Any]:
    annotations = {"berth.test/outcome": outcome, "berth.test/exit": "5"}
    spec = {"tolerations": [dict(TOLERATION)], "nodeSelector": {"type": "kwok"}}
    return pod(name, namespace, "true", annotations=annotations, spec=spec)


def test_simulated_pods_end_as_they_are_told_to(own_kubernetes_cluster: Cluster, namespace: str) -> None:
    own_kubernetes_cluster.add_simulated_nodes(3)
    for outcome in (*OUTCOMES, "image", "none"):
        own_kubernetes_cluster.create(simulated_pod(outcome, namespace, outcome))

    for outcome, (phase, code, reason) in OUTCOMES.items():
        ended = own_kubernetes_cluster.wait_for_pod(namespace, outcome, phase)
        state = ended["status"]["containerStatuses"][0]["state"]["terminated"]
        assert (state["exitCode"], state["reason"]) == (code, reason)
    assert own_kubernetes_cluster.pod(namespace, "evict")["status"]["reason"] == "Evicted"
    assert own_kubernetes_cluster.pod(namespace, "none")["status"]["phase"] == "Running"
    waiting = own_kubernetes_cluster.pod(namespace, "image")["status"]
    assert waiting["phase"] == "Pending"
    assert waiting["containerStatuses"][0]["state"]["waiting"]["reason"] == "ImagePullBackOff"


def test_a_simulated_node_is_lost_and_comes_back(own_kubernetes_cluster: Cluster) -> None:
    own_kubernetes_cluster.add_simulated_nodes(3)
    path = "/api/v1/nodes/fake-00002"

    def is_ready(status: str) -> bool:
        conditions = own_kubernetes_cluster.request("GET", path)["status"].get("conditions", ())
        return any(each["type"] == "Ready" and each["status"] == status for each in conditions)

    wait_until(lambda: is_ready("True"))
    own_kubernetes_cluster.kubectl("annotate", "node", "fake-00002", "berth.test/lost=1")
    wait_until(lambda: is_ready("Unknown"))
    own_kubernetes_cluster.kubectl("annotate", "node", "fake-00002", "berth.test/lost-")
    wait_until(lambda: is_ready("True"))


# --- What is left ----------------------------------------------------------------------------------------------------


def left_of(directory: Path, cluster: str) -> list[str]:
    """Whatever this machine still has of a cluster: processes, mounts, control groups, devices of its network."""
    found = [f"mount {line.split()[1]}" for line in Path("/proc/mounts").read_text().splitlines() if str(directory) in line]
    found += [f"control group {path}" for path in Path("/sys/fs/cgroup").glob(f"*/berth-kubernetes-{cluster}-*")]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(directory) in words:
            found.append(f"process {process.name}: {words[:200]}")
    return found


HOLDING = """
import sys, time
from tools.kubernetes.hold import held
with held(nodes=1) as cluster:
    print(cluster.directory, cluster.name, cluster.layout.network, flush=True)
    from tests.builders.kubernetes import pod
    with cluster.namespace() as namespace:
        cluster.create(pod("long", namespace, "sleep 600"))
        cluster.wait_for_pod(namespace, "long", "Running")
        print("running", flush=True)
        sys.stdin.read()
"""


@pytest.fixture
def started() -> Iterator[tuple[subprocess.Popen[str], Path, str, str]]:
    """A process with a cluster of its own, on which a pod runs; the directory, the name and the device of the cluster."""
    skip_without_kubernetes()
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDING], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        directory, name, network = process.stdout.readline().split()
        assert process.stdout.readline() == "running\n"
        yield process, Path(directory), name, f"berth-k{network}"
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def test_a_run_that_ends_leaves_nothing(started: tuple[subprocess.Popen[str], Path, str, str]) -> None:
    process, directory, name, device = started
    assert left_of(directory, name)
    assert Path(f"/sys/class/net/{device}").exists()
    assert process.stdin is not None

    process.stdin.close()

    assert process.wait(WAIT_SECONDS_MAX) == 0
    assert left_of(directory, name) == []
    assert not Path(f"/sys/class/net/{device}").exists()
    assert not directory.exists()


def test_a_run_that_is_killed_leaves_nothing(started: tuple[subprocess.Popen[str], Path, str, str]) -> None:
    process, directory, name, device = started

    process.kill()

    wait_until(lambda: left_of(directory, name) == [])
    assert not Path(f"/sys/class/net/{device}").exists()
    assert not directory.exists()


def test_what_a_killed_holder_leaves_is_swept(started: tuple[subprocess.Popen[str], Path, str, str]) -> None:
    from tools.kubernetes.hold import sweep

    process, directory, name, device = started
    [holder] = [path for path in Path("/proc").glob("[0-9]*") if is_holder(path, directory)]

    os.kill(int(holder.name), signal.SIGKILL)
    process.kill()

    wait_until(lambda: not any(line.startswith("process") for line in left_of(directory, name)))
    assert directory in sweep()
    assert left_of(directory, name) == []
    assert not Path(f"/sys/class/net/{device}").exists()


def is_holder(process: Path, directory: Path) -> bool:
    try:
        words = (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"hold" in words and os.fsencode(directory) in words
