"""Rows that make their handler raise: found, kept apart, tried three times, set aside with a reason. The others go on.

A handler works on batches, and one bad row must never fail its whole batch for ever. `work_through` runs the batch as one; only
when that raises does it halve the batch until the rows that raise stand alone. Each of them gets a strike, stored with the
error, and is from then on handled alone, after the others and with growing pauses. With the third strike it is set aside:
tried again every ten minutes only, because the next release may know how to handle it. What else setting aside means (a reason
on the job, a stop) is the handler's to say.

Failures of what everything stands on - a database, a disk, a cluster that does not answer - are no row's fault and pass
through. So does a failure of every row of a larger batch: then the handler is ill and not its rows.
"""

from __future__ import annotations

import errno
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

import structlog
from django.db import InterfaceError, OperationalError, transaction

from kernel.errors import Unavailable
from kernel.limits import NOTE_LENGTH
from kernel.units import run_unit
from reconciling.models import Poison

T = TypeVar("T")

TRIES_MAX = 3
RETRY_SECONDS = (1.0, 5.0)  # After the first and second strike: a fault that passes by itself is over by then.
SET_ASIDE = timedelta(minutes=10)  # How often a row is tried that was set aside.
KEPT = timedelta(days=1)  # A strike of a row that was not tried again for so long: the row has ended or is gone.
ILL_HANDLER_ROWS = 8  # So many healthy rows, and every one raises: it is not the rows.

_NOT_THE_ROW = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN}
)

log = structlog.get_logger("poison")


@dataclass(frozen=True, slots=True)
class Struck:
    """A row that made its handler raise. `due_at` is when it may be tried again."""

    id: uuid.UUID
    tries: int
    error: str
    due_at: datetime
    is_set_aside: bool


def work_through(
    handler: str,
    items: Sequence[T],
    work: Callable[[Sequence[T]], object],
    *,
    now: datetime,
    key: Callable[[T], uuid.UUID],
    not_the_row: tuple[type[Exception], ...] = (),
) -> list[Struck]:
    """Run `work` on the items, as one batch if none of them raises; gives those that were struck now.

    `work` is called again for parts of what it was called for: it must change nothing when it raises (a transaction), or be
    harmless when repeated. Items whose next try is not due are left out. Not to be called inside a transaction: strikes must
    outlive what failed. `not_the_row` names exceptions that blame no item, beside those that never do.
    """
    if not items:
        return []
    standing = strikes(handler)
    blameless = (*_BLAMELESS, *not_the_row)
    healthy = [item for item in items if key(item) not in standing]
    failed = _halve(healthy, work, blameless) if healthy else []
    if len(failed) == len(healthy) >= ILL_HANDLER_ROWS:
        raise failed[0][1]
    cured = []
    for item in items:
        strike = standing.get(key(item))
        if strike is None or strike.due_at > now:
            continue
        again = _halve([item], work, blameless)
        failed += again
        if not again:
            cured.append(key(item))
    if cured:
        Poison.objects.filter(handler=handler, subject_id__in=cured).delete()
        log.info("poison_cured", handler=handler, ids=[str(subject_id) for subject_id in cured])
    return [_strike(handler, key(item), error, standing.get(key(item)), now) for item, error in failed]


def strikes(handler: str) -> Mapping[uuid.UUID, Struck]:
    """All rows that have a strike with this handler. One query of a table that is empty on most days."""
    columns = ("subject_id", "tries", "error", "due_at", "set_aside_at")
    rows = Poison.objects.filter(handler=handler).values_list(*columns)
    return {row[0]: Struck(row[0], row[1], row[2], row[3], row[4] is not None) for row in rows}


def resting(handler: str, now: datetime) -> list[uuid.UUID]:
    """Rows with a strike that are not to be tried before later. Readers of a bounded number of rows leave these out, or
    they would take the places of those behind them."""
    return list(Poison.objects.filter(handler=handler, due_at__gt=now).values_list("subject_id", flat=True))


def forgive(handler: str, ids: Iterable[uuid.UUID]) -> int:
    """Drop the strikes of these rows: they are over or mended. Returns how many had any."""
    return Poison.objects.filter(handler=handler, subject_id__in=list(ids)).delete()[0]


def count_set_aside() -> Mapping[str, int]:
    """How many rows are set aside, by handler."""
    counts: dict[str, int] = {}
    for handler in Poison.objects.filter(set_aside_at__isnull=False).values_list("handler", flat=True):
        counts[handler] = counts.get(handler, 0) + 1
    return counts


def forget_old(now: datetime) -> int:
    """Drop strikes of rows that were not tried again when due: they have ended. The sweep calls it."""
    return Poison.objects.filter(due_at__lt=now - KEPT).delete()[0]


def is_infrastructure(error: BaseException) -> bool:
    """Whether an exception tells of what everything stands on, and nothing about the row in hand."""
    if isinstance(error, OSError):
        return isinstance(error, (ConnectionError, TimeoutError)) or error.errno in _NOT_THE_ROW
    return isinstance(error, _BLAMELESS)


_BLAMELESS: tuple[type[Exception], ...] = (OperationalError, InterfaceError, Unavailable, MemoryError)


def _halve(
    items: Sequence[T], work: Callable[[Sequence[T]], object], blameless: tuple[type[Exception], ...]
) -> list[tuple[T, Exception]]:
    """Run `work` on the items, or on ever smaller parts of them where it raises; gives the single items that do raise."""
    try:
        run_unit(lambda: work(items))
    except blameless:
        raise
    except Exception as error:  # Whatever a row can make a handler raise: that is what this module is for.
        if is_infrastructure(error):
            raise
        if len(items) == 1:
            return [(items[0], error)]
        middle = len(items) // 2
        return _halve(items[:middle], work, blameless) + _halve(items[middle:], work, blameless)
    return []


def _strike(handler: str, subject_id: uuid.UUID, error: Exception, before: Struck | None, now: datetime) -> Struck:
    tries = (before.tries if before else 0) + 1
    is_set_aside = tries >= TRIES_MAX
    pause = SET_ASIDE if is_set_aside else timedelta(seconds=RETRY_SECONDS[tries - 1])
    struck = Struck(subject_id, tries, words_of(error), now + pause, is_set_aside)
    with transaction.atomic():
        Poison.objects.update_or_create(
            handler=handler,
            subject_id=subject_id,
            defaults={
                "tries": tries,
                "error": struck.error,
                "last_at": now,
                "due_at": struck.due_at,
                "set_aside_at": now if is_set_aside else None,
            },
            create_defaults={
                "tries": tries,
                "error": struck.error,
                "first_at": now,
                "last_at": now,
                "due_at": struck.due_at,
                "set_aside_at": None,
            },
        )
    tell = log.error if is_set_aside else log.warning
    tell("poison", handler=handler, id=str(subject_id), tries=tries, set_aside=is_set_aside, exc_info=error)
    return struck


def words_of(error: Exception) -> str:
    """What is kept of an exception: its kind and its first line, never a document that it may quote at length."""
    first = (str(error).splitlines() or [""])[0]
    text = f"{type(error).__name__}: {first}" if first else type(error).__name__
    return "".join(sign for sign in text if sign.isprintable())[: min(NOTE_LENGTH, 300)]
