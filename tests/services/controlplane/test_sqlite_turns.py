"""Writers of one process take turns: who has waited longest writes next, and nobody keeps a turn that is over."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connections, transaction

from controlplane.sqlite.base import DatabaseWrapper, Turns, turns_of


def test_whoever_has_waited_longest_is_next() -> None:
    turns, order = Turns(), list[int]()
    assert turns.take(0)
    threads = []

    def write(number: int) -> None:
        assert turns.take(10)
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
        "ENGINE": "controlplane.sqlite",
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
    turns = turns_of(str(database.settings_dict["NAME"]))
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
    turns = turns_of(str(database.settings_dict["NAME"]))
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
