"""Requests and answers as they look, for the description of the API."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiExample
from rest_framework import serializers

from clusters.api.representations import ReferenceOut, ResourcesOut
from jobs.api.representations import PastOut
from tenants.identity.api.serializers import TenantRef

_ID = "01980c2e-6f3a-7c4e-9a55-0d1f2a3b4c5d"
_GIB = 1024**3

SPEC: dict[str, Any] = {
    "name": "digits",
    "image": "jax-cpu",
    "framework": "jax",
    "roles": {
        "worker": {
            "replicas": 2,
            "resources": {"cpu": 1, "memory": "2Gi"},
            "command": "python train.py --steps 300",
        }
    },
    "max_runtime": "10m",
    "outputs": ["model"],
}
SUBMIT: dict[str, Any] = {"tenant": "vision", "spec": SPEC}
BATCH: dict[str, Any] = {
    "tenant": "vision",
    "spec": SPEC,
    "items": [{"name": f"digits-{seed}", "env": {"SEED": str(seed)}} for seed in (1, 2, 3)],
}
JOB: dict[str, Any] = {
    "id": _ID,
    "name": "digits",
    "kind": "batch",
    "tenant": {"id": "01980c2e-0000-7000-8000-000000000001", "slug": "k3vq7w2m9x", "name": "vision"},
    "queue": {"id": "01980c2e-0000-7000-8000-000000000002", "name": "vision"},
    "user": {"id": "01980c2e-0000-7000-8000-000000000003", "name": "alice"},
    "state": "queued",
    "desired": "run",
    "reason": {
        "code": "no_room",
        "text": "Pool a100 has not enough room now.",
        "hint": "It starts as soon as others end; asking for less may start it sooner.",
        "detail": {"pool": "a100"},
    },
    "exit": None,
    "condition": None,
    "priority": 500,
    "hold": False,
    "tags": [],
    "labels": {},
    "framework": "jax",
    "image": {"name": "jax-cpu", "digest": "sha256:5d41402abc4b2a76b9719d911017c592"},
    "code": {"digest": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "commit": None},
    "resources": {"cpu_millis": 2000, "memory_bytes": 4 * _GIB, "gpu_millis": 0},
    "parent_id": None,
    "array": None,
    "origin": None,
    "attempt": 0,
    "cluster": None,
    "pool": None,
    "isolation": None,
    "gpus_simulated": False,
    "counts": None,
    "place": 3,
    "progress": None,
    "spec_digest": "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
    "max_runtime_seconds": 600,
    "planned_runtime_seconds": 600,
    "not_before_at": None,
    "submitted_at": "2026-11-20T09:12:05Z",
    "started_at": None,
    "ended_at": None,
    "version": 1,
}

TASK: dict[str, Any] = {
    "role": "worker",
    "index": 3,
    "state": "running",
    "node": "node-7",
    "address": "10.20.0.7",
    "ports": {},
    "gpus": ["GPU-5d41402a"],
    "gpus_simulated": False,
    "resources": {"cpu_millis": 4000, "memory_bytes": 16 * _GIB, "gpu_millis": 1000},
    "exit": None,
    "waiting": None,
    "progress": {"done": 120, "total": 1000, "at": "2026-11-20T09:31:40.250000Z"},
    "straggler": {"behind_percent": 48, "median_percent": 60},
    "started_at": "2026-11-20T09:12:31Z",
    "ended_at": None,
}

COUNTS: dict[str, Any] = {
    "states": {
        "queued": 12, "admitted": 0, "starting": 1, "running": 48, "stopping": 0, "succeeded": 9213, "failed": 311, "stopped": 96,
    },
    "total": 9681,
}  # fmt: skip


class BatchOut(serializers.Serializer[Any]):
    """Stored jobs, in the order of the items."""

    count = serializers.IntegerField()
    ids = serializers.ListField(child=serializers.UUIDField())


class PlannedRoleOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    replicas = serializers.IntegerField()
    command = serializers.JSONField(help_text="A shell command, or a list of arguments.")
    resources = ResourcesOut(help_text="Amount per task.")


class PlannedImageOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    kind = serializers.CharField()
    digest = serializers.CharField(allow_null=True)


class SpecChangeOut(serializers.Serializer[Any]):
    path = serializers.CharField()
    older = serializers.JSONField(allow_null=True)
    newer = serializers.JSONField(allow_null=True)


class OptionRoleOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    replicas = serializers.IntegerField()
    resources = ResourcesOut(help_text="Amount per task.")


class OptionCostOut(serializers.Serializer[Any]):
    """Cost in millionths of the currency, in the cheapest of its pools; `_max` in the dearest pool, for the longest run time."""

    micros_per_hour = serializers.IntegerField()
    micros_per_hour_max = serializers.IntegerField()
    micros = serializers.IntegerField(allow_null=True, help_text="Cost for `runs_seconds`; null if the run time is unknown.")
    micros_max = serializers.IntegerField(allow_null=True)


class OptionOut(serializers.Serializer[Any]):
    """A size of the request: its predicted start if no further job is submitted, and its cost."""

    size = serializers.ChoiceField(["asked", "half", "quarter"])
    roles = OptionRoleOut(many=True)
    total = ResourcesOut()
    pools = serializers.ListField(child=serializers.CharField())
    p50_at = serializers.DateTimeField(allow_null=True, help_text="50 % likely by this time.")
    p90_at = serializers.DateTimeField(allow_null=True, help_text="90 % likely by this time.")
    starts_now = serializers.BooleanField()
    reason = serializers.CharField(allow_blank=True, help_text="Reason why there is no predicted start.")
    cost = OptionCostOut(allow_null=True)


class StartForecastOut(serializers.Serializer[Any]):
    """Of a single job, also for an array. `runs_seconds` is the predicted run time, by `runs_by`: past jobs with this `name`, of
    this `user`, of this `queue`, `all`, or `asked`: its max_runtime. A smaller request may run longer for the same work."""

    currency = serializers.CharField()
    runs_seconds = serializers.IntegerField(allow_null=True)
    runs_by = serializers.CharField(allow_blank=True)
    options = OptionOut(many=True)
    past = PastOut()


class RoleLayoutOut(serializers.Serializer[Any]):
    """What the first task of a role becomes. Addresses, ports and files that only the cluster knows stand as words in <>."""

    role = serializers.CharField()
    count = serializers.IntegerField()
    environment = serializers.DictField(child=serializers.CharField(), help_text="Variables besides those of every task.")
    secrets = serializers.ListField(child=serializers.CharField(), help_text="Names of secret variables.")
    ports = serializers.ListField(child=serializers.CharField())
    command = serializers.ListField(child=serializers.CharField())
    beside = serializers.ListField(
        child=serializers.ListField(child=serializers.CharField()), help_text="Programs of the framework beside the command."
    )
    starts_after = serializers.ListField(child=serializers.CharField(), help_text="Roles that are ready before it starts.")
    waits_for = serializers.ListField(child=serializers.CharField(), help_text="Roles that are ready before its command starts.")
    ready_when = serializers.CharField(allow_blank=True)
    max_retry = serializers.IntegerField(help_text="Starts of a failed command in its place.")
    processes = serializers.IntegerField(help_text="Processes of the command in a task.")
    installs = serializers.ListField(child=serializers.CharField(), help_text="What has to be in the image.")


class LayoutOut(serializers.Serializer[Any]):
    """What a framework makes of a job: roles in the order of their start, and whose end decides."""

    roles = RoleLayoutOut(many=True)
    chief = serializers.CharField(allow_null=True, help_text="The role whose end is the end of the job; null: all roles.")
    vital = serializers.ListField(child=serializers.CharField(), help_text="Roles that a chief cannot do without.")


class FetchedFirstOut(serializers.Serializer[Any]):
    """Code that a separate job fetches from Git before the planned job can start."""

    job = serializers.CharField(help_text="Name of the fetching job.")
    git = serializers.CharField()
    ref = serializers.CharField()


class PlanOut(serializers.Serializer[Any]):
    """Result of a submission with `dry_run`. Nothing was stored."""

    name = serializers.CharField()
    tenant = TenantRef()
    queue = ReferenceOut()
    image = PlannedImageOut()
    framework = serializers.CharField()
    roles = PlannedRoleOut(many=True)
    total = ResourcesOut(help_text="Resources of an attempt.")
    jobs = serializers.IntegerField(help_text="More than one for an array.")
    priority = serializers.IntegerField(help_text="Priority while the job waits.")
    max_runtime_seconds = serializers.IntegerField(allow_null=True)
    planned_runtime_seconds = serializers.IntegerField(
        allow_null=True,
        help_text="Planned run time until similar jobs have ended: `max_runtime`, else the queue's default, else the "
        "installation's; null: no limit. A job without `max_runtime` is not ended then.",
    )
    depends_on = serializers.ListField(child=serializers.CharField(), help_text="`condition:job id`.")
    fetches = FetchedFirstOut(allow_null=True)
    spec_digest = serializers.CharField()
    spec = serializers.DictField(help_text="The spec as it would be stored.")
    warnings = serializers.ListField(child=serializers.CharField(), help_text="Also reasons for which the job would never start.")
    forecast = StartForecastOut(required=False, help_text="Only if requested.")
    layout = LayoutOut(
        required=False, allow_null=True, help_text="What the framework makes of the job; with `forecast`. null: over 1,000 tasks."
    )
    changes = SpecChangeOut(many=True, required=False, help_text="Differences from the job that it repeats.")
    plan = serializers.CharField(required=False, help_text="Name of the plan; send it as `?plan=` to apply exactly this plan.")


class BatchPlanOut(serializers.Serializer[Any]):
    """Result of a batch with `dry_run`."""

    count = serializers.IntegerField()
    first = PlanOut()
    digest = serializers.CharField(help_text="Digest of all jobs.")
    plan = serializers.CharField(help_text="Name of the plan; send it as `?plan=` to apply exactly this plan.")


def request(name: str, value: dict[str, Any]) -> OpenApiExample:
    return OpenApiExample(name, value=value, request_only=True)


def answer(name: str, value: dict[str, Any], *, status: str = "200") -> OpenApiExample:
    return OpenApiExample(name, value=value, response_only=True, status_codes=[status])
