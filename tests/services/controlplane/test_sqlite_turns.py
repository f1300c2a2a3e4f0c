"""Writers of one process take turns: who has waited longest writes next, and nobody keeps a turn that is over."""

from __future__ import annotations

import contextlib
import errno
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connections, transaction

from upstream.sqlite.base import DatabaseWrapper, Turns, file_of
from upstream.sqlite.disk import Disk


def test_whoever_has_waited_longest_is_next() -> None:
    turns, order = Turns(), list[int]()
    assert turns.take(0)
    threads = []

    def write(number: int) -> None:
        assert turns.take(60)
        order.append(number)
        turns.give()

    for number in range(5):
        thread = threading.Thread(target=write, args=(number,))
        thread.start()
        threads.append(thread)
        while len(turns._waiting) <= number:
            time.sleep(0.001)
    turns.give()
    for thread in threads:
        thread.join()
    assert order == list(range(5))
    assert turns.take(0)


def test_a_turn_that_does_not_come_in_time_is_given_up() -> None:
    turns = Turns()
    assert turns.take(0)
    assert not turns.take(0.01)
    turns.give()
    assert turns.take(0)


@pytest.fixture
def database(tmp_path: Path, django_db_blocker: Any) -> Iterator[DatabaseWrapper]:
    """A database of its own in a file, with one table."""
    settings = {
        **connections.settings["default"],
        "ENGINE": "upstream.sqlite",
        "NAME": str(tmp_path / "turns.sqlite3"),
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 0.2},
    }
    made = DatabaseWrapper(settings, "turns")
    connections["turns"] = made
    with django_db_blocker.unblock():
        with made.cursor() as cursor:
            cursor.execute("CREATE TABLE words (word TEXT UNIQUE)")
        yield made
        made.close()
    del connections["turns"]


def is_free(database: DatabaseWrapper) -> bool:
    turns = file_of(str(database.settings_dict["NAME"])).turns
    if not turns.take(0):
        return False
    turns.give()
    return True


def test_a_transaction_has_the_turn_until_it_ends(database: DatabaseWrapper) -> None:
    with transaction.atomic(using="turns"), database.cursor() as cursor:
        cursor.execute("INSERT INTO words VALUES ('one')")
        assert not is_free(database)
    assert is_free(database)
    with pytest.raises(ZeroDivisionError), transaction.atomic(using="turns"):
        raise ZeroDivisionError
    assert is_free(database)


def test_a_statement_alone_has_it_while_it_runs(database: DatabaseWrapper) -> None:
    with database.cursor() as cursor:
        cursor.execute("INSERT INTO words VALUES ('one')")
        assert is_free(database)
        with pytest.raises(Exception, match="UNIQUE"):
            cursor.execute("INSERT INTO words VALUES ('one')")
    assert is_free(database)


def test_a_connection_that_is_closed_keeps_no_turn(database: DatabaseWrapper) -> None:
    with contextlib.suppress(ZeroDivisionError), transaction.atomic(using="turns"):
        database.close()
        raise ZeroDivisionError
    assert is_free(database)


def test_a_writer_that_waits_too_long_is_told_that_the_database_is_locked(database: DatabaseWrapper) -> None:
    turns = file_of(str(database.settings_dict["NAME"])).turns
    assert turns.take(0)
    try:
        with pytest.raises(OperationalError, match="database is locked"), transaction.atomic(using="turns"):
            pass
        with database.cursor() as cursor, pytest.raises(OperationalError, match="database is locked"):
            cursor.execute("INSERT INTO words VALUES ('one')")
    finally:
        turns.give()
    with database.cursor() as cursor:
        assert cursor.execute("SELECT count(*) FROM words").fetchone() == (0,)


def test_a_statement_that_gives_rows_has_the_turn_until_they_are_fetched(database: DatabaseWrapper) -> None:
    with database.cursor() as cursor:
        cursor.execute("INSERT INTO words VALUES ('one') RETURNING word")
        assert not is_free(database)
        assert cursor.fetchall() == [("one",)]
    assert is_free(database)


