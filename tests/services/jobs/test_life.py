"""The life of jobs from submission to the ledger, on the real scheduler and reconcilers with a pretended cluster."""

from __future__ import annotations

import pytest

from activity.models import Event
from clusters.engines.fake import Script
from clusters.engines.interface import ExitReason
from jobs.lifecycle.reasons import explain
from jobs.models import Attempt, Job
from kernel.limits import GIB
from kernel.resources import Resources
from reconciling.models import Transition
from storage.logs import read_merged
from tenants.billing.ledger.entries import day_of, month_of
from tenants.models import Budget, LedgerEntry, QueueUsage, Reservation
from tests.builders.quay import Quay

pytestmark = pytest.mark.database


def test_a_job_runs_to_its_end_through_every_state(quay: Quay) -> None:
    job = quay.submit(script=Script(duration_seconds=5, stdout=b"hello\n"))
    quay.settle()
    assert quay.path(job) == ["queued", "admitted", "starting", "running", "succeeded"]
    attempt = quay.attempts(job)[0]
    assert (attempt.number, attempt.state, attempt.outcome, attempt.forgotten) == (1, "ended", "succeeded", True)
    assert [task.state for task in quay.tasks(job)] == ["succeeded"]
    assert [item.text for item in read_merged(attempt.id).items] == ["hello\n"]


def test_the_end_releases_what_was_reserved_and_charges_what_was_used(quay: Quay) -> None:
    job = quay.submit(script=Script(duration_seconds=5), resources={"cpu": 2, "memory": "4Gi"})
    quay.turn()
    held = Reservation.objects.get(released_at__isnull=True)
    assert (held.job_id, held.cpu_millis, held.memory_bytes) == (job.id, 2000, 4 * GIB)
    assert QueueUsage.objects.get(queue=job.queue, pool_id=quay.pool.pk).cpu_millis == 2000
    quay.settle()
    assert not Reservation.objects.filter(released_at__isnull=True).exists()
    assert QueueUsage.objects.get(queue=job.queue, pool_id=quay.pool.pk).cpu_millis == 0
    entry = LedgerEntry.objects.get(job_id=job.id)
    assert entry.seconds in (5, 6)
    assert (entry.cpu_millis, entry.outcome) == (2000, "succeeded")


def test_a_gang_starts_whole_or_waits_holding_nothing(quay: Quay) -> None:
    """Four gangs of four workers on twelve places: three run, one waits and holds none."""
    gangs = [
        quay.submit(
            f"gang-{number}",
            roles={"worker": {"replicas": 4, "resources": {"cpu": "500m", "memory": "2Gi"}, "command": "true"}},
            script=Script(duration_seconds=60),
        )
        for number in range(4)
    ]
    # 8 cores hold 16 halves, but 32 GiB hold only ... four gangs of 8 GiB; make the fourth too many by a fifth of a core.
    filler = quay.submit(
        "filler", resources={"cpu": 1, "memory": "1Gi"}, script=Script(duration_seconds=60), priority="high", by=quay.cast.alice
    )
    quay.turn(2)
    assert quay.state(filler) == "running"
    assert sorted(quay.state(gang) for gang in gangs) == ["queued", "running", "running", "running"]
    waiting = next(gang for gang in gangs if quay.state(gang) == "queued")
    assert quay.reason(waiting) == "no_room"
    assert not quay.tasks(waiting)
    assert Reservation.objects.filter(released_at__isnull=True).count() == 4


def test_a_failed_program_is_named_and_not_tried_again(quay: Quay) -> None:
    job = quay.submit(script=Script(code=1, stderr=b"Traceback\nModuleNotFoundError: No module named 'torch'\n"))
    quay.settle()
    found = quay.job(job.id)
    assert (found.state, found.attempt_count) == ("failed", 1)
    assert found.exit is not None
    assert (found.exit["class"], found.exit["who_pays"]) == ("python_import_error", "user")


def test_exit_137_is_told_apart_into_oom_stop_and_kill(quay: Quay) -> None:
    hog = quay.submit("hog", script=Script(code=137, reason=ExitReason.OOM, evidence="used 2 GiB of 2 GiB"))
    killed = quay.submit("killed", script=Script(code=137))
    stopped = quay.submit("stopped", script=Script(duration_seconds=None, stop_seconds=None))
    quay.turn(2)
    quay.stop(stopped, grace_seconds=1)
    quay.settle(step_seconds=600)
    classes = {job.name: (quay.job(job.id).exit or {})["class"] for job in (hog, killed, stopped)}
    assert classes == {"hog": "oom", "killed": "killed", "stopped": "stopped_by_user"}
    assert quay.state(stopped) == "stopped"


