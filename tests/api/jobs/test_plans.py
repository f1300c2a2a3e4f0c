"""A dry run answers a plan; sent back by its name, just that is done, or nothing and the plan as it is by now."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from activity.models import AuditEvent
from clusters.engines.fake import Script
from clusters.models import Node
from jobs.models import Attempt, Job
from kernel import clock
from tenants.models import QueueLimit, QuotaEdit, UserCap
from tests.builders.quay import Quay
from tests.factories.clusters import node_facts
from tests.factories.tenants import top_queue
from webapi import plans

pytestmark = pytest.mark.database

Api = Callable[..., Any]
ENDLESS = Script(duration_seconds=10_000)
SMALL = {"cpu": 1, "memory": "16Mi"}


def post(client: Any, path: str, body: Any, **query: str) -> Any:
    text = "&".join(f"{name}={value}" for name, value in query.items())
    return client.post(f"/api/v1{path}?{text}", json.dumps(body), content_type="application/json")


def refused_plan(answer: Any) -> dict[str, Any]:
    """The new plan in a refusal."""
    body = answer.json()
    assert (answer.status_code, body["code"]) == (412, "plan_changed"), body
    plan: dict[str, Any] = body["plan"]
    assert plan["plan"] == plans.name_of(plan), "the plan has its own name, ready to be sent"
    return plan


def test_the_name_of_a_plan_goes_by_what_it_says_alone() -> None:
    plan = {"count": 1, "jobs": [{"a": 1, "b": None}]}
    same = {"jobs": [{"b": None, "a": 1}], "count": 1, "at": "now", "plan": "whatever"}
    assert plans.name_of(plan) == plans.name_of(same)
    assert plans.name_of(plan) != plans.name_of({**plan, "count": 2})


@pytest.mark.capability(
    "6.6", "Submissions, edits of limits, moves and the emptying of a machine do what their dry run said, or nothing"
)
def test_a_submission_is_stored_as_planned_or_not_at_all(quay: Quay, api: Api) -> None:
    client, body = api(quay.cast.bob), {"spec": {"name": "train", "command": "true", "resources": SMALL}}
    plan = post(client, "/jobs", body, dry_run="true").json()

    changed = {"spec": {**body["spec"], "command": "false"}}
    assert refused_plan(post(client, "/jobs", changed, plan=plan["plan"]))["spec_digest"] != plan["spec_digest"]
    assert Job.objects.count() == 0
    assert post(client, "/jobs", body, plan=plan["plan"]).status_code == 201
    assert post(client, "/jobs", body, plan="plan-7").json()["fields"][0]["path"] == "/plan"


def test_a_submission_that_would_now_never_start_is_refused_by_its_plan(quay: Quay, api: Api) -> None:
    client, body = api(quay.cast.bob), {"spec": {"name": "train", "command": "true", "resources": SMALL}}
    plan = post(client, "/jobs", body, dry_run="true").json()
    UserCap.objects.create(tenant=quay.cast.tenant, user=None, containers=0)
    assert post(client, "/jobs", body, plan=plan["plan"]).json()["code"] == "quota_exceeded"


@pytest.mark.capability(
    "6.6", "Submissions, edits of limits, moves and the emptying of a machine do what their dry run said, or nothing"
)
def test_a_batch_is_held_to_its_plan(quay: Quay, api: Api) -> None:
    client, base = api(quay.cast.bob), {"name": "train", "command": "true", "resources": SMALL}
    body = {"spec": base, "items": [{"name": "a"}, {"name": "b"}]}
    plan = post(client, "/jobs:batch", body, dry_run="true").json()
    other = {"spec": base, "items": [{"name": "a"}, {"name": "c"}]}
    assert refused_plan(post(client, "/jobs:batch", other, plan=plan["plan"]))["first"] == plan["first"]
    assert post(client, "/jobs:batch", body, plan=plan["plan"]).json()["count"] == 2


@pytest.mark.capability(
    "6.6", "Submissions, edits of limits, moves and the emptying of a machine do what their dry run said, or nothing"
)
def test_an_edit_of_limits_is_made_only_if_the_same_jobs_start_wait_and_go(quay: Quay, api: Api) -> None:
    top, operator = top_queue(quay.cast.tenant), api(quay.cast.otto)
    running = quay.submit("running", script=ENDLESS, resources={"cpu": 4, "memory": "1Gi"})
    waits = quay.submit("waits", resources={"cpu": 4, "memory": "1Gi"}, script=ENDLESS)
    quay.turn(2)
    assert [quay.state(job) for job in (running, waits)] == ["running", "running"]
    change = {"queue": str(top.pk), "pool": quay.pool.name, "resource": "cpu_millis", "ceiling": 4000}
    body = {"changes": [change]}
    plan = post(operator, "/quota/edits", {**body, "dry_run": True}).json()

    third = quay.submit("third", resources={"cpu": 1, "memory": "1Gi"}, script=ENDLESS)
    again = refused_plan(post(operator, "/quota/edits", body, plan=plan["plan"]))
    assert again["forecast"] != plan["forecast"], "another job waits by now, for another reason"
    assert not QueueLimit.objects.exists()
    quay.stop(third)
    assert post(operator, "/quota/edits", body, plan=again["plan"]).status_code == 412
    assert post(operator, "/quota/edits", body, plan=plan["plan"]).status_code == 201, "all is as it was"
    assert QueueLimit.objects.get().ceiling == 4000
    assert QuotaEdit.objects.count() == 1
    assert refused_plan(post(operator, "/quota/edits", body, plan=plan["plan"]))["changes"][0]["before"]["ceiling"] == 4000


def test_an_edit_that_breaks_the_tree_by_now_says_what_it_breaks(quay: Quay, api: Api) -> None:
    top, operator = top_queue(quay.cast.tenant), api(quay.cast.otto)
    body = {"changes": [{"queue": str(top.pk), "pool": quay.pool.name, "resource": "cpu_millis", "guarantee": 4000}]}
    plan = post(operator, "/quota/edits", {**body, "dry_run": True}).json()
    ceiling = {"changes": [{"queue": str(top.pk), "pool": quay.pool.name, "resource": "cpu_millis", "ceiling": 1000}]}
    assert post(operator, "/quota/edits", ceiling).status_code == 201
    refused = post(operator, "/quota/edits", body, plan=plan["plan"]).json()
    assert refused["code"] == "invalid_input"
    assert refused["fields"][0]["path"].startswith("/changes/0/")


@pytest.mark.capability(
    "6.6", "Submissions, edits of limits, moves and the emptying of a machine do what their dry run said, or nothing"
)
def test_a_move_is_made_as_planned_or_not_at_all(quay: Quay, api: Api) -> None:
    quay.submit("hog", script=ENDLESS, resources={"cpu": 8, "memory": "1Gi"})
    jobs = []
    for name in "abc":
        quay.pass_time(10)
        jobs.append(quay.submit(name, resources={"cpu": 8, "memory": "1Gi"}))
    quay.turn(2)
    client, path = api(quay.cast.bob), f"/jobs/{jobs[2].id}/move"
    plan = post(client, path, {"to": "first"}, dry_run="true").json()
    assert [job["name"] for job in plan["jobs"]] == ["c", "a", "b"]
    assert plan["job"]["place"] == 3, "nothing moved yet"
    assert not Job.objects.filter(placed_at__isnull=False).exists()

    assert post(client, f"/jobs/{jobs[1].id}/move", {"to": "first"}).status_code == 200
    assert [job["name"] for job in refused_plan(post(client, path, {"to": "first"}, plan=plan["plan"]))["jobs"]] == [
        "c",
        "b",
        "a",
    ]
    renewed = post(client, path, {"to": "first"}, dry_run="true").json()["plan"]
    assert post(client, path, {"to": "first"}, plan=renewed).json()["job"]["place"] == 1


@pytest.fixture
def pair(cast: Any) -> Iterator[Quay]:
    """Two machines."""
    made = Quay(cast, nodes=[node_facts("node-1", cores=4), node_facts("node-2", cores=4)])
    with clock.virtual(lambda: made.now):
        yield made


@pytest.mark.capability(
    "6.6", "Submissions, edits of limits, moves and the emptying of a machine do what their dry run said, or nothing"
)
def test_a_machine_is_emptied_of_just_those_who_were_shown(api: Api, pair: Quay) -> None:
    quay, cast = pair, pair.cast
    first, second = (quay.submit(name, script=ENDLESS, resources={"cpu": 4, "memory": "1Gi"}) for name in ("first", "second"))
    quay.turn(2)
    where = {task.node_name: job for job in (first, second) for task in quay.tasks(job)}
    job, other = where["node-1"], where["node-2"]
    node, operator = Node.objects.get(name="node-1"), api(cast.otto)
    path = f"/nodes/{node.pk}/drain"
    assert post(api(cast.alice), path, {}, dry_run="true").status_code == 403
    plan = post(operator, path, {}, dry_run="true").json()
    assert [(affected["job"]["name"], affected["tasks"], affected["checkpoint"]) for affected in plan["jobs"]] == [
        (job.name, 1, False)
    ]
    assert not Node.objects.get(pk=node.pk).cordoned

    quay.stop(job, grace_seconds=0)
    for _ in range(3):
        quay.turn()
        quay.pass_time(1)
    assert refused_plan(post(operator, path, {}, plan=plan["plan"]))["jobs"] == []
    assert not Node.objects.get(pk=node.pk).cordoned, "a refused drain has done nothing"

    again = quay.submit("again", script=ENDLESS, resources={"cpu": 4, "memory": "1Gi"})
    quay.turn(2)
    plan = post(operator, path, {"reason": "Fan."}, dry_run="true").json()
    done = post(operator, path, {"reason": "Fan."}, plan=plan["plan"])
    assert [affected["job"]["name"] for affected in done.json()["jobs"]] == ["again"]
    assert Node.objects.get(pk=node.pk).cordon_reason == "Fan."
    assert quay.state(again) == "stopping"
    assert AuditEvent.objects.filter(verb="node.drain").count() == 1
    for _ in range(4):
        quay.turn()
        quay.pass_time(31)
    assert (quay.state(again), quay.state(other)) == ("queued", "running"), "it waits again, and goes on elsewhere later"
    assert Attempt.objects.get(job=again).outcome == "preempted"
    assert not quay.job(again.id).paid.get("user"), "no retry is paid"
    quay.stop(other, grace_seconds=0)
    for _ in range(20):
        quay.turn()
        quay.pass_time(31)
        if quay.state(again) == "running":
            break
    assert [task.node_name for task in quay.tasks(again)] == ["node-1", "node-2"]
