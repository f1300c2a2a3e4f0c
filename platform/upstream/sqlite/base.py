"""The database as Django's `ENGINE = "upstream.sqlite"`: the stock backend, whose writers take turns and share the disk.

SQLite has one writer at a time, and the others sleep and ask again, for longer and longer: under load no thread writes for much
of the time, and which comes next is chance. The embedded profile is one process, so its threads can queue for the turn to
write: the thread that has waited longest writes next, at once. Other processes (`manage.py`, a backup) meet SQLite's own lock,
as before. A commit is waited for after the turn was handed on, together with others (`upstream.sqlite.disk`).
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import Any

from django.db import OperationalError
from django.db.backends.sqlite3 import base

from upstream.hooks import Hook
from upstream.sqlite.disk import Disk, SyncFailed

_WRAPPER = "django.db.backends.sqlite3.base.DatabaseWrapper."
_BASE = "django.db.backends.base.base.BaseDatabaseWrapper."
_TEST = "services/controlplane/test_sqlite_turns.py::"
_SHARED = "195 submissions a second instead of 91 from eight clients, 77 ms instead of 150 at the 99th percentile (ADR)"
_TURN = "A writer's turn begins or ends here; SQLite's own waiting sleeps longer and longer, and who comes next is chance."

HOOKS = (
    Hook(
        upstream=_WRAPPER + "_start_transaction_under_autocommit",
        parameters="self",
        ours="DatabaseWrapper._start_transaction_under_autocommit",
        why=_TURN,
        gain=_SHARED,
        test=_TEST + "test_a_transaction_has_the_turn_until_it_ends",
    ),
    Hook(
        upstream=_BASE + "_commit",
        parameters="self",
        ours="DatabaseWrapper._commit",
        why="The next writer goes on at once, and the commit then waits for a sync of the disk that it shares.",
        gain=_SHARED,
        test=_TEST + "test_every_commit_that_wrote_is_brought_to_the_disk",
    ),
    Hook(
        upstream=_BASE + "_rollback",
        parameters="self",
        ours="DatabaseWrapper._rollback",
        why=_TURN,
        gain=_SHARED,
        test=_TEST + "test_a_transaction_has_the_turn_until_it_ends",
    ),
    Hook(
        upstream=_BASE + "_close",
        parameters="self",
        ours="DatabaseWrapper._close",
        why=_TURN,
        gain=_SHARED,
        test=_TEST + "test_a_connection_that_is_closed_keeps_no_turn",
    ),
    Hook(
        upstream=_WRAPPER + "create_cursor",
        parameters="self, name",
        ours="DatabaseWrapper.create_cursor",
        why="A statement outside a transaction is one of its own: its cursor takes the turn.",
        gain=_SHARED,
        test=_TEST + "test_a_statement_alone_has_it_while_it_runs",
    ),
    Hook(
        upstream="django.db.backends.sqlite3.base.SQLiteCursorWrapper.execute",
        parameters="self, query, params",
        ours="Cursor.execute",
        why="As above; one that gives rows back commits when they have been fetched.",
        gain=_SHARED,
        test=_TEST + "test_a_statement_that_gives_rows_has_the_turn_until_they_are_fetched",
    ),
)


class Turns:
    """A lock that is given to the thread that has waited longest. Any thread may give it back."""

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
        """Hand it to the next thread, if one waits."""
        with self._guard:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._is_taken = False


@dataclass(frozen=True, slots=True)
class File:
    """What all connections of this process to one database file share."""

    turns: Turns
    disk: Disk | None  # None for one in memory.


_files: dict[str, File] = {}
_guard = threading.Lock()


def file_of(name: str) -> File:
    """One for each database file, shared by all connections to it."""
    with _guard:
        if name not in _files:
            in_memory = name == ":memory:" or "mode=memory" in name
            _files[name] = File(Turns(), None if in_memory else Disk(name))
        return _files[name]


class Cursor(base.SQLiteCursorWrapper):
    """A statement that writes outside a transaction is one of its own, and takes its turn too."""

    owner: DatabaseWrapper
    is_open = False  # Whether a statement that gives rows back has still to be ended, and its turn with it.

    def execute(self, query: str, params: Any = None) -> Any:
        if self.owner.in_atomic_block or self.owner.has_turn or not _writes(query):
            return super().execute(query, params)
        self.owner.take_turn()
        try:
            done = super().execute(query, params)
        except BaseException:
            self.owner.give_turn()
            raise
        if "RETURNING" in query:  # It commits when its rows have been fetched.
            self.is_open = True
        else:
            self.owner.end_turn()
        return done

    def close(self) -> None:
        super().close()
        if self.is_open:
            self.is_open = False
            self.owner.end_turn()


class DatabaseWrapper(base.DatabaseWrapper):
    """One thread's access to the database."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.has_turn = False
        self._changes_before = 0

    @property
    def _file(self) -> File:
        return file_of(str(self.settings_dict["NAME"]))

    def take_turn(self) -> None:
        """Wait to be the one who writes, for as long as SQLite itself would wait."""
        if not self._file.turns.take(float(self.settings_dict["OPTIONS"].get("timeout", 5))):
            raise OperationalError("database is locked")
        self.has_turn = True
        self._changes_before = self.connection.total_changes if self.connection is not None else 0

    def give_turn(self) -> None:
        """Let the next thread write. Harmless where it is another thread's turn."""
        if self.has_turn:
            self.has_turn = False
            self._file.turns.give()

    def end_turn(self) -> None:
        """Let the next one write after a commit, and wait until what was committed is on the disk."""
        if not self.has_turn:
            return
        has_written = self.connection is not None and self.connection.total_changes != self._changes_before
        self.give_turn()
        if has_written and self._file.disk is not None:
            try:
                self._file.disk.wait()
            except SyncFailed as failure:
                raise OperationalError(str(failure)) from failure

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
        self.end_turn()
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