@pytest.mark.capability("57", "What a lost machine ended is tried again, and no retry of the user is spent")
def test_a_platform_failure_is_tried_again_and_paid_by_the_platform(quay: Quay) -> None:
    job = quay.submit(script=Script(code=None, reason=ExitReason.NODE_LOST))
    quay.turn(2)
    assert quay.state(job) == "queued"
    assert quay.reason(job) == "retrying"
    quay.scripts["train"] = Script()
    quay.settle()
    found = quay.job(job.id)
    assert (found.state, found.attempt_count, found.paid) == ("succeeded", 2, {"platform": 1})
    assert quay.path(job)[:6] == ["queued", "admitted", "starting", "running", "queued", "admitted"]


def test_retries_are_bounded_whatever_fails(quay: Quay) -> None:
    job = quay.submit(script=Script(code=1), retry={"limit": 2, "on": ["user"]})
    quay.settle(step_seconds=300)
    found = quay.job(job.id)
    assert (found.state, found.attempt_count, found.paid) == ("failed", 3, {"user": 2})


def test_stopping_a_queued_job_ends_it_at_once(quay: Quay) -> None:
    job = quay.submit(hold=True)
    quay.stop(job)
    found = quay.job(job.id)
    assert (found.state, found.reason_code, found.attempt_count) == ("stopped", "stopped_before_start", 0)


def test_stopping_a_job_that_ran_and_waits_again_does_not_say_that_it_never_started(quay: Quay) -> None:
    job = quay.submit(script=Script(code=None, reason=ExitReason.NODE_LOST))
    quay.turn(2)
    assert (quay.state(job), quay.job(job.id).attempt_count) == ("queued", 1)
    quay.stop(job)
    found = quay.job(job.id)
    assert (found.state, found.reason_code) == ("stopped", "stopped_before_restart")
    assert explain(found.reason_code, {"by": "ann"}).text == "Stopped before it started again by ann."


def test_stopping_an_admitted_job_releases_its_quota(quay: Quay) -> None:
    job = quay.submit(script=Script(duration_seconds=None))
    quay.schedule()
    assert quay.state(job) == "admitted"
    quay.stop(job)
    quay.settle()
    assert quay.state(job) == "stopped"
    assert not Reservation.objects.filter(released_at__isnull=True).exists()
    assert not quay.engine.state.starts


def test_a_stop_wins_over_a_retry(quay: Quay) -> None:
    job = quay.submit(script=Script(duration_seconds=None, stop_code=1), retry={"limit": 5})
    quay.turn(2)
    quay.stop(job)
    quay.settle()
    assert (quay.state(job), quay.job(job.id).attempt_count) == ("stopped", 1)


@pytest.mark.capability("24", "The owner of a job that runs out of time is told once before it is stopped")
def test_max_runtime_stops_a_job_and_says_so(quay: Quay) -> None:
    job = quay.submit(script=Script(duration_seconds=None), max_runtime="10s")
    quay.turn(2)
    quay.pass_time(11)
    quay.settle()
    assert (quay.state(job), (quay.job(job.id).exit or {})["class"]) == ("failed", "deadline")


def told(quay: Quay) -> list[str]:
    return [event.data["title"] for event in Event.objects.filter(kind="notice.limit").order_by("row")]


@pytest.mark.capability("24", "The owner of a job that runs out of time is told once before it is stopped")
def test_who_runs_out_of_time_is_told_once_before_the_stop(quay: Quay) -> None:
    job = quay.submit(script=Script(duration_seconds=None), max_runtime="100s")
    other = quay.submit(script=Script(duration_seconds=None), resources={"cpu": 1, "memory": "1Gi"})
    quay.turn(2)
    quay.pass_time(80)
    quay.turn(2)
    assert (quay.job(job.id).condition, told(quay)) == ("", [])
    quay.pass_time(12)
    quay.turn(3)
    assert quay.job(job.id).condition == "time_nearly_over"
    assert told(quay) == [f"Job {quay.job(job.id).name} is stopped in a minute"]
    quay.pass_time(10)
    quay.turn(3)
    assert (quay.state(job), len(told(quay))) == ("failed", 1)
    assert quay.job(other.id).condition == ""


