"""How one try to send ended."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sent:
    """The other side took it. `status` is its HTTP or SMTP code."""

    status: int


@dataclass(frozen=True, slots=True)
class TryAgain:
    """It may work later. `after_seconds` is what the other side asked for."""

    error: str
    status: int | None = None
    after_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class GiveUp:
    """It will not work later either, unless a user changes something."""

    error: str
    status: int | None = None


Outcome = Sent | TryAgain | GiveUp
