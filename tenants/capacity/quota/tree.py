"""The tree of queues as values: ceilings, use, room along the path to the root, and the reason of a refusal."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kernel.resources import RESOURCE_NAMES, ZERO, Resources
from tenants.capacity.quota.limits import NO_LIMIT, Amount, Limit, LimitedQueue, Limits, amount_of


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The most of each resource that a queue may hold of one pool; None is no limit."""

    cpu_millis: int | None = None
    memory_bytes: int | None = None
    gpu_millis: int | None = None

    def as_dict(self) -> dict[str, int | None]:
        return {name: getattr(self, name) for name in RESOURCE_NAMES}


NO_CEILING = Ceiling()


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """One queue with its limits and its use per pool. Use counts what all queues below it hold, too.

    `ceilings` has the resources of each pool that are limited, and only those; `limits` everything that was set.
    """

    id: uuid.UUID
    parent_id: uuid.UUID | None
    tenant_id: uuid.UUID | None
    name: str
    is_top: bool = False
    ceilings: Mapping[uuid.UUID, Mapping[str, int]] = field(default_factory=dict)
    usage: Mapping[uuid.UUID, Resources] = field(default_factory=dict)
    limits: Limits = field(default_factory=dict)

    def ceiling(self, pool_id: uuid.UUID) -> Ceiling:
        limits = self.ceilings.get(pool_id)
        return Ceiling(**limits) if limits else NO_CEILING

    def limit(self, pool_id: uuid.UUID, resource: str) -> Limit:
        return self.limits.get(pool_id, {}).get(resource, NO_LIMIT)

    def used(self, pool_id: uuid.UUID) -> Resources:
        return self.usage.get(pool_id, ZERO)


@dataclass(frozen=True, slots=True)
class LimitRefusal:
    """The limit that an amount breaks: `used` of `ceiling` is taken in `queue_id`, and `needed` more does not fit."""

    queue_id: uuid.UUID
    pool_id: uuid.UUID
    resource: str
    used: int
    needed: int
    ceiling: int

    @property
    def can_never_fit(self) -> bool:
        """Whether the amount alone is above the ceiling: waiting does not help."""
        return self.needed > self.ceiling


class QueueTree:
    """All queues with their parents. A queue without a known parent is a root."""

    def __init__(self, nodes: Iterable[QueueFacts]) -> None:
        self.nodes: dict[uuid.UUID, QueueFacts] = {node.id: node for node in nodes}
        self._children: dict[uuid.UUID, list[uuid.UUID]] = {}
        for node in self.nodes.values():
            if node.parent_id is not None:
                self._children.setdefault(node.parent_id, []).append(node.id)

    def __iter__(self) -> Iterator[QueueFacts]:
        return iter(self.nodes.values())

    def limited(self) -> tuple[LimitedQueue, ...]:
        """The same queues as the rules of limits and `Shares` see them."""
        return tuple(LimitedQueue(node.id, node.parent_id, node.name, node.limits) for node in self.nodes.values())

    def own_use(self) -> Iterator[tuple[uuid.UUID, uuid.UUID, Amount]]:
        """What each queue's own jobs hold of each pool, for `Shares`: its use without that of the queues directly below."""
        for node in self.nodes.values():
            below = [self.nodes[child] for child in self._children.get(node.id, ())]
            for pool_id, used in node.usage.items():
                own = used
                for child in below:
                    own = own - child.used(pool_id)
                if own != ZERO:
                    yield node.id, pool_id, amount_of(own)

    def path(self, queue_id: uuid.UUID) -> tuple[QueueFacts, ...]:
        """The queue and everything above it, from the queue up to the root."""
        steps: list[QueueFacts] = []
        here: uuid.UUID | None = queue_id
        while here is not None and here in self.nodes:
            node = self.nodes[here]
            if len(steps) > len(self.nodes):
                raise AssertionError(f"the queues above {queue_id} form a circle")
            steps.append(node)
            here = node.parent_id
        return tuple(steps)

    def below(self, queue_id: uuid.UUID) -> tuple[QueueFacts, ...]:
        """All queues below, parents before children."""
        found: list[QueueFacts] = []
        waiting = list(self._children.get(queue_id, ()))
        while waiting:
            here = waiting.pop(0)
            found.append(self.nodes[here])
            waiting += self._children.get(here, ())
        return tuple(found)

    def effective_ceiling(self, queue_id: uuid.UUID, pool_id: uuid.UUID) -> Ceiling:
        """The lowest ceiling on the way to the root, per resource."""
        ceilings = [node.ceiling(pool_id) for node in self.path(queue_id)]
        return Ceiling(**{name: _lowest(getattr(ceiling, name) for ceiling in ceilings) for name in RESOURCE_NAMES})

    def headroom(self, queue_id: uuid.UUID, pool_id: uuid.UUID) -> Ceiling:
        """How much more the queue could hold now, per resource; None is no limit. Never negative, also after a cut."""
        path = self.path(queue_id)

        def room(name: str) -> int | None:
            return _lowest(
                None if limit is None else max(0, limit - getattr(node.used(pool_id), name))
                for node, limit in ((node, getattr(node.ceiling(pool_id), name)) for node in path)
            )

        return Ceiling(**{name: room(name) for name in RESOURCE_NAMES})

    def refusals(self, queue_id: uuid.UUID, pool_id: uuid.UUID, amount: Resources) -> tuple[LimitRefusal, ...]:
        """Every limit that refuses the amount, nearest queue first. None means that it fits."""
        return tuple(
            refusal
            for node in self.path(queue_id)
            for refusal in refusals_of(node.id, pool_id, node.used(pool_id), amount, node.ceiling(pool_id))
        )

    def excess_ceilings(
        self, queue_id: uuid.UUID, pool_id: uuid.UUID, wanted: Ceiling
    ) -> tuple[tuple[str, int, QueueFacts], ...]:
        """Where a wanted ceiling is above one further up: (resource, ceiling there, queue there), lowest per resource."""
        found = []
        for name in RESOURCE_NAMES:
            ask = getattr(wanted, name)
            above = [
                (getattr(node.ceiling(pool_id), name), node)
                for node in self.path(queue_id)[1:]
                if getattr(node.ceiling(pool_id), name) is not None
            ]
            if ask is None or not above:
                continue
            lowest, node = min(above, key=lambda pair: pair[0])
            if ask > lowest:
                found.append((name, lowest, node))
        return tuple(found)


