"""Code from Git: a job of kind `transfer` fetches one commit as the tenant, and the job that wants it waits for that job.

The fetch is an ordinary job (design rule 11): the tenant's isolation, quota, secrets and network, a log to read. What it leaves
is checked like an uploaded archive before it becomes a snapshot. A commit that the tenant has already is not fetched again.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from django.db import transaction

from jobs.loading.specs import load_spec
from jobs.models import Dependency, Job
from jobs.services.dependencies import CODE, decide, refuse
from jobs.spec.model import Code, JobSpec
from jobs.spec.parse import parse_spec
from kernel.errors import InvalidInput
from kernel.limits import NAME_LENGTH
from kernel.words import as_text
from reconciling import bulk
from storage.services.code import Fetched, FetchedCode, find_commit, keep_fetched

SCRIPT = Path(__file__).with_name("fetch_git.sh")
ARCHIVE, COMMIT, OBJECT, FILES = "snapshot.tar.gz", "commit", "commit.object", "commit.files"
DEFAULT_REF = "HEAD"
FETCH_SECONDS_MAX = 900  # The largest snapshot at 0.6 MiB/s.
_URL, _REF, _CREDENTIAL = "GIT_URL", "GIT_REF", "GIT_CREDENTIAL"
_WHOLE_COMMIT = re.compile(r"[0-9a-f]{40}")
_CREDENTIALS = re.compile(r"^([a-z0-9+.-]+://)?[^/@]*@", re.IGNORECASE)
_OF_OPERATORS = (
    "GIT_SSL_CAINFO", "GIT_SSL_NO_VERIFY", "http_proxy", "https_proxy", "no_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY",
    "NO_PROXY", "ALL_PROXY",
)  # fmt: skip
"""What operators may have set for Git on this server, and fetches need as well."""


def known_commit(tenant_id: uuid.UUID, code: Code) -> FetchedCode | None:
    """The snapshot of a commit that is named whole and that the tenant has fetched before."""
    if code.git is None or code.ref is None or not _WHOLE_COMMIT.fullmatch(code.ref):
        return None
    return find_commit(tenant_id, url=code.git, commit=code.ref)


def fetch_spec(spec: JobSpec) -> JobSpec:
    """The job that fetches the code of another one, in its queue."""
    code = spec.code
    assert code is not None
    assert code.git is not None
    document: dict[str, Any] = {
        "name": f"fetch-{_name_of(code.git)}"[:NAME_LENGTH],
        "kind": "transfer",
        "command": ["/bin/sh", "-c", SCRIPT.read_text()],
        "resources": {"cpu": 1, "memory": "1Gi"},
        "max_runtime": FETCH_SECONDS_MAX,
        "retry": {"limit": 2, "on": ["platform"]},
        "env": {**_settings(os.environ), _URL: code.git, _REF: code.ref or DEFAULT_REF},
        "outputs": [ARCHIVE, COMMIT, OBJECT, FILES],
    }
    document |= {"queue": spec.queue} if spec.queue else {}
    document |= {"secrets": {_CREDENTIAL: code.secret}} if code.secret else {}
    return parse_spec(document)


def pinned(code: Mapping[str, Any], job: Job) -> dict[str, Any]:
    """The code of a job that ran, for running it again: the commit that it ran with, wherever its branch is now."""
    if "git" not in code or not job.code_commit:
        return dict(code)
    return {**code, "ref": job.code_commit}


def code_fetched(fetches: Sequence[tuple[Job, uuid.UUID]], *, now: datetime) -> None:
    """Give what fetch jobs (with their attempts) brought home to the jobs that wait for it. Twice changes nothing."""
    waited_for = set(
        Dependency.objects.filter(on_id__in=[job.id for job, _ in fetches], condition=CODE, met__isnull=True).values_list(
            "on_id", flat=True
        )
    )
    for job, attempt_id in fetches:
        if job.id in waited_for:
            _hand_over(job, attempt_id, now=now)


def _hand_over(fetch: Job, attempt_id: uuid.UUID, *, now: datetime) -> None:
    url = load_spec(fetch.spec_id).env[_URL]
    try:
        code = keep_fetched(
            tenant_id=fetch.tenant_id,
            user_id=fetch.user_id,
            attempt_id=attempt_id,
            fetched=Fetched(ARCHIVE, COMMIT, OBJECT, FILES),
            url=url,
            now=now,
        )
    except InvalidInput as error:
        with transaction.atomic():
            refuse(
                [fetch.id],
                reason="code_unusable",
                detail={"on": str(fetch.id), "name": fetch.name, "error": _told(error)},
                now=now,
            )
        return
    with transaction.atomic():
        waiting = list(
            Dependency.objects.filter(on_id=fetch.id, condition=CODE, met__isnull=True)
            .select_for_update(of=("self",))
            .values_list("id", "job_id", "job__parent_id")
        )
        jobs = sorted({job_id for _, job_id, _ in waiting} | {parent_id for _, _, parent_id in waiting if parent_id is not None})
        bulk.update(Job, [{"id": job_id, "code_digest": code.digest, "code_commit": code.commit} for job_id in jobs])
        decide([(row_id, job_id) for row_id, job_id, _ in waiting], reason="code_fetched", now=now)


def _told(error: InvalidInput) -> str:
    """What is wrong, with the first entry of the archive that is."""
    entries = [words for field in error.fields if (words := as_text(field.message).en) != error.detail]
    more = f" and {len(entries) - 1} more" if len(entries) > 1 else ""
    return f"{error.detail} {entries[0]}{more}" if entries else error.detail


def _name_of(url: str) -> str:
    """The repository's own name, as far as a job's name can hold it."""
    last = url.rstrip("/").replace(":", "/").rsplit("/", 1)[-1].removesuffix(".git")
    return re.sub(r"[^A-Za-z0-9._-]+", "-", last).strip("-._") or "repository"


def _settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Without the user and the password of a proxy: a spec is read by all who see the job."""
    return {name: _CREDENTIALS.sub(r"\1", environment[name]) for name in _OF_OPERATORS if environment.get(name)}
