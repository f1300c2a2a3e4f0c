"""Leases with fencing: on named activities (leadership) and on rows (work in hand). Time is the database's.

A holder works outside any transaction and applies its result only while its token still matches. Whoever was paused past
the expiry finds another token there and changes nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from django.db import connections, models, transaction
from django.db.models import Q

from kernel.ids import new_id
from reconciling.models import Lease

M = TypeVar("M", bound=models.Model)


def acquire(name: str, *, holder: str, seconds: float, now: datetime) -> uuid.UUID | None:
    """Take the named lease if it is free or expired; the token, or None if somebody else holds it."""
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


def hand_back(model: type[models.Model], token: uuid.UUID, ids: Sequence[uuid.UUID]) -> None:
    """Free rows that are done before their lease expires."""
    if ids:
        model._default_manager.filter(pk__in=list(ids), lease_token=token).update(lease_token=None, lease_expires_at=None)
