"""From a document to stored jobs. Everything is checked first, all errors at once; then one transaction writes it all."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import transaction

from activity import hints
from activity.services import NewEvent, record_audit, record_events
from clusters.selectors import pools_and_nodes
from images.services import ResolvedImage, resolve_image
from jobs.lifecycle.states import JobState
from jobs.models import Dependency, Job
from jobs.selectors.find import find_jobs_by_reference
from jobs.services.dependencies import settle
from jobs.services.specs import store_specs
from jobs.spec.canonical import spec_digest
from jobs.spec.model import JobSpec
from jobs.spec.parse import parse_spec
from kernel.actor import Actor
from kernel.errors import BerthError, FieldError, Forbidden, InvalidInput, NotFound, QuotaExceeded
from kernel.ids import new_ids
from kernel.resources import RESOURCE_NAMES, Resources
from kernel.words import format_amount
from reconciling import bulk
from reconciling.crashpoints import crashpoint
from reconciling.models import Transition
from storage.services.code import resolve_code
from storage.services.mounts import MountRequest, check_mounts
from tenants.access import in_scope, role_allows
from tenants.quota.tree import QueueFacts
from tenants.selectors import TenantFacts, find_tenant, queue_tree, resolve_queue, secret_names


@dataclass(frozen=True, slots=True)
class QueueRef:
    id: uuid.UUID
    name: str


@dataclass(frozen=True, slots=True)
class Submission:
    """A document that passed every check, with what its names stand for."""

    tenant: TenantFacts
    queue: QueueRef
    spec: JobSpec
    image: ResolvedImage
    code_digest: str
    dependencies: tuple[tuple[str, uuid.UUID], ...]  # (condition, job id)
    warnings: tuple[str, ...] = ()

    @property
    def ask(self) -> Resources:
        """What one attempt reserves."""
        whole = Resources()
        for role in self.spec.roles.values():
            whole += role.resources.amounts * role.replicas.max
        return whole


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a job comes from when it is not new: `rerun` or `clone` of another, or a build request."""

    job_id: uuid.UUID | None = None
    kind: str = ""
    build_request_id: uuid.UUID | None = None


def prepare(*, actor: Actor, tenant: str | None, document: object) -> Submission:
    """Check one document for an actor. Raises InvalidInput with every error, Forbidden, NotFound or QuotaExceeded."""
    facts = tenant_of(actor, tenant)
    return resolve(actor=actor, tenant=facts, spec=parse_spec(document))


def tenant_of(actor: Actor, text: str | None) -> TenantFacts:
    """The tenant that a submission is for: the one named, or the only one in which the actor may submit."""
    try:
        return find_tenant(actor, text)
    except NotFound as error:
        if text is not None:
            raise
        fields = [FieldError("/tenant", "required", error.detail, error.hint)]
        raise InvalidInput(error.detail, hint=error.hint, fields=fields) from None


def mount_requests(spec: JobSpec) -> list[MountRequest]:
    return [MountRequest(mount.volume, mount.path, mount.read_only) for mount in spec.mounts]


def resolve(*, actor: Actor, tenant: TenantFacts, spec: JobSpec) -> Submission:
    """Find everything that the spec names, for one tenant."""
    if not role_allows(actor, tenant.id, "job.submit"):
        if not in_scope(actor, "job.submit"):
            raise Forbidden("This token's scopes do not include jobs.", hint="Use a token with the scope jobs.")
        raise Forbidden(
            f"{actor.name} may not submit jobs in {tenant.name}.",
            hint="Ask a manager of the tenant for the role member.",
        )
    errors: list[FieldError] = []
    queue = _collect(errors, "/queue", lambda: resolve_queue(actor, tenant.id, spec.queue))
    image = _collect(errors, "/image", lambda: resolve_image(tenant_id=tenant.id, text=spec.image or ""))
    errors += check_mounts(tenant_id=tenant.id, mounts=mount_requests(spec))[1]
    code_digest = ""
    if spec.code is not None:
        if spec.code.snapshot:
            code_digest = spec.code.snapshot
            _collect(
                errors, "/code/snapshot", lambda: resolve_code(tenant_id=tenant.id, digest=code_digest, path="/code/snapshot")
            )
        else:
            errors.append(_code_not_uploaded(spec))
    for name in sorted(set(spec.secrets.values()) - secret_names(tenant.id)) if spec.secrets else ():
        errors.append(
            FieldError("/secrets", "secret_missing", f"{tenant.name} has no secret {name}.", f"berth secrets set {name}")
        )
    dependencies = _dependencies(actor, tenant, spec, errors)
    errors += _where(spec)
    if errors:
        if len(errors) == 1:
            raise InvalidInput(errors[0].message, hint=errors[0].hint, fields=errors)
        raise InvalidInput(
            f"Job {spec.name} names {len(errors)} things that cannot be used; the first: {errors[0].message}",
            hint="`fields` lists every one of them with its path.",
            fields=errors,
        )
    assert queue is not None
    assert image is not None
    submission = Submission(tenant, QueueRef(queue.id, queue.name), spec, image, code_digest, dependencies)
    _check_ceilings(submission)
    return submission


