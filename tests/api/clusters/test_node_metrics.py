"""GET /nodes/{id}/metrics."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from rest_framework.test import APIClient

from clusters.engines.interface import Sample
from clusters.telemetry import flush, record_samples
from kernel.clock import database_now
from tests.factories.clusters import make_node
from tests.factories.tenants import Cast

pytestmark = pytest.mark.database

Api = Callable[..., APIClient]
MINUTE = timedelta(minutes=1)


@pytest.mark.capability("93", "The use of a task's GPUs is measured and kept, and a gap stays a gap")
def test_series_of_a_node_and_its_gpus_have_units_and_null_for_gaps(api: Api, cast: Cast) -> None:
    node = make_node(gpus=1)
    begin = database_now() - MINUTE
    gpu = f"gpu:node-1:{node.gpus[0]['identifier']}"
    for seconds in (0, 15):
        samples = [Sample("node:node-1", "cpu_millis", 500.0), Sample(gpu, "gpu_power_watts", 300.0)]
        record_samples(node.cluster_id, samples, begin + timedelta(seconds=seconds))
    flush(database_now())
    since = (begin - MINUTE).isoformat()
    items = api(cast.vera).get(f"/api/v1/nodes/{node.pk}/metrics", {"since": since}).json()["items"]
    assert [(item["subject"], item["metric"], item["unit"]) for item in items] == [
        ("node:node-1", "cpu_millis", "thousandths of a core"),
        (gpu, "gpu_power_watts", "watts"),
    ]
    measured = [index for index, value in enumerate(items[0]["values"]) if value is not None]
    assert [items[0]["values"][index] for index in measured] == [500.0, 500.0]
    assert None in items[0]["values"][measured[0] : measured[-1]]
    assert len(items[0]["times"]) == len(items[0]["values"])


@pytest.mark.parametrize("simulated", [True, False])
def test_series_of_simulated_gpus_say_so_and_those_of_their_node_do_not(api: Api, cast: Cast, simulated: bool) -> None:
    node = make_node(gpus=1, simulated=simulated)
    gpu = f"gpu:node-1:{node.gpus[0]['identifier']}"
    samples = [Sample("node:node-1", "cpu_millis", 500.0), Sample(gpu, "gpu_power_watts", 50.0)]
    record_samples(node.cluster_id, samples, database_now() - MINUTE)
    flush(database_now())
    items = api(cast.vera).get(f"/api/v1/nodes/{node.pk}/metrics").json()["items"]
    assert {item["subject"]: item["simulated"] for item in items} == {"node:node-1": False, gpu: simulated}


def test_one_metric_is_answered_even_without_samples(api: Api, cast: Cast) -> None:
    node = make_node()
    (item,) = api(cast.bob).get(f"/api/v1/nodes/{node.pk}/metrics", {"metric": "memory_bytes"}).json()["items"]
    assert (item["metric"], set(item["values"])) == ("memory_bytes", {None})


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ({"metric": "colour"}, "/metric"),
        ({"since": "yesterday"}, "/since"),
        ({"since": "2026-11-20T08:00:00Z", "until": "2026-11-20T08:00:00Z"}, "/since"),
        ({"points": "0"}, "/points"),
        ({"points": "1e9"}, "/points"),
        ({"step": "5"}, "/step"),
    ],
)
def test_a_question_that_is_not_understood_names_its_parameter(api: Api, cast: Cast, query: dict[str, str], path: str) -> None:
    node = make_node()
    answer = api(cast.bob).get(f"/api/v1/nodes/{node.pk}/metrics", query)
    assert answer.status_code == 422
    assert [field["path"] for field in answer.json()["fields"]] == [path]


def test_any_span_of_time_fits_the_answer(api: Api, cast: Cast) -> None:
    node = make_node()
    for since in ("2000-01-01T00:00:00Z", "2150-01-01T00:00:00Z"):
        query = {"metric": "cpu_millis", "since": since, "until": "2199-12-31T23:59:59Z"}
        (item,) = api(cast.bob).get(f"/api/v1/nodes/{node.pk}/metrics", query).json()["items"]
        assert len(item["values"]) <= 500
