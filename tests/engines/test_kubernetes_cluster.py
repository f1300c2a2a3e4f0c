"""A Kubernetes cluster in a platform that runs: added by the command line, used, broken, looked at with kubectl, removed."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.builders.command import berth
from tests.builders.kubernetes import PYTHON_IMAGE, resets_before_handshakes
from tests.builders.live import Json, LivePlatform, running_platform, wait_until
from tests.engines.test_code_from_git import a_repository, git_server, with_code
from tools.kubernetes.images import GIT_IMAGE, make_git_image

if TYPE_CHECKING:
    from tools.kubernetes.cluster import Cluster

pytestmark = [pytest.mark.kubernetes, pytest.mark.database, pytest.mark.timeout(600), resets_before_handshakes]

NAME = "k8s"
PATIENCE = 120.0
TWO_WORKERS = {
    "name": "pair",
    "cluster": NAME,
    "framework": "none",
    "roles": {"worker": {"replicas": 2, "command": "for n in 1 2 3 4 5; do echo step $n of $HOSTNAME; sleep 1; done",
                         "resources": {"cpu": 1, "memory": "64Mi"}}},
}  # fmt: skip


@pytest.fixture(scope="module")
def live_platform() -> Iterator[LivePlatform]:
    """A platform whose operators trust the Git server of these tests, whose certificate is its own."""
    profile = os.environ.get("BERTH_TEST_PROFILE", "embedded")
    with running_platform(BERTH_SERVER_PROFILE=profile, GIT_SSL_NO_VERIFY="1") as platform:
        yield platform


@pytest.fixture(scope="module")
def prefix() -> str:
    return f"b{secrets.token_hex(4)}"


@pytest.fixture(scope="module")
def account(own_kubernetes_cluster: Cluster) -> Path:
    """A kubeconfig of an account that has the ClusterRole of the documents, and nothing else."""
    role = Path("docs/kubernetes.md").read_text().split("```text\n")[1].split("```")[0]
    own_kubernetes_cluster.kubectl("apply", "-f", "-", text=role)
    own_kubernetes_cluster.kubectl("create", "clusterrolebinding", "berth", "--clusterrole=berth", "--user=berth")
    return own_kubernetes_cluster.kubeconfig_for("berth")


@pytest.fixture(scope="module")
def added(live_platform: LivePlatform, own_kubernetes_cluster: Cluster, account: Path, prefix: str) -> Iterator[Json]:
    """The cluster, added as the guide says it, once its inventory is read."""
    settings = {"namespace_prefix": prefix, "default_image": PYTHON_IMAGE, "gpus_simulated": "true", "cpu_request_percent": "10"}
    words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    shown = berth(live_platform.operator, "clusters", "add", NAME, "--kubeconfig", str(account), *words, "--json")
    cluster = json.loads(shown)
    wait_until(lambda: pools_of(live_platform), "the pools of the new cluster", timeout=PATIENCE)
    yield cluster
    live_platform.operator.request("DELETE", f"/clusters/{cluster['id']}")


def pools_of(platform: LivePlatform) -> list[Json]:
    return [pool for pool in platform.operator.items("/pools") if pool["cluster"]["name"] == NAME]


@pytest.mark.capability("6", "A cluster is added by a command while the platform runs, and its check says what it lacks")
def test_its_check_says_what_is_so(live_platform: LivePlatform, added: Json) -> None:
    found = json.loads(berth(live_platform.operator, "clusters", "check", NAME, "--json"))
    outcomes = {item["check"]: item["outcome"] for item in found["items"]}
    assert {name for name, outcome in outcomes.items() if outcome == "failed"} == set()
    assert {"reachable", "tls", "version", "permissions", "authentication", "namespaces", "nodes"} <= set(outcomes)
    cluster = live_platform.api("GET", f"/clusters/{added['id']}")
    assert (cluster["condition"]["name"], cluster["access"]["account"]) == ("reachable", "berth")


@pytest.mark.capability("6", "A cluster is added by a command while the platform runs, and its check says what it lacks")
def test_an_account_that_is_too_weak_is_told_what_it_lacks(
    live_platform: LivePlatform, own_kubernetes_cluster: Cluster, added: Json
) -> None:
    weak = own_kubernetes_cluster.kubeconfig_for("nobody").read_text()
    found = live_platform.api("POST", f"/clusters/{added['id']}/check", {"credentials": weak})
    lacking = [item["text"] for item in found["items"] if item["check"] == "permissions"]
    assert found["outcome"] == "failed"
    assert any("list on nodes (the inventory)" in text for text in lacking)
    none = live_platform.api("POST", f"/clusters/{added['id']}/check", {"config": {"node_selector": {"team": "nobody"}}})
    [nodes] = [item for item in none["items"] if item["check"] == "nodes"]
    assert (nodes["outcome"], nodes["text"]) == ("failed", "No node has the labels team=nobody.")


@pytest.mark.capability("6", "Tasks run in pods, their log is followed, and kubectl says what Berth says")
def test_two_workers_run_in_pods_and_their_log_is_followed(
    live_platform: LivePlatform, own_kubernetes_cluster: Cluster, added: Json, prefix: str
) -> None:
    [pool] = pools_of(live_platform)
    job = live_platform.submit({**TWO_WORKERS, "pool": pool["name"]}, wait=["running"])
    live_platform.operator.wait_for_line(job, "step 2 of")
    pods = json.loads(own_kubernetes_cluster.kubectl("get", "pods", "-A", "-l", f"berth.dev/job={job['id']}", "-o", "json"))[
        "items"
    ]
    assert {pod["status"]["phase"] for pod in pods} == {"Running"}
    assert {pod["metadata"]["namespace"].startswith(f"{prefix}-t-") for pod in pods} == {True}
    done = live_platform.wait(job)
    assert (done["state"], done["attempt"]) == ("succeeded", 1)
    log = live_platform.logs(job)
    assert [log.count(f"step {number} of") for number in range(1, 6)] == [2] * 5
    assert live_platform.operator.states(job) == ["queued", "admitted", "starting", "running", "succeeded"]


STEPS = """srun python3 -c 'import os; print("rank", os.environ["SLURM_PROCID"], "node", os.environ["SLURM_NODEID"], flush=True)'
srun -N1 -n1 -c1 sh -c 'echo one of $BERTH_CPUS in $OMP_NUM_THREADS' &
srun -N1 -n1 -c1 sh -c 'echo two of $BERTH_CPUS in $OMP_NUM_THREADS' &
wait
test "$(scontrol show hostnames | wc -l)" = 2 && echo names"""


@pytest.mark.capability("6", "Roles start in order in pods, and a killed command is started again in its pod")
def test_roles_start_in_order_and_a_killed_command_starts_again_in_its_pod(live_platform: LivePlatform, added: Json) -> None:
    small = {"resources": {"cpu": "100m", "memory": "128Mi"}}
    serve = {
        **small,
        "command": "exec python3 -m http.server $BERTH_PORT_WEB",
        "ports": ["web"],
        "ready": {"port": "web", "path": "/"},
    }
    fetch = "import os, urllib.request as u; e = os.environ; print('got', u.urlopen(f'http://{e[\"SERVER\"]}/').status)"
    once = 'test -e tried || { touch tried; kill -9 $$; }; SERVER=$BERTH_SERVER_HOSTS:$BERTH_SERVER_PORTS_WEB python3 -c "$FETCH"'
    client = {**small, "command": once, "start_after_ready": ["server"], "max_retry": 1, "env": {"FETCH": fetch}}
    spec = {"cluster": NAME, "roles": {"server": serve, "client": client}, "completion": {"chief": "client"}}
    job = live_platform.submit(spec, wait=True)
    text = live_platform.logs(job)
    assert job["state"] == "succeeded", text
    assert "was ended by signal 9; it is started again (1 of 1)" in text
    assert "got 200" in text
    states = {task["role"]: task["state"] for task in live_platform.operator.items(f"/jobs/{job['id']}/tasks")}
    assert states == {"client": "succeeded", "server": "stopped"}


def test_srun_starts_processes_in_pods(live_platform: LivePlatform, added: Json) -> None:
    [pool] = pools_of(live_platform)
    role = {"replicas": 2, "command": ["/bin/sh", "-c", STEPS], "resources": {"cpu": 1, "memory": "128Mi"}}
    spec = {"name": "steps", "cluster": NAME, "pool": pool["name"], "framework": "slurm", "roles": {"worker": role}}
    job = live_platform.submit(spec, wait=True)
    text = live_platform.logs(job)
    assert job["state"] == "succeeded", text
    assert sorted(text.splitlines()) == ["names", "one of 1 in 1", "rank 0 node 0", "rank 1 node 1", "two of 1 in 1"]


@pytest.fixture
def pods_alone(live_platform: LivePlatform, added: Json) -> Iterator[None]:
    """Jobs that may go anywhere go to the Kubernetes cluster."""
    berth(live_platform.operator, "clusters", "disable", "local")
    yield
    berth(live_platform.operator, "clusters", "enable", "local")
    berth(live_platform.operator, "clusters", "change", NAME, "--set", f"default_image={PYTHON_IMAGE}")


@pytest.mark.capability("6", "Code from Git is fetched in a pod whose image has Git, and one without says so")
@pytest.mark.usefixtures("pods_alone")
def test_code_from_git_is_fetched_in_a_pod_whose_image_has_git(
    live_platform: LivePlatform, own_kubernetes_cluster: Cluster, tmp_path: Path
) -> None:
    (root := tmp_path / "git").mkdir()
    with git_server(root, own_kubernetes_cluster.host) as server:
        repository = a_repository((root, server.url(own_kubernetes_cluster.host)), tmp_path, "open")
        commit = repository.commit(hello__txt="hello from the branch\n")
        spec = {**with_code(repository), "resources": {"cpu": 1, "memory": "64Mi"}}
        refused = live_platform.submit(spec, wait=True)
        assert (refused["state"], refused["reason"]["code"]) == ("stopped", "code_not_fetched")
        assert "Git or ssh is not installed" in refused["reason"]["text"]
        archive = tmp_path / "git.tar"
        make_git_image(archive)
        own_kubernetes_cluster.nodes[0].import_image(archive)
        berth(live_platform.operator, "clusters", "change", NAME, "--set", f"default_image={GIT_IMAGE}")
        done = live_platform.submit(spec, wait=True)
    assert (done["state"], done["code"]["commit"]) == ("succeeded", commit), done
    assert live_platform.logs(done) == "hello from the branch\n"


@pytest.mark.capability("65", "A job without a cluster's name goes to the cluster that can mount its volumes")
def test_jobs_go_to_the_cluster_of_their_claim_and_find_there_what_others_wrote(
    live_platform: LivePlatform, own_kubernetes_cluster: Cluster, added: Json, prefix: str, tmp_path: Path
) -> None:
    operator = live_platform.operator
    tmp_path.chmod(0o777)
    spaces = own_kubernetes_cluster.kubectl("get", "namespaces", "-o", "name").split()
    [namespace] = [space.partition("/")[2] for space in spaces if f"/{prefix}-t-" in space]  # An earlier job made it.
    bound = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    disk = {**bound, "capacity": {"storage": "1Gi"}, "hostPath": {"path": str(tmp_path)}}
    claim = {**bound, "volumeName": prefix, "resources": {"requests": {"storage": "1Gi"}}}
    documents: list[Json] = [
        {"kind": "PersistentVolume", "metadata": {"name": prefix}, "spec": disk},
        {"kind": "PersistentVolumeClaim", "metadata": {"name": "shelf", "namespace": namespace}, "spec": claim},
    ]
    for document in documents:
        own_kubernetes_cluster.kubectl("apply", "-f", "-", text=json.dumps({"apiVersion": "v1", **document}))
    berth(operator, "volumes", "create", "shelf", "--cluster", NAME, "--claim", "shelf")
    shelf = {"mounts": [{"volume": "shelf", "path": "/data"}], "resources": {"cpu": 1, "memory": "64Mi"}}
    wrote = live_platform.submit({"name": "writes", "command": "echo seven > /data/label", **shelf}, wait=True)
    read = live_platform.submit({"name": "reads", "command": "cat /data/label", **shelf}, wait=True)
    assert (wrote["state"], read["state"]) == ("succeeded", "succeeded"), live_platform.logs(read)
    assert live_platform.logs(read) == "seven\n"
    elsewhere = {"name": "elsewhere", "cluster": "local", "command": "true", **shelf}
    refused = operator.request("POST", "/jobs", json={"spec": elsewhere, **operator.in_tenant})
    assert (refused.status_code, refused.json()["fields"][0]["code"]) == (422, "volume_place")
    berth(operator, "volumes", "delete", "shelf", "--yes")


@pytest.mark.capability("6", "A job outlives the death of the API server, and succeeds once")
@pytest.mark.capability("67", "A cluster that does not answer delays no job of another, and fails none of its own")
def test_a_job_outlives_the_api_server(live_platform: LivePlatform, own_kubernetes_cluster: Cluster, added: Json) -> None:
    plane = own_kubernetes_cluster.control_plane
    roles = {"worker": {"replicas": 2, "command": "echo began; sleep 20; echo over", "resources": {"cpu": 1, "memory": "64Mi"}}}
    job = live_platform.submit({**TWO_WORKERS, "name": "outlives", "roles": roles}, wait=["running"])
    live_platform.operator.wait_for_line(job, "began")
    plane.kill("kube-apiserver")

    def is_lost() -> bool:
        return bool(live_platform.api("GET", f"/clusters/{added['id']}")["condition"]["name"] == "lost_contact")

    wait_until(is_lost, "lost contact", timeout=PATIENCE)
    local = live_platform.submit({"name": "beside", "cluster": "local", "command": "echo here"}, wait=True)
    assert local["state"] == "succeeded"
    assert live_platform.operator.job(job)["state"] == "running"
    plane.start("kube-apiserver")
    plane.wait_ready()
    done = live_platform.wait(job, timeout=PATIENCE)
    assert (done["state"], done["attempt"]) == ("succeeded", 1)
    log = live_platform.logs(job)
    assert (log.count("began"), log.count("over")) == (2, 2)
    assert live_platform.operator.states(job).count("succeeded") == 1


CORES = """python3 -c 'import os; print("cores", *sorted(os.sched_getaffinity(0)))'"""


@pytest.fixture
def static_cores(live_platform: LivePlatform, own_kubernetes_cluster: Cluster, added: Json) -> Iterator[None]:
    """The node's kubelet gives whole cores to one container alone, all but core 0, and the operator says so."""
    [node] = own_kubernetes_cluster.nodes
    node.set_kubelet(cpuManagerPolicy="static", reservedSystemCPUs="0")
    berth(live_platform.operator, "clusters", "change", NAME, "--set", "exclusive_cores=true")
    yield
    berth(live_platform.operator, "clusters", "change", NAME, "--set", "exclusive_cores=false")
    node.set_kubelet()


