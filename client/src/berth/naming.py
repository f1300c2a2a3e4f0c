"""What the ids of Berth look like, and how short they may be shown without becoming ambiguous."""

from __future__ import annotations

import re
from collections.abc import Iterable

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
SHORT_LENGTH = 13  # Ids begin with the time of their making; 13 characters are the millisecond.


def is_id(text: str) -> bool:
    return bool(_ID.fullmatch(text))


def short_ids(ids: Iterable[str]) -> dict[str, str]:
    """The shortest prefix of each id, at least 13 characters, that no other of them shares."""
    ordered = sorted(set(ids))
    short: dict[str, str] = {}
    for position, current in enumerate(ordered):
        neighbours = ordered[max(0, position - 1) : position] + ordered[position + 1 : position + 2]
        shared = max((_common_length(current, other) for other in neighbours), default=0)
        short[current] = current[: max(SHORT_LENGTH, shared + 1)]
    return short


def _common_length(text: str, other: str) -> int:
    return next(
        (position for position, (left, right) in enumerate(zip(text, other, strict=False)) if left != right),
        min(len(text), len(other)),
    )
