"""Two who decide at once, a decision against the end of its time, and two who move the same jobs: one of them happens."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from activity.models import Event
from jobs.lifecycle.requests import RequestState
from jobs.models import Job, PriorityRequest
from jobs.selectors.places import stands_at
from jobs.services.moving import Among, Move, move_job
from jobs.services.priority_requests import approve, deny, request_for_job, sweep_requests, withdraw
from jobs.services.submit import prepare, submit
from kernel import crashpoints
from kernel.actor import Actor, TenantRole
from kernel.errors import Conflict
from tenants.identity.access import actor_for
from tests.builders.threads import at_once
from tests.factories.tenants import make_member, make_tenant, make_user, now

pytestmark = [pytest.mark.database, pytest.mark.django_db(transaction=True)]

WORKERS = 6


class Scene:
    """A member with three waiting jobs, and managers beside them."""

    def __init__(self) -> None:
        tenant = make_tenant()
        self.bob = self._person(tenant, TenantRole.MEMBER)
        self.managers = [self._person(tenant, TenantRole.MANAGER) for _ in range(WORKERS)]
        documents = [{"name": name, "command": "true"} for name in "abc"]
        ids = [
            submit([prepare(actor=self.bob, tenant=None, document=document)], actor=self.bob, now=at)[0]
            for document, at in zip(documents, (now() - timedelta(minutes=m) for m in (30, 20, 10)), strict=True)
        ]
        self.jobs = [Job.objects.get(id=job_id) for job_id in ids]

    def _person(self, tenant: Any, role: TenantRole) -> Actor:
        user = make_user()
        make_member(tenant, user, role)
        return actor_for(user, None)

    def request(self) -> PriorityRequest:
        return request_for_job(actor=self.bob, job=self.jobs[0], priority=900, now=now())


def who_acted(work: Callable[[int], str]) -> list[str]:
    """Run the same function many times at once; what those said who did something."""

    def act(number: int) -> str:
        try:
            return work(number)
        except Conflict:
            return ""

    return [said for said in at_once(WORKERS, act) if said]


def decided(request: PriorityRequest) -> tuple[str, int, int]:
    """The state it came to, how many events say so, and the job's priority."""
    request.refresh_from_db()
    rows = Event.objects.filter(subject_id=request.pk, kind__startswith="priority_request.")
    said = rows.exclude(kind="priority_request.pending").count()
    return request.state, said, Job.objects.get(id=request.job_id).priority


@pytest.mark.capability("19", "Another person approves, up to their own highest priority; of many who decide one does")
def test_of_many_managers_one_decides() -> None:
    scene = Scene()
    request = scene.request()

    def work(number: int) -> str:
        fresh = PriorityRequest.objects.get(id=request.pk)
        decide = deny if number % 3 == 2 else approve
        return str(decide(actor=scene.managers[number], request=fresh, now=now()).state)

    [outcome] = who_acted(work)
    assert decided(request) == (outcome, 1, 900 if outcome == "approved" else 500)


@pytest.mark.capability("19", "A request ends or is approved, and never both")
def test_an_approval_holds_or_the_request_is_over_but_never_both() -> None:
    scene = Scene()
    request = scene.request()
    end = request.expires_at

    def work(number: int) -> str:
        if number % 3 == 0:
            return "expired" if sweep_requests(end) else ""
        fresh = PriorityRequest.objects.get(id=request.pk)
        if number % 3 == 1:
            return str(withdraw(actor=scene.bob, request=fresh, now=end - timedelta(seconds=1)).state)
        return str(approve(actor=scene.managers[number], request=fresh, now=end - timedelta(seconds=1)).state)

    [outcome] = who_acted(work)
    assert decided(request) == (outcome, 1, 900 if outcome == "approved" else 500)


def test_moves_at_once_leave_every_place_with_one_job() -> None:
    scene = Scene()
    times = sorted(stands_at(job) for job in scene.jobs)

    def work(number: int) -> str:
        fresh = Job.objects.get(id=scene.jobs[number % 3].pk)
        actor = scene.bob if number % 2 else scene.managers[number]
        move_job(actor=actor, job=fresh, move=Move(to_end=number >= 3, among=Among.OWN), now=now())
        return "moved"

    assert len(who_acted(work)) == WORKERS
    found = sorted(stands_at(job) for job in Job.objects.all())
    assert all(was <= after <= was + WORKERS for was, after in zip(times, found, strict=True)), (times, found)


@pytest.mark.parametrize("point", ["jobs.priority.before_commit", "jobs.move.before_commit"])
def test_who_dies_before_the_commit_leaves_nothing_and_the_same_can_be_done_again(point: str) -> None:
    scene = Scene()
    request = scene.request()

    def die() -> None:
        raise KeyboardInterrupt

    def act(at: datetime) -> None:
        if point == "jobs.move.before_commit":
            move_job(actor=scene.bob, job=scene.jobs[2], move=Move(), now=at)
        else:
            approve(actor=scene.managers[0], request=PriorityRequest.objects.get(id=request.pk), now=at)

    before = Event.objects.count()
    crashpoints.arm(point, die)
    with pytest.raises(KeyboardInterrupt):
        act(now())
    assert PriorityRequest.objects.get().state == RequestState.PENDING
    assert not Job.objects.filter(placed_at__isnull=False).exists()
    assert Event.objects.count() == before
    act(now())
    assert Event.objects.count() > before
