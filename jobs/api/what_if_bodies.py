"""Bodies and answers of what-if questions. Each change is an object with one key, which says what it is about."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from clusters.api.representations import ReferenceOut
from jobs.services.what_if import CHANGES_MAX
from kernel.limits import NAME_LENGTH
from webapi.serializers import StrictSerializer

EXAMPLE = {
    "changes": [
        {"quota": {"queue": "vision", "pool": "a100", "resource": "gpu_millis", "ceiling": 16000}},
        {"submit": {"spec": {"name": "train", "command": "true", "resources": {"gpu": 8}}, "count": 2}},
    ]
}
HELP = (
    "`submit`: {spec, count}. `ask`: {job, roles: {NAME: {replicas, gpu, cpu, memory}}, pools, any_model, max_runtime}. `rank`: "
    "{job, priority} or {job, first: true}. `release`, `end`: {job}. `quota`: {queue, pool, resource, guarantee, deserved, "
    "ceiling, weight}. `reserve`: {queue, pool, gpu, starts_at, ends_at}. For operators: `add_nodes`: {pool, count, gpu, cpu, "
    "memory, gpu_model}, `remove_node`, `cordon`, `uncordon`: {pool, node}, `policy`: {in_order, reclaims, preempts, "
    "aging_seconds, least_runtime_seconds, "
    "reclaim_least_runtime_seconds, starvation_guard_seconds, backfill_depth, rebalances}."
)


class WhatIfIn(StrictSerializer):
    """Hypothetical changes, applied together in their order."""

    tenant = serializers.CharField(
        required=False, max_length=NAME_LENGTH, help_text="Tenant of submitted jobs. Default: your only tenant."
    )
    changes = serializers.ListField(child=serializers.DictField(), allow_empty=False, max_length=CHANGES_MAX, help_text=HELP)


class WhatIfJobOut(serializers.Serializer[Any]):
    """A job that you can see. `pool` and `nodes`: where it would start; `reason`: why it would wait."""

    job = ReferenceOut()
    pool = serializers.CharField(allow_null=True)
    nodes = serializers.ListField(child=serializers.CharField())
    reason = serializers.DictField(allow_null=True)
    evicts = serializers.IntegerField(help_text="Number of jobs that would be preempted before it starts.")


class WhatIfListOut(serializers.Serializer[Any]):
    """`others`: number of further jobs, of tenants that you cannot see."""

    jobs = WhatIfJobOut(many=True)
    more = serializers.IntegerField(help_text="Number of visible jobs that are not listed.")
    others = serializers.IntegerField()


class WhatIfCountsOut(serializers.Serializer[Any]):
    starts = serializers.IntegerField()
    waits = serializers.IntegerField()
    evicted = serializers.IntegerField()


class WhatIfOut(serializers.Serializer[Any]):
    """A pass of the scheduler with the changes, compared with a pass without them."""

    before = WhatIfCountsOut(help_text="All decisions of the pass without the changes.")
    after = WhatIfCountsOut()
    starts = WhatIfListOut(help_text="Jobs that would start now only with the changes.")
    starts_not = WhatIfListOut(help_text="Jobs that would start now only without the changes.")
    waits = WhatIfListOut(help_text="Jobs that would newly wait, or wait for another reason.")
    evicted = WhatIfListOut()
    spared = WhatIfListOut(help_text="Jobs that would be preempted only without the changes.")
    displaced = WhatIfListOut(help_text="Jobs on nodes that would be removed; they wait again or start elsewhere.")
