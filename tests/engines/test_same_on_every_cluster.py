"""One job file with a container image, on this machine and on a real Kubernetes cluster: the same states, ends and output.

The image comes from a real registry that wants the tenant's account; the local engine unpacks it, the kubelet pulls it. What was
seen is printed as a table, a line per job, and compared cluster by cluster.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.builders.command import berth
from tests.builders.kubernetes import allow_plain_http
from tests.builders.live import ENDED, Json, LivePlatform, running_platform, wait_until
from tests.builders.registry import PASSWORD, USER, RealRegistry, registry, shell

if TYPE_CHECKING:
    from tools.kubernetes.cluster import Cluster

pytestmark = [pytest.mark.kubernetes, pytest.mark.database, pytest.mark.timeout(600)]

CLUSTERS = ("local", "k8s")
PATIENCE = 180.0
SMALL = {"cpu": "100m", "memory": "64Mi"}  # All of them together on two processors.


@dataclass(frozen=True)
class Case:
    """A job, what a person does once it has said `ready`, the class of its end, and what is kept of its files."""

    name: str
    spec: Mapping[str, Any]
    end: str
    act: Callable[[LivePlatform, Json], object] | None = None
    kept: Sequence[str] = ()


def stop(platform: LivePlatform, job: Json) -> None:
    platform.operator.stop(job, grace_seconds=1)


def of_two(first: str, others: str) -> Json:
    """Two workers, of which the first does something else."""
    return {"roles": {"worker": {"replicas": 2, "command": f"if [ $BERTH_INDEX = 0 ]; then {first}; else {others}; fi",
                                 "resources": SMALL}}}  # fmt: skip


ONCE_MORE = {"command": "echo ready; exit $((BERTH_ATTEMPT < 2))", "retry": {"limit": 1, "on": ["user"]}}
HOG = "echo ready; dd if=/dev/zero of=/dev/null bs=200M count=1; exit $?"
SAVE = "mkdir model; echo done >model/weights; echo done"
CASES = (
    Case("succeeds", {"command": "echo ready; echo done"}, "success"),
    Case("fails", {"command": "echo ready; exit 7"}, "program_error"),
    Case("no such program", {"command": ["/no/such/program"]}, "start_failed"),
    Case("fails, then succeeds", ONCE_MORE, "success"),
    Case("killed from inside", {"command": "echo ready; kill -9 $$"}, "killed"),
    Case("beyond its memory", {"command": HOG}, "oom"),
    Case("beyond its time", {"command": "echo ready; sleep 600", "max_runtime": "2s"}, "deadline"),
    Case("stopped", {"command": f"trap '{SAVE}; exit 0' TERM; echo ready; while :; do sleep 0.1; done", "outputs": ["model"]},
         "stopped_by_user", stop, ("model/weights 5",)),
    Case("stopped, deaf", {"command": "trap '' TERM; echo ready; while :; do sleep 0.1; done"}, "stopped_by_user", stop),
    Case("two succeed", of_two("echo ready", "echo ready"), "success"),
    Case("one of two fails", of_two("echo ready; exit 3", "echo ready; sleep 600"), "program_error"),
)  # fmt: skip


@pytest.fixture(scope="module")
def images(kubernetes_cluster: Cluster) -> Iterator[RealRegistry]:
    """A registry that both clusters reach, with plain HTTP as containerd is told."""
    with registry(password=PASSWORD, address=kubernetes_cluster.host) as found:
        allow_plain_http(kubernetes_cluster, found.host)
        yield found


@pytest.fixture(scope="module")
def platform(
    kubernetes_cluster: Cluster, images: RealRegistry, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LivePlatform]:
    """A platform with both clusters and the tenant's account at the registry."""
    hosts = {"BERTH_REGISTRY_PRIVATE_HOSTS": images.host, "BERTH_REGISTRY_PLAIN_HOSTS": images.host}
    with running_platform(**hosts) as running:
        settings = {"namespace_prefix": f"b{secrets.token_hex(4)}", "cpu_request_percent": "10"}
        words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        kubeconfig: Path = tmp_path_factory.mktemp("account") / "kubeconfig"
        kubeconfig.write_text(kubernetes_cluster.kubeconfig.read_text())
        berth(running.operator, "clusters", "add", "k8s", "--kubeconfig", str(kubeconfig), *words)
        berth(running.operator, "registries", "add", images.host, "-u", USER, given=PASSWORD)
        wait_until(lambda: clusters_with_pools(running) >= set(CLUSTERS), "the pools of both clusters", timeout=PATIENCE)
        yield running


def clusters_with_pools(platform: LivePlatform) -> set[str]:
    return {pool["cluster"]["name"] for pool in platform.operator.items("/pools")}


@pytest.fixture(scope="module")
def image(images: RealRegistry) -> str:
    images.push("team/shell:1", [shell()])
    return f"{images.host}/team/shell:1"


@dataclass(frozen=True)
class Seen:
    """What a person sees of a job that has ended."""

    states: tuple[str, ...]
    attempts: int
    end: str
    code: int | None
    output: tuple[str, ...]
    kept: tuple[str, ...]

    def line(self) -> str:
        left = " ".join((*self.output, *self.kept))
        return f"{' > '.join(self.states)} | attempts {self.attempts} | {self.end}, exit {self.code} | {left}"


def submit(platform: LivePlatform, case: Case, cluster: str, image: str) -> Json:
    resources = {} if "roles" in case.spec else {"resources": SMALL}
    name = case.name.replace(",", "").replace(" ", "-")
    return platform.submit({"name": name, "cluster": cluster, "image": image, **resources, **case.spec})


def see(platform: LivePlatform, case: Case, job: Json) -> Seen:
    if case.act is not None:
        platform.operator.wait_for_line(job, "ready")
        case.act(platform, job)
    ended = platform.wait(job, ENDED, timeout=PATIENCE)
    words = sorted(line for line in platform.logs(job).splitlines() if line in ("ready", "done"))
    kept = [f"{file['path']} {file['size_bytes']}" for file in platform.operator.artifacts(job)] if case.kept else []
    states, end = tuple(platform.operator.states(job)), ended["exit"]
    return Seen(states, ended["attempt"], end["class"], end["code"], tuple(words), tuple(kept))


@pytest.mark.capability("6.15", "The same job files give the same states, ends and outputs on this machine and in pods")
@pytest.mark.capability("65", "The same job files give the same states, ends and outputs on this machine and in pods")
def test_the_same_job_file_gives_the_same_states(
    platform: LivePlatform, image: str, show_table: Callable[[str, Sequence[str]], None]
) -> None:
    jobs = {(case.name, cluster): submit(platform, case, cluster, image) for case in CASES for cluster in CLUSTERS}
    seen = {case.name: {cluster: see(platform, case, jobs[case.name, cluster]) for cluster in CLUSTERS} for case in CASES}
    rows = [(name, cluster, found.line()) for name, by_cluster in seen.items() for cluster, found in by_cluster.items()]
    show_table("The same job file on every cluster", [f"  {name:<22}{cluster:<8}{line}" for name, cluster, line in rows])
    assert {name: found["local"] for name, found in seen.items()} == {name: found["k8s"] for name, found in seen.items()}
    expected = {case.name: (case.end, tuple(case.kept)) for case in CASES}
    assert {name: (found["local"].end, found["local"].kept) for name, found in seen.items()} == expected