@pytest.mark.capability("71", "On a cluster whose kubelets have the static policy a pod is bound to cores of its own")
@pytest.mark.skipif(
    sorted(os.sched_getaffinity(0))[:2] != [0, 1], reason="core 0 is to be the kubelet's, and another one a task's"
)
@pytest.mark.usefixtures("static_cores")
def test_a_task_in_a_pod_is_bound_to_cores_of_its_own(live_platform: LivePlatform, own_kubernetes_cluster: Cluster) -> None:
    ask = {"cluster": NAME, "resources": {"cpu": 1, "memory": "64Mi"}}
    shared = live_platform.submit({**ask, "name": "shared", "command": CORES}, wait=True)
    cores = [str(core) for core in sorted(os.sched_getaffinity(0))]
    assert live_platform.logs(shared).split() == ["cores", *cores]
    wait_until(lambda: offered_cores(live_platform) == str(len(cores) - 1), "the inventory's word of them", timeout=PATIENCE)
    asked = {**ask["resources"], "cpu_exclusive": True}
    alone = live_platform.submit({**ask, "name": "alone", "resources": asked, "command": CORES}, wait=True)
    [_, core] = live_platform.logs(alone).split()
    assert core in cores[1:]


def offered_cores(platform: LivePlatform) -> str | None:
    [node] = [node for node in platform.operator.items("/nodes") if node["cluster"]["name"] == NAME]
    offered: str | None = node["labels"].get("exclusive_cores")
    return offered


