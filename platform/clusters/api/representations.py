"""Clusters, pools and nodes as JSON, and the serializers that describe it. Everything for a whole page at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from rest_framework import serializers

from clusters.engines.interface import GpuFaultKind
from clusters.gpu_faults import open_faults, words_of
from clusters.isolation_facts import fact_in
from clusters.models import Cluster, ClusterCondition, ClusterKind, Node, Pool, PoolMeasure
from clusters.placement import LEVELS, NAME_MAX, POLICIES, RULES, SHARED_DEVICES_MAX, TERMS, WEIGHT_MAX, Effect, learns, taints_of
from clusters.selectors import allocated_in_pools, allocated_on_nodes
from clusters.telemetry.metrics import unscoped
from clusters.telemetry.reading import Series
from kernel.clock import utc_text
from kernel.config import current
from kernel.resources import Resources


class ResourcesOut(serializers.Serializer[Any]):
    """Amounts in the smallest unit."""

    cpu_millis = serializers.IntegerField(help_text="Thousandths of a core.")
    memory_bytes = serializers.IntegerField()
    gpu_millis = serializers.IntegerField(help_text="Thousandths of a GPU; 1000 is a whole device.")


class ConditionOut(serializers.Serializer[Any]):
    """Contact with the cluster."""

    name = serializers.ChoiceField(choices=ClusterCondition.choices)
    detail = serializers.CharField()
    since_at = serializers.DateTimeField(allow_null=True)


class IsolationOut(serializers.Serializer[Any]):
    """Isolation of tenants on a cluster, in words, gaps included."""

    tenants_kept_apart = serializers.BooleanField()
    facts = serializers.ListField(child=serializers.CharField())


class ClusterAccessOut(serializers.Serializer[Any]):
    """What may be told of a cluster's credentials."""

    server = serializers.CharField()
    account = serializers.CharField()
    origin = serializers.CharField(help_text="kubeconfig, or pod: the account of the pod that Berth runs in.")
    expires_at = serializers.DateTimeField(allow_null=True, help_text="Null: the credentials do not say.")
    verifies_tls = serializers.BooleanField()


