"""What a queue is promised and allowed, per pool and resource, and whether a whole tree of such limits holds together.

Four numbers say it: the *guarantee* is never lent, the *deserved* part is lent while idle and taken back on demand, the
*ceiling* is never passed, and the *weight* divides what nobody is promised. `validate` answers every break of a tree at once;
it does not judge whether a promise is wise, and it reads no clock and no database.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kernel.resources import RESOURCE_NAMES, Resources

AMOUNT_MAX = 2**53  # Larger integers lose digits in JSON readers that know only doubles; 8 PiB of memory in one pool.
WEIGHT_MAX = 1_000_000  # Keeps shares inside 64 bits; a ratio of a million is more than any split needs.
SUMMED = ("guarantee", "deserved")

Amount = tuple[int, int, int]
"""CPU, memory and GPU in the order of RESOURCE_NAMES: a plain tuple, because the scheduler's inner loop makes many."""


@dataclass(frozen=True, slots=True)
class Limit:
    """The limits of one queue for one resource of one pool. `deserved` None: the guarantee; `ceiling` None: none."""

    guarantee: int = 0
    deserved: int | None = None
    ceiling: int | None = None
    weight: int = 1

    @property
    def owed(self) -> int:
        """What may be taken back from whoever borrowed it."""
        return self.guarantee if self.deserved is None else max(self.deserved, self.guarantee)

    @property
    def is_promise(self) -> bool:
        """Whether the limit promises anything at all; one with only a ceiling does not."""
        return self.guarantee > 0 or self.deserved is not None

    def as_dict(self) -> dict[str, int | None]:
        return {
            "guarantee": self.guarantee,
            "deserved": self.deserved,
            "ceiling": self.ceiling,
            "weight": self.weight,
        }


NO_LIMIT = Limit()
Limits = Mapping[uuid.UUID, Mapping[str, Limit]]
"""Pool and resource to limit."""


