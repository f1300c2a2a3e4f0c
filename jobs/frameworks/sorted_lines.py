"""Lines sorted by their bytes, in bounded memory: what maps send and reduce tasks read.

Sent along with a job, so it imports the standard library only and runs on Python 3.7."""

from __future__ import annotations

import contextlib
import heapq
import os
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from typing import BinaryIO

BYTES_MAX = 64 << 20  # Of lines in memory; each costs some more than its bytes.
LINE_OVERHEAD = 64
OPEN_MAX = 100  # Files at once: a process may have 1,024, and other limits are lower.


class Partitions:
    """Lines `key<TAB>value`, kept apart by their keys, for `count` readers. A line without a tab is a key without a value."""

    def __init__(self, folder: str, count: int, bytes_max: int = BYTES_MAX) -> None:
        self._folder, self._count, self._bytes_max = folder, count, bytes_max
        self._lines: list[list[bytes]] = [[] for _ in range(count)]
        self._runs: list[list[str]] = [[] for _ in range(count)]
        self._bytes = self._spills = 0

    def add(self, line: bytes) -> None:
        """One line, with its end or without."""
        key, _, value = line.rstrip(b"\r\n").partition(b"\t")
        # With a tab in each, lines that are sorted whole have equal keys together.
        self._lines[part_of(key, self._count)].append(key + b"\t" + value + b"\n")
        self._bytes += len(line) + LINE_OVERHEAD
        if self._bytes > self._bytes_max:
            self._spill()

    def files(self) -> list[str]:
        """One sorted file for each reader."""
        self._spill()
        return [merge_into(self._path(f"part-{number}"), runs) for number, runs in enumerate(self._runs)]

    def _spill(self) -> None:
        for number, lines in enumerate(self._lines):
            if lines:
                path = self._path(f"run-{number}-{self._spills}")
                lines.sort()
                with open(path, "wb") as file:
                    file.writelines(lines)
                self._runs[number].append(path)
        self._lines = [[] for _ in range(self._count)]
        self._bytes = 0
        self._spills += 1

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)


def part_of(key: bytes, count: int) -> int:
    """Which reader a key belongs to: the same in all tasks, attempts and versions of Python."""
    return zlib.crc32(key) % count


def merge_into(path: str, runs: list[str]) -> str:
    """Merge sorted files into one; they are removed."""
    with open(path, "wb") as file:
        file.writelines(merged(runs))
    for run in runs:
        os.unlink(run)
    return path


def merged(paths: list[str]) -> Iterator[bytes]:
    """The lines of sorted files, in order, from a bounded number of them at once."""
    while len(paths) > OPEN_MAX:
        first, paths = paths[:OPEN_MAX], paths[OPEN_MAX:]
        number, together = tempfile.mkstemp(prefix="merged-", dir=os.path.dirname(first[0]))
        with open(number, "wb") as file:
            file.writelines(merged(first))
        paths = [*paths, together]
    with contextlib.ExitStack() as files:
        sources: list[Iterable[bytes]] = [files.enter_context(opened(path)) for path in paths]
        yield from heapq.merge(*sources)


def opened(path: str) -> BinaryIO:
    return open(path, "rb", buffering=1 << 16)
