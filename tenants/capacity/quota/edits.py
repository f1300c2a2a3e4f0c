"""An edit of many limits at once: the tree afterwards, which rules it would break, and who then holds more than is theirs.

An edit is refused for what it breaks itself. A tree that no longer holds because a pool shrank can still be edited, as long as
no break appears and none grows.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from kernel.resources import RESOURCE_NAMES, Resources
from tenants.capacity.quota.limits import Break, Capacity, Limit, LimitedQueue, validate

COLUMNS = ("guarantee", "deserved", "ceiling", "weight")


@dataclass(frozen=True, slots=True)
class Change:
    """New values for some columns of one limit. What `values` does not name stays; None lifts a deserved amount or ceiling."""

    queue_id: uuid.UUID
    pool_id: uuid.UUID
    resource: str
    values: Mapping[str, int | None]


@dataclass(frozen=True, slots=True)
class Over:
    """A queue that holds more of a resource than a column gives it after an edit. Nothing is stopped for a ceiling; what is
    held above the deserved amount may be reclaimed."""

    queue_id: uuid.UUID
    pool_id: uuid.UUID
    resource: str
    column: str
    used: int
    limit: int
    was_over: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an edit comes to. `unknown` are indexes of changes whose queue does not exist; they are left out of the rest."""

    queues: tuple[LimitedQueue, ...]
    breaks: tuple[Break, ...]
    over: tuple[Over, ...]
    unknown: tuple[int, ...]


def try_edit(
    queues: Sequence[LimitedQueue],
    changes: Sequence[Change],
    pools: Sequence[Capacity],
    used: Mapping[tuple[uuid.UUID, uuid.UUID], Resources],
) -> Outcome:
    """Work an edit out without doing it. `used`: what each queue and all below it hold, by (queue, pool)."""
    known = {queue.id for queue in queues}
    applied = edited(queues, changes)
    breaks = new_breaks(validate(queues, pools), validate(applied, pools))
    unknown = tuple(index for index, change in enumerate(changes) if change.queue_id not in known)
    touched = sorted({(change.queue_id, change.pool_id, change.resource) for change in changes if change.queue_id in known})
    if any(found.code in {"invalid", "not_found"} for found in breaks):
        return Outcome(applied, breaks, (), unknown)
    return Outcome(applied, breaks, _over(queues, applied, touched, used), unknown)


def edited(queues: Iterable[LimitedQueue], changes: Iterable[Change]) -> tuple[LimitedQueue, ...]:
    """The same queues with the changes made; a later change of the same limit adds to an earlier one."""
    nodes = tuple(queues)
    limits = {queue.id: {pool_id: dict(row) for pool_id, row in queue.limits.items()} for queue in nodes}
    for change in changes:
        row = limits.get(change.queue_id)
        if row is not None:
            by_resource = row.setdefault(change.pool_id, {})
            by_resource[change.resource] = _changed(by_resource.get(change.resource, Limit()), change.values)
    return tuple(replace(queue, limits=limits[queue.id]) for queue in nodes)


def _changed(limit: Limit, values: Mapping[str, int | None]) -> Limit:
    guarantee, weight = values.get("guarantee", limit.guarantee), values.get("weight", limit.weight)
    return Limit(
        guarantee=0 if guarantee is None else guarantee,
        deserved=values.get("deserved", limit.deserved),
        ceiling=values.get("ceiling", limit.ceiling),
        weight=1 if weight is None else weight,
    )


def new_breaks(before: Iterable[Break], after: Iterable[Break]) -> tuple[Break, ...]:
    """Breaks that an edit makes or widens."""
    known = {(found.path, found.code): found.excess for found in before}
    return tuple(
        found for found in after if (found.path, found.code) not in known or found.excess > known[(found.path, found.code)]
    )


def blame(found: Break, changes: Sequence[Change], parents: Mapping[uuid.UUID, uuid.UUID | None]) -> int | None:
    """The change that a break is about: of the same limit, else of a child where a sum broke, else of a queue above. None
    where no change touches it."""
    same = [
        (index, change)
        for index, change in enumerate(changes)
        if (change.pool_id, change.resource) == (found.pool_id, found.resource)
    ]
    for index, change in same:
        if change.queue_id == found.queue_id:
            return index
    for index, change in same:
        if parents.get(change.queue_id) == found.queue_id:
            return index
    above: set[uuid.UUID] = set()
    here = parents.get(found.queue_id)
    while here is not None and here not in above:
        above.add(here)
        here = parents.get(here)
    return next((index for index, change in same if change.queue_id in above), None)


def _over(
    before: Sequence[LimitedQueue],
    after: Sequence[LimitedQueue],
    touched: Sequence[tuple[uuid.UUID, uuid.UUID, str]],
    used: Mapping[tuple[uuid.UUID, uuid.UUID], Resources],
) -> tuple[Over, ...]:
    old, new = {queue.id: queue for queue in before}, {queue.id: queue for queue in after}
    found = []
    for queue_id, pool_id, resource in touched:
        if resource not in RESOURCE_NAMES:
            continue
        held = getattr(used.get((queue_id, pool_id), Resources()), resource)
        was, then = old[queue_id].limit(pool_id, resource), new[queue_id].limit(pool_id, resource)
        for column, limit, earlier in (
            ("deserved", then.owed if then.is_promise else None, was.owed if was.is_promise else None),
            ("ceiling", then.ceiling, was.ceiling),
        ):
            if limit is not None and held > limit:
                was_over = earlier is not None and held > earlier
                found.append(Over(queue_id, pool_id, resource, column, held, limit, was_over))
    return tuple(found)
