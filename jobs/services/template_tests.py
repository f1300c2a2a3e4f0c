"""A template's test run: a job of its defaults, and what is told of it to users of the template.

The result is read from the job and nowhere kept. A run tells of the document and parameters that it was made of: once those are
others, its result is outdated; a new title or tag changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from jobs.bounds import TAGS
from jobs.lifecycle.states import JOB_LIFECYCLE, JobState
from jobs.models import Job, Template
from jobs.services.store import store
from jobs.services.submit import prepare
from jobs.services.templates import locked, render
from kernel.actor import Actor
from kernel.errors import Conflict, InvalidInput
from kernel.words import Text
from tenants.identity.access import role_allows

TAG = "template-test"
RESULTS = ("never", "running", "passed", "failed", "outdated")


@dataclass(frozen=True, slots=True)
class LastRun:
    """What is known of a template's last test run. `job_id` and `job_name` only for actors who may see the job."""

    result: str
    at: datetime | None = None
    job_id: uuid.UUID | None = None
    job_name: str = ""


NEVER = LastRun("never")


def start_test(*, actor: Actor, template: Template, tenant: str | None, queue: str, now: datetime) -> Template:
    """Submit the job that a template makes of its defaults, as the actor's own. The caller was asked whether they may edit it.

    Raises InvalidInput with all that keeps it from being submitted, and Conflict while the last one has not ended.
    """
    with transaction.atomic():
        row = locked(template)
        if row.test_job_id is not None and Job.objects.filter(id=row.test_job_id, state__in=JOB_LIFECYCLE.live_states).exists():
            raise Conflict(
                Text("A test run of this template has not ended yet.", "此模板的测试运行尚未结束。"),
                hint=Text("Wait for its end, or stop its job.", "请等它结束，或停止其作业。"),
            )
        made = render(actor=actor, template=row, parameters={}, queue=queue)
        if made.problems:
            raise InvalidInput(made.problems[0].message, hint=made.problems[0].hint, fields=made.problems)
        document = {**made.spec, "tags": [*[tag for tag in made.spec.get("tags") or () if tag != TAG][: TAGS - 1], TAG]}
        job = store([prepare(actor=actor, tenant=tenant, document=document)], actor=actor, now=now, call="template.test")[0]
        row.test_job_id, row.test_digest, row.tested_at = job["id"], content_digest(row), now
        row.save(update_fields=["test_job_id", "test_digest", "tested_at"])
    return row


def last_runs(actor: Actor, rows: Sequence[Template]) -> Mapping[uuid.UUID, LastRun]:
    """The last test run of each template that had one. One query for all; none where there was no run."""
    wanted = {row.test_job_id for row in rows if row.test_job_id is not None}
    if not wanted:
        return {}
    jobs = {job.id: job for job in Job.objects.filter(id__in=wanted).only("id", "name", "state", "tenant_id", "user_id")}
    return {row.pk: _told(actor, row, jobs[row.test_job_id]) for row in rows if row.test_job_id in jobs}


def content_digest(row: Template) -> str:
    """Of what a test run is made of."""
    return hashlib.sha256(json.dumps([row.spec, row.parameters], sort_keys=True).encode()).hexdigest()


def _told(actor: Actor, row: Template, job: Job) -> LastRun:
    if not JOB_LIFECYCLE.is_terminal(job.state):
        result = "running"
    elif row.test_digest != content_digest(row):
        result = "outdated"
    else:
        result = "passed" if job.state == JobState.SUCCEEDED else "failed"
    is_seen = role_allows(actor, job.tenant_id, "job.read", job.user_id)
    return LastRun(result, row.tested_at, job.id if is_seen else None, job.name if is_seen else "")
