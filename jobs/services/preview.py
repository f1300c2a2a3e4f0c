"""What a submission would do, before it does it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from jobs.lifecycle.reasons import explain
from jobs.models import Job
from jobs.scheduling.plan import never
from jobs.scheduling.snapshot import PendingJob
from jobs.selectors.pools import pool_views
from jobs.services.specs import load_spec, role_asks
from jobs.services.submission import Submission
from jobs.spec.canonical import spec_digest, to_document
from jobs.spec.diff import diff_specs
from kernel.clock import database_now
from kernel.priorities import format_priority
from kernel.resources import RESOURCE_NAMES


def _in_vain(submission: Submission) -> list[str]:
    """Why it would wait for ever, if no pool could hold it even when empty."""
    spec = submission.spec
    ask = PendingJob(
        id=submission.tenant.id,
        tenant_id=submission.tenant.id,
        queue_id=submission.queue.id,
        priority=submission.priority,
        queued_at=database_now(),
        roles=role_asks(spec),
        pool_name=spec.pool or "",
        cluster_name=spec.cluster or "",
        image_kind=str(submission.image.kind),
    )
    refusal = never(ask, pool_views({}, {}))
    if refusal is None:
        return []
    words = explain(refusal[0], refusal[1])
    return [f"It would not start. {words.text} {words.hint}".rstrip()]


def plan_json(submission: Submission, *, compared_with: Job | None = None) -> dict[str, Any]:
    """The plan: where it would go, what it would reserve, and how it differs from the job that it repeats."""
    spec, ask = submission.spec, submission.ask
    warnings = [*submission.warnings, *_in_vain(submission)]
    if submission.priority < spec.priority:
        asked, stored = format_priority(spec.priority), format_priority(submission.priority)
        warnings.append(f"It would wait with priority {stored}, not {asked}: that is the highest that you may use yourself here.")
    plan: dict[str, Any] = {
        "name": spec.name,
        "tenant": {"id": str(submission.tenant.id), "slug": submission.tenant.slug, "name": submission.tenant.name},
        "queue": {"id": str(submission.queue.id), "name": submission.queue.name},
        "image": {"name": submission.image.name, "kind": str(submission.image.kind), "digest": submission.image.digest},
        "framework": spec.framework,
        "roles": [
            {
                "name": name,
                "replicas": role.replicas.max,
                "command": role.command if isinstance(role.command, str) else list(role.command),
                "resources": role.resources.amounts.as_dict(),
            }
            for name, role in spec.roles.items()
        ],
        "total": {name: getattr(ask, name) for name in RESOURCE_NAMES},
        "jobs": spec.array.size if spec.array else 1,
        "spec_digest": spec_digest(spec),
        "spec": to_document(spec),
        "warnings": warnings,
    }
    if compared_with is not None:
        plan["changes"] = [asdict(change) for change in diff_specs(load_spec(compared_with.spec_id), spec)]
    return plan
