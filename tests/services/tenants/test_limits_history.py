"""The limits of the past come from a table of their own: no audit row, of whatever shape, changes or breaks them."""

from __future__ import annotations

import importlib
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.apps import apps

from activity.models import AuditEvent
from tenants.capacity.limits_history import limits_at
from tenants.capacity.quota.edits import Change
from tenants.capacity.quota.limits import NO_LIMIT, Limit
from tenants.capacity.quota.tree import Ceiling
from tenants.capacity.reads import limits_tree
from tenants.capacity.services.caps import set_rules
from tenants.capacity.services.edits import apply_due_edits, edit_limits
from tenants.capacity.services.limits import PoolLimit
from tenants.models import LimitChange, Queue
from tenants.services import set_limits
from tests.factories.tenants import SYSTEM, Cast, make_queue, now, top_queue

if TYPE_CHECKING:
    from datetime import datetime

pytestmark = pytest.mark.database
POOL = uuid.UUID(int=7)
HOUR = timedelta(hours=1)


def held_at(queue: Queue, moment: datetime) -> Limit:
    queues, _ = limits_at(moment, moment, limits_tree().queues)
    (found,) = (limited for limited in queues if limited.id == queue.pk)
    return found.limit(POOL, "gpu_millis")


def live_through(queue: Queue) -> datetime:
    """Limits set at once, by an edit, and by an edit planned for later; and rules, which are no limits of a pool."""
    began = now() - 10 * HOUR
    set_limits(actor=SYSTEM, queue=queue, limits=[PoolLimit(POOL, Ceiling(gpu_millis=4000))], now=began + HOUR)
    set_rules(actor=SYSTEM, queue=queue, rules={"max_runtime_seconds": 60}, now=began + 2 * HOUR)
    change = Change(queue.pk, POOL, "gpu_millis", {"ceiling": 6000})
    edit_limits(actor=SYSTEM, changes=[change], now=began + 3 * HOUR)
    later = Change(queue.pk, POOL, "gpu_millis", {"ceiling": 8000, "weight": 5})
    edit_limits(actor=SYSTEM, changes=[later], effective_from=began + 5 * HOUR, now=began + 4 * HOUR)
    apply_due_edits(began + 5 * HOUR)
    return began


def check(queue: Queue, began: datetime) -> None:
    found = [held_at(queue, began + hours * HOUR) for hours in range(6)]
    four, six, eight = (Limit(0, None, 1000 * gpus, weight) for gpus, weight in ((4, 1), (6, 1), (8, 5)))
    assert found == [NO_LIMIT, four, four, six, six, eight]


def test_every_way_to_change_a_limit_is_in_the_history_of_limits(cast: Cast) -> None:
    queue = make_queue(cast.tenant, "day")
    began = live_through(queue)
    AuditEvent.objects.all().delete()  # As its retention does one day.

    check(queue, began)


def test_the_history_is_taken_over_from_edits_and_from_what_is_readable_of_the_audit(cast: Cast) -> None:
    queue, gone = make_queue(cast.tenant, "day"), make_queue(cast.tenant, "gone")
    began = live_through(queue)
    set_limits(actor=SYSTEM, queue=gone, limits=[PoolLimit(POOL, Ceiling(gpu_millis=1))], now=began)
    Queue.objects.filter(id=gone.pk).delete()
    LimitChange.objects.all().delete()
    migration = importlib.import_module("tenants.migrations.0020_limit_changes")

    migration.fill(apps, None)
    migration.fill(apps, None)
    check(queue, began)
    assert LimitChange.objects.filter(queue=top_queue(cast.tenant)).count() == 0


def test_two_changes_at_one_moment_leave_what_held_before_the_first(cast: Cast) -> None:
    queue, at = make_queue(cast.tenant, "day"), now()
    for gpus in (1000, 2000, 3000):
        set_limits(actor=SYSTEM, queue=queue, limits=[PoolLimit(POOL, Ceiling(gpu_millis=gpus))], now=at)

    assert held_at(queue, at - HOUR) == NO_LIMIT


def test_the_shares_are_shown_after_rules_of_a_queue_were_set(api: Any, cast: Cast) -> None:
    queue = top_queue(cast.tenant)
    set_rules(actor=SYSTEM, queue=queue, rules={"max_runtime_seconds": 60}, now=now())

    assert api(cast.vera).get("/api/v1/shares").status_code == 200
