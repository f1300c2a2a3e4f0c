"""Priorities above one's own, and moving waiting jobs, over HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from activity.models import AuditEvent, Event
from clusters.engines.fake import Script
from jobs.models import Attempt, Job, PriorityRequest
from jobs.services.priority_requests import sweep_requests
from kernel.actor import TenantRole
from tenants.identity.access import actor_for
from tests.builders.quay import Quay
from tests.factories.tenants import Person, make_member, make_queue, make_tenant, make_token, make_user, now

pytestmark = pytest.mark.database

Api = Callable[..., Any]
SPEC = {"name": "train", "command": "python train.py"}
REQUESTS = "/priority-requests"


def send(client: Any, method: str, path: str, body: Any = None) -> Any:
    return getattr(client, method)(f"/api/v1{path}", None if body is None else json.dumps(body), content_type="application/json")


def get(client: Any, path: str) -> Any:
    return client.get(f"/api/v1{path}")


def somebody(quay: Quay, name: str, role: TenantRole) -> Person:
    user = make_user(name)
    make_member(quay.cast.tenant, user, role)
    issued = make_token(user)
    return Person(user, issued.text, actor_for(user, issued.token))


def codes(answer: Any) -> list[tuple[str, str]]:
    return [(entry["path"], entry["code"]) for entry in answer.json()["fields"]]


# --- Grants ----------------------------------------------------------------------------------------------------------


@pytest.mark.capability("19", "Each role has a highest priority per tenant; more is refused with the way to ask for it")
def test_a_member_submits_up_to_normal_and_is_told_how_to_ask_for_more(quay: Quay, api: Api) -> None:
    client = api(quay.cast.bob)
    refused = send(client, "post", "/jobs", {"spec": {**SPEC, "priority": "high"}})

    assert (refused.status_code, codes(refused)) == (422, [("/priority", "priority_above_grant")])
    assert "POST /api/v1/priority-requests" in refused.json()["hint"]
    assert "normal, the highest" in refused.json()["detail"]
    assert send(client, "post", "/jobs", {"spec": {**SPEC, "priority": 500}}).status_code == 201
    assert send(api(quay.cast.alice), "post", "/jobs", {"spec": {**SPEC, "priority": "high"}}).status_code == 201
    assert codes(send(api(quay.cast.alice), "post", "/jobs", {"spec": {**SPEC, "priority": "urgent"}})) == [
        ("/priority", "priority_above_grant")
    ]


def test_every_job_of_a_batch_is_held_to_the_grant(quay: Quay, api: Api) -> None:
    items = [{"name": "a"}, {"name": "b", "priority": "high"}, {"name": "c", "priority": 501}]
    refused = send(api(quay.cast.bob), "post", "/jobs:batch", {"spec": SPEC, "items": items})

    assert codes(refused) == [("/items/1/priority", "priority_above_grant"), ("/items/2/priority", "priority_above_grant")]
    assert not Job.objects.exists()


def test_running_again_needs_the_grant_too(quay: Quay, api: Api) -> None:
    job = quay.submit("hot", by=quay.cast.alice, priority="high")

    assert codes(send(api(quay.cast.bob), "post", f"/jobs/{job.id}/rerun", {})) == [("/priority", "priority_above_grant")]
    again = send(api(quay.cast.bob), "post", f"/jobs/{job.id}/rerun", {"changes": {"priority": "normal"}})
    assert again.status_code == 201


def test_a_job_that_says_nothing_gets_as_much_of_normal_as_there_is(quay: Quay, api: Api) -> None:
    assert send(api(quay.cast.alice), "put", "/tenants/vision/priority-grants", {"member": "low"}).status_code == 200

    assert send(api(quay.cast.bob), "post", "/jobs", {"spec": SPEC}).json()["priority"] == 100
    refused = send(api(quay.cast.bob), "post", "/jobs", {"spec": {**SPEC, "priority": 600}})
    assert "above low" in refused.json()["detail"]
    dry = send(api(quay.cast.bob), "post", "/jobs?dry_run=true", {"spec": SPEC}).json()
    assert "with priority low, not normal" in dry["warnings"][-1]


@pytest.mark.capability("19", "Each role has a highest priority per tenant; more is refused with the way to ask for it")
def test_a_change_of_a_waiting_job_is_held_to_the_grant_and_lowering_is_free(quay: Quay, api: Api) -> None:
    client = api(quay.cast.bob)
    job = quay.submit("mine")

    refused = send(client, "patch", f"/jobs/{job.id}", {"priority": "high"})
    assert (refused.status_code, codes(refused)) == (403, [("/priority", "priority_above_grant")])
    assert send(client, "patch", f"/jobs/{job.id}", {"priority": "low"}).json()["priority"] == 100
    assert send(client, "patch", f"/jobs/{job.id}", {"priority": "normal"}).json()["priority"] == 500
    assert send(api(quay.cast.alice), "patch", f"/jobs/{job.id}", {"priority": "high"}).json()["priority"] == 900
    assert send(client, "patch", f"/jobs/{job.id}", {"priority": 850}).json()["priority"] == 850, "lowering takes from nobody"
    assert send(api(quay.cast.otto), "patch", f"/jobs/{job.id}", {"priority": "urgent"}).json()["priority"] == 1000


def test_managers_set_what_members_may_use_and_whoever_stands_above_what_managers_may(quay: Quay, api: Api) -> None:
    path = "/tenants/vision/priority-grants"
    alice, otto = api(quay.cast.alice), api(quay.cast.otto)

    shown = get(api(quay.cast.vera), path).json()
    assert [(item["role"], item["priority_name"], item["tenant"]) for item in shown["items"]] == [
        ("member", "normal", None),
        ("manager", "high", None),
    ]
    assert send(alice, "put", path, {"member": "high"}).json()["items"][0]["tenant"]["name"] == "vision"
    assert send(api(quay.cast.bob), "post", "/jobs", {"spec": {**SPEC, "priority": "high"}}).status_code == 201
    assert codes(send(alice, "put", path, {"member": "urgent"})) == [("/member", "above_own_grant")]
    assert send(alice, "put", path, {"manager": "urgent"}).status_code == 403, "nobody raises their own"
    assert codes(send(otto, "put", path, {"manager": 600})) == [("/member", "above_managers")]
    assert send(otto, "put", path, {"manager": 600, "member": None}).json()["items"][0]["priority"] == 500
    assert codes(send(otto, "put", path, {"member": 1001, "manager": "top"})) == [("/member", "invalid"), ("/manager", "invalid")]
    assert send(api(quay.cast.bob), "put", path, {"member": 1}).status_code == 403
    assert get(api(quay.cast.carol), path).status_code == 404
    assert AuditEvent.objects.filter(verb="priority_grant.edit").count() == 2


def test_a_line_holds_in_tenants_below_that_have_none_and_so_does_a_window(quay: Quay, api: Api) -> None:
    cast = quay.cast
    team = make_tenant("team", parent=cast.tenant)
    alice, tina = api(cast.alice), make_user("tina")
    make_member(team, tina, TenantRole.MANAGER)
    tina_api = api(Person(tina, make_token(tina).text, actor_for(tina, None)))
    path = f"/tenants/{team.slug}/priority-grants"
    high = {"tenant": team.slug, "spec": {**SPEC, "priority": "high"}}

    send(alice, "put", "/tenants/vision/priority-grants", {"member": 700})
    shown = get(api(cast.bob), path).json()["items"]
    assert [(item["priority"], item["tenant"] and item["tenant"]["name"]) for item in shown] == [(700, "vision"), (900, None)]
    assert get(tina_api, path).json()["items"][0]["tenant"] is None, "she does not see the tenant above"
    assert send(tina_api, "put", path, {"manager": "urgent"}).status_code == 403
    assert codes(send(alice, "put", path, {"manager": "urgent"})) == [("/manager", "above_own_grant")]
    assert send(alice, "put", path, {"manager": 800}).status_code == 200
    assert send(tina_api, "put", path, {"member": 800}).status_code == 200
    assert codes(send(tina_api, "post", "/jobs", high)) == [("/priority", "priority_above_grant")]
    assert codes(send(api(cast.bob), "post", "/jobs", high)) == [("/priority", "priority_above_grant")]
    window = {"priority": "high", "ends_at": (now() + timedelta(hours=5)).isoformat(), "tenant": "vision"}
    asked = send(api(cast.bob), "post", REQUESTS, window).json()
    send(alice, "post", f"{REQUESTS}/{asked['id']}/approve", {})
    assert send(api(cast.bob), "post", "/jobs", high).status_code == 201


# --- Requests --------------------------------------------------------------------------------------------------------


def test_a_manager_approves_and_the_waiting_job_moves_at_once(quay: Quay, api: Api) -> None:
    job = quay.submit("demo")
    asked = send(api(quay.cast.bob), "post", REQUESTS, {"job": "demo", "priority": "high", "reason": "Friday."})

    assert (asked.status_code, asked.json()["state"], asked.json()["created_by"]["name"]) == (201, "pending", "bob")
    path = f"{REQUESTS}/{asked.json()['id']}/approve"
    assert send(api(quay.cast.bob), "post", path, {}).status_code == 403
    assert send(api(quay.cast.vera), "post", path, {}).status_code == 403
    assert send(api(quay.cast.carol), "post", path, {}).status_code == 404
    done = send(api(quay.cast.alice), "post", path, {"answer": "Fine."})
    assert (done.status_code, done.json()["state"], done.json()["decided_by"]["name"]) == (200, "approved", "alice")
    assert Job.objects.get(id=job.id).priority == 900
    assert Event.objects.filter(kind="job.edited", job_id=job.id, data__reason="priority_approved").count() == 1
    assert Event.objects.filter(kind="priority_request.approved", job_id=job.id).count() == 1
    assert list(AuditEvent.objects.filter(verb__startswith="priority_request").order_by("at").values_list("verb", flat=True)) == [
        "priority_request.create",
        "priority_request.approve",
    ]
    again = send(api(quay.cast.alice), "post", path, {})
    assert (again.status_code, again.json()["detail"]) == (409, "This request is approved already.")


@pytest.mark.capability("19", "Another person approves, up to their own highest priority; of many who decide one does")
def test_nobody_decides_a_request_of_their_own_or_above_their_own_grant(quay: Quay, api: Api) -> None:
    second = somebody(quay, "second-manager", TenantRole.MANAGER)
    own = quay.submit("own", by=quay.cast.alice)
    asked = send(api(quay.cast.alice), "post", REQUESTS, {"job": str(own.id), "priority": "urgent"}).json()

    assert send(api(quay.cast.alice), "post", f"{REQUESTS}/{asked['id']}/approve", {}).status_code == 403
    refused = send(api(second), "post", f"{REQUESTS}/{asked['id']}/approve", {})
    assert (refused.status_code, "may not use priority urgent" in refused.json()["detail"]) == (403, True)
    assert send(api(quay.cast.otto), "post", f"{REQUESTS}/{asked['id']}/approve", {}).status_code == 200
    for_bob = quay.submit("bobs")
    by_other = send(api(second), "post", REQUESTS, {"job": str(for_bob.id), "priority": "urgent"})
    assert by_other.status_code == 201
    make_member(quay.cast.tenant, make_user("x"), TenantRole.MEMBER)
    Job.objects.filter(id=for_bob.id).update(user=quay.cast.alice.user)
    PriorityRequest.objects.filter(id=by_other.json()["id"]).update(user=quay.cast.alice.user, priority=900)
    gains = send(api(quay.cast.alice), "post", f"{REQUESTS}/{by_other.json()['id']}/approve", {})
    assert gains.status_code == 403, "who gains by it does not decide it either"


def test_a_request_is_denied_withdrawn_or_over_and_then_nothing_follows(quay: Quay, api: Api) -> None:
    jobs = [quay.submit(name) for name in ("one", "two", "three")]
    asked = [send(api(quay.cast.bob), "post", REQUESTS, {"job": str(job.id), "priority": 700}).json()["id"] for job in jobs]

    denied = send(api(quay.cast.alice), "post", f"{REQUESTS}/{asked[0]}/deny", {"answer": "Not now."}).json()
    assert (denied["state"], denied["answer"]) == ("denied", "Not now.")
    assert send(api(quay.cast.bob), "delete", f"{REQUESTS}/{asked[1]}").json()["state"] == "withdrawn"
    assert sweep_requests(now() + timedelta(days=6)) == 0
    assert sweep_requests(now() + timedelta(days=8)) == 1
    assert get(api(quay.cast.vera), f"{REQUESTS}/{asked[2]}").json()["state"] == "expired"
    assert all(
        send(api(quay.cast.alice), "post", f"{REQUESTS}/{request_id}/approve", {}).status_code == 409 for request_id in asked
    )
    assert set(Job.objects.values_list("priority", flat=True)) == {500}
    assert len(get(api(quay.cast.bob), f"{REQUESTS}?state=expired").json()["items"]) == 1
    assert codes(get(api(quay.cast.bob), f"{REQUESTS}?state=gone")) == [("/state", "invalid")]


def test_a_request_ends_with_its_job(quay: Quay, api: Api) -> None:
    job = quay.submit("short")
    asked = send(api(quay.cast.bob), "post", REQUESTS, {"job": str(job.id), "priority": 700}).json()["id"]
    quay.stop(job)

    assert send(api(quay.cast.alice), "post", f"{REQUESTS}/{asked}/approve", {}).status_code == 409
    assert sweep_requests(now()) == 1
    assert Event.objects.filter(kind="priority_request.expired", data__reason="job_ended").count() == 1
    assert send(api(quay.cast.bob), "post", REQUESTS, {"job": str(job.id), "priority": 700}).status_code == 409


def test_what_makes_no_sense_is_refused_with_what_would(quay: Quay, api: Api) -> None:
    bob = api(quay.cast.bob)
    job = quay.submit("mine")
    theirs = quay.submit("theirs", by=quay.cast.alice)
    soon, gone = ((now() + timedelta(hours=hours)).isoformat() for hours in (5, -5))

    def refused(body: Any) -> list[tuple[str, str]]:
        answer = send(bob, "post", REQUESTS, body)
        assert answer.status_code == 422, answer.content
        return codes(answer)

    assert refused({"job": str(job.id), "priority": 500}) == [("/priority", "not_higher")]
    assert send(bob, "patch", f"/jobs/{job.id}", {"priority": "low"}).status_code == 200
    assert refused({"job": str(job.id), "priority": 300}) == [("/priority", "within_grant")]
    for nonsense in (1001, -1, 2**62, 9.5, True, "top", None, "NaN"):
        assert refused({"job": str(job.id), "priority": nonsense})[0][0] == "/priority"
    assert refused({"priority": "high"}) == [("/ends_at", "required")]
    assert refused({"priority": "high", "ends_at": gone}) == [("/ends_at", "out_of_range")]
    assert refused({"priority": "high", "ends_at": soon, "starts_at": gone}) == [("/starts_at", "in_the_past")]
    assert refused({"priority": "high", "ends_at": (now() + timedelta(days=900)).isoformat()}) == [("/ends_at", "out_of_range")]
    assert refused({"job": str(job.id), "priority": "high", "ends_at": soon}) == [("/ends_at", "not_with_job")]
    assert refused({"priority": "high", "ends_at": soon, "user": "nobody"}) == [("/user", "not_found")]
    assert send(bob, "post", REQUESTS, {"job": str(theirs.id), "priority": "high"}).status_code == 403
    assert send(bob, "post", REQUESTS, {"priority": "high", "ends_at": soon, "user": "alice"}).status_code == 403
    assert send(bob, "post", REQUESTS, {"job": str(job.id), "priority": "high"}).status_code == 201
    assert send(bob, "post", REQUESTS, {"job": str(job.id), "priority": "high"}).status_code == 409, "one at a time"


def test_a_person_gets_a_window_uses_it_and_loses_it(quay: Quay, api: Api) -> None:
    bob, alice = api(quay.cast.bob), api(quay.cast.alice)
    end = now() + timedelta(hours=5)
    asked = send(bob, "post", REQUESTS, {"priority": "high", "ends_at": end.isoformat(), "reason": "Deadline."}).json()
    high = {"spec": {**SPEC, "priority": "high"}}

    assert send(bob, "post", "/jobs", high).status_code == 422
    assert send(alice, "post", f"{REQUESTS}/{asked['id']}/approve", {}).status_code == 200
    first = send(bob, "post", "/jobs", high)
    assert (first.status_code, first.json()["priority"]) == (201, 900)
    assert sweep_requests(end - timedelta(minutes=1)) == 0
    assert send(alice, "delete", f"{REQUESTS}/{asked['id']}").json()["state"] == "revoked"
    assert send(bob, "post", "/jobs", high).status_code == 422
    assert Job.objects.get(id=first.json()["id"]).priority == 900, "what was submitted keeps it"


def test_a_window_is_over_by_itself(quay: Quay, api: Api) -> None:
    end = now() + timedelta(hours=5)
    asked = send(api(quay.cast.bob), "post", REQUESTS, {"priority": "high", "ends_at": end.isoformat()}).json()
    send(api(quay.cast.alice), "post", f"{REQUESTS}/{asked['id']}/approve", {})

    assert sweep_requests(end + timedelta(seconds=1)) == 1
    assert get(api(quay.cast.bob), f"{REQUESTS}/{asked['id']}").json()["state"] == "expired"
    assert sweep_requests(end + timedelta(seconds=1)) == 0


def test_a_job_is_stored_at_ones_grant_and_the_rest_requested_in_the_same_call(quay: Quay, api: Api) -> None:
    path = "/jobs?priority_reason=The+paper+is+due"
    made = send(api(quay.cast.bob), "post", path, {"spec": {**SPEC, "priority": "high", "array": {"size": 3}}})

    assert (made.status_code, made.json()["priority"]) == (201, 500)
    [request] = get(api(quay.cast.bob), REQUESTS).json()["items"]
    assert (request["job"]["id"], request["priority_name"], request["reason"]) == (made.json()["id"], "high", "The paper is due")
    assert send(api(quay.cast.alice), "post", f"{REQUESTS}/{request['id']}/approve", {}).status_code == 200
    assert set(Job.objects.values_list("priority", flat=True)) == {900}, "an array is raised with all its children that wait"
    within = send(api(quay.cast.bob), "post", path, {"spec": SPEC}).json()
    assert PriorityRequest.objects.filter(job_id=within["id"]).count() == 0


def test_a_request_sent_twice_with_one_key_is_one(quay: Quay, api: Api) -> None:
    quay.submit("demo")
    body = json.dumps({"job": "demo", "priority": "high"})
    answers = [
        api(quay.cast.bob).post(f"/api/v1{REQUESTS}", body, content_type="application/json", headers={"Idempotency-Key": "same"})
        for _ in range(2)
    ]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert answers[0].json() == answers[1].json()


# --- Moving ----------------------------------------------------------------------------------------------------------


def places(api: Api, quay: Quay, *jobs: Job) -> list[int]:
    return [get(api(quay.cast.alice), f"/jobs/{job.id}").json()["place"] for job in jobs]


def waiting(quay: Quay, name: str, by: Person) -> Job:
    quay.pass_time(10)
    return quay.submit(name, by=by)


@pytest.mark.capability("19", "One's own waiting jobs are put in another order, and nobody else ever has more of them in front")
def test_a_member_puts_their_own_jobs_in_order_and_nobody_else_comes_later(quay: Quay, api: Api) -> None:
    cast = quay.cast
    eve = somebody(quay, "eve", TenantRole.MEMBER)
    a, x, b, y, c = (waiting(quay, name, by) for name, by in zip("axbyc", (cast.bob, eve, cast.bob, eve, cast.bob), strict=True))

    moved = send(api(cast.bob), "post", f"/jobs/{c.id}/move", {"before": str(a.id)})
    assert moved.status_code == 200, moved.content
    assert (moved.json()["job"]["place"], moved.json()["moved"], moved.json()["among"]) == (1, 3, "own")
    assert places(api, quay, c, x, a, y, b) == [1, 2, 3, 4, 5]
    assert send(api(cast.bob), "post", f"/jobs/{c.id}/move", {"to": "last"}).json()["job"]["place"] == 5
    assert places(api, quay, a, x, b, y, c) == [1, 2, 3, 4, 5]
    assert send(api(cast.bob), "post", f"/jobs/{b.id}/move", {"after": str(c.id)}).status_code == 200
    assert places(api, quay, a, x, c, y, b) == [1, 2, 3, 4, 5]
    assert Event.objects.filter(kind="job.edited", data__reason="moved").count() == 3 + 3 + 2
    assert AuditEvent.objects.filter(verb="job.move").count() == 3


def test_past_somebody_elses_job_is_for_managers_and_touches_no_other(quay: Quay, api: Api) -> None:
    cast = quay.cast
    eve = somebody(quay, "eve", TenantRole.MEMBER)
    x, a, y, b = (waiting(quay, name, by) for name, by in zip("xayb", (eve, cast.bob, eve, cast.bob), strict=True))

    for path, body in ((a, {"before": str(x.id)}), (b, {"to": "first", "among": "queue"}), (x, {"to": "first"})):
        assert send(api(cast.bob), "post", f"/jobs/{path.id}/move", body).status_code == 403
    assert send(api(cast.vera), "post", f"/jobs/{a.id}/move", {"to": "first"}).status_code == 403
    done = send(api(cast.alice), "post", f"/jobs/{b.id}/move", {"before": str(x.id)}).json()
    assert (done["moved"], done["among"]) == (1, "queue")
    assert places(api, quay, b, x, a, y) == [1, 2, 3, 4]
    assert send(api(cast.alice), "post", f"/jobs/{b.id}/move", {"to": "last", "among": "queue"}).json()["job"]["place"] == 4
    assert send(api(cast.alice), "post", f"/jobs/{y.id}/move", {"after": str(x.id), "among": "queue"}).status_code == 200
    assert places(api, quay, x, y, a, b) == [1, 2, 3, 4]


def test_jobs_without_a_place_neither_give_nor_take_one(quay: Quay, api: Api) -> None:
    bob = api(quay.cast.bob)
    held = quay.submit("held", hold=True)
    first, second = waiting(quay, "first", quay.cast.bob), waiting(quay, "second", quay.cast.bob)
    dependent = quay.submit("dependent", after_ok=["first"])
    low = quay.submit("low", priority="low")
    elsewhere = quay.submit("elsewhere", queue=make_queue(quay.cast.tenant, "night").name)

    def refused(job: Job, body: Any) -> tuple[int, list[tuple[str, str]]]:
        answer = send(bob, "post", f"/jobs/{job.id}/move", body)
        return answer.status_code, codes(answer) if answer.json().get("fields") else []

    assert refused(held, {"to": "first"}) == (409, [])
    assert refused(dependent, {"before": str(first.id)}) == (409, [])
    assert refused(second, {"before": str(held.id)}) == (409, [("/before", "not_waiting")])
    assert refused(second, {"before": str(low.id)}) == (422, [("/before", "not_movable")])
    assert refused(second, {"after": str(elsewhere.id)}) == (422, [("/after", "not_movable")])
    assert refused(second, {"after": str(second.id)}) == (422, [("/after", "not_movable")])
    assert refused(second, {})[0] == 422
    assert refused(second, {"before": str(first.id), "to": "last"})[0] == 422
    assert refused(second, {"to": "top"}) == (422, [("/to", "invalid_choice")])
    assert send(bob, "post", f"/jobs/{second.id}/move", {"before": "nobody"}).status_code == 404
    assert send(bob, "post", f"/jobs/{second.id}/move", {"to": "first"}).json()["job"]["place"] == 1
    assert Job.objects.get(id=held.id).placed_at is None


def test_another_priority_or_queue_takes_the_place_away(quay: Quay, api: Api) -> None:
    bob = api(quay.cast.bob)
    a, b = waiting(quay, "a", quay.cast.bob), waiting(quay, "b", quay.cast.bob)
    make_queue(quay.cast.tenant, "night")

    send(bob, "post", f"/jobs/{b.id}/move", {"before": str(a.id)})
    assert Job.objects.filter(placed_at__isnull=False).count() == 2
    send(bob, "patch", f"/jobs/{b.id}", {"priority": "low"})
    send(bob, "patch", f"/jobs/{a.id}", {"queue": "night"})
    assert Job.objects.filter(placed_at__isnull=False).count() == 0


def test_an_array_moves_as_a_whole(quay: Quay, api: Api) -> None:
    bob = api(quay.cast.bob)
    single = waiting(quay, "one", quay.cast.bob)
    quay.pass_time(10)
    array = quay.submit("many", array={"size": 3})
    children = list(Job.objects.filter(parent_id=array.id).order_by("array_index"))

    assert send(bob, "post", f"/jobs/{array.id}/move", {"before": "one"}).json()["moved"] == 2
    assert places(api, quay, *children, single) == [1, 2, 3, 4]
    assert send(bob, "post", f"/jobs/{single.id}/move", {"before": str(array.id)}).status_code == 200
    assert places(api, quay, single, *children) == [1, 2, 3, 4]
    assert send(api(quay.cast.alice), "post", f"/jobs/{array.id}/move", {"to": "first", "among": "queue"}).status_code == 200
    assert places(api, quay, *children, single) == [1, 2, 3, 4]


def test_a_move_past_many_costs_as_many_statements_as_past_few(quay: Quay, api: Api) -> None:
    counts = []
    for number in (4, 40):
        for _ in range(number):
            last = waiting(quay, "mine", quay.cast.bob)
        with CaptureQueriesContext(connection) as queries:
            moved = send(api(quay.cast.bob), "post", f"/jobs/{last.id}/move", {"to": "first"})
        assert moved.json()["moved"] >= number
        counts.append(len(queries))
    assert counts[1] <= counts[0] <= 25


# --- And the scheduler -----------------------------------------------------------------------------------------------


def started(quay: Quay) -> list[str]:
    return list(Attempt.objects.order_by("id").values_list("job__name", flat=True))


def test_what_was_moved_and_what_was_approved_starts_in_that_order(quay: Quay, api: Api) -> None:
    script, all_of_it = Script(duration_seconds=5), {"cpu": 8}
    quay.submit("filler", resources=all_of_it, script=script)
    quay.turn(2)
    jobs = {}
    for name in ("a", "b", "c", "d"):
        quay.pass_time(2)
        jobs[name] = quay.submit(name, resources=all_of_it, script=script)
    quay.turn()  # The scheduler has them in their first order.
    assert send(api(quay.cast.bob), "post", f"/jobs/{jobs['c'].id}/move", {"before": "a"}).status_code == 200
    asked = send(api(quay.cast.bob), "post", REQUESTS, {"job": "d", "priority": "high"}).json()
    assert send(api(quay.cast.alice), "post", f"{REQUESTS}/{asked['id']}/approve", {}).status_code == 200
    quay.settle()

    assert started(quay) == ["filler", "d", "c", "a", "b"]
