"""What is cordoned in Berth and in the cluster comes together, and each cordon stays its maker's."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from activity.hints import subscribe
from activity.models import Event
from clusters.engines.kubernetes import KubernetesEngine
from clusters.engines.kubernetes.api import Api
from clusters.models import ClusterKind, Node
from clusters.services import begin_windows, cordon_node, read_inventory, record_inventory, uncordon_node
from clusters.services.cluster_cordons import BERTH_ALONE, NOT_TAKEN_BACK, enforce_cordons
from clusters.services.cordons import cordons_topic
from clusters.services.engines import forget_engines
from clusters.services.inventory import MISSING
from clusters.services.maintenance import NewWindow, cancel_window, plan_window
from kernel.actor import system_actor
from kernel.clock import database_now
from tests.factories.clusters import make_cluster, use_engine
from tests.unit.engines_kubernetes.samples import CONFIG
from tests.unit.engines_kubernetes.stored_objects import StoredObjects

pytestmark = pytest.mark.database

ACTOR = system_actor("tests")


class KubernetesNodes:
    """A Kubernetes cluster with nodes, and Berth that looks at it as its observer does."""

    def __init__(self, *nodes: str) -> None:
        self.stored, self.cluster = StoredObjects(), make_cluster(kind=ClusterKind.KUBERNETES)
        for name in nodes:
            self.stored.put_node(name)
        self.allow(cordons=True)
        self.look()

    def allow(self, *, cordons: bool) -> None:
        config = replace(CONFIG, cluster_id=str(self.cluster.pk), cordon_nodes=cordons)
        use_engine(KubernetesEngine(config, Api(self.stored), lambda path: None), kind=ClusterKind.KUBERNETES)
        forget_engines()

    def look(self) -> None:
        found = read_inventory(self.cluster.pk)
        if enforce_cordons(self.cluster.pk, found):
            found = read_inventory(self.cluster.pk)
        record_inventory(self.cluster.pk, found, database_now())

    def kubectl(self, *, unschedulable: bool) -> None:
        Api(self.stored).patch("/api/v1/nodes/n1", {"spec": {"unschedulable": unschedulable or None}})

    @property
    def is_unschedulable(self) -> bool:
        node = self.stored.find("nodes", "n1")
        return node is not None and node["spec"].get("unschedulable", False)

    @property
    def node(self) -> Node:
        return Node.objects.get(cluster=self.cluster, name="n1")

    def cordon(self) -> None:
        cordon_node(actor=ACTOR, node_id=self.node.pk, reason="Fan", now=database_now())

    def uncordon(self) -> None:
        uncordon_node(actor=ACTOR, node_id=self.node.pk, now=database_now())


def state(nodes: KubernetesNodes) -> tuple[bool, str, bool]:
    """Ready, why, and unschedulable in the cluster."""
    nodes.look()
    return nodes.node.ready, nodes.node.reason, nodes.is_unschedulable


def test_a_cordon_of_berth_is_made_in_the_cluster_and_taken_back_there(django_capture_on_commit_callbacks: Any) -> None:
    nodes = KubernetesNodes("n1", "n2")
    Event.objects.all().delete()
    with subscribe(cordons_topic(nodes.cluster.pk)) as hint:
        with django_capture_on_commit_callbacks(execute=True):
            nodes.cordon()
        assert hint.wait(0)
    assert state(nodes) == (True, "", True)
    nodes.kubectl(unschedulable=False)
    assert state(nodes) == (True, "", True)
    nodes.uncordon()
    assert state(nodes) == (True, "", False)
    assert list(Event.objects.order_by("row").values_list("kind", flat=True)) == ["node.cordoned", "node.uncordoned"]


def test_a_cordon_of_kubectl_stays_whatever_berth_does_and_is_shown_as_such() -> None:
    nodes = KubernetesNodes("n1")
    nodes.kubectl(unschedulable=True)
    theirs = (False, "Cordoned in the cluster.", True)
    assert state(nodes) == theirs
    nodes.cordon()
    assert state(nodes) == theirs
    nodes.uncordon()
    assert state(nodes) == theirs
    nodes.cordon()
    nodes.kubectl(unschedulable=False)
    assert state(nodes) == (True, "", True)  # What Berth wants of it is Berth's from then on.


def test_where_berth_may_not_cordon_in_the_cluster_the_node_says_so() -> None:
    nodes = KubernetesNodes("n1")
    nodes.allow(cordons=False)
    nodes.cordon()
    assert state(nodes) == (True, BERTH_ALONE, False)
    nodes.allow(cordons=True)
    assert state(nodes) == (True, "", True)
    nodes.allow(cordons=False)
    nodes.uncordon()
    assert state(nodes) == (False, NOT_TAKEN_BACK, True)
    nodes.kubectl(unschedulable=False)
    assert state(nodes) == (True, "", False)


def test_nodes_come_and_go_with_the_cluster_s_and_a_cordon_waits_for_its_node() -> None:
    nodes = KubernetesNodes("n1")
    nodes.cordon()
    taken = nodes.stored.objects.pop(("nodes", "", "n1"))
    nodes.stored.put_node("n2")
    assert state(nodes) == (False, MISSING, False)
    assert sorted(Node.objects.filter(ready=True).values_list("name", flat=True)) == ["n2"]
    nodes.stored.objects["nodes", "", "n1"] = taken
    assert state(nodes) == (True, "", True)


def test_a_maintenance_window_cordons_in_the_cluster_and_returns_what_it_took() -> None:
    nodes = KubernetesNodes("n1")
    now = database_now()
    wanted = NewWindow(None, (nodes.node.pk,), now, now + timedelta(hours=1), "Firmware")
    window = plan_window(actor=ACTOR, wanted=wanted, now=now)
    begin_windows(now)
    assert state(nodes) == (True, "", True)
    cancel_window(actor=ACTOR, window=window, now=now)
    assert state(nodes) == (True, "", False)
