"""One row at which the platform fails: it is found, tried three times, set aside with a reason. The others notice nothing.

The rows are really broken - a stored spec that nobody can read, an observation that the database refuses, a sealed secret of
another key - and the reconcilers are the real ones, on the clock of the test.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace

import pytest
from django.db import OperationalError, connection

from activity.models import Delivery, Event
from activity.notifications import deliver, fan_out
from activity.notifications.sealing import seal
from activity.sequencer import sequence
from clusters.engines.fake import Script
from clusters.engines.interface import Observations
from images.models import BuildRequest
from jobs.lifecycle.reasons import explain
from jobs.loading.specs import forget_specs
from jobs.models import Attempt, Job, StoredSpec
from jobs.reconcile import builds, finish, stopping
from kernel.errors import Unavailable
from reconciling import poison
from reconciling.models import Poison
from tenants.models import Reservation
from tests.builders.quay import Quay
from tests.factories.images import make_image, request_of

pytestmark = pytest.mark.database

GOOD_JOBS = 20
BROKEN = "{"


@pytest.fixture(autouse=True)
def _fresh_specs() -> Iterator[None]:
    """What a process remembers of stored specs hides that they are broken."""
    yield
    forget_specs()


def break_spec(job: Job) -> str:
    """Store what no release could read; gives what was there."""
    own = StoredSpec.objects.get(id=job.spec_id)
    StoredSpec.objects.filter(id=own.id).update(document=BROKEN)
    forget_specs()
    return own.document


def mend_spec(job: Job, document: str) -> None:
    StoredSpec.objects.filter(id=job.spec_id).update(document=document)
    forget_specs()


def several(quay: Quay, number: int = GOOD_JOBS) -> list[Job]:
    return [quay.submit(f"good-{place}", resources={"cpu": 0.1, "memory": "16Mi"}) for place in range(number)]


def states(quay: Quay, jobs: list[Job]) -> set[str]:
    return {quay.state(job) for job in jobs}


def turn_through_tries(quay: Quay) -> None:
    """Past three tries and the pauses between them."""
    for _ in range(12):
        quay.turn()
        quay.pass_time(1)


# --- The mechanism ------------------------------------------------------------------------------------------------------


def test_only_the_rows_that_raise_are_struck_and_the_others_are_done_once(quay: Quay) -> None:
    ids = [uuid.uuid4() for _ in range(100)]
    bad, done = {ids[13], ids[77]}, []

    def work(part: list[uuid.UUID]) -> None:
        if bad & set(part):
            raise ValueError("this row is broken")
        done.extend(part)

    struck = poison.work_through("test", ids, work, now=quay.now, key=lambda row_id: row_id)
    assert {item.id for item in struck} == bad
    assert sorted(done) == sorted(set(ids) - bad)
    assert [(item.tries, item.error, item.is_set_aside) for item in struck] == [(1, "ValueError: this row is broken", False)] * 2


def test_the_third_strike_sets_aside_and_a_success_forgives_everything(quay: Quay) -> None:
    row, broken = uuid.uuid4(), [True]

    def work(part: list[uuid.UUID]) -> None:
        if broken:
            raise KeyError("x")

    seen = []
    for _ in range(10):
        seen += poison.work_through("test", [row], work, now=quay.now, key=lambda row_id: row_id)
        quay.pass_time(2)
    assert [item.tries for item in seen] == [1, 2, 3]
    assert [item.is_set_aside for item in seen] == [False, False, True]
    assert poison.count_set_aside() == {"test": 1}
    broken.clear()
    quay.pass_time(600)
    assert poison.work_through("test", [row], work, now=quay.now, key=lambda row_id: row_id) == []
    assert poison.strikes("test") == {}


@pytest.mark.parametrize("error", [OperationalError("server closed the connection"), ConnectionResetError(), OSError(28, "full")])
def test_what_everything_stands_on_blames_no_row(quay: Quay, error: Exception) -> None:
    def work(part: list[uuid.UUID]) -> None:
        raise error

    with pytest.raises(type(error)):
        poison.work_through("test", [uuid.uuid4()], work, now=quay.now, key=lambda row_id: row_id)
    assert not Poison.objects.exists()


def test_a_handler_that_fails_at_everything_blames_no_row(quay: Quay) -> None:
    def work(part: list[uuid.UUID]) -> None:
        raise TypeError("a bug of the release")

    with pytest.raises(TypeError):
        poison.work_through("test", [uuid.uuid4() for _ in range(50)], work, now=quay.now, key=lambda row_id: row_id)
    assert not Poison.objects.exists()


def test_strikes_of_rows_that_are_gone_are_forgotten(quay: Quay) -> None:
    def work(part: list[uuid.UUID]) -> None:
        raise ValueError

    poison.work_through("test", [uuid.uuid4()], work, now=quay.now, key=lambda row_id: row_id)
    quay.pass_time(86_000)
    assert poison.forget_old(quay.now) == 0
    quay.pass_time(1_000)
    assert poison.forget_old(quay.now) == 1


# --- Jobs ---------------------------------------------------------------------------------------------------------------


def test_a_waiting_job_whose_spec_cannot_be_read_lets_the_others_pass_and_says_why_it_waits(quay: Quay) -> None:
    bad = quay.submit("bad")
    document = break_spec(bad)
    good = several(quay)
    quay.turn(4)
    assert states(quay, good) == {"succeeded"}, "the others took no longer than alone"
    turn_through_tries(quay)
    assert (quay.state(bad), quay.reason(bad)) == ("queued", "set_aside")
    stored = quay.job(bad.id)
    assert "failed three times to process this job (" in explain(stored.reason_code, stored.reason_detail).text
    mend_spec(bad, document)
    quay.pass_time(600)
    quay.settle()
    assert quay.state(bad) == "succeeded"
    assert poison.strikes("jobs.schedule") == {}


def test_a_waiting_job_that_was_set_aside_can_be_stopped(quay: Quay) -> None:
    bad = quay.submit("bad")
    break_spec(bad)
    turn_through_tries(quay)
    quay.stop(bad)
    assert quay.state(bad) == "stopped"


def test_an_attempt_that_cannot_be_launched_fails_its_job_and_holds_nothing(quay: Quay) -> None:
    bad, good = quay.submit("bad"), several(quay)
    quay.schedule()
    assert quay.state(bad) == "admitted"
    break_spec(bad)
    quay.turn(3)
    assert states(quay, good) == {"succeeded"}
    turn_through_tries(quay)
    ended = quay.job(bad.id)
    assert (ended.state, ended.exit["class"]) == ("failed", "platform_defect")
    assert ended.exit["evidence"]
    assert ended.attempt_count == 1
    assert not Reservation.objects.filter(released_at__isnull=True).exists()
    assert quay.engine.observe(None).items == () or all(item.tasks for item in quay.engine.observe(None).items)


def test_a_running_job_whose_spec_became_unreadable_runs_on_and_its_end_is_seen(quay: Quay) -> None:
    bad = quay.submit("bad", script=Script(duration_seconds=60))
    quay.turn(2)
    assert quay.state(bad) == "running"
    break_spec(bad)
    good = several(quay)
    quay.turn(4)
    assert states(quay, good) == {"succeeded"}
    turn_through_tries(quay)
    assert (quay.state(bad), quay.job(bad.id).condition) == ("running", "set_aside")
    quay.pass_time(60)
    quay.turn(3)
    assert quay.state(bad) == "succeeded"


def test_a_running_job_whose_spec_became_unreadable_can_be_stopped(quay: Quay) -> None:
    bad = quay.submit("bad", script=Script(duration_seconds=10_000))
    quay.turn(2)
    break_spec(bad)
    quay.stop(bad, grace_seconds=1)
    turn_through_tries(quay)
    turn_through_tries(quay)
    assert quay.state(bad) == "stopped"
    assert not Reservation.objects.filter(released_at__isnull=True).exists()


def test_what_an_engine_says_that_no_database_can_hold_delays_nobody(quay: Quay, monkeypatch: pytest.MonkeyPatch) -> None:
    bad, good = quay.submit("bad"), several(quay)
    quay.turn()
    attempt = Attempt.objects.get(job_id=bad.id)
    observe = quay.engine.observe

    def strange(cursor: str | None) -> Observations:
        """A node name with a NUL for one attempt: PostgreSQL refuses it, and SQLite is made to."""
        found = observe(cursor)
        return replace(found, items=tuple(_with_nul(item) if item.attempt_id == attempt.id else item for item in found.items))

    monkeypatch.setattr(quay.engine, "observe", strange)
    if connection.vendor == "sqlite":
        from reconciling import bulk

        update = bulk.update

        def refusing(model, rows, **options):  # type: ignore[no-untyped-def]
            if any("\0" in str(value) for row in rows for value in row.values()):
                raise ValueError("A string literal cannot contain NUL (0x00) characters.")
            return update(model, rows, **options)

        monkeypatch.setattr("jobs.reconcile.record.bulk.update", refusing)
    quay.turn(4)
    assert states(quay, good) == {"succeeded"}
    turn_through_tries(quay)
    assert quay.state(bad) == "succeeded"


def _with_nul(item):  # type: ignore[no-untyped-def]
    return replace(item, tasks=tuple(replace(task, node="node\0one") for task in item.tasks))


def test_outputs_that_cannot_be_brought_home_keep_no_other_attempt(quay: Quay, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = quay.submit("bad")
    good = several(quay, 5)
    quay.schedule()
    for _ in range(3):
        quay.turn()
        break_spec_once(bad)
    turn_through_tries(quay)
    assert states(quay, good) == {"succeeded"}
    assert set(Attempt.objects.filter(job__in=good).values_list("forgotten", flat=True)) == {True}
    if not Attempt.objects.get(job_id=bad.id).forgotten:
        assert finish.finish(quay.cluster.pk) == 0, "it is tried every ten minutes, not all the time"


def break_spec_once(job: Job) -> None:
    if StoredSpec.objects.get(id=job.spec_id).document != BROKEN:
        break_spec(job)


def test_a_build_request_that_cannot_be_started_fails_alone(quay: Quay, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    def start(request):  # type: ignore[no-untyped-def]
        if request.id == bad:
            raise KeyError("requirements")
        started.append(request.id)

    bad, good = uuid.uuid4(), [uuid.uuid4() for _ in range(5)]
    requests = [builds.PendingBuild(image_id, uuid.uuid4(), uuid.uuid4(), "image", "digest", None) for image_id in [bad, *good]]
    told = []
    monkeypatch.setattr(builds, "pending_builds", lambda limit: requests)
    monkeypatch.setattr(builds, "_start", start)
    monkeypatch.setattr(builds, "build_finished", lambda request_id, **facts: told.append((request_id, facts["reason"])))
    for _ in range(12):
        builds.start_builds()
        quay.pass_time(1)
    assert set(started) == set(good)
    assert told == [(bad, "Berth failed three times at it: KeyError: 'requirements'")]
    assert not BuildRequest.objects.exists()


# --- Telling ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def subscribed(quay: Quay) -> None:
    from activity.models import Subscription

    for address in range(2):
        Subscription.objects.create(
            id=uuid.uuid4(),
            user_id=quay.cast.bob.user.id,
            channel="webhook",
            target=f"http://127.0.0.1:9/{address}",
            kinds=["succeeded"],
            jobs="mine",
            secret_sealed="sealed with a key that is lost" if address == 0 else seal("a key"),
            is_active=True,
            created_at=quay.now,
        )


@pytest.mark.usefixtures("subscribed")
def test_an_event_that_cannot_be_told_keeps_none_of_those_that_follow(quay: Quay, monkeypatch: pytest.MonkeyPatch) -> None:
    good = several(quay, 6)
    quay.settle()
    sequence(quay.now)
    bad = Event.objects.filter(kind="job.succeeded", subject_id=good[2].id).get()
    from activity.notifications import fanout

    payload_of = fanout.payload_of

    def refusing(event, kind, notice):  # type: ignore[no-untyped-def]
        if event.seq == bad.seq:
            raise KeyError("reason")
        return payload_of(event, kind, notice)

    monkeypatch.setattr(fanout, "payload_of", refusing)
    for _ in range(3):
        fan_out(quay.now)
    told = set(Delivery.objects.values_list("job_id", flat=True))
    assert told == {job.id for job in good} - {good[2].id}


@pytest.mark.usefixtures("subscribed")
def test_a_message_that_makes_us_fail_is_given_up_after_three_tries_and_fails_no_other(quay: Quay) -> None:
    quay.submit("train")
    quay.settle()
    sequence(quay.now)
    fan_out(quay.now)
    for _ in range(4):
        deliver(quay.now)
        quay.pass_time(4_000)
    poisoned, other = Delivery.objects.order_by("subscription__target")
    assert (poisoned.state, poisoned.tries) == ("failed", 3)
    assert "Berth failed at this message" in poisoned.last_error
    assert other.tries == 1
    assert "Port 9" in other.last_error


# --- Bounded looks --------------------------------------------------------------------------------------------------------


def test_jobs_at_whose_stop_the_platform_fails_keep_no_other_from_its_stop(quay: Quay, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many fail as one look takes in; they rest, and the next look takes in those behind them."""
    jobs = several(quay, 3)
    quay.schedule()
    Job.objects.filter(id__in=[job.id for job in jobs]).update(desired="stop")
    bad = {job.id for job in jobs[:2]}
    enforced = stopping.stop_attempts

    def refusing(rows, **facts):  # type: ignore[no-untyped-def]
        if rows[0][0] in bad:
            raise KeyError("state")
        return enforced(rows, **facts)

    monkeypatch.setattr(stopping, "stop_attempts", refusing)
    for _ in range(2):
        stopping.enforce_desired(limit=2)
    assert Attempt.objects.get(job=jobs[2]).state == "stopping"
    assert {Attempt.objects.get(job_id=job_id).state for job_id in bad} == {"admitted"}


def test_a_build_to_which_something_is_unavailable_keeps_no_other_from_its_job(
    quay: Quay, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = [make_image(quay.cast.tenant, f"env-{number}", requirements=f"numpy=={number}") for number in range(5)]
    bad, *good = [request_of(image) for image in images]
    BuildRequest.objects.update(requested_by_id=quay.cast.bob.user.pk)
    begin, ill = builds.submit, {bad, good[0]}

    def submit(submissions, *, origin, **facts):  # type: ignore[no-untyped-def]
        if origin.build_request_id in ill:
            raise Unavailable("Not now.")
        return begin(submissions, origin=origin, **facts)

    monkeypatch.setattr(builds, "submit", submit)
    monkeypatch.setattr(builds, "BATCH_REQUESTS", 2)
    with pytest.raises(Unavailable):
        builds.start_builds()
    states = dict(BuildRequest.objects.values_list("id", "state"))
    assert {build_id for build_id, state in states.items() if state == "queued"} == ill
    assert set(Job.objects.values_list("build_request_id", flat=True)) == set(good[1:])
    ill.clear()
    assert builds.start_builds() == 2