def _collect(errors: list[FieldError], path: str, look: Any) -> Any:
    """Run one check; what it refuses becomes entries of the common list."""
    try:
        return look()
    except BerthError as error:
        if error.fields:
            errors.extend(error.fields)
        else:
            errors.append(FieldError(path, error.code, error.detail, error.hint))
        return None


def _code_not_uploaded(spec: JobSpec) -> FieldError:
    assert spec.code is not None
    if spec.code.git:
        return FieldError(
            "/code/git",
            "code_git_unsupported",
            "This server does not fetch Git repositories yet.",
            "Clone it and send `code: {path: .}` with the command line, which uploads a snapshot.",
        )
    return FieldError(
        "/code/path",
        "code_not_uploaded",
        f"The server cannot read {spec.code.path} on your machine.",
        "Submit with `berth submit`, which uploads it; or upload a snapshot yourself and give its `snapshot`.",
    )


def _dependencies(
    actor: Actor, tenant: TenantFacts, spec: JobSpec, errors: list[FieldError]
) -> tuple[tuple[str, uuid.UUID], ...]:
    wanted = [
        (condition, position, reference)
        for condition in ("after", "after_ok", "after_any")
        for position, reference in enumerate(getattr(spec, condition))
    ]
    if not wanted:
        return ()
    found = find_jobs_by_reference(actor, tenant.id, [reference for _, _, reference in wanted])
    resolved: dict[tuple[str, uuid.UUID], None] = {}
    for condition, position, reference in wanted:
        job_id = found.get(reference)
        if job_id is None:
            errors.append(
                FieldError(
                    f"/{condition}/{position}",
                    "job_not_found",
                    f"There is no job {reference} in {tenant.name}.",
                    "`berth ps -a` lists ids and names.",
                )
            )
        else:
            resolved[(condition, job_id)] = None
    return tuple(resolved)


def _where(spec: JobSpec) -> list[FieldError]:
    """Pool, cluster and GPU model must exist somewhere, or the job would wait for ever."""
    pools, _ = pools_and_nodes()
    errors = []
    if spec.pool and spec.pool not in {pool.name for pool in pools}:
        errors.append(_unknown("pool", spec.pool, {pool.name for pool in pools}))
    if spec.cluster and spec.cluster not in {pool.cluster_name for pool in pools}:
        errors.append(_unknown("cluster", spec.cluster, {pool.cluster_name for pool in pools}))
    models = {pool.gpu_model for pool in pools if pool.gpu_model}
    for name, role in spec.roles.items():
        wanted = role.resources.gpu.model
        if wanted and wanted not in models:
            have = ", ".join(sorted(models)) or "no GPU at all"
            message = f"No pool has GPUs of model {wanted}; there is {have}."
            errors.append(
                FieldError(f"/roles/{name}/resources/gpu", "gpu_model_unknown", message, "`berth nodes` lists what there is.")
            )
    return errors


def _unknown(noun: str, name: str, known: set[str]) -> FieldError:
    message = f"There is no {noun} {name}; there is {', '.join(sorted(known)) or 'none'}."
    return FieldError(f"/{noun}", f"{noun}_not_found", message, f"`berth {noun}s` lists them.")


def _check_ceilings(submission: Submission) -> None:
    """Refuse what could never start because it asks for more than its queue may ever use in any pool."""
    spec, ask = submission.spec, submission.ask
    pools = [
        pool for pool in pools_and_nodes()[0] if spec.pool in (None, pool.name) and spec.cluster in (None, pool.cluster_name)
    ]
    path = queue_tree().path(submission.queue.id)
    broken = {pool.name: _broken_ceiling(path, pool.id, ask) for pool in pools}
    if not broken or any(found is None for found in broken.values()):
        return
    pool_name, found = next(iter(broken.items()))
    assert found is not None
    queue_name, resource, ceiling = found
    need = format_amount(resource, getattr(ask, resource))
    message = (
        f"Job {spec.name} asks for {need}; queue {queue_name} may use {format_amount(resource, ceiling)} of pool {pool_name}."
    )
    hint = "Ask a manager of the tenant above to raise the ceiling, or ask for less."
    raise QuotaExceeded(message, hint=hint, fields=[FieldError("/roles", "ceiling_too_low", message, hint)])


def _broken_ceiling(path: Sequence[QueueFacts], pool_id: uuid.UUID, ask: Resources) -> tuple[str, str, int] | None:
    """Queue name, resource and ceiling of the first limit that the amount alone breaks."""
    for queue in path:
        for resource, ceiling in queue.ceilings.get(pool_id, {}).items():
            if getattr(ask, resource) > ceiling:
                return queue.name, resource, ceiling
    return None


# --- Writing ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Rows:
    jobs: list[dict[str, Any]] = field(default_factory=list)
    dependencies: list[dict[str, Any]] = field(default_factory=list)