def refusals_of(
    queue_id: uuid.UUID, pool_id: uuid.UUID, used: Resources, amount: Resources, ceiling: Ceiling
) -> tuple[LimitRefusal, ...]:
    """The resources in which `used + amount` is above the ceiling. Asking for none of a resource is never refused."""
    return tuple(
        LimitRefusal(queue_id, pool_id, name, getattr(used, name), getattr(amount, name), limit)
        for name in RESOURCE_NAMES
        if (limit := getattr(ceiling, name)) is not None
        and getattr(amount, name) > 0
        and getattr(used, name) + getattr(amount, name) > limit
    )


@dataclass(frozen=True, slots=True)
class Claim:
    """What one attempt asks of one pool, with the queues that must have room: its own and all above."""

    attempt_id: uuid.UUID
    pool_id: uuid.UUID
    amount: Resources
    queue_ids: tuple[uuid.UUID, ...]


def grant(
    claims: Sequence[Claim],
    used: Mapping[tuple[uuid.UUID, uuid.UUID], Resources],
    ceilings: Mapping[tuple[uuid.UUID, uuid.UUID], Ceiling],
) -> tuple[set[uuid.UUID], dict[tuple[uuid.UUID, uuid.UUID], Resources]]:
    """Decide a batch in its order: each attempt gets all of its claims or none. Maps are keyed by (queue, pool).

    Answers the granted attempts and how much each (queue, pool) grows by. A later, smaller attempt may pass an earlier one
    that did not fit; the order of what waits is the scheduler's business, not this function's.
    """
    by_attempt: dict[uuid.UUID, list[Claim]] = {}
    for claim in claims:
        by_attempt.setdefault(claim.attempt_id, []).append(claim)
    growth: dict[tuple[uuid.UUID, uuid.UUID], Resources] = {}
    granted: set[uuid.UUID] = set()
    for attempt_id, own in by_attempt.items():
        wanted: dict[tuple[uuid.UUID, uuid.UUID], Resources] = {}
        for claim in own:
            for queue_id in claim.queue_ids:
                key = (queue_id, claim.pool_id)
                wanted[key] = wanted.get(key, ZERO) + claim.amount
        if any(
            refusals_of(*key, used.get(key, ZERO) + growth.get(key, ZERO), amount, ceilings.get(key, NO_CEILING))
            for key, amount in wanted.items()
        ):
            continue
        granted.add(attempt_id)
        for key, amount in wanted.items():
            growth[key] = growth.get(key, ZERO) + amount
    return granted, growth


def _lowest(limits: Iterable[int | None]) -> int | None:
    known = [limit for limit in limits if limit is not None]
    return min(known) if known else None
