"""The driver keeps one core for as long as the same things are around, and makes another only when they are not."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import OperationalError
from structlog.testing import capture_logs

from clusters.engines.fake import Script
from clusters.models import Node
from clusters.services import record_inventory
from jobs.loading import memory
from jobs.loading import state as loading
from jobs.loading.rows import load_pending
from jobs.loading.state import load_state
from jobs.models import Job, SchedulerMemory
from jobs.prometheus import job_metrics
from jobs.reconcile import finish, poll, stopping
from jobs.reconcile.driver import driver
from jobs.reconcile.driver.kept_core import REST_SECONDS
from jobs.reconcile.missed_wakeups import missed_wakeups
from jobs.scheduling.core.snapshot import build
from jobs.scheduling.core.state import work
from jobs.scheduling.replay.log import Started
from jobs.services.edit import edit_job
from kernel.config import current
from tenants.capacity.quota.accounting import mark
from tenants.capacity.services.queues import create_queue
from tests.builders.quay import Quay
from tests.factories.clusters import inventory, node_facts
from tests.factories.tenants import make_queue, top_queue

pytestmark = pytest.mark.database

ENDLESS = Script(duration_seconds=1_000_000)
ALL = {"resources": {"cpu": 8, "memory": "1Gi"}}


def core(quay: Quay) -> object:
    return quay.driver.kept.core


def test_jobs_that_come_run_and_end_need_no_new_core(quay: Quay) -> None:
    quay.submit("first", script=Script(duration_seconds=3), **ALL)
    quay.turn()
    kept = core(quay)
    quay.submit("second", script=ENDLESS, **ALL)
    for _ in range(4):
        quay.turn()
        quay.pass_time(2)
    assert core(quay) is kept
    assert quay.state(Job.objects.get(name="second")) == "running"


def test_a_node_that_goes_away_and_comes_back_needs_no_new_core_and_a_further_node_does(quay: Quay) -> None:
    waits = quay.submit("waits", script=ENDLESS, **ALL)
    Node.objects.update(ready=False, reason="rebooting")
    quay.turn()
    kept = core(quay)
    assert quay.reason(waits) == "no_ready_node"
    Node.objects.update(ready=True)
    quay.turn(2)
    assert core(quay) is kept
    assert quay.state(waits) == "running"
    record_inventory(quay.cluster.pk, inventory(*quay.nodes, node_facts("node-2", cores=8), read_at=quay.now), quay.now)
    more = quay.submit("more", script=ENDLESS, **ALL)
    quay.schedule()
    assert core(quay) is not kept
    assert quay.state(more) == "admitted"


def test_a_queue_that_is_made_later_is_served(quay: Quay) -> None:
    quay.submit("first", script=ENDLESS)
    quay.turn()
    create_queue(actor=quay.cast.otto.actor, tenant_id=quay.cast.tenant.pk, name="later", parent_id=None, now=quay.now)
    job = quay.submit("in-it", script=ENDLESS, queue="later")
    quay.turn(2)
    assert quay.state(job) == "running"


def test_of_two_jobs_that_wait_for_times_one_withdrawn_keeps_the_other_from_nothing(quay: Quay) -> None:
    """The time of one has come at the very look at which the other, whose time came before, is gone."""
    soon, later = quay.now + timedelta(seconds=5), quay.now + timedelta(seconds=10)
    first = quay.submit("first", script=ENDLESS, start_after=soon.isoformat(), hold=True)
    second = quay.submit("second", script=ENDLESS, start_after=later.isoformat())
    quay.turn()
    quay.pass_time(6)
    quay.turn()
    quay.stop(first)
    quay.pass_time(5)
    quay.turn(2)
    assert (quay.state(first), quay.state(second)) == ("stopped", "running")


def test_what_is_read_whole_for_a_question_decides_as_the_core_that_was_kept(quay: Quay) -> None:
    running = quay.submit("runs", script=ENDLESS, resources={"cpu": 6, "memory": "1Gi"})
    quay.turn(2)
    large = quay.submit("large", script=ENDLESS, **ALL)
    quay.turn()
    small = quay.submit("small", script=ENDLESS, resources={"cpu": 2, "memory": "1Gi"})
    loaded = load_state(quay.now)
    asked = build(loaded.state)
    decided = {decision.id: type(decision).__name__ for decision in asked.decide(mark(quay.now))}
    assert decided == {str(large.id): "Wait", str(small.id): "Admit"}
    assert loaded.attempts.keys() == {str(running.id)}
    quay.turn(2)
    assert (quay.state(large), quay.state(small)) == ("queued", "running")


def test_the_scheduler_knows_the_grace_that_a_job_asks_for(quay: Quay) -> None:
    quay.submit("saves", checkpoint={"path": "ckpt", "grace": "10m"})
    quay.submit("plain")
    state = load_state(quay.now).state
    assert sorted((job.grace_seconds or 0) for job in state.waiting) == [0, 600]


def test_a_job_that_was_started_by_the_leader_before_is_known_to_the_next(quay: Quay) -> None:
    quay.submit("runs", script=ENDLESS, resources={"cpu": 6, "memory": "1Gi"})
    quay.turn(2)
    quay.driver.forget()
    waits = quay.submit("waits", script=ENDLESS, resources={"cpu": 6, "memory": "1Gi"})
    quay.turn(2)
    assert (quay.state(waits), quay.reason(waits)) == ("queued", "no_room")
    assert uuid.UUID(next(iter(quay.driver.kept.core.running))) != waits.id  # type: ignore[union-attr]


def test_what_was_used_in_the_past_outlives_the_leader(quay: Quay) -> None:
    quay.submit("runs", script=ENDLESS, resources={"cpu": 6, "memory": "1Gi"})
    quay.turn(2)
    for _ in range(3):
        quay.pass_time(61)
        quay.submit("waits", script=ENDLESS, **ALL)
        quay.turn()
    known = memory.load()
    assert known.history
    assert {queue_id for queue_id, _, _ in known.history} >= {top_queue(quay.cast.tenant).pk}
    quay.driver.forget()
    quay.turn()
    kept = quay.driver.kept.core.shares.history()  # type: ignore[union-attr]
    assert set(kept.values()) == set(known.history.values())


def test_a_change_whose_reading_failed_is_read_again_at_the_next_look(quay: Quay, monkeypatch: pytest.MonkeyPatch) -> None:
    """As while a table is locked: the event is over, and no sweep is due."""
    quay.submit("first", script=ENDLESS)
    quay.turn(2)
    waits = quay.submit("second", script=ENDLESS)
    with monkeypatch.context() as locked:
        locked.setattr("jobs.reconcile.driver.changes.load_live", refuse)
        with pytest.raises(OperationalError):
            quay.schedule()
    quay.driver.changes.full_load_at = float("inf")
    quay.schedule()
    assert quay.state(waits) == "admitted"


def refuse(**_: object) -> None:
    raise OperationalError("canceling statement due to lock timeout")


@pytest.mark.capability("6.11", "A planned start is kept by the next leader, and known to whoever asks")
def test_a_booked_start_is_known_to_whoever_asks_and_kept_by_the_next_leader(quay: Quay) -> None:
    """Another queue that holds nothing would be first by now; the reserved start before is kept all the same."""
    make_queue(quay.cast.tenant, "day")
    quay.submit("runs", script=ENDLESS, resources={"cpu": 6, "memory": "1Gi"}, max_runtime="100s")
    quay.turn(2)
    first = quay.submit("first", **ALL, max_runtime="1h")
    quay.schedule()
    (kept,) = quay.driver.kept.core.reservations.kept()  # type: ignore[union-attr]
    assert kept.id == str(first.id)
    quay.pass_time(10)
    later = quay.submit("later", queue="day", **ALL, max_runtime="1h")
    quay.schedule()

    asked = build(load_state(quay.now).state)
    asked.decide(mark(quay.now))
    assert [(reservation.id, reservation.at) for reservation in asked.reservations.kept()] == [(kept.id, kept.at)]

    quay.driver.forget()
    quay.schedule()
    assert [(reservation.id, reservation.at) for reservation in quay.driver.kept.core.reservations.kept()] == [(kept.id, kept.at)]  # type: ignore[union-attr]
    assert {quay.reason(first), quay.reason(later)} <= {"no_room", "backfill_reservation"}

    without = build(replace(load_state(quay.now).state, reserved=()))
    without.decide(mark(quay.now))
    assert [reservation.id for reservation in without.reservations.kept()] == [str(later.id)], (
        "what was not kept would have gone to another"
    )


def test_a_booked_start_of_a_job_that_asks_for_something_else_by_now_is_not_kept(quay: Quay) -> None:
    quay.submit("runs", script=ENDLESS, resources={"cpu": 6, "memory": "1Gi"}, max_runtime="100s")
    quay.turn(2)
    quay.submit("first", **ALL, max_runtime="1h")
    quay.schedule()
    state = load_state(quay.now).state
    (kept,) = state.reserved
    smaller = replace(kept.tasks[0], ask=replace(kept.tasks[0].ask, cpu_millis=4000))
    core = build(replace(state, reserved=(kept._replace(tasks=(smaller,)),)))
    assert core.reservations.kept() == ()


def test_the_time_of_a_pass_is_read_once_changes_have_been_taken_in(quay: Quay, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a job that came in between would be admitted before it was submitted."""
    quay.submit("comes")
    known: list[int] = []
    monkeypatch.setattr(driver, "database_now", lambda: known.append(len(quay.driver.pending.rows)) or quay.now)
    quay.driver.run()
    assert known == [1]


