"""Deleting a queue: an empty one goes at once, one in use is refused by what is in it, and what is on record stays."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from activity.models import AuditEvent, Event
from clusters.engines.fake import Script
from tenants.capacity.quota.tree import Ceiling
from tenants.models import Booking, LedgerEntry, LimitChange, Queue, QueueLimit, QuotaEdit
from tenants.services import PoolLimit, delete_queue, set_limits
from tests.builders.quay import Quay
from tests.factories.tenants import SYSTEM, make_queue, now, top_queue

pytestmark = pytest.mark.database

Api = Callable[..., Any]
QUEUES = "/api/v1/queues"
ENDLESS = Script(duration_seconds=1_000_000)


def test_an_empty_queue_goes_at_once_and_its_record_stays(api: Api, quay: Quay) -> None:
    queue = make_queue(quay.cast.tenant, "day")
    set_limits(actor=SYSTEM, queue=queue, limits=[PoolLimit(quay.pool.pk, Ceiling(cpu_millis=4000))], now=now())
    job = quay.submit("train", script=Script(duration_seconds=5), queue="day")
    quay.settle()
    entries = LedgerEntry.objects.filter(queue=queue).count()
    assert entries

    assert api(quay.cast.alice).delete(f"{QUEUES}/{queue.pk}").status_code == 204

    bob = api(quay.cast.bob)
    assert [row["name"] for row in bob.get(QUEUES).json()["items"]] == ["vision"]
    assert bob.get(f"{QUEUES}/{queue.pk}").status_code == 404
    assert bob.post("/api/v1/jobs", {"spec": {"command": "true", "queue": "day"}}, format="json").status_code == 422
    gone = Queue.objects.get(id=queue.pk)
    assert gone.name == f"day ({queue.pk.hex[-8:]})"
    assert bob.get(f"/api/v1/jobs/{job.id}").json()["queue"]["name"] == gone.name
    assert [row["id"] for row in bob.get(f"/api/v1/jobs?queue={queue.pk}").json()["items"]] == [str(job.id)]
    assert LedgerEntry.objects.filter(queue=queue).count() == entries
    assert not QueueLimit.objects.filter(queue=queue).exclude(ceiling=None).exists()
    assert LimitChange.objects.filter(queue=queue).exists()
    row = AuditEvent.objects.get(verb="queue.delete")
    assert (row.target_name, row.before["name"], row.actor_name) == ("day", "day", "alice")
    assert Event.objects.filter(kind="queue.deleted", subject_id=queue.pk).count() == 1
    again = api(quay.cast.alice).post(QUEUES, {"name": "day", "tenant": "vision"}, format="json")
    assert again.status_code == 201, "the name is free again"


def test_a_queue_in_use_is_refused_by_what_is_in_it(api: Api, quay: Quay) -> None:
    queue = make_queue(quay.cast.tenant, "day")
    make_queue(quay.cast.tenant, "shift", parent=queue)
    for number in range(7):
        quay.submit(f"train-{number}", script=ENDLESS, queue="day")
    booking = Booking.objects.create(
        tenant=quay.cast.tenant, queue=queue, pool_id=quay.pool.pk, gpu_millis=1000, starts_at=now(),
        ends_at=now() + timedelta(days=1), created_at=now(),
    )  # fmt: skip
    edit = QuotaEdit.objects.create(
        tenant=quay.cast.tenant, changes=[{"queue": str(queue.pk)}], effective_from=now() + timedelta(days=1), created_at=now()
    )

    refused = api(quay.cast.alice).delete(f"{QUEUES}/{queue.pk}")

    told = refused.json()
    assert (refused.status_code, told["code"]) == (409, "queue_in_use")
    assert "1 queue is below it (shift)" in told["detail"]
    assert "7 jobs wait or run in it (train-0, train-1, train-2, train-3, train-4, ...)" in told["detail"]
    assert f"1 booking is held for it ({booking.pk})" in told["detail"]
    assert f"1 scheduled edit changes its limits ({edit.pk})" in told["detail"]
    assert "berth stop" in told["hint"]
    assert Queue.objects.get(id=queue.pk).deleted_at is None


def test_a_tenants_top_queue_and_root_stay(api: Api, quay: Quay) -> None:
    top = top_queue(quay.cast.tenant)
    told = api(quay.cast.alice).delete(f"{QUEUES}/{top.pk}")
    assert (told.status_code, "berth tenants delete" in told.json()["hint"]) == (409, True)
    assert api(quay.cast.otto).delete(f"{QUEUES}/{top.parent_id}").status_code == 409


def test_only_managers_of_its_tenant_delete_a_queue(api: Api, quay: Quay) -> None:
    queue = make_queue(quay.cast.tenant, "day")
    for person, status in (("bob", 403), ("vera", 403), ("carol", 404), ("alice", 204)):
        assert api(getattr(quay.cast, person)).delete(f"{QUEUES}/{queue.pk}").status_code == status
    assert api(quay.cast.alice).delete(f"{QUEUES}/{queue.pk}").status_code == 404, "it is gone"


def test_a_job_that_was_submitted_at_the_same_moment_runs_to_its_end(quay: Quay) -> None:
    """Its queue was found before the deletion, its row came after: no request waits for that, and no job is lost."""
    queue = make_queue(quay.cast.tenant, "day")
    job = quay.submit("late", script=Script(duration_seconds=5))
    delete_queue(actor=quay.cast.alice.actor, queue=queue, now=now())
    type(job).objects.filter(id=job.id).update(queue_id=queue.pk)
    quay.settle()
    assert quay.state(job) == "succeeded"
