"""What an hour of a pool's resource costs, and from when on.

A price holds from its moment until the next one of the same pool and resource; before the first, use is free. All moments are
second marks (`tenants.capacity.quota.accounting.mark`), so that a use is cut at a change of price without a rest.

The cost between two marks is the difference of two totals since 1970, each rounded down: wherever an interval is cut, the costs
of its parts add up to the cost of the whole to the last millionth, and no cost is further than one millionth from the exact one.
"""

from __future__ import annotations

import uuid
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from kernel.limits import GIB
from kernel.resources import RESOURCE_NAMES
from tenants.capacity.quota.accounting import mark

HOUR_SECONDS = 3_600
UNITS: Mapping[str, int] = {"cpu_millis": 1_000, "memory_bytes": GIB, "gpu_millis": 1_000}
"""How much of a resource its price is for: one core, one GiB, one GPU, for an hour."""
PRICE_MAX = 10**12  # A million of any currency for an hour; a year of ten thousand devices at a hundredth of it fits 64 bits.


@dataclass(frozen=True, slots=True, order=True)
class PriceFacts:
    """Millionths of the currency for an hour of one unit, from a second mark on."""

    pool_id: uuid.UUID
    resource: str
    since: int
    micros_per_hour: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a use during which one price holds."""

    since: int
    until: int
    micros_per_hour: int


class PriceBook:
    """All prices, to be asked which hold when. Equal for any order of what it is made of."""

    def __init__(self, prices: Iterable[PriceFacts] = ()) -> None:
        self._since: dict[tuple[uuid.UUID, str], list[int]] = {}
        self._rows: dict[tuple[uuid.UUID, str], list[PriceFacts]] = {}
        for price in sorted(prices):
            key = (price.pool_id, price.resource)
            self._since.setdefault(key, []).append(price.since)
            self._rows.setdefault(key, []).append(price)

    def at(self, pool_id: uuid.UUID, resource: str, moment: int) -> int:
        """Millionths for an hour at a second mark; 0 before the first price."""
        place = bisect_right(self._since.get((pool_id, resource), ()), moment)
        return self._rows[(pool_id, resource)][place - 1].micros_per_hour if place else 0

    def stretches(self, pool_id: uuid.UUID, resource: str, since: int, until: int) -> Iterator[Stretch]:
        """The interval cut where the price changes, in order; nothing for an empty one."""
        marks = self._since.get((pool_id, resource), ())
        rows = self._rows.get((pool_id, resource), ())
        place = bisect_right(marks, since)
        start = since
        while start < until:
            end = min(until, marks[place]) if place < len(marks) else until
            if end > start:
                yield Stretch(start, end, rows[place - 1].micros_per_hour if place else 0)
            start, place = end, place + 1

    def cost(self, pool_id: uuid.UUID, resource: str, amount: int, since: int, until: int) -> int:
        """What an amount held between two marks costs, in millionths."""
        return sum(
            cost_micros(resource, amount, part.micros_per_hour, part.since, part.until)
            for part in self.stretches(pool_id, resource, since, until)
        )

    def between(self, pool_ids: Iterable[uuid.UUID], since: int, until: int) -> list[PriceFacts]:
        """The rows that a use of these pools within the interval can have been priced by, sorted."""
        found = []
        for pool_id in sorted(set(pool_ids)):
            for resource in RESOURCE_NAMES:
                marks = self._since.get((pool_id, resource), ())
                first = max(0, bisect_right(marks, since) - 1)
                found += [row for row in self._rows.get((pool_id, resource), ())[first:] if row.since < until]
        return sorted(found)


def cost_micros(resource: str, amount: int, micros_per_hour: int, since: int, until: int) -> int:
    """What an amount held between two marks costs at one price; additive over adjacent intervals."""
    rate, share = amount * micros_per_hour, UNITS[resource] * HOUR_SECONDS
    return rate * until // share - rate * since // share


def whole_second(moment: datetime) -> int:
    """The second mark from which a price set for this moment holds: never before the moment itself."""
    found = mark(moment)
    return found if moment.microsecond == 0 else found + 1
