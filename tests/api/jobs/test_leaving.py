"""Who leaves, and what is left: told before, settled with the removal or later, by those who may."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from clusters.engines.fake import Script
from jobs.models import Job
from storage.models import Volume
from tenants.models import Membership, User
from tests.builders.quay import Quay
from tests.factories.tenants import now

pytestmark = pytest.mark.database

Api = Callable[..., Any]
MEMBERS = "/api/v1/tenants/vision/members"
ENDLESS = Script(duration_seconds=1_000_000)


@pytest.fixture
def jobs(quay: Quay) -> tuple[Job, Job]:
    """Bob's: one runs, one waits for its room."""
    runs = quay.submit("runs", script=ENDLESS, resources={"cpu": 8})
    quay.turn(2)
    return runs, quay.submit("waits", script=ENDLESS, resources={"cpu": 8})


def left(api: Api, quay: Quay, person: Any, name: str = "bob") -> Any:
    return api(person).get(f"{MEMBERS}/{name}/left")


def test_a_manager_sees_what_a_member_would_leave(api: Api, quay: Quay, jobs: tuple[Job, Job]) -> None:
    Volume.objects.create(tenant=quay.cast.tenant, name="data", created_at=now(), number=7, created_by=quay.cast.bob.user)

    told = left(api, quay, quay.cast.alice).json()

    assert told["user"]["name"] == "bob"
    kinds = {each["kind"]: each for each in told["kinds"]}
    assert list(kinds)[:3] == ["running", "waiting", "templates"], "jobs come first"
    assert {kind: each["count"] for kind, each in kinds.items()} == {
        "running": 1, "waiting": 1, "templates": 0, "volumes": 1, "images": 0, "bookings": 0, "tokens": 1,
    }  # fmt: skip
    assert [item["name"] for item in kinds["waiting"]["first"]] == ["waits"]
    assert kinds["volumes"]["first"][0]["tenant"]["name"] == "vision"
    assert (kinds["tokens"]["first"], kinds["tokens"]["can_be_handed_over"]) == ([], False)
    assert left(api, quay, quay.cast.alice, str(quay.cast.bob.user.pk)).json() == told
    assert left(api, quay, quay.cast.bob).json() == told, "members see it of themselves"
    for person, status in (("vera", 403), ("carol", 404)):
        assert left(api, quay, getattr(quay.cast, person)).status_code == status
    assert left(api, quay, quay.cast.alice, "carol").status_code == 404, "who never belonged is not told of"


def test_it_costs_as_much_for_many_things_as_for_few(api: Api, quay: Quay, jobs: tuple[Job, Job]) -> None:
    def statements() -> int:
        with CaptureQueriesContext(connection) as queries:
            assert left(api, quay, quay.cast.alice).status_code == 200
        return len(queries)

    statements()
    few = statements()
    for number in range(10):
        quay.submit(f"more-{number}", resources={"cpu": 8})
    assert statements() == few


def test_a_member_is_removed_with_their_jobs_handed_over(api: Api, quay: Quay, jobs: tuple[Job, Job]) -> None:
    removed = api(quay.cast.alice).delete(f"{MEMBERS}/{quay.cast.bob.user.pk}?hand_to=alice")
    assert removed.status_code == 204
    assert {quay.job(job.id).user.name for job in jobs} == {"alice"}
    assert left(api, quay, quay.cast.alice).status_code == 404


def test_a_member_is_removed_and_their_jobs_are_stopped(api: Api, quay: Quay, jobs: tuple[Job, Job]) -> None:
    assert api(quay.cast.alice).delete(f"{MEMBERS}/{quay.cast.bob.user.pk}?stop_jobs=true").status_code == 204
    assert (quay.state(jobs[1]), quay.job(jobs[0].id).desired) == ("stopped", "stop")


@pytest.mark.parametrize("query", ["stop_jobs=true&hand_to=alice", "hand_to=vera", "hand_to=bob", "stop_job=true"])
def test_what_cannot_be_done_with_the_jobs_removes_no_member(api: Api, quay: Quay, jobs: tuple[Job, Job], query: str) -> None:
    refused = api(quay.cast.alice).delete(f"{MEMBERS}/{quay.cast.bob.user.pk}?{query}")
    assert (refused.status_code, bool(refused.json()["fields"])) == (422, True)
    assert Membership.objects.filter(user=quay.cast.bob.user).exists()


def test_what_waits_is_handed_over_after_the_member_has_left(api: Api, quay: Quay, jobs: tuple[Job, Job]) -> None:
    alice = api(quay.cast.alice)
    assert alice.delete(f"{MEMBERS}/{quay.cast.bob.user.pk}").status_code == 204
    quay.turn(2)
    assert quay.reason(jobs[1]) == "owner_left"
    shown = alice.get(f"/api/v1/jobs/{jobs[1].id}/explain").content.decode()
    assert "no longer a member" in shown

    handed = alice.post(f"{MEMBERS}/bob/hand-over", {"to": "alice"}, format="json")

    assert handed.json()["handed_over"] == [{"kind": "running", "count": 1}, {"kind": "waiting", "count": 1}]
    again = alice.post(f"{MEMBERS}/bob/hand-over", {"to": "alice"}, format="json")
    assert again.status_code == 404, "nothing of bob's is left"


def test_the_token_of_a_removed_member_opens_nothing_of_the_tenant(api: Api, quay: Quay, jobs: tuple[Job, Job]) -> None:
    bob = api(quay.cast.bob)
    assert bob.get(f"/api/v1/jobs/{jobs[0].id}").status_code == 200
    assert api(quay.cast.alice).delete(f"{MEMBERS}/{quay.cast.bob.user.pk}").status_code == 204

    job = f"/api/v1/jobs/{jobs[0].id}"
    assert bob.get("/api/v1/jobs").json()["items"] == []
    assert [bob.get(job).status_code, bob.post(f"{job}/stop").status_code, bob.post(f"{job}/rerun").status_code] == [404] * 3
    tried = bob.post("/api/v1/jobs", {"tenant": "vision", "spec": {"command": "true"}}, format="json")
    assert tried.status_code == 404
    assert left(api, quay, quay.cast.bob).status_code == 404


def test_an_operator_disables_a_user_and_hands_over_their_jobs(api: Api, quay: Quay, jobs: tuple[Job, Job]) -> None:
    otto, path = api(quay.cast.otto), f"/api/v1/users/{quay.cast.bob.user.pk}"
    assert {each["kind"]: each["count"] for each in otto.get(f"{path}/left").json()["kinds"]}["waiting"] == 1
    assert api(quay.cast.alice).get(f"{path}/left").status_code == 403
    early = otto.patch(path, {"hand_to": "alice"}, format="json")
    assert (early.status_code, early.json()["fields"][0]["code"]) == (422, "not_disabled")

    assert otto.patch(path, {"is_active": False, "hand_to": "alice"}, format="json").json()["is_active"] is False

    assert {quay.job(job.id).user.name for job in jobs} == {"alice"}
    assert not User.objects.get(name="bob").is_active
