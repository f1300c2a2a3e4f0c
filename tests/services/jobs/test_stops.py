"""What a stop makes of jobs that leave politely: exit 0 after the signal is no success."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction

from clusters.engines.fake import Script
from jobs.lifecycle.reasons import explain
from jobs.models import Attempt, Job
from jobs.reconcile import finish, launch, poll, record, stopping
from jobs.reconcile.admit import Eviction, evict
from jobs.services.edit import edit_job
from kernel import clock
from kernel.crashpoints import arm
from kernel.errors import Conflict
from reconciling import fencing
from reconciling.models import Poison
from tests.builders.quay import Quay

pytestmark = pytest.mark.database


def test_a_job_that_leaves_politely_when_it_is_stopped_is_stopped(quay: Quay) -> None:
    job = quay.submit(script=Script(duration_seconds=None, stop_code=0))
    after = quay.submit("after", after_ok=[str(job.id)])
    quay.turn(2)
    quay.stop(job)
    quay.settle()
    found = quay.job(job.id)
    assert (found.state, (found.exit or {})["class"]) == ("stopped", "stopped_by_user")
    assert quay.reason(after) == "dependency_never_met"


def test_a_job_that_leaves_politely_at_its_deadline_has_failed(quay: Quay) -> None:
    job = quay.submit(script=Script(duration_seconds=None, stop_code=0), max_runtime="10s")
    quay.turn(2)
    quay.pass_time(11)
    quay.settle()
    found = quay.job(job.id)
    assert (found.state, (found.exit or {})["class"]) == ("failed", "deadline")


SAVES = {"path": "ckpt", "signal": "USR1", "grace": "5s", "before_deadline": "20s"}


def test_a_job_is_told_before_its_time_is_over_and_killed_after_it(quay: Quay) -> None:
    job = quay.submit(script=Script(duration_seconds=None, stop_seconds=None), max_runtime="100s", checkpoint=SAVES)
    quay.turn(2)
    quay.pass_time(79)
    quay.turn()
    assert quay.state(job) == "running"
    quay.pass_time(2)
    quay.turn(2)
    assert quay.state(job) == "stopping"
    quay.pass_time(22)
    quay.turn()
    assert quay.state(job) == "stopping", "the grace begins where the time is over"
    quay.pass_time(3)
    quay.settle()
    assert (quay.state(job), (quay.job(job.id).exit or {})["class"]) == ("failed", "deadline")


def test_a_job_goes_on_after_its_time_in_as_many_attempts_as_it_asks_for(quay: Quay) -> None:
    retry = {"limit": 2, "on": ["deadline"]}
    job = quay.submit(script=Script(duration_seconds=None, stop_code=0), max_runtime="100s", checkpoint=SAVES, retry=retry)
    quay.turn(2)
    for attempts in (2, 3, 3):
        quay.pass_time(81)
        quay.turn(4)  # No wait comes between: what had all its time did not fail.
        assert quay.job(job.id).attempt_count == attempts
    assert [attempt.outcome for attempt in quay.attempts(job)] == ["failed"] * 3
    assert (quay.state(job), (quay.job(job.id).exit or {})["class"]) == ("failed", "deadline")


def test_a_wait_between_attempts_is_told_with_its_cause_and_ended_by_a_word(quay: Quay) -> None:
    job = quay.submit(script=Script(duration_seconds=0.5, code=1), retry={"limit": 9})
    for _ in range(12):
        quay.turn(2)
        quay.pass_time(7)
    assert quay.job(job.id).attempt_count == 3
    found = quay.job(job.id)
    words = explain(found.reason_code, found.reason_detail).text
    assert "since 3 attempts failed within 5m" in words
    assert "berth retry-now" in words
    asked: dict[str, Any] = {"actor": quay.cast.alice.actor, "changes": {"retry_now": True}, "expected_version": None}
    edit_job(job=found, now=quay.now, **asked)
    quay.turn(2)
    assert quay.job(job.id).attempt_count == 4
    with pytest.raises(Conflict):
        edit_job(job=quay.job(job.id), now=quay.now, **asked)


def test_the_time_limit_is_no_failure_that_a_job_asks_to_retry_without_naming_it(quay: Quay) -> None:
    job = quay.submit(script=Script(duration_seconds=None, stop_code=1), max_runtime="10s", retry={"limit": 5})
    quay.turn(2)
    quay.pass_time(11)
    quay.settle()
    assert (quay.state(job), quay.job(job.id).attempt_count) == ("failed", 1)


def test_a_second_stop_makes_the_grace_of_the_first_shorter(quay: Quay) -> None:
    job = quay.submit(script=Script(duration_seconds=None, stop_seconds=None))
    quay.turn(2)
    quay.stop(job, grace_seconds=600)
    quay.turn()
    quay.stop(job, grace_seconds=1)
    quay.turn()
    quay.pass_time(2)
    quay.turn()
    assert quay.state(job) == "stopped"


def test_a_job_that_had_ended_before_the_stop_reached_it_has_succeeded(quay: Quay) -> None:
    job = quay.submit(script=Script(duration_seconds=5))
    quay.turn(2)
    quay.pass_time(6)  # It has ended, and nobody has looked yet.
    quay.stop(job)
    quay.settle()
    assert quay.state(job) == "succeeded"


def evicted(quay: Quay) -> Job:
    """A job whose attempt has made way and has ended, which nobody has seen yet."""
    job = quay.submit(script=Script(duration_seconds=None, stop_seconds=0.5))
    quay.turn(2)
    with transaction.atomic():
        evict([Eviction(job.id, None, "making_way")], {}, now=quay.now)
    with clock.virtual(lambda: quay.now):
        stopping.stop(quay.cluster.pk)
        quay.pass_time(1)
    return job


def test_a_stop_wins_over_the_next_attempt_when_it_comes_while_an_eviction_is_written_down(
    quay: Quay, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = evicted(quay)
    conclude = record.conclude

    def slowly(*arguments, **options):  # type: ignore[no-untyped-def]
        endings = conclude(*arguments, **options)
        quay.stop(job, grace_seconds=0)  # By another process, once it is decided that the job is tried again.
        return endings

    monkeypatch.setattr(record, "conclude", slowly)
    quay.turn()
    assert (quay.job(job.id).desired, quay.state(job)) == ("stop", "stopped")
    assert quay.attempts(job)[0].outcome == "preempted"


def test_a_job_that_came_back_into_the_queue_past_its_stop_is_stopped(quay: Quay) -> None:
    job = quay.submit(script=Script(duration_seconds=None), hold=True)
    after = quay.submit("after", after_ok=[str(job.id)])
    Job.objects.filter(id=job.id).update(desired="stop")  # As a release before left it.
    quay.turn()
    assert quay.path(job) == ["queued", "stopped"]
    assert quay.reason(after) == "dependency_never_met"


def stopped_at(quay: Quay, point: str) -> Job:
    """A job that is stopped at this moment of its launch, by a worker whose lease is not over when the others act."""
    job = quay.submit(script=Script(duration_seconds=None, stop_seconds=0.5))
    quay.schedule()
    arm(point, lambda: quay.stop(job, grace_seconds=1))
    with clock.virtual(lambda: quay.now):
        launch.launch(quay.cluster.pk)
    assert fencing.dropped() == {}, "a stop is no lease that ran out"
    return job


def test_a_job_that_is_stopped_before_it_is_handed_over_never_reaches_the_engine(quay: Quay) -> None:
    job = stopped_at(quay, "jobs.launch.before_ensure")
    with clock.virtual(lambda: quay.now):
        assert quay.engine.observe(None).items == ()
        stopping.stop(quay.cluster.pk)
    assert quay.path(job) == ["queued", "admitted", "stopping", "stopped"]


def test_a_job_that_is_stopped_while_it_is_handed_over_waits_for_no_lease(quay: Quay) -> None:
    job = stopped_at(quay, "jobs.launch.after_ensure")
    with clock.virtual(lambda: quay.now):
        stopping.stop(quay.cluster.pk)
        quay.pass_time(0.6)  # Less than any lease: the engine was told at once.
        poll.poll(quay.cluster.pk)
    assert quay.state(job) == "stopped"


def test_what_a_reconciler_claims_and_leaves_out_is_free_at_once(quay: Quay) -> None:
    """An attempt with a strike that is not due, beside one that is handled: both are free when the batch is done."""
    quay.submit("struck", script=Script(duration_seconds=None))
    quay.submit("healthy", script=Script(duration_seconds=None))
    quay.schedule()
    attempt = Attempt.objects.get(job__name="struck")
    later = quay.now.replace(year=quay.now.year + 1)
    Poison.objects.create(
        handler="jobs.launch", subject_id=attempt.id, tries=1, error="", first_at=quay.now, last_at=quay.now, due_at=later
    )
    with clock.virtual(lambda: quay.now):
        launch.launch(quay.cluster.pk)
    assert not Attempt.objects.filter(lease_expires_at__isnull=False).exists()
    assert sorted(Attempt.objects.values_list("job__name", "state")) == [("healthy", "starting"), ("struck", "admitted")]


@pytest.mark.parametrize("reconciler", [launch.launch, stopping.stop, finish.finish])
def test_a_reconciler_that_fails_hands_back_what_it_claimed(quay: Quay, reconciler, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    job = quay.submit(script=Script(duration_seconds=None))
    quay.schedule()
    if reconciler is not launch.launch:
        quay.turn()
        quay.stop(job)
    if reconciler is finish.finish:
        with clock.virtual(lambda: quay.now):
            stopping.stop(quay.cluster.pk)
            quay.pass_time(600)
            poll.poll(quay.cluster.pk)

    def out_of_memory(*args: object) -> None:
        raise MemoryError

    for name in ("ensure", "stop", "forget"):
        monkeypatch.setattr(quay.engine, name, out_of_memory)
    with clock.virtual(lambda: quay.now), pytest.raises(MemoryError):
        reconciler(quay.cluster.pk)
    assert not Attempt.objects.filter(lease_expires_at__isnull=False).exists()
