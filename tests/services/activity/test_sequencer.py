"""One order for all: events that commit at the same time, in any order, numbered by several sequencers at once."""

from __future__ import annotations

import random
import threading
import time
import uuid

import pytest
from django.db import connection, transaction

from activity.audit import seal, verify_audit_chain
from activity.models import AuditEvent, Cursor, Event
from activity.sequencer import last_seq, sequence
from activity.services import NewEvent, record_audit, record_events
from kernel.actor import system_actor
from kernel.crashpoints import arm
from tests.builders.threads import at_once, together
from tests.factories.activity import make_events, now

pytestmark = [pytest.mark.database, pytest.mark.django_db(transaction=True)]

WRITERS, SEQUENCERS, TRANSACTIONS, EVENTS = 6, 3, 12, 4


@pytest.fixture(autouse=True)
def empty(transactional_db: None) -> None:
    Event.objects.all().delete()
    AuditEvent.objects.all().delete()
    Cursor.objects.all().delete()


def write_many(writer: int) -> uuid.UUID:
    """Transactions of one writer, all about one job; they overlap those of the others."""
    job_id, pause = uuid.uuid4(), random.Random(writer)
    for number in range(TRANSACTIONS):
        with transaction.atomic():
            for place in range(EVENTS):
                data = {"order": number * EVENTS + place}
                record_events([NewEvent("job.changed", None, "job", job_id, now(), job_id, data)])
                if connection.vendor == "postgresql":
                    time.sleep(pause.random() / 500)  # Lets the writers' ids and commits interleave.
            record_audit(
                actor=system_actor("test"), verb="job.edit", tenant_id=None, target_kind="job", target_id=job_id, at=now()
            )
    return job_id


def number_while_others_write() -> list[list[int]]:
    """All writers, and beside them sequencers, which seal too, each with a reader that remembers only the highest number."""
    done, seen = threading.Event(), []

    def write() -> None:
        try:
            at_once(WRITERS, write_many)
        finally:
            done.set()

    def number() -> None:
        position, numbers, is_last = 0, [], False
        while not is_last:
            is_last = done.is_set()
            sequence(now())
            page = list(Event.objects.filter(seq__gt=position).order_by("seq").values_list("seq", flat=True))
            numbers += page
            position = page[-1] if page else position
        seen.append(numbers)

    together(write, *[number] * SEQUENCERS)
    return seen


def test_concurrent_commits_get_one_order_without_gap_or_double() -> None:
    seen = number_while_others_write()
    expected = WRITERS * TRANSACTIONS * EVENTS
    base = Event.objects.order_by("seq").values_list("seq", flat=True)[0] or 0
    everything = list(range(base, base + expected))
    assert list(Event.objects.order_by("seq").values_list("seq", flat=True)) == everything
    assert len(seen) == SEQUENCERS
    for numbers in seen:  # A reader by `seq` missed nothing, although it never looked back.
        assert numbers == everything


def test_events_of_one_job_keep_the_order_in_which_they_happened() -> None:
    jobs = at_once(WRITERS, write_many)
    sequence(now())
    for job_id in jobs:
        orders = [data["order"] for data in Event.objects.filter(job_id=job_id).order_by("seq").values_list("data", flat=True)]
        assert orders == list(range(TRANSACTIONS * EVENTS))


def test_several_sealers_make_one_chain() -> None:
    number_while_others_write()
    seal()
    report = verify_audit_chain()
    assert (report.holds, report.sealed, report.unsealed) == (True, WRITERS * TRANSACTIONS, 0)


def test_what_is_not_committed_has_no_number_and_holds_nothing_up() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer at a time: nothing can commit beside an open transaction.")
    written, go_on = threading.Event(), threading.Event()

    def hold() -> int:
        with transaction.atomic():
            record_events([NewEvent("job.slow", None, "job", uuid.uuid4(), now())])
            written.set()
            assert go_on.wait(60)
        return 0

    def pass_by() -> int:
        assert written.wait(60)
        (fast,) = make_events("job.fast")
        before = last_seq()
        assert fast.seq == before
        go_on.set()
        return before

    _, before = together(hold, pass_by)
    sequence(now())
    assert Event.objects.get(kind="job.slow").seq == before + 1  # Its row is older, and no reader has passed its number.


def test_a_sequencer_that_dies_before_its_commit_leaves_no_gap() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("On SQLite rows are numbered by their writer.")
    make_events("job.one", numbered=False)

    def die() -> None:
        raise SystemExit

    arm("activity.sequence.before_commit", die)
    with pytest.raises(SystemExit):
        sequence(now())
    assert last_seq() == 0
    make_events("job.two")
    assert list(Event.objects.order_by("seq").values_list("kind", "seq")) == [("job.one", 1), ("job.two", 2)]


def test_a_large_batch_is_numbered_whole() -> None:
    make_events(*["job.queued"] * 3_100)
    numbers = list(Event.objects.order_by("row").values_list("seq", flat=True))
    assert numbers == list(range(numbers[0] or 0, (numbers[0] or 0) + 3_100))