@dataclass(frozen=True, slots=True)
class LimitedQueue:
    """A queue as the rules of limits see it. The only queue without a parent is the operators' root."""

    id: uuid.UUID
    parent_id: uuid.UUID | None
    name: str
    limits: Limits = field(default_factory=dict)

    def limit(self, pool_id: uuid.UUID, resource: str) -> Limit:
        return self.limits.get(pool_id, {}).get(resource, NO_LIMIT)


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a pool has in all; `name` is for messages."""

    pool_id: uuid.UUID
    name: str
    total: Resources


@dataclass(frozen=True, slots=True)
class Break:
    """One rule that a tree of limits breaks: where, which (stable), in words with the numbers, and what would be accepted.

    `excess` is by how much, where the rule is about amounts: an edit may leave a break that was there, but not widen it.
    """

    queue_id: uuid.UUID
    pool_id: uuid.UUID
    resource: str
    column: str
    code: str
    message: str
    hint: str
    excess: int = 0

    @property
    def path(self) -> str:
        return f"/limits/{self.queue_id}/{self.pool_id}/{self.resource}/{self.column}"


def amount_of(resources: Resources) -> Amount:
    return (resources.cpu_millis, resources.memory_bytes, resources.gpu_millis)


def validate(queues: Iterable[LimitedQueue], pools: Sequence[Capacity]) -> tuple[Break, ...]:
    """Every break of the rules, ordered by queue name, pool and resource; empty when the tree holds.

    A queue's guarantee and deserved amount are at least the sums of its children's, a child's ceiling is at most the lowest
    above it, and `guarantee <= deserved <= ceiling`. What stands directly below root adds up to at most the pool's capacity
    in guarantees; deserved amounts may promise a pool that is still to grow only as far as it has grown, too.
    """
    nodes = {queue.id: queue for queue in queues}
    known = {pool.pool_id: pool for pool in pools}
    breaks: list[Break] = []
    for queue in nodes.values():
        for pool_id, row in queue.limits.items():
            for resource, limit in row.items():
                breaks += _alone(queue, pool_id, resource, limit, known)
    if not any(found.code in MALFORMED for found in breaks):  # Sums over what is no number say nothing.
        breaks += _sums(nodes, known)
        breaks += _ceilings(nodes, known)
    order = {queue.id: (queue.name, str(queue.id)) for queue in nodes.values()}
    pool_order = {pool.pool_id: (pool.name, str(pool.pool_id)) for pool in pools}
    return tuple(
        sorted(
            breaks,
            key=lambda found: (
                order[found.queue_id],
                pool_order.get(found.pool_id, ("", str(found.pool_id))),
                found.resource,
                found.column,
                found.code,
            ),
        )
    )


MALFORMED = frozenset({"invalid", "out_of_range"})


def _alone(
    queue: LimitedQueue, pool_id: uuid.UUID, resource: str, limit: Limit, known: Mapping[uuid.UUID, Capacity]
) -> list[Break]:
    """What is wrong with one limit without looking at any other."""

    def found(column: str, code: str, message: str, hint: str, excess: int = 0) -> Break:
        return Break(queue.id, pool_id, resource, column, code, message, hint, excess)

    if pool_id not in known:
        names = ", ".join(sorted(pool.name for pool in known.values())[:20]) or "none"
        return [found("pool", "not_found", "There is no such pool.", f"Pools are: {names}.")]
    if resource not in RESOURCE_NAMES:
        return [found("resource", "not_found", "There is no such resource.", f"Resources are: {', '.join(RESOURCE_NAMES)}.")]
    if queue.parent_id is None and limit != NO_LIMIT:
        return [found("ceiling", "is_root", "The root queue has no limits.", "Limit the queues below it.")]
    breaks = []
    for column, most, may_be_none in (
        ("guarantee", AMOUNT_MAX, False),
        ("deserved", AMOUNT_MAX, True),
        ("ceiling", AMOUNT_MAX, True),
        ("weight", WEIGHT_MAX, False),
    ):
        value = getattr(limit, column)
        if value is None and may_be_none:
            continue
        if type(value) is not int:
            breaks.append(found(column, "invalid", f"{column} is no whole number.", f"Give a whole number from 0 to {most}."))
        elif not 0 <= value <= most:
            breaks.append(
                found(column, "out_of_range", f"{column} is {value}; it must be between 0 and {most}.", f"Give 0 to {most}.")
            )
    if breaks:
        return breaks
    if limit.deserved is not None and limit.deserved < limit.guarantee:
        breaks.append(
            found(
                "deserved",
                "below_guarantee",
                f"{limit.deserved} is less than the guarantee of {limit.guarantee}.",
                f"Set at least {limit.guarantee}, or leave it away: then it is the guarantee.",
                limit.guarantee - limit.deserved,
            )
        )
    for column in SUMMED:
        value = getattr(limit, column)
        if limit.ceiling is not None and value is not None and value > limit.ceiling:
            message = f"{value} is more than the queue's own ceiling of {limit.ceiling}."
            hint = f"Set at most {limit.ceiling}, or raise the ceiling."
            breaks.append(found(column, "above_ceiling", message, hint, value - limit.ceiling))
    return breaks


def _sums(nodes: Mapping[uuid.UUID, LimitedQueue], known: Mapping[uuid.UUID, Capacity]) -> list[Break]:
    """Where children are promised more than their parent has to give."""
    sums: dict[tuple[uuid.UUID, uuid.UUID, str, str], int] = {}
    for queue in nodes.values():
        if queue.parent_id is None:
            continue
        for pool_id, row in queue.limits.items():
            for resource, limit in row.items():
                for column, value in (("guarantee", limit.guarantee), ("deserved", limit.owed)):
                    key = (queue.parent_id, pool_id, resource, column)
                    sums[key] = sums.get(key, 0) + value
    breaks = []
    for (parent_id, pool_id, resource, column), total in sums.items():
        parent, pool = nodes.get(parent_id), known.get(pool_id)
        if parent is None or pool is None or resource not in RESOURCE_NAMES or total == 0:
            continue
        if parent.parent_id is None:
            most, whose = getattr(pool.total, resource), f"pool {pool.name} has {getattr(pool.total, resource)}"
        else:
            own = parent.limit(pool_id, resource)
            most = own.guarantee if column == "guarantee" else own.owed
            whose = f"queue {parent.name} itself has {most}"
        if total > most:
            message = f"The queues directly below {parent.name} are given {total} in all, but {whose}."
            hint = f"Lower them by {total - most} in all" + (
                f", or raise {column} of {parent.name}." if parent.parent_id else "."
            )
            breaks.append(Break(parent_id, pool_id, resource, column, "sum_above_parent", message, hint, total - most))
    return breaks


def _ceilings(nodes: Mapping[uuid.UUID, LimitedQueue], known: Mapping[uuid.UUID, Capacity]) -> list[Break]:
    """Ceilings that could never be reached, because one further up is lower."""
    breaks = []
    for queue in nodes.values():
        for pool_id, row in queue.limits.items():
            for resource, limit in row.items():
                if limit.ceiling is None or pool_id not in known:
                    continue
                above = _lowest_above(nodes, queue, pool_id, resource)
                if above is not None and limit.ceiling > above:  # Whose it is may be none of the reader's business.
                    message = f"{limit.ceiling} is more than the {above} that a queue above may use."
                    hint = f"Set at most {above}, or have the limit above raised first."
                    excess = limit.ceiling - above
                    breaks.append(Break(queue.id, pool_id, resource, "ceiling", "above_parent", message, hint, excess))
    return breaks


def _lowest_above(nodes: Mapping[uuid.UUID, LimitedQueue], queue: LimitedQueue, pool_id: uuid.UUID, resource: str) -> int | None:
    lowest: int | None = None
    here = queue.parent_id
    for _ in range(len(nodes)):
        node = nodes.get(here) if here is not None else None
        if node is None:
            break
        ceiling = node.limit(pool_id, resource).ceiling
        if ceiling is not None and (lowest is None or ceiling < lowest):
            lowest = ceiling
        here = node.parent_id
    return lowest
