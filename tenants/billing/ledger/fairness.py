"""What share of a pool a queue deserved, and what it got: the arithmetic of the fairness contract.

An account is cut into hours. In each, and for every queue among its siblings, three things are known: what it deserved by
its limits, what its jobs held, and what its waiting jobs asked for beyond that. From these follow

- `due`: what it deserved and requested; `shortfall`: the part of that which it did not hold;
- `fair`: its part of what all siblings held together - first to each what is due to it, then the rest by weight among those
  who requested more - and so `deficit`, what it held less than that (below 0: more).

Nobody is owed what they did not request, and no request counts above its queue's ceiling. What lay idle though it was requested
counts as unfair for no queue: only as shortfall, where the queue deserved it. All amounts are integers, resource times seconds.
"""

from __future__ import annotations

import uuid
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import lcm
from operator import add
from typing import NamedTuple, TypeVar

from kernel.resources import Resources
from tenants.capacity.quota.limits import Limit, LimitedQueue

HOUR = 3_600
WEEK = 7 * 86_400
RESOURCES = ("gpu_millis", "cpu_millis")  # Memory is left out: it follows the cores.
MILLION = 1_000_000
_MONDAY = 4 * 86_400  # The first of 1970.
K = TypeVar("K", bound=Hashable)


class Holding(NamedTuple):
    """What a queue's own job held of a pool, between two second marks."""

    queue_id: uuid.UUID
    pool_id: uuid.UUID
    amount: Resources
    since: int
    until: int


class Wanted(NamedTuple):
    """What jobs that waited in a queue would have held of a pool, in one hour (counted since 1970), times seconds."""

    hour: int
    queue_id: uuid.UUID
    pool_id: uuid.UUID
    cpu_milli_seconds: int
    gpu_milli_seconds: int


class Limits(NamedTuple):
    """Which limits held from a second mark on."""

    since: int
    queues: tuple[LimitedQueue, ...]


class Share(NamedTuple):
    """One queue in one pool, for one resource, over a time."""

    deserved: int = 0
    requested: int = 0
    due: int = 0
    delivered: int = 0
    shortfall: int = 0
    fair: int = 0
    requested_by_all: int = 0  # The queue and its siblings.
    delivered_by_all: int = 0

    @property
    def deficit(self) -> int:
        """What it got less than its fair part; below 0: more."""
        return self.fair - self.delivered

    def plus(self, other: Share) -> Share:
        return Share(*map(add, self, other))

    def as_dict(self) -> dict[str, int]:
        """With the parts of what all got together, in millionths."""
        of_all = max(1, self.delivered_by_all)
        return {
            **self._asdict(),
            "deficit": self.deficit,
            "fair_ppm": self.fair * MILLION // of_all,
            "delivered_ppm": self.delivered * MILLION // of_all,
        }


class ShareKey(NamedTuple):
    queue_id: uuid.UUID
    pool_id: uuid.UUID
    resource: str


@dataclass(frozen=True, slots=True)
class _Claim:
    """One of some siblings in one hour. `weight` is times seconds, as everything else."""

    owed: int
    weight: int
    held: int
    requested: int

    @property
    def due(self) -> int:
        return min(self.owed, self.requested)


def shares(
    *,
    since: int,
    until: int,
    history: Sequence[Limits],
    held: Iterable[Holding],
    waiting: Iterable[Wanted],
) -> dict[ShareKey, Share]:
    """Every queue among its siblings, where it deserved, requested or got anything. Equal for any order of what is given.

    `history` begins with the limits of `since`; where they change within an hour, each counts for its seconds.
    """
    parents = {queue.id: queue.parent_id for queue in history[0].queues}
    paths = {queue_id: _path(queue_id, parents) for queue_id in parents}
    got = _by_hour(_held_hours(held, since, until), paths)
    asked = _by_hour(_wanted_hours(waiting, since, until), paths)
    deserving = _Deserving(history)
    found: dict[ShareKey, Share] = {}
    cells = sorted({*got, *asked, *deserving.cells(since, until)})
    for pool_id, resource, hour in cells:
        here, wish = got.get((pool_id, resource, hour), {}), asked.get((pool_id, resource, hour), {})
        start, end = max(since, hour * HOUR), min(until, (hour + 1) * HOUR)
        siblings: dict[uuid.UUID, list[uuid.UUID]] = {}  # Who neither deserved, nor held, nor requested anything has no part.
        for queue_id in sorted({*here, *wish, *deserving.queues_with(pool_id, resource)}):
            if (above := parents.get(queue_id)) is not None:
                siblings.setdefault(above, []).append(queue_id)
        for group in siblings.values():
            claims = {
                queue_id: deserving.claim(queue_id, pool_id, resource, start, end, here.get(queue_id, 0), wish.get(queue_id, 0))
                for queue_id in group
            }
            for queue_id, share in _divided(claims).items():
                if share.deserved or share.requested:
                    key = ShareKey(queue_id, pool_id, resource)
                    found[key] = found.get(key, Share()).plus(share)
    return found


