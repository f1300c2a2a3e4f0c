"""One leads, the others wait; whoever was paused past its lease finds out before it does anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import DatabaseError

from controlplane.processes import leader as leading
from controlplane.processes.leader import Leader
from kernel import clock
from kernel.config import Config
from reconciling import leases
from reconciling.models import Lease

pytestmark = pytest.mark.database

SECONDS = 30.0


class Time:
    """The database's clock and the process's own, moved together by hand."""

    def __init__(self) -> None:
        self.passed = 0.0

    def pass_by(self, seconds: float) -> None:
        self.passed += seconds

    def now(self) -> datetime:
        return datetime(2026, 11, 20, 8, 0, tzinfo=UTC) + timedelta(seconds=self.passed)


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch, configure: Callable[..., Config]) -> Iterator[Time]:
    configure(leadership_seconds=SECONDS)
    made = Time()
    monkeypatch.setattr(leading, "time", SimpleNamespace(monotonic=lambda: 1000.0 + made.passed))
    with clock.virtual(made.now):
        yield made


def test_the_first_leads_and_the_second_waits(time: Time) -> None:
    first, second = Leader("scheduler"), Leader("scheduler")
    assert first.holds()
    assert not second.holds()
    assert Leader("pump").holds(), "another name is another lease"


def test_a_standby_takes_over_when_the_lease_ends_and_the_first_finds_out(time: Time) -> None:
    first, second = Leader("scheduler"), Leader("scheduler")
    first.holds()
    time.pass_by(SECONDS - 1)
    assert not second.holds()
    time.pass_by(1)
    assert second.holds()
    assert not first.holds()
    assert second.holds()


def test_a_leader_that_works_keeps_its_lease_for_ever(time: Time) -> None:
    first, second = Leader("scheduler"), Leader("scheduler")
    for _ in range(20):
        assert first.holds()
        time.pass_by(SECONDS / 2)
        assert not second.holds()


def test_leading_asks_the_database_three_times_a_lease_and_no_more(time: Time, django_assert_num_queries: Any) -> None:
    leader = Leader("scheduler")
    leader.holds()
    with django_assert_num_queries(0):
        time.pass_by(SECONDS / 3 - 0.1)
        assert leader.holds()
    with django_assert_num_queries(1):
        time.pass_by(0.2)
        assert leader.holds()
        assert leader.holds()


def test_one_that_was_paused_past_its_lease_starts_with_another_token(time: Time) -> None:
    leader = Leader("scheduler")
    leader.holds()
    before = Lease.objects.get(name="scheduler").token
    time.pass_by(10 * SECONDS)
    assert leader.holds(), "nobody else wanted it"
    assert Lease.objects.get(name="scheduler").token != before


def test_whoever_resigns_is_followed_at_once(time: Time) -> None:
    first, second = Leader("scheduler"), Leader("scheduler")
    first.holds()
    first.resign()
    assert second.holds()
    assert not first.holds()


def test_resigning_late_takes_nothing_from_the_next(time: Time) -> None:
    first, second = Leader("scheduler"), Leader("scheduler")
    first.holds()
    time.pass_by(SECONDS)
    second.holds()
    first.resign()
    assert second.holds()
    assert Lease.objects.get(name="scheduler").holder == second.holder


def test_a_database_that_does_not_answer_is_no_reason_to_go_on_leading(time: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    leader = Leader("scheduler")
    leader.holds()
    time.pass_by(SECONDS / 3)

    def broken(*arguments: object, **more: object) -> bool:
        raise DatabaseError("gone")

    with monkeypatch.context() as broken_time:
        broken_time.setattr(leases, "renew", broken)
        for _ in range(2):
            with pytest.raises(DatabaseError):
                leader.holds()
    assert leader.holds(), "it comes back within its lease"