# --- The disk ---------------------------------------------------------------------------------------------------------


class Syncs:
    """Counts syncs, and holds them up or lets them fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.may_end = threading.Event()
        self.may_end.set()
        self.error: OSError | None = None
        monkeypatch.setattr("upstream.sqlite.disk.os.fdatasync", self.sync)

    def sync(self, file: int) -> None:
        self.count += 1
        assert self.may_end.wait(60)
        if self.error is not None:
            raise self.error


@pytest.fixture
def syncs(database: DatabaseWrapper, monkeypatch: pytest.MonkeyPatch) -> Syncs:
    with database.cursor() as cursor:
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=NORMAL")
    return Syncs(monkeypatch)


def write(database: DatabaseWrapper, word: str) -> None:
    with transaction.atomic(using="turns"), database.cursor() as cursor:
        cursor.execute("INSERT INTO words VALUES (%s)", [word])


def test_every_commit_that_wrote_is_brought_to_the_disk(database: DatabaseWrapper, syncs: Syncs) -> None:
    write(database, "one")
    assert syncs.count == 1
    with database.cursor() as cursor:
        cursor.execute("INSERT INTO words VALUES ('two')")
        assert syncs.count == 2
        cursor.execute("INSERT INTO words VALUES ('three') RETURNING word")
        cursor.fetchall()
    assert syncs.count == 3


def test_a_log_that_could_not_be_opened_fails_one_commit_and_not_the_next(
    database: DatabaseWrapper, syncs: Syncs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for want of a descriptor. Nothing was tried on the disk, so nothing can be half there for good."""
    with monkeypatch.context() as without_descriptors:
        without_descriptors.setattr("upstream.sqlite.disk.os.open", refuse)
        with pytest.raises(OperationalError, match="may be there or not"):
            write(database, "one")
    write(database, "two")
    assert syncs.count == 1
    with monkeypatch.context() as without_descriptors:  # It keeps the one that it has.
        without_descriptors.setattr("upstream.sqlite.disk.os.open", refuse)
        write(database, "three")
    assert syncs.count == 2
    assert is_free(database)


def refuse(*_: object) -> int:
    raise OSError(errno.EMFILE, "Too many open files")


def test_what_wrote_nothing_waits_for_no_disk(database: DatabaseWrapper, syncs: Syncs) -> None:
    with transaction.atomic(using="turns"), database.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM words")
    with contextlib.suppress(ZeroDivisionError), transaction.atomic(using="turns"), database.cursor() as cursor:
        cursor.execute("INSERT INTO words VALUES ('one')")
        raise ZeroDivisionError
    assert syncs.count == 0


def test_those_that_come_during_a_sync_share_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "some.sqlite3-wal").write_bytes(b"log")
    syncs = Syncs(monkeypatch)
    disk = Disk(str(tmp_path / "some.sqlite3"))
    syncs.may_end.clear()
    threads = [threading.Thread(target=disk.wait) for _ in range(20)]
    for number, thread in enumerate(threads, start=1):
        thread.start()
        while disk._asked < number or not syncs.count:  # The first one is at it before the others come.
            time.sleep(0.001)
    syncs.may_end.set()
    for thread in threads:
        thread.join(60)
    assert syncs.count == 2, "the first alone, and the nineteen that came meanwhile together"


def test_after_a_sync_that_failed_nothing_is_said_to_be_stored(database: DatabaseWrapper, syncs: Syncs) -> None:
    syncs.error = OSError(5, "Input/output error")
    with pytest.raises(OperationalError, match=r"Input/output error; restart the platform"):
        write(database, "one")
    syncs.error = None
    with pytest.raises(OperationalError, match="restart the platform"):
        write(database, "two")
    assert is_free(database)


def test_a_log_that_is_not_there_any_more_needs_no_sync(tmp_path: Path) -> None:
    Disk(str(tmp_path / "gone.sqlite3")).wait()
