"""What the leading scheduler tells of pools: the shape of what is idle, how fragmented it is, which tasks they usually get.

It is the one who has all of it in memory, so it costs no load. What pools usually get is no setting: it is counted from the last
attempts that they were given.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from clusters.engines.interface import Sample
from clusters.services.measures import Measured, record_measures, record_mixes
from clusters.telemetry import record_samples
from clusters.telemetry.metrics import pool_subject
from jobs.loading.around import Around
from jobs.loading.specs import wishes
from jobs.models import Attempt
from jobs.scheduling.core.core import Core
from jobs.scheduling.core.place.machines import TaskAsk
from jobs.scheduling.questions.idle import Idle, idle_of, mix_rows

MIX_SECONDS = 600  # A habit does not change sooner; each change has all machines of the pool scored again.
MIX_ATTEMPTS = 5_000  # The last of the installation, of all pools: a pool without any of them keeps what it had.


def measure_pools(core: Core, around: Around, now: datetime) -> int:
    """Write down how pools are filled now; how many there are."""
    measured = {}
    samples: dict[uuid.UUID, list[Sample]] = {}
    for number, pool in enumerate(around.pools):
        idle = idle_of(core.machines, number)
        measured[pool.id] = Measured(idle.fragmentation, _idle_document(idle))
        for metric, value in sorted(_samples(idle).items()):
            samples.setdefault(pool.cluster_id, []).append(Sample(pool_subject(pool.id), metric, value))
    for cluster_id, found in samples.items():
        record_samples(cluster_id, found, now)
    return record_measures(measured, now) if measured else 0


def count_mixes(now: datetime) -> int:
    """Count again what pools usually get; of how many that changed."""
    counted: dict[uuid.UUID, dict[TaskAsk, int]] = {}
    for pool_id, shape, often in recent_tasks():
        tasks = counted.setdefault(pool_id, {})
        tasks[shape] = tasks.get(shape, 0) + often
    return record_mixes({pool_id: mix_rows(tasks.items()) for pool_id, tasks in counted.items()}, now)


def recent_tasks() -> Iterator[tuple[uuid.UUID, TaskAsk, int]]:
    """The tasks of the last attempts by pool, with how many of one job, the last ones first. Models and labels are left out: the
    pool has what they need."""
    rows = list(Attempt.objects.order_by("-id").values_list("pool_id", "job__spec_id")[:MIX_ATTEMPTS])
    asked = wishes({spec_id for _, spec_id in rows})
    for pool_id, spec_id in rows:
        wish = asked.get(spec_id)
        for role in wish.gang.roles if wish is not None else ():
            yield pool_id, TaskAsk(role.ask.cpu_millis, role.ask.memory_bytes, role.ask.gpu_millis), role.minimum


def _idle_document(idle: Idle) -> dict[str, Any]:
    return {
        "cpu_millis": idle.cpu_millis,
        "models": {
            model: {
                "gpus": idle_model.gpus,
                "largest_task": idle_model.largest_task,
                "largest_job": idle_model.largest_job,
                "machines": {str(gpus): count for gpus, count in idle_model.machines.items()},
            }
            for model, idle_model in idle.models.items()
        },
    }


def _samples(idle: Idle) -> Mapping[str, float]:
    if not idle.models:
        return {}
    found = {
        "gpu_idle": float(sum(idle_model.gpus for idle_model in idle.models.values())),
        "gpu_largest_task": float(max(idle_model.largest_task for idle_model in idle.models.values())),
        "gpu_largest_job": float(max(idle_model.largest_job for idle_model in idle.models.values())),
    }
    return found if idle.fragmentation is None else {**found, "gpu_fragmentation_ratio": idle.fragmentation / 1000}
