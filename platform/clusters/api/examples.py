"""Answers as they look, for the description of the API."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiExample, OpenApiParameter

_CLUSTER_ID = "01936f3e-8d1c-7a40-9c2b-5f0e6a7d1001"
_POOL_ID = "01936f3e-8d1c-7a40-9c2b-5f0e6a7d1002"
_NODE_ID = "01936f3e-8d1c-7a40-9c2b-5f0e6a7d1003"
_CREATED_AT = "2026-11-20T08:00:00Z"
_GIB = 1024**3

LIMIT = OpenApiParameter("limit", int, description="Rows per page, 1 to 500.")
CURSOR = OpenApiParameter("cursor", str, description="`next` of the previous page.")

CLUSTER: dict[str, Any] = {
    "id": _CLUSTER_ID,
    "name": "local",
    "kind": "local",
    "is_enabled": True,
    "lost_at": None,
    "condition": {"name": "reachable", "detail": "", "since_at": _CREATED_AT},
    "isolation": {"tenants_kept_apart": True, "facts": ["Every tenant's tasks run as a user of their own."]},
    "inventory_read_at": "2026-11-20T09:12:05Z",
    "created_at": _CREATED_AT,
    "config": None,
    "access": None,
    "version": 1,
}
NEW_CLUSTER: dict[str, Any] = {
    "name": "research",
    "kind": "kubernetes",
    "config": {"node_selector": {"team": "research"}, "default_image": "registry.example.org/base:2"},
    "credentials": "apiVersion: v1\nkind: Config\n...",
}
KUBERNETES_CLUSTER: dict[str, Any] = {
    **CLUSTER,
    "id": "01936f3e-8d1c-7a40-9c2b-5f0e6a7d1004",
    "name": "research",
    "kind": "kubernetes",
    "condition": {"name": "unknown", "detail": "", "since_at": None},
    "isolation": {"tenants_kept_apart": True, "facts": []},
    "inventory_read_at": None,
    "config": NEW_CLUSTER["config"],
    "access": {
        "server": "https://k8s.example.org:6443",
        "account": "berth",
        "origin": "kubeconfig",
        "expires_at": "2027-11-20T08:00:00Z",
        "verifies_tls": True,
    },
}
CLUSTER_CHECK: dict[str, Any] = {
    "outcome": "failed",
    "items": [
        {"check": "reachable", "outcome": "ok", "text": "The API server answers.", "hint": ""},
        {
            "check": "permissions",
            "outcome": "failed",
            "text": "The account may not list on nodes (the inventory).",
            "hint": "Bind the ClusterRole of docs/kubernetes.md to the account.",
        },
    ],
}
POOL: dict[str, Any] = {
    "id": _POOL_ID,
    "name": "a100",
    "cluster": {"id": _CLUSTER_ID, "name": "local"},
    "gpu_model": "A100",
    "gpus_simulated": False,
    "node_shape": {"cpu_millis": 64_000, "memory_bytes": 512 * _GIB, "gpu_millis": 8_000},
    "node_count": 1,
    "nodes_available": 1,
    "capacity": {"cpu_millis": 64_000, "memory_bytes": 512 * _GIB, "gpu_millis": 8_000},
    "allocated": {"cpu_millis": 16_000, "memory_bytes": 128 * _GIB, "gpu_millis": 2_000},
    "uneven": {"gpu_driver": ["550.54.15", "560.35.03"]},
    "use": {
        "fragmentation": 0.167,
        "idle": {
            "cpu_millis": 48_000,
            "models": {"A100": {"gpus": 6, "largest_task": 6, "largest_job": 4, "machines": {"6": 1}}},
        },
        "measured_at": "2026-11-20T09:12:05Z",
    },
    "rules": {"policy": None, "weights": None, "gpu_shares": True, "shared_devices_max": 2, "levels": None},
    "created_at": _CREATED_AT,
    "version": 2,
}
NODE: dict[str, Any] = {
    "id": _NODE_ID,
    "name": "gpu-01",
    "cluster": {"id": _CLUSTER_ID, "name": "local"},
    "pool": {"id": _POOL_ID, "name": "a100"},
    "ready": True,
    "reason": None,
    "ready_since_at": _CREATED_AT,
    "cordoned": False,
    "cordon_reason": None,
    "cordoned_by": None,
    "cordoned_at": None,
    "capacity": {"cpu_millis": 64_000, "memory_bytes": 512 * _GIB, "gpu_millis": 8_000},
    "allocated": {"cpu_millis": 16_000, "memory_bytes": 128 * _GIB, "gpu_millis": 2_000},
    "gpu_model": "A100",
    "gpus_simulated": False,
    "gpus": [
        {"identifier": "GPU-6f1c", "model": "A100", "memory_bytes": 80 * _GIB, "healthy": True, "simulated": False, "faults": []},
    ],
    "labels": {"kernel": "6.1.0", "os": "Debian GNU/Linux 12"},
    "taints": {},
    "own_taints": {},
    "last_seen_at": "2026-11-20T09:12:05Z",
    "version": 1,
}
CORDONED_NODE: dict[str, Any] = {
    **NODE,
    "cordoned": True,
    "cordon_reason": "Fan 3 is noisy.",
    "cordoned_by": "olga",
    "cordoned_at": "2026-11-20T09:13:00Z",
    "version": 2,
}
SERIES: dict[str, Any] = {
    "items": [
        {
            "subject": "node:gpu-01",
            "metric": "cpu_millis",
            "unit": "thousandths of a core",
            "simulated": False,
            "resolution_seconds": 5.0,
            "times": ["2026-11-20T09:12:00Z", "2026-11-20T09:12:05Z", "2026-11-20T09:12:10Z"],
            "values": [15_820.0, None, 15_904.5],
            "lows": [15_820.0, None, 15_904.5],
            "highs": [15_820.0, None, 15_904.5],
        }
    ]
}


POOL_SERIES: dict[str, Any] = {
    "items": [
        {
            "subject": f"pool:{_POOL_ID}",
            "metric": "gpu_fragmentation_ratio",
            "unit": "ratio 0-1",
            "simulated": False,
            "resolution_seconds": 5.0,
            "times": ["2026-11-20T09:12:00Z", "2026-11-20T09:12:05Z"],
            "values": [0.167, 0.25],
            "lows": [0.167, 0.25],
            "highs": [0.167, 0.25],
        }
    ]
}


def answer(name: str, value: Any) -> OpenApiExample:
    """An example of an answer to one request."""
    return OpenApiExample(name, value=value, response_only=True)


def body(name: str, value: Any) -> OpenApiExample:
    """An example of a request."""
    return OpenApiExample(name, value=value, request_only=True)
