"""Amounts of what jobs use. Integers in the smallest unit, never floats, so that sums are exact and replay is byte-equal."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Resources:
    """CPU in thousandths of a core, memory in bytes, GPU in thousandths of a device (1000 = one whole GPU)."""

    cpu_millis: int = 0
    memory_bytes: int = 0
    gpu_millis: int = 0

    def __add__(self, other: Resources) -> Resources:
        return Resources(
            self.cpu_millis + other.cpu_millis,
            self.memory_bytes + other.memory_bytes,
            self.gpu_millis + other.gpu_millis,
        )

    def __sub__(self, other: Resources) -> Resources:
        return Resources(
            self.cpu_millis - other.cpu_millis,
            self.memory_bytes - other.memory_bytes,
            self.gpu_millis - other.gpu_millis,
        )

    def __mul__(self, count: int) -> Resources:
        return Resources(self.cpu_millis * count, self.memory_bytes * count, self.gpu_millis * count)

    def fits_in(self, room: Resources) -> bool:
        """Whether every amount is at most the room's."""
        return (
            self.cpu_millis <= room.cpu_millis and self.memory_bytes <= room.memory_bytes and self.gpu_millis <= room.gpu_millis
        )

    def as_dict(self) -> dict[str, int]:
        """The same amounts under their field names, for JSON and database columns."""
        return {name: getattr(self, name) for name in RESOURCE_NAMES}


RESOURCE_NAMES = tuple(field.name for field in fields(Resources))
ZERO = Resources()


def total(amounts: list[Resources] | tuple[Resources, ...]) -> Resources:
    """Sum amounts; the sum of none is zero."""
    return Resources(
        sum(amount.cpu_millis for amount in amounts),
        sum(amount.memory_bytes for amount in amounts),
        sum(amount.gpu_millis for amount in amounts),
    )
