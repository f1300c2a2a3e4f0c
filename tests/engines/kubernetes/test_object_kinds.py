"""Attempts as objects of real controllers: Volcano's Job and PodGroup, Kueue's pod groups, on nodes that kwok plays.

The controllers are in no registry. BERTH_TEST_CONTROLLERS names a folder with their programs (`bin/NAME.xz`), definitions and
start scripts (`up/NAME.sh up BIN DIR`); without it these tests are skipped.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from clusters.engines.interface import (
    AttemptObservation,
    Ensured,
    ExitReason,
    Forgotten,
    GiveUp,
    Gone,
    ImageKind,
    ImageRef,
    Stop,
    StopCause,
    Stopping,
    TaskName,
    TaskState,
    TaskWorkload,
    Workload,
)
from clusters.engines.kubernetes import KubernetesConfig, KubernetesEngine, names, open_engine
from clusters.engines.settings import Outcome
from kernel.resources import Resources
from tests.builders import kubernetes
from tests.contract.engines.kubernetes_bench import remove_everything
from tools.kubernetes.api import ApiRefused
from tools.kubernetes.programs import PROGRAMS as PROGRAMS_OF_KUBERNETES
from tools.kubernetes.programs import Programs

if TYPE_CHECKING:
    from tools.kubernetes.cluster import Cluster

pytestmark = pytest.mark.kubernetes
FOLDER = "BERTH_TEST_CONTROLLERS"
PROGRAMS = {"volcano": ("vc-scheduler", "vc-controller-manager"), "kueue": ("kueue",)}
ON_REAL_NODES = ("kubelet", "coredns")
UP_SECONDS_MAX = 300
WAIT_SECONDS = 60.0
MERGE = "application/merge-patch+json"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """On loopback, where controllers on this machine can be asked by the API server, and nodes of 8 GPUs."""
    if not os.environ.get(FOLDER):
        pytest.skip(f"{FOLDER} names no folder with controllers.")
    if missing := Programs.cached().missing([name for name in PROGRAMS_OF_KUBERNETES if name not in ON_REAL_NODES]):
        pytest.skip(f"Not built yet: {', '.join(missing)}. `python -m tools.kubernetes build` builds them from their Go modules.")
    with kubernetes.running(nodes=0, simulated=2) as found:
        yield found


@pytest.fixture(scope="module")
def start(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], None]]:
    """Starts a controller, once."""
    folder, programs = Path(os.environ[FOLDER]), tmp_path_factory.mktemp("programs")
    running: dict[str, Path] = {}
    path = f"{cluster.programs.folder}:{os.environ['PATH']}"
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "PATH": path}

    def call(name: str, *words: str) -> None:
        command = ["bash", str(folder / "up" / f"{name}.sh"), *words]
        ended = subprocess.run(
            command, env=environment, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=UP_SECONDS_MAX,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stdout.decode()[-2_000:]

    def start(name: str) -> None:
        if name in running:
            return
        for program in PROGRAMS[name]:
            with (programs / program).open("wb") as file:
                subprocess.run(["xz", "-dc", str(folder / "bin" / f"{program}.xz")], stdout=file, check=True)
            (programs / program).chmod(0o755)
        running[name] = tmp_path_factory.mktemp(name)
        call(name, "up", str(programs), str(running[name]))

    yield start
    for name, place in running.items():
        call(name, "down", str(place))


class Place:
    """One engine on the cluster, with namespaces of its own."""

    def __init__(self, cluster: Cluster, **changes: Any) -> None:
        self.cluster = cluster
        values: dict[str, Any] = {
            "kubeconfig": cluster.kubeconfig.read_text(),
            "namespace_prefix": f"k{secrets.token_hex(4)}",
            "tolerations": (kubernetes.TOLERATION,),
            "pod_addresses": True,
            "requests_per_second": 500.0,
            "requests_burst": 500.0,
        }
        self.config = KubernetesConfig(str(uuid.uuid4()), **{**values, **changes})
        self.engine: KubernetesEngine = open_engine(self.config)
        self.namespace = names.tenant_namespace(self.config.namespace_prefix, "blue")

    def start(self, tasks: int = 2, gpus: int = 1) -> Workload:
        workload = self.workload(tasks, gpus)
        assert self.engine.ensure([workload]) == [Ensured(workload.attempt_id, created=True)]
        return workload

    def workload(self, tasks: int = 2, gpus: int = 1) -> Workload:
        task = TaskWorkload(TaskName("worker", 0), (("train",),), {}, resources=Resources(1_000, 1 << 20, gpus * 1_000))
        return Workload(
            attempt_id=uuid.uuid4(),
            job_id=uuid.uuid4(),
            number=1,
            name="digits",
            isolation_key="blue",
            isolation_number=7,
            user_key="alice",
            labels={},
            image=ImageRef(ImageKind.REGISTRY, "", "berth.test/none:1"),
            tasks=tuple(replace(task, name=TaskName("worker", index)) for index in range(tasks)),
        )

    def see(self, workload: Workload) -> AttemptObservation | None:
        found = self.engine.observe(None).items
        return next((item for item in found if item.attempt_id == workload.attempt_id), None)

    def wait(self, workload: Workload, *states: TaskState) -> AttemptObservation:
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            seen = self.see(workload)
            if seen is not None and [task.state for task in seen.tasks] == list(states):
                return seen
            assert time.monotonic() < deadline, f"{seen}\n{self.told()}"
            time.sleep(0.2)

    def pods(self, workload: Workload) -> list[dict[str, Any]]:
        query = f"labelSelector={names.ATTEMPT}%3D{workload.attempt_id}"
        found: list[dict[str, Any]] = self.cluster.request("GET", f"/api/v1/namespaces/{self.namespace}/pods?{query}")["items"]
        return sorted(found, key=lambda pod: pod["metadata"]["annotations"][names.INDEX])

    def let_end(self, pod: dict[str, Any], outcome: str, code: int = 0) -> None:
        notes = {"berth.test/outcome": outcome, "berth.test/exit": str(code)}
        self.cluster.request("PATCH", self.path_of(pod), {"metadata": {"annotations": notes}}, content_type=MERGE)

    def kill(self, pod: dict[str, Any], code: int) -> None:
        """What a kubelet would tell of a pod that is deleted: kwok's run on."""
        ended = {"exitCode": code, "reason": "Error", "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2099-01-01T00:00:00Z"}
        statuses = [{**pod["status"]["containerStatuses"][0], "ready": False, "state": {"terminated": ended}}]
        change = {"status": {"phase": "Failed", "containerStatuses": statuses}}
        self.cluster.request("PATCH", f"{self.path_of(pod)}/status", change, content_type=MERGE)

    def path_of(self, pod: dict[str, Any]) -> str:
        return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"

    def objects(self, path: str) -> list[dict[str, Any]]:
        group, _, plural = path.rpartition("/")
        found: list[dict[str, Any]] = self.cluster.request("GET", f"/apis/{group}/namespaces/{self.namespace}/{plural}")["items"]
        return found

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not is_so():
            assert time.monotonic() < deadline, self.told()
            self.engine.observe(None)
            time.sleep(0.2)

    def told(self) -> str:
        return self.cluster.kubectl("get", "pods,events", "-n", self.namespace)


