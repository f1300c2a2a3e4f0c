"""What jobs answer when a layer below asks: what a job is called, what it holds, where its log comes from."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from typing import Any

from django.db.models import Sum

from activity import registry
from activity.threads import in_thread
from clusters.selectors import GpuHolder, NodeKey, register_allocation_source, register_holder_source
from clusters.services import register_removal
from clusters.telemetry import register_collector_source
from clusters.telemetry.metrics import task_subject
from jobs.bounds import REPLICAS
from jobs.lifecycle.reasons import explain
from jobs.lifecycle.states import ATTEMPT_LIFECYCLE
from jobs.models import Attempt, Job, Task
from jobs.prometheus import job_metrics
from jobs.selectors.find import fetch_job
from jobs.selectors.for_room import waiting_for_room
from jobs.services import cluster_removal
from jobs.services.queue_removal import unfinished_in
from jobs.services.what_if import forecast_limits
from kernel.actor import Actor
from kernel.clock import utc_text
from kernel.config import current
from kernel.errors import InvalidInput
from kernel.limits import NAME_LENGTH
from kernel.resources import Resources
from kernel.words import Text
from storage.logs import LogFilter, follow
from tenants.billing.services.ledger import GpuTask, register_gpu_tasks
from tenants.identity.access import tenants_with
from tenants.services import register_forecast, register_queue_obstacles, register_waiting

_SUMS = {"cpu": Sum("cpu_millis"), "memory": Sum("memory_bytes"), "gpu": Sum("gpu_millis")}


def register_hooks() -> None:
    """Called once, when the app is ready."""
    registry.register_job_directory(_notices)
    registry.register_channel_policy("job", lambda actor, text: fetch_job(actor, text, "job.read").id)
    registry.register_log_source(_log_messages)
    register_collector_source("jobs", job_metrics)
    register_forecast(forecast_limits)
    register_waiting(waiting_for_room)
    register_allocation_source(by_pool=_held_in_pools, by_node=_held_on_nodes)
    register_holder_source(_gpu_holders)
    register_gpu_tasks(_gpu_tasks)
    register_removal(cluster_removal.obstacles)
    register_queue_obstacles(unfinished_in)


def _gpu_tasks(attempt_ids: Collection[uuid.UUID]) -> list[GpuTask]:
    """Not those with simulated GPUs: what is drawn for these is no hour in which a GPU worked."""
    rows = Task.objects.filter(attempt_id__in=list(attempt_ids), gpu_millis__gt=0, attempt__gpus_simulated=False).order_by()
    return [
        GpuTask(attempt_id, task_subject(attempt_id, role, index), gpu_millis)
        for attempt_id, role, index, gpu_millis in rows.values_list("attempt_id", "role", "index", "gpu_millis")
    ]


def _notices(job_ids: Collection[uuid.UUID]) -> Mapping[uuid.UUID, registry.JobNotice]:
    rows = Job.objects.filter(id__in=job_ids).select_related("tenant")
    notices = {}
    for job in rows:
        words = explain(job.reason_code, job.reason_detail) if job.reason_code else None
        notices[job.id] = registry.JobNotice(
            job_id=job.id,
            name=job.name,
            user_id=job.user_id,
            tenant_name=job.tenant.name,
            state=job.state,
            reason=words.text if words else "",
            hint=words.hint if words else "",
            command=f"berth logs {job.id}",
            url=f"{current().url}/jobs/{job.id}",
            is_array_child=job.parent_id is not None,
        )
    return notices


async def _log_messages(actor: Actor, request: Mapping[str, Any]) -> AsyncGenerator[Mapping[str, Any]]:
    """A followed log for a socket: checks the actor's right, then gives pages until the log is complete."""
    wanted, number = _log_request(request)
    job = await in_thread(fetch_job, actor, str(request.get("job", "")), "job.logs")
    attempts = Attempt.objects.filter(job_id=job.id).order_by("-number")
    if number is not None:
        attempts = attempts.filter(number=number)
    attempt = await in_thread(attempts.first)
    if attempt is None:
        yield {"items": [], "cursor": "0-0", "complete": False, "attempt": 0}
        return
    cursor = request.get("cursor")
    async for answer in follow(attempt.id, cursor=cursor if isinstance(cursor, str) else None, wanted=wanted):
        yield {
            "items": [{**item.as_dict(), "at": utc_text(item.at)} for item in answer.items],
            "cursor": answer.cursor,
            "complete": answer.complete,
            "attempt": attempt.number,
        }


def _log_request(request: Mapping[str, Any]) -> tuple[LogFilter, int | None]:
    """Read the filter and the attempt's number; None is the newest attempt. Raises InvalidInput."""
    role, index, stream, number = (request.get(name) for name in ("role", "index", "stream", "attempt"))
    texts = all(item is None or (isinstance(item, str) and len(item) <= NAME_LENGTH) for item in (role, stream))
    numbers = all(item is None or (type(item) is int and 0 <= item < REPLICAS) for item in (index, number))
    if not texts or not numbers:
        raise InvalidInput(
            Text(
                "`role` and `stream` are texts, `index` and `attempt` are whole numbers; each may be left out.",
                "`role` 与 `stream` 为文本，`index` 与 `attempt` 为整数；均可省略。",
            )
        )
    return LogFilter(role=role, index=index, stream=stream), number


def _held_in_pools(pool_ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, Resources]:
    rows = _live_tasks().filter(attempt__pool_id__in=pool_ids).values_list("attempt__pool_id").annotate(**_SUMS).order_by()
    return {pool_id: Resources(cpu, memory, gpu) for pool_id, cpu, memory, gpu in rows}


def _held_on_nodes(nodes: Sequence[NodeKey]) -> dict[NodeKey, Resources]:
    wanted = set(nodes)
    rows = (
        _live_tasks()
        .filter(node_name__in={name for _, name in wanted})
        .values_list("attempt__cluster_id", "node_name")
        .annotate(**_SUMS)
        .order_by()
    )
    return {(cluster_id, name): Resources(*held) for cluster_id, name, *held in rows if (cluster_id, name) in wanted}


def _gpu_holders(actor: Actor, nodes: Sequence[NodeKey]) -> dict[NodeKey, list[GpuHolder]]:
    """One query. Whose they are, in tenants in which the actor may see jobs; jobs of one's own are in one's own tenants."""
    wanted, seen = set(nodes), tenants_with(actor, "job.read")
    columns = (
        "attempt__cluster_id", "node_name", "gpus", "gpu_millis", "tenant_id", "job_id", "attempt__job__name",
        "attempt__job__tenant__name", "attempt__job__user__name",
    )  # fmt: skip
    rows = _live_tasks().filter(node_name__in={name for _, name in wanted}, gpu_millis__gt=0).order_by("id")
    held: dict[NodeKey, list[GpuHolder]] = {}
    for cluster_id, node, gpus, millis, tenant_id, job_id, name, tenant, user in rows.values_list(*columns):
        if (cluster_id, node) in wanted:
            whose = (job_id, name, tenant, user) if seen is None or tenant_id in seen else ()
            held.setdefault((cluster_id, node), []).append(GpuHolder(tuple(gpus), millis, *whose))
    return held


def _live_tasks() -> Any:
    return Task.objects.filter(attempt__state__in=ATTEMPT_LIFECYCLE.live_states)
