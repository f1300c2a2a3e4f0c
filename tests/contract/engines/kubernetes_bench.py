"""The Kubernetes engine on a bench: a cluster id and namespaces of its own, on the real node of this run."""

from __future__ import annotations

import contextlib
import secrets
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from clusters.engines.kubernetes import KubernetesConfig, open_engine
from clusters.engines.kubernetes import names as labels
from tests.builders import kubernetes
from tools.kubernetes.api import ApiRefused

if TYPE_CHECKING:
    from tests.contract.engines.bench import Bench
    from tools.kubernetes.cluster import Cluster

CLEAN_SECONDS = 30.0
FORMS = ("before another", "before a pipe", "in a shell of the user", "beneath a program that passes signals on")


@contextlib.contextmanager
def open_kubernetes_bench(directory: Path) -> Iterator[Bench]:
    """A bench whose jobs of the host's own programs run in an image with Python. All that it made goes with it."""
    from tests.contract.engines.bench import Bench

    kubernetes.skip_without_kubernetes()
    with kubernetes.shared() as cluster:
        config = config_of(cluster, directory)
        bench = Bench("kubernetes", lambda: open_engine(config), forms=FORMS)
        try:
            yield bench
        finally:
            bench.close()
            remove_everything(cluster, config)


def config_of(cluster: Cluster, directory: Path, **changes: object) -> KubernetesConfig:
    """For the test node: no DNS, and a directory of this machine as the shared one."""
    shared = directory / "checkpoints"
    shared.mkdir(exist_ok=True)
    shared.chmod(0o777)  # The kubelet makes directories below it with the same rights.
    values: dict[str, object] = {
        "kubeconfig": cluster.kubeconfig.read_text(),
        "namespace_prefix": f"b{secrets.token_hex(4)}",
        "default_image": kubernetes.PYTHON_IMAGE,
        "pod_addresses": True,
        "shared_paths": (str(shared),),
        "gpus_simulated": True,
        "cpu_request_percent": 10,  # The machine may have two processors.
        "requests_per_second": 500.0,
        "requests_burst": 500.0,
    }
    return KubernetesConfig(str(uuid.uuid4()), **{**values, **changes})  # type: ignore[arg-type]


def remove_everything(cluster: Cluster, config: KubernetesConfig) -> None:
    """End its pods, then delete its namespaces and volumes."""
    selector = f"labelSelector={labels.CLUSTER}%3D{config.cluster_id}"
    deadline = time.monotonic() + CLEAN_SECONDS
    while pods := cluster.request("GET", f"/api/v1/pods?{selector}")["items"]:
        for pod in pods:
            path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
            with contextlib.suppress(ApiRefused):
                cluster.request("DELETE", path, {"gracePeriodSeconds": 0})
            with contextlib.suppress(ApiRefused):
                cluster.request("PATCH", path, {"metadata": {"finalizers": None}}, content_type="application/merge-patch+json")
        if time.monotonic() > deadline:
            break
        time.sleep(0.1)
    for kind in ("namespaces", "persistentvolumes"):
        for item in cluster.request("GET", f"/api/v1/{kind}?{selector}")["items"]:
            cluster.request("DELETE", f"/api/v1/{kind}/{item['metadata']['name']}")
