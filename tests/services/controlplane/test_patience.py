"""The database's patience: bounds on every connection, work that is run again, what a failure means to whoever asked."""

from __future__ import annotations

import threading

import psycopg.errors
import pytest
from django.db import InterfaceError, InternalError, OperationalError, connection, transaction
from psycopg_pool import PoolTimeout

from kernel import deadlines
from kernel.config import current
from kernel.errors import StorageFull, Unavailable
from kernel.units import TRIES_MAX, run_unit, sqlstate_of
from reconciling.models import Lease
from webapi.problems import as_failure


def of_server(kind: type[psycopg.Error]) -> OperationalError:
    """The error as Django raises it: its own class, and the server's as its cause."""
    error = (InternalError if issubclass(kind, psycopg.InternalError) else OperationalError)("in words")
    error.__cause__ = kind("in words")
    return error


@pytest.mark.database
def test_every_connection_has_the_bounds_of_the_settings() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("about a server")
    shown = {}
    with connection.cursor() as cursor:
        for name in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"):
            cursor.execute("SELECT setting::int FROM pg_settings WHERE name = %s", [name])
            shown[name] = cursor.fetchone()[0]
    config = current()
    assert shown["statement_timeout"] == config.database_statement_seconds * 1000
    assert shown["lock_timeout"] == config.database_lock_seconds * 1000
    assert shown["idle_in_transaction_session_timeout"] == shown["lock_timeout"]


@pytest.mark.database
def test_a_request_whose_time_is_over_asks_nothing_more() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("about a server")
    with deadlines.within(-1.0), pytest.raises(Unavailable), transaction.atomic():
        Lease.objects.count()
    assert Lease.objects.count() == 0


def test_the_earlier_deadline_counts() -> None:
    with deadlines.within(-1.0), deadlines.within(60.0), pytest.raises(Unavailable):
        deadlines.check()
    deadlines.check()


@pytest.mark.parametrize("kind", [psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure])
@pytest.mark.database
@pytest.mark.django_db(transaction=True)
def test_a_unit_that_lost_a_race_is_run_again_as_a_whole(kind: type[psycopg.Error]) -> None:
    runs = []

    def unit() -> str:
        runs.append(1)
        if len(runs) < 3:
            raise of_server(kind)
        return "done"

    assert run_unit(unit) == "done"
    assert len(runs) == 3


@pytest.mark.database
@pytest.mark.django_db(transaction=True)
def test_only_a_lost_race_is_run_again_and_not_for_ever() -> None:
    runs = []

    def unit(error: Exception) -> None:
        runs.append(error)
        raise error

    for error, times in ((of_server(psycopg.errors.DeadlockDetected), TRIES_MAX), (OperationalError("the answer was lost"), 1)):
        runs.clear()
        with pytest.raises(OperationalError):
            run_unit(lambda error=error: unit(error))
        assert len(runs) == times


@pytest.mark.database
def test_inside_a_transaction_nothing_is_run_again() -> None:
    runs = []

    def unit() -> None:
        runs.append(1)
        raise of_server(psycopg.errors.DeadlockDetected)

    with transaction.atomic(), pytest.raises(OperationalError):
        run_unit(unit)
    assert runs == [1]


@pytest.mark.database
@pytest.mark.django_db(transaction=True)
def test_two_units_that_lock_in_opposite_order_both_get_done() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer at a time")
    Lease.objects.bulk_create([Lease(name="first"), Lease(name="second")])
    meet = threading.Barrier(2, timeout=60)
    done: list[str] = []

    def unit(order: tuple[str, str], tries: list[int]) -> None:
        with transaction.atomic():
            Lease.objects.select_for_update().get(name=order[0])
            tries.append(1)
            if len(tries) == 1:
                meet.wait()
            Lease.objects.filter(name=order[1]).update(holder=order[0])
        done.append(order[0])

    def run(order: tuple[str, str]) -> None:
        tries: list[int] = []
        try:
            run_unit(lambda: unit(order, tries))
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(order,)) for order in (("first", "second"), ("second", "first"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert sorted(done) == ["first", "second"]


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (of_server(psycopg.errors.DiskFull), StorageFull, "disk is full"),
        (OperationalError("database or disk is full"), StorageFull, "disk is full"),
        (of_server(psycopg.errors.ReadOnlySqlTransaction), Unavailable, "takes no changes"),
        (OperationalError("attempt to write a readonly database"), Unavailable, "takes no changes"),
        (of_server(psycopg.errors.LockNotAvailable), Unavailable, "Nothing was changed"),
        (of_server(psycopg.errors.QueryCanceled), Unavailable, "Nothing was changed"),
        (of_server(psycopg.errors.DeadlockDetected), Unavailable, "Nothing was changed"),
        (OperationalError("database is locked"), Unavailable, "Nothing was changed"),
        (of_server(psycopg.errors.AdminShutdown), Unavailable, "may have been done or not"),
        (OperationalError("server closed the connection unexpectedly"), Unavailable, "may have been done or not"),
        (InterfaceError("the connection is closed"), Unavailable, "may have been done or not"),
    ],
)
def test_a_failure_of_the_database_says_whether_anything_can_have_been_done(error: Exception, kind: type, words: str) -> None:
    failure = as_failure(error)
    assert type(failure) is kind
    assert words in failure.detail + " " + failure.hint
    assert (failure.retry_after_seconds or 0) >= 1


def test_a_pool_without_a_connection_has_changed_nothing() -> None:
    error = OperationalError("couldn't get a connection")
    error.__cause__ = PoolTimeout()
    assert "Nothing was changed" in as_failure(error).hint
    assert sqlstate_of(error) == ""
