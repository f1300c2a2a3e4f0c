"""A cluster that is gone for good: an operator declares it lost, its jobs start elsewhere, and it may come back after all."""

from __future__ import annotations

import copy

import pytest
from django.db.models import F

from activity.models import AuditEvent
from clusters.engines.fake import Script
from clusters.engines.interface import Observations
from clusters.engines.lost import LostEngine
from clusters.models import Cluster
from clusters.services import ClusterChanges, change_cluster, engine_for, record_contact, refresh_engines, remove_cluster
from jobs.prometheus import job_metrics
from jobs.reconcile import launch
from jobs.selectors.output import has_given_up_output
from kernel.actor import system_actor
from kernel.errors import Conflict
from tests.builders.quay import Quay
from tests.factories.clusters import use_engine

pytestmark = pytest.mark.database

OPERATOR = system_actor("tests")


def change(quay: Quay, **changes: bool) -> None:
    change_cluster(actor=OPERATOR, cluster_id=quay.cluster.pk, changes=ClusterChanges(**changes), now=quay.now)  # type: ignore[arg-type]
    refresh_engines()


def lose(quay: Quay) -> None:
    record_contact(quay.cluster.pk, reachable=False, detail="no route to host", now=quay.now)
    change(quay, is_enabled=False)
    change(quay, is_lost=True)


def come_back(quay: Quay) -> None:
    change(quay, is_enabled=True)
    record_contact(quay.cluster.pk, reachable=True, now=quay.now)


def refusal(quay: Quay) -> list[str]:
    with pytest.raises(Conflict) as refused:
        change(quay, is_lost=True)
    return [field.code for field in refused.value.fields]


def test_only_a_disabled_cluster_that_does_not_answer_can_be_declared_lost(quay: Quay) -> None:
    record_contact(quay.cluster.pk, reachable=True, now=quay.now)
    assert refusal(quay) == ["enabled", "reachable"]
    change(quay, is_enabled=False)
    assert refusal(quay) == ["reachable"]
    record_contact(quay.cluster.pk, reachable=False, detail="no route to host", now=quay.now)
    change(quay, is_lost=True)
    quay.cluster.refresh_from_db()
    assert quay.cluster.lost_at == quay.now
    with pytest.raises(Conflict):
        change(quay, is_enabled=True, is_lost=True)
    last = AuditEvent.objects.filter(verb="cluster.edit").order_by("-id").first()
    assert last is not None
    assert (last.before["is_lost"], last.after["is_lost"]) == (False, True)


def test_its_attempts_end_and_their_jobs_wait_for_another_cluster(quay: Quay) -> None:
    running = quay.submit("running", script=Script(duration_seconds=600))
    quay.turn(2)
    stopping = quay.submit("stopping", script=Script(duration_seconds=600, stop_seconds=None))
    quay.turn(2)
    quay.stop(stopping, grace_seconds=600)
    quay.turn()
    quay.pass_time(1)
    lose(quay)
    quay.turn(2)
    [attempt] = quay.attempts(running)
    assert attempt.exit is not None
    assert (attempt.state, attempt.exit["class"], attempt.exit["who_pays"]) == ("ended", "cluster_lost", "platform")
    assert (quay.state(running), quay.state(stopping)) == ("queued", "stopped")
    assert not attempt.forgotten  # What is left there is asked for if it comes back.


def test_the_removal_of_a_cluster_that_does_not_answer_names_a_step_that_can_be_taken(quay: Quay) -> None:
    quay.submit("running", script=Script(duration_seconds=600))
    quay.turn(2)

    def next_step() -> str:
        with pytest.raises(Conflict) as refused:
            remove_cluster(actor=OPERATOR, cluster_id=quay.cluster.pk, now=quay.now)
        [field] = [field for field in refused.value.fields if field.code == "live_attempts"]
        assert str(field.message).startswith("1 attempt lives there (running).")
        return str(field.hint)

    assert "`berth stop`" in next_step()
    record_contact(quay.cluster.pk, reachable=False, detail="no route to host", now=quay.now)
    assert "`berth clusters lose`" in next_step()


def test_what_was_stopped_while_the_cluster_was_lost_is_stopped_when_it_comes_back(quay: Quay) -> None:
    job = quay.submit("stopped", script=Script(duration_seconds=600))
    quay.turn(2)
    quay.pass_time(1)
    lose(quay)
    quay.stop(job)
    quay.turn(2)
    assert quay.state(job) == "stopped"
    assert quay.engine.observe(None).items, "nobody has told the cluster"
    quay.pass_time(60)
    come_back(quay)
    quay.settle()
    assert quay.engine.observe(None).items == ()
    assert [attempt.forgotten for attempt in quay.attempts(job)] == [True]


