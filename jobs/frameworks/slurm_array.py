"""The indexes of an array of Slurm's (man sbatch, `--array`), read strictly: which number stands for which child here."""

from __future__ import annotations

import re
from dataclasses import dataclass

from jobs import bounds

_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?")
INDEXES_LISTED = 5_000  # Of an array that is no plain range; they stand in one variable.


@dataclass(frozen=True, slots=True)
class Indexes:
    """The indexes of an array: `first`, `first + step`, ..., or `listed` where they are no such row."""

    size: int
    first: int
    step: int
    listed: tuple[int, ...]
    parallelism: int | None

    def number(self, index: int) -> int:
        """Slurm's index of the child that is called `index` here."""
        return self.listed[index] if self.listed else self.first + index * self.step

    @property
    def is_plain(self) -> bool:
        return not self.listed and self.first == 0 and self.step == 1


def read_array(text: str) -> Indexes | None:
    """The indexes of `0-15`, `1,3,5-7`, `0-20:4` or `0-15%4`; None for what Slurm would refuse too."""
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
