"""Gives committed events their one order: `seq` 1, 2, 3 ... without a gap.

Ids taken from a database sequence do not commit in order: a reader that remembers "I have seen all up to 17" would miss 16 when
16 commits later. So events enter without a number, and only rows that are already committed get one, in batches, by the process
that holds the lock of the cursor row. Two sequencers at once wait for each other and neither doubles nor skips a number; the
leader lease above this only saves them the waiting. A reader that remembers a `seq` misses nothing.

Within one job the order is the true one: of two transactions where the second began after the first ended, the first has the
smaller `row` and is visible whenever the second is.

On SQLite there is one writer at a time, so `record_events` numbers its own rows and there is nothing left to do here.
"""

from __future__ import annotations

from datetime import datetime

import structlog
from django.db import transaction
from django.db.models import Max

from activity import bulk, cursors, hints, numbering
from activity.audit import seal
from activity.models import Event
from kernel.crashpoints import crashpoint

CURSOR = "events"
BATCHES_MAX = 50  # One call ends in seconds, so that its leader can renew its lease.

log = structlog.get_logger("activity")


def sequence(now: datetime) -> int:
    """Number what is committed, then seal audit rows. Returns how many events were numbered.

    May be called by several processes at once and at any time. `now` only tells how far numbering lags behind.
    """
    numbered = 0
    for _ in range(BATCHES_MAX):
        count, oldest_at = _number_batch()
        numbered += count
        if oldest_at is not None:
            log.debug("events_numbered", count=count, lag_seconds=(now - oldest_at).total_seconds())
        if count < bulk.BATCH_ROWS:
            break
    seal()
    return numbered


def last_seq() -> int:
    """The highest number given so far."""
    if numbering.is_at_once():
        return Event.objects.aggregate(last=Max("seq"))["last"] or 0
    return cursors.position(CURSOR)


def lift(count: int) -> None:
    """Leave out the next `count` numbers, after a restore: they may have been given before it, and are remembered by readers.

    The order keeps this one hole, where the audit says that a backup was restored. In the caller's transaction.
    """
    if not numbering.is_at_once():
        cursor = cursors.lock_cursor(CURSOR)
        cursors.move(cursor, cursor.seq + count)
        return
    bulk.leave_out_keys(Event, count)


def _number_batch() -> tuple[int, datetime | None]:
    if numbering.is_at_once() or not Event.objects.filter(seq__isnull=True).exists():
        return 0, None
    with transaction.atomic():
        # The lock comes first: the next statement's snapshot then sees all that the previous holder numbered.
        cursor = cursors.lock_cursor(CURSOR)
        times = bulk.number(Event, column="seq", order="row", after=cursor.seq, limit=bulk.BATCH_ROWS, returning="at")
        if not times:
            return 0, None
        cursors.move(cursor, cursor.seq + len(times))
        hints.wake(hints.SEQUENCED)
        crashpoint("activity.sequence.before_commit")
    return len(times), min(times)
