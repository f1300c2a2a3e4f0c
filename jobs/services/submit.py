"""From a document to a checked submission: everything at once, all errors at once. `jobs/services/store.py` writes it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from clusters.engines.interface import ImageKind
from clusters.facts import remembered_pools
from clusters.selectors import PoolFacts
from images.facts import remembered_image
from images.pinning import pin
from images.services import ResolvedImage
from jobs.lifecycle.phrases import capped_text, state_zh
from jobs.lifecycle.states import JOB_LIFECYCLE, JobState
from jobs.loading.specs import load_spec, mount_requests, wish_of
from jobs.loading.state import look_up
from jobs.models import Job
from jobs.selectors.find import find_jobs_by_reference
from jobs.services.code_fetch import fetch_spec, known_commit
from jobs.services.drivers import no_driver_fits
from jobs.services.fitting import Brought, larger_than_any, may_be_unmeasured, starts_nowhere
from jobs.services.priority import stored_priority
from jobs.services.store import submit as submit
from jobs.services.submission import Origin as Origin
from jobs.services.submission import QueueRef, Submission
from jobs.spec.model import JobSpec
from jobs.spec.parse import parse_spec
from kernel.actor import Actor
from kernel.config import current
from kernel.errors import BerthError, FieldError, Forbidden, InvalidInput, NotFound, QuotaExceeded
from kernel.facts import Facts
from kernel.gpus import is_model
from kernel.resources import Resources
from kernel.wait_codes import WaitCode
from kernel.words import Text, as_text, format_amount, format_duration
from storage.selectors import has_checkpoint
from storage.services.code import resolve_code
from storage.services.mounts import check_mounts
from tenants.capacity.facts import (
    remembered_ceilings,
    remembered_default_runtimes,
    remembered_queue,
    remembered_runtime_limits,
    remembered_user_caps,
)
from tenants.capacity.quota.caps import Held, RuntimeRefusal, check_runtime, default_runtime
from tenants.capacity.quota.tree import QueueFacts, QueueTree
from tenants.identity.access import in_scope, role_allows
from tenants.identity.facts import remembered_disabled_tenants, remembered_tenant, remembered_tenant_paths
from tenants.identity.standing import refusal as disabled_refusal
from tenants.selectors import TenantFacts, secret_names
from webapi.facts import look


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


def ask_registries(*, actor: Actor, tenant: str | None, documents: Iterable[Any], facts: Facts) -> None:
    """Ask the registries of images that documents name, so that `prepare` finds the answers remembered: for callers that are
    about to begin a transaction. What is wrong with a document, `prepare` says."""
    texts = {document.get("image") for document in documents if isinstance(document, Mapping)}
    names = sorted(text for text in texts if isinstance(text, str) and text)
    if not names or not current().registry_seconds:
        return
    owner = tenant_of(actor, tenant, facts)
    _demand_may_submit(actor, owner, facts)
    for name in names:
        with suppress(BerthError):
            pin(tenant_id=owner.id, image=remembered_image(facts, owner.id, name))


def tenant_of(actor: Actor, text: str | None, facts: Facts | None = None) -> TenantFacts:
    """The tenant that a submission is for: the one named, or the only one in which the actor may submit."""
    try:
        return remembered_tenant(facts or look(), actor, text)
    except NotFound as error:
        if text is not None:
            raise
        fields = [FieldError("/tenant", "required", error.detail_text, error.hint_text)]
        raise InvalidInput(error.detail_text, hint=error.hint_text, fields=fields) from None


def resolve(
    *, actor: Actor, tenant: TenantFacts, spec: JobSpec, facts: Facts | None = None, priority_reason: str | None = None
) -> Submission:
    """Find everything that the spec names, for one tenant. `facts` and `priority_reason` as for `prepare`."""
    facts = facts or look()
    _demand_may_submit(actor, tenant, facts)
    errors: list[FieldError] = []
    queue = _collect(errors, "/queue", lambda: remembered_queue(facts, actor, tenant.id, spec.queue))
    image = _collect(errors, "/image", lambda: remembered_image(facts, tenant.id, spec.image or ""))
    warning: Text[str] | None = None
    if image is not None:
        image, warning = _collect(errors, "/image", partial(pin, tenant_id=tenant.id, image=image)) or (None, None)
    if spec.mounts:
        errors += check_mounts(tenant_id=tenant.id, mounts=mount_requests(spec))[1]
    code_digest, commit = _code(tenant, spec, errors) if spec.code is not None else ("", None)
    errors += _missing_secrets(tenant, spec)
    source = _checkpoint_source(actor, tenant, spec, errors)
    dependencies = _dependencies(actor, tenant, spec, errors)
    pools = remembered_pools(facts)
    errors += _unfitting(tenant, spec, image, pools)
    if image is not None and not errors and (too_old := no_driver_fits(spec, image, pools)) is not None:
        errors.append(too_old)
    asks_for_more = priority_reason is not None
    priority, refusal = stored_priority(actor, tenant.id, spec.priority, asks_for_more=asks_for_more, facts=facts)
    if refusal is not None:
        errors.append(refusal)
    _refuse(spec, errors)
    assert queue is not None
    assert image is not None
    if source is not None:
        spec = with_source(spec, source)
    queues = remembered_ceilings(facts)
    path = queues.path(queue.id)
    fetch = None
    if spec.code is not None and spec.code.git and not code_digest:
        fetch = replace(resolve(actor=actor, tenant=tenant, spec=fetch_spec(spec), facts=facts), priority=priority)
    submission = Submission(
        tenant,
        QueueRef(queue.id, queue.name),
        spec,
        image,
        code_digest,
        dependencies,
        warnings=(warning,) if warning else (),
        runtime_limit=_checked_runtime(spec, path, remembered_runtime_limits(facts)),
        default_runtime=default_runtime((queue.id for queue in path), remembered_default_runtimes(facts)),
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


def _demand_may_submit(actor: Actor, tenant: TenantFacts, facts: Facts) -> None:
    """Raise Forbidden, or TenantDisabled, where nothing of the actor's may begin in the tenant."""
    if not role_allows(actor, tenant.id, "job.submit"):
        if not in_scope(actor, "job.submit"):
            raise Forbidden(
                Text("This token's scopes do not include jobs.", "此令牌的权限范围不含 jobs。"),
                hint=Text("Use a token with the scope jobs.", "请使用权限范围含 jobs 的令牌。"),
            )
        raise Forbidden(
            Text(f"{actor.name} may not submit jobs in {tenant.name}.", f"{actor.name} 无权在租户 {tenant.name} 中提交作业。"),
            hint=Text(f"Ask a manager of {tenant.name} for the role member.", f"请向租户 {tenant.name} 的管理员申请成员角色。"),
        )
    disabled = remembered_disabled_tenants(facts).get(tenant.id)
    if disabled is not None:
        raise disabled_refusal(disabled, tenant.name)


