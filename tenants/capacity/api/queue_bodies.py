"""Bodies of the operations on queues and their limits, and queues as the API shows them: a whole page at once."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from drf_spectacular.utils import OpenApiExample, extend_schema_serializer
from rest_framework import serializers

from clusters.selectors import PoolFacts
from kernel.actor import Actor
from kernel.resources import RESOURCE_NAMES
from tenants.capacity import selectors as queue_selectors
from tenants.capacity.models import Queue
from tenants.capacity.quota.limits import AMOUNT_MAX as SUM_MAX
from tenants.capacity.quota.limits import WEIGHT_MAX
from tenants.capacity.quota.tree import QueueTree
from tenants.capacity.services.queues import AMOUNT_MAX
from tenants.identity.api.serializers import Out, TenantRef, text_field
from tenants.identity.api.shapes import Shown, tenant_ref
from tenants.identity.services.names import DISPLAY_NAME_LENGTH
from webapi.fields import QuantityField
from webapi.serializers import StrictSerializer


class PoolRef(Out):
    """A reference to a pool."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    cluster = serializers.CharField()


class AmountsOut(Out):
    """Amounts in the smallest unit: thousandths of a core, bytes, thousandths of a GPU."""

    cpu_millis = serializers.IntegerField()
    memory_bytes = serializers.IntegerField()
    gpu_millis = serializers.IntegerField()


class CeilingOut(Out):
    """Limits in the smallest unit; null is no limit."""

    cpu_millis = serializers.IntegerField(allow_null=True)
    memory_bytes = serializers.IntegerField(allow_null=True)
    gpu_millis = serializers.IntegerField(allow_null=True)


class QueuePoolOut(Out):
    """A queue in a pool: its use including all queues below, its own ceiling, and the capacity that queues above leave it."""

    pool = PoolRef()
    used = AmountsOut()
    ceiling = CeilingOut()
    effective_ceiling = CeilingOut(help_text="Lowest ceiling of the queue and the queues above.")
    headroom = CeilingOut(help_text="Free amount below all of these ceilings.")
    guarantee = AmountsOut(help_text="Guarantee, never lent.")
    deserved = CeilingOut(help_text="Deserved share, which it may reclaim from borrowers; null: the guarantee.")
    weight = AmountsOut(help_text="Weight in sharing capacity that no queue deserves, by resource.")


class QueueOut(Out):
    """A queue. `path` names the queues above it that you can see."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    path = serializers.CharField()
    tenant = TenantRef(allow_null=True)
    parent_id = serializers.UUIDField(allow_null=True)
    is_top = serializers.BooleanField()
    pools = QueuePoolOut(many=True)
    version = serializers.IntegerField()


@extend_schema_serializer(examples=[OpenApiExample("queue", {"name": "nightly", "tenant": "vision"})])
class QueueIn(StrictSerializer):
    """A new queue below another of the same tenant: `parent` by id or name, the tenant's top queue by default."""

    name = serializers.CharField(max_length=DISPLAY_NAME_LENGTH, trim_whitespace=False)
    tenant = serializers.CharField(max_length=100, required=False, allow_null=True, default=None)
    parent = text_field(max_length=100, required=False, allow_null=True, default=None)


class QueueChange(StrictSerializer):
    """The queue's new name."""

    name = serializers.CharField(max_length=DISPLAY_NAME_LENGTH, trim_whitespace=False)


class AmountsIn(StrictSerializer):
    """Amounts by resource; omitted resources are unchanged."""

    cpu_millis = QuantityField(required=False, max_value=SUM_MAX)
    memory_bytes = QuantityField(required=False, max_value=SUM_MAX)
    gpu_millis = QuantityField(required=False, max_value=SUM_MAX)


class DeservedIn(StrictSerializer):
    """Amounts by resource; null is the guarantee, and omitted resources are unchanged."""

    cpu_millis = QuantityField(required=False, allow_null=True, max_value=SUM_MAX)
    memory_bytes = QuantityField(required=False, allow_null=True, max_value=SUM_MAX)
    gpu_millis = QuantityField(required=False, allow_null=True, max_value=SUM_MAX)


class WeightsIn(StrictSerializer):
    """Weights by resource; omitted resources are unchanged."""

    cpu_millis = QuantityField(required=False, max_value=WEIGHT_MAX)
    memory_bytes = QuantityField(required=False, max_value=WEIGHT_MAX)
    gpu_millis = QuantityField(required=False, max_value=WEIGHT_MAX)


@extend_schema_serializer(
    examples=[OpenApiExample("eight GPUs", {"pool": "a100", "cpu_millis": None, "memory_bytes": None, "gpu_millis": 8000})]
)
class LimitIn(StrictSerializer):
    """Ceilings of a pool, by id or name; null or omitted is no limit. Omitted guarantees, shares and weights are unchanged."""

    pool = serializers.CharField(max_length=255)
    cpu_millis = QuantityField(required=False, allow_null=True, default=None, max_value=AMOUNT_MAX)
    memory_bytes = QuantityField(required=False, allow_null=True, default=None, max_value=AMOUNT_MAX)
    gpu_millis = QuantityField(required=False, allow_null=True, default=None, max_value=AMOUNT_MAX)
    guarantee = AmountsIn(required=False, help_text="Guarantee, never lent.")
    deserved = DeservedIn(required=False, help_text="Deserved share, lent while idle and reclaimed on demand.")
    weight = WeightsIn(
        required=False, help_text="Weight in sharing capacity that no queue deserves; 1 unless set, and 0 comes last."
    )


def show_queues(actor: Actor, rows: Sequence[Queue], pools: Sequence[PoolFacts]) -> list[Shown]:
    """Rows come with their tenant. Three queries for the queues above them, their limits and use."""
    above = {uuid.UUID(hex=step) for row in rows for step in row.path.split("/") if step}
    tree = queue_selectors.queue_tree(above)
    return [_show_queue(actor, row, tree, pools) for row in rows]


def _show_queue(actor: Actor, row: Queue, tree: QueueTree, pools: Sequence[PoolFacts]) -> Shown:
    path = tree.path(row.pk)
    seen = [node for node in path if actor.is_operator or node.tenant_id in actor.roles]
    return {
        "id": str(row.pk),
        "name": row.name,
        "path": "/".join(node.name for node in reversed(seen)),
        "tenant": tenant_ref(row.tenant) if row.tenant else None,
        "parent_id": str(row.parent_id) if row.parent_id and row.parent_id in {node.id for node in seen} else None,
        "is_top": row.is_top,
        "pools": [
            {
                "pool": {"id": str(pool.id), "name": pool.name, "cluster": pool.cluster_name},
                "used": path[0].used(pool.id).as_dict(),
                "ceiling": path[0].ceiling(pool.id).as_dict(),
                "effective_ceiling": tree.effective_ceiling(row.pk, pool.id).as_dict(),
                "headroom": tree.headroom(row.pk, pool.id).as_dict(),
                **{
                    column: {name: getattr(path[0].limit(pool.id, name), column) for name in RESOURCE_NAMES}
                    for column in ("guarantee", "deserved", "weight")
                },
            }
            for pool in pools
        ],
        "version": row.version,
    }