@pytest.fixture
def open_place(cluster: Cluster) -> Iterator[Callable[..., Place]]:
    opened: list[Place] = []

    def make(**changes: Any) -> Place:
        opened.append(Place(cluster, **changes))
        return opened[-1]

    yield make
    for place in opened:
        place.engine.close()
        remove_everything(cluster, place.config)


# --- Before there are controllers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("setting", "value"), [("object_kind", "volcanojob"), ("gang_scheduler", "volcano")])
def test_a_cluster_without_the_controller_is_told_what_to_install(
    open_place: Callable[..., Place], cluster: Cluster, setting: str, value: str
) -> None:
    with contextlib.suppress(ApiRefused):
        cluster.request("GET", "/apis/batch.volcano.sh/v1alpha1")
        pytest.skip("Volcano is there already.")
    place = open_place(**{setting: value})
    (answer,) = place.engine.ensure([place.workload()])
    assert isinstance(answer, GiveUp)
    assert (answer.code, "install Volcano" in answer.detail) == ("engine_gave_up", True)
    assert "install Volcano" in place.engine.inventory().note
    finding = next(item for item in place.engine.check(datetime.now(UTC)) if item.check == "objects")
    assert finding.outcome is Outcome.FAILED


# --- Volcano ----------------------------------------------------------------------------------------------------------

