"""Moments as commands of an operator take them."""

from __future__ import annotations

from argparse import ArgumentTypeError
from datetime import UTC, datetime


def moment(text: str) -> datetime:
    """A time in UTC, unless it says another zone."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"{text} is no time; write it like 2026-11-20T00:00") from None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
