"""What other apps tell: events (the outbox) and audit rows. Always inside the caller's transaction."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kernel.actor import Actor


@dataclass(frozen=True, slots=True)
class NewEvent:
    """One thing that happened, for live channels, webhooks and notifications. `kind` is `<noun>.<what>`."""

    kind: str
    tenant_id: uuid.UUID | None
    subject_kind: str
    subject_id: uuid.UUID
    at: datetime
    job_id: uuid.UUID | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


def record_events(events: Sequence[NewEvent]) -> None:
    """Append events to the outbox; one statement per 1,000."""
    raise NotImplementedError


def record_audit(
    *,
    actor: Actor,
    verb: str,
    tenant_id: uuid.UUID | None,
    target_kind: str,
    target_id: uuid.UUID | str | None,
    target_name: str = "",
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    count: int = 1,
    at: datetime,
) -> None:
    """Append one audit row for one accepted call; a batch or array is one call with `count`."""
    raise NotImplementedError