BOTH = [TaskState.RUNNING, TaskState.RUNNING]
JOBS, GROUPS = "batch.volcano.sh/v1alpha1/jobs", "scheduling.volcano.sh/v1beta1/podgroups"


def test_an_attempt_as_volcanos_job_runs_to_its_end_and_leaves_nothing(
    start: Callable[[str], None], open_place: Callable[..., Place]
) -> None:
    start("volcano")
    place = open_place(object_kind="volcanojob")
    workload = place.start()
    place.wait(workload, *BOTH)
    assert {pod["spec"]["schedulerName"] for pod in place.pods(workload)} == {"volcano"}
    for pod in place.pods(workload):
        place.let_end(pod, "succeed")
    seen = place.wait(workload, TaskState.ENDED, TaskState.ENDED)
    assert [task.exit and task.exit.code for task in seen.tasks] == [0, 0]
    place.wait_until(lambda: place.objects(JOBS)[0]["status"]["state"]["phase"] == "Completed")
    assert place.engine.forget([workload.attempt_id]) == [Forgotten(workload.attempt_id)]
    place.wait_until(lambda: not place.objects(JOBS) and not place.pods(workload))
    assert place.see(workload) is None


def test_a_task_that_fails_leaves_the_other_running_and_none_is_started_again(
    start: Callable[[str], None], open_place: Callable[..., Place]
) -> None:
    start("volcano")
    place = open_place(object_kind="volcanojob")
    workload = place.start()
    place.wait(workload, *BOTH)
    first, second = place.pods(workload)
    place.let_end(second, "fail", 3)
    seen = place.wait(workload, TaskState.RUNNING, TaskState.ENDED)
    assert seen.tasks[1].exit is not None
    assert (seen.tasks[1].exit.code, seen.tasks[1].exit.reason) == (3, ExitReason.NONE)
    assert place.engine.stop([Stop(workload.attempt_id, 60.0, StopCause.COMPLETION)]) == [Stopping(workload.attempt_id)]
    place.kill(first, 143)
    seen = place.wait(workload, TaskState.ENDED, TaskState.ENDED)
    assert seen.tasks[0].exit is not None
    assert (seen.tasks[0].exit.reason, seen.tasks[0].exit.stop_cause) == (ExitReason.STOPPED, StopCause.COMPLETION)
    assert place.engine.forget([workload.attempt_id]) == [Forgotten(workload.attempt_id)]
    place.wait_until(lambda: not place.objects(JOBS) and not place.pods(workload))


def test_a_pod_deleted_by_hand_ends_as_evicted_and_the_one_made_in_its_place_never_runs(
    start: Callable[[str], None], open_place: Callable[..., Place]
) -> None:
    start("volcano")
    place = open_place(object_kind="volcanojob")
    workload = place.start()
    place.wait(workload, *BOTH)
    _, second = place.pods(workload)
    place.cluster.request("DELETE", place.path_of(second), {"gracePeriodSeconds": 0})
    place.kill(second, 137)
    seen = place.wait(workload, TaskState.RUNNING, TaskState.ENDED)
    assert seen.tasks[1].exit is not None
    assert seen.tasks[1].exit.reason is ExitReason.EVICTED
    for _ in range(10):  # Seconds for Volcano to react.
        place.see(workload)
        time.sleep(0.3)
    others = [pod for pod in place.pods(workload) if pod["metadata"]["uid"] != second["metadata"]["uid"]]
    assert all("nodeName" in pod["spec"] for pod in others if pod["metadata"]["annotations"][names.INDEX] == "0")
    assert all("nodeName" not in pod["spec"] for pod in others if pod["metadata"]["annotations"][names.INDEX] == "1")