def _unfitting(tenant: TenantFacts, spec: JobSpec, image: ResolvedImage | None, pools: Sequence[PoolFacts]) -> list[FieldError]:
    """Why no pool that there is could ever run the job."""
    unknown = _where(spec, pools)
    errors = [] if unknown and may_be_unmeasured(spec) else list(unknown)
    errors += _whole_cores(spec)
    if (too_large := larger_than_any(spec, pools)) is not None:
        errors.append(too_large)
    elif not unknown and image is not None:
        brought = Brought(str(image.kind), image.location if image.kind is ImageKind.REGISTRY else "")
        nowhere = starts_nowhere(spec, look_up(wish_of(spec), tenant.id), brought, pools)
        errors += [] if nowhere is None else [nowhere]
    return errors


def _refuse(spec: JobSpec, errors: Sequence[FieldError]) -> None:
    """Raise InvalidInput with all of them, if there are any."""
    if not errors:
        return
    if len(errors) == 1:
        raise InvalidInput(errors[0].message, hint=errors[0].hint, fields=errors)
    first = as_text(errors[0].message)
    raise InvalidInput(
        Text(
            f"Job {spec.name} names {len(errors)} things that cannot be used; the first: {first.en}",
            f"作业 {spec.name} 中有 {len(errors)} 处无法使用；第一处：{first.zh}",
        ),
        hint=Text("`fields` lists every one of them with its path.", "`fields` 列出每一处及其路径。"),
        fields=errors,
    )


