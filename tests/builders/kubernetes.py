"""A real Kubernetes for tests: etcd, API server, controllers, scheduler, DNS, and a real node with containerd and a kubelet.

    @pytest.mark.kubernetes
    def test_a_pod_fails(kubernetes_cluster: Cluster) -> None:
        with kubernetes_cluster.namespace() as namespace:
            kubernetes_cluster.create(pod("first", namespace, "exit 7"))
            ended = kubernetes_cluster.wait_for_pod(namespace, "first", "Failed")

`kubernetes_cluster` is one for the whole run, shared by all workers of xdist: tests work in namespaces of their own there, and
leave its programs and its node as they found them. `own_kubernetes_cluster` belongs to one file, which may do with it what it
likes. Both skip, with the reason, where there is no root, or a program or package is missing that cannot be had here. Both have
`SHELL_IMAGE` and `PYTHON_IMAGE` on their node, and end with the run, even if that is killed (`tools/kubernetes/hold.py`).

Of a `Cluster` (`tools/kubernetes/cluster.py`), what tests use most:

    kubeconfig                          file of the administrator (system:masters)
    kubeconfig_for(user, groups)        file of a person, who may do what RBAC says; kubeconfig_of_account(namespace, name)
    server, authority                   "https://10.210.0.1:443" and the file of its certificate authority
    host                                the address by which pods reach this machine; names are those of Services alone
    request(method, path, body)         parsed JSON, as the administrator; raises ApiRefused(status, reason, message)
    create(document), delete(document), kubectl(*words, text="")
    namespace(prefix, labels)           a context manager: restricted Pod Security, and gone afterwards
    pod(namespace, name), wait_for_pod(namespace, name, *phases), logs(namespace, name)
    drop("INPUT"), pass_all()           of packets between this machine and the control plane
    control_plane                       kill(name), stop(name), start(name), wait_ready(); kubelets are in `nodes`
    nodes[0]                            kill("kubelet"), start("kubelet"), cut_off(), reconnect(), drop("INPUT"), pass_all(),
                                        power_off(), power_on(), set_gpus(4), import_image(archive), ctr(*words), registries
    add_simulated_nodes(number, gpus=8) nodes of kwok; annotations of their pods say what becomes of them
                                        (`tools/kubernetes/stages.yaml`), and a pod needs `TOLERATION` to get there
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.builders.prepared import made_once

if TYPE_CHECKING:
    from tools.kubernetes.cluster import Cluster

SHELL_IMAGE = "berth.test/shell:1"
PYTHON_IMAGE = "berth.test/python:1"
USER = 10_001  # Restricted Pod Security admits no root.
TOLERATION: Mapping[str, str] = {"key": "kwok.x-k8s.io/node", "operator": "Exists", "effect": "NoSchedule"}

# For files that kill an API server: Python 3.11's ssl leaves a socket open whose other end was reset before the handshake, and it
# is told in whatever test it is collected. Such a socket has no `raddr`; one left open to a live server has, and fails a test.
resets_before_handshakes = pytest.mark.filterwarnings(
    r"ignore:unclosed <ssl\.SSLSocket fd=\d+, family=\d, type=\d, proto=\d, laddr=\('[\d.]+', \d+\)>:ResourceWarning"
)


def allow_plain_http(cluster: Cluster, registry: str) -> None:
    """Have the nodes speak to the registry `HOST:PORT` over plain HTTP."""
    for node in cluster.nodes:
        place = node.registries / registry
        place.mkdir(parents=True, exist_ok=True)
        (place / "hosts.toml").write_text(f'[host."http://{registry}"]\n  capabilities = ["pull", "resolve"]\n')


@pytest.fixture(scope="session")
def kubernetes_cluster() -> Iterator[Cluster]:
    """A control plane and one real node with 4 simulated GPUs, shared by the whole run."""
    skip_without_kubernetes()
    with shared() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def own_kubernetes_cluster() -> Iterator[Cluster]:
    """The same, of one file of tests."""
    skip_without_kubernetes()
    with running() as cluster:
        yield cluster


@contextlib.contextmanager
def running(*, nodes: int = 1, simulated: int = 0, gpus: int = 4) -> Iterator[Cluster]:
    """A cluster that ends with the block, and with this process if that is killed."""
    from tools.kubernetes.hold import held

    with held(nodes=nodes, simulated=simulated, gpus=gpus, with_python=True) as cluster:
        yield cluster


@contextlib.contextmanager
def shared() -> Iterator[Cluster]:
    """The one of this run: the first process that asks starts it, and it ends with the last process that has asked."""
    if not _joined:
        with made_once("kubernetes") as folder:
            _joined.append(_join(folder / "directory"))
    yield _joined[0]


_joined: list[Cluster] = []
_until_the_end = contextlib.ExitStack()  # Of this process: a start takes far longer than any test.


def _join(place: Path) -> Cluster:
    """The cluster that another process of this run has started, or a new one, whose directory is written to `place`."""
    from tools.kubernetes.hold import joined

    if place.exists():
        with contextlib.suppress(ConnectionError):  # It has ended with the processes before.
            return _until_the_end.enter_context(joined(Path(place.read_text())))
    cluster = _until_the_end.enter_context(running())
    place.write_text(str(cluster.directory))
    return cluster


def pytest_unconfigure() -> None:
    """Let the cluster go, and wait until it is gone if this was the last process that used it."""
    _joined.clear()
    _until_the_end.close()


def skip_without_kubernetes() -> None:
    """Skip a test where no cluster can be started, and say what is missing. Debian's packages are installed if they can be."""
    from tools.kubernetes.node import install_packages
    from tools.kubernetes.programs import Programs
    from tools.progress import Stop

    if os.geteuid() != 0:
        pytest.skip("A real Kubernetes node needs root.")
    if missing := Programs.cached().missing():
        pytest.skip(f"Not built yet: {', '.join(missing)}. `python -m tools.kubernetes build` builds them from their Go modules.")
    try:
        install_packages()
    except Stop as refusal:
        pytest.skip(str(refusal))


def pod(
    name: str,
    namespace: str,
    command: str,
    *,
    image: str = SHELL_IMAGE,
    resources: Mapping[str, Mapping[str, str]] | None = None,
    annotations: Mapping[str, str] | None = None,
    spec: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A pod that restricted Pod Security admits and that runs a line of shell once. `spec` adds to its spec, or replaces."""
    container = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "Never",
        "command": ["/bin/sh", "-c", command],
        "resources": dict(resources or {}),
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "annotations": dict(annotations or {})},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "securityContext": {"runAsNonRoot": True, "runAsUser": USER, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [container],
            **(spec or {}),
        },
    }