def submit(
    submissions: Sequence[Submission], *, actor: Actor, now: datetime, origin: Origin = Origin(), call: str = "job.submit"
) -> list[uuid.UUID]:
    """Store jobs and say so: rows, transitions, events and one audit row in one transaction. Returns ids in order.

    All submissions are of one tenant. An array gives the id of its parent.
    """
    tenant = submissions[0].tenant
    with transaction.atomic():
        specs = store_specs(tenant.id, [submission.spec for submission in submissions], now=now)
        rows = _Rows()
        ids = [_add(rows, submission, specs, actor, origin, now) for submission in submissions]
        bulk.insert(Job, rows.jobs)
        bulk.insert(Dependency, rows.dependencies)
        _tell(rows.jobs, actor, now)
        if rows.dependencies:
            _settle_dependencies(rows, now)
        record_audit(
            actor=actor,
            verb=call,
            tenant_id=tenant.id,
            target_kind="job",
            target_id=ids[0],
            target_name=submissions[0].spec.name,
            after={"spec_digest": spec_digest(submissions[0].spec), "queue": submissions[0].queue.name},
            count=len(rows.jobs),
            at=now,
        )
        crashpoint("jobs.submit.before_commit")
    crashpoint("jobs.submit.after_commit")
    return ids


def _add(
    rows: _Rows,
    submission: Submission,
    specs: Mapping[str, uuid.UUID],
    actor: Actor,
    origin: Origin,
    now: datetime,
) -> uuid.UUID:
    spec = submission.spec
    size = spec.array.size if spec.array else 0
    ids = list(new_ids(1 + size))
    row = _job_row(submission, specs[spec_digest(spec)], actor, origin, now)
    if not size:
        rows.jobs.append({**row, "id": ids[0]})
    else:
        assert spec.array is not None
        rows.jobs.append(
            {**row, "id": ids[0], "array_size": size, "array_parallelism": spec.array.parallelism, "reason_code": "array"}
        )
        rows.jobs.extend(
            {**row, "id": child_id, "parent_id": ids[0], "array_index": index, "origin_id": None, "origin_kind": ""}
            for index, child_id in enumerate(ids[1:])
        )
    waiting = ids[1:] if size else ids[:1]
    id_source = new_ids(len(waiting) * len(submission.dependencies))
    rows.dependencies.extend(
        {"id": next(id_source), "job_id": job_id, "on_id": on_id, "condition": condition, "met": None}
        for job_id in waiting
        for condition, on_id in submission.dependencies
    )
    return ids[0]


def _job_row(submission: Submission, spec_id: uuid.UUID, actor: Actor, origin: Origin, now: datetime) -> dict[str, Any]:
    spec, ask = submission.spec, submission.ask
    return {
        "tenant_id": submission.tenant.id,
        "queue_id": submission.queue.id,
        "user_id": actor.user_id,
        "spec_id": spec_id,
        "image_id": submission.image.id,
        "image_kind": str(submission.image.kind),
        "image_name": submission.image.name,
        "image_digest": submission.image.digest,
        "code_digest": submission.code_digest,
        "name": spec.name,
        "kind": str(spec.kind),
        "framework": spec.framework,
        "labels": dict(spec.labels),
        "tags": list(spec.tags),
        "pool_name": spec.pool or "",
        "state": JobState.QUEUED,
        "desired": "run",
        "hold": spec.hold,
        "priority": spec.priority,
        "reason_code": "held" if spec.hold else "scheduling",
        "reason_detail": {},
        "condition": "",
        **{name: getattr(ask, name) for name in RESOURCE_NAMES},
        "max_runtime_seconds": spec.max_runtime_seconds,
        "parent_id": None,
        "array_index": None,
        "array_size": None,
        "array_parallelism": None,
        "origin_id": origin.job_id,
        "origin_kind": origin.kind,
        "build_request_id": origin.build_request_id,
        "open_dependencies": len(submission.dependencies),
        "dependency_failed": False,
        "attempt_count": 0,
        "paid": {},
        "not_before_at": spec.start_after,
        "submitted_at": now,
        "queued_at": now,
        "version": 1,
    }


def _tell(jobs: Sequence[Mapping[str, Any]], actor: Actor, now: datetime) -> None:
    """The first transition of every job, from nothing to QUEUED, and its event."""
    ids = new_ids(len(jobs))
    bulk.insert(
        Transition,
        [
            {
                "id": next(ids),
                "tenant_id": job["tenant_id"],
                "subject_kind": "job",
                "subject_id": job["id"],
                "job_id": job["id"],
                "from_state": "",
                "to_state": JobState.QUEUED,
                "reason": "submitted",
                "detail": {},
                "actor": actor.name,
                "at": now,
            }
            for job in jobs
        ],
    )
    record_events(
        [
            NewEvent(
                kind="job.queued",
                tenant_id=job["tenant_id"],
                subject_kind="job",
                subject_id=job["id"],
                job_id=job["id"],
                data={"from": "", "to": JobState.QUEUED, "reason": "submitted", "name": job["name"], "user": actor.name},
                at=now,
            )
            for job in jobs
        ]
    )
    hints.wake("scheduler")


def _settle_dependencies(rows: _Rows, now: datetime) -> None:
    """Jobs that were waited for may have started or ended before this was stored."""
    settle(sorted({row["on_id"] for row in rows.dependencies}), now=now)
