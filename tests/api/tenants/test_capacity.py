from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.apps import apps

from kernel.resources import Resources
from tenants.models import Queue
from tenants.services import LedgerLine, append_ledger, reserve
from tests.factories.tenants import Cast, ask, limit, make_queue, make_tenant, make_token, now, top_queue

if TYPE_CHECKING:
    from rest_framework.test import APIClient

pytestmark = pytest.mark.database
Api = Callable[..., "APIClient"]
QUEUES = "/api/v1/queues"


@pytest.fixture
def pool(db: None) -> Any:
    cluster = apps.get_model("clusters.Cluster").objects.create(name="here", kind="fake", created_at=now())
    return apps.get_model("clusters.Pool").objects.create(cluster=cluster, name="a100", created_at=now())


def set_limits(api: Api, person: Any, queue: Queue, *limits: dict[str, Any], **headers: str) -> Any:
    return api(person).put(f"{QUEUES}/{queue.pk}/limits", list(limits), format="json", headers=headers)


def test_a_queue_shows_use_ceilings_and_headroom_in_every_pool(api: Api, cast: Cast, pool: Any) -> None:
    queue = make_queue(cast.tenant, "nightly")
    limit(top_queue(cast.tenant), pool.pk, gpu_millis=4000)
    reserve([ask(queue, pool.pk, Resources(gpu_millis=1000, cpu_millis=500))], now=now())

    shown = api(cast.vera).get(f"{QUEUES}/{queue.pk}").json()

    assert shown["path"] == "vision/nightly"
    assert shown["parent_id"] == str(top_queue(cast.tenant).pk)
    (entry,) = shown["pools"]
    assert entry["pool"] == {"id": str(pool.pk), "name": "a100", "cluster": "here"}
    assert entry["used"]["gpu_millis"] == 1000
    assert entry["ceiling"]["gpu_millis"] is None
    assert entry["effective_ceiling"]["gpu_millis"] == 4000
    assert entry["headroom"] == {"cpu_millis": None, "memory_bytes": None, "gpu_millis": 3000}


def test_queues_above_ones_own_tenants_are_not_named(api: Api, cast: Cast) -> None:
    child = make_tenant("child", parent=cast.tenant)
    paths = {
        person: [item["path"] for item in api(getattr(cast, person)).get(QUEUES).json()["items"]]
        for person in ("vera", "carol", "otto")
    }

    assert sorted(paths["vera"]) == ["vision", "vision/child"]
    assert paths["carol"] == ["elsewhere"]
    assert sorted(paths["otto"]) == ["root", "root/elsewhere", "root/vision", "root/vision/child"]
    assert [item["name"] for item in api(cast.vera).get(QUEUES, {"tenant": child.slug}).json()["items"]] == ["child"]
    assert api(cast.carol).get(QUEUES, {"tenant": child.slug}).status_code == 404


def test_a_manager_splits_the_queue_of_their_tenant(api: Api, cast: Cast) -> None:
    client = api(cast.alice)

    first = client.post(QUEUES, {"name": "day", "tenant": "vision"}, format="json")
    below = client.post(QUEUES, {"name": "shift", "parent": first.json()["id"]}, format="json")
    by_name = client.post(QUEUES, {"name": "late", "parent": "day"}, format="json")

    assert [answer.status_code for answer in (first, below, by_name)] == [201, 201, 201]
    assert by_name.json()["path"] == "vision/day/late"
    assert client.post(QUEUES, {"name": "day", "tenant": "vision"}, format="json").status_code == 409
    for person, status in (("bob", 403), ("vera", 403), ("carol", 404)):
        answer = api(getattr(cast, person)).post(QUEUES, {"name": "x", "parent": first.json()["id"]}, format="json")
        assert answer.status_code == status


def test_a_queue_is_renamed_by_its_manager(api: Api, cast: Cast) -> None:
    queue = make_queue(cast.tenant, "day")

    assert api(cast.bob).patch(f"{QUEUES}/{queue.pk}", {"name": "x"}, format="json").status_code == 403
    assert api(cast.alice).patch(f"{QUEUES}/{queue.pk}", {"name": "night"}, format="json").json()["name"] == "night"
    assert api(cast.alice).patch(f"{QUEUES}/{queue.pk}", {"name": "vision"}, format="json").status_code == 409


def test_capacity_is_given_from_above_only(api: Api, cast: Cast, pool: Any) -> None:
    top, own = top_queue(cast.tenant), make_queue(cast.tenant, "day")
    child = top_queue(make_tenant("child", parent=cast.tenant))
    ceiling = {"pool": "a100", "gpu_millis": 2000}

    assert set_limits(api, cast.alice, top, ceiling).status_code == 403
    assert set_limits(api, cast.alice, own, ceiling).status_code == 200
    assert set_limits(api, cast.alice, child, ceiling).status_code == 200
    assert set_limits(api, cast.bob, own, ceiling).status_code == 403
    assert set_limits(api, cast.carol, own, ceiling).status_code == 404
    assert set_limits(api, cast.otto, top, ceiling).status_code == 200
    reader = make_token(cast.alice.user, scopes=("read",)).text
    assert set_limits(api, reader, own, ceiling).status_code == 403


