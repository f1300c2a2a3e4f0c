"""GET /pools and /pools/{id}."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from clusters import selectors
from clusters.engines.fake import Script
from clusters.models import Node, Pool
from clusters.telemetry import flush
from clusters.telemetry.prometheus import cluster_families
from kernel.limits import GIB
from kernel.resources import Resources
from tests.builders.quay import Quay
from tests.factories.clusters import NOW, a_cluster, make_pool, node_facts
from tests.factories.tenants import Cast

pytestmark = pytest.mark.database

Api = Callable[..., APIClient]


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> dict[Any, Resources]:
    """What attempts hold, by pool id and by (cluster id, node name)."""
    amounts: dict[Any, Resources] = {}
    monkeypatch.setattr(selectors, "_by_pool", lambda ids: amounts)
    monkeypatch.setattr(selectors, "_by_node", lambda keys: amounts)
    return amounts


def test_a_pool_says_what_it_offers_and_what_is_held(api: Api, cast: Cast, held: dict[Any, Resources]) -> None:
    pool = make_pool(nodes=3, gpus=8)
    Node.objects.filter(name="node-1").update(ready=False)
    Node.objects.filter(name="node-2").update(cordoned=True, cordoned_at=NOW)
    held[pool.pk] = Resources(2_000, GIB, 3_000)
    item = api(cast.bob).get(f"/api/v1/pools/{pool.pk}").json()
    assert (item["name"], item["gpu_model"], item["gpus_simulated"]) == ("a100", "A100", False)
    assert (item["node_count"], item["nodes_available"]) == (3, 1)
    assert item["capacity"] == {"cpu_millis": 8_000, "memory_bytes": 32 * GIB, "gpu_millis": 8_000}
    assert item["allocated"] == {"cpu_millis": 2_000, "memory_bytes": GIB, "gpu_millis": 3_000}


def test_simulated_gpus_are_labelled(api: Api, cast: Cast) -> None:
    pool = make_pool(gpus=4, simulated=True)
    assert api(cast.bob).get(f"/api/v1/pools/{pool.pk}").json()["gpus_simulated"] is True


def test_pools_are_narrowed_to_a_cluster_by_name_or_id(api: Api, cast: Cast) -> None:
    far, near = a_cluster("far").with_nodes(1).build(), a_cluster("near").with_nodes(1).build()
    for text, expected in (("far", far), (str(near.pk), near)):
        (item,) = api(cast.bob).get("/api/v1/pools", {"cluster": text}).json()["items"]
        assert item["cluster"] == {"id": str(expected.pk), "name": expected.name}
    assert api(cast.bob).get("/api/v1/pools", {"cluster": "none"}).json()["items"] == []


def test_a_misspelt_filter_is_refused(api: Api, cast: Cast) -> None:
    assert api(cast.bob).get("/api/v1/pools", {"clutser": "far"}).status_code == 422


def test_a_list_costs_the_same_for_one_pool_and_for_many(api: Api, cast: Cast) -> None:
    client, counts = api(cast.bob), []
    client.get("/api/v1/pools")  # The first use of a token is noted.
    for _ in range(2):
        a_cluster().with_nodes(3).with_nodes(3, gpus=4).with_nodes(2, cores=64).build()
        with CaptureQueriesContext(connection) as captured:
            assert client.get("/api/v1/pools").status_code == 200
        counts.append(len(captured))
    assert counts[0] == counts[1]
    assert Pool.objects.count() == 6


def test_an_unknown_pool_is_not_found(api: Api, cast: Cast) -> None:
    assert api(cast.bob).get(f"/api/v1/pools/{uuid.uuid4()}").status_code == 404


@pytest.mark.capability("29", "How well a pool is packed for what it usually gets is told")
@pytest.mark.capability("31", "The largest job that can start now is told by GPU model, in API and metrics, with its history")
def test_a_pool_says_how_fragmented_it_is_and_what_could_start_and_keeps_the_history(api: Api, cast: Cast) -> None:
    quay = Quay(cast, nodes=[node_facts(name, cores=64, gpus=8) for name in ("a", "b", "c")])
    assert api(cast.bob).get(f"/api/v1/pools/{quay.pool.pk}").json()["use"] == {
        "fragmentation": None, "idle": None, "measured_at": None,
    }  # fmt: skip
    quay.pass_time(-60)  # What the next steps take must not be in the future of who reads.
    wide = {"cpu": 1, "memory": "1Gi", "gpu": 6}
    for name in ("one", "two"):
        quay.submit(name, script=Script(duration_seconds=None), resources=wide)
    quay.turn()
    quay.submit("waits", resources=wide, replicas=2)
    quay.pass_time(10)
    quay.turn()
    flush(quay.now)
    (item,) = api(cast.bob).get("/api/v1/pools").json()["items"]
    assert item["use"]["fragmentation"] == 0.333  # Four of twelve idle GPUs are where no task of six fits.
    assert item["use"]["idle"] == {
        "cpu_millis": 64_000,
        "models": {"A100": {"gpus": 12, "largest_task": 8, "largest_job": 6, "machines": {"2": 2, "8": 1}}},
    }
    since, until = (quay.now - timedelta(hours=1)).isoformat(), (quay.now + timedelta(seconds=5)).isoformat()
    path = f"/api/v1/pools/{quay.pool.pk}/metrics"
    found = api(cast.bob).get(path, {"since": since, "until": until}).json()["items"]
    values = {series["metric"]: {round(value, 3) for value in series["values"] if value is not None} for series in found}
    assert values == {
        "gpu_idle": {12.0},
        "gpu_largest_task": {8.0},
        "gpu_largest_job": {12.0, 6.0},  # At first nobody knew what it usually gets.
        "gpu_fragmentation_ratio": {0.333},
    }
    families = {family.name: family for family in cluster_families(quay.now)}
    (sample,) = families["berth_pool_gpu_fragmentation_ratio"].samples
    assert (sample.labels, sample.value) == ({"cluster": "harbour", "pool": "a100"}, 0.333)
    assert [gauge.value for gauge in families["berth_pool_largest_job_gpus"].samples] == [6]
    assert api(cast.bob).get(path, {"metric": "colour"}).status_code == 422