def _collect(errors: list[FieldError], path: str, look: Any) -> Any:
    """Run one check; what it refuses becomes entries of the common list."""
    try:
        return look()
    except BerthError as error:
        if error.fields:
            errors.extend(error.fields)
        else:
            errors.append(FieldError(path, error.code, error.detail_text, error.hint_text))
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
    message = Text(f"The server cannot read {code.path} on your machine.", f"服务器无法读取您机器上的 {code.path}。")
    hint = Text(
        "Submit with `berth submit`, which uploads it; or upload a snapshot yourself and give its `snapshot`.",
        "请用 `berth submit` 提交，它会上传该目录；或自行上传快照并填写 `snapshot`。",
    )
    errors.append(FieldError("/code/path", "code_not_uploaded", message, hint))
    return "", None


def _missing_secrets(tenant: TenantFacts, spec: JobSpec) -> list[FieldError]:
    """Secrets that the job names and the tenant does not have."""
    wanted = {("/secrets", name) for name in spec.secrets.values()}
    if spec.code is not None and spec.code.secret:
        wanted.add(("/code/secret", spec.code.secret))
    there = secret_names(tenant.id) if wanted else set()
    return [
        FieldError(
            path,
            "secret_missing",
            Text(f"{tenant.name} has no secret {name}.", f"租户 {tenant.name} 没有密钥 {name}。"),
            Text(f"berth secrets set {name}", f"berth secrets set {name}"),
        )
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
                    _no_job(reference, tenant),
                    _LIST_JOBS,
                )
            )
        else:
            resolved[(condition, job_id)] = None
    return tuple(resolved)


_LIST_JOBS = Text("`berth ps -a` lists ids and names.", "`berth ps -a` 列出 ID 与名称。")


def _no_job(reference: str, tenant: TenantFacts) -> Text[str]:
    return Text(f"There is no job {reference} in {tenant.name}.", f"租户 {tenant.name} 中没有作业 {reference}。")


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
        message = Text(
            "A checkpoint inside a mount is the user's own: the platform copies nothing into it.",
            "挂载目录内的检查点由用户自行管理：平台不会向其中复制内容。",
        )
        hint = Text("Write a relative checkpoint.path.", "请使用相对路径的 checkpoint.path。")
        errors.append(FieldError("/checkpoint/from", "checkpoint_in_mount", message, hint))
        return None
    found = find_jobs_by_reference(actor, tenant.id, [reference]).get(reference)
    if found is None:
        errors.append(FieldError("/checkpoint/from", "job_not_found", _no_job(reference, tenant), _LIST_JOBS))
        return None
    if not has_checkpoint(found):
        errors.append(FieldError("/checkpoint/from", "no_checkpoint", *_no_checkpoint(Job.objects.get(id=found), reference)))
        return None
    return found


