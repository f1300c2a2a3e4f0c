"""Contact and cordons: told of when they change, and only then."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from activity.models import AuditEvent, Event
from clusters.models import Cluster, ClusterCondition, Node
from clusters.selectors import pools_and_nodes
from clusters.services import cordon_node, set_condition, uncordon_node
from kernel.actor import system_actor
from kernel.errors import PreconditionFailed
from tests.factories.clusters import NOW, a_cluster, make_cluster, make_node

pytestmark = pytest.mark.database

OPERATOR = system_actor("tests")
LATER = NOW + timedelta(minutes=1)


def events() -> list[tuple[str, Any]]:
    """What was told, apart from what the first inventory of a scene tells."""
    told = Event.objects.exclude(kind="node.added").order_by("row").values_list("kind", "data")
    return [(kind, data) for kind, data in told if data.get("from") != "unknown" or kind != "cluster.reachable"]


def test_lost_contact_is_told_once_and_the_detail_stays_fresh() -> None:
    cluster = make_cluster()
    assert set_condition(cluster.pk, ClusterCondition.LOST_CONTACT, "timeout", NOW)
    assert not set_condition(cluster.pk, ClusterCondition.LOST_CONTACT, "refused", LATER)
    cluster.refresh_from_db()
    assert (cluster.condition, cluster.condition_detail, cluster.condition_since_at) == ("lost_contact", "refused", NOW)
    assert [kind for kind, _ in events()] == ["cluster.lost_contact"]


def test_contact_found_again_is_told() -> None:
    cluster = make_cluster()
    set_condition(cluster.pk, ClusterCondition.LOST_CONTACT, "timeout", NOW)
    set_condition(cluster.pk, ClusterCondition.REACHABLE, "", LATER)
    assert events()[-1] == ("cluster.reachable", {"name": cluster.name, "from": "lost_contact", "detail": ""})


def test_contact_as_before_costs_one_read(django_assert_num_queries: Callable[..., Any]) -> None:
    cluster = make_cluster()
    set_condition(cluster.pk, ClusterCondition.REACHABLE, "", NOW)
    with django_assert_num_queries(1):
        set_condition(cluster.pk, ClusterCondition.REACHABLE, "", LATER)


@pytest.mark.capability("57", "A cordoned node takes nothing new, with the operator's words, until it is released")
def test_a_cordoned_node_takes_nothing_new_until_it_is_released() -> None:
    node = make_node()
    cordon_node(actor=OPERATOR, node_id=node.pk, reason="Fan 3", now=NOW)
    assert pools_and_nodes()[1][0].blocked == "Node node-1 is cordoned: Fan 3."
    uncordon_node(actor=OPERATOR, node_id=node.pk, now=LATER)
    assert pools_and_nodes()[1][0].is_schedulable
    assert [kind for kind, _ in events()] == ["node.cordoned", "node.uncordoned"]


def test_every_cordon_is_audited_with_what_changed() -> None:
    node = make_node()
    cordon_node(actor=OPERATOR, node_id=node.pk, reason="Fan 3", now=NOW)
    cordon_node(actor=OPERATOR, node_id=node.pk, reason="Fan 3", now=LATER)
    audits = list(AuditEvent.objects.order_by("pk"))
    assert [audit.verb for audit in audits] == ["node.cordon", "node.cordon"]
    assert (audits[0].before, audits[0].after) == (
        {"cordoned": False, "cordon_reason": ""},
        {"cordoned": True, "cordon_reason": "Fan 3"},
    )
    node.refresh_from_db()
    assert (node.version, node.cordoned_at) == (2, NOW)
    assert [kind for kind, _ in events()] == ["node.cordoned"]


def test_a_cordon_of_an_older_version_is_refused_and_changes_nothing() -> None:
    node = make_node()
    cordon_node(actor=OPERATOR, node_id=node.pk, reason="Fan", now=NOW)
    with pytest.raises(PreconditionFailed):
        uncordon_node(actor=OPERATOR, node_id=node.pk, expected_version=1, now=LATER)
    assert Node.objects.get().cordoned


def test_the_scheduler_sees_why_nothing_may_start_on_a_node() -> None:
    cluster = a_cluster("far").with_nodes(1).with_nodes(1, ready=False, reason="Disk pressure.").build()
    pools, nodes = pools_and_nodes()
    assert [(pool.cluster_name, pool.node_count) for pool in pools] == [("far", 2)]
    assert [node.blocked for node in nodes] == ["", "Node node-2 is not ready: Disk pressure."]
    set_condition(cluster.pk, ClusterCondition.LOST_CONTACT, "timeout", NOW)
    assert {node.blocked for node in pools_and_nodes()[1]} == {"Berth has lost contact with cluster far."}
    Cluster.objects.update(is_enabled=False)
    assert {node.blocked for node in pools_and_nodes()[1]} == {"Cluster far is disabled."}


def test_facts_for_the_scheduler_cost_three_queries(django_assert_num_queries: Callable[..., Any]) -> None:
    a_cluster().with_nodes(5).with_nodes(5, gpus=8).build()
    with django_assert_num_queries(3):
        pools_and_nodes()
