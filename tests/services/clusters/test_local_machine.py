"""The local engine's own inventory and measurements become a cluster, a pool, a node and its series."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from clusters.models import Node
from clusters.services import engine_for, ensure_local_cluster, record_inventory
from clusters.telemetry import collect, flush
from clusters.telemetry.metrics import METRICS, kind_of, node_subject, scoped
from clusters.telemetry.reading import latest_values
from kernel.clock import database_now

pytestmark = [pytest.mark.database, pytest.mark.engines]


def test_this_machine_is_found_and_measured(configure: Callable[..., Any]) -> None:
    configure(local_simulated_gpus="2xA100")
    now = database_now()
    cluster_id = ensure_local_cluster(now)
    assert cluster_id is not None
    node = Node.objects.select_related("pool").get()
    assert node.ready
    assert node.cpu_millis > 0
    assert (node.pool.name, node.gpu_millis, node.gpus_simulated) == ("a100", 2_000, True)
    for interval in range(3):
        assert collect(cluster_id, now=now + timedelta(seconds=5 * interval)) > 0
    flush(now + timedelta(seconds=15))
    found = latest_values([scoped(cluster_id, node_subject(node.name))], now=now + timedelta(seconds=15))
    measured = {metric for _, metric in found}
    assert {"cpu_millis", "memory_bytes", "disk_free_bytes", "network_receive_bytes_per_second"} <= measured
    again = record_inventory(cluster_id, engine_for(cluster_id).inventory(), database_now())
    assert (again.added, again.became_unready, again.removed) == (0, 0, 0)


def test_every_sample_of_the_engine_is_in_the_table() -> None:
    cluster_id = ensure_local_cluster(database_now())
    assert cluster_id is not None
    engine: Any = engine_for(cluster_id)
    for _ in range(2):
        for sample in engine.sample():
            assert kind_of(sample.subject) in METRICS[sample.metric].subjects
