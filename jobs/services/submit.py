"""From a document to a checked submission: everything at once, all errors at once. `jobs/services/store.py` writes it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from clusters.selectors import PoolFacts, list_pools
from images.services import resolve_image
from jobs.lifecycle.reasons import capped_text
from jobs.lifecycle.states import JOB_LIFECYCLE, JobState
from jobs.loading.specs import load_spec
from jobs.models import Job
from jobs.selectors.find import find_jobs_by_reference
from jobs.services.code_fetch import fetch_spec, known_commit
from jobs.services.fitting import larger_than_any, may_be_unmeasured, starts_nowhere
from jobs.services.priority import stored_priority
from jobs.services.store import submit as submit
from jobs.services.submission import Origin as Origin
from jobs.services.submission import QueueRef, Submission
from jobs.spec.model import JobSpec
from jobs.spec.parse import parse_spec
from kernel.actor import Actor
from kernel.errors import BerthError, FieldError, Forbidden, InvalidInput, NotFound, QuotaExceeded
from kernel.gpus import is_model
from kernel.resources import Resources
from kernel.words import format_amount, format_duration
from storage.selectors import has_checkpoint
from storage.services.code import resolve_code
from storage.services.mounts import MountRequest, check_mounts
from tenants.access import in_scope, role_allows
from tenants.capacity import default_runtimes, runtime_limits, tenant_paths, user_caps
from tenants.quota.caps import Held, RuntimeRefusal, check_runtime, default_runtime
from tenants.quota.tree import QueueFacts, QueueTree
from tenants.selectors import TenantFacts, find_tenant, queue_tree, resolve_queue, secret_names
from tenants.standing import disabled_tenants
from tenants.standing import refusal as disabled_refusal
from webapi.facts import Facts, look


def prepare(
    *, actor: Actor, tenant: str | None, document: object, facts: Facts | None = None, priority_reason: str | None = None
) -> Submission:
    """Check one document for an actor. Raises InvalidInput with every error, Forbidden, NotFound or QuotaExceeded.

    With a `priority_reason`, a priority above the actor's own is no error: it is requested for that reason.

    `facts` are those that the caller's request was authenticated with; None asks anew. Neither may be asked for in a
    transaction that has changed a queue, a limit, a pool or an image.
    """
    spec = parse_spec(document)
    facts = facts or look()
    owner = tenant_of(actor, tenant, facts)
    return resolve(actor=actor, tenant=owner, spec=spec, facts=facts, priority_reason=priority_reason)


def tenant_of(actor: Actor, text: str | None, facts: Facts | None = None) -> TenantFacts:
    """The tenant that a submission is for: the one named, or the only one in which the actor may submit."""
    try:
        return (facts or look()).find(("tenant", text, *_identity(actor)), lambda: find_tenant(actor, text))
    except NotFound as error:
        if text is not None:
            raise
        fields = [FieldError("/tenant", "required", error.detail, error.hint)]
        raise InvalidInput(error.detail, hint=error.hint, fields=fields) from None


def _identity(actor: Actor) -> tuple[object, ...]:
    """What decides what an actor sees, as long as no mark says that roles have changed."""
    return (actor.user_id, actor.token_id, actor.scopes, actor.is_operator, actor.name if actor.user_id is None else "")


def mount_requests(spec: JobSpec) -> list[MountRequest]:
    return [MountRequest(mount.volume, mount.path, mount.read_only) for mount in spec.mounts]


def resolve(
    *, actor: Actor, tenant: TenantFacts, spec: JobSpec, facts: Facts | None = None, priority_reason: str | None = None
) -> Submission:
    """Find everything that the spec names, for one tenant. `facts` and `priority_reason` as for `prepare`."""
    facts = facts or look()
    if not role_allows(actor, tenant.id, "job.submit"):
        if not in_scope(actor, "job.submit"):
            raise Forbidden("This token's scopes do not include jobs.", hint="Use a token with the scope jobs.")
        raise Forbidden(
            f"{actor.name} may not submit jobs in {tenant.name}.",
            hint="Ask a manager of the tenant for the role member.",
        )
    disabled = facts.find("disabled_tenants", disabled_tenants).get(tenant.id)
    if disabled is not None:
        raise disabled_refusal(disabled)
    errors: list[FieldError] = []
    queue_key = ("queue", tenant.id, spec.queue, *_identity(actor))
    queue = _collect(errors, "/queue", lambda: facts.find(queue_key, lambda: resolve_queue(actor, tenant.id, spec.queue)))
    image_key = ("image", tenant.id, spec.image or "")
    image = _collect(
        errors, "/image", lambda: facts.find(image_key, lambda: resolve_image(tenant_id=tenant.id, text=spec.image or ""))
    )
    if spec.mounts:
        errors += check_mounts(tenant_id=tenant.id, mounts=mount_requests(spec))[1]
    code_digest, commit = _code(tenant, spec, errors) if spec.code is not None else ("", None)
    errors += _missing_secrets(tenant, spec)
    source = _checkpoint_source(actor, tenant, spec, errors)
    dependencies = _dependencies(actor, tenant, spec, errors)
    pools = facts.find("pools", list_pools)
    unknown = _where(spec, pools)
    errors += [] if unknown and may_be_unmeasured(spec) else unknown
    errors += _whole_cores(spec)
    if (too_large := larger_than_any(spec, pools)) is not None:
        errors.append(too_large)
    elif not unknown and image is not None and (nowhere := starts_nowhere(spec, str(image.kind), pools)) is not None:
        errors.append(nowhere)
    asks_for_more = priority_reason is not None
    priority, refusal = stored_priority(actor, tenant.id, spec.priority, asks_for_more=asks_for_more, facts=facts)
    if refusal is not None:
        errors.append(refusal)
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
    if source is not None:
        spec = with_source(spec, source)
    queues = facts.find("ceilings", lambda: queue_tree(with_usage=False))
    fetch = None
    if spec.code is not None and spec.code.git and not code_digest:
        fetch = replace(resolve(actor=actor, tenant=tenant, spec=fetch_spec(spec), facts=facts), priority=priority)
    path = queues.path(queue.id)
    limit = _checked_runtime(spec, path, facts.find("runtime_limits", runtime_limits))
    submission = Submission(
        tenant,
        QueueRef(queue.id, queue.name),
        spec,
        image,
        code_digest,
        dependencies,
        runtime_limit=limit,
        default_runtime=default_runtime((one.id for one in path), facts.find("default_runtimes", default_runtimes)),
        priority=priority,
        checkpoint_from=source,
        priority_reason=priority_reason if priority < spec.priority else None,
        code_commit=commit,
        fetch=fetch,
    )
    _check_ceilings(submission, pools, queues)
    if actor.user_id is not None:
        _check_caps(submission, actor.user_id, facts)
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


def _code(tenant: TenantFacts, spec: JobSpec, errors: list[FieldError]) -> tuple[str, str | None]:
    """Digest and commit of the code, as far as they are known; of a branch they are known once it is fetched."""
    code = spec.code
    assert code is not None
    if code.snapshot:
        digest = code.snapshot
        _collect(errors, "/code/snapshot", lambda: resolve_code(tenant_id=tenant.id, digest=digest, path="/code/snapshot"))
        return digest, None
    if code.git:
        known = known_commit(tenant.id, code)
        return (known.digest, known.commit) if known is not None else ("", None)
    message = f"The server cannot read {code.path} on your machine."
    hint = "Submit with `berth submit`, which uploads it; or upload a snapshot yourself and give its `snapshot`."
    errors.append(FieldError("/code/path", "code_not_uploaded", message, hint))
    return "", None


def _missing_secrets(tenant: TenantFacts, spec: JobSpec) -> list[FieldError]:
    """Secrets that the job names and the tenant does not have."""
    wanted = {("/secrets", name) for name in spec.secrets.values()}
    if spec.code is not None and spec.code.secret:
        wanted.add(("/code/secret", spec.code.secret))
    there = secret_names(tenant.id) if wanted else set()
    return [
        FieldError(path, "secret_missing", f"{tenant.name} has no secret {name}.", f"berth secrets set {name}")
        for path, name in sorted(wanted)
        if name not in there
    ]


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


def _checkpoint_source(actor: Actor, tenant: TenantFacts, spec: JobSpec, errors: list[FieldError]) -> uuid.UUID | None:
    """The job from whose checkpoint this one starts, and what else of `checkpoint` cannot be kept."""
    checkpoint = spec.checkpoint
    if checkpoint is None:
        return None
    if not checkpoint.path.startswith("/"):
        errors += _checkpoint_path(spec, checkpoint.path)
    reference = checkpoint.start_from
    if reference is None:
        return None
    if checkpoint.path.startswith("/"):
        message = "A checkpoint inside a mount is the user's own: the platform copies nothing into it."
        errors.append(FieldError("/checkpoint/from", "checkpoint_in_mount", message, "Write a relative checkpoint.path."))
        return None
    found = find_jobs_by_reference(actor, tenant.id, [reference]).get(reference)
    if found is None:
        message = f"There is no job {reference} in {tenant.name}."
        errors.append(FieldError("/checkpoint/from", "job_not_found", message, "`berth ps -a` lists ids and names."))
        return None
    if not has_checkpoint(found):
        errors.append(FieldError("/checkpoint/from", "no_checkpoint", *_no_checkpoint(Job.objects.get(id=found), reference)))
        return None
    return found


def _no_checkpoint(source: Job, reference: str) -> tuple[str, str]:
    """Why nothing can start from this job, and what to do: one that has not ended may save a checkpoint still."""
    if source.array_size is not None:
        return f"{reference} is an array and has no checkpoint of its own.", "Name one of its children by its id: `berth ps -a`."
    if load_spec(source.spec_id).checkpoint is None:
        return f"Job {reference} keeps no checkpoint.", "Name a job that keeps one, or leave `from` out to start anew."
    if JOB_LIFECYCLE.is_terminal(JobState(source.state)):
        message = f"Job {reference} has ended without a complete checkpoint, or that is removed."
        return message, f"`berth get {reference}` shows what became of it; leave `from` out to start anew."
    message = f"Job {reference} has no complete checkpoint yet; it is {source.state}."
    hint = (
        f"Wait until `berth get {reference}` shows one, or until the job has ended (`berth wait {reference}`), then submit "
        "again; or leave `from` out to start anew."
    )
    return message, hint


def with_source(spec: JobSpec, source: uuid.UUID) -> JobSpec:
    """The spec with the job's id in `from`: a name means another job tomorrow, and a rerun shall start where this one did."""
    assert spec.checkpoint is not None
    return spec.model_copy(update={"checkpoint": spec.checkpoint.model_copy(update={"start_from": str(source)})})