class ClusterOut(serializers.Serializer[Any]):
    """A cluster, reached through an engine."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    kind = serializers.ChoiceField(choices=ClusterKind.choices)
    is_enabled = serializers.BooleanField()
    lost_at = serializers.DateTimeField(allow_null=True, help_text="When an operator declared it lost.")
    condition = ConditionOut()
    isolation = IsolationOut()
    inventory_read_at = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField()
    config = serializers.DictField(allow_null=True, help_text="Settings of the engine; null for others than operators.")
    access = ClusterAccessOut(allow_null=True, help_text="Null for others than operators, and where there are no credentials.")
    version = serializers.IntegerField()


class ReferenceOut(serializers.Serializer[Any]):
    """A reference to an object by id and name."""

    id = serializers.UUIDField()
    name = serializers.CharField()


class PoolRulesOut(serializers.Serializer[Any]):
    """Placement policy of a pool; docs/scheduling.md describes policies and weights."""

    policy = serializers.ChoiceField(
        choices=POLICIES,
        allow_null=True,
        required=False,
        help_text="Preferred node. Default: fragmentation in pools with GPUs, otherwise ratio.",
    )
    weights = serializers.DictField(
        child=serializers.IntegerField(min_value=0, max_value=WEIGHT_MAX),
        allow_null=True,
        required=False,
        help_text=f"Weights of single terms, instead of the policy's. Terms: {', '.join(TERMS)}.",
    )
    gpu_shares = serializers.BooleanField(allow_null=True, required=False, help_text="Allow fractions of a GPU. Default: no.")
    shared_devices_max = serializers.IntegerField(
        min_value=0,
        max_value=SHARED_DEVICES_MAX,
        allow_null=True,
        required=False,
        help_text="Maximum number of GPUs of the pool that are shared at a time. Default: no maximum.",
    )
    levels = serializers.ListField(
        child=serializers.ChoiceField(choices=LEVELS),
        allow_null=True,
        required=False,
        help_text="Topology levels, from labels of the nodes. Default: all.",
    )


class PoolEdit(PoolRulesOut):
    """Name and placement policy of a pool."""

    name = serializers.CharField(
        required=False,
        max_length=NAME_MAX,
        help_text="Letters, digits, dots, dashes and underscores. Limits, prices and history stay; a job file that names the "
        "old pool no longer finds it.",
    )


class IdleModelOut(serializers.Serializer[Any]):
    """Idle GPUs of a model, on nodes on which tasks may start."""

    gpus = serializers.IntegerField(help_text="Whole devices.")
    largest_task = serializers.IntegerField(help_text="Largest task that could start now.")
    largest_job = serializers.IntegerField(
        help_text="Largest job of equal tasks that could start now, of the pool's usual shapes."
    )
    machines = serializers.DictField(child=serializers.IntegerField(), help_text="Number of nodes by number of idle GPUs.")


class PoolIdleOut(serializers.Serializer[Any]):
    """Tasks and jobs that could start now, without regard to limits."""

    cpu_millis = serializers.IntegerField(help_text="Largest task that could start now.")
    models = serializers.DictField(child=IdleModelOut(), help_text="By GPU model.")


class PoolUseOut(serializers.Serializer[Any]):
    """Fragmentation of a pool, as its scheduler last saw it. `fragmentation`: the part of the idle GPUs that a task of the pool's
    usual shapes cannot use, 0 to 1; null without idle GPUs, or while the usual shapes are not known."""

    fragmentation = serializers.FloatField(allow_null=True)
    idle = PoolIdleOut(allow_null=True)
    measured_at = serializers.DateTimeField(allow_null=True)


class TriedWeightsOut(serializers.Serializer[Any]):
    """Weights that were tried, and the part of all GPUs that they allocated when all GPUs were requested, 0 to 1."""

    weights = serializers.DictField(child=serializers.IntegerField())
    allocated = serializers.FloatField()


class LearnedOut(serializers.Serializer[Any]):
    """Learned weights of the pool: `tasks` of its recent jobs filled `machines` of its nodes, emptied."""

    weights = serializers.DictField(child=serializers.IntegerField())
    chosen_at = serializers.DateTimeField(help_text="Time since when these weights apply.")
    learned_at = serializers.DateTimeField(help_text="Time at which weights were last tried.")
    tried = TriedWeightsOut(many=True)
    machines = serializers.IntegerField()
    tasks = serializers.IntegerField()


class PoolOut(serializers.Serializer[Any]):
    """A homogeneous group of nodes. `capacity` is the sum over nodes that are ready and not cordoned; `allocated` is held."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    cluster = ReferenceOut()
    gpu_model = serializers.CharField(allow_null=True)
    gpus_simulated = serializers.BooleanField()
    node_shape = ResourcesOut()
    node_count = serializers.IntegerField()
    nodes_available = serializers.IntegerField()
    capacity = ResourcesOut()
    allocated = ResourcesOut()
    uneven = serializers.DictField(
        child=serializers.ListField(child=serializers.CharField()),
        help_text="Labels in which its ready nodes differ though their shape is the same: values by label. Empty: none.",
    )
    use = PoolUseOut(help_text="Fragmentation, and the largest task and job that could start now.")
    learned = LearnedOut(
        allow_null=True,
        help_text="Learned weights of the pool; null if an operator set weights or another policy, if learning is off, and "
        "until there are enough recent jobs.",
    )
    rules = PoolRulesOut(help_text="Placement policy that an operator set; null fields have their default.")
    created_at = serializers.DateTimeField()
    version = serializers.IntegerField()


class GpuFaultOut(serializers.Serializer[Any]):
    """Fault of a device. `number`: an Xid, or a count of errors."""

    kind = serializers.ChoiceField(choices=[kind.value for kind in GpuFaultKind])
    number = serializers.IntegerField()
    text = serializers.CharField()
    since_at = serializers.DateTimeField()


class GpuOut(serializers.Serializer[Any]):
    """A device of a node."""

    identifier = serializers.CharField()
    model = serializers.CharField()
    memory_bytes = serializers.IntegerField()
    healthy = serializers.BooleanField(
        help_text="False: the cluster reports it unhealthy, or it has faults that no operator has resolved."
    )
    simulated = serializers.BooleanField()
    faults = GpuFaultOut(many=True, help_text="Faults of the device, until an operator returns the node to service.")


