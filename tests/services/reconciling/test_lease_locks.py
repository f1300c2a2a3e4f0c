"""Leases of rows that another transaction changes at the same time, in another order: neither ends the other (a deadlock)."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from functools import partial

import pytest
from django.db import connection, transaction

from jobs.models import Attempt
from kernel.clock import database_now
from reconciling import leases
from tests.builders.quay import Quay
from tests.builders.threads import SECONDS, together

pytestmark = [pytest.mark.database, pytest.mark.django_db(transaction=True)]


LOOK_SECONDS = 0.02


class Meeting:
    """Another transaction that locks the middle one of three rows in hand, then all three, while the leases are changed.

    It asks for the others when the change of leases has come to its end or waits for a lock: whichever order a statement takes
    the rows in, one that waits for the middle row holds another one by then.
    """

    def __init__(self, ids: list[uuid.UUID]) -> None:
        self.ids = ids
        self.is_locked, self.is_changed = threading.Event(), threading.Event()
        self.backend = 0

    def lock(self) -> None:
        """What writes results down."""
        with transaction.atomic():
            Attempt.objects.select_for_update(no_key=True).get(pk=self.ids[1])
            self.is_locked.set()
            self._await_change()
            assert Attempt.objects.filter(pk__in=self.ids).update(tries=1) == len(self.ids)

    def change(self, work: Callable[[], object]) -> None:
        """What changes the leases."""
        assert self.is_locked.wait(SECONDS)
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            self.backend = cursor.fetchone()[0]
        work()
        self.is_changed.set()

    def _await_change(self) -> None:
        for _ in range(int(SECONDS / LOOK_SECONDS)):
            if self.is_changed.wait(LOOK_SECONDS) or self._waits():
                return
        raise AssertionError("the change of leases neither came to its end nor waited for a lock")

    def _waits(self) -> bool:
        with connection.cursor() as cursor:
            cursor.execute("SELECT cardinality(pg_blocking_pids(%s)) > 0", [self.backend])
            return bool(cursor.fetchone()[0])


@pytest.fixture
def claimed(quay: Quay) -> tuple[uuid.UUID, list[uuid.UUID]]:
    if connection.vendor == "sqlite":
        pytest.skip("writers take turns there")
    for number in range(3):
        quay.submit(f"job-{number}")
    quay.schedule()
    return leases.claim(Attempt.objects.all(), now=database_now(), seconds=60, limit=3)


def test_leases_are_prolonged_while_results_are_written_down(claimed: tuple[uuid.UUID, list[uuid.UUID]]) -> None:
    token, ids = claimed
    meeting = Meeting(ids)
    before = dict(Attempt.objects.values_list("id", "lease_expires_at"))

    def prolong() -> None:
        leases.keep_in_hand(seconds=600, now=database_now())

    with leases.in_hand(Attempt, token, ids) as written:
        together(meeting.lock, partial(meeting.change, prolong))
        after = dict(Attempt.objects.values_list("id", "lease_expires_at"))
        assert [after[row_id] > before[row_id] for row_id in ids] == [True, False, True]
        prolong()
        assert Attempt.objects.get(pk=ids[1]).lease_expires_at > before[ids[1]], "what was locked has its turn at the next call"
        written.update(ids)


def test_what_was_left_out_is_handed_back_while_another_changes_it(claimed: tuple[uuid.UUID, list[uuid.UUID]]) -> None:
    token, ids = claimed
    meeting = Meeting(ids)

    together(meeting.lock, partial(meeting.change, partial(leases.hand_back, Attempt, token, ids)))

    rows = Attempt.objects.filter(pk__in=ids).values_list("lease_token", "lease_expires_at", "tries")
    assert list(rows) == [(None, None, 1)] * 3