def _checkpoint_path(spec: JobSpec, path: str) -> list[FieldError]:
    """Asked here and not of every stored spec: older ones may say otherwise."""
    if path == ".":
        message = "checkpoint.path is the whole working directory, where the code is."
        return [FieldError("/checkpoint/path", "checkpoint_place", message, "Name a folder below it, such as ckpt.")]
    start = "" if spec.workdir == "." else f"{spec.workdir}/"
    inside = [output for output in spec.outputs if f"{output}/".startswith(f"{start}{path}/")]
    if not inside:
        return []
    message = f"The output {inside[0]} lies in the checkpoint directory {path}, which is kept by itself."
    hint = "Take it out of `outputs`; `berth cp JOB:checkpoint/ DIR` fetches it."
    return [FieldError("/outputs", "output_in_checkpoint", message, hint)]


def _where(spec: JobSpec, pools: Sequence[PoolFacts]) -> list[FieldError]:
    """Pool, cluster and GPU model must exist somewhere, or the job would wait for ever."""
    errors = []
    if spec.pool and spec.pool not in {pool.name for pool in pools}:
        errors.append(_unknown("pool", spec.pool, {pool.name for pool in pools}))
    if spec.cluster and spec.cluster not in {pool.cluster_name for pool in pools}:
        errors.append(_unknown("cluster", spec.cluster, {pool.cluster_name for pool in pools}))
    models = {pool.gpu_model for pool in pools if pool.gpu_model}
    for name, role in spec.roles.items():
        wanted = role.resources.gpu.model
        if wanted and not any(is_model(wanted, model) for model in models):
            have = ", ".join(sorted(models)) or "no GPU at all"
            message = f"No pool has GPUs of model {wanted}; there is {have}."
            errors.append(
                FieldError(f"/roles/{name}/resources/gpu", "gpu_model_unknown", message, "`berth nodes` lists what there is.")
            )
    return errors