def test_a_job_that_a_change_failed_to_wake_starts_once_nothing_happens_any_more(quay: Quay) -> None:
    """The core believes in something that runs and does not; no event will ever tell it otherwise."""
    waits = quay.submit("waits", script=ENDLESS, hold=True, **ALL)
    quay.turn()
    mistaken = build(load_state(quay.now).state)
    mistaken.submit(replace(mistaken_job(quay, waits), id="nobody-knows-it"))
    [admit] = [decision for decision in mistaken.decide(mark(quay.now)) if type(decision).__name__ == "Admit"]
    quay.driver.kept.feed(Started(replace(mistaken_job(quay, waits), id="nobody-knows-it"), admit.placed, mark(quay.now), ()))
    edit_job(actor=quay.cast.otto.actor, job=waits, changes={"hold": False}, expected_version=None, now=quay.now)
    quay.turn()
    assert quay.state(waits) == "queued"
    assert missed_wakeups() == 0
    quay.pass_time(REST_SECONDS)
    with capture_logs() as logs:
        quay.turn(3)
    assert quay.state(waits) == "running"
    assert [event["jobs"] for event in logs if event["event"] == "missed_wakeups"] == [[str(waits.id)]]
    assert missed_wakeups() == 1
    (family,) = [metric for metric in job_metrics(quay.now) if metric.name == "berth_scheduler_missed_wakeups"]
    assert [sample.value for sample in family.samples if sample.name.endswith("_total")] == [1]


