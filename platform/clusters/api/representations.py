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
from kernel.config import current
from kernel.resources import Resources
from webapi.fields import utc_text


class ResourcesOut(serializers.Serializer[Any]):
    """Amounts in the smallest unit."""

    cpu_millis = serializers.IntegerField(help_text="Thousandths of a core.")
    memory_bytes = serializers.IntegerField()
    gpu_millis = serializers.IntegerField(help_text="Thousandths of a GPU; 1000 is one whole device.")


class ConditionOut(serializers.Serializer[Any]):
    """Whether the cluster answers."""

    name = serializers.ChoiceField(choices=ClusterCondition.choices)
    detail = serializers.CharField()
    since_at = serializers.DateTimeField(allow_null=True)


class IsolationOut(serializers.Serializer[Any]):
    """How tenants are kept apart on a cluster, in words; what does not keep them apart is said as plainly."""

    tenants_kept_apart = serializers.BooleanField()
    facts = serializers.ListField(child=serializers.CharField())


class ClusterOut(serializers.Serializer[Any]):
    """Something an engine talks to."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    kind = serializers.ChoiceField(choices=ClusterKind.choices)
    is_enabled = serializers.BooleanField()
    condition = ConditionOut()
    isolation = IsolationOut()
    inventory_read_at = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField()


class ReferenceOut(serializers.Serializer[Any]):
    """Another object by id and name."""

    id = serializers.UUIDField()
    name = serializers.CharField()


class PoolRulesOut(serializers.Serializer[Any]):
    """How a pool is filled; docs/scheduling.md says what policies and weights do."""

    policy = serializers.ChoiceField(
        choices=POLICIES,
        allow_null=True,
        required=False,
        help_text="Which machine is preferred. Default: fragmentation where there are GPUs, else ratio.",
    )
    weights = serializers.DictField(
        child=serializers.IntegerField(min_value=0, max_value=WEIGHT_MAX),
        allow_null=True,
        required=False,
        help_text=f"Weights of single terms instead of the policy's. Terms: {', '.join(TERMS)}.",
    )
    gpu_shares = serializers.BooleanField(allow_null=True, required=False, help_text="Lend parts of a GPU. Default: no.")
    shared_devices_max = serializers.IntegerField(
        min_value=0,
        max_value=SHARED_DEVICES_MAX,
        allow_null=True,
        required=False,
        help_text="At most so many GPUs of the pool are shared at a time. Default: any.",
    )
    levels = serializers.ListField(
        child=serializers.ChoiceField(choices=LEVELS),
        allow_null=True,
        required=False,
        help_text="Which labels of machines say where they stand. Default: all.",
    )


class PoolEdit(PoolRulesOut):
    """The name of a pool, and how it is filled."""

    name = serializers.CharField(
        required=False,
        max_length=NAME_MAX,
        help_text="Letters, digits, dots, dashes and underscores. Limits, prices and history stay; a job file that says `pool` "
        "with the old name finds no pool any more.",
    )


class IdleModelOut(serializers.Serializer[Any]):
    """Idle GPUs of one model, on machines on which something may start."""

    gpus = serializers.IntegerField(help_text="Whole devices.")
    largest_task = serializers.IntegerField(help_text="The most of them that one task could get now.")
    largest_job = serializers.IntegerField(
        help_text="The most that a job of equal tasks could get now, of the shapes that the pool usually gets."
    )
    machines = serializers.DictField(child=serializers.IntegerField(), help_text="How many machines have how many of them idle.")


class PoolIdleOut(serializers.Serializer[Any]):
    """What could start now, whatever anybody's limits say."""

    cpu_millis = serializers.IntegerField(help_text="The most that one task could get now.")
    models = serializers.DictField(child=IdleModelOut(), help_text="By GPU model.")


class PoolUseOut(serializers.Serializer[Any]):
    """How a pool is filled, as its scheduler found it last. `fragmentation`: which part of the idle GPU a task of those that the
    pool usually gets cannot use, 0 to 1; null without idle GPU, or while nobody knows what it usually gets."""

    fragmentation = serializers.FloatField(allow_null=True)
    idle = PoolIdleOut(allow_null=True)
    measured_at = serializers.DateTimeField(allow_null=True)


