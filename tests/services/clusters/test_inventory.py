"""An inventory becomes pools and nodes, keeps what people decided, and tells of changes once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from activity.models import Event
from clusters.models import Cluster, Node, Pool, PoolMeasure
from clusters.services import cordon_node, engine_for, ensure_local_cluster, read_inventory, record_inventory
from clusters.services.inventory import MISSING, MISSING_DAYS
from kernel.actor import system_actor
from tests.factories.clusters import NOW, MeasuringEngine, a_cluster, inventory, make_cluster, node_facts, use_engine

pytestmark = pytest.mark.database

LATER = NOW + timedelta(minutes=1)


def kinds() -> list[str]:
    return list(Event.objects.order_by("row").values_list("kind", flat=True))


def test_nodes_and_pools_appear_with_what_they_offer() -> None:
    cluster = make_cluster()
    found = inventory(node_facts("a", gpus=8, broken_gpus=1), node_facts("b", gpus=8), isolation=("One uid per tenant.",))
    change = record_inventory(cluster.pk, found, NOW)
    assert (change.added, change.became_unready, change.is_stale) == (2, 0, False)
    pool = Pool.objects.get()
    assert (pool.name, pool.node_count, pool.node_gpu_millis, pool.gpus_simulated) == ("a100", 2, 8_000, False)
    node = Node.objects.get(name="a")
    assert (node.gpu_millis, len(node.gpus), node.labels, node.pool_id) == (7_000, 8, {"os": "Debian GNU/Linux 12"}, pool.pk)
    cluster.refresh_from_db()
    assert (cluster.isolation, cluster.inventory_read_at) == (["One uid per tenant."], NOW)
    assert kinds() == ["cluster.reachable", "node.added", "node.added"]


def test_the_same_inventory_again_changes_nothing_but_when_it_was_seen() -> None:
    cluster = a_cluster().with_nodes(2).build()
    before = list(Node.objects.order_by("name").values("id", "pool_id", "ready_since_at", "version"))
    Event.objects.all().delete()
    record_inventory(cluster.pk, inventory(node_facts("node-1"), node_facts("node-2"), read_at=LATER), LATER)
    assert list(Node.objects.order_by("name").values("id", "pool_id", "ready_since_at", "version")) == before
    assert set(Node.objects.values_list("last_seen_at", flat=True)) == {LATER}
    assert kinds() == []


def test_a_node_that_is_not_listed_is_not_ready_and_says_why_once() -> None:
    cluster = a_cluster().with_nodes(2).build()
    Event.objects.all().delete()
    for minute in (1, 2):
        moment = NOW + timedelta(minutes=minute)
        record_inventory(cluster.pk, inventory(node_facts("node-1"), read_at=moment), moment)
    node = Node.objects.get(name="node-2")
    assert (node.ready, node.reason, node.ready_since_at, node.last_seen_at) == (False, MISSING, LATER, NOW)
    assert kinds() == ["node.not_ready"]
    assert Pool.objects.get().node_count == 1


def test_a_node_that_comes_back_is_ready_again() -> None:
    cluster = a_cluster().with_nodes(1).build()
    record_inventory(cluster.pk, inventory(read_at=LATER), LATER)
    Event.objects.all().delete()
    moment = LATER + timedelta(minutes=1)
    change = record_inventory(cluster.pk, inventory(node_facts("node-1"), read_at=moment), moment)
    node = Node.objects.get()
    assert (change.became_ready, node.ready, node.reason, node.ready_since_at) == (1, True, "", moment)
    assert kinds() == ["node.ready"]


def test_a_node_missing_for_a_month_is_removed() -> None:
    cluster = a_cluster().with_nodes(2).build()
    moment = NOW + timedelta(days=MISSING_DAYS, seconds=1)
    change = record_inventory(cluster.pk, inventory(node_facts("node-1"), read_at=moment), moment)
    assert (change.removed, [node.name for node in Node.objects.all()]) == (1, ["node-1"])


def test_an_older_inventory_than_the_last_is_dropped() -> None:
    cluster = a_cluster().with_nodes(1).build()
    change = record_inventory(cluster.pk, inventory(read_at=NOW - timedelta(seconds=1)), LATER)
    assert change.is_stale
    assert Node.objects.get().ready


@pytest.mark.parametrize("offset", [timedelta(days=1), timedelta(0), timedelta(days=-1)])
def test_an_inventory_is_dated_by_the_database_whatever_the_host_s_clock_says(
    monkeypatch: pytest.MonkeyPatch, offset: timedelta
) -> None:
    cluster = make_cluster()
    engine = MeasuringEngine([node_facts("a")])
    engine.read_at = NOW + offset - timedelta(seconds=4)  # It adds one second for each reading.
    use_engine(engine)
    monkeypatch.setattr("clusters.services.inventory.host_now", lambda: NOW + offset)
    monkeypatch.setattr("clusters.services.inventory.database_now", lambda: NOW)
    assert read_inventory(cluster.pk).read_at == NOW - timedelta(seconds=3)


def test_an_inventory_of_the_future_does_not_keep_later_ones_out() -> None:
    """It was recorded while a host's clock was a day ahead."""
    cluster = a_cluster().with_nodes(1).build()
    Cluster.objects.update(inventory_read_at=LATER + timedelta(days=1))
    change = record_inventory(cluster.pk, inventory(read_at=LATER), LATER)
    assert (change.is_stale, change.became_unready) == (False, 1)
    cluster.refresh_from_db()
    assert cluster.inventory_read_at == LATER


