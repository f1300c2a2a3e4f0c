"""A gang that fits in total but not in shape: small jobs move for it, go on elsewhere at once, and everybody can read why."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from clusters.engines.fake import Script
from jobs.lifecycle.reasons import explain
from jobs.models import Attempt, DecisionRecord, Job
from jobs.services.explaining import explain_job
from kernel import clock
from kernel.config import Config
from reconciling.models import Transition
from tenants.models import Reservation
from tests.builders.quay import Quay
from tests.factories.clusters import node_facts
from tests.factories.tenants import Cast, top_queue
from tests.services.jobs.test_sharing import ENDLESS, deserve, gang, go_on, gpus_held

pytestmark = pytest.mark.database

LONG = 1_200  # Seconds after which a job may be moved, and the gang has waited for long enough.


@pytest.fixture
def four(cast: Cast) -> Iterator[Quay]:
    """Sixteen GPUs on four machines."""
    made = Quay(cast, nodes=[node_facts(f"node-{number}", cores=64, gpus=4) for number in range(4)])
    with clock.virtual(lambda: made.now):
        yield made


def half_full(quay: Quay, **more: object) -> list[Job]:
    """Two GPUs are free on each machine: eight jobs of two GPUs, of which every other one has ended."""
    jobs = [quay.submit(f"small-{number}", script=ENDLESS, **gang(1, 2), **more) for number in range(8)]
    quay.turn(2)
    by_node: dict[str, Job] = {}
    for job in jobs:
        if by_node.setdefault(quay.tasks(job)[0].node_name, job) is not job:
            quay.stop(job)
    go_on(quay)
    left = list(by_node.values())
    assert [quay.state(job) for job in left] == ["running"] * 4
    return left


def a_gang_waits(quay: Quay, **more: object) -> Job:
    """Eight GPUs are free, and four on one machine are nowhere."""
    large = quay.submit("large", script=ENDLESS, **gang(1, 4), **more)
    quay.turn(2)
    assert quay.reason(large) == "no_room"
    return large


def told(quay: Quay, job: Job, language: str = "en") -> str:
    row = Job.objects.get(id=job.id)
    return explain(row.reason_code, row.reason_detail, language).text


def moved_of(quay: Quay, jobs: list[Job]) -> list[Job]:
    return [job for job in jobs if quay.state(job) == "stopping"]


@pytest.mark.capability(
    "29", "A small job moves so that a large one starts that fits in total but not in shape, and goes on at once"
)
def test_a_small_job_moves_so_that_a_large_one_starts_and_goes_on_at_once(four: Quay) -> None:
    small = half_full(four)
    large = a_gang_waits(four)
    four.pass_time(LONG)
    four.schedule()

    (moved,) = moved_of(four, small)
    assert four.reason(large) == "making_room"
    assert "1 of them migrates to other nodes." in told(four, large)
    assert four.reason(moved) == "moving_away"
    assert "its new place is reserved" in told(four, moved)
    assert "新位置已预留" in told(four, moved, "zh")
    row = Transition.objects.filter(subject_id=moved.id, to_state="stopping").get()
    assert row.reason == "moving_away"
    was_on = four.tasks(moved)[0].node_name

    go_on(four)

    assert [four.state(job) for job in (large, moved)] == ["running", "running"]
    assert four.tasks(large)[0].node_name == was_on
    assert four.tasks(moved)[-1].node_name != was_on
    assert all(four.state(job) == "running" for job in small)
    assert [attempt.number for attempt in four.attempts(moved)] == [1, 2]
    paid = Job.objects.get(id=moved.id).paid
    assert paid.get("user", 0) == paid.get("platform", 0) == 0


@pytest.mark.capability("29", "The plan of a move is kept with the decisions, and the job that waits for it is told")
def test_the_plan_is_kept_with_the_decisions(four: Quay) -> None:
    small = half_full(four)
    large = a_gang_waits(four)
    four.pass_time(LONG)
    four.schedule()
    (moved,) = moved_of(four, small)
    claim = DecisionRecord.objects.get(job_id=large.id, kind="claim").payload
    evict = DecisionRecord.objects.get(job_id=moved.id, kind="evict").payload
    (victim,) = claim["victims"]
    assert victim["job"] == str(moved.id)
    assert victim["moves_to"] == evict["moves_to"]
    assert evict["claimant"] == str(large.id)
    go_on(four)
    assert [four.tasks(moved)[-1].node_name] == evict["moves_to"]


@pytest.mark.capability("29", "The plan of a move is kept with the decisions, and the job that waits for it is told")
def test_who_waits_for_the_move_is_told_why_its_room_is_being_cleared(four: Quay) -> None:
    half_full(four)
    large = a_gang_waits(four)
    four.pass_time(LONG)
    four.schedule()
    answer = explain_job(Job.objects.get(id=large.id), actor=four.cast.bob.actor, now=four.now)
    assert answer is not None
    (condition,) = answer["conditions"]
    assert "1 of them migrates to other nodes." in condition["text"]


def test_the_place_of_a_moved_job_goes_to_nobody_else(four: Quay) -> None:
    """While it stops, others ask for just the room that it will go on in."""
    small = half_full(four)
    large = a_gang_waits(four)
    four.scripts.update({job.name: Script(duration_seconds=None, stop_seconds=None) for job in small})
    four.pass_time(LONG)
    four.schedule()
    (moved,) = moved_of(four, small)
    greedy = [four.submit(f"greedy-{number}", script=ENDLESS, **gang(1, 2)) for number in range(4)]
    four.schedule()
    go_on(four)
    four.pass_time(40)
    go_on(four)
    assert [four.state(job) for job in (large, moved)] == ["running", "running"]
    assert sorted(four.state(job) for job in greedy) == ["queued", "queued", "running", "running"]


@pytest.mark.capability("29", "A new leader goes on with a move")
def test_a_new_leader_goes_on_with_the_move(four: Quay) -> None:
    """The leader dies between the signal and the start; the room of both is still theirs."""
    small = half_full(four)
    large = a_gang_waits(four)
    four.pass_time(LONG)
    four.schedule()
    (moved,) = moved_of(four, small)
    assert Attempt.objects.get(id=Job.objects.get(id=moved.id).attempt_id).evicted_for == large.id
    four.driver.forget()
    greedy = [four.submit(f"greedy-{number}", script=ENDLESS, **gang(1, 2)) for number in range(4)]
    four.schedule()
    assert four.reason(large) == "making_room"
    assert "migrates to other nodes" in told(four, large)
    assert moved_of(four, small) == [moved]
    go_on(four)
    assert [four.state(job) for job in (large, moved)] == ["running", "running"]
    assert sum(four.state(job) == "running" for job in greedy) == 2


def test_a_job_that_was_stopped_while_it_moved_leaves_its_place_to_others(four: Quay) -> None:
    small = half_full(four)
    large = a_gang_waits(four)
    four.pass_time(LONG)
    four.schedule()
    (moved,) = moved_of(four, small)
    four.stop(moved)
    go_on(four)
    assert [four.state(job) for job in (large, moved)] == ["running", "stopped"]
    four.pass_time(90)
    others = [four.submit(f"other-{number}", script=ENDLESS, **gang(1, 2)) for number in range(3)]
    go_on(four)
    assert [four.state(job) for job in others] == ["running"] * 3
    assert Reservation.objects.filter(released_at__isnull=True).count() == 7


def test_a_gang_that_gives_up_leaves_those_who_moved_for_it_running_again(four: Quay) -> None:
    small = half_full(four)
    large = a_gang_waits(four)
    four.pass_time(LONG)
    four.schedule()
    four.stop(large)
    go_on(four)
    assert four.state(large) == "stopped"
    assert [four.state(job) for job in small] == ["running"] * 4
    assert sum(gpus_held(four, job) for job in small) == 8


@pytest.mark.capability("29", "What runs on a guarantee is moved for nobody of another tenant")
def test_what_runs_on_a_guarantee_is_moved_for_nobody_of_another_tenant(four: Quay) -> None:
    deserve(four, top_queue(four.cast.elsewhere), 8, guarantee=8)
    small = half_full(four, by=four.cast.carol)
    large = a_gang_waits(four)
    four.pass_time(LONG)
    go_on(four)
    assert four.state(large) == "queued"
    assert [four.state(job) for job in small] == ["running"] * 4


def test_moves_can_be_switched_off(four: Quay, configure: Callable[..., Config]) -> None:
    configure(scheduler_migrations=0)
    small = half_full(four)
    large = a_gang_waits(four)
    four.pass_time(LONG)
    go_on(four)
    assert four.state(large) == "queued"
    assert moved_of(four, small) == []


@pytest.mark.capability("21", "Of two queues that borrow the one with the smaller part gets room, and the other reads why")
def test_of_two_that_borrow_the_one_with_the_smaller_part_gets_room_and_the_other_reads_why(four: Quay) -> None:
    """Both deserve four of sixteen; what nobody deserves is divided alike."""
    deserve(four, top_queue(four.cast.tenant), 4)
    deserve(four, top_queue(four.cast.elsewhere), 4)
    greedy = [four.submit(f"greedy-{number}", script=ENDLESS, **gang(1, 2)) for number in range(8)]
    four.turn(2)
    four.pass_time(LONG)
    other = four.submit("other", by=four.cast.carol, script=ENDLESS, **gang(1, 4))
    more = four.submit("more", by=four.cast.carol, script=ENDLESS, **gang(1, 4))
    four.schedule()
    assert [four.reason(job) for job in (other, more)] == ["making_room", "making_room"]
    assert sum(four.reason(job) == "making_way" for job in greedy) == 2, "the first is owed what it deserves"
    evened = [job for job in greedy if four.reason(job) == "evening_out"]
    assert len(evened) == 2
    assert "holds less by weight" in told(four, evened[0])
    assert "按权重" in told(four, evened[0], "zh")
    go_on(four)
    assert [four.state(job) for job in (other, more)] == ["running", "running"]
    last = four.submit("last", by=four.cast.carol, script=ENDLESS, **gang(1, 2))
    four.pass_time(LONG)
    go_on(four)
    assert four.state(last) == "queued", "both hold eight"
    assert sum(gpus_held(four, job) for job in greedy) == 8
