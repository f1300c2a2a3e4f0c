"""What the stand-in for the server has from the start: the names of its objects, and the rows of its lists."""

from __future__ import annotations

from typing import Any

API = "/api/v1"
SERVER = "http://berth.test"
TOKEN = "bth_test_token"
CODE = "bi_test_code"
TENANT = {"id": "0198c000-0000-7000-8000-00000000aaaa", "slug": "t-7f3k2", "name": "vision"}
QUEUE = {"id": "0198c000-0000-7000-8000-00000000bbbb", "name": "vision"}
USER = {"id": "0198c000-0000-7000-8000-00000000cccc", "name": "alice"}
CLUSTER = {"id": "0198c000-0000-7000-8000-00000000dddd", "name": "local"}
POOL = {"id": "0198c000-0000-7000-8000-00000000eeee", "name": "a100"}
CPU_POOL = {"id": "0198c000-0000-7000-8000-00000000eeef", "name": "cpu"}
NOON = "2026-11-20T12:00:00Z"


def _amounts(cpu: int, memory: int, gpu: int) -> dict[str, int]:
    return {"cpu_millis": cpu, "memory_bytes": memory, "gpu_millis": gpu}


NODE = {
    "id": "0198c000-0000-7000-8000-000000000001",
    "name": "node-1",
    "cluster": CLUSTER,
    "pool": POOL,
    "ready": True,
    "reason": None,
    "cordoned": False,
    "cordon_reason": None,
    "capacity": _amounts(64000, 512 << 30, 8000),
    "allocated": _amounts(9000, 40 << 30, 2000),
    "gpu_model": "a100",
    "gpus_simulated": True,
    "gpus": [{"identifier": "sim-0", "model": "a100", "memory_bytes": 80 << 30, "healthy": True, "simulated": True}],
    "labels": {"os": "linux"},
    "taints": {},
    "own_taints": {},
    "version": 3,
    "last_seen_at": NOON,
}
CEILING = {"cpu_millis": None, "memory_bytes": None, "gpu_millis": 8000}
CPU_CEILING = {"cpu_millis": 16000, "memory_bytes": 64 << 30, "gpu_millis": None}
LISTS: dict[str, list[dict[str, Any]]] = {
    "nodes": [NODE],
    "pools": [
        {
            **POOL,
            "cluster": CLUSTER,
            "gpu_model": "a100",
            "gpus_simulated": True,
            "node_shape": _amounts(64000, 512 << 30, 8000),
            "node_count": 1,
            "nodes_available": 1,
            "capacity": _amounts(64000, 512 << 30, 8000),
            "allocated": _amounts(9000, 40 << 30, 2000),
            "uneven": {"gpu_driver": ["550", "560"]},
            "use": {
                "fragmentation": 0.333,
                "idle": {
                    "cpu_millis": 55_000,
                    "models": {"a100": {"gpus": 6, "largest_task": 6, "largest_job": 4, "machines": {"6": 1}}},
                },
                "measured_at": NOON,
            },
        }
    ],
    "clusters": [
        {
            **CLUSTER,
            "kind": "local",
            "condition": {"name": "reachable", "detail": "", "since_at": NOON},
            "isolation": {"tenants_kept_apart": True, "facts": ["a uid per tenant"]},
        }
    ],
    "queues": [
        {
            **QUEUE,
            "path": "vision",
            "tenant": TENANT,
            "is_top": True,
            "version": 1,
            "pools": [
                {
                    "pool": {**POOL, "cluster": "local"},
                    "used": _amounts(9000, 40 << 30, 7000),
                    "ceiling": CEILING,
                    "effective_ceiling": CEILING,
                    "headroom": {**CEILING, "gpu_millis": 1000},
                },
                {
                    "pool": {**CPU_POOL, "cluster": "local"},
                    "used": _amounts(0, 0, 0),
                    "ceiling": CPU_CEILING,
                    "effective_ceiling": CPU_CEILING,
                    "headroom": CPU_CEILING,
                },
            ],
        }
    ],
    "usage": [
        {
            "id": USER["id"],
            "name": "alice",
            "attempts": 12,
            "cpu_milli_seconds": 7_200_000,
            "memory_byte_seconds": (1 << 30) * 3600,
            "gpu_milli_seconds": 3_600_000,
        }
    ],
    "prices": [
        {
            "id": "0198c000-0000-7000-8000-000000000011",
            "pool": {**POOL, "cluster": "local"},
            "resource": "gpu_millis",
            "micros_per_hour": 2_500_000,
            "currency": "EUR",
            "effective_at": NOON,
            "state": "now",
            "created_at": NOON,
            "created_by": USER,
        }
    ],
    "budgets": [
        {
            "queue": QUEUE,
            "tenant": TENANT,
            "kind": "money",
            "amount": 10_000_000,
            "warn_at": [80, 100],
            "stops": True,
            "month": "2026-11",
            "spent": 9_000_000,
            "percent": 90,
            "measured_at": NOON,
            "currency": "EUR",
            "version": 1,
        }
    ],
    "tokens": [
        {
            "id": "0198c000-0000-7000-8000-000000000002",
            "name": "laptop",
            "prefix": "bth_te",
            "scopes": ["read", "jobs"],
            "expires_at": "2027-01-31T00:00:00Z",
            "last_used_at": NOON,
        }
    ],
    "tenants": [{**TENANT, "description": "Cameras", "parent": None, "role": "manager"}],
    "users": [{**USER, "email": "alice@example.org", "kind": "person", "is_operator": False, "is_active": True}],
    "images": [
        {
            "id": "0198c000-0000-7000-8000-000000000003",
            "name": "jax-cpu",
            "kind": "python",
            "state": "ready",
            "tenant": TENANT,
            "digest": "sha256:" + "ab" * 32,
            "created_at": NOON,
        }
    ],
    "attempts": [
        {
            "id": "0198c000-0000-7000-8000-000000000004",
            "number": 1,
            "state": "running",
            "outcome": None,
            "exit": None,
            "cluster": "local",
            "pool": "a100",
            "started_at": NOON,
            "ended_at": None,
        }
    ],
    "tasks": [
        {
            "role": "worker",
            "index": index,
            "state": "running",
            "node": "node-1",
            "gpus": [f"sim-{index}"],
            "exit": None,
            "started_at": NOON,
        }
        for index in (0, 1)
    ],
    "events": [
        {
            "id": "0198c000-0000-7000-8000-000000000007",
            "subject": {"kind": "job", "id": "x"},
            "from_state": None,
            "to_state": "queued",
            "reason": "submitted",
            "reason_text": "Submitted by ann.",
            "detail": {},
            "actor": "alice",
            "at": NOON,
        }
    ],
    "metrics": [
        {
            "subject": "task:0198c000-0000-7000-8000-000000000004:worker:0",
            "metric": metric,
            "unit": unit,
            "simulated": metric.startswith("gpu_"),
            "resolution_seconds": 2.0,
            "times": ["2026-11-20T12:00:00Z", "2026-11-20T12:00:02Z", "2026-11-20T12:00:04Z"],
            "values": values,
        }
        for metric, unit, values in (
            ("cpu_millis", "thousandths of a core", [900.0, None, 1800.0]),
            ("memory_bytes", "bytes", [1.0e9, 1.5e9, 2.0e9]),
            ("gpu_utilization_ratio", "ratio 0-1", [0.1, 0.5, 0.93]),
        )
    ],
    "audit": [
        {
            "id": "0198c000-0000-7000-8000-000000000005",
            "at": NOON,
            "actor": {"id": USER["id"], "name": "alice", "token_id": None},
            "verb": "job.submit",
            "target": {"kind": "job", "id": "x", "name": "digits"},
            "request_id": "r-1",
        }
    ],
    "subscriptions": [
        {"id": "0198c000-0000-7000-8000-000000000006", "channel": "mail", "target": "", "kinds": ["failed"], "jobs": "mine"}
    ],
    "deliveries": [],
    "notification-channels": [
        {
            "kind": "mail",
            "words": {"en": "Mail", "zh": "邮件"},
            "inputs": [],
            "signs": False,
            "problem": {
                "code": "no_mail_server",
                "words": {"en": "No mail is sent: this installation has no mail server.", "zh": "本系统未设置邮件服务器。"},
            },
        },
        {
            "kind": "slack",
            "words": {"en": "Slack", "zh": "Slack"},
            "inputs": [
                {
                    "name": name,
                    "words": {"en": label, "zh": label},
                    "hint": {"en": "What it is.", "zh": "说明。"},
                    "example": "",
                    "is_secret": is_secret,
                    "is_required": is_required,
                }
                for name, label, is_secret, is_required in (
                    ("address", "Webhook address", True, True),
                    ("secret", "Signing secret", True, False),
                    ("name", "Name", False, False),
                )
            ],
            "signs": False,
            "problem": None,
        },
    ],
    "secrets": [{"name": "HF_TOKEN", "created_at": NOON, "updated_at": NOON}],
    "members": [{"user": {**USER, "kind": "person", "is_active": True}, "role": "manager", "created_at": NOON}],
}
