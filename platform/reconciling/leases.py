"""Leases with fencing: on named activities (leadership) and on rows (work in hand). Time is the database's.

A holder works outside any transaction and applies its result only while its token still matches. A holder paused past
the expiry finds another token there and changes nothing.

What is in hand is prolonged while its process works on it (`keep_in_hand`). Without that a batch that takes longer than its
lease is claimed by a second worker before the first one has written it down, then by the first one again, and so for ever.

Rows in hand are changed by others, too: by what writes results down, by stops, by observations, each in an order of its own. So
nothing here waits for a locked row while it holds another one: that would be a deadlock sooner or later.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from django.db import DatabaseError, InterfaceError, connections, models, transaction
from django.db.models import Q

from kernel.ids import new_id
from reconciling.models import Lease

M = TypeVar("M", bound=models.Model)

IN_HAND_LEASES = 10  # A batch that is at work for so many leases is stuck: five minutes of thirty seconds each.


@dataclass(frozen=True, slots=True)
class _InHand:
    """Rows that this process works on."""

    model: type[models.Model]
    ids: tuple[uuid.UUID, ...]
    since: float  # Of the monotonic clock.


_in_hand: dict[uuid.UUID, _InHand] = {}  # By token.


def acquire(name: str, *, holder: str, seconds: float, now: datetime) -> uuid.UUID | None:
    """Take the named lease if it is free or expired; the token, or None if another process holds it."""
    Lease.objects.bulk_create([Lease(name=name)], ignore_conflicts=True)
    token = new_id()
    taken = Lease.objects.filter(Q(expires_at__isnull=True) | Q(expires_at__lte=now), name=name).update(
        token=token, holder=holder, expires_at=now + timedelta(seconds=seconds)
    )
    return token if taken else None


def renew(name: str, token: uuid.UUID, *, seconds: float, now: datetime) -> bool:
    """Prolong a lease that is still ours. False: it was lost, stop at once."""
    return bool(
        Lease.objects.filter(name=name, token=token, expires_at__gt=now).update(expires_at=now + timedelta(seconds=seconds))
    )


def release(name: str, token: uuid.UUID) -> None:
    """Give the lease back early; of no effect when it is no longer ours."""
    Lease.objects.filter(name=name, token=token).update(expires_at=None, holder="")


def claim(
    rows: models.QuerySet[M],
    *,
    now: datetime,
    seconds: float,
    limit: int,
    order_by: Sequence[str] = ("id",),
    extra: dict[str, Any] | None = None,
) -> tuple[uuid.UUID, list[uuid.UUID]]:
    """Claim up to `limit` rows whose lease is free, oldest first; others skip them until the lease expires.

    The model has `lease_token` and `lease_expires_at`. Returns the token and the claimed ids. `extra` sets further columns.
    """
    token = new_id()
    free = rows.filter(Q(lease_expires_at__isnull=True) | Q(lease_expires_at__lte=now)).order_by(*order_by)
    with transaction.atomic(using=rows.db):
        if connections[rows.db].features.has_select_for_update_skip_locked:
            free = free.select_for_update(skip_locked=True)
        ids: list[uuid.UUID] = list(free.values_list("pk", flat=True)[:limit])
        if ids:
            rows.model._default_manager.filter(pk__in=ids).update(
                lease_token=token, lease_expires_at=now + timedelta(seconds=seconds), **(extra or {})
            )
    return token, ids


@contextlib.contextmanager
def in_hand(model: type[models.Model], token: uuid.UUID, ids: Sequence[uuid.UUID]) -> Iterator[set[uuid.UUID]]:
    """Work on claimed rows. The block adds what it wrote, and with it freed, to the set; all others are handed back at its end.

    So a row that the work left out, or that another process changed meanwhile, waits for no lease. A failure hands everything
    back, but where the database itself fails: then the leases expire. A process that dies leaves them, too.
    """
    written: set[uuid.UUID] = set()
    _in_hand[token] = _InHand(model, tuple(ids), time.monotonic())
    try:
        yield written
    except Exception:
        with contextlib.suppress(DatabaseError, InterfaceError):
            hand_back(model, token, [row_id for row_id in ids if row_id not in written])
        raise
    finally:
        _in_hand.pop(token, None)
    hand_back(model, token, [row_id for row_id in ids if row_id not in written])


def has_in_hand() -> bool:
    """Whether this process works on claimed rows."""
    return bool(_in_hand)


def keep_in_hand(*, seconds: float, now: datetime) -> None:
    """Prolong the leases of what this process has in hand, `IN_HAND_LEASES` of them at most: what is stuck loses its rows.

    A lease that ran out stays lost, also where no one has taken the row yet: its holder was paused. A row that a transaction has
    locked keeps its lease as it is until the next call: nobody claims it meanwhile, and mostly its result is being written down.
    """
    for token, work in tuple(_in_hand.items()):
        if time.monotonic() - work.since < IN_HAND_LEASES * seconds:
            held = work.model._default_manager.filter(pk__in=work.ids, lease_token=token, lease_expires_at__gt=now)
            _update_unlocked(held, lease_expires_at=now + timedelta(seconds=seconds))


def hand_back(model: type[models.Model], token: uuid.UUID, ids: Collection[uuid.UUID]) -> None:
    """Free rows before their lease expires. Without effect on those that are held by another token now. Outside transactions."""
    if not ids:
        return
    held = model._default_manager.filter(pk__in=list(ids), lease_token=token)
    _update_unlocked(held, lease_token=None, lease_expires_at=None)
    for row_id in list(held.values_list("pk", flat=True)):  # Locked by somebody: waited for alone, with nothing held.
        held.filter(pk=row_id).update(lease_token=None, lease_expires_at=None)


def _update_unlocked(rows: models.QuerySet[Any], **values: Any) -> None:
    """Update those of the rows that no other transaction has locked; it waits for none of them."""
    if not connections[rows.db].features.has_select_for_update_skip_locked:
        rows.update(**values)  # SQLite: one writer at a time.
        return
    with transaction.atomic(using=rows.db):
        ids = list(rows.select_for_update(skip_locked=True, no_key=True).values_list("pk", flat=True))
        rows.model._default_manager.filter(pk__in=ids).update(**values)