def test_children_of_an_array_are_not_told_one_by_one(quay: Quay) -> None:
    quay.submit(
        script=Script(duration_seconds=None), max_runtime="100s", array={"size": 2}, resources={"cpu": 1, "memory": "1Gi"}
    )
    quay.turn(2)
    quay.pass_time(95)
    quay.turn(2)
    assert told(quay) == []


def test_one_failed_worker_stops_the_others(quay: Quay) -> None:
    quay.scripts["pair.worker-0"] = Script(duration_seconds=3, code=1)
    quay.scripts["pair.worker-1"] = Script(duration_seconds=None)
    job = quay.submit("pair", replicas=2)
    quay.settle()
    assert quay.state(job) == "failed"
    assert [task.state for task in quay.tasks(job)] == ["failed", "stopped"]
    assert (quay.job(job.id).exit or {})["task"] == "worker-0"


def test_the_chief_decides_and_the_rest_is_stopped(quay: Quay) -> None:
    quay.scripts["led.chief-0"] = Script(duration_seconds=3)
    quay.scripts["led.worker-0"] = Script(duration_seconds=None)
    job = quay.submit("led", roles={"chief": {"command": "true"}, "worker": {"command": "true"}}, completion={"chief": "chief"})
    quay.settle()
    assert quay.state(job) == "succeeded"
    assert [task.state for task in quay.tasks(job)] == ["succeeded", "stopped"]


def test_lost_contact_is_a_condition_and_never_a_failure(quay: Quay) -> None:
    job = quay.submit(script=Script(duration_seconds=30))
    quay.turn(2)
    attempt = quay.attempts(job)[0]
    quay.engine.cut_off(attempt.id)
    quay.pass_time(60)
    quay.turn(3)
    assert (quay.state(job), quay.job(job.id).condition) == ("running", "lost_contact")
    quay.engine.cut_off(attempt.id, is_cut=False)
    quay.settle()
    assert (quay.state(job), quay.job(job.id).condition, quay.job(job.id).attempt_count) == ("succeeded", "", 1)


def test_a_launch_whose_answer_was_lost_starts_nothing_twice(quay: Quay) -> None:
    quay.engine.faults.lose_reply("ensure")
    job = quay.submit(script=Script(duration_seconds=3))
    quay.turn()
    assert quay.state(job) == "admitted"
    quay.pass_time(10)
    quay.settle()
    assert quay.state(job) == "succeeded"
    assert len(quay.engine.state.starts) == 1


def test_an_incomplete_observation_is_no_news(quay: Quay) -> None:
    jobs = [quay.submit(f"job-{number}", script=Script(duration_seconds=30)) for number in range(4)]
    quay.turn(2)
    quay.engine.faults.observe_partly(times=6)
    quay.turn(3)
    assert {quay.state(job) for job in jobs} == {"running"}


def test_what_disappeared_for_certain_is_tried_again(quay: Quay) -> None:
    job = quay.submit(script=Script(duration_seconds=30))
    quay.turn(2)
    quay.pass_time(1)
    quay.engine.delete(quay.attempts(job)[0].id)
    quay.settle(step_seconds=10)
    assert (quay.state(job), quay.job(job.id).attempt_count) == ("succeeded", 2)


def test_priority_goes_before_age_and_age_before_the_rest(quay: Quay) -> None:
    quay.submit("filler", resources={"cpu": 8}, script=Script(duration_seconds=5))
    quay.turn()
    old = quay.submit("old", resources={"cpu": 8}, script=Script(duration_seconds=5))
    quay.pass_time(1)
    young = quay.submit("young", resources={"cpu": 8}, script=Script(duration_seconds=5))
    urgent = quay.submit("urgent", by=quay.cast.alice, resources={"cpu": 8}, priority="high", script=Script(duration_seconds=5))
    quay.settle()
    started = Attempt.objects.exclude(job__name="filler").order_by("id").values_list("job_id", flat=True)
    assert list(started) == [urgent.id, old.id, young.id]


def test_a_waiting_job_says_why_with_amounts(quay: Quay) -> None:
    quay.submit("filler", resources={"cpu": 7}, script=Script(duration_seconds=60))
    waiting = quay.submit("waiting", resources={"cpu": 4})
    quay.turn()
    found = quay.job(waiting.id)
    assert found.reason_code == "no_room"
    assert found.reason_detail["need"]["cpu_millis"] == 4000
    assert found.reason_detail["free"]["cpu_millis"] == 1000


