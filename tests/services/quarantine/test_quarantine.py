"""What a cluster runs and the database does not know is kept, shown and given back; never stopped, and never run twice."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction

from activity.models import AuditEvent
from clusters.engines.fake import Script
from clusters.models import Quarantined
from clusters.services import quarantine, record_contact
from clusters.telemetry.prometheus import cluster_families
from jobs.models import Attempt, Job, Task
from jobs.services import adopt
from jobs.services.adopt import NotAdoptable
from kernel.errors import Conflict, NotFound
from reconciling.models import Transition
from tenants.capacity.services.reservations import recount_usage, release
from tenants.models import QueueUsage, Reservation
from tests.builders.quay import Quay

pytestmark = pytest.mark.database

LONG = Script(duration_seconds=None)


def forget(quay: Quay, job: Job, *, back_to: str = "queued") -> uuid.UUID:
    """Take the latest attempt out of the database, as a restore from before it does; the cluster keeps it."""
    [*_, attempt] = quay.attempts(job)
    with transaction.atomic():
        release([attempt.id], now=quay.now)
        Job.objects.filter(id=job.id).update(
            state=back_to, attempt_id=None, attempt_count=attempt.number - 1, started_at=None, reason_code="", reason_detail={}
        )
        Reservation.objects.filter(attempt_id=attempt.id).delete()
        Task.objects.filter(attempt_id=attempt.id).delete()
        Attempt.objects.filter(id=attempt.id).delete()
        Transition.objects.filter(subject_id=attempt.id).delete()
    quay.driver.forget()
    return attempt.id


def begin(quay: Quay) -> None:
    quay.pass_time(1)
    with transaction.atomic():
        quarantine.begin_quarantine(quay.now)


@pytest.fixture
def restored(quay: Quay) -> tuple[Quay, Job, uuid.UUID]:
    """A job that the database believes to wait, while its first attempt runs on the cluster."""
    job = quay.submit("train", script=LONG)
    quay.turn(2)
    assert quay.state(job) == "running"
    attempt_id = forget(quay, job)
    begin(quay)
    return quay, job, attempt_id


def test_a_job_does_not_start_again_while_its_newer_attempt_is_there(restored: tuple[Quay, Job, uuid.UUID]) -> None:
    quay, job, attempt_id = restored
    for _ in range(5):
        quay.turn()
        quay.pass_time(10)
    assert quay.state(job) == "queued"
    assert quay.reason(job) == "quarantined"
    assert quay.engine.state.starts == [attempt_id]
    [row] = Quarantined.objects.all()
    assert (row.attempt_id, row.job_id, row.number, row.name, row.runs, row.resolution) == (
        attempt_id, job.id, 1, "train", True, "",
    )  # fmt: skip


def test_nothing_restored_starts_before_the_cluster_was_asked(quay: Quay) -> None:
    job = quay.submit("train")
    begin(quay)
    quay.engine.faults.is_down = True
    quay.turn(3)
    assert (quay.state(job), quay.reason(job)) == ("queued", "restored")
    later = quay.submit("new")
    quay.engine.faults.is_down = False
    record_contact(quay.cluster.pk, reachable=True, now=quay.now)
    quay.turn(2)
    quay.settle()
    assert (quay.state(job), quay.state(later)) == ("succeeded", "succeeded")
    quay.cluster.refresh_from_db()
    assert quay.cluster.quarantine_since_at is None


def test_an_incomplete_look_lets_nothing_start(quay: Quay) -> None:
    job = quay.submit("train")
    begin(quay)
    quay.engine.faults.observe_partly(times=2)
    quay.turn()
    assert (quay.state(job), quay.reason(job)) == ("queued", "restored")
    quay.settle()
    assert quay.state(job) == "succeeded"


def test_an_adopted_attempt_is_an_attempt_like_any_other(restored: tuple[Quay, Job, uuid.UUID]) -> None:
    quay, job, attempt_id = restored
    quay.turn(2)
    assert adopt.list_fitting() == [attempt_id]
    assert adopt.adopt(actor=quay.cast.otto.actor, attempt_id=attempt_id, now=quay.now) == job.id
    quay.turn(2)
    [attempt] = quay.attempts(job)
    assert (attempt.id, attempt.number, attempt.state, quay.state(job)) == (attempt_id, 1, "running", "running")
    assert (quay.job(job.id).attempt_count, quay.job(job.id).attempt_id) == (1, attempt_id)
    assert recount_usage(now=quay.now) == []
    assert AuditEvent.objects.filter(verb="quarantine.adopt", tenant_id=job.tenant_id).count() == 1
    quay.stop(job)
    quay.settle()
    assert quay.state(job) == "stopped"
    assert quay.engine.state.starts == [attempt_id]
    quay.cluster.refresh_from_db()
    assert quay.cluster.quarantine_since_at is None


def test_an_attempt_that_ended_meanwhile_gives_its_result_when_it_is_adopted(quay: Quay) -> None:
    job = quay.submit("train", script=Script(duration_seconds=5))
    quay.turn(2)
    attempt_id = forget(quay, job)
    begin(quay)
    quay.pass_time(60)
    quay.turn(2)
    assert quay.reason(job) == "quarantined"
    assert not Quarantined.objects.get().runs
    adopt.adopt(actor=quay.cast.otto.actor, attempt_id=attempt_id, now=quay.now)
    quay.settle()
    assert quay.state(job) == "succeeded"
    assert quay.engine.state.starts == [attempt_id]


def test_an_attempt_for_which_the_queue_has_no_room_stays_where_it_is(restored: tuple[Quay, Job, uuid.UUID]) -> None:
    quay, job, attempt_id = restored
    quay.turn(2)
    QueueUsage.objects.filter(queue_id=job.queue_id).update(cpu_millis_max=0)
    with pytest.raises(NotAdoptable, match="has no room for it"):
        adopt.adopt(actor=quay.cast.otto.actor, attempt_id=attempt_id, now=quay.now)
    assert (quay.state(job), Quarantined.objects.get().resolution) == ("queued", "")
    assert quay.attempts(job) == []
    QueueUsage.objects.filter(queue_id=job.queue_id).update(cpu_millis_max=None)
    adopt.adopt(actor=quay.cast.otto.actor, attempt_id=attempt_id, now=quay.now)
    quay.turn(2)
    assert quay.state(job) == "running"


def test_the_metric_counts_what_waits_for_a_decision(restored: tuple[Quay, Job, uuid.UUID]) -> None:
    quay, _, _ = restored
    quay.turn(2)
    [family] = [found for found in cluster_families(quay.now) if found.name == "berth_quarantined_attempts"]
    assert {sample.labels["running"]: sample.value for sample in family.samples} == {"true": 1, "false": 0}


def test_a_stopped_attempt_frees_its_job(restored: tuple[Quay, Job, uuid.UUID]) -> None:
    quay, job, attempt_id = restored
    quay.turn(2)
    quarantine.stop_quarantined(actor=quay.cast.otto.actor, attempt_id=attempt_id, now=quay.now)
    for _ in range(4):
        quay.turn()
        quay.pass_time(1)
    assert Quarantined.objects.get().resolution == "stopped"
    assert quay.state(job) == "running"
    assert len(quay.engine.state.starts) == 2
    with pytest.raises(Conflict):
        quarantine.stop_quarantined(actor=quay.cast.otto.actor, attempt_id=attempt_id, now=quay.now)
    with pytest.raises(NotFound):
        quarantine.stop_quarantined(actor=quay.cast.otto.actor, attempt_id=uuid.uuid4(), now=quay.now)


def test_an_attempt_of_a_job_that_nobody_knows_runs_to_its_end(quay: Quay) -> None:
    job = quay.submit("train", script=Script(duration_seconds=30))
    quay.turn(2)
    attempt_id = forget(quay, job)
    Job.objects.filter(id=job.id).update(attempt_count=0)
    Transition.objects.filter(subject_id=job.id).delete()
    Job.objects.filter(id=job.id).delete()
    begin(quay)
    quay.turn(2)
    assert adopt.list_fitting() == []
    with pytest.raises(NotAdoptable, match="submitted after the backup"):
        adopt.adopt(actor=quay.cast.otto.actor, attempt_id=attempt_id, now=quay.now)
    quay.pass_time(60)
    quay.turn()
    assert not Quarantined.objects.get().runs
    assert attempt_id in quay.engine.state.attempts  # Ended, and neither removed nor forgotten.


def test_a_user_who_stops_a_held_job_stops_what_runs_of_it(restored: tuple[Quay, Job, uuid.UUID]) -> None:
    quay, job, attempt_id = restored
    quay.turn(2)
    quay.stop(job)
    for _ in range(4):
        quay.turn()
        quay.pass_time(1)
    assert quay.state(job) == "stopped"
    assert Quarantined.objects.get().resolution == "stopped"
    assert attempt_id not in quay.engine.state.attempts


def test_an_attempt_that_the_database_thinks_alive_ends_and_its_job_waits_for_the_next_one(quay: Quay) -> None:
    """The backup knows attempt 1; the cluster has ended it, forgotten it, and runs attempt 2."""
    job = quay.submit("train", script=LONG, retry={"limit": 3, "on": ["platform"]})
    quay.turn(2)
    [first] = quay.attempts(job)
    kept = {field.attname: getattr(first, field.attname) for field in Attempt._meta.concrete_fields}
    workload = quay.engine.state.attempts[first.id].workload
    second = uuid.uuid4()
    quay.engine.ensure([_renamed(workload, second, 2)])
    del quay.engine.state.attempts[first.id]
    quay.engine.state.tombstones[first.id] = quay.now
    begin(quay)
    quay.turn(3)
    assert kept["number"] == 1
    assert (quay.state(job), quay.reason(job)) == ("queued", "quarantined")
    assert [attempt.state for attempt in quay.attempts(job)] == ["ended"]
    adopt.adopt(actor=quay.cast.otto.actor, attempt_id=second, now=quay.now)
    quay.turn(2)
    assert [(attempt.number, attempt.state) for attempt in quay.attempts(job)] == [(1, "ended"), (2, "running")]
    assert quay.engine.state.starts == [first.id, second]


def test_an_attempt_that_was_not_launched_yet_is_not_launched_beside_a_newer_one(quay: Quay) -> None:
    job = quay.submit("train", script=LONG)
    quay.schedule()
    [first] = quay.attempts(job)
    assert first.state == "admitted"
    quay.engine.ensure([_renamed(_compiled(first), uuid.uuid4(), 2)])
    begin(quay)
    quay.turn(4)
    assert len(quay.engine.state.starts) == 1
    assert (quay.state(job), quay.reason(job)) == ("queued", "quarantined")


def test_an_object_that_does_not_say_whose_it_is_holds_every_job_that_it_may_be_of(
    quay: Quay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As started by release 0.1, whose records hold the number alone."""
    job = quay.submit("train", script=LONG)
    quay.turn(2)
    attempt_id = forget(quay, job)
    from clusters.engines.fake import FakeEngine
    from clusters.engines.interface import AttemptLabels

    look: Callable[..., Any] = FakeEngine._look

    def without_labels(self: FakeEngine, *args: Any) -> Any:
        from dataclasses import replace

        return replace(look(self, *args), labels=AttemptLabels(number=1))

    monkeypatch.setattr(FakeEngine, "_look", without_labels)
    begin(quay)
    quay.turn(2)
    assert (quay.state(job), quay.reason(job)) == ("queued", "quarantined_unknown")
    later = quay.submit("new")
    quay.turn(2)
    assert quay.state(later) != "queued"
    quarantine.stop_quarantined(actor=quay.cast.otto.actor, attempt_id=attempt_id, now=quay.now)
    for _ in range(4):
        quay.turn()
        quay.pass_time(1)
    assert quay.state(job) == "running"