def divide(total: int, claims: Mapping[K, tuple[int, int]]) -> dict[K, int]:
    """A total by (weight, most), in whole units: no claim gets more than its most, and what one leaves goes to the others.

    Weight 0 is served when all other claims have all they want. Nothing is left over while a claim wants more.
    """
    parts = dict.fromkeys(claims, 0)
    for weighted in (True, False):
        group = [(key, weight or 1, most) for key, (weight, most) in claims.items() if bool(weight) is weighted and most > 0]
        left, weights = total, sum(weight for _, weight, _ in group)
        common = lcm(*{weight for _, weight, _ in group})
        for key, weight, most in sorted(group, key=lambda row: (row[2] * (common // row[1]), str(row[0]))):
            parts[key] = min(most, left * weight // weights)
            left -= parts[key]
            weights -= weight
        total = left
    return parts


def _divided(claims: Mapping[uuid.UUID, _Claim]) -> dict[uuid.UUID, Share]:
    """What each of some siblings had in an hour, and what its fair part was."""
    total = sum(claim.held for claim in claims.values())
    first = divide(total, {key: (claim.weight, claim.due) for key, claim in claims.items()})
    rest = total - sum(first.values())
    more = divide(rest, {key: (claim.weight, claim.requested - first[key]) for key, claim in claims.items()})
    requested = sum(claim.requested for claim in claims.values())
    return {
        key: Share(
            deserved=claim.owed,
            requested=claim.requested,
            due=claim.due,
            delivered=claim.held,
            shortfall=max(0, claim.due - claim.held),
            fair=first[key] + more[key],
            requested_by_all=requested,
            delivered_by_all=total,
        )
        for key, claim in claims.items()
    }


class _Deserving:
    """What queues deserved: limits over time, as sums over seconds."""

    def __init__(self, history: Sequence[Limits]) -> None:
        self._from = [limits.since for limits in history]
        self._limits = [{queue.id: queue for queue in limits.queues} for limits in history]
        self._queues: dict[tuple[uuid.UUID, str], set[uuid.UUID]] = {}
        for limits in self._limits:
            for queue in limits.values():
                for pool_id, row in queue.limits.items():
                    for resource, limit in row.items():
                        if limit.owed and resource in RESOURCES:
                            self._queues.setdefault((pool_id, resource), set()).add(queue.id)

    def cells(self, since: int, until: int) -> Iterator[tuple[uuid.UUID, str, int]]:
        """The hours of pools in which any queue deserved anything."""
        for pool_id, resource in self._queues:
            for hour in range(since // HOUR, -(-until // HOUR)):
                yield pool_id, resource, hour

    def queues_with(self, pool_id: uuid.UUID, resource: str) -> set[uuid.UUID]:
        return self._queues.get((pool_id, resource), set())

    def claim(
        self, queue_id: uuid.UUID, pool_id: uuid.UUID, resource: str, start: int, end: int, held: int, waiting: int
    ) -> _Claim:
        owed = weight = 0
        ceiling: int | None = 0
        for limit, seconds in self._pieces(queue_id, pool_id, resource, start, end):
            owed += limit.owed * seconds
            weight += limit.weight * seconds
            ceiling = None if ceiling is None or limit.ceiling is None else ceiling + limit.ceiling * seconds
        requested = held + waiting
        return _Claim(owed, weight, held, requested if ceiling is None else max(held, min(requested, ceiling)))

    def _pieces(
        self, queue_id: uuid.UUID, pool_id: uuid.UUID, resource: str, start: int, end: int
    ) -> Iterator[tuple[Limit, int]]:
        for number, limits in enumerate(self._limits):
            begins = start if number == 0 else max(start, self._from[number])
            ends = min(end, self._from[number + 1]) if number + 1 < len(self._from) else end
            if begins < ends and queue_id in limits:
                yield limits[queue_id].limit(pool_id, resource), ends - begins


_Cell = tuple[uuid.UUID, str, int]


def _by_hour(
    amounts: Iterable[tuple[_Cell, uuid.UUID, int]], paths: Mapping[uuid.UUID, tuple[uuid.UUID, ...]]
) -> dict[_Cell, dict[uuid.UUID, int]]:
    """By pool, resource and hour, what each queue and all below it had."""
    own: dict[_Cell, dict[uuid.UUID, int]] = {}
    for cell, queue_id, amount in amounts:
        row = own.get(cell)
        if row is None:
            row = own[cell] = {}
        row[queue_id] = row.get(queue_id, 0) + amount
    found: dict[_Cell, dict[uuid.UUID, int]] = {}
    for cell, row in own.items():  # Up the tree only now: a sum goes there once, however many it is made of.
        sums = found[cell] = {}
        for queue_id, amount in row.items():
            for node in paths.get(queue_id, ()):
                sums[node] = sums.get(node, 0) + amount
    return found


def _held_hours(held: Iterable[Holding], since: int, until: int) -> Iterator[tuple[_Cell, uuid.UUID, int]]:
    for holding in held:
        start, end = max(since, holding.since), min(until, holding.until)
        while start < end:
            hour = start // HOUR
            after = min(end, (hour + 1) * HOUR)
            for resource in RESOURCES:
                amount = getattr(holding.amount, resource)
                if amount:
                    yield (holding.pool_id, resource, hour), holding.queue_id, amount * (after - start)
            start = after


def _wanted_hours(waiting: Iterable[Wanted], since: int, until: int) -> Iterator[tuple[_Cell, uuid.UUID, int]]:
    for demand in waiting:
        if since <= demand.hour * HOUR < until:
            for resource, amount in (("gpu_millis", demand.gpu_milli_seconds), ("cpu_millis", demand.cpu_milli_seconds)):
                if amount:
                    yield (demand.pool_id, resource, demand.hour), demand.queue_id, amount


def _path(queue_id: uuid.UUID, parents: Mapping[uuid.UUID, uuid.UUID | None]) -> tuple[uuid.UUID, ...]:
    """A queue and all above it."""
    steps: list[uuid.UUID] = []
    here: uuid.UUID | None = queue_id
    while here is not None and len(steps) <= len(parents):
        steps.append(here)
        here = parents.get(here)
    return tuple(steps)


# --- Weeks ------------------------------------------------------------------------------------------------------------


def week_of(moment: int) -> int:
    """The number of the week (Monday to Sunday, UTC) that a second mark lies in; it begins at `week_starts`."""
    return (moment - _MONDAY) // WEEK


def week_starts(week: int) -> int:
    """The second mark at which a week begins."""
    return _MONDAY + week * WEEK


# --- The document -------------------------------------------------------------------------------------------------------

FORMAT = 1
SIGNED_NAMES = {"deserved": "promised", "requested": "wanted", "requested_by_all": "wanted_by_all"}
"""Of a line of a signed document, where it differs: documents of closed weeks are signed, and their keys stay."""


def share_statement(
    *, tenant_id: uuid.UUID, queue_id: uuid.UUID, week: str, since: int, until: int, found: Mapping[ShareKey, Share],
    history: Sequence[Limits],
) -> dict[str, object]:  # fmt: skip
    """One tenant's week: of its top queue, by pool and resource, with the limits that it was judged by. Whole numbers and ids."""
    keys = sorted(key for key in found if key.queue_id == queue_id)
    return {
        "format": FORMAT,
        "kind": "shares",
        "tenant": str(tenant_id),
        "queue": str(queue_id),
        "week": week,
        "since": since,
        "until": until,
        "lines": [{"pool": str(key.pool_id), "resource": key.resource, **_signed_line(found[key])} for key in keys],
        "limits": list(_limit_rows(queue_id, {(key.pool_id, key.resource) for key in keys}, history)),
    }


def _signed_line(share: Share) -> dict[str, int]:
    return {SIGNED_NAMES.get(name, name): amount for name, amount in share.as_dict().items()}


def _limit_rows(
    queue_id: uuid.UUID, wanted: set[tuple[uuid.UUID, str]], history: Sequence[Limits]
) -> Iterator[dict[str, object]]:
    """The limits of one queue at the beginning, and whenever one of them changed."""
    before: dict[tuple[uuid.UUID, str], Limit] = {}
    for limits in history:
        queue = next((queue for queue in limits.queues if queue.id == queue_id), None)
        if queue is None:
            continue
        for pool_id, resource in sorted(wanted):
            limit = queue.limit(pool_id, resource)
            if before.get((pool_id, resource)) != limit:
                before[pool_id, resource] = limit
                yield {"since": limits.since, "pool": str(pool_id), "resource": resource, **limit.as_dict()}
