"""What the engine sees of real nodes and does with them, with exactly the rights that it asks for."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from clusters.engines.interface import CordonAnswer, CordonWish
from clusters.engines.kubernetes import KubernetesEngine, names
from clusters.engines.settings import Outcome
from tests.builders.dcgm import ExportedCard, page
from tests.builders.kubernetes import PYTHON_IMAGE, pod
from tests.contract.engines.bench import Bench, runs_on
from tests.engines.kubernetes.conftest import Place

pytestmark = pytest.mark.kubernetes


def engine_of(bench: Bench) -> KubernetesEngine:
    assert isinstance(bench.engine, KubernetesEngine)
    return bench.engine


@pytest.mark.capability("57", "A cordon is one of the Kubernetes node, too, and one made by kubectl stays")
def test_a_cordon_of_berth_is_one_of_the_cluster_and_one_of_kubectl_stays(
    place: Place, with_rights: Callable[..., Bench]
) -> None:
    engine = engine_of(with_rights())

    def state() -> tuple[str, bool]:
        """As kubectl shows the node, and whether it is ready for Berth."""
        (node,) = (node for node in engine.inventory().nodes if node.name == "node-1")
        return place.cluster.kubectl("get", "node", "node-1", "--no-headers").split()[1], node.ready

    made, taken_back = CordonWish("node-1", is_cordoned=True, reason="Fan"), CordonWish("node-1", is_cordoned=False)
    try:
        assert engine.cordon([made]) == [CordonAnswer.DONE]
        assert state() == ("Ready,SchedulingDisabled", True)
        assert "berth.dev/cordon-reason: Fan" in place.cluster.kubectl("describe", "node", "node-1")
        assert engine.cordon([taken_back]) == [CordonAnswer.DONE]
        assert state() == ("Ready", True)
        place.cluster.kubectl("cordon", "node-1")
        assert engine.cordon([made, taken_back]) == [CordonAnswer.OTHERS, CordonAnswer.OTHERS]
        assert state() == ("Ready,SchedulingDisabled", False)
    finally:
        place.cluster.kubectl("uncordon", "node-1")
    assert state() == ("Ready", True)


def test_figures_of_gpus_come_from_the_exporter_on_the_node(place: Place, with_rights: Callable[..., Bench]) -> None:
    with place.cluster.namespace("exporters") as namespace:
        bench = with_rights(gpu_exporter=f"{namespace}/app.kubernetes.io/name=dcgm-exporter:9400")
        engine, workload = engine_of(bench), bench.start(runs_on())
        task = f"{place.namespace()}/{names.pod_name(workload.attempt_id, 0)}"
        cards = [
            ExportedCard(0, {"GPU_UTIL": 80, "FB_USED": 1_000, "XID_ERRORS": 0}, [task]),
            ExportedCard(1, {"GPU_UTIL": 5, "FB_USED": 7, "XID_ERRORS": 79}),
        ]
        place.cluster.create(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "page", "namespace": namespace},
                "data": {"metrics": page(*cards).decode()},
            }
        )
        exporter = pod("exporter", namespace, "cd /page && exec python3 -m http.server 9400", image=PYTHON_IMAGE)
        exporter["metadata"]["labels"] = {"app.kubernetes.io/name": "dcgm-exporter"}
        exporter["spec"]["volumes"] = [{"name": "page", "configMap": {"name": "page"}}]
        exporter["spec"]["containers"][0]["volumeMounts"] = [{"name": "page", "mountPath": "/page"}]
        exporter["spec"]["containers"][0]["readinessProbe"] = {"tcpSocket": {"port": 9400}, "periodSeconds": 1}
        place.cluster.create(exporter)
        bench.wait_until(
            lambda: any(
                condition["type"] == "Ready" and condition["status"] == "True"
                for condition in place.cluster.pod(namespace, "exporter")["status"].get("conditions") or []
            ),
            "the exporter",
        )
        bench.wait_for_start(workload.attempt_id)
        found = {(sample.subject, sample.metric): sample.value for sample in engine.sample()}
        subject = f"task:{workload.attempt_id}:worker:0"
        assert (found[subject, "gpu_utilization_ratio"], found[subject, "gpu_memory_bytes"]) == (0.8, 1_000 * 1024**2)
        (node,) = (node for node in engine.inventory().nodes if node.name == "node-1")
        assert found[f"gpu:node-1:{node.gpus[1].identifier}", "gpu_utilization_ratio"] == 0.05
        assert [(fault.node, fault.gpu, fault.number) for fault in engine.gpu_faults()] == [
            ("node-1", node.gpus[1].identifier, 79)
        ]
        (finding,) = (finding for finding in engine.check(datetime.now(UTC)) if finding.check == "gpu_exporter")
        assert finding.outcome is Outcome.OK, finding
