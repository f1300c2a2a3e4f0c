"""Cordons of nodes in the cluster: ours are made and taken back, those of others stay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from clusters.engines.interface import ClusterCordon, CordonAnswer, CordonWish, ObservedNode
from clusters.engines.kubernetes import KubernetesEngine
from clusters.engines.kubernetes.api import Api, Json
from clusters.engines.kubernetes.permissions import needed
from tests.unit.engines_kubernetes.samples import CONFIG
from tests.unit.engines_kubernetes.stored_objects import StoredObjects

FAN = CordonWish("n1", is_cordoned=True, reason="Fan 3 is noisy.")
BACK = CordonWish("n1", is_cordoned=False)
OURS = ClusterCordon(is_ours=True, reason=FAN.reason)
THEIRS = ClusterCordon(is_ours=False)


class ChangingNodes(StoredObjects):
    """Somebody changes a node between our look and our change, as often as `times` says."""

    times = 0

    def __call__(self, method: str, path: str, body: Any, headers: Mapping[str, str], **seconds: float) -> Any:
        if method == "PATCH" and self.times:
            self.times -= 1
            Api(StoredObjects.__call__.__get__(self)).patch(path, {"spec": {"unschedulable": True}})
        return super().__call__(method, path, body, headers, **seconds)


def engine_on(cluster: StoredObjects, **changes: Any) -> KubernetesEngine:
    return KubernetesEngine(replace(CONFIG, **changes), Api(cluster), lambda path: None)


def node_of(cluster: StoredObjects) -> Json:
    node = cluster.find("nodes", "n1")
    assert node is not None
    return node


def seen(engine: KubernetesEngine) -> ObservedNode:
    (node,) = engine.inventory().nodes
    return node


def test_a_cordon_of_ours_is_made_once_and_taken_back_with_its_note() -> None:
    cluster = StoredObjects()
    engine = engine_on(cluster)
    cluster.put_node("n1")
    assert seen(engine).cordon is None
    for _ in range(2):
        assert engine.cordon([FAN]) == [CordonAnswer.DONE]
    assert node_of(cluster)["spec"]["unschedulable"] is True
    assert node_of(cluster)["metadata"]["annotations"]["berth.dev/cordon-reason"] == "Fan 3 is noisy."
    version = node_of(cluster)["metadata"]["resourceVersion"]
    assert (seen(engine).ready, seen(engine).cordon) == (True, OURS)
    engine.cordon([FAN])
    assert node_of(cluster)["metadata"]["resourceVersion"] == version
    engine.cordon([replace(FAN, reason="It stands still.")])
    assert seen(engine).cordon == replace(OURS, reason="It stands still.")
    for _ in range(2):
        assert engine.cordon([BACK, replace(BACK, node="gone")]) == [CordonAnswer.DONE, CordonAnswer.DONE]
    assert (node_of(cluster)["spec"], node_of(cluster)["metadata"]["annotations"]) == ({}, {})


def test_a_cordon_of_somebody_else_is_neither_taken_over_nor_undone() -> None:
    cluster = StoredObjects()
    engine = engine_on(cluster)
    cluster.put_node("n1", unschedulable=True)
    before = node_of(cluster)
    assert (seen(engine).ready, seen(engine).reason, seen(engine).cordon) == (False, "Cordoned in the cluster.", THEIRS)
    assert engine.cordon([FAN, BACK]) == [CordonAnswer.OTHERS, CordonAnswer.OTHERS]
    assert node_of(cluster) == before
    assert seen(engine_on(cluster, cluster_id="another")).cordon == THEIRS


def test_what_somebody_took_back_of_ours_is_told_and_its_note_goes() -> None:
    cluster = StoredObjects()
    engine = engine_on(cluster)
    cluster.put_node("n1")
    engine.cordon([FAN])
    Api(cluster).patch("/api/v1/nodes/n1", {"spec": {"unschedulable": None}})  # kubectl uncordon
    assert (seen(engine).ready, seen(engine).cordon) == (True, replace(OURS, holds=False))
    engine.cordon([FAN])
    assert seen(engine).cordon == OURS
    Api(cluster).patch("/api/v1/nodes/n1", {"spec": {"unschedulable": None}})
    engine.cordon([BACK])
    Api(cluster).patch("/api/v1/nodes/n1", {"spec": {"unschedulable": True}})  # kubectl cordon
    assert engine.cordon([BACK]) == [CordonAnswer.OTHERS]
    assert node_of(cluster)["spec"] == {"unschedulable": True}


@pytest.mark.parametrize(("times", "answer"), [(1, CordonAnswer.OTHERS), (0, CordonAnswer.DONE)])
def test_a_change_is_bound_to_what_was_seen(times: int, answer: CordonAnswer) -> None:
    cluster = ChangingNodes()
    cluster.put_node("n1")
    cluster.times = times
    assert engine_on(cluster).cordon([FAN]) == [answer]


def test_where_berth_may_not_patch_nodes_it_does_not_try() -> None:
    cluster = StoredObjects()
    cluster.put_node("n1")
    engine = engine_on(cluster, cordon_nodes=False)
    assert engine.cordon([FAN]) == [CordonAnswer.REFUSED]
    assert seen(engine).cordon is None
    verbs = {verb for item in needed(engine.config) if item.resource == "nodes" for verb in item.verbs}
    assert verbs == {"list"}
    assert {verb for item in needed(CONFIG) if item.resource == "nodes" for verb in item.verbs} == {"list", "get", "patch"}
