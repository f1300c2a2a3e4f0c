"""Tenants that share one cluster: who borrows, who gets back what, and that a change of leaders takes nothing from anybody."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from clusters.engines.fake import Script
from jobs.lifecycle.reasons import explain
from jobs.loading.state import OVERRUN_SECONDS
from jobs.models import Attempt, DecisionRecord, Job
from kernel import clock
from kernel.config import current
from kernel.words import format_moment
from tenants.models import Booking, LedgerEntry, Queue, QueueLimit, QueueUsage, Reservation, UserCap
from tests.builders.quay import Quay
from tests.factories.clusters import node_facts
from tests.factories.tenants import Cast, top_queue

pytestmark = pytest.mark.database

ENDLESS = Script(duration_seconds=1_000_000)
OLD = 400  # Seconds after which work may be evicted.


@pytest.fixture
def twelve(cast: Cast) -> Iterator[Quay]:
    """Twelve GPUs on three machines."""
    made = Quay(cast, nodes=[node_facts(f"node-{number}", cores=64, gpus=4) for number in range(3)])
    with clock.virtual(lambda: made.now):
        yield made


def deserve(quay: Quay, queue: Queue, gpus: int, *, guarantee: int = 0) -> None:
    QueueLimit.objects.create(
        queue=queue, pool_id=quay.pool.pk, resource="gpu_millis", deserved=gpus * 1000, guarantee=guarantee * 1000
    )


def gang(tasks: int, gpus: int = 1) -> dict[str, object]:
    return {"roles": {"worker": {"command": "true", "replicas": tasks, "resources": {"gpu": gpus, "memory": "1Gi"}}}}


def gpus_held(quay: Quay, job: Job) -> int:
    rows = Reservation.objects.filter(job_id=job.id, released_at__isnull=True).values_list("gpu_millis", flat=True)
    return sum(rows) // 1000


@pytest.mark.capability("15", "gang: all tasks of a gang start or none")
@pytest.mark.capability("18", "Four gangs of four on twelve cards: three run, the fourth holds none, also under another leader")
def test_of_four_gangs_of_four_on_twelve_cards_three_run_and_the_fourth_holds_none(twelve: Quay) -> None:
    jobs = [twelve.submit(f"gang-{number}", script=ENDLESS, **gang(4)) for number in range(4)]
    twelve.turn(2)
    assert [twelve.state(job) for job in jobs] == ["running", "running", "running", "queued"]
    assert [gpus_held(twelve, job) for job in jobs] == [4, 4, 4, 0]
    assert twelve.reason(jobs[3]) == "no_room"
    twelve.driver.forget()
    twelve.turn(2)
    assert [gpus_held(twelve, job) for job in jobs] == [4, 4, 4, 0]
    twelve.stop(jobs[1])
    go_on(twelve)
    assert twelve.state(jobs[3]) == "running"


def go_on(quay: Quay) -> None:
    """Time enough for those who make way to be gone, and for whoever waits for it to start."""
    for _ in range(5):
        quay.turn()
        quay.pass_time(2)


@pytest.mark.parametrize("own_grace", [None, 600])
def test_who_waits_for_its_own_machines_is_told_that_it_starts_once_the_longest_grace_is_over(
    twelve: Quay, api: Callable[..., Any], own_grace: int | None
) -> None:
    more = {} if own_grace is None else {"checkpoint": {"path": "ckpt", "grace": f"{own_grace}s"}}
    deserve(twelve, top_queue(twelve.cast.tenant), 8)
    deserve(twelve, top_queue(twelve.cast.elsewhere), 4)
    for number in range(6):
        twelve.submit(f"borrowed-{number}", script=ENDLESS, **gang(2), **more)
    twelve.turn(2)
    twelve.pass_time(OLD)
    owed = twelve.submit("owed", by=twelve.cast.carol, script=ENDLESS, **gang(4))
    twelve.schedule()
    grace = current().grace_seconds if own_grace is None else own_grace
    by = twelve.now.replace(microsecond=0) + timedelta(seconds=grace + OVERRUN_SECONDS)
    detail = Job.objects.get(id=owed.id).reason_detail
    assert datetime.fromisoformat(detail["at"]) == by
    assert f"starts by {format_moment(detail['at'])} at the latest" in explain("making_room", detail).text

    twelve.driver.forget()  # Another leader, later, tells the same.
    twelve.pass_time(5)
    twelve.schedule()
    assert Job.objects.get(id=owed.id).reason_detail["at"] == detail["at"]
    told = api(twelve.cast.carol).get(f"/api/v1/jobs/{owed.id}/explain?quick=true").json()
    assert (told["latest"]["kind"], datetime.fromisoformat(told["latest"]["at"])) == ("claim", by)
    assert format_moment(told["latest"]["at"]) in told["latest"]["text"]
    (condition,) = told["conditions"]
    assert (condition["code"], datetime.fromisoformat(condition["until"])) == ("claim", by)


def borrow_all(quay: Quay) -> list[Job]:
    """Bob's tenant deserves eight and Carol's four; Bob borrows what is idle, in gangs of two."""
    deserve(quay, top_queue(quay.cast.tenant), 8)
    deserve(quay, top_queue(quay.cast.elsewhere), 4)
    borrowed = [quay.submit(f"borrowed-{number}", script=ENDLESS, **gang(2)) for number in range(6)]
    quay.turn(2)
    assert {quay.state(job) for job in borrowed} == {"running"}
    return borrowed


@pytest.mark.capability("15", "capacity: what a queue deserves comes back to it on demand")
@pytest.mark.capability("21", "What is borrowed is given back on demand, and costs the victim no retry")
@pytest.mark.capability("98", "Borrowed capacity goes back on demand, and a guarantee stays idle for its owner")
def test_what_is_borrowed_is_given_back_on_demand_and_costs_the_victim_no_retry(twelve: Quay) -> None:
    borrowed = borrow_all(twelve)
    twelve.pass_time(OLD)
    owed = twelve.submit("owed", by=twelve.cast.carol, script=ENDLESS, **gang(4))
    twelve.schedule()
    assert twelve.reason(owed) == "making_room"
    assert "2 running jobs" in explain("making_room", Job.objects.get(id=owed.id).reason_detail).text
    stopping = [job for job in borrowed if twelve.state(job) == "stopping"]
    assert len(stopping) == 2
    assert {twelve.reason(job) for job in stopping} == {"making_way"}
    go_on(twelve)
    assert (twelve.state(owed), gpus_held(twelve, owed)) == ("running", 4)
    assert [twelve.state(job) for job in stopping] == ["queued", "queued"]
    for job in Job.objects.filter(id__in=[job.id for job in stopping]):
        assert job.paid.get("user", 0) == job.paid.get("platform", 0) == 0
    assert sum(gpus_held(twelve, job) for job in borrowed) == 8


@pytest.mark.capability("20", "A job that has just begun is not evicted, and the one that waits for it is told until when")
def test_work_that_has_just_begun_is_not_evicted_and_who_waits_is_told_until_when(twelve: Quay) -> None:
    borrow_all(twelve)
    owed = twelve.submit("owed", by=twelve.cast.carol, script=ENDLESS, **gang(4))
    twelve.turn(2)
    assert (twelve.state(owed), twelve.reason(owed)) == ("queued", "too_young")
    twelve.pass_time(OLD)
    go_on(twelve)
    assert twelve.state(owed) == "running"


@pytest.mark.capability("14", "Reclaim is a step that is switched off alone")
def test_where_reclaim_is_off_nobody_leaves_for_what_another_queue_deserves(twelve: Quay, configure: Any) -> None:
    configure(scheduler_reclaims=False, scheduler_rebalances=False)
    borrowed = borrow_all(twelve)
    twelve.pass_time(OLD)
    owed = twelve.submit("owed", by=twelve.cast.carol, script=ENDLESS, **gang(4))
    go_on(twelve)
    assert {twelve.state(job) for job in borrowed} == {"running"}
    assert twelve.state(owed) == "queued"


@pytest.mark.capability("20", "Nobody takes back what another deserves")
def test_nobody_takes_back_what_another_deserves(twelve: Quay) -> None:
    borrow_all(twelve)
    twelve.pass_time(OLD)
    first = twelve.submit("first", by=twelve.cast.carol, script=ENDLESS, **gang(4))
    go_on(twelve)
    more = twelve.submit("more", by=twelve.cast.carol, script=ENDLESS, **gang(2))
    twelve.pass_time(OLD)
    go_on(twelve)
    assert [twelve.state(job) for job in (first, more)] == ["running", "queued"]


@pytest.mark.capability("21", "A new leader knows for which job room is being cleared")
def test_a_new_leader_still_knows_whose_the_room_is_that_is_being_cleared(twelve: Quay) -> None:
    """The leader dies between the evictions and the start; meanwhile another asks for the same room."""
    borrowed = borrow_all(twelve)
    twelve.scripts.update({job.name: Script(duration_seconds=None, stop_seconds=None) for job in borrowed})
    twelve.pass_time(OLD)
    owed = twelve.submit("owed", by=twelve.cast.carol, script=ENDLESS, **gang(4))
    twelve.schedule()
    stopping = Attempt.objects.filter(state="stopping")
    assert set(stopping.values_list("evicted_for", flat=True)) == {owed.id}
    chosen = set(stopping.values_list("job_id", flat=True))
    twelve.driver.forget()
    twelve.submit("greedy", script=ENDLESS, **gang(2))
    twelve.schedule()
    assert twelve.reason(owed) == "making_room"
    assert set(Attempt.objects.filter(state="stopping").values_list("job_id", flat=True)) == chosen
    go_on(twelve)
    assert twelve.state(owed) == "running"


def test_a_claimant_that_is_stopped_leaves_its_room_to_others(twelve: Quay) -> None:
    borrow_all(twelve)
    twelve.pass_time(OLD)
    owed = twelve.submit("owed", by=twelve.cast.carol, script=ENDLESS, **gang(4))
    twelve.schedule()
    twelve.stop(owed, by=twelve.cast.carol)
    go_on(twelve)
    assert twelve.state(owed) == "stopped"
    assert Reservation.objects.filter(released_at__isnull=True).count() == 6


@pytest.mark.capability("21", "A guarantee is kept idle for its owner, and others are told")
@pytest.mark.capability("98", "Borrowed capacity goes back on demand, and a guarantee stays idle for its owner")
def test_a_guarantee_is_kept_idle_for_its_owner_and_others_are_told(twelve: Quay) -> None:
    deserve(twelve, top_queue(twelve.cast.elsewhere), 4, guarantee=4)
    jobs = [twelve.submit(f"job-{number}", script=ENDLESS, **gang(4)) for number in range(3)]
    twelve.turn(2)
    assert [twelve.state(job) for job in jobs] == ["running", "running", "queued"]
    assert twelve.reason(jobs[2]) == "kept_for_others"
    owner = twelve.submit("owner", by=twelve.cast.carol, script=ENDLESS, **gang(4))
    twelve.turn(2)
    assert twelve.state(owner) == "running"


@pytest.mark.capability("20", "In one queue a job of higher priority takes the room of a lower one, which waits again")
def test_higher_priority_of_one_queue_takes_the_room_of_lower(twelve: Quay) -> None:
    low = twelve.submit("low", script=ENDLESS, priority="low", **gang(12))
    twelve.turn(2)
    twelve.pass_time(OLD)
    high = twelve.submit("high", by=twelve.cast.alice, script=ENDLESS, priority="high", **gang(4))
    go_on(twelve)
    assert [twelve.state(job) for job in (low, high)] == ["queued", "running"]


@pytest.mark.capability("18", "An elastic gang gets as many tasks as there is room for, and is charged for these")
def test_an_elastic_gang_gets_as_many_tasks_as_there_is_room_for(twelve: Quay) -> None:
    fixed = twelve.submit("fixed", script=ENDLESS, **gang(7))
    twelve.turn(2)
    elastic = twelve.submit(
        "elastic",
        script=ENDLESS,
        roles={"worker": {"command": "true", "replicas": {"min": 2, "max": 9}, "resources": {"gpu": 1, "memory": "1Gi"}}},
    )
    twelve.turn(2)
    assert [twelve.state(job) for job in (fixed, elastic)] == ["running", "running"]
    assert gpus_held(twelve, elastic) == len(twelve.tasks(elastic)) == 5
    seen = {item.attempt_id: item for item in twelve.engine.observe(None).items}
    assert len(seen[twelve.attempts(elastic)[0].id].tasks) == 5


def test_a_limit_that_is_raised_lets_the_next_start_without_a_new_core(twelve: Quay) -> None:
    queue = top_queue(twelve.cast.tenant)
    limit = QueueLimit.objects.create(queue=queue, pool_id=twelve.pool.pk, resource="gpu_millis", ceiling=4000)
    jobs = [twelve.submit(f"job-{number}", script=ENDLESS, **gang(4)) for number in range(2)]
    twelve.turn(2)
    assert [twelve.reason(job) for job in jobs][1] == "ceiling"
    QueueLimit.objects.filter(id=limit.pk).update(ceiling=8000)
    QueueUsage.objects.filter(queue=queue).update(gpu_millis_max=8000)
    twelve.turn(2)
    assert twelve.state(jobs[1]) == "running"


@pytest.mark.capability("14", "Each step leaves a record of what it decided, by name of the job and with numbers")
@pytest.mark.capability("6.7", "Every start, claim, eviction and wait leaves a record")
def test_every_start_eviction_claim_and_wait_leaves_a_record(twelve: Quay) -> None:
    borrowed = borrow_all(twelve)
    assert set(kinds_of(borrowed[0])) == {"start"}
    owed = twelve.submit("owed", by=twelve.cast.carol, script=ENDLESS, **gang(4))
    twelve.schedule()
    twelve.pass_time(OLD)
    go_on(twelve)
    assert kinds_of(owed) == ["refuse", "claim", "wait_turned_start"]
    claim = DecisionRecord.objects.get(job_id=owed.id, kind="claim")
    victims = [job for job in borrowed if "evict" in kinds_of(job)]
    assert {victim["job"] for victim in claim.payload["victims"]} == {str(job.id) for job in victims}
    assert len(victims) == 2
    started = DecisionRecord.objects.get(job_id=owed.id, kind="wait_turned_start")
    assert started.payload["candidates"] == 3
    waiting = [kinds_of(job)[-1] for job in victims]
    assert "refuse" in waiting, "one for all that wait alike"
    twelve.turn(3)
    assert [kinds_of(job)[-1] for job in victims] == waiting, "what is as it was is not written again"


def kinds_of(job: Job) -> list[str]:
    return list(DecisionRecord.objects.filter(job_id=job.id).order_by("id").values_list("kind", flat=True))


@pytest.mark.capability("18", "An elastic gang gets as many tasks as there is room for, and is charged for these")
def test_an_elastic_job_is_charged_for_what_it_had(twelve: Quay) -> None:
    twelve.submit("fixed", script=ENDLESS, **gang(7))
    twelve.turn(2)
    replicas = {"min": 2, "max": 9}
    elastic = twelve.submit(
        "elastic",
        script=Script(duration_seconds=60),
        roles={"worker": {"command": "true", "replicas": replicas, "resources": {"gpu": 1, "memory": "1Gi"}}},
    )
    twelve.turn(2)
    twelve.pass_time(60)
    go_on(twelve)
    assert twelve.state(elastic) == "succeeded"
    assert LedgerEntry.objects.get(job_id=elastic.id).gpu_millis == 5_000


@pytest.mark.capability("24", "A cap on GPUs holds, and is told with its numbers")
def test_a_cap_on_one_user_holds_and_is_told_with_its_numbers(twelve: Quay) -> None:
    UserCap.objects.create(tenant=twelve.cast.tenant, user=None, gpu_millis=6_000)
    jobs = [twelve.submit(f"job-{number}", script=ENDLESS, **gang(4)) for number in range(2)]
    others = twelve.submit("others", by=twelve.cast.alice, script=ENDLESS, **gang(4))
    twelve.turn(2)
    assert [twelve.state(job) for job in (*jobs, others)] == ["running", "queued", "running"]
    assert twelve.reason(jobs[1]) == "user_cap"
    told = explain("user_cap", Job.objects.get(id=jobs[1].id).reason_detail).text
    assert ("4 GPUs" in told, "6 GPUs" in told) == (True, True), told
    twelve.stop(jobs[0])
    go_on(twelve)
    assert twelve.state(jobs[1]) == "running"


@pytest.mark.capability("23", "Admission keeps what is booked, and its owner starts at once")
def test_a_booking_is_cleared_in_time_and_its_owner_starts_at_once(twelve: Quay) -> None:
    begins = twelve.now + timedelta(hours=1)
    Booking.objects.create(
        tenant=twelve.cast.elsewhere, queue=top_queue(twelve.cast.elsewhere), pool_id=twelve.pool.pk, gpu_millis=4_000,
        starts_at=begins, ends_at=begins + timedelta(hours=2), created_at=twelve.now,
    )  # fmt: skip
    jobs = [twelve.submit(f"job-{number}", script=ENDLESS, **gang(4)) for number in range(3)]
    twelve.turn(2)
    assert {twelve.state(job) for job in jobs} == {"running"}, "until then it is everybody's"
    twelve.pass_time(3600 - 60)
    twelve.turn(2)
    assert {twelve.state(job) for job in jobs} == {"running"}
    twelve.pass_time(60)
    go_on(twelve)
    assert sorted(twelve.state(job) for job in jobs) == ["queued", "running", "running"]
    waits = next(job for job in jobs if twelve.state(job) == "queued")
    assert twelve.reason(waits) == "advance_reservation"
    owner = twelve.submit("owner", by=twelve.cast.carol, script=ENDLESS, **gang(4))
    twelve.turn(2)
    assert twelve.state(owner) == "running"