@pytest.mark.capability("111", "A cluster with its nodes is added, drained and removed while the platform runs")
def test_it_is_drained_and_then_removed(live_platform: LivePlatform, own_kubernetes_cluster: Cluster, added: Json) -> None:
    operator = live_platform.operator
    roles = {"worker": {"replicas": 1, "command": "sleep 600", "resources": {"cpu": 1, "memory": "64Mi"}}}
    job = live_platform.submit({**TWO_WORKERS, "name": "last", "roles": roles}, wait=["running"])
    refused = operator.request("DELETE", f"/clusters/{added['id']}")
    assert (refused.status_code, refused.json()["fields"][0]["code"]) == (409, "live_attempts")
    berth(operator, "clusters", "disable", NAME)
    late = operator.request("POST", "/jobs", json={"spec": {**TWO_WORKERS, "name": "late"}, **operator.in_tenant})
    assert (late.status_code, "Cluster k8s is disabled." in late.text) == (422, True)
    assert live_platform.operator.job(job)["state"] == "running"
    live_platform.operator.stop(job, grace_seconds=1)
    live_platform.wait(job)
    wait_until(lambda: not_refused(live_platform), "what the ended attempts left", timeout=PATIENCE)
    assert NAME not in berth(operator, "clusters", "list")
    assert pools_of(live_platform) == []
    of_berth = ("get", "pods", "-A", "-l", f"berth.dev/cluster={added['id']}", "-o", "name")
    wait_until(lambda: not own_kubernetes_cluster.kubectl(*of_berth).strip(), "the kubelet's own end of the last pod")
    assert live_platform.operator.job(job)["state"] == "stopped"


def not_refused(platform: LivePlatform) -> bool:
    try:
        berth(platform.operator, "clusters", "remove", NAME, "--yes")
    except AssertionError as refusal:
        if "output is still being fetched" in str(refusal):
            return False
        raise
    return True