def _whole_cores(spec: JobSpec) -> list[FieldError]:
    """Cores of one's own are whole ones. Asked here and not of every stored spec: older ones may say otherwise."""
    return [
        FieldError(
            f"/roles/{name}/resources/cpu",
            "whole_cores",
            f"Role {name} asks for {role.resources.cpu_millis}m of CPU with cpu_exclusive; only whole cores can be its own.",
            f"Ask for cpu: {-(-role.resources.cpu_millis // 1000)}, or leave cpu_exclusive out.",
        )
        for name, role in spec.roles.items()
        if role.resources.cpu_exclusive and role.resources.cpu_millis % 1000
    ]


def _unknown(noun: str, name: str, known: set[str]) -> FieldError:
    message = f"There is no {noun} {name}; there is {', '.join(sorted(known)) or 'none'}."
    return FieldError(f"/{noun}", f"{noun}_not_found", message, f"`berth {noun}s` lists them.")


def _checked_runtime(spec: JobSpec, path: Sequence[QueueFacts], limits: Mapping[uuid.UUID, int]) -> int | None:
    """How long the job may run by its queue's limit and those above; refused where it asks for more."""
    found = check_runtime(spec.max_runtime_seconds, (queue.id for queue in path), limits)
    if not isinstance(found, RuntimeRefusal):
        return found
    message = (
        f"Job {spec.name} asks to run for {format_duration(found.asked_seconds)}; jobs of queue {path[0].name} may run for "
        f"{format_duration(found.limit_seconds)}."
    )
    hint = f"Ask for max_runtime {format_duration(found.limit_seconds)} or less, or for a queue that allows more."
    raise QuotaExceeded(message, hint=hint, fields=[FieldError("/max_runtime", "runtime_too_long", message, hint)])


