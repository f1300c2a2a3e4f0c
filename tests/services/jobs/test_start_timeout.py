"""Starts that do not come about end in time, whatever the engine says, and nothing is started twice for it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from clusters.engines.fake import Script
from clusters.engines.interface import Retry, StartStep, TaskWaiting, Workload
from clusters.services import record_inventory
from jobs.reconcile import poll
from kernel.config import current
from tests.builders.quay import Quay

pytestmark = pytest.mark.database


def later(quay: Quay, seconds: float) -> None:
    """Let the platform act every ten seconds for so long."""
    for _ in range(int(seconds // 10)):
        quay.pass_time(10)
        quay.turn()


def test_a_start_that_the_engine_puts_off_for_ever_ends_with_its_last_words(quay: Quay, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(workloads: Sequence[Workload]) -> list[Retry]:
        return [Retry(workload.attempt_id, "start_failed", "No space left on device: work") for workload in workloads]

    monkeypatch.setattr(quay.engine, "ensure", busy)
    job = quay.submit()
    quay.turn()
    later(quay, current().start_timeout_seconds - 20)
    assert quay.state(job) == "admitted"
    later(quay, 60)
    first = quay.attempts(job)[0]
    assert first.exit is not None
    assert (first.state, first.exit["class"], first.exit["who_pays"]) == ("ended", "start_timeout", "platform")
    assert "No space left on device" in first.exit["evidence"]
    quay.settle(step_seconds=60)
    assert (quay.state(job), quay.reason(job)) == ("failed", "start_timeout")


def test_a_start_on_a_cluster_that_does_not_answer_is_stopped_and_no_other_begins_until_it_does(quay: Quay) -> None:
    job = quay.submit(script=Script(duration_seconds=5))
    quay.schedule()
    quay.engine.faults.is_down = True
    later(quay, current().start_timeout_seconds + 100)
    assert (quay.state(job), quay.reason(job), len(quay.attempts(job))) == ("stopping", "start_timeout", 1)
    quay.engine.faults.is_down = False
    record_inventory(quay.cluster.pk, quay.engine.inventory(), quay.now)
    quay.settle(step_seconds=5)
    assert (quay.state(job), len(quay.attempts(job))) == ("succeeded", 2)


def test_a_task_that_the_engine_never_starts_is_named_in_the_end(quay: Quay) -> None:
    job = quay.submit(script=Script(start_seconds=100_000))
    quay.turn(2)
    later(quay, current().start_timeout_seconds + 60)
    first = quay.attempts(job)[0]
    assert first.exit is not None
    assert (first.exit["class"], first.exit["evidence"]) == ("start_timeout", "Not running in time: worker-0")


def test_the_time_for_starting_stands_still_while_an_image_is_pulled(quay: Quay) -> None:
    seconds = current().start_timeout_seconds
    job = quay.submit(script=Script(start_seconds=seconds * 2.5, pull_seconds=seconds * 2, duration_seconds=5))
    quay.turn(2)
    task = quay.tasks(job)[0]
    assert task.waiting is not None
    assert (task.state, task.node_name, task.waiting["code"]) == ("pending", "node-1", "pulling_image")
    later(quay, seconds * 2.6)
    quay.settle()
    assert (quay.state(job), len(quay.attempts(job))) == ("succeeded", 1)


def test_a_pull_has_its_bound_and_the_end_says_what_was_waited_for(quay: Quay) -> None:
    job = quay.submit(script=Script(start_seconds=100_000, pull_seconds=100_000))
    quay.turn(2)
    later(quay, current().start_timeout_seconds + current().image_pull_seconds + 60)
    first = quay.attempts(job)[0]
    assert first.exit is not None
    assert first.exit["evidence"] == "Not running in time: worker-0 (pulling_image)"


def test_an_engine_that_pulls_before_it_starts_has_as_long(quay: Quay, monkeypatch: pytest.MonkeyPatch) -> None:
    pulling = TaskWaiting(StartStep.PULLING_IMAGE)
    ensure = quay.engine.ensure

    def pull(workloads: Sequence[Workload]) -> list[Retry]:
        return [Retry(workload.attempt_id, "image_pulling", "", waiting=pulling) for workload in workloads]

    monkeypatch.setattr(quay.engine, "ensure", pull)
    job = quay.submit(script=Script(duration_seconds=5))
    quay.turn()
    later(quay, current().start_timeout_seconds * 2)
    waiting = quay.tasks(job)[0].waiting
    assert waiting is not None
    assert (quay.state(job), waiting["code"]) == ("admitted", "pulling_image")

    def busy(workloads: Sequence[Workload]) -> list[Retry]:
        return [
            Retry(workload.attempt_id, "gpus_busy", "", waiting=TaskWaiting(StartStep.WAITING_FOR_DEVICES))
            for workload in workloads
        ]

    monkeypatch.setattr(quay.engine, "ensure", busy)
    later(quay, current().start_timeout_seconds - 60)  # What is left of the time for starting counts on.
    assert quay.state(job) == "admitted"
    monkeypatch.setattr(quay.engine, "ensure", ensure)
    quay.settle()
    assert (quay.state(job), len(quay.attempts(job)), quay.tasks(job)[0].waiting) == ("succeeded", 1, None)


def test_a_word_that_does_not_change_is_written_once(quay: Quay) -> None:
    job = quay.submit(script=Script(start_seconds=100, pull_seconds=100))
    quay.turn(3)
    before = quay.tasks(job)[0].waiting
    with CaptureQueriesContext(connection) as captured:
        quay.pass_time(20)
        poll.poll(quay.cluster.pk)
    assert quay.tasks(job)[0].waiting == before
    assert not [query for query in captured if "UPDATE" in query["sql"] and "jobs_task" in query["sql"]]


def test_an_attempt_that_no_worker_has_tried_yet_is_started_however_late(quay: Quay) -> None:
    job = quay.submit(script=Script(duration_seconds=5))
    quay.schedule()
    quay.pass_time(current().start_timeout_seconds * 2)  # No worker lived.
    quay.settle()
    assert (quay.state(job), len(quay.attempts(job))) == ("succeeded", 1)


def test_a_user_who_stops_what_does_not_start_sees_it_stopped(quay: Quay) -> None:
    job = quay.submit(script=Script(start_seconds=100_000))
    quay.turn(2)
    quay.engine.faults.refuse("stop")
    later(quay, current().start_timeout_seconds)
    quay.stop(job)
    quay.settle()
    assert quay.state(job) == "stopped"