def test_what_still_runs_when_it_comes_back_is_stopped_and_forgotten(quay: Quay) -> None:
    job = quay.submit("again", script=Script(duration_seconds=600))
    quay.turn(2)
    quay.pass_time(1)
    lose(quay)
    quay.turn(2)
    [first] = quay.attempts(job)
    assert [item.attempt_id for item in quay.engine.observe(None).items] == [first.id]
    quay.pass_time(60)
    quay.scripts["again"] = Script(duration_seconds=5, stdout=b"second\n")
    come_back(quay)
    quay.settle()
    assert quay.state(job) == "succeeded"
    assert [(attempt.number, attempt.forgotten) for attempt in quay.attempts(job)] == [(1, True), (2, True)]
    assert quay.engine.observe(None).items == ()


def test_the_next_attempt_waits_until_the_last_one_is_stopped_where_it_came_back(quay: Quay) -> None:
    job = quay.submit("twice", script=Script(duration_seconds=36_000))
    quay.turn(2)
    quay.pass_time(1)
    lose(quay)
    quay.turn(2)
    quay.pass_time(60)
    come_back(quay)
    for _ in range(3):  # Starts are quicker than what is left to do for attempts that have ended.
        quay.schedule()
        launch.launch(quay.cluster.pk)
        quay.pass_time(1)
    assert [attempt.state for attempt in quay.attempts(job)] == ["ended", "admitted"]
    assert len(quay.engine.state.starts) == 1
    for _ in range(10):
        quay.turn()
        quay.pass_time(1)
    assert (quay.state(job), len(quay.engine.observe(None).items)) == ("running", 1)


@pytest.mark.parametrize("is_asked_before", [True, False])
def test_what_was_to_be_stopped_there_is_stopped_when_it_comes_back(quay: Quay, *, is_asked_before: bool) -> None:
    job = quay.submit("deaf", script=Script(duration_seconds=36_000))
    quay.turn(2)
    quay.pass_time(1)
    if is_asked_before:  # Nobody has told the engine of it yet.
        quay.stop(job, grace_seconds=600)
    lose(quay)
    if not is_asked_before:
        quay.stop(job, grace_seconds=600)
    quay.turn(2)
    assert quay.state(job) == "stopped"
    [attempt] = quay.attempts(job)
    assert [item.attempt_id for item in quay.engine.observe(None).items] == [attempt.id]
    come_back(quay)
    quay.settle()
    assert quay.engine.observe(None).items == ()
    assert quay.state(job) == "stopped"


def test_a_process_that_hears_late_of_its_return_takes_nothing_there_for_gone(quay: Quay) -> None:
    lose(quay)
    late = engine_for(quay.cluster.pk)
    assert isinstance(late, LostEngine)
    Cluster.objects.filter(pk=quay.cluster.pk).update(is_enabled=True, lost_at=None)  # By another process.
    record_contact(quay.cluster.pk, reachable=True, now=quay.now)
    quay.pass_time(1)
    job = quay.submit("new", script=Script(duration_seconds=600))
    quay.turn(2)
    quay.pass_time(60)
    quay.turn(2)
    [attempt] = quay.attempts(job)
    assert (quay.state(job), quay.engine.state.starts) == ("running", [attempt.id])
    assert attempt.launched_at is not None
    assert late.observe(None).read_at < attempt.launched_at  # What it says of this attempt is no news.


def test_no_reader_and_no_measure_waits_for_the_output_of_a_lost_cluster(quay: Quay) -> None:
    job = quay.submit("silent", script=Script(duration_seconds=600))
    quay.turn(2)
    [attempt] = quay.attempts(job)
    quay.pass_time(1)
    lose(quay)
    assert not has_given_up_output(attempt.id)  # It has not ended yet.
    quay.turn(2)
    quay.pass_time(3_600)
    assert has_given_up_output(attempt.id)
    (lag,) = [family for family in job_metrics(quay.now) if family.name == "berth_reconcile_lag_seconds"]
    assert lag.samples[0].value == 0.0
    come_back(quay)
    assert not has_given_up_output(attempt.id)


def test_a_process_that_hears_late_of_another_place_takes_nothing_for_gone(quay: Quay) -> None:
    job = quay.submit("moved", script=Script(duration_seconds=600))
    quay.turn(2)
    quay.pass_time(1)
    quay.engine.observe, look = lambda cursor: Observations((), "", complete=True, read_at=quay.now), quay.engine.observe  # type: ignore[method-assign]
    Cluster.objects.filter(pk=quay.cluster.pk).update(version=F("version") + 1, config={"namespace_prefix": "other"})
    quay.engine, old = copy.copy(quay.engine), quay.engine
    quay.engine.observe = look  # type: ignore[method-assign]
    use_engine(quay.engine)
    assert engine_for(quay.cluster.pk) is old
    quay.turn(2)
    assert quay.state(job) == "running"
    assert engine_for(quay.cluster.pk) is quay.engine
