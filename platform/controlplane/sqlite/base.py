"""The database as Django's `ENGINE = "controlplane.sqlite"`: the stock backend, whose writers take turns.

SQLite has one writer at a time, and the others sleep and ask again, for longer and longer: under load nobody writes for much of
the time, and who comes next is chance. The embedded profile is one process, so its threads can queue for the pen:
whoever has waited longest writes next, at once. Other processes (`manage.py`, a backup) meet SQLite's own lock, as before.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from django.db import OperationalError
from django.db.backends.sqlite3 import base


class Turns:
    """A lock that is given to whoever has waited longest. Any thread may give it back."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()
        self._is_taken = False

    def take(self, seconds: float) -> bool:
        """Wait for the turn, so long at most; whether it came."""
        with self._guard:
            if not self._is_taken:
                self._is_taken = True
                return True
            ticket = threading.Lock()
            ticket.acquire()
            self._waiting.append(ticket)
        if ticket.acquire(timeout=seconds):
            return True
        with self._guard:
            if ticket in self._waiting:
                self._waiting.remove(ticket)
                return False
        return True  # It came in the last moment.

    def give(self) -> None:
        """Hand it to the next, if somebody waits."""
        with self._guard:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._is_taken = False


_turns: dict[str, Turns] = {}
_guard = threading.Lock()


def turns_of(name: str) -> Turns:
    """One for each database file, whoever has opened it."""
    with _guard:
        return _turns.setdefault(name, Turns())


class Cursor(base.SQLiteCursorWrapper):
    """A statement that writes outside a transaction is one of its own, and takes its turn too."""

    owner: DatabaseWrapper

    def execute(self, query: str, params: Any = None) -> Any:
        if self.owner.in_atomic_block or self.owner.has_turn or not _writes(query):
            return super().execute(query, params)
        self.owner.take_turn()
        try:
            return super().execute(query, params)
        finally:
            self.owner.give_turn()


class DatabaseWrapper(base.DatabaseWrapper):
    """One thread's access to the database."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.has_turn = False

    def take_turn(self) -> None:
        """Wait to be the one who writes, for as long as SQLite itself would wait."""
        if not self._turns.take(float(self.settings_dict["OPTIONS"].get("timeout", 5))):
            raise OperationalError("database is locked")
        self.has_turn = True

    def give_turn(self) -> None:
        """Let the next one write. Harmless where it is somebody else's turn."""
        if self.has_turn:
            self.has_turn = False
            self._turns.give()

    @property
    def _turns(self) -> Turns:
        return turns_of(str(self.settings_dict["NAME"]))

    def create_cursor(self, name: str | None = None) -> Any:
        cursor = self.connection.cursor(factory=Cursor)
        cursor.owner = self
        return cursor

    def _start_transaction_under_autocommit(self) -> None:
        self.take_turn()
        try:
            super()._start_transaction_under_autocommit()  # type: ignore[misc]  # Django's own hook, missing in its stubs.
        except BaseException:
            self.give_turn()
            raise

    def _commit(self) -> Any:
        """A commit that fails leaves the transaction open: the turn ends with the rollback that follows."""
        done = super()._commit()  # type: ignore[misc]  # As above.
        self.give_turn()
        return done

    def _rollback(self) -> Any:
        try:
            return super()._rollback()  # type: ignore[misc]  # As above.
        finally:
            self.give_turn()

    def _close(self) -> Any:
        try:
            return super()._close()  # type: ignore[misc]  # As above.
        finally:
            self.give_turn()


def _writes(query: str) -> bool:
    return query[:7].upper().startswith(("INSERT ", "UPDATE ", "DELETE ", "REPLACE"))