class NodeOut(serializers.Serializer[Any]):
    """A node as last observed. `cordoned` is set by an operator; `ready` is reported by the cluster."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    cluster = ReferenceOut()
    pool = ReferenceOut()
    ready = serializers.BooleanField()
    reason = serializers.CharField(allow_null=True)
    ready_since_at = serializers.DateTimeField()
    cordoned = serializers.BooleanField()
    cordon_reason = serializers.CharField(allow_null=True)
    cordoned_by = serializers.CharField(allow_null=True)
    cordoned_at = serializers.DateTimeField(allow_null=True)
    capacity = ResourcesOut()
    allocated = ResourcesOut()
    gpu_model = serializers.CharField(allow_null=True)
    gpus_simulated = serializers.BooleanField()
    gpus = GpuOut(many=True)
    labels = serializers.DictField(child=serializers.CharField())
    taints = serializers.DictField(
        child=serializers.ChoiceField(choices=[effect.value for effect in Effect]),
        help_text="Taints by name, set by an operator or by labels of the cluster; they keep jobs away that do not tolerate "
        "them.",
    )
    own_taints = serializers.DictField(
        child=serializers.ChoiceField(choices=[effect.value for effect in Effect]), help_text="Taints of operators only."
    )
    last_seen_at = serializers.DateTimeField()
    version = serializers.IntegerField()


class SeriesOut(serializers.Serializer[Any]):
    """A metric over time. All lists have an entry per slot; null is a gap without a measurement."""

    subject = serializers.CharField()
    metric = serializers.CharField()
    unit = serializers.CharField()
    simulated = serializers.BooleanField(help_text="Values of a simulated GPU, not measured; they say nothing about hardware.")
    resolution_seconds = serializers.FloatField()
    times = serializers.ListField(child=serializers.DateTimeField())
    values = serializers.ListField(child=serializers.FloatField(allow_null=True), help_text="Mean of the slot.")
    lows = serializers.ListField(child=serializers.FloatField(allow_null=True))
    highs = serializers.ListField(child=serializers.FloatField(allow_null=True))


class SeriesListOut(serializers.Serializer[Any]):
    """Series of an answer."""

    items = SeriesOut(many=True)


def cluster_json(rows: Sequence[Cluster], *, language: str = "en", with_settings: bool = False) -> list[dict[str, Any]]:
    """Clusters as the API writes them; `with_settings` for operators."""
    return [
        {
            "id": str(row.pk),
            "name": row.name,
            "kind": row.kind,
            "is_enabled": row.is_enabled,
            "lost_at": utc_text(row.lost_at),
            "condition": {
                "name": row.condition,
                "detail": row.condition_detail,
                "since_at": utc_text(row.condition_since_at),
            },
            "isolation": {
                "tenants_kept_apart": row.tenants_kept_apart,
                "facts": [fact_in(fact, language) for fact in row.isolation],
            },
            "inventory_read_at": utc_text(row.inventory_read_at),
            "created_at": utc_text(row.created_at),
            "config": _without_secrets(row.config) if with_settings else None,
            "access": _access(row) if with_settings else None,
            "version": row.version,
        }
        for row in rows
    ]


def _without_secrets(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration that was written into the database by hand may hold a kubeconfig."""
    return {name: value for name, value in config.items() if name != "kubeconfig"}


def _access(row: Cluster) -> dict[str, Any] | None:
    names = ("server", "account", "origin", "expires_at", "verifies_tls")
    return None if row.access is None else {name: row.access.get(name) for name in names}


def pool_json(rows: Sequence[Pool]) -> list[dict[str, Any]]:
    """Pools with their cluster loaded and annotated by `views.pools_with_capacity`; one query for what is held."""
    allocated = allocated_in_pools([row.pk for row in rows])
    return [
        {
            "id": str(row.pk),
            "name": row.name,
            "cluster": {"id": str(row.cluster_id), "name": row.cluster.name},
            "gpu_model": row.gpu_model or None,
            "gpus_simulated": row.gpus_simulated,
            "node_shape": Resources(row.node_cpu_millis, row.node_memory_bytes, row.node_gpu_millis).as_dict(),
            "node_count": row.node_count,
            **_available(row),
            "allocated": allocated[row.pk].as_dict(),
            "uneven": dict(measure.uneven) if (measure := getattr(row, "measure", None)) is not None else {},
            "use": _use(row),
            "learned": _learned(row),
            "rules": {name: (row.rules or {}).get(name) for name in RULES},
            "created_at": utc_text(row.created_at),
            "version": row.version,
        }
        for row in rows
    ]


