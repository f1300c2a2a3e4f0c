"""GET and PATCH /nodes/{id}, GET /nodes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rest_framework.test import APIClient

from activity.models import AuditEvent
from clusters.models import Node
from tests.factories.clusters import a_cluster, make_node
from tests.factories.tenants import Cast

pytestmark = pytest.mark.database

Api = Callable[..., APIClient]


def names(answer: object) -> list[str]:
    return [item["name"] for item in answer.json()["items"]]  # type: ignore[attr-defined]


def test_a_node_is_shown_with_its_devices_and_what_runs_on_it(api: Api, cast: Cast) -> None:
    node = make_node(gpus=2, simulated=True)
    answer = api(cast.vera).get(f"/api/v1/nodes/{node.pk}")
    item = answer.json()
    assert answer["ETag"] == '"1"'
    assert (item["ready"], item["reason"], item["gpus_simulated"]) == (True, None, True)
    assert [gpu["simulated"] for gpu in item["gpus"]] == [True, True]
    assert item["labels"] == {"os": "Debian GNU/Linux 12"}
    assert item["pool"]["name"] == "a100"


def test_nodes_are_filtered_by_readiness_cordon_and_place(api: Api, cast: Cast) -> None:
    a_cluster("far").with_nodes(1).with_nodes(1, ready=False, reason="Disk").with_nodes(1, gpus=8).build()
    a_cluster("near").with_nodes(1, prefix="other").build()
    client = api(cast.bob)
    assert names(client.get("/api/v1/nodes")) == ["node-1", "node-2", "node-3", "other-1"]
    assert names(client.get("/api/v1/nodes", {"ready": "false"})) == ["node-2"]
    assert names(client.get("/api/v1/nodes", {"cluster": "near"})) == ["other-1"]
    assert names(client.get("/api/v1/nodes", {"pool": "a100", "cluster": "far"})) == ["node-3"]
    assert names(client.get("/api/v1/nodes", {"cordoned": "true"})) == []
    assert client.get("/api/v1/nodes", {"ready": "perhaps"}).status_code == 422


def test_an_operator_cordons_a_node_and_it_is_audited(api: Api, cast: Cast) -> None:
    node = make_node()
    answer = api(cast.otto).patch(f"/api/v1/nodes/{node.pk}", {"cordoned": True, "cordon_reason": "Fan 3"}, format="json")
    assert answer.status_code == 200
    assert answer["ETag"] == '"2"'
    item = answer.json()
    assert (item["cordoned"], item["cordon_reason"], item["cordoned_by"]) == (True, "Fan 3", "otto")
    audit = AuditEvent.objects.get(verb="node.cordon")
    assert (audit.actor_name, audit.target_name, audit.request_id != "") == ("otto", "node-1", True)
    released = api(cast.otto).patch(f"/api/v1/nodes/{node.pk}", {"cordoned": False}, format="json").json()
    assert (released["cordoned"], released["cordon_reason"], released["cordoned_at"]) == (False, None, None)


def test_a_reason_stays_when_a_node_is_cordoned_once_more_without_one(api: Api, cast: Cast) -> None:
    path = f"/api/v1/nodes/{make_node().pk}"
    api(cast.otto).patch(path, {"cordoned": True, "cordon_reason": "Fan 3"}, format="json")

    again = api(cast.otto).patch(path, {"cordoned": True}, format="json").json()

    assert (again["cordon_reason"], again["cordoned_by"]) == ("Fan 3", "otto")


def test_a_manager_sees_the_node_but_may_not_cordon_it(api: Api, cast: Cast) -> None:
    node = make_node()
    assert api(cast.alice).patch(f"/api/v1/nodes/{node.pk}", {"cordoned": True}, format="json").status_code == 403
    assert not Node.objects.get().cordoned
    assert not AuditEvent.objects.filter(target_kind="node").exists()


def test_an_edit_of_an_older_version_is_refused(api: Api, cast: Cast) -> None:
    node = make_node()
    client = api(cast.otto)
    client.patch(f"/api/v1/nodes/{node.pk}", {"cordoned": True}, format="json")
    answer = client.patch(f"/api/v1/nodes/{node.pk}", {"cordoned": False}, format="json", HTTP_IF_MATCH='"1"')
    assert answer.status_code == 412
    assert Node.objects.get().cordoned


@pytest.mark.parametrize("body", [{}, {"cordoned": "maybe"}, {"cordoned": True, "ready": False}, {"cordon_reason": "x"}, [], "x"])
def test_a_body_that_is_not_understood_is_refused_and_changes_nothing(api: Api, cast: Cast, body: object) -> None:
    node = make_node()
    answer = api(cast.otto).patch(f"/api/v1/nodes/{node.pk}", body, format="json")
    assert answer.status_code in (400, 422)
    assert not Node.objects.get().cordoned