def test_an_array_runs_its_children_with_its_parallelism(quay: Quay) -> None:
    parent = quay.submit("sweep", array={"size": 6, "parallelism": 2}, script=Script(duration_seconds=5))
    quay.turn(2)
    children = Job.objects.filter(parent=parent)
    assert children.filter(state="running").count() == 2
    assert children.filter(state="queued", reason_code="array_parallelism").count() == 4
    assert quay.state(parent) == "running"
    quay.settle(step_seconds=3)
    assert {child.state for child in children} == {"succeeded"}
    assert quay.path(parent) == ["queued", "running", "succeeded"]
    assert len({child.spec_id for child in children}) == 1


def test_stopping_an_array_stops_all_its_children(quay: Quay) -> None:
    parent = quay.submit("sweep", array={"size": 4, "parallelism": 1}, script=Script(duration_seconds=None))
    quay.turn(2)
    quay.stop(parent)
    quay.settle()
    assert set(Job.objects.filter(parent=parent).values_list("state", flat=True)) == {"stopped"}
    assert quay.state(parent) == "stopped"


def test_dependencies_hold_a_job_back_until_they_are_met(quay: Quay) -> None:
    first = quay.submit("first", script=Script(duration_seconds=5))
    second = quay.submit("second", after_ok=[str(first.id)])
    quay.turn(2)
    assert (quay.state(second), quay.reason(second)) == ("queued", "dependency")
    quay.settle()
    assert quay.state(second) == "succeeded"
    ended, began = quay.job(first.id).ended_at, quay.job(second.id).started_at
    assert ended is not None
    assert began is not None
    assert ended <= began


def test_a_dependency_that_can_never_be_met_stops_the_job_and_those_behind_it(quay: Quay) -> None:
    first = quay.submit("first", script=Script(code=1))
    second = quay.submit("second", after_ok=["first"])
    third = quay.submit("third", after_ok=["second"])
    fourth = quay.submit("fourth", after_any=["third"])
    quay.settle()
    assert [quay.state(job) for job in (first, second, third, fourth)] == ["failed", "stopped", "stopped", "succeeded"]
    assert quay.reason(second) == "dependency_never_met"


def test_no_state_changes_without_a_transition_row(quay: Quay) -> None:
    for number in range(3):
        quay.submit(f"job-{number}", script=Script(duration_seconds=number, code=number % 2))
    quay.settle()
    for job in Job.objects.all():
        rows = list(Transition.objects.filter(subject_kind="job", subject_id=job.id).order_by("id"))
        assert [row.from_state for row in rows[1:]] == [row.to_state for row in rows[:-1]]
        assert rows[-1].to_state == job.state


@pytest.mark.capability("34", "Terminal states are final, also by hand")
def test_a_terminal_row_never_changes_its_state_even_by_hand(quay: Quay) -> None:
    from django.db import DatabaseError, transaction

    job = quay.submit()
    quay.settle()
    with pytest.raises(DatabaseError), transaction.atomic():
        Job.objects.filter(id=job.id).update(state="queued")
    assert quay.state(job) == "succeeded"


def test_the_reservation_equals_what_the_tasks_hold(quay: Quay) -> None:
    quay.submit("pair", replicas=2, resources={"cpu": 1, "memory": "1Gi"}, script=Script(duration_seconds=60))
    quay.turn()
    held = Reservation.objects.get(released_at__isnull=True)
    assert Resources(held.cpu_millis, held.memory_bytes, held.gpu_millis) == Resources(2000, 2 * GIB, 0)


def test_a_spent_budget_that_stops_keeps_new_jobs_waiting_until_it_is_raised(quay: Quay) -> None:
    runs = quay.submit("runs", script=Script(duration_seconds=1_000))
    quay.turn(2)
    assert quay.state(runs) == "running"
    budget = Budget.objects.create(
        queue=runs.queue, kind="gpu_time", amount=10, stops=True, warn_at=[], spent=12, created_at=quay.now,
        spent_month=month_of(day_of(quay.now)),
    )  # fmt: skip
    waits = quay.submit("waits", script=Script(duration_seconds=1))
    quay.turn(2)
    assert (quay.state(runs), quay.state(waits), quay.reason(waits)) == ("running", "queued", "budget")
    assert "(120 %)" in explain("budget", Job.objects.get(id=waits.id).reason_detail).text
    Budget.objects.filter(id=budget.pk).update(amount=20)
    quay.turn(4)
    assert quay.state(waits) == "running"