def node_json(rows: Sequence[Node], *, language: str = "en") -> list[dict[str, Any]]:
    """Nodes with cluster and pool loaded; one query for what is held."""
    allocated = allocated_on_nodes([(row.cluster_id, row.name) for row in rows])
    return [
        {
            "id": str(row.pk),
            "name": row.name,
            "cluster": {"id": str(row.cluster_id), "name": row.cluster.name},
            "pool": {"id": str(row.pool_id), "name": row.pool.name},
            "ready": row.ready,
            "reason": row.reason or None,
            "ready_since_at": utc_text(row.ready_since_at),
            "cordoned": row.cordoned,
            "cordon_reason": row.cordon_reason or None,
            "cordoned_by": row.cordoned_by or None,
            "cordoned_at": utc_text(row.cordoned_at),
            "capacity": Resources(row.cpu_millis, row.memory_bytes, row.gpu_millis).as_dict(),
            "allocated": allocated[row.cluster_id, row.name].as_dict(),
            "gpu_model": row.gpu_model or None,
            "gpus_simulated": row.gpus_simulated,
            "gpus": _gpus(row, language),
            "labels": _texts(row.labels),
            "taints": taints_of(row.labels, row.taints),
            "own_taints": dict(row.taints or {}),
            "last_seen_at": utc_text(row.last_seen_at),
            "version": row.version,
        }
        for row in rows
    ]


def _gpus(row: Node, language: str) -> list[dict[str, Any]]:
    faults: dict[str, list[dict[str, Any]]] = {}
    for fault in open_faults(row.gpu_faults):
        told = {
            "kind": fault["kind"],
            "number": fault["number"],
            "text": words_of(fault, language),
            "since_at": fault["since_at"],
        }
        faults.setdefault(fault["gpu"], []).append(told)
    return [
        {
            **gpu,
            "healthy": bool(gpu.get("healthy", True)) and gpu.get("identifier") not in faults,
            "faults": faults.get(gpu.get("identifier"), []),
        }
        for gpu in row.gpus
    ]


def series_json(series: Sequence[Series], *, simulated: Collection[str] = ()) -> list[dict[str, Any]]:
    """Series as the API writes them, for nodes here and for tasks in `jobs`. `simulated`: subjects whose GPUs are."""
    return [
        {
            "subject": unscoped(found.subject),
            "metric": found.metric,
            "unit": found.unit,
            "simulated": found.metric.startswith("gpu_") and found.subject in simulated,
            "resolution_seconds": found.resolution_seconds,
            "times": [utc_text(moment) for moment in found.times],
            "values": list(found.values),
            "lows": list(found.lows),
            "highs": list(found.highs),
        }
        for found in series
    ]


def _use(row: Pool) -> dict[str, Any]:
    measure: PoolMeasure | None = getattr(row, "measure", None)
    if measure is None or measure.measured_at is None:
        return {"fragmentation": None, "idle": None, "measured_at": None}
    millis = measure.fragmentation_millis
    return {
        "fragmentation": None if millis is None else millis / 1000,
        "idle": measure.idle,
        "measured_at": utc_text(measure.measured_at),
    }


def _learned(row: Pool) -> dict[str, Any] | None:
    measure: PoolMeasure | None = getattr(row, "measure", None)
    if measure is None or measure.learned is None or not (current().scheduler_learns and learns(row.rules or {})):
        return None
    return {
        **measure.learned,
        "chosen_at": utc_text(datetime.fromisoformat(measure.learned["chosen_at"])),
        "learned_at": utc_text(measure.learned_at),
    }


def _available(row: Any) -> dict[str, Any]:
    capacity = Resources(row.available_cpu or 0, row.available_memory or 0, row.available_gpu or 0)
    return {"nodes_available": row.available_nodes, "capacity": capacity.as_dict()}


def _texts(labels: Mapping[str, Any]) -> dict[str, str]:
    return {str(name): str(value) for name, value in labels.items()}
