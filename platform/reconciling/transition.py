"""The one door through which any state changes (design rule 3).

Each app binds its lifecycle table to its model (`services/transition.py`). A batch updates where id *and* expected state
match; the rows that really changed come back; their Transition rows and outbox events are written in the same transaction,
in a constant number of statements per 1,000 rows. A row that did not change was taken by someone faster: it is missing from
the answer, and nothing was overwritten.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import models

from activity.services import NewEvent, record_events
from kernel.ids import new_id
from kernel.lifecycle import IllegalTransition, Lifecycle
from reconciling import bulk
from reconciling.models import Transition


@dataclass(frozen=True, slots=True)
class Binding:
    """A lifecycle bound to a model. `job_column` and `tenant_column` name where the row says whose it is."""

    kind: str
    model: type[models.Model]
    lifecycle: Lifecycle
    job_column: str | None = None
    tenant_column: str | None = "tenant_id"
    emits_events: bool = True


@dataclass(frozen=True, slots=True)
class Change:
    """One row to move. `also` sets further columns of the row in the same statement; `guard` adds columns that must match."""

    id: uuid.UUID
    from_state: str
    to_state: str
    reason: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict)
    also: Mapping[str, Any] = field(default_factory=dict)
    guard: Mapping[str, Any] = field(default_factory=dict)


def apply(binding: Binding, changes: Sequence[Change], *, actor: str, at: datetime) -> list[Change]:
    """Carry out what still holds and return it. The caller holds a transaction; an edge not in the table is our bug."""
    if not bulk.in_transaction(binding.model):
        raise AssertionError("transitions need the caller's transaction, or half of a batch could stay behind")
    for change in changes:
        if not binding.lifecycle.allows(change.from_state, change.to_state):
            raise IllegalTransition(f"{binding.kind} {change.id}: {change.from_state} -> {change.to_state}")
    owners: dict[uuid.UUID, dict[str, Any]] = {}
    for group in _by_columns(changes).values():
        owners.update(_update(binding, group))
    done = [change for change in changes if change.id in owners]
    _record(binding, done, owners, actor=actor, at=at)
    return done


def _by_columns(changes: Sequence[Change]) -> dict[Any, list[Change]]:
    """Changes that set the same columns travel in one statement."""
    groups: dict[Any, list[Change]] = defaultdict(list)
    for change in changes:
        groups[(tuple(sorted(change.also)), tuple(sorted(change.guard)))].append(change)
    return groups


def _update(binding: Binding, changes: Sequence[Change]) -> dict[uuid.UUID, dict[str, Any]]:
    """The state column is both guard and target, so the expected state travels under a second name."""
    owner_columns = tuple(column for column in (binding.tenant_column, binding.job_column) if column)
    changed: dict[uuid.UUID, dict[str, Any]] = {}
    by_edge: dict[str, list[Change]] = defaultdict(list)
    for change in changes:
        by_edge[change.from_state].append(change)
    for from_state, group in by_edge.items():
        rows = [{"id": change.id, "state": change.to_state, **change.also, **change.guard} for change in group]
        guard = tuple(group[0].guard)
        for row in bulk.update(binding.model, rows, guard=guard, equals={"state": from_state}, returning=owner_columns):
            changed[row["id"]] = row
    return changed


def _record(
    binding: Binding,
    done: Sequence[Change],
    owners: Mapping[uuid.UUID, Mapping[str, Any]],
    *,
    actor: str,
    at: datetime,
) -> None:
    def owner(change: Change, column: str | None) -> uuid.UUID | None:
        return owners[change.id].get(column) if column else None

    def job_of(change: Change) -> uuid.UUID | None:
        return change.id if binding.kind == "job" else owner(change, binding.job_column)

    bulk.insert(
        Transition,
        [
            {
                "id": new_id(),
                "tenant_id": owner(change, binding.tenant_column),
                "subject_kind": binding.kind,
                "subject_id": change.id,
                "job_id": job_of(change),
                "from_state": change.from_state,
                "to_state": change.to_state,
                "reason": change.reason,
                "detail": dict(change.detail),
                "actor": actor,
                "at": at,
            }
            for change in done
        ],
    )
    if not binding.emits_events:
        return
    record_events(
        [
            NewEvent(
                kind=f"{binding.kind}.{change.to_state.lower()}",
                tenant_id=owner(change, binding.tenant_column),
                subject_kind=binding.kind,
                subject_id=change.id,
                job_id=job_of(change),
                data={
                    "from": change.from_state,
                    "to": change.to_state,
                    "reason": change.reason,
                    **({"detail": dict(change.detail)} if change.detail else {}),
                },
                at=at,
            )
            for change in done
        ]
    )
