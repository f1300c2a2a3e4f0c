"""Queues, limits and bookings over HTTP at their bounds: who does what, odd bodies, versions, reads of queues, statements."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from activity.models import AuditEvent
from clusters.selectors import list_pools
from kernel.actor import ANONYMOUS
from kernel.errors import InvalidInput, NotFound
from kernel.resources import Resources
from tenants.capacity import selectors
from tenants.capacity.api.pools import find_pool, names_of_pools, pool_ref
from tenants.models import Queue, QueueLimit
from tenants.services import reserve
from tests.factories.clusters import a_cluster
from tests.factories.tenants import Cast, actor_of, ask, limit, make_queue, make_tenant, now, top_queue

pytestmark = pytest.mark.database
Api = Callable[..., Any]
QUEUES, BOOKINGS = "/api/v1/queues", "/api/v1/bookings"


@pytest.fixture
def pool(db: None) -> Any:
    """16 GPUs on two nodes."""
    return a_cluster("here").with_nodes(2, gpus=8).build().pools.get()


def paths(answer: Any) -> set[str]:
    assert answer.status_code == 422, answer.content
    return {field["path"] for field in answer.json()["fields"]}


# --- Queues ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("person", "create", "rename", "limits"),
    [
        ("alice", 201, 200, 200),
        ("bob", 403, 403, 403),
        ("vera", 403, 403, 403),
        ("carol", 404, 404, 404),
        ("otto", 201, 200, 200),
    ],
)
def test_who_splits_renames_and_limits_queues(
    api: Api, cast: Cast, pool: Any, person: str, create: int, rename: int, limits: int
) -> None:
    client, queue = api(getattr(cast, person)), make_queue(cast.tenant, "nightly")
    made = client.post(QUEUES, {"tenant": "vision", "name": "weekly"}, format="json")
    assert made.status_code == create, made.content
    assert client.patch(f"{QUEUES}/{queue.pk}", {"name": "daily"}, format="json").status_code == rename
    body = [{"pool": pool.name, "gpu_millis": 1_000}]
    assert client.put(f"{QUEUES}/{queue.pk}/limits", body, format="json").status_code == limits
    assert Queue.objects.filter(tenant=cast.tenant).count() == (3 if create == 201 else 2)
    assert QueueLimit.objects.exists() is (limits == 200)
    assert AuditEvent.objects.filter(actor_id=getattr(cast, person).user.pk).count() == (3 if create == 201 else 0)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"tenant": "vision"}, {"/name"}),
        ({"tenant": "vision", "name": ""}, {"/name"}),
        ({"tenant": "vision", "name": "x" * 64}, {"/name"}),
        ({"tenant": "vision", "name": "a/b"}, {"/name"}),
        ({"tenant": "vision", "name": "x", "is_top": True}, {"/is_top"}),
    ],
)
def test_a_queue_has_a_name_and_nothing_that_belongs_to_the_server(
    api: Api, cast: Cast, body: dict[str, Any], expected: set[str]
) -> None:
    assert paths(api(cast.alice).post(QUEUES, body, format="json")) == expected


def test_a_queue_is_renamed_from_the_version_that_was_read(api: Api, cast: Cast) -> None:
    path = f"{QUEUES}/{make_queue(cast.tenant, 'nightly').pk}"
    tag = api(cast.alice).get(path)["ETag"]
    changed = api(cast.alice).patch(path, {"name": "daily"}, format="json", HTTP_IF_MATCH=tag)
    assert (changed.status_code, changed.json()["name"]) == (200, "daily")
    assert api(cast.alice).patch(path, {"name": "weekly"}, format="json", HTTP_IF_MATCH=tag).status_code == 412
    assert Queue.objects.get(name="daily").version == 2


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"pool": "nothing", "gpu_millis": 1}, {"/0/pool"}),
        ({"gpu_millis": 1}, {"/0/pool"}),
        ({"pool": "POOL", "gpu_millis": -1, "cpu_millis": "x"}, {"/0/gpu_millis", "/0/cpu_millis"}),
        ({"pool": "POOL", "gpu_millis": 2**53 + 1}, {"/0/gpu_millis"}),
        ({"pool": "POOL", "fpga": 1}, {"/0/fpga"}),
    ],
)
def test_a_bad_limit_is_told_with_its_place_and_replaces_nothing(
    api: Api, cast: Cast, pool: Any, entry: dict[str, Any], expected: set[str]
) -> None:
    queue = top_queue(cast.tenant)
    limit(queue, pool.pk, gpu_millis=4_000)
    body = [{**entry, **({"pool": pool.name} if entry.get("pool") == "POOL" else {})}]
    assert paths(api(cast.otto).put(f"{QUEUES}/{queue.pk}/limits", body, format="json")) == expected
    assert QueueLimit.objects.get(queue=queue).ceiling == 4_000


@pytest.mark.parametrize("ceiling", [0, 1, 2**53])
def test_nothing_and_the_most_are_limits(api: Api, cast: Cast, pool: Any, ceiling: int) -> None:
    queue = top_queue(cast.tenant)
    answer = api(cast.otto).put(f"{QUEUES}/{queue.pk}/limits", [{"pool": str(pool.pk), "gpu_millis": ceiling}], format="json")
    assert answer.status_code == 200, answer.content
    (shown,) = answer.json()["pools"]
    assert (shown["ceiling"]["gpu_millis"], shown["headroom"]["gpu_millis"]) == (ceiling, ceiling)


def test_the_list_of_queues_asks_as_often_for_many_as_for_one(api: Api, cast: Cast, pool: Any) -> None:
    def statements() -> int:
        api(cast.alice).get(QUEUES)
        with CaptureQueriesContext(connection) as asked:
            assert api(cast.alice).get(QUEUES).status_code == 200
        return len(asked)

    before = statements()
    for _ in range(8):
        queue = make_queue(cast.tenant)
        limit(queue, pool.pk, gpu_millis=1_000)
        reserve([ask(queue, pool.pk, Resources(gpu_millis=100))], now=now())
    assert statements() == before


# --- Reads of queues ---------------------------------------------------------------------------------------------------


def test_a_queue_is_meant_by_id_or_name_within_its_tenant(cast: Cast) -> None:
    own, foreign = make_queue(cast.tenant, "nightly"), make_queue(cast.elsewhere, "nightly")
    actor = cast.bob.actor
    for text in ("nightly", str(own.pk)):
        assert selectors.resolve_queue(actor, cast.tenant.pk, text).id == own.pk
    for text in (None, ""):
        assert selectors.resolve_queue(actor, cast.tenant.pk, text).id == top_queue(cast.tenant).pk
    for text in ("Nightly", str(foreign.pk), "x" * 500, str(uuid.uuid4())):
        with pytest.raises(NotFound):
            selectors.resolve_queue(actor, cast.tenant.pk, text)
    with pytest.raises(NotFound):
        selectors.resolve_queue(cast.carol.actor, cast.tenant.pk, "nightly")
    assert selectors.find_queue_ids(cast.otto.actor, "nightly") == {own.pk, foreign.pk}
    assert selectors.find_queue_ids(actor, "nightly") == selectors.find_queue_ids(actor, str(own.pk)) == {own.pk}
    assert selectors.find_queue_ids(ANONYMOUS, "nightly") == frozenset()


def test_ways_of_queues_go_up_to_root_and_down_to_those_below(cast: Cast) -> None:
    above = make_queue(cast.tenant, "above")
    below = make_queue(cast.tenant, "below", parent=above)
    beside = make_queue(cast.tenant, "beside")
    assert [step.name for step in selectors.queue_path(below.pk)] == ["below", "above", "vision", "root"]
    assert selectors.queue_path(uuid.uuid4()) == ()
    found = selectors.queues_below(cast.vera.actor, str(above.pk))
    assert [queue.id for queue in found] == [above.pk, below.pk]
    with pytest.raises(NotFound):
        selectors.queues_below(cast.carol.actor, str(above.pk))
    names = selectors.readable_queue_names(cast.carol.actor, [above.pk, beside.pk, top_queue(cast.elsewhere).pk])
    assert set(names.values()) == {"elsewhere"}
    assert set(selectors.queue_names([above.pk, beside.pk, uuid.uuid4()]).values()) == {"above", "beside"}


def test_a_tenant_below_brings_its_queue_below_that_of_the_tenant_above(cast: Cast) -> None:
    child = make_tenant("child", parent=cast.tenant)
    found = selectors.queues_below(actor_of(cast.alice.user), str(top_queue(cast.tenant).pk))
    assert [queue.name for queue in found] == ["vision", "child"]
    assert selectors.default_queue(child.pk).is_top


def test_what_attempts_hold_of_a_pool_is_told_by_queue_and_not_for_those_above(cast: Cast, pool: Any) -> None:
    queue = make_queue(cast.tenant)
    for amount in (Resources(1_000, 5, 500), Resources(0, 0, 500)):
        reserve([ask(queue, pool.pk, amount)], now=now())
    assert selectors.held_of_pools([pool.pk]) == {(pool.pk, queue.pk): Resources(1_000, 5, 1_000)}
    assert selectors.held_of_pools([]) == {}


# --- Pools and bookings ------------------------------------------------------------------------------------------------


def test_a_pool_of_a_body_is_meant_by_each_of_its_names_and_told_at_its_place(pool: Any) -> None:
    pools = list_pools()
    for text in (pool.name, f"here/{pool.name}", str(pool.pk), str(pool.pk).upper()):
        assert find_pool(text, pools, path="/pool").id == pool.pk
    for text in ("", "nothing", f"there/{pool.name}", "x" * 5_000):
        with pytest.raises(InvalidInput) as refused:
            find_pool(text, pools, path="/changes/3/pool")
        assert [(field.path, field.code) for field in refused.value.fields] == [("/changes/3/pool", "not_found")]
    a_cluster("there").with_nodes(1, gpus=1).build().pools.update(name=pool.name)
    both = list_pools()
    assert len(names_of_pools(both)[pool.name]) == 2
    with pytest.raises(InvalidInput):
        find_pool(pool.name, both, path="/pool")
    assert find_pool(f"here/{pool.name}", both, path="/pool").id == pool.pk
    assert pool_ref(uuid.uuid4(), both) is None


@pytest.mark.parametrize(("state", "count"), [("held", 1), ("cancelled", 1), ("", 2), ("none", None)])
def test_bookings_are_listed_by_state(api: Api, cast: Cast, pool: Any, state: str, count: int | None) -> None:
    start = now() + timedelta(days=1)
    window = {"starts_at": start.isoformat(), "ends_at": (start + timedelta(hours=1)).isoformat()}
    body = {"tenant": "vision", "pool": pool.name, "gpu_millis": 1_000, **window}
    made = [api(cast.alice).post(BOOKINGS, body, format="json").json()["id"] for _ in range(2)]
    assert api(cast.alice).delete(f"{BOOKINGS}/{made[0]}").status_code == 200
    answer = api(cast.vera).get(BOOKINGS, {"state": state} if state else {})
    if count is None:
        assert paths(answer) == {"/state"}
    else:
        assert len(answer.json()["items"]) == count
    assert api(cast.carol).get(f"{BOOKINGS}/{made[1]}").status_code == 404
    assert api(cast.vera).delete(f"{BOOKINGS}/{made[1]}").status_code == 403
