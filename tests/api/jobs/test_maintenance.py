"""Maintenance: planned over HTTP, begun and ended by the duty, whatever the duty is late for or does twice."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from activity.models import AuditEvent, Event
from clusters.engines.fake import Script
from clusters.models import Node
from clusters.services import begin_windows, end_windows
from clusters.services.maintenance import NewWindow, plan_window
from jobs.models import Job
from jobs.services import maintenance
from tests.builders.quay import Quay
from tests.factories.clusters import a_cluster, node_facts
from tests.factories.tenants import actor_of

pytestmark = pytest.mark.database
Api = Callable[..., Any]
PATH = "/api/v1/maintenance"
ENDLESS = Script(duration_seconds=100_000)
HALF = {"cpu": 4, "memory": "1Gi"}


@pytest.fixture
def quay(cast: Any) -> Quay:
    return Quay(cast, nodes=[node_facts("node-1", cores=4), node_facts("node-2", cores=4)])


def plan(api: Api, quay: Quay, *, start: float = 60, hours: float = 1, by: Any = None, **body: Any) -> Any:
    begins = quay.now + timedelta(seconds=start)
    window = {"starts_at": begins.isoformat(), "ends_at": (begins + timedelta(hours=hours)).isoformat()}
    return api(by or quay.cast.otto).post(PATH, {**window, **body}, format="json")


def cordoned() -> list[str]:
    return list(Node.objects.filter(cordoned=True).order_by("name").values_list("name", flat=True))


@pytest.mark.capability("121", "A window takes its machine, empties it and gives it back")
def test_a_window_takes_its_machine_empties_it_and_gives_it_back(quay: Quay, api: Api) -> None:
    jobs = [quay.submit(f"job-{number}", script=ENDLESS, resources=HALF) for number in (1, 2)]
    quay.turn(3)
    where = {quay.tasks(job)[0].node_name: job for job in jobs}
    node = Node.objects.get(name="node-1")
    affected = api(quay.cast.bob).get(f"/api/v1/nodes/{node.pk}/affected").json()
    assert ([job["job"]["name"] for job in affected["jobs"]], affected["others"]) == ([where["node-1"].name], 0)
    hidden = api(quay.cast.carol).get(f"/api/v1/nodes/{node.pk}/affected").json()
    assert (hidden["jobs"], hidden["others"]) == ([], 1)

    assert plan(api, quay, nodes=["node-1"], by=quay.cast.alice).status_code == 403
    made = plan(api, quay, nodes=["node-1"], reason="Fans.", drain=True)
    assert made.status_code == 201, made.data
    assert (made.data["state"], [entry["name"] for entry in made.data["nodes"]]) == ("planned", ["node-1"])
    assert maintenance.look(quay.now) == 0
    assert cordoned() == []

    quay.pass_time(60)
    assert maintenance.look(quay.now) == 1
    assert maintenance.look(quay.now) == 0, "who was told to go is not told again"
    assert cordoned() == ["node-1"]
    assert "Fans" in Node.objects.get(name="node-1").cordon_reason
    assert (quay.state(where["node-1"]), quay.state(where["node-2"])) == ("stopping", "running")
    assert api(quay.cast.vera).get(PATH, {"open": "true"}).json()["items"][0]["state"] == "active"

    quay.pass_time(3600)
    maintenance.look(quay.now)
    maintenance.look(quay.now)
    assert cordoned() == []
    assert api(quay.cast.vera).get(PATH).json()["items"][0]["state"] == "over"
    kinds = list(Event.objects.filter(kind__startswith="maintenance.").values_list("kind", flat=True))
    assert sorted(kinds) == ["maintenance.began", "maintenance.ended", "maintenance.planned"]
    verbs = AuditEvent.objects.filter(verb__startswith="maintenance.").values_list("verb", flat=True)
    assert sorted(verbs) == ["maintenance.begin", "maintenance.create", "maintenance.end"]


def statements(work: Callable[[datetime], object], now: datetime) -> int:
    with CaptureQueriesContext(connection) as asked:
        work(now)
    return len(asked)


def test_a_window_begins_and_ends_in_as_many_statements_for_many_machines_as_for_few(
    cast: Any,
) -> None:
    counts = []
    for name, size in (("small", 3), ("large", 60)):
        cluster = a_cluster(name).with_nodes(size, gpus=1).build()
        now = datetime.now(UTC)
        window = NewWindow(cluster.pools.get().pk, (), now, now + timedelta(hours=1))
        plan_window(actor=actor_of(cast.otto.user), wanted=window, now=now)
        begun = statements(begin_windows, now)
        assert len(cordoned()) == size
        again = statements(begin_windows, now)
        ended = statements(end_windows, now + timedelta(hours=2))
        assert cordoned() == []
        counts.append((begun, again, ended))

    assert counts[0] == counts[1]
    assert max(counts[0]) <= 14
    audited = AuditEvent.objects.filter(verb="maintenance.begin").order_by("id").values_list("count", flat=True)
    assert list(audited) == [3, 60]


def test_more_machines_than_one_transaction_takes_are_taken_one_after_the_other(
    quay: Quay, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clusters.services.maintenance.NODES_AT_ONCE", 1)
    plan(api, quay, pool=quay.pool.name, start=0)
    plan(api, quay, nodes=["node-1"], start=0)

    assert begin_windows(quay.now) == 2
    assert cordoned() == ["node-1", "node-2"]
    assert Event.objects.filter(kind="maintenance.began").count() == 2
    quay.pass_time(3601)
    maintenance.look(quay.now)
    assert cordoned() == []


def test_what_was_out_before_stays_out_and_what_somebody_took_back_stays_in(quay: Quay, api: Api) -> None:
    first, second = Node.objects.order_by("name")
    operator = api(quay.cast.otto)
    operator.patch(f"/api/v1/nodes/{first.pk}", {"cordoned": True, "cordon_reason": "Disk."}, format="json")
    plan(api, quay, pool=quay.pool.name, start=0, drain=True)
    maintenance.look(quay.now)
    assert cordoned() == ["node-1", "node-2"]
    assert Node.objects.get(pk=first.pk).cordon_reason == "Disk."
    operator.patch(f"/api/v1/nodes/{second.pk}", {"cordoned": False}, format="json")
    maintenance.look(quay.now)
    assert cordoned() == ["node-1"]
    quay.pass_time(3601)
    maintenance.look(quay.now)
    assert cordoned() == ["node-1"]


def test_a_machine_returns_with_the_last_of_its_windows(quay: Quay, api: Api) -> None:
    plan(api, quay, nodes=["node-1"], start=0, hours=1)
    plan(api, quay, pool=quay.pool.name, start=0, hours=2)
    maintenance.look(quay.now)
    quay.pass_time(3601)
    maintenance.look(quay.now)
    assert cordoned() == ["node-1", "node-2"]
    quay.pass_time(3600)
    maintenance.look(quay.now)
    assert cordoned() == []


def test_a_window_can_be_ended_before_its_time_once(quay: Quay, api: Api) -> None:
    made = plan(api, quay, nodes=["node-1"], start=0).data
    maintenance.look(quay.now)
    path = f"{PATH}/{made['id']}"
    assert api(quay.cast.alice).delete(path).status_code == 403
    assert api(quay.cast.otto).delete(path).json()["state"] == "cancelled"
    assert cordoned() == []
    assert api(quay.cast.otto).delete(path).status_code == 409
    maintenance.look(quay.now)
    assert cordoned() == []


def test_a_machine_that_returns_while_others_are_emptied_is_left_alone(
    quay: Quay, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator ends the window between the look at what is to be emptied and the emptying."""
    jobs = [quay.submit(f"job-{number}", script=ENDLESS, resources=HALF) for number in (1, 2)]
    quay.turn(3)
    made = plan(api, quay, nodes=["node-1"], start=0, drain=True).data
    to_empty = maintenance._to_empty

    def late(now: Any) -> Any:
        found = to_empty(now)
        assert [node.name for node in found] == ["node-1"]
        api(quay.cast.otto).delete(f"{PATH}/{made['id']}")
        return found

    monkeypatch.setattr(maintenance, "_to_empty", late)

    assert maintenance.look(quay.now) == 0
    assert cordoned() == []
    assert {quay.state(job) for job in jobs} == {"running"}


