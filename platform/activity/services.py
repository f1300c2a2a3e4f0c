"""What other apps tell: events (the outbox) and audit rows. Always inside the caller's transaction."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import F, Model

from activity import bulk, hints, numbering
from activity.models import AuditEvent, Event
from kernel.actor import Actor
from kernel.ids import new_id
from kernel.limits import NOTE_LENGTH

REDACTED = "[redacted]"
SECRET_KEYS = frozenset({"password", "secret", "token", "authorization", "ciphertext", "private_key", "ticket"})


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


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAudit:
    """One accepted call. `before` and `after` hold what changed, never a secret: see `record_audit`."""

    actor: Actor
    verb: str
    tenant_id: uuid.UUID | None
    target_kind: str
    target_id: uuid.UUID | str | None
    target_name: str = ""
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    count: int = 1
    at: datetime


def record_events(events: Sequence[NewEvent]) -> None:
    """Append events to the outbox; one statement per 1,000. Readers see them once they are committed and numbered."""
    if events:
        record_together([], events=events)


def record_together(
    inserts: Sequence[tuple[type[Model], Sequence[bulk.Row]]], *, events: Sequence[NewEvent] = (), audit: NewAudit | None = None
) -> None:
    """Store rows with the events and the audit row that tell of them: one statement for all where the database can."""
    _require_transaction(Event)
    wanted: list[tuple[type[Model], Sequence[bulk.Row]]] = [*inserts, (Event, [_event_row(event) for event in events])]
    if audit is not None:
        wanted.append((AuditEvent, [_audit_row(audit)]))
    bulk.insert_together(wanted)
    if not events:
        return
    hints.wake(hints.EVENTS)
    if numbering.is_at_once():  # No committed row is still unnumbered.
        Event.objects.filter(seq__isnull=True).update(seq=F("row"))
        hints.wake(hints.SEQUENCED)


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
    """Append one audit row for one accepted call; a batch or array is one call with `count`.

    `before` and `after` hold what changed, never a secret: values under well-known secret names are blanked, long texts cut.
    """
    _require_transaction(AuditEvent)
    audit = NewAudit(
        actor=actor, verb=verb, tenant_id=tenant_id, target_kind=target_kind, target_id=target_id, target_name=target_name,
        before=before, after=after, count=count, at=at,
    )  # fmt: skip
    bulk.insert(AuditEvent, [_audit_row(audit)])


def record_audits(audits: Sequence[NewAudit]) -> None:
    """The same for several calls, or parts of one that are told apart: one statement per 1,000."""
    _require_transaction(AuditEvent)
    bulk.insert(AuditEvent, [_audit_row(audit) for audit in audits])


def _event_row(event: NewEvent) -> dict[str, Any]:
    return {
        "kind": event.kind,
        "tenant_id": event.tenant_id,
        "subject_kind": event.subject_kind,
        "subject_id": event.subject_id,
        "job_id": event.job_id,
        "data": storable(event.data),
        "at": event.at,
    }


def _audit_row(audit: NewAudit) -> dict[str, Any]:
    actor, before, after = audit.actor, audit.before, audit.after
    return {
        "id": new_id(),
        "previous_hash": "",
        "hash": "",
        "tenant_id": audit.tenant_id,
        "actor_id": actor.user_id,
        "actor_name": _text(actor.name, 255),
        "token_id": actor.token_id,
        "request_id": _text(actor.request_id, 100),
        "verb": audit.verb,
        "target_kind": audit.target_kind,
        "target_id": "" if audit.target_id is None else _text(str(audit.target_id), NOTE_LENGTH),
        "target_name": _text(audit.target_name, NOTE_LENGTH),
        "before": None if before is None else storable(before, redact=True),
        "after": None if after is None else storable(after, redact=True),
        "count": audit.count,
        "at": audit.at,
    }


def storable(value: Any, *, redact: bool = False) -> Any:
    """The value as JSON that both databases keep unchanged: no NUL, no lone surrogate, no endless text, ids and times as text."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else None  # NaN and the infinities are no JSON.
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {
            _text(str(key), NOTE_LENGTH): REDACTED
            if redact and item is not None and str(key).lower() in SECRET_KEYS
            else storable(item, redact=redact)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple, set, frozenset)):
        items = sorted(value, key=str) if isinstance(value, (set, frozenset)) else value
        return [storable(item, redact=redact) for item in items]
    return _text(str(value), NOTE_LENGTH)


def _text(text: str, length_max: int) -> str:
    clean = text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")
    return clean if len(clean) <= length_max else clean[: length_max - 1] + "…"


def _require_transaction(model: type[Event] | type[AuditEvent]) -> None:
    if not bulk.in_transaction(model):
        raise AssertionError("events and audit rows belong to the transaction of what they tell of")