def _no_checkpoint(source: Job, reference: str) -> tuple[Text[str], Text[str]]:
    """Why nothing can start from this job, and what to do: one that has not ended may save a checkpoint still."""
    if source.array_size is not None:
        return (
            Text(f"{reference} is an array and has no checkpoint of its own.", f"{reference} 是数组作业，自身没有检查点。"),
            Text("Name one of its children by its id: `berth ps -a`.", "请用 ID 指定其中一个子作业：`berth ps -a`。"),
        )
    if load_spec(source.spec_id).checkpoint is None:
        return (
            Text(f"Job {reference} keeps no checkpoint.", f"作业 {reference} 不保留检查点。"),
            Text(
                "Name a job that keeps one, or leave `from` out to start anew.",
                "请指定保留检查点的作业，或省略 `from` 从头开始。",
            ),
        )
    if JOB_LIFECYCLE.is_terminal(JobState(source.state)):
        return (
            Text(
                f"Job {reference} has ended without a complete checkpoint, or that is removed.",
                f"作业 {reference} 已结束且没有完整的检查点，或检查点已删除。",
            ),
            Text(
                f"`berth get {reference}` shows what became of it; leave `from` out to start anew.",
                f"`berth get {reference}` 可查看其结果；省略 `from` 则从头开始。",
            ),
        )
    message = Text(
        f"Job {reference} has no complete checkpoint yet; it is {source.state}.",
        f"作业 {reference} 还没有完整的检查点；其状态为{state_zh(source.state)}。",
    )
    hint = Text(
        f"Wait until `berth get {reference}` shows one, or until the job has ended (`berth wait {reference}`), then submit "
        "again; or leave `from` out to start anew.",
        f"请等到 `berth get {reference}` 显示检查点，或作业结束（`berth wait {reference}`）后再提交；或省略 `from` 从头开始。",
    )
    return message, hint


def with_source(spec: JobSpec, source: uuid.UUID) -> JobSpec:
    """The spec with the job's id in `from`: a name means another job tomorrow, and a rerun shall start where this one did."""
    assert spec.checkpoint is not None
    return spec.model_copy(update={"checkpoint": spec.checkpoint.model_copy(update={"start_from": str(source)})})


def _checkpoint_path(spec: JobSpec, path: str) -> list[FieldError]:
    """Asked here and not of every stored spec: older ones may say otherwise."""
    if path == ".":
        message = Text(
            "checkpoint.path is the whole working directory, where the code is.", "checkpoint.path 是代码所在的整个工作目录。"
        )
        hint = Text("Name a folder below it, such as ckpt.", "请指定其下的目录，如 ckpt。")
        return [FieldError("/checkpoint/path", "checkpoint_place", message, hint)]
    start = "" if spec.workdir == "." else f"{spec.workdir}/"
    inside = [output for output in spec.outputs if f"{output}/".startswith(f"{start}{path}/")]
    if not inside:
        return []
    message = Text(
        f"The output {inside[0]} lies in the checkpoint directory {path}, which is kept by itself.",
        f"输出 {inside[0]} 位于检查点目录 {path} 中，而该目录会自动保留。",
    )
    hint = Text(
        "Take it out of `outputs`; `berth cp JOB:checkpoint/ DIR` fetches it.",
        "请将其从 `outputs` 中去掉；`berth cp JOB:checkpoint/ DIR` 可取回。",
    )
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
            have = ", ".join(sorted(models))
            message = Text(
                f"No pool has GPUs of model {wanted}; there is {have or 'no GPU at all'}.",
                f"没有资源池提供型号为 {wanted} 的 GPU；现有：{have or '无 GPU'}。",
            )
            hint = Text("`berth nodes` lists what there is.", "`berth nodes` 列出现有节点。")
            errors.append(FieldError(f"/roles/{name}/resources/gpu", "gpu_model_unknown", message, hint))
    return errors


def _whole_cores(spec: JobSpec) -> list[FieldError]:
    """Cores of one's own are whole ones. Asked here and not of every stored spec: older ones may say otherwise."""
    return [
        FieldError(
            f"/roles/{name}/resources/cpu",
            "whole_cores",
            Text(
                f"Role {name} asks for {role.resources.cpu_millis}m of CPU with cpu_exclusive; only whole cores can be its own.",
                f"角色 {name} 以 cpu_exclusive 请求 {role.resources.cpu_millis}m CPU；只能独占整数个核心。",
            ),
            Text(
                f"Ask for cpu: {-(-role.resources.cpu_millis // 1000)}, or leave cpu_exclusive out.",
                f"请改为 cpu: {-(-role.resources.cpu_millis // 1000)}，或去掉 cpu_exclusive。",
            ),
        )
        for name, role in spec.roles.items()
        if role.resources.cpu_exclusive and role.resources.cpu_millis % 1000
    ]


