"""Chunks of a series: fixed numbers of slots, packed as text. Pure; knows neither a database nor a clock.

A slot that was not measured is NaN, in memory and packed, and stays so: nothing is interpolated, ever. Values are 32-bit
floats - seven digits are more than any sensor has. The packed form begins with a letter that says its layout, so that a chunk
reads correctly after the settings changed.
"""

from __future__ import annotations

import base64
import math
import sys
from array import array
from dataclasses import dataclass
from typing import Protocol

NAN = math.nan


@dataclass(frozen=True, slots=True)
class Point:
    """What one slot says: the mean, and between which values it lay. `count` is how many samples it stands for."""

    mean: float
    low: float
    high: float
    count: float


class Chunk(Protocol):
    """Slots of one series at one resolution."""

    def add(self, slot: int, value: float) -> None: ...

    def merge(self, packed: str) -> None:
        """Take over what an earlier process stored for the same chunk."""
        ...

    def pack(self) -> str: ...


class RawChunk:
    """One value a slot; the latest wins."""

    __slots__ = ("values",)

    def __init__(self, slots: int) -> None:
        self.values = array("f", [NAN]) * slots

    def add(self, slot: int, value: float) -> None:
        self.values[slot] = value

    def merge(self, packed: str) -> None:
        for slot, point in enumerate(unpack(packed)[: len(self.values)]):
            if point is not None and math.isnan(self.values[slot]):
                self.values[slot] = point.mean

    def pack(self) -> str:
        return _RAW + _encode(self.values)


class FoldedChunk:
    """Minimum, mean, maximum and count of the samples that fell into each slot."""

    __slots__ = ("counts", "highs", "lows", "means")

    def __init__(self, slots: int) -> None:
        self.lows = array("f", [NAN]) * slots
        self.means = array("f", [NAN]) * slots
        self.highs = array("f", [NAN]) * slots
        self.counts = array("f", [0.0]) * slots

    def add(self, slot: int, value: float) -> None:
        self._fold(slot, Point(value, value, value, 1.0))

    def merge(self, packed: str) -> None:
        for slot, point in enumerate(unpack(packed)[: len(self.counts)]):
            if point is not None:
                self._fold(slot, point)

    def pack(self) -> str:
        return _FOLDED + _encode(self.lows + self.means + self.highs + self.counts)

    def _fold(self, slot: int, point: Point) -> None:
        count = self.counts[slot]
        if not count:
            self.lows[slot], self.means[slot], self.highs[slot] = point.low, point.mean, point.high
        else:
            self.lows[slot] = min(self.lows[slot], point.low)
            self.highs[slot] = max(self.highs[slot], point.high)
            self.means[slot] += (point.mean - self.means[slot]) * point.count / (count + point.count)
        self.counts[slot] = count + point.count


def unpack(packed: str) -> list[Point | None]:
    """The slots of a packed chunk in order; None is a gap. Raises ValueError for text of another layout."""
    layout, numbers = packed[:1], _decode(packed[1:])
    if layout == _RAW:
        return [None if math.isnan(value) else Point(value, value, value, 1.0) for value in numbers]
    if layout == _FOLDED and len(numbers) % 4 == 0:
        slots = len(numbers) // 4
        lows, means, highs, counts = (numbers[part * slots : (part + 1) * slots] for part in range(4))
        return [
            Point(mean, low, high, count) if count else None
            for low, mean, high, count in zip(lows, means, highs, counts, strict=True)
        ]
    raise ValueError(f"a chunk of the unknown layout {layout!r}")


def combine(points: list[Point]) -> Point | None:
    """What several slots say together; None if all are gaps."""
    count = sum(point.count for point in points)
    if not count:
        return None
    return Point(
        mean=sum(point.mean * point.count for point in points) / count,
        low=min(point.low for point in points),
        high=max(point.high for point in points),
        count=count,
    )


_RAW, _FOLDED = "r", "f"


def _encode(numbers: array[float]) -> str:
    if sys.byteorder == "big":
        numbers = array("f", numbers)
        numbers.byteswap()
    return base64.b64encode(numbers.tobytes()).decode("ascii")


def _decode(text: str) -> array[float]:
    numbers = array("f")
    numbers.frombytes(base64.b64decode(text, validate=True))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