class TriedWeightsOut(serializers.Serializer[Any]):
    """Weights that were tried, and which part of all GPU they allocated when all GPU had been asked for, 0 to 1."""

    weights = serializers.DictField(child=serializers.IntegerField())
    allocated = serializers.FloatField()


class LearnedOut(serializers.Serializer[Any]):
    """The weights that were chosen for what the pool got of late: `tasks` of these filled `machines` of it, emptied."""

    weights = serializers.DictField(child=serializers.IntegerField())
    chosen_at = serializers.DateTimeField(help_text="Since when it is these.")
    learned_at = serializers.DateTimeField(help_text="When it was tried last.")
    tried = TriedWeightsOut(many=True)
    machines = serializers.IntegerField()
    tasks = serializers.IntegerField()


class PoolOut(serializers.Serializer[Any]):
    """A homogeneous group of nodes. `capacity` sums nodes that are ready and not cordoned; `allocated` what is held."""

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
        help_text="In what its ready nodes differ though they are of one shape: values by label. Empty: they are alike.",
    )
    use = PoolUseOut(help_text="Fragmentation, and the largest that could start now.")
    learned = LearnedOut(
        allow_null=True,
        help_text="Weights that the pool is filled by, chosen by what it gets; null where an operator has said weights or "
        "another policy, where learning is off, and until there is enough to choose by.",
    )
    rules = PoolRulesOut(help_text="How it is filled, as far as an operator has said; what is null goes by the defaults.")
    created_at = serializers.DateTimeField()
    version = serializers.IntegerField()


class GpuFaultOut(serializers.Serializer[Any]):
    """Why a device is out of order, since when. `number`: an Xid, or a count of errors."""

    kind = serializers.ChoiceField(choices=[kind.value for kind in GpuFaultKind])
    number = serializers.IntegerField()
    text = serializers.CharField()
    since_at = serializers.DateTimeField()


class GpuOut(serializers.Serializer[Any]):
    """One device of a node."""

    identifier = serializers.CharField()
    model = serializers.CharField()
    memory_bytes = serializers.IntegerField()
    healthy = serializers.BooleanField(help_text="False: the cluster says so, or there are faults that no operator has resolved.")
    simulated = serializers.BooleanField()
    faults = GpuFaultOut(many=True, help_text="Evidence against it, until an operator returns the node to service.")


class NodeOut(serializers.Serializer[Any]):
    """A machine as last observed. `cordoned` is an operator's decision; `ready` is what the cluster says."""

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
        help_text="What keeps jobs away that do not tolerate it, by name: of an operator, or of the cluster's labels.",
    )
    own_taints = serializers.DictField(
        child=serializers.ChoiceField(choices=[effect.value for effect in Effect]), help_text="Those of an operator alone."
    )
    last_seen_at = serializers.DateTimeField()
    version = serializers.IntegerField()


class SeriesOut(serializers.Serializer[Any]):
    """One metric over time. All lists have one entry per slot; null is a gap: nothing was measured, nothing is guessed."""

    subject = serializers.CharField()
    metric = serializers.CharField()
    unit = serializers.CharField()
    simulated = serializers.BooleanField(help_text="Drawn for a simulated GPU, not measured: it says nothing about hardware.")
    resolution_seconds = serializers.FloatField()
    times = serializers.ListField(child=serializers.DateTimeField())
    values = serializers.ListField(child=serializers.FloatField(allow_null=True), help_text="Mean of the slot.")
    lows = serializers.ListField(child=serializers.FloatField(allow_null=True))
    highs = serializers.ListField(child=serializers.FloatField(allow_null=True))


class SeriesListOut(serializers.Serializer[Any]):
    """Series of one answer."""

    items = SeriesOut(many=True)


def cluster_json(rows: Sequence[Cluster], *, language: str = "en") -> list[dict[str, Any]]:
    return [
        {
            "id": str(row.pk),
            "name": row.name,
            "kind": row.kind,
            "is_enabled": row.is_enabled,
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
        }
        for row in rows
    ]


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
    for one in open_faults(row.gpu_faults):
        told = {"kind": one["kind"], "number": one["number"], "text": words_of(one, language), "since_at": one["since_at"]}
        faults.setdefault(one["gpu"], []).append(told)
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
