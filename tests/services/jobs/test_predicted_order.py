"""Shorter jobs go first by what their kind's history tells; what was predicted of a job stays with it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import timedelta

import pytest
import structlog.testing
from django.db import connection
from django.test.utils import CaptureQueriesContext

from clusters.engines.fake import Script
from jobs.loading.state import load_state
from jobs.models import Job
from jobs.scheduling.core.core import Core
from jobs.scheduling.core.snapshot import build
from jobs.scheduling.core.state.decisions import Admit
from jobs.scheduling.core.state.reservation import planned_seconds
from jobs.scheduling.replay.log import Submitted
from jobs.selectors.lists import place_in_queue
from jobs.selectors.standing import standings_of
from jobs.services.edit import edit_job
from jobs.services.moving import Among, Move, move_job
from tenants.capacity.quota.accounting import mark
from tenants.capacity.services.caps import set_rules
from tests.builders.quay import Quay
from tests.factories.tenants import top_queue

pytestmark = pytest.mark.database

ALL = {"cpu": 8, "memory": "1Gi"}
LONG, SHORT = 5_000, 60


def run_before(quay: Quay, name: str, seconds: int, times: int = 2) -> None:
    """A history of jobs of this name that took so long."""
    for _ in range(times):
        quay.submit(name, script=Script(duration_seconds=seconds), resources=ALL)
        quay.turn(2)
        quay.pass_time(seconds)
        quay.settle()


def a_full_cluster_with_a_history(quay: Quay) -> Job:
    run_before(quay, "train", LONG)
    run_before(quay, "test", SHORT)
    blocks = quay.submit("blocks", script=Script(duration_seconds=None), resources=ALL)
    quay.turn(2)
    return blocks


def three_that_wait(quay: Quay) -> list[Job]:
    """Two long ones and a short one, in this order."""
    jobs = [quay.submit(name, script=Script(duration_seconds=1_000), resources=ALL) for name in ("train", "train", "test")]
    quay.turn()
    return jobs


def core(quay: Quay) -> Core:
    found = quay.driver.kept.core
    assert found is not None
    return found


def order(found: Core, jobs: Sequence[Job]) -> list[str]:
    """The names of waiting jobs in the order of their queue."""
    waiting = {str(job.id): found.ordering.job(str(job.id)) for job in jobs}
    keys = {job_id: found.ordering.key(job) for job_id, job in waiting.items() if job is not None}
    assert len(keys) == len(jobs)
    names = {str(job.id): job.name for job in jobs}
    return [names[job_id] for job_id in sorted(keys, key=lambda job_id: keys[job_id])]


def test_a_job_whose_kind_is_short_goes_before_earlier_long_ones_on_a_full_cluster(quay: Quay) -> None:
    blocks = a_full_cluster_with_a_history(quay)
    long, _, short = three_that_wait(quay)
    rows = {row.name: row for row in Job.objects.filter(id__in=[long.id, short.id])}
    assert abs((rows["train"].predicted_seconds or 0) - LONG) <= SHORT
    assert abs((rows["test"].cautious_seconds or 0) - SHORT) <= SHORT
    assert order(core(quay), [long, short]) == ["test", "train"]
    quay.stop(blocks)
    quay.turn(3)
    assert (quay.state(short), quay.state(long)) == ("running", "queued")


def test_a_question_and_the_next_leader_see_the_same_order(quay: Quay) -> None:
    blocks = a_full_cluster_with_a_history(quay)
    jobs = three_that_wait(quay)
    asked, kept = build(load_state(quay.now).state), order(core(quay), jobs)
    assert kept == order(asked, jobs) == ["test", "train", "train"]
    Job.objects.filter(name="test", state="succeeded").update(name="other")  # The next leader reads another history.
    quay.driver.forget()
    quay.turn()
    assert order(core(quay), jobs) == kept
    quay.stop(blocks)
    quay.turn(2)
    decided = build(load_state(quay.now).state).decide(mark(quay.now))
    assert not [decision for decision in decided if isinstance(decision, Admit)], "the one that was first runs"
    assert quay.state(jobs[2]) == "running"


def test_places_that_are_told_are_those_of_the_scheduler(quay: Quay) -> None:
    """By run time, priority with aging, and moves; of one job, of a list, and on the board."""
    blocks = a_full_cluster_with_a_history(quay)
    jobs = three_that_wait(quay)
    quay.pass_time(7)
    for number, (priority, longest) in enumerate([(100, None), (500, "1h"), (900, "2d"), (900, None), (510, "10m"), (100, "1m")]):
        more = {} if longest is None else {"max_runtime": longest}
        jobs.append(quay.submit(f"job-{number}", by=quay.cast.alice, resources=ALL, priority=priority, **more))
        quay.pass_time(1)
    older = Job.objects.filter(id=jobs[3].id)
    older.update(submitted_at=quay.now - timedelta(days=3))
    quay.driver.forget()
    quay.turn()
    move_job(actor=quay.cast.alice.actor, job=quay.job(jobs[1].id), move=Move(among=Among.QUEUE), now=quay.now)
    quay.turn(2)
    rows = list(Job.objects.filter(id__in=[job.id for job in jobs]))
    keys = {str(row.id): core(quay).ordering.key(waits) for row in rows if (waits := core(quay).ordering.job(str(row.id)))}
    expected = [name for name, _ in sorted(keys.items(), key=lambda entry: entry[1])]
    assert len(expected) == len(jobs)
    assert expected[0] != str(jobs[0].id)
    assert sorted(rows, key=lambda row: place_in_queue(row) or 0) == [
        next(r for r in rows if str(r.id) == name) for name in expected
    ]
    places = standings_of(rows, quay.now).places
    assert [str(job_id) for job_id, _ in sorted(places.items(), key=lambda entry: entry[1])] == expected
    assert quay.state(blocks) == "running"


def test_what_runs_keeps_its_prediction_beyond_its_core(quay: Quay) -> None:
    run_before(quay, "train", LONG)
    runs = quay.submit("train", script=Script(duration_seconds=LONG), resources=ALL)
    quay.turn(2)
    before = core(quay).running[str(runs.id)].job
    quay.driver.forget()
    quay.submit("waits", resources=ALL)
    quay.turn()
    after = core(quay).running[str(runs.id)].job
    assert before.predicted is not None
    assert (after.predicted, after.cautious) == (before.predicted, before.cautious)


def test_a_sweep_hands_in_nothing_again_as_the_history_grows(quay: Quay, monkeypatch: pytest.MonkeyPatch) -> None:
    run_before(quay, "train", LONG)
    quay.submit("blocks", script=Script(duration_seconds=None), resources={"cpu": 4, "memory": "1Gi"})
    quay.turn(2)
    waits = quay.submit("train", script=Script(duration_seconds=LONG), resources=ALL)
    quay.turn()
    predicted = quay.job(waits.id).predicted_seconds
    kept = core(quay)
    for _ in range(4):  # The same name is short by now.
        quay.submit("train", script=Script(duration_seconds=1), resources={"cpu": 4, "memory": "1Gi"})
        quay.turn(2)
        quay.pass_time(2)
        quay.turn(2)
    submitted, feed = [], quay.driver.kept.feed

    def counted(event: object) -> object:
        if isinstance(event, Submitted):
            submitted.append(event.job.id)
        return feed(event)  # type: ignore[arg-type]

    monkeypatch.setattr(quay.driver.kept, "feed", counted)
    quay.driver.changes.full_load_at = 0.001
    with structlog.testing.capture_logs() as said:
        quay.turn(2)
    assert quay.driver.changes.full_load_at > 1, "a sweep went by"
    assert not submitted
    assert "full_load_differs" not in [event["event"] for event in said]
    assert core(quay) is kept
    assert quay.job(waits.id).predicted_seconds == predicted
    later = quay.submit("train", resources=ALL)
    quay.turn()
    assert (quay.job(later.id).predicted_seconds or 0) < 60, "the next one goes by the latest runs"


def test_a_job_of_which_nothing_was_known_is_predicted_at_the_next_sweep(quay: Quay) -> None:
    half = {"cpu": 4, "memory": "1Gi"}
    quay.submit("blocks", script=Script(duration_seconds=None), resources=half)
    for _ in range(2):
        quay.submit("train", script=Script(duration_seconds=10), resources=half)
    quay.turn(2)
    waits = quay.submit("train", resources=ALL)
    quay.turn()
    assert quay.job(waits.id).predicted_seconds is None
    for _ in range(4):
        quay.pass_time(11)
        quay.turn()
    quay.driver.changes.full_load_at = 0.001
    quay.turn()
    assert 5 <= (quay.job(waits.id).predicted_seconds or 0) <= 30
    kept = core(quay).ordering.job(str(waits.id))
    assert kept is not None
    assert kept.predicted == quay.job(waits.id).predicted_seconds


def test_predicting_many_takes_as_many_statements_as_predicting_few(quay: Quay) -> None:
    a_full_cluster_with_a_history(quay)
    quay.driver.changes.full_load_at = math.inf  # A sweep reads more, whenever its time comes.
    counts = []
    for many in (3, 3, 30):
        for _ in range(many):
            quay.submit("test", resources=ALL)
        with CaptureQueriesContext(connection) as seen:
            quay.schedule()
        counts.append(len(seen))
    assert counts[1] == counts[2], counts
    assert not Job.objects.filter(state="queued", predicted_seconds__isnull=True).exists()


def test_a_job_that_changes_its_max_runtime_is_predicted_anew(quay: Quay) -> None:
    a_full_cluster_with_a_history(quay)
    waits = quay.submit("train", resources=ALL)
    quay.turn()
    assert (quay.job(waits.id).predicted_seconds or 0) > 1_000
    job = quay.job(waits.id)
    edit_job(actor=quay.cast.bob.actor, job=job, changes={"max_runtime_seconds": 600}, expected_version=None, now=quay.now)
    quay.turn()
    assert quay.job(waits.id).predicted_seconds == 600
    kept = core(quay).ordering.job(str(waits.id))
    assert kept is not None
    assert (kept.predicted, kept.max_runtime) == (600, 600)


def test_a_job_of_which_nothing_is_known_is_planned_with_the_default_of_its_queue(quay: Quay) -> None:
    blocks = quay.submit("blocks", script=Script(duration_seconds=None), resources=ALL)
    quay.turn(2)
    lasting, queue = Script(duration_seconds=1_000), top_queue(quay.cast.tenant)
    usual = quay.submit("usual", script=lasting, resources=ALL)
    set_rules(actor=quay.cast.otto.actor, queue=queue, rules={"default_runtime_seconds": 300}, now=quay.now)
    short = quay.submit("short", script=lasting, resources=ALL)
    limited = quay.submit("limited", script=lasting, resources=ALL, max_runtime="1h")
    quay.turn()
    waiting = [core(quay).ordering.job(str(job.id)) for job in (usual, short, limited)]
    assert [(job.predicted, job.cautious) for job in waiting if job is not None] == [(None, None), (300, 300), (None, None)]
    assert order(core(quay), [usual, short, limited]) == ["short", "limited", "usual"]
    assert order(build(load_state(quay.now).state), [usual, short, limited]) == ["short", "limited", "usual"]
    planned = [planned_seconds(job, core(quay).policy) for job in waiting if job is not None]
    assert planned[0] == 86_400
    assert 300 <= planned[1] < 350, "rounded up by an eighth at most"
    quay.stop(blocks)
    quay.turn(3)
    assert quay.state(short) == "running"


def test_history_counts_before_the_default_of_a_queue(quay: Quay) -> None:
    set_rules(actor=quay.cast.otto.actor, queue=top_queue(quay.cast.tenant), rules={"default_runtime_seconds": 300}, now=quay.now)
    a_full_cluster_with_a_history(quay)
    long, _, short = three_that_wait(quay)
    assert order(core(quay), [long, short]) == ["test", "train"]
    assert (quay.job(long.id).cautious_seconds or 0) > 1_000
