"""A job as the scheduler's core takes it, from the columns of its row: of what waits, what runs, and what did in a past
window."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Protocol

from jobs.scheduling.core.eligibility import Wish
from jobs.scheduling.core.place.gangs import GangAsk
from jobs.scheduling.core.state.decisions import WaitReason
from jobs.scheduling.core.state.work import JobAsk
from jobs.selectors.places import StandingColumns, expected_seconds, moved_by
from tenants.capacity.quota.accounting import mark


class AskColumns(StandingColumns, Protocol):
    """The columns of a job that the core is told."""

    @property
    def id(self) -> uuid.UUID: ...
    @property
    def tenant_id(self) -> uuid.UUID: ...
    @property
    def queue_id(self) -> uuid.UUID: ...
    @property
    def user_id(self) -> uuid.UUID: ...
    @property
    def parent_id(self) -> uuid.UUID | None: ...
    @property
    def priority(self) -> int: ...


def ask_of(
    row: AskColumns,
    wish: Wish | None,
    *,
    gang: GangAsk,
    pools: tuple[int, ...],
    queue_at: Mapping[uuid.UUID, int],
    tenant_paths: Mapping[uuid.UUID, tuple[uuid.UUID, ...]],
    parallelism: Mapping[uuid.UUID, int],
    withheld: WaitReason | None = None,
    not_before: int = 0,
) -> JobAsk:
    """What a job asks for. `wish` None: its spec cannot be read; `gang`: its wish, with what it would rather find in place;
    `pools`: those where it may go; `parallelism`: by array, where it bounds how many of its children run; `not_before`: in
    seconds since 1970, 0 for none."""
    parallel = parallelism.get(row.parent_id, 0) if row.parent_id is not None else 0
    return JobAsk(
        id=str(row.id),
        queue=queue_at[row.queue_id],
        gang=gang,
        pools=pools,
        submitted_at=mark(row.submitted_at),
        priority=row.priority,
        order=moved_by(row),
        max_runtime=row.max_runtime_seconds,
        predicted=expected_seconds(row),
        cautious=row.cautious_seconds,
        not_before=not_before,
        user=row.user_id,
        tenants=tenant_paths.get(row.tenant_id, (row.tenant_id,)),
        withheld=withheld,
        array=str(row.parent_id) if parallel else "",
        parallel=parallel,
        checkpoint_seconds=wish.checkpoint_seconds if wish is not None else 0,
        grace_seconds=wish.grace_seconds if wish is not None else None,
    )
