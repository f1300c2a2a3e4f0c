"""Classes of priority by name. A priority is a whole number, higher goes first; the names stand for numbers of that scale."""

from __future__ import annotations

PRIORITIES = {"low": 100, "normal": 500, "high": 900, "urgent": 1_000}
PRIORITY_MAX = 1_000
NORMAL = PRIORITIES["normal"]


def format_priority(priority: int) -> str:
    """A priority as people say it: `high` for 900, `850` for what has no name."""
    return next((name for name, number in PRIORITIES.items() if number == priority), str(priority))
