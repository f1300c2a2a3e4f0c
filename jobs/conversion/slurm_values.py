"""Slurm's ways of writing times, amounts of memory, GPUs and arrays (man sbatch, Slurm 24.05), read strictly.

Each reader gives the value, or None for what Slurm would refuse too."""

from __future__ import annotations

import re
from dataclasses import dataclass

from jobs import bounds

_TIME = re.compile(r"(?:([0-9]{1,6})-)?([0-9]{1,9})(?::([0-9]{1,9}))?(?::([0-9]{1,9}))?")
_MEMORY = re.compile(r"([0-9]{1,15})([KMGT]?)B?", re.IGNORECASE)
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?")
_GPU = re.compile(r"(?:([A-Za-z][A-Za-z0-9._-]{0,62}):)?([0-9]{1,6})")
NO_LIMIT = frozenset({"0", "-1", "unlimited", "infinite"})
INDEXES_LISTED = 5_000  # Of an array that is no plain range; they stand in the command.


def read_seconds(text: str) -> int | None:
    """Seconds of `30`, `30:00`, `1:30:00`, `2-12`, `2-12:30` or `2-12:30:00`; minutes alone without a colon."""
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    days, first, second, third = (int(part) if part else 0 for part in match.groups())
    if match[1]:
        return ((days * 24 + first) * 60 + second) * 60 + third
    if match[4]:
        return (first * 60 + second) * 60 + third
    return first * 60 + second


def read_memory(text: str) -> int | None:
    """Bytes of `4000`, `16G` or `512K`; mebibytes without a unit."""
    match = _MEMORY.fullmatch(text)
    return None if match is None else int(match[1]) * 1024 ** (" KMGT".index(match[2].upper() or "M"))


def memory_text(amount: int) -> str:
    """Bytes in the largest unit that they are a whole number of."""
    for unit, size in (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
        if amount >= size and amount % size == 0:
            return f"{amount // size}{unit}"
    return str(amount)


def read_gpus(text: str) -> tuple[str, int] | None:
    """Model ("" for any) and number of `4` or `a100:4`."""
    match = _GPU.fullmatch(text)
    return None if match is None else ((match[1] or "").lower(), int(match[2]))


@dataclass(frozen=True, slots=True)
class Indexes:
    """The indexes of an array: `first`, `first + step`, ..., or `listed` where they are no such row."""

    size: int
    first: int
    step: int
    listed: tuple[int, ...]
    parallelism: int | None

    @property
    def is_plain(self) -> bool:
        return not self.listed and self.first == 0 and self.step == 1


def read_array(text: str) -> Indexes | None:
    """The indexes of `0-15`, `1,3,5-7`, `0-20:4` or `0-15%4`."""
    ranges, percent, most = text.partition("%")
    if percent and not (most.isascii() and most.isdigit() and 0 < len(most) < 9 and int(most) > 0):
        return None
    parallelism = int(most) if percent else None
    rows = [_row(part) for part in ranges.split(",")[: INDEXES_LISTED + 1]]
    found = [row for row in rows if row is not None]
    if len(found) != len(rows):
        return None
    if len(found) == 1:
        row = found[0]
        return Indexes(len(row), row.start, row.step, (), parallelism) if len(row) <= bounds.ARRAY_SIZE else None
    if sum(len(row) for row in found) > INDEXES_LISTED:
        return None
    listed = tuple(sorted({index for row in found for index in row}))
    return Indexes(len(listed), listed[0], 1, listed, parallelism)


def _row(text: str) -> range | None:
    match = _RANGE.fullmatch(text)
    if match is None:
        return None
    first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
    return range(first, last + 1, step) if last >= first and step else None
