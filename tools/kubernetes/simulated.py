"""Nodes that kwok plays: the API server has them, and no machine. `stages.yaml` says what becomes of their pods.

A pod runs there only if it tolerates the taint, so that none gets there by accident while real nodes are about.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tools.kubernetes.api import Api, ApiRefused
from tools.kubernetes.control_plane import LOOPBACK, SIMULATED

CREATORS = 8  # Threads; the API server is what takes the time.
NODES_PER_RACK = 32
TOLERATION: Mapping[str, str] = {"key": SIMULATED, "operator": "Exists", "effect": "NoSchedule"}


def simulated_node(number: int, *, gpus: int, model: str, port: int, prefix: str = "fake") -> dict[str, Any]:
    """A node with 64 cores, 512 GiB and GPUs, named by its number. On the port kwok answers as its kubelet."""
    name = f"{prefix}-{number:05d}"
    resources = {"cpu": "64", "memory": "512Gi", "ephemeral-storage": "1Ti", "pods": "110", "nvidia.com/gpu": str(gpus)}
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "nvidia.com/gpu.product": model,
        "topology.kubernetes.io/zone": f"rack-{number // NODES_PER_RACK}",
        "type": "kwok",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {SIMULATED: "fake"}},
        "spec": {"taints": [{"key": SIMULATED, "value": "fake", "effect": "NoSchedule"}]},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "addresses": [{"type": "InternalIP", "address": LOOPBACK}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        },
    }


def create_simulated_nodes(api: Api, number: int, *, gpus: int, model: str, port: int, prefix: str = "fake") -> None:
    """Create as many; those that are there already stay as they are."""

    def create(node: dict[str, Any]) -> None:
        try:
            api.request("POST", "/api/v1/nodes", node)
        except ApiRefused as refusal:
            if refusal.reason != "AlreadyExists":
                raise

    with ThreadPoolExecutor(CREATORS) as threads:
        nodes = [simulated_node(each, gpus=gpus, model=model, port=port, prefix=prefix) for each in range(number)]
        list(threads.map(create, nodes))