def _check_ceilings(submission: Submission, pools: Sequence[PoolFacts], queues: QueueTree) -> None:
    """Refuse what could never start because it asks for more than its queue may ever use in any pool."""
    spec, ask = submission.spec, submission.ask
    pools = [pool for pool in pools if spec.pool in (None, pool.name) and spec.cluster in (None, pool.cluster_name)]
    path = queues.path(submission.queue.id)
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


def _check_caps(submission: Submission, user_id: uuid.UUID, facts: Facts) -> None:
    """Refuse what could never start because by itself it is more than its user, or its tenant, may hold at a time."""
    caps = facts.find("user_caps", user_caps)
    if not caps:
        return
    roles = submission.spec.roles.values()
    gpus = sum(role.resources.amounts.gpu_millis * role.replicas.min for role in roles)
    ask = Held(gpus, 1, sum(role.replicas.min for role in roles))
    path = facts.find("tenant_paths", tenant_paths).get(submission.tenant.id, (submission.tenant.id,))
    fields = []
    for found in caps.refusals(path, user_id, ask, {}):
        code = "tenant_cap_too_low" if found.together else "user_cap_too_low"
        whose = "all users of its tenant together" if found.together else "its user"
        need, limit = (capped_text(found.what, amount) for amount in (found.need, found.limit))
        message = f"Job {submission.spec.name} takes {need}; {whose} may have {limit} at a time."
        hint = (
            "Ask for fewer replicas or GPUs, or whoever manages the queue above to raise it: `berth queues counts`."
            if found.together
            else "Ask for fewer replicas or GPUs, or a manager of the tenant to raise the cap: `berth queues caps`."
        )
        fields.append(FieldError("/roles", code, message, hint))
    if fields:
        raise QuotaExceeded(fields[0].message, hint=fields[0].hint, fields=fields)


def _broken_ceiling(path: Sequence[QueueFacts], pool_id: uuid.UUID, ask: Resources) -> tuple[str, str, int] | None:
    """Queue name, resource and ceiling of the first limit that the amount alone breaks."""
    for queue in path:
        for resource, ceiling in queue.ceilings.get(pool_id, {}).items():
            if getattr(ask, resource) > ceiling:
                return queue.name, resource, ceiling
    return None
