"""Running a job again: the same spec as stored, with changes, checked like any new one."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from jobs.models import Job, StoredSpec
from jobs.services.code_fetch import pinned
from jobs.services.store import submit
from jobs.services.submission import Origin, Submission
from jobs.services.submit import prepare
from kernel.actor import Actor
from kernel.errors import Conflict, FieldError, InvalidInput
from kernel.words import Text

NOT_INHERITED = ("after", "after_ok", "after_any", "hold", "start_after")  # They were about the first time.


def prepare_again(*, actor: Actor, job: Job, kind: str, changes: Mapping[str, Any]) -> Submission:
    """Check a `rerun` or `clone` of a job with changes of top-level keys; null removes a key.

    A rerun is the same job once more. A clone becomes one's own: it takes a name of its own, and secrets are not taken over
    but must be named again, since who clones may not know that they are used.
    """
    if job.kind == "build":
        raise Conflict(
            Text(f"{job.name} builds an image.", f"{job.name} 用于构建镜像。"),
            hint=Text("Build the image again: berth images rebuild NAME", "请重新构建镜像：berth images rebuild NAME"),
        )
    document = json.loads(StoredSpec.objects.values_list("document", flat=True).get(id=job.spec_id))
    inherited = {name: value for name, value in document.items() if name not in NOT_INHERITED}
    if job.parent_id is not None:
        inherited.pop("array", None)
    if "code" in inherited:
        inherited["code"] = pinned(inherited["code"], job)
    if kind == "clone":
        inherited["name"] = f"{job.name}-clone"[:255]
        secrets = inherited.pop("secrets", None)
        if secrets and "secrets" not in changes:
            names = ", ".join(sorted(set(secrets.values())))
            message = Text(
                f"The job uses the secrets {names}; a clone does not take them over.", f"作业使用密钥 {names}；克隆不会沿用。"
            )
            hint = Text(
                "Name them again under `secrets`, or send `secrets: {}` to do without.",
                "请在 `secrets` 中重新指定，或发送 `secrets: {}` 表示不使用。",
            )
            raise InvalidInput(message, hint=hint, fields=[FieldError("/secrets", "secrets_not_inherited", message, hint)])
    merged = {name: value for name, value in {**inherited, **changes}.items() if value is not None}
    return prepare(actor=actor, tenant=str(job.tenant_id), document=merged)


def run_again(*, actor: Actor, job: Job, kind: str, submission: Submission, now: datetime) -> uuid.UUID:
    """Store the new job; it knows where it comes from."""
    return submit([submission], actor=actor, now=now, origin=Origin(job_id=job.id, kind=kind), call=f"job.{kind}")[0]
