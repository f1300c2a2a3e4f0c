"""Limits that a tenant asks for: requested, approved by whoever may set them, denied, withdrawn, over; and by command line."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from activity.models import AuditEvent, Delivery, Event, Subscription
from activity.notifications.fanout import fan_out
from activity.sequencer import sequence
from kernel.actor import TenantRole
from kernel.errors import Conflict
from tenants.capacity.lifecycle import EditState, RequestState
from tenants.capacity.quota.edits import Change
from tenants.models import QuotaEdit, QuotaRequest
from tenants.services import approve_request, deny_request, request_limits, sweep_quota_requests, withdraw_request
from tests.api.tenants.test_quota import change, limit_of
from tests.builders.program import Run, program
from tests.builders.threads import at_once
from tests.factories.clusters import a_cluster
from tests.factories.tenants import SYSTEM, Cast, actor_of, make_member, make_queue, make_tenant, make_user, now, top_queue

if TYPE_CHECKING:
    from collections.abc import Callable

    from rest_framework.test import APIClient

    Api = Callable[..., APIClient]

pytestmark = pytest.mark.database
PATH = "/api/v1/quota/requests"


@pytest.fixture
def pool(db: None) -> Any:
    """16 GPUs on two nodes."""
    return a_cluster("here").with_nodes(2, gpus=8).build().pools.get()


@pytest.fixture
def berth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    return program(tmp_path, monkeypatch)


def ask(api: Api, person: Any, *changes: dict[str, Any], **options: Any) -> Any:
    return api(person).post(PATH, {"changes": list(changes), "tenant": "vision", **options}, format="json")


@pytest.mark.capability(
    "119", "Limits that were asked for are set on approval, or planned for their time, with one line in the audit"
)
def test_what_is_asked_for_is_set_by_whoever_approves_it(api: Api, cast: Cast, pool: Any) -> None:
    top = top_queue(cast.tenant)
    asked = ask(api, cast.alice, change(top, pool, guarantee=8000), reason="The new group.")

    assert (asked.status_code, asked.json()["state"]) == (201, "pending")
    path = f"{PATH}/{asked.json()['id']}"
    assert api(cast.vera).get(path).json()["reason"] == "The new group."
    assert api(cast.carol).get(path).status_code == 404
    assert api(cast.alice).post(f"{path}/approve", {}, format="json").status_code == 403, "she does not own the queue above"
    done = api(cast.otto).post(f"{path}/approve", {"answer": "Welcome."}, format="json")
    assert (done.status_code, done.json()["state"], done.json()["decided_by"]["name"]) == (200, "approved", "otto")
    assert limit_of(top, pool).guarantee == 8000
    edit = QuotaEdit.objects.get()
    assert (str(edit.pk), edit.state, edit.comment) == (done.json()["edit_id"], "applied", "Asked for by alice. Welcome.")
    assert api(cast.otto).post(f"{path}/deny", {}, format="json").status_code == 409
    assert AuditEvent.objects.filter(verb="quota_request.create").count() == 1
    audit = AuditEvent.objects.get(verb="quota_edit.apply")
    assert (audit.actor_name, audit.after["comment"]) == ("otto", "Asked for by alice. Welcome.")


@pytest.mark.capability(
    "119", "Limits that were asked for are set on approval, or planned for their time, with one line in the audit"
)
def test_an_approval_waits_for_its_time_and_breaks_nothing(api: Api, cast: Cast, pool: Any) -> None:
    top = top_queue(cast.tenant)
    start = now() + timedelta(days=2)
    later = ask(api, cast.alice, change(top, pool, guarantee=8000), effective_from=start.isoformat()).json()
    broken = ask(api, cast.alice, change(top, pool, guarantee=99_000)).json()

    refused = api(cast.otto).post(f"{PATH}/{broken['id']}/approve", {}, format="json")
    assert (refused.status_code, refused.json()["fields"][0]["code"]) == (422, "sum_above_parent")
    assert api(cast.otto).get(f"{PATH}/{broken['id']}").json()["state"] == "pending", "nothing of it happened"
    assert api(cast.otto).post(f"{PATH}/{later['id']}/approve", {}, format="json").status_code == 200
    assert QuotaEdit.objects.get().state == EditState.PENDING
    assert QuotaEdit.objects.get().effective_from == start


def test_who_may_ask_and_what_is_refused(api: Api, cast: Cast, pool: Any) -> None:
    top, own = top_queue(cast.tenant), make_queue(cast.tenant, "day")

    assert ask(api, cast.bob, change(top, pool, ceiling=1)).status_code == 403
    assert ask(api, cast.carol, change(top, pool, ceiling=1)).status_code == 404
    mine = ask(api, cast.alice, change(own, pool, ceiling=1000))
    assert (mine.status_code, "make this edit yourself" in mine.json()["detail"]) == (422, True)
    foreign = ask(api, cast.alice, change(top_queue(cast.elsewhere), pool, ceiling=1))
    assert (foreign.status_code, foreign.json()["fields"][0]["path"]) == (422, "/changes/0/queue")
    assert ask(api, cast.alice).status_code == 422
    assert ask(api, cast.alice, change(top, pool, ceiling=-1)).json()["fields"][0]["path"] == "/changes/0/ceiling"
    past = (now() - timedelta(days=1)).isoformat()
    assert ask(api, cast.alice, change(top, pool, ceiling=1), effective_from=past).json()["fields"][0]["code"] == "in_the_past"
    assert not QuotaRequest.objects.exists()


@pytest.mark.capability(
    "119", "The approver is told of a request, and the requester of its end, also where nobody decided in time"
)
def test_whoever_decides_hears_of_it_and_whoever_asked_of_the_end(cast: Cast, pool: Any) -> None:
    below = make_tenant("team", parent=cast.tenant)
    tina = make_user("tina")
    make_member(below, tina, TenantRole.MANAGER)
    for user in (tina, cast.alice.user, cast.bob.user):
        Subscription.objects.create(user_id=user.pk, kinds=["capacity"], channel="mail", target="", created_at=now())

    def told() -> list[tuple[Any, str]]:
        sequence(now())
        Delivery.objects.all().delete()
        fan_out(now())
        return [(delivery.user_id, delivery.payload["notice"]["title"]) for delivery in Delivery.objects.all()]

    def asked() -> QuotaRequest:
        wanted = [Change(top_queue(below).pk, pool.pk, "gpu_millis", {"ceiling": 1000})]
        return request_limits(actor=actor_of(tina), tenant=below, changes=wanted, reason="More.", now=now())

    first = asked()
    assert told() == [(cast.alice.user.pk, "team asks for other limits")]
    deny_request(actor=actor_of(cast.alice.user), request=first, answer="No.", now=now())
    assert told() == [(tina.pk, "alice: the request for other limits is denied")]
    withdraw_request(actor=actor_of(tina), request=asked(), now=now())
    asked()
    told()
    assert sweep_quota_requests(now() + timedelta(days=29)) == 0
    assert sweep_quota_requests(now() + timedelta(days=31)) == 1
    assert told() == [(tina.pk, "The request for other limits is over: it was not decided in time")]
    assert sorted(QuotaRequest.objects.values_list("state", flat=True)) == ["denied", "expired", "withdrawn"]
    assert Event.objects.filter(kind="quota_request.expired").count() == 1


@pytest.mark.capability("119", "Of many who approve a request one makes the edit")
@pytest.mark.django_db(transaction=True)
def test_of_many_who_approve_one_makes_the_edit() -> None:
    pool = a_cluster("here").with_nodes(2, gpus=8).build().pools.get()
    tenant = make_tenant()
    manager = make_user()
    make_member(tenant, manager, TenantRole.MANAGER)
    wanted = [Change(top_queue(tenant).pk, pool.pk, "gpu_millis", {"ceiling": 1000})]
    request = request_limits(actor=actor_of(manager), tenant=tenant, changes=wanted, now=now())

    def decide(number: int) -> str:
        act = deny_request if number % 3 == 2 else approve_request
        try:
            return str(act(actor=SYSTEM, request=QuotaRequest.objects.get(id=request.pk), now=now()).state)
        except Conflict:
            return ""

    done = [state for state in at_once(6, decide) if state]
    request.refresh_from_db()
    assert done == [request.state]
    assert QuotaEdit.objects.count() == (1 if request.state == RequestState.APPROVED else 0)


def test_by_command_line(berth: Run, cast: Cast, pool: Any) -> None:
    words = ("queues", "edit", "vision", "--pool", pool.name, "--ceiling", "gpu=4", "--comment", "More.")
    berth(cast.alice, *words, code=3)
    asked = json.loads(berth(cast.alice, *words, "--ask", "--json").stdout)
    assert "More." in berth(cast.otto, "queues", "requests").output
    assert "Approved." in berth(cast.otto, "queues", "approve", asked["id"]).output
    assert limit_of(top_queue(cast.tenant), pool).ceiling == 4000
    second = json.loads(berth(cast.alice, *words, "--ask", "--json").stdout)
    assert "withdrawn" in berth(cast.alice, "queues", "withdraw", second["id"]).output
    third = json.loads(berth(cast.alice, *words, "--ask", "--json").stdout)
    assert "Denied." in berth(cast.otto, "queues", "deny", third["id"]).output
