"""What an engine's kind says of a cluster before and while it is used: whether its settings can be meant, and what a look shows.

A folder of an engine whose clusters operators may add exports `read_settings(config, credentials)`, which gives a `SettingsRead`
or raises `SettingsInvalid` with all that is wrong. A kind without it is made by the platform alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol, runtime_checkable

from kernel.errors import FieldError
from kernel.words import NO_HINT, Text


class SettingsInvalid(Exception):
    """The settings cannot be used; `fields` says all that is wrong, below `/config` and `/credentials`."""

    def __init__(self, fields: Sequence[FieldError]) -> None:
        super().__init__(" ".join(str(field.message) for field in fields))
        self.fields = tuple(fields)


@dataclass(frozen=True, slots=True)
class SettingsRead:
    """What may be told of settings that hold a secret.

    `server` is the address, `account` the user of it; `origin` names where the credentials come from. `expires_at` is None where
    they do not say. `place` identifies what the engine works in: with another place, nothing that runs would be found again.
    """

    server: str
    account: str
    origin: str
    place: str
    expires_at: datetime | None = None
    verifies_tls: bool = True


class Outcome(StrEnum):
    """What a check came to."""

    OK = "ok"
    WARNING = "warning"  # Jobs run; something that an operator may expect does not work.
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of a check: what was looked at, what is so, and what to do about it."""

    check: str
    outcome: Outcome
    text: Text[str]
    hint: Text[str] = NO_HINT


@runtime_checkable
class SupportsChecks(Protocol):
    def check(self, now: datetime) -> Sequence[Finding]:
        """Look at a cluster and tell what keeps jobs from running there. Ends within a minute; never raises for what it finds."""
        ...