def test_a_cordon_survives_inventories() -> None:
    cluster = a_cluster().with_nodes(1).build()
    node = Node.objects.get()
    cordon_node(actor=system_actor("tests"), node_id=node.pk, reason="Fan", now=NOW)
    record_inventory(cluster.pk, inventory(node_facts("node-1", cores=4), read_at=LATER), LATER)
    node.refresh_from_db()
    assert (node.cordoned, node.cordon_reason, node.cpu_millis) == (True, "Fan", 4_000)


def test_statements_do_not_grow_with_nodes() -> None:
    cluster = make_cluster()
    counts = []
    for count in (1, 900):
        moment = NOW + timedelta(seconds=count)
        with CaptureQueriesContext(connection) as captured:
            found = [node_facts(f"n{number}", gpus=number % 2) for number in range(count)]
            record_inventory(cluster.pk, inventory(*found, read_at=moment), moment)
        counts.append(len(captured))
    assert counts[1] <= counts[0] + 4  # The second also has nodes and pools to update.


def test_the_local_cluster_is_created_once_from_what_this_machine_has(configure: Callable[..., Any]) -> None:
    engine = MeasuringEngine([node_facts("here")])
    use_engine(engine, kind="local")
    first, again = ensure_local_cluster(NOW), ensure_local_cluster(LATER)
    assert first == again == Cluster.objects.get(name="local").pk
    assert [(node.name, node.pool.name) for node in Node.objects.select_related("pool")] == [("here", "cpu")]
    configure(local_cluster=False)
    assert ensure_local_cluster(LATER) is None


def test_an_engine_is_made_once_per_cluster() -> None:
    use_engine(MeasuringEngine())
    cluster = make_cluster()
    assert engine_for(cluster.pk) is engine_for(cluster.pk)


def test_a_cluster_of_a_kind_without_engine_says_so() -> None:
    with pytest.raises(LookupError, match="slurm"):
        engine_for(make_cluster(kind="slurm").pk)


@pytest.mark.capability("30", "A pool says in which driver, kernel, system or architecture its machines differ")
@pytest.mark.capability("70", "A pool says in which driver, kernel, system or architecture its machines differ")
def test_a_pool_tells_in_what_its_nodes_differ_until_they_are_alike_again() -> None:
    cluster = make_cluster()
    for minute, drivers in enumerate((("1", "1"), ("1", "2"), ("2", "2"))):
        nodes = [node_facts(name, labels={"gpu_driver": driver}) for name, driver in zip("ab", drivers, strict=True)]
        moment = NOW + timedelta(minutes=minute)
        record_inventory(cluster.pk, inventory(*nodes, read_at=moment), moment)
        uneven = dict(PoolMeasure.objects.values_list("pool_id", "uneven")).get(Pool.objects.get().pk, {})
        assert uneven == ({"gpu_driver": ["1", "2"]} if minute == 1 else {})


@pytest.mark.capability("70", "A pool never holds a machine of another model, other cores or other memory")
def test_a_pool_never_holds_machines_of_another_shape() -> None:
    """What differs in model, cores, or memory beyond firmware's share goes to a pool of its own, also when it changes later."""
    cluster = a_cluster().with_nodes(2, gpus=8).build()
    changed = [node_facts("node-1", gpus=8), node_facts("node-2", gpus=8, cores=16)]
    record_inventory(cluster.pk, inventory(*changed, read_at=LATER), LATER)
    for pool in Pool.objects.all():
        nodes = list(pool.nodes.all())
        assert {(node.gpu_model, node.cpu_millis) for node in nodes} <= {(pool.gpu_model, pool.node_cpu_millis)}
    assert Pool.objects.count() == 2
