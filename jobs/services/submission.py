"""A submission between its checks and its rows."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from images.services import ResolvedImage
from jobs.spec.model import JobSpec
from kernel.priorities import NORMAL
from kernel.resources import Resources
from kernel.words import Text
from tenants.selectors import TenantFacts


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
    warnings: tuple[Text[str], ...] = ()
    runtime_limit: int | None = None  # The queue's, in seconds.
    default_runtime: int | None = None  # The queue's, in seconds.
    priority: int = NORMAL  # As it is stored: what the spec asks for, as far as the submitter may go.
    checkpoint_from: uuid.UUID | None = None  # The job whose checkpoint it begins with a copy of.
    priority_reason: str | None = None  # Why the rest is requested; None: it is not.
    code_commit: str | None = None
    fetch: Submission | None = None  # The job that fetches its code, stored together with it.

    @property
    def max_runtime_seconds(self) -> int | None:
        """What the spec asks for, and else what the queue allows at most."""
        return self.runtime_limit if self.spec.max_runtime_seconds is None else self.spec.max_runtime_seconds

    @property
    def cautious_seconds(self) -> int | None:
        """By its queue, how long it is planned to run as long as nothing is known of its kind. None: it has a longest time, or no
        queue says so."""
        return self.default_runtime if self.max_runtime_seconds is None else None

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