def _unknown(noun: str, name: str, known: set[str]) -> FieldError:
    there, noun_zh = ", ".join(sorted(known)), "资源池" if noun == "pool" else "集群"
    return FieldError(
        f"/{noun}",
        f"{noun}_not_found",
        Text(f"There is no {noun} {name}; there is {there or 'none'}.", f"没有{noun_zh} {name}；现有：{there or '无'}。"),
        Text(f"`berth {noun}s` lists them.", f"`berth {noun}s` 可列出。"),
    )


def _checked_runtime(spec: JobSpec, path: Sequence[QueueFacts], limits: Mapping[uuid.UUID, int]) -> int | None:
    """How long the job may run by its queue's limit and those above; refused where it asks for more."""
    found = check_runtime(spec.max_runtime_seconds, (queue.id for queue in path), limits)
    if not isinstance(found, RuntimeRefusal):
        return found
    asked, limit = format_duration(found.asked_seconds), format_duration(found.limit_seconds)
    message = Text(
        f"Job {spec.name} asks to run for {asked}; jobs of queue {path[0].name} may run for {limit}.",
        f"作业 {spec.name} 请求运行 {asked}；队列 {path[0].name} 的作业最多运行 {limit}。",
    )
    hint = Text(
        f"Ask for max_runtime {limit} or less, or for a queue that allows more.",
        f"请将 max_runtime 设为 {limit} 或更短，或选择允许更长时间的队列。",
    )
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
    need, most = getattr(ask, resource), ceiling
    message = Text(
        f"Job {spec.name} asks for {format_amount(resource, need)}; queue {queue_name} may use {format_amount(resource, most)} "
        f"of pool {pool_name}.",
        f"作业 {spec.name} 请求 {format_amount(resource, need, 'zh')}；队列 {queue_name} 在资源池 {pool_name} 的上限为 "
        f"{format_amount(resource, most, 'zh')}。",
    )
    hint = Text(
        "Ask a manager of the tenant above to raise the ceiling, or ask for less.", "请上级租户的管理员提高上限，或减少请求。"
    )
    raise QuotaExceeded(message, hint=hint, fields=[FieldError("/roles", str(WaitCode.CEILING_TOO_LOW), message, hint)])


_ALL_USERS = Text("all users of its tenant together", "其租户全体用户合计")
_ITS_USER = Text("its user", "其用户")
_RAISE_COUNT = Text(
    "Ask for fewer replicas or GPUs, or a manager of the queue above to raise it: `berth queues counts`.",
    "请减少副本或 GPU，或请上级队列的管理员提高：`berth queues counts`。",
)
_RAISE_CAP = Text(
    "Ask for fewer replicas or GPUs, or a manager of the tenant to raise the cap: `berth queues caps`.",
    "请减少副本或 GPU，或请租户管理员提高上限：`berth queues caps`。",
)


def _check_caps(submission: Submission, user_id: uuid.UUID, facts: Facts) -> None:
    """Refuse what could never start because by itself it is more than its user, or its tenant, may hold at a time."""
    caps = remembered_user_caps(facts)
    if not caps:
        return
    roles = submission.spec.roles.values()
    gpus = sum(role.resources.amounts.gpu_millis * role.replicas.min for role in roles)
    ask = Held(gpus, 1, sum(role.replicas.min for role in roles))
    path = remembered_tenant_paths(facts).get(submission.tenant.id, (submission.tenant.id,))
    fields = []
    for found in caps.refusals(path, user_id, ask, {}):
        code = "tenant_cap_too_low" if found.together else "user_cap_too_low"
        whose = _ALL_USERS if found.together else _ITS_USER
        need, limit = (
            Text(capped_text(found.what, amount), capped_text(found.what, amount, "zh")) for amount in (found.need, found.limit)
        )
        message = Text(
            f"Job {submission.spec.name} takes {need.en}; {whose.en} may have {limit.en} at a time.",
            f"作业 {submission.spec.name} 需要 {need.zh}；{whose.zh}同时最多 {limit.zh}。",
        )
        hint = _RAISE_COUNT if found.together else _RAISE_CAP
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