def test_a_window_that_nobody_was_there_for_is_over(quay: Quay, api: Api) -> None:
    plan(api, quay, nodes=["node-1"])
    quay.pass_time(8000)
    maintenance.look(quay.now)
    assert cordoned() == []
    assert api(quay.cast.otto).get(PATH).json()["items"][0]["state"] == "over"


def test_a_machine_that_comes_to_the_pool_meanwhile_is_taken_too(quay: Quay, api: Api) -> None:
    plan(api, quay, pool=quay.pool.name, start=0)
    maintenance.look(quay.now)
    node = Node.objects.get(name="node-1")
    Node.objects.create(
        cluster_id=node.cluster_id, pool_id=node.pool_id, name="node-3", ready_since_at=quay.now, last_seen_at=quay.now,
        created_at=quay.now,
    )  # fmt: skip
    maintenance.look(quay.now)
    assert cordoned() == ["node-1", "node-2", "node-3"]
    quay.pass_time(3601)
    maintenance.look(quay.now)
    assert cordoned() == []


def test_what_is_wrong_is_told_at_once(quay: Quay, api: Api) -> None:
    refused = plan(api, quay, nodes=["node-1", "node-9"], pool="nowhere")
    assert {field["path"] for field in refused.json()["fields"]} == {"/pool", "/nodes/1"}
    refused = plan(api, quay, nodes=["node-1"], start=-7200)
    assert {field["path"] for field in refused.json()["fields"]} == {"/starts_at", "/ends_at"}
    assert plan(api, quay).status_code == 422


def test_a_machine_that_cannot_be_emptied_keeps_no_other_from_being_emptied(
    quay: Quay, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More run on one machine than one drain takes, and a look empties as many machines as it may."""
    second = Node.objects.filter(name="node-2")
    second.update(cordoned=True, cordoned_at=quay.now)
    for number in (1, 2):
        quay.submit(f"job-{number}", script=ENDLESS, resources={"cpu": 2, "memory": "1Gi"})
    quay.turn(3)
    second.update(cordoned=False, cordoned_at=None)
    alone = quay.submit("alone", script=ENDLESS, resources=HALF)
    quay.turn(3)
    assert [task.node_name for task in quay.tasks(alone)] == ["node-2"], "the machine that comes first is the one that is refused"
    monkeypatch.setattr("jobs.services.draining.JOBS_MAX", 1)
    monkeypatch.setattr("jobs.services.maintenance.DRAINS_AT_ONCE", 1)
    plan(api, quay, nodes=["node-1", "node-2"], start=0, drain=True)
    assert maintenance.look(quay.now) == 1
    states = dict(Job.objects.values_list("name", "state"))
    assert states == {"job-1": "running", "job-2": "running", "alone": "stopping"}
