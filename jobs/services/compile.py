"""From an admitted attempt to a Workload: the framework's plan, the spec's amounts, and what its names stand for."""

from __future__ import annotations

import hashlib
import hmac
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.conf import settings

from clusters.engines.interface import (
    CheckpointDir,
    CheckpointRef,
    CodeRef,
    HostDir,
    ImageKind,
    ImageRef,
    MountRef,
    PullAccount,
    TaskName,
    TaskWorkload,
    Workload,
)
from clusters.registries.rules import Account
from images.builder import BuildPlan, BuildTask
from images.errors import RegistryFailure
from images.pinning import host_of, pin_at_start, pinned_location
from images.services import build_plan, resolved_images
from images.services.accounts import accounts_at
from jobs.frameworks import get_framework
from jobs.frameworks.interface import FrameworkJob, GangPlan
from jobs.lifecycle.completion import chief_of
from jobs.loading.specs import load_spec, mount_requests, preload_specs
from jobs.models import Attempt, Job, Task
from jobs.services.layout import framework_roles
from jobs.spec.model import JobSpec
from kernel.config import current
from kernel.errors import BerthError
from kernel.signals import SignalTarget
from storage.services.checkpoints import location_of
from storage.services.code import resolve_code
from storage.services.mounts import resolve_mounts
from tenants.identity.services.secrets import decrypt_secrets
from tenants.selectors import TenantFacts, queue_names, tenant_facts, user_names


@dataclass(frozen=True, slots=True)
class CannotCompile:
    """Something that was there at submission is gone: a secret, a volume's grant, an image."""

    attempt_id: uuid.UUID
    code: str
    detail: str


@dataclass(frozen=True, slots=True)
class _Surroundings:
    tenants: Mapping[uuid.UUID, TenantFacts]
    users: Mapping[uuid.UUID, str]
    queues: Mapping[uuid.UUID, str]
    images: Mapping[uuid.UUID, ImageRef]
    accounts: Mapping[tuple[uuid.UUID, str], Account]
    nodes: Mapping[uuid.UUID, Mapping[TaskName, str]]


def compile_attempts(attempts: Sequence[Attempt]) -> list[Workload | CannotCompile]:
    """Compile a batch, in order; the attempts come with their jobs. Secrets are decrypted here and nowhere kept."""
    around = _look_around(attempts)
    compiled: list[Workload | CannotCompile] = []
    for attempt in attempts:
        try:
            compiled.append(_compile(attempt, around))
        except RegistryFailure as failure:
            compiled.append(CannotCompile(attempt.id, failure.exit_code, failure.detail))
        except BerthError as error:
            compiled.append(CannotCompile(attempt.id, error.code, error.detail))
    return compiled


def _look_around(attempts: Sequence[Attempt]) -> _Surroundings:
    jobs = [attempt.job for attempt in attempts]
    preload_specs({job.spec_id for job in jobs})
    nodes: dict[uuid.UUID, dict[TaskName, str]] = {}
    for attempt_id, role, index, node in Task.objects.filter(attempt_id__in=[attempt.id for attempt in attempts]).values_list(
        "attempt_id", "role", "index", "node_name"
    ):
        nodes.setdefault(attempt_id, {})[TaskName(role, index)] = node
    images = {
        image.id: ImageRef(image.kind, image.digest, image.location)
        for image in resolved_images({job.image_id for job in jobs if job.image_id is not None}).values()
        if image.id is not None
    }
    return _Surroundings(
        tenants=tenant_facts({job.tenant_id for job in jobs}),
        users=user_names({job.user_id for job in jobs}),
        queues=queue_names({job.queue_id for job in jobs}),
        images=images,
        accounts=accounts_at((job.tenant_id, host) for job in jobs if (host := _registry_of(job, images))),
        nodes=nodes,
    )


def _compile(attempt: Attempt, around: _Surroundings) -> Workload:
    job = attempt.job
    spec = load_spec(job.spec_id)
    tenant = around.tenants[job.tenant_id]
    build = build_plan(job.build_request_id) if job.build_request_id is not None else None
    plan = _framework_plan(attempt, spec, tenant, around)
    mounts = resolve_mounts(tenant_id=tenant.id, mounts=mount_requests(spec))
    return Workload(
        attempt_id=attempt.id,
        job_id=job.id,
        number=attempt.number,
        name=job.name,
        isolation_key=tenant.slug,
        isolation_number=tenant.number,
        user_key=around.users.get(job.user_id, ""),
        labels=dict(spec.labels),
        image=_image(job, around),
        tasks=_tasks(attempt, spec, plan, build, around),
        mounts=(*mounts, *_build_mounts(build)),
        code=_code(job, build),
        files={**plan.files, **(build.files if build is not None else {})},
        workdir="" if spec.workdir == "." else spec.workdir,
        log_quota_bytes=current().log_quota_bytes,
        checkpoint=_checkpoint(job, spec),
        keeps_outputs=bool(spec.outputs),
    )