def test_a_ceiling_above_that_of_a_queue_further_up_is_refused_with_its_place(api: Api, cast: Cast, pool: Any) -> None:
    own = make_queue(cast.tenant, "day")
    set_limits(api, cast.otto, top_queue(cast.tenant), {"pool": str(pool.pk), "gpu_millis": 2000})

    refused = set_limits(api, cast.alice, own, {"pool": "a100", "gpu_millis": 3000, "cpu_millis": 10**9})

    assert refused.status_code == 422
    assert [(entry["path"], entry["code"]) for entry in refused.json()["fields"]] == [("/0/gpu_millis", "above_parent")]


def test_limits_replace_each_other_and_a_pool_left_out_has_none(api: Api, cast: Cast, pool: Any) -> None:
    own = make_queue(cast.tenant, "day")
    first = set_limits(api, cast.alice, own, {"pool": "a100", "gpu_millis": 2000})
    stale = set_limits(api, cast.alice, own, {"pool": "a100", "gpu_millis": 1000}, **{"If-Match": '"1"'})
    second = set_limits(api, cast.alice, own, **{"If-Match": first["ETag"]})

    assert first.json()["pools"][0]["ceiling"]["gpu_millis"] == 2000
    assert stale.status_code == 412
    assert second.json()["pools"][0]["ceiling"]["gpu_millis"] is None
    assert len(reserve([ask(own, pool.pk, Resources(gpu_millis=9000))], now=now())) == 1


@pytest.mark.parametrize(
    "entry",
    [
        {"pool": "nowhere"},
        {"pool": "a100", "gpu_millis": -1},
        {"pool": "a100", "gpu_millis": 0.5},
        {"pool": "a100", "gpu_millis": "8"},
        {"pool": "a100", "gpu_millis": 2**63},
        {"pool": "a100", "gpus": 8},
        {},
    ],
)
def test_a_bad_limit_is_refused(api: Api, cast: Cast, pool: Any, entry: dict[str, Any]) -> None:
    own = make_queue(cast.tenant, "day")

    assert set_limits(api, cast.alice, own, entry).status_code == 422
    assert set_limits(api, cast.alice, own, {"pool": "a100"}, {"pool": "a100"}).status_code == 422


# --- Usage -----------------------------------------------------------------------------------------------------------

START = datetime(2026, 1, 1, tzinfo=UTC)


def book(cast: Cast, user: Any, tenant: Any, seconds: int, pool_id: uuid.UUID, **amounts: int) -> uuid.UUID:
    line = LedgerLine(
        attempt_id=uuid.uuid4(),
        number=1,
        job_id=uuid.uuid4(),
        tenant_id=tenant.pk,
        queue_id=top_queue(tenant).pk,
        user_id=user.pk,
        pool_id=pool_id,
        cluster_id=uuid.uuid4(),
        cpu_millis=amounts.get("cpu_millis", 0),
        memory_bytes=amounts.get("memory_bytes", 0),
        gpu_millis=amounts.get("gpu_millis", 1000),
        started_at=START,
        ended_at=START + timedelta(seconds=seconds),
        outcome="succeeded",
    )
    append_ledger([line], now=now())
    return line.job_id


def test_usage_is_shown_by_every_group_for_tenants_that_one_sees(api: Api, cast: Cast, pool: Any) -> None:
    job_id = book(cast, cast.bob.user, cast.tenant, 60, pool.pk)
    book(cast, cast.alice.user, cast.tenant, 30, pool.pk)
    book(cast, cast.carol.user, cast.elsewhere, 10, pool.pk)

    def items(person: Any, **query: str) -> list[tuple[str | None, int]]:
        answer = api(person).get("/api/v1/usage", query).json()
        return [(item["name"], item["gpu_milli_seconds"]) for item in answer["items"]]

    assert items(cast.vera) == [("vision", 90_000)]
    assert items(cast.vera, group_by="user") == [("bob", 60_000), ("alice", 30_000)]
    assert items(cast.vera, group_by="pool") == [("a100", 90_000)]
    assert items(cast.vera, group_by="queue") == [("vision", 90_000)]
    assert items(cast.otto) == [("vision", 90_000), ("elsewhere", 10_000)]
    assert api(cast.vera).get("/api/v1/usage", {"group_by": "job"}).json()["items"][0]["id"] == str(job_id)
    assert api(cast.carol).get("/api/v1/usage", {"tenant": cast.tenant.slug}).status_code == 404


def test_usage_is_cut_at_the_ends_of_the_window_and_paged(api: Api, cast: Cast, pool: Any) -> None:
    for seconds in (10, 20, 30):
        book(cast, cast.bob.user, cast.tenant, seconds, pool.pk)
    query = {"group_by": "job", "since": "2026-01-01T00:00:05Z", "until": "2026-01-01T00:00:25Z", "limit": "2"}

    first = api(cast.bob).get("/api/v1/usage", query).json()
    second = api(cast.bob).get("/api/v1/usage", {**query, "cursor": first["next"]}).json()

    sums = [item["gpu_milli_seconds"] for item in first["items"] + second["items"]]
    assert sums == [20_000, 15_000, 5_000]
    assert second["next"] is None
    assert api(cast.bob).get("/api/v1/usage", {"group_by": "job", "cursor": first["next"]}).status_code == 400


@pytest.mark.parametrize("query", [{"group_by": "colour"}, {"since": "yesterday"}, {"tenants": "x"}])
def test_a_bad_usage_query_is_refused(api: Api, cast: Cast, query: dict[str, str]) -> None:
    assert api(cast.bob).get("/api/v1/usage", query).status_code == 422
