"""What a tree holds, told by its entries one after the other: with bounded memory, whatever lies in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from clusters.engines.local.launching.verbs import Entry, MeasuredTree

COPY_PART = ".berth-copy-"  # How a file is called that `copy_tree` has not copied to its end.


def measured(entries: Iterable[Entry], *, depth: int, half_written: Sequence[str], truncated: bool = False) -> MeasuredTree:
    """Add up entries whose paths are relative to the top, each folder before what is in it."""
    count = length = held = 0
    half: list[str] = []
    tops: dict[str, Entry] = {}  # Those in which nothing was given yet.
    newest: dict[str, Entry] = {}
    for entry in entries:
        if entry.kind == "file":
            count += 1
            length += entry.size_bytes
            held += entry.held_bytes
        if depth and entry.path.count("/") == depth - 1:
            if _is_half_written(entry.path, half_written):
                half.append(entry.path)
            else:
                tops[entry.path] = entry
        top = tops.pop("/".join(entry.path.split("/")[:depth]), None) if tops and entry.kind in ("file", "link") else None
        if top is not None:
            owner = top.path.rpartition("/")[0]
            if owner not in newest or top.modified_at > newest[owner].modified_at:
                newest[owner] = top
    return MeasuredTree(count, length, held, tuple(newest.values()), tuple(half), truncated)


def _is_half_written(path: str, endings: Sequence[str]) -> bool:
    return path.endswith(tuple(endings)) or path.rpartition("/")[2].startswith(COPY_PART)