def test_quarantine_begins_by_itself_where_a_database_was_put_back_by_other_means(quay: Quay) -> None:
    job = quay.submit("train", script=LONG)
    other = quay.submit("other", script=LONG)
    quay.turn(2)
    attempt_id = forget(quay, job)
    from jobs.reconcile import poll

    poll.poll(quay.cluster.pk)
    quay.turn(2)
    assert quay.reason(job) == "quarantined"
    assert quay.state(other) == "running"
    assert adopt.list_fitting() == [attempt_id]


def test_nodes_keep_room_for_what_runs_in_quarantine(quay: Quay) -> None:
    job = quay.submit("train", script=LONG, resources={"cpu": 6, "memory": "1Gi"})
    quay.turn(2)
    forget(quay, job)
    begin(quay)
    quay.turn(2)
    big = quay.submit("big", resources={"cpu": 4, "memory": "1Gi"})
    quay.turn(2)
    assert (quay.state(big), quay.reason(big)) == ("queued", "no_room")


def _renamed(workload: Any, attempt_id: uuid.UUID, number: int) -> Any:
    from dataclasses import replace

    return replace(workload, attempt_id=attempt_id, number=number)


def _compiled(attempt: Attempt) -> Any:
    from jobs.services.compile import compile_attempts

    [workload] = compile_attempts(list(Attempt.objects.filter(id=attempt.id).select_related("job")))
    return workload