def _checkpoint(job: Job, spec: JobSpec) -> CheckpointRef | None:
    """The platform's directory, or (an absolute path) one inside a mount, which has no place of its own."""
    if spec.checkpoint is None:
        return None
    location = "" if spec.checkpoint.path.startswith("/") else location_of(job.tenant_id, job.id)
    return CheckpointRef(job.id, location, spec.checkpoint.path, spec.checkpoint.per)


def _framework_plan(attempt: Attempt, spec: JobSpec, tenant: TenantFacts, around: _Surroundings) -> GangPlan:
    job = attempt.job
    counts = Counter(task.role for task in around.nodes.get(attempt.id, ()))  # An elastic role has as many as there was room for.
    return get_framework(spec.framework).compile(
        FrameworkJob(
            job_id=str(job.id),
            job_name=job.name,
            attempt=attempt.number,
            roles=framework_roles(spec, counts),
            env=spec.env,
            checkpoint_dir=(CheckpointDir(),) if spec.checkpoint is not None else (),
            checkpoint_per=spec.checkpoint.per if spec.checkpoint is not None else "job",
            array_index=job.array_index,
            array_size=spec.array.size if spec.array is not None and job.array_index is not None else None,
            array_id=str(job.parent_id) if job.parent_id is not None else None,
            tenant=tenant.name,
            queue=around.queues.get(job.queue_id, ""),
            user=around.users.get(job.user_id, ""),
            key=_attempt_key(attempt.id),
            chief=chief_of(spec, spec.roles),
            ssh=spec.ssh,
            signal_target=spec.checkpoint.signal_target if spec.checkpoint is not None else SignalTarget.PROGRAMS,
        )
    )


def _attempt_key(attempt_id: uuid.UUID) -> str:
    """A secret of this attempt that any of our processes can compute again: derived, so it is stored nowhere."""
    return hmac.new(settings.SECRET_KEY.encode(), b"attempt key " + attempt_id.bytes, hashlib.sha256).hexdigest()[:32]


def _tasks(
    attempt: Attempt, spec: JobSpec, plan: GangPlan, build: BuildPlan | None, around: _Surroundings
) -> tuple[TaskWorkload, ...]:
    secrets: Mapping[str, str] = {}
    if spec.secrets:
        values = decrypt_secrets(attempt.tenant_id, sorted(set(spec.secrets.values())))
        secrets = {variable: values[name] for variable, name in spec.secrets.items()}
    nodes = around.nodes.get(attempt.id, {})
    tasks = ((task, BuildTask(task.argv) if build is None else build.task_of(task.name.role)) for task in plan.tasks)
    return tuple(
        TaskWorkload(
            name=task.name,
            argv=run.argv,
            env={**task.env, **run.env},
            secret_env={**secrets, **task.secret_env, **run.secret_env},
            resources=spec.roles[task.name.role].resources.amounts,
            shm_bytes=spec.roles[task.name.role].resources.shm_bytes,
            ports=task.ports,
            node=nodes.get(task.name, ""),
            rdma=spec.roles[task.name.role].resources.rdma,
            cpu_exclusive=spec.roles[task.name.role].resources.cpu_exclusive,
            builds_image=run.builds_image,
        )
        for task, run in tasks
    )


def _image(job: Job, around: _Surroundings) -> ImageRef:
    """The image as it is now; a container image as it was when the job was submitted, or is found now for the first time."""
    if job.image_kind == ImageKind.REGISTRY:
        return _container_image(job, around)
    if job.image_id is not None and job.image_id in around.images:
        return around.images[job.image_id]
    return ImageRef(ImageKind(job.image_kind), job.image_digest)


def _container_image(job: Job, around: _Surroundings) -> ImageRef:
    """All attempts of a job run the same content: what was found first is kept with the job."""
    location = _location_of(job, around.images)
    digest, is_confirmed = pin_at_start(tenant_id=job.tenant_id, location=location, digest=job.image_digest)
    if digest and not job.image_digest:
        Job.objects.filter(id=job.id, image_digest="").update(image_digest=digest)
    host = host_of(location)
    account = around.accounts.get((job.tenant_id, host))
    pull = None if account is None else PullAccount(host, account.username, account.password)
    return ImageRef(ImageKind.REGISTRY, digest, pinned_location(location, digest), pull, unchecked=not is_confirmed)


def _location_of(job: Job, images: Mapping[uuid.UUID, ImageRef]) -> str:
    """The reference: the catalogue's under its name, or the one that the job gave."""
    return images[job.image_id].location if job.image_id is not None and job.image_id in images else job.image_name


def _registry_of(job: Job, images: Mapping[uuid.UUID, ImageRef]) -> str:
    return host_of(_location_of(job, images)) if job.image_kind == ImageKind.REGISTRY else ""


def _build_mounts(build: BuildPlan | None) -> tuple[MountRef, ...]:
    """A build writes its environment where jobs will read it: environments cannot be moved."""
    return () if build is None else (MountRef(build.request_id, HostDir(build.location), build.location, read_only=False),)


def _code(job: Job, build: BuildPlan | None) -> CodeRef | None:
    if build is not None and build.code is not None:
        return build.code
    return resolve_code(tenant_id=job.tenant_id, digest=job.code_digest) if job.code_digest else None