def test_a_core_that_is_built_anew_and_decides_alike_has_missed_nothing(quay: Quay) -> None:
    quay.submit("runs", script=ENDLESS, **ALL)
    waits = quay.submit("waits", script=ENDLESS, **ALL)
    quay.turn(2)
    kept = core(quay)
    quay.pass_time(REST_SECONDS)
    quay.turn(2)
    assert core(quay) is not kept
    assert quay.state(waits) == "queued"
    assert missed_wakeups() == 0


def test_what_time_alone_brings_when_the_core_is_built_anew_was_not_missed(quay: Quay) -> None:
    """Once it has run for the least run time, the one of lower priority makes room."""
    runs = quay.submit("runs", script=ENDLESS, priority="low", **ALL)
    quay.turn(2)
    waits = quay.submit("waits", script=ENDLESS, **ALL)
    quay.turn()
    quay.pass_time(REST_SECONDS)
    quay.schedule()
    kept = core(quay)
    quay.pass_time(current().scheduler_least_runtime_seconds)
    quay.schedule()
    assert core(quay) is not kept
    assert (quay.state(runs), quay.reason(waits)) == ("stopping", "making_room")
    assert missed_wakeups() == 0


def mistaken_job(quay: Quay, job: Job) -> work.JobAsk:
    """The job as the core has it, held by nothing."""
    return replace(quay.driver.kept.waiting[str(job.pk)], withheld=None)


