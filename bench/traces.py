"""Public traces from the folder given by `--traces`: tables as CSV, packed or not."""

from __future__ import annotations

import csv
import lzma
from collections.abc import Iterator
from pathlib import Path

from bench.frame import BenchError


def rows(folder: Path, name: str, where: str) -> Iterator[dict[str, str]]:
    """The rows of NAME.csv or NAME.csv.xz. `where` says where such files are published, for whoever has none."""
    plain, packed = folder / f"{name}.csv", folder / f"{name}.csv.xz"
    if plain.exists():
        with plain.open(newline="") as lines:
            yield from csv.DictReader(lines)
    elif packed.exists():
        with lzma.open(packed, "rt", newline="") as lines:
            yield from csv.DictReader(lines)
    else:
        raise BenchError(f"{folder} has neither {plain.name} nor {packed.name}. {where}")
