"""Build requests become jobs: whatever runs a tenant's text runs under that tenant's isolation and quota (design rule 11)."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import structlog
from django.db import transaction

from images.builder import BUILD_SECONDS_MAX
from images.services import PendingBuild, build_finished, build_started, pending_builds
from jobs.reconcile import poisoned_jobs
from jobs.services.submit import Origin, resolve, submit
from jobs.spec.parse import parse_spec
from kernel.actor import Actor, TenantRole
from kernel.clock import database_now
from kernel.crashpoints import crashpoint
from kernel.errors import BerthError, Conflict, Forbidden, Unavailable
from kernel.words import Text
from reconciling import poison
from tenants.selectors import tenant_facts, user_names

log = structlog.get_logger("builds")

BATCH_REQUESTS = 50


def start_builds() -> int:
    """Make the job of every pending request; returns how many. Twice is harmless: a request has one job.

    What is unavailable to one request keeps no other from its job; it is raised last.
    """
    unavailable: dict[uuid.UUID, Unavailable] = {}
    requests = pending_builds(BATCH_REQUESTS)
    seen = len(requests)
    _start_batch(requests, unavailable)
    while len(requests) == BATCH_REQUESTS:
        requests = pending_builds(BATCH_REQUESTS, after=requests[-1].id)
        seen += len(requests)
        _start_batch(requests, unavailable)
    if unavailable:
        raise next(iter(unavailable.values()))
    return seen


def _start_batch(requests: Sequence[PendingBuild], unavailable: dict[uuid.UUID, Unavailable]) -> None:
    now = database_now()
    struck = poison.work_through(
        poisoned_jobs.BUILD, requests, lambda part: _start_all(part, unavailable), now=now, key=lambda request: request.id
    )
    for item in struck:
        if item.is_set_aside:
            build_finished(item.id, succeeded=False, reason=f"Berth failed three times at it: {item.error}", now=now)


def _start_all(requests: Sequence[PendingBuild], unavailable: dict[uuid.UUID, Unavailable]) -> None:
    for request in requests:
        try:
            with transaction.atomic():
                _start(request)
            unavailable.pop(request.id, None)  # A batch in which another one raised is worked through again.
        except Unavailable as error:  # Blames no request: it stays pending, and is told when the others had their turn.
            unavailable[request.id] = error
        except BerthError as error:
            log.warning("build_refused", request_id=str(request.id), code=error.code)
            reason = f"{error.detail} {error.hint}".strip()
            build_finished(request.id, succeeded=False, reason=reason, now=database_now())


def _start(request: PendingBuild) -> None:
    """The job acts for the user who asked, with exactly the right that asking had needed."""
    if request.requested_by_id is None:
        raise Forbidden(
            Text("The user who asked for this build is no longer here.", "申请此次构建的用户已不在。"),
            hint=Text("Build the image again.", "请重新构建镜像。"),
        )
    tenant = tenant_facts([request.tenant_id])[request.tenant_id]
    name = user_names([request.requested_by_id]).get(request.requested_by_id, "unknown")
    actor = Actor(user_id=request.requested_by_id, name=name, roles={tenant.id: TenantRole.MEMBER})
    spec = parse_spec(
        {
            "name": f"build-{request.image_name}",
            "kind": "build",
            **_tasks(request),
            "max_runtime": BUILD_SECONDS_MAX,
            "retry": {"limit": 1, "on": ["platform"]},
            "labels": {"image": request.image_name},
        }
    )
    submission = resolve(actor=actor, tenant=tenant, spec=spec)
    now = database_now()
    origin = Origin(build_request_id=request.id)
    job_id = submit([submission], actor=actor, now=now, origin=origin, call="image.build")[0]
    crashpoint("jobs.build.after_job")
    if not build_started(request.id, job_id=job_id, now=now):
        raise Conflict(Text("This build has its job already.", "此次构建已有作业。"))


def _tasks(request: PendingBuild) -> dict[str, object]:
    """What runs, and with what. The build's plan replaces each command when the attempt is compiled."""
    build: dict[str, object] = {"command": ["true"], "resources": {"cpu": 1, "memory": "2Gi"}}
    if not request.roles:
        return build
    others = {role: {"command": ["true"], "resources": {"cpu": "100m", "memory": "512Mi"}} for role in request.roles[1:]}
    code = {"code": {"snapshot": request.context_digest}} if request.context_digest else {}
    return {"roles": {request.roles[0]: build, **others}, **code}