def test_a_stop_before_the_gang_has_room_removes_the_job(start: Callable[[str], None], open_place: Callable[..., Place]) -> None:
    start("volcano")
    place = open_place(object_kind="volcanojob")
    workload = place.start(tasks=3, gpus=8)  # The nodes have 16: Volcano makes no pods.
    place.wait(workload, *[TaskState.PENDING] * 3)
    time.sleep(2.0)
    place.wait(workload, *[TaskState.PENDING] * 3)
    assert place.engine.stop([Stop(workload.attempt_id, 5.0, StopCause.USER)]) == [Gone(workload.attempt_id)]
    place.wait_until(lambda: not place.objects(JOBS) and not place.pods(workload))


def test_plain_pods_of_a_gang_wait_together_for_volcano(start: Callable[[str], None], open_place: Callable[..., Place]) -> None:
    start("volcano")
    place = open_place(gang_scheduler="volcano")
    large = place.start(tasks=3, gpus=8)
    small = place.start(tasks=2, gpus=1)
    place.wait(small, *BOTH)
    assert all("nodeName" not in pod["spec"] for pod in place.pods(large))
    for pod in place.pods(small):
        place.let_end(pod, "succeed")
    place.wait(small, TaskState.ENDED, TaskState.ENDED)
    assert place.engine.forget([small.attempt_id]) == [Forgotten(small.attempt_id)]
    assert [group["metadata"]["name"] for group in place.objects(GROUPS)] == [names.service_name(large.attempt_id)]


# --- Kueue ------------------------------------------------------------------------------------------------------------


def test_plain_pods_of_a_gang_wait_in_kueues_queue(start: Callable[[str], None], open_place: Callable[..., Place]) -> None:
    start("kueue")
    queue = f"gpus-{secrets.token_hex(4)}"
    place = open_place(gang_scheduler="kueue", scheduler_queue=queue)
    for document in _cluster_queue(queue, gpus=2):
        place.cluster.create(document)
    first = place.start()
    place.wait(first, *BOTH)
    second = place.start()
    for _ in range(5):
        place.wait(second, TaskState.PENDING, TaskState.PENDING)
        time.sleep(0.3)
    for pod in place.pods(second):
        gates = [gate["name"] for gate in pod["spec"]["schedulingGates"]]
        assert "kueue.x-k8s.io/admission" in gates
        assert names.SCHEDULING_GATE not in gates
    for pod in place.pods(first):
        place.let_end(pod, "succeed")
    place.wait(first, TaskState.ENDED, TaskState.ENDED)
    assert place.engine.forget([first.attempt_id]) == [Forgotten(first.attempt_id)]
    place.wait(second, *BOTH)


def _cluster_queue(name: str, *, gpus: int) -> list[dict[str, Any]]:
    version = "kueue.x-k8s.io/v1beta1"
    quotas = {"cpu": "64", "memory": "64Gi", "nvidia.com/gpu": str(gpus)}
    flavor = {"name": name, "resources": [{"name": resource, "nominalQuota": amount} for resource, amount in quotas.items()]}
    groups = [{"coveredResources": list(quotas), "flavors": [flavor]}]
    return [
        {"apiVersion": version, "kind": "ResourceFlavor", "metadata": {"name": name}},
        {
            "apiVersion": version,
            "kind": "ClusterQueue",
            "metadata": {"name": name},
            "spec": {"namespaceSelector": {}, "resourceGroups": groups},
        },
    ]
