"""Whatever nobody can mean, at every door where capacity is asked for or given: refused with what, where and what would do.

Sent as bytes, since some of it is no JSON that a library would write.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from clusters.models import Pool
from jobs.models import Job
from tenants.models import Booking, QueueLimit, QuotaEdit
from tests.builders.quay import Quay
from tests.factories.clusters import a_cluster, make_cluster, node_facts
from tests.factories.tenants import Cast, make_queue, now, top_queue

pytestmark = pytest.mark.database

Api = Callable[..., Any]
# Written as they come in: each must be refused wherever a quantity is asked for.
NO_QUANTITIES = (
    "-1",
    "-9223372036854775809",
    "9223372036854775808",
    "1e400",
    "NaN",
    "Infinity",
    "-Infinity",
    "1.5",
    '"8"',
    "true",
    "[]",
)


@pytest.fixture
def harbour(cast: Cast) -> Quay:
    """Two machines of 8 GPUs and 8 cores."""
    return Quay(cast, nodes=[node_facts(name, cores=8, gpus=8) for name in ("node-1", "node-2")])


def refused(client: Any, path: str, body: Any) -> list[tuple[str, str]]:
    """What was wrong, by path and code. Each has words; where a body could be read, each also has its hint."""
    text = body if isinstance(body, str) else json.dumps(body)
    answer = client.post(f"/api/v1{path}", text, content_type="application/json")
    assert answer.status_code in {400, 409, 422}, (answer.status_code, answer.content)
    shown = answer.json()
    assert shown["detail"]
    assert all(entry["message"] for entry in shown.get("fields", []))
    return [(entry["path"], entry["code"]) for entry in shown.get("fields", [])] or [("", shown["code"])]


def change(queue: Any, pool: Any, **values: Any) -> dict[str, Any]:
    return {"queue": str(queue.pk), "pool": str(pool.pk), "resource": "gpu_millis", **values}


@pytest.mark.parametrize("text", NO_QUANTITIES)
@pytest.mark.parametrize("column", ["guarantee", "deserved", "ceiling", "weight"])
def test_no_limit_is_set_to_what_is_no_quantity(harbour: Quay, api: Api, column: str, text: str) -> None:
    queue = make_queue(harbour.cast.tenant, "day")
    body = json.dumps({"changes": [change(queue, harbour.pool, **{column: "HERE"})]}).replace('"HERE"', text)

    [(path, _)] = refused(api(harbour.cast.alice), "/quota/edits", body)
    assert path in {f"/changes/0/{column}", ""}, "a number that JSON does not know makes the whole body unreadable"
    assert not QuotaEdit.objects.exists()
    assert not QueueLimit.objects.exists()


@pytest.mark.parametrize("text", [*NO_QUANTITIES, "0", "999", "1500", "null"])
def test_nothing_is_booked_that_is_no_number_of_gpus(harbour: Quay, api: Api, text: str) -> None:
    start = now() + timedelta(days=1)
    window = {"starts_at": start.isoformat(), "ends_at": (start + timedelta(hours=1)).isoformat()}
    body = json.dumps({"pool": str(harbour.pool.pk), "gpu_millis": "HERE", **window}).replace('"HERE"', text)

    [(path, _)] = refused(api(harbour.cast.alice), "/bookings", body)
    assert path in {"/gpu_millis", ""}
    assert not Booking.objects.exists()


@pytest.mark.parametrize(
    "text", ["-1", "-9223372036854775809", "9223372036854775808", "1e400", "NaN", "Infinity", "true", "[]", '"NaN"']
)
@pytest.mark.parametrize("resource", ["cpu", "gpu", "memory"])
def test_no_job_asks_for_what_is_no_quantity(harbour: Quay, api: Api, resource: str, text: str) -> None:
    spec = {"name": "train", "command": "true", "resources": {resource: "HERE"}}
    body = json.dumps({"spec": spec}).replace('"HERE"', text)

    [(path, _)] = refused(api(harbour.cast.bob), "/jobs", body)
    assert path in {f"/resources/{resource}", f"/roles/worker/resources/{resource}", "", "/spec"}, path
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    "text", ["0", "-1", "1.5", "NaN", "9223372036854775808", "100001", '{"min": 3, "max": 2}', '{"min": 0, "max": 2}']
)
def test_no_gang_has_a_senseless_size(harbour: Quay, api: Api, text: str) -> None:
    body = json.dumps({"spec": {"name": "train", "command": "true", "replicas": "HERE"}}).replace('"HERE"', text)

    found = refused(api(harbour.cast.bob), "/jobs", body)
    assert all(path.startswith(("/replicas", "/roles")) or path == "" for path, _ in found), found
    assert not Job.objects.exists()


def test_an_edit_that_breaks_the_tree_is_refused_at_the_change_that_breaks_it(harbour: Quay, api: Api) -> None:
    top = top_queue(harbour.cast.tenant)
    day, night = make_queue(harbour.cast.tenant, "day"), make_queue(harbour.cast.tenant, "night")
    pool, otto = harbour.pool, api(harbour.cast.otto)

    def broken(*changes: dict[str, Any]) -> list[tuple[str, str]]:
        return refused(otto, "/quota/edits", {"changes": list(changes)})

    too_much = broken(change(top, pool, guarantee=17_000))
    assert set(too_much) == {("/changes/0/guarantee", "sum_above_parent"), ("/changes/0/deserved", "sum_above_parent")}
    halves = [change(queue, pool, guarantee=5_000) for queue in (day, night)]
    assert broken(change(top, pool, guarantee=8_000), *halves)[0][1] == "sum_above_parent"
    assert broken(change(top, pool, guarantee=9_000, ceiling=8_000)) == [("/changes/0/guarantee", "above_ceiling")]
    assert broken(change(top, pool, guarantee=4_000, deserved=2_000))[0][0].startswith("/changes/0/")
    assert not QueueLimit.objects.exists()


def test_an_unknown_pool_queue_or_resource_is_named(harbour: Quay, api: Api) -> None:
    cast, pool = harbour.cast, harbour.pool
    queue = make_queue(cast.tenant, "day")
    start = (now() + timedelta(days=1)).isoformat()
    end = (now() + timedelta(days=2)).isoformat()
    window = {"starts_at": start, "ends_at": end, "gpu_millis": 1000}

    def of_edit(**values: Any) -> list[tuple[str, str]]:
        return refused(api(cast.alice), "/quota/edits", {"changes": [{**change(queue, pool, ceiling=1000), **values}]})

    assert of_edit(pool="h900") == [("/changes/0/pool", "not_found")]
    assert of_edit(queue="nowhere") == [("/changes/0/queue", "not_found")]
    assert of_edit(resource="tpus") == [("/changes/0/resource", "invalid_choice")]
    assert refused(api(cast.alice), "/bookings", {"pool": "h900", **window}) == [("/pool", "not_found")]
    spec = {"name": "train", "command": "true"}
    for key in ("pool", "cluster"):
        assert refused(api(cast.bob), "/jobs", {"spec": {**spec, key: "h900"}}) == [(f"/{key}", f"{key}_not_found")]
    assert refused(api(cast.bob), "/jobs", {"spec": {**spec, "queue": "nowhere"}})[0][0] == "/queue"


def test_nothing_is_booked_in_the_past_or_over_others(harbour: Quay, api: Api) -> None:
    cast, pool = harbour.cast, harbour.pool

    def book(person: Any, hours: tuple[float, float], gpus: int = 1) -> Any:
        window = {
            name: (now() + timedelta(hours=at)).isoformat() for name, at in zip(("starts_at", "ends_at"), hours, strict=True)
        }
        return refused(api(person), "/bookings", {"pool": str(pool.pk), "gpu_millis": gpus * 1000, **window})

    assert book(cast.alice, (-5, 5)) == [("/starts_at", "in_the_past")]
    assert book(cast.alice, (-5, -1)) == [("/starts_at", "in_the_past"), ("/ends_at", "out_of_range")]
    assert book(cast.alice, (5, 1)) == [("/ends_at", "out_of_range")]
    assert book(cast.alice, (24 * 400, 24 * 401)) == [("/starts_at", "out_of_range")]
    assert book(cast.alice, (1, 5), gpus=17) == [("/gpu_millis", "larger_than_pool")]
    window = {"starts_at": (now() + timedelta(hours=1)).isoformat(), "ends_at": (now() + timedelta(hours=5)).isoformat()}
    api(cast.carol).post("/api/v1/bookings", {"pool": str(pool.pk), "gpu_millis": 16_000, **window}, format="json")
    answer = api(cast.alice).post("/api/v1/bookings", {"pool": str(pool.pk), "gpu_millis": 1000, **window}, format="json")
    assert answer.status_code == 409
    assert "16 GPUs are booked from" in answer.json()["fields"][0]["message"]
    assert "elsewhere" not in answer.content.decode(), "whose it is, is none of hers"
    assert "begin at" in answer.json()["hint"].lower()


def test_a_gang_larger_than_any_cluster_is_refused_with_what_there_is(harbour: Quay, api: Api) -> None:
    bob = api(harbour.cast.bob)

    def gang(replicas: Any, **resources: Any) -> dict[str, Any]:
        return {"spec": {"name": "train", "command": "true", "replicas": replicas, "resources": {"cpu": "100m", **resources}}}

    assert refused(bob, "/jobs", gang(17, gpu=1)) == [("/roles", "larger_than_pool")]
    answer = bob.post("/api/v1/jobs", json.dumps(gang(17, gpu=1)), content_type="application/json").json()
    assert "asks for 17 GPUs together" in answer["detail"]
    assert "has 16 GPUs in all" in answer["detail"]
    assert "at most 16 GPUs" in answer["hint"]
    assert refused(bob, "/jobs", gang(2, cpu=9)) == [("/roles", "larger_than_pool")]
    assert refused(bob, "/jobs:batch", {**gang(1), "items": [{"name": "a"}, {"resources": {"gpu": 99}}]})[0][1] in {
        "larger_than_pool",
        "unknown_field",
        "unknown_key",
    }
    assert not Job.objects.exists()
    for body in (gang(16, gpu=1), gang({"min": 8, "max": 64}, gpu=1)):
        assert bob.post("/api/v1/jobs", json.dumps(body), content_type="application/json").status_code == 201, "it has room empty"


def test_where_there_is_none_of_a_resource_no_smaller_amount_is_suggested(cast: Cast, api: Api) -> None:
    a_cluster("plain").with_nodes(1, gpus=0).build()
    body = {"spec": {"name": "train", "command": "true", "resources": {"gpu": 1}}}
    answer = api(cast.bob).post("/api/v1/jobs", json.dumps(body), content_type="application/json").json()
    assert answer["hint"] == "Leave that resource out, or ask an operator for nodes with it."


def test_a_cluster_that_has_no_machine_yet_refuses_nobody(cast: Cast, api: Api) -> None:
    Pool.objects.create(cluster=make_cluster("empty"), name="empty", created_at=now())
    body = {"spec": {"name": "train", "command": "true", "resources": {"gpu": 8}}}
    assert api(cast.bob).post("/api/v1/jobs", json.dumps(body), content_type="application/json").status_code == 201


def test_no_circle_of_dependencies_can_be_written(harbour: Quay, api: Api) -> None:
    """A job names only jobs that are stored already, and what it waits for never changes: so no way leads back."""
    bob = api(harbour.cast.bob)
    spec = {"name": "train", "command": "true"}

    assert refused(bob, "/jobs", {"spec": {**spec, "after_ok": ["train"]}}) == [("/after_ok/0", "job_not_found")]
    circle = [{**spec, "name": "a", "after_ok": ["b"]}, {**spec, "name": "b", "after_ok": ["a"]}]
    lines = "\n".join(json.dumps(item) for item in circle)
    answer = bob.post("/api/v1/jobs:batch", lines, content_type="application/x-ndjson").json()
    found = [(entry["path"], entry["code"]) for entry in answer["fields"]]
    assert found == [("/items/0/after_ok/0", "job_not_found"), ("/items/1/after_ok/0", "job_not_found")]
    first = harbour.submit("first")
    second = harbour.submit("second", after_ok=[str(first.id)])
    answer = bob.patch(f"/api/v1/jobs/{first.id}", {"after_ok": [str(second.id)]}, format="json")
    assert (answer.status_code, answer.json()["fields"][0]["code"]) == (422, "unknown_field")
