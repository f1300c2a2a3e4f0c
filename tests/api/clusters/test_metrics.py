"""GET /metrics: valid exposition, bounded labels, one broken source hides nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import CollectorRegistry
from rest_framework.test import APIClient

from clusters import selectors
from clusters.engines.interface import Sample
from clusters.models import ClusterCondition, Pool
from clusters.services import set_condition
from clusters.telemetry import bounded, flush, prometheus, record_samples, register_collector_source
from clusters.telemetry.prometheus import OTHER, BerthCollector
from kernel.clock import database_now
from kernel.resources import Resources
from tests.factories.clusters import NOW, a_cluster
from tests.factories.tenants import Cast

pytestmark = pytest.mark.database

Values = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture(autouse=True)
def sources() -> Iterator[dict[str, prometheus.Source]]:
    """Only this app's source, and whatever a test registers."""
    before = dict(prometheus._sources)
    prometheus._sources.clear()
    prometheus._sources["clusters"] = before["clusters"]
    yield prometheus._sources
    prometheus._sources.clear()
    prometheus._sources.update(before)


def exposed() -> str:
    from prometheus_client import generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(BerthCollector())
    return generate_latest(registry).decode()


def parsed(text: str) -> Values:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(values: Values, name: str, **labels: str) -> float:
    (found,) = [number for (known, given), number in values.items() if known == name and frozenset(labels.items()) <= given]
    return found


def test_nodes_engines_and_gpus_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = a_cluster("far").with_nodes(2, gpus=8).with_nodes(1, gpus=8, broken_gpus=1, ready=False).build()
    pool = Pool.objects.get()
    monkeypatch.setattr(selectors, "_by_pool", lambda ids: {pool.pk: Resources(gpu_millis=2_500)})
    values = parsed(exposed())
    assert value(values, "berth_nodes", cluster="far", ready="true") == 2
    assert value(values, "berth_nodes", cluster="far", ready="false") == 1
    assert value(values, "berth_gpu_capacity", pool="a100", gpu_model="A100", simulated="false") == 23
    assert value(values, "berth_gpu_allocated", pool="a100") == 2.5
    assert value(values, "berth_engine_up", cluster="far") == 1
    assert value(values, "berth_build_info") == 1
    set_condition(cluster.pk, ClusterCondition.LOST_CONTACT, "timeout", NOW)
    assert value(parsed(exposed()), "berth_engine_up", cluster="far") == 0


def test_the_load_of_nodes_and_gpus_is_shown_while_it_is_fresh() -> None:
    cluster = a_cluster("far").with_nodes(1, gpus=1, simulated=True).build()
    samples = [Sample("node:node-1", "cpu_millis", 1_500.0), Sample("gpu:node-1:GPU-node-1-0", "gpu_utilization_ratio", 0.5)]
    record_samples(cluster.pk, samples, database_now())
    flush(database_now())
    values = parsed(exposed())
    assert value(values, "berth_node_cpu_used_cores", node="node-1") == 1.5
    assert value(values, "berth_gpu_utilization_ratio", gpu="GPU-node-1-0", simulated="true") == 0.5
    assert not [name for name, _ in values if name == "berth_node_memory_used_bytes"]  # Never measured: absent, not zero.


@pytest.mark.capability("49", "The exposition is valid, and bounded in nodes and tenants")
def test_the_exposition_is_valid_and_follows_the_naming_rules() -> None:
    a_cluster('na"me\\with\nletters').with_nodes(1, gpus=1).build()
    register_collector_source("jobs", lambda now: [_waits()])
    text = exposed()
    families = list(text_string_to_metric_families(text))
    assert len({family.name for family in families}) == len(families)
    for family in families:
        assert re.fullmatch(r"berth_[a-z0-9_]+", family.name)
        assert family.documentation.endswith(".")
        assert not {"job", "job_id", "user", "email", "attempt"} & {label for sample in family.samples for label in sample.labels}
    assert value(parsed(text), "berth_job_queue_wait_seconds_count") == 3


def _waits() -> HistogramMetricFamily:
    family = HistogramMetricFamily("berth_job_queue_wait_seconds", "From submission to admission.")
    family.add_metric([], buckets=[("1", 2), ("+Inf", 3)], sum_value=9.5)
    return family


def test_a_broken_source_is_named_and_hides_nothing_else() -> None:
    def broken(now: object) -> list[GaugeMetricFamily]:
        raise OSError("gone")

    register_collector_source("broken", broken)
    values = parsed(exposed())
    assert value(values, "berth_metrics_source_up", source="broken") == 0
    assert value(values, "berth_metrics_source_up", source="clusters") == 1


def test_a_family_that_another_source_has_is_refused() -> None:
    register_collector_source("repeats", lambda now: [GaugeMetricFamily("berth_nodes", "Again.", value=1)])
    assert value(parsed(exposed()), "berth_metrics_source_up", source="repeats") == 0


def test_a_second_source_of_the_same_name_is_a_mistake() -> None:
    with pytest.raises(AssertionError, match="clusters"):
        register_collector_source("clusters", lambda now: [])


@pytest.mark.capability("49", "The exposition is valid, and bounded in nodes and tenants")
def test_more_tenants_than_the_bound_are_summed_under_other() -> None:
    amounts = {f"tenant-{number:03}": float(number) for number in range(150)}
    kept = bounded(amounts)
    assert len(kept) == 101
    assert sum(kept.values()) == sum(amounts.values())
    assert kept[OTHER] == sum(range(50))


def test_scrapes_within_the_cache_time_cost_no_query(django_assert_num_queries: Callable[..., object]) -> None:
    a_cluster().with_nodes(1).build()
    collector = BerthCollector(cache_seconds=60)
    first = list(collector.collect())
    with django_assert_num_queries(0):  # type: ignore[attr-defined]
        assert list(collector.collect()) == first


@pytest.mark.capability("49", "The exposition is valid, and bounded in nodes and tenants")
def test_more_nodes_than_the_bound_are_counted_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "NODES_MAX", 2)
    a_cluster().with_nodes(5).build()
    values = parsed(exposed())
    assert value(values, "berth_nodes_left_out") == 3
    assert len([name for name, _ in values if name == "berth_node_cpu_capacity_cores"]) == 2


def test_operators_read_it_over_http_and_members_do_not(api: Callable[..., APIClient], cast: Cast) -> None:
    answer = api(cast.otto).get("/metrics")
    assert answer.status_code == 200
    assert "berth_engine_up" in answer.content.decode()
    assert api(cast.alice).get("/metrics").status_code == 403
    assert api().get("/metrics").status_code in (401, 403)
