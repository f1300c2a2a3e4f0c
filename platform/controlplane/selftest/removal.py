"""What a self-test made is removed: at its end, and by the next round after a crash. Its audit rows stay."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.apps import apps
from django.db import models, transaction
from django.db.models import ProtectedError, Q

from activity.services import record_audit
from controlplane.models import SelfTest
from controlplane.selftest.parties import ACTOR, NAME
from controlplane.selftest.walls import remove_probe
from kernel.tenant_rows import TABLES, TENANT
from storage import hostaccess

ROUNDS_MAX = 6  # Rows protect each other; each round frees those whose protectors went.
LEFT_AFTER = timedelta(minutes=10)  # A run takes seconds.

log = structlog.get_logger("selftest")


class NotRemoved(Exception):
    """Something of a self-test is still used; the next round tries again."""


def remove_leftovers(now: datetime) -> int:
    """Remove what runs left that never came to their end; returns how many runs."""
    left = SelfTest.objects.filter(removed_at__isnull=True, started_at__lt=now - LEFT_AFTER).order_by("started_at")
    removed = 0
    for run in left[:20]:
        try:
            remove_what_was_made(run, now=now)
        except NotRemoved as error:
            log.warning("selftest_left", run=str(run.pk), detail=str(error))
            continue
        removed += 1
        SelfTest.objects.filter(id=run.pk, finished_at__isnull=True).update(
            finished_at=now, verdict="broken", detail="It was interrupted."
        )
    return removed


def remove_what_was_made(run: SelfTest, *, now: datetime) -> None:
    """Remove a run's tenants with all that is theirs. NotRemoved if something cannot go yet."""
    tenant_model = apps.get_model("tenants.Tenant")
    run.refresh_from_db(fields=["tenant_ids"])
    listed = [uuid.UUID(text) for text in run.tenant_ids]
    # Three marks at once, so that no edited row can make us remove a tenant of people.
    ours = tenant_model.objects.filter(id__in=listed, description=NAME, name__startswith=f"{NAME}-{run.pk.hex[-12:]}-")
    tenant_ids = list(ours.filter(created_at__gte=run.started_at - LEFT_AFTER).values_list("id", flat=True))
    if apps.get_model("jobs.Attempt").objects.filter(tenant_id__in=tenant_ids).exists():
        raise NotRemoved("A job of the self-test has been started.")
    if not remove_probe(run.pk):
        raise NotRemoved("The probe of the walls around a job still runs.")
    for volume in apps.get_model("storage.Volume").objects.filter(tenant_id__in=tenant_ids, removed_at__isnull=True):
        hostaccess.remove_volume(volume)
    with transaction.atomic():
        users = list(apps.get_model("tenants.User").objects.filter(tenant_id__in=tenant_ids).values_list("id", flat=True))
        _remove_rows(tenant_ids, users)
        ours.delete()
        SelfTest.objects.filter(id=run.pk).update(removed_at=now)
        record_audit(
            actor=ACTOR, verb="selftest.remove", tenant_id=None, target_kind="selftest", target_id=run.pk, count=1, at=now
        )


def _remove_rows(tenant_ids: list[uuid.UUID], user_ids: list[uuid.UUID]) -> None:
    waiting = [_rows_of(label, columns, tenant_ids, user_ids) for label, columns in reversed(list(TABLES.items()))]
    for _ in range(ROUNDS_MAX):
        waiting = [rows for rows in waiting if not _try_delete(rows)]
        if not waiting:
            return
    raise NotRemoved(f"Rows of {', '.join(sorted(rows.model._meta.label for rows in waiting))} are still used.")


def _rows_of(
    label: str, columns: Sequence[str], tenant_ids: Iterable[uuid.UUID], user_ids: Iterable[uuid.UUID]
) -> models.QuerySet[Any]:
    """The rows of one table that belong to the tenants or their accounts."""
    condition = Q()
    for column in columns:
        condition |= Q(**{f"{column}__in": tenant_ids if column == TENANT else user_ids})
    model: type[models.Model] = apps.get_model(label)
    return model._default_manager.filter(condition)


def _try_delete(rows: models.QuerySet[Any]) -> bool:
    """Delete all, or as many as nothing protects: children before their parents. Whether all are gone."""
    try:
        with transaction.atomic():
            rows.all().delete()
        return True
    except ProtectedError:
        pass
    is_done = True
    for row in rows.order_by("-pk"):
        try:
            with transaction.atomic():
                row.delete()
        except ProtectedError:
            is_done = False
    return is_done
