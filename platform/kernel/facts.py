"""What was read under one sum of marks, and holds as long as the sum does. `webapi.facts` reads the sum."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from datetime import datetime
from typing import Any, TypeVar

from kernel import clock

T = TypeVar("T")

ENTRIES_MAX = 20_000  # A few megabytes; guessing at tokens must not fill the memory.


class Facts:
    """What holds under one sum of marks. `at` is the database's own time when it was read, whatever a simulation says."""

    __slots__ = ("_known", "at", "mark")

    def __init__(self, mark: object, at: datetime, known: dict[Hashable, Any]) -> None:
        self.mark = mark
        self.at = at
        self._known = known

    @property
    def now(self) -> datetime:
        """`at` as a service takes it: the time of the simulation where there is one."""
        return clock.virtual_now() or self.at

    def find(self, key: Hashable, load: Callable[[], T]) -> T:
        """What `load` gave under this sum. It depends on the key and on marked tables alone; no caller may change it."""
        try:
            found: T = self._known[key]
        except KeyError:
            found = load()
            if len(self._known) >= ENTRIES_MAX:
                self._known.clear()
            self._known[key] = found
        return found