def test_a_state_that_is_read_while_a_job_starts_has_it_once(quay: Quay, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits is read before what runs: a job that is admitted between the two is found in both."""
    job = quay.submit("starts", script=ENDLESS, **ALL)
    rows = list(load_pending({}))
    quay.turn(2)
    monkeypatch.setattr(loading, "load_pending", lambda shared: iter(rows))  # As it was a moment before.
    loaded = load_state(quay.now)
    assert build(loaded.state).running.keys() == {str(job.id)}


def two_claims(quay: Quay) -> tuple[Job, Job]:
    """Four jobs run; two of a higher priority wait until all of them have left."""
    low = [
        quay.submit(f"low-{number}", script=ENDLESS, priority="low", resources={"cpu": 2, "memory": "1Gi"}) for number in range(4)
    ]
    quay.turn(2)
    assert [quay.state(job) for job in low] == ["running"] * 4
    quay.pass_time(400)
    wide = {"resources": {"cpu": 4, "memory": "1Gi"}}
    first, second = quay.submit("first", script=ENDLESS, **wide), quay.submit("second", script=ENDLESS, **wide)
    quay.schedule()
    assert {quay.reason(first), quay.reason(second)} == {"making_room"}
    return first, second


def test_claims_stand_where_they_stood_with_the_next_leader_and_for_whoever_asks(quay: Quay) -> None:
    jobs = two_claims(quay)
    kept = quay.driver.kept.core.claims()  # type: ignore[union-attr]
    assert {claim.id for claim in kept} == {str(job.id) for job in jobs}

    assert build(load_state(quay.now).state).claims() == kept
    quay.driver.forget()
    quay.schedule()
    assert quay.driver.kept.core.claims() == kept  # type: ignore[union-attr]
    quay.turn(4)
    quay.pass_time(60)
    quay.turn(4)
    assert [quay.state(job) for job in jobs] == ["running"] * 2


def test_a_claim_whose_room_is_clear_outlives_the_leader_that_had_not_seen_it(quay: Quay) -> None:
    """All who left for it are gone; a tenant that holds nothing does not get the room."""
    jobs = two_claims(quay)
    for _ in range(3):  # Those who leave end; the leader does not look.
        stopping.stop(quay.cluster.pk)
        poll.poll(quay.cluster.pk)
        finish.finish(quay.cluster.pk)
        quay.pass_time(60)
    assert set(Job.objects.filter(name__startswith="low").values_list("state", flat=True)) == {"queued"}
    quay.submit("of-another-tenant", by=quay.cast.carol, script=ENDLESS, **ALL)
    quay.driver.forget()
    quay.turn(2)
    assert [quay.state(job) for job in jobs] == ["running"] * 2


def test_a_claim_that_cannot_be_read_or_is_of_a_machine_that_is_gone_is_made_anew(quay: Quay) -> None:
    jobs = two_claims(quay)
    row = SchedulerMemory.objects.get(id=memory.ROW)
    for kept in row.document["claimed"]:
        kept[3][0][3] = "a-machine-that-is-gone"
    row.save()
    assert load_state(quay.now).state.claims == ()
    quay.driver.forget()
    quay.schedule()
    assert {claim.id for claim in quay.driver.kept.core.claims()} <= {str(job.id) for job in jobs}  # type: ignore[union-attr]
    quay.turn(4)
    quay.pass_time(60)
    quay.turn(6)
    assert [quay.state(job) for job in jobs] == ["running"] * 2
