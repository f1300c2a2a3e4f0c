"""The roles of a job as its framework sees them, for an attempt and for a look before one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Literal

from clusters.engines.interface import CheckpointDir
from jobs.frameworks import get_framework
from jobs.frameworks.interface import FrameworkJob, FrameworkRole, ReadyCheck
from jobs.frameworks.preview import layout_of
from jobs.lifecycle.completion import chief_of
from jobs.lifecycle.policies import own_tries
from jobs.spec.model import JobSpec, Role


def framework_roles(spec: JobSpec, counts: Mapping[str, int]) -> tuple[FrameworkRole, ...]:
    """Each role with so many tasks: an elastic one has as many as there was room for."""
    return tuple(_framework_role(spec, name, role, counts[name]) for name, role in spec.roles.items())


SHOWN_TASKS_MAX = 1_000  # Of a job that is laid out to be looked at: it costs time in proportion.


def layout_json(spec: JobSpec) -> dict[str, Any] | None:
    """What would be made of a job: by role, and whose end decides. None for one that is too large to look at."""
    if spec.task_count_max > SHOWN_TASKS_MAX:
        return None
    counts = {name: role.replicas.max for name, role in spec.roles.items()}
    job = FrameworkJob(
        job_id="00000000-0000-0000-0000-000000000000",
        job_name=spec.name,
        attempt=1,
        roles=framework_roles(spec, counts),
        env=spec.env,
        checkpoint_dir=(CheckpointDir(),) if spec.checkpoint is not None else (),
        ssh=spec.ssh,
        key="-",  # No plan is shown with it, and some are not made without.
        chief=chief_of(spec, spec.roles),
    )
    roles, deciding = layout_of(get_framework(spec.framework), job)
    return {
        "roles": [asdict(role) for role in roles],
        "chief": chief_of(spec, spec.roles),
        "vital": sorted(deciding.vital & spec.roles.keys()) if deciding.chief in spec.roles else [],
    }


def _framework_role(spec: JobSpec, name: str, role: Role, count: int) -> FrameworkRole:
    max_retry, retry_codes = own_tries(role.policies, role.max_retry)
    return FrameworkRole(
        name=name,
        count=count,
        argv=role.argv,
        env=role.env,
        ports=role.ports,
        gpu_millis=role.resources.gpu.millis,
        cpu_millis=role.resources.cpu_millis,
        memory_bytes=role.resources.memory_bytes,
        shm_bytes=role.resources.shm_bytes,
        min_failed=_threshold(spec, name, "min_failed", 1),
        min_succeeded=_threshold(spec, name, "min_succeeded", None),
        count_min=role.replicas.min,
        ready=_ready_check(role),
        start_after_ready=role.start_after_ready,
        max_retry=max_retry,
        retry_codes=retry_codes,
        processes_per_gpu=role.resources.processes_per_gpu,
    )


def _ready_check(role: Role) -> ReadyCheck | None:
    ready = role.ready
    return None if ready is None else ReadyCheck(ready.port or "", ready.path or "", ready.log or "", ready.timeout_seconds)


def _threshold(spec: JobSpec, role: str, name: Literal["min_failed", "min_succeeded"], default: int | None) -> int | None:
    rule = spec.completion.roles.get(role)
    count = getattr(rule, name) if rule is not None else None
    return default if count is None else count if isinstance(count, int) else None
