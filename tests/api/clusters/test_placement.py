"""PATCH /pools/{id}, and the taints of PATCH /nodes/{id}."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import pytest
from rest_framework.test import APIClient

from activity.models import AuditEvent
from clusters import placement
from clusters.abilities import abilities_document, read_abilities
from clusters.engines.interface import NO_PLACES, Abilities, Inventory, Places
from clusters.models import Cluster, Pool
from clusters.services import record_inventory
from jobs.scheduling.core.place import scores
from kernel.errors import InvalidInput
from tests.builders.quay import Quay
from tests.factories.clusters import make_node, make_pool, node_facts
from tests.factories.tenants import Cast

pytestmark = pytest.mark.database

Api = Callable[..., APIClient]


def paths(answer: object) -> list[tuple[str, str]]:
    return [(field["path"], field["code"]) for field in answer.json()["fields"]]  # type: ignore[attr-defined]


def test_policies_terms_and_levels_are_those_of_the_scheduler() -> None:
    assert set(placement.POLICIES) == set(scores.POLICIES)
    assert placement.TERMS == scores.TERMS
    assert scores.PoolRules().levels == placement.LEVELS


def test_an_operator_changes_how_a_pool_is_filled_and_it_is_audited(api: Api, cast: Cast) -> None:
    url = f"/api/v1/pools/{make_pool(gpus=2).pk}"
    first = api(cast.otto).patch(url, {"policy": "pack", "weights": {"taints": 5}, "levels": ["rack", "island"]}, format="json")
    assert (first.status_code, first["ETag"]) == (200, '"2"')
    none = dict.fromkeys(placement.RULES)
    assert first.json()["rules"] == {**none, "policy": "pack", "weights": {"taints": 5}, "levels": ["island", "rack"]}
    second = api(cast.otto).patch(url, {"policy": None, "gpu_shares": True}, format="json")
    assert second.json()["rules"] == {**none, "gpu_shares": True, "weights": {"taints": 5}, "levels": ["island", "rack"]}
    assert api(cast.vera).get(url).json() == second.json()
    audit = AuditEvent.objects.filter(verb="pool.edit").order_by("id").first()
    assert audit is not None
    assert audit.after is not None
    assert (audit.actor_name, audit.before, audit.after["rules"]["policy"]) == ("otto", {"rules": {}}, "pack")


def test_a_pool_that_was_made_before_its_gpus_were_there_gets_a_true_name(api: Api, cast: Cast) -> None:
    quay = Quay(cast, nodes=[node_facts("box", cores=16)])
    assert quay.pool.name == "cpu"
    record_inventory(quay.cluster.pk, Inventory((node_facts("box", cores=16, gpus=2, gpu_model="H200"),), quay.now), quay.now)
    url = f"/api/v1/pools/{quay.pool.pk}"
    assert (api(cast.vera).get(url).json()["name"], api(cast.vera).get(url).json()["gpu_model"]) == ("cpu", "H200")
    renamed = api(cast.otto).patch(url, {"name": "h200"}, format="json")
    assert (renamed.status_code, renamed.json()["name"]) == (200, "h200")
    record_inventory(quay.cluster.pk, Inventory((node_facts("box", cores=16, gpus=2, gpu_model="H200"),), quay.now), quay.now)
    assert api(cast.vera).get(url).json()["name"] == "h200", "the inventory keeps an operator's name"
    audit = AuditEvent.objects.filter(verb="pool.edit").latest("id")
    assert (audit.before, audit.after) == ({"rules": {}, "name": "cpu"}, {"rules": {}, "name": "h200"})


def test_the_scheduler_finds_a_pool_by_its_new_name_at_once(api: Api, cast: Cast) -> None:
    quay = Quay(cast)
    quay.turn()
    api(cast.otto).patch(f"/api/v1/pools/{quay.pool.pk}", {"name": "the-new"}, format="json")
    job = quay.submit("by-name", pool="the-new")
    quay.turn()
    job.refresh_from_db()
    assert job.attempts.count() == 1, job.reason_code


def test_a_pool_gets_no_name_that_another_has_and_none_that_no_job_file_could_say(api: Api, cast: Cast) -> None:
    pool = make_pool()
    other = Pool.objects.create(cluster=pool.cluster, name="taken", created_at=pool.created_at)
    taken = api(cast.otto).patch(f"/api/v1/pools/{pool.pk}", {"name": other.name}, format="json")
    assert (taken.status_code, taken.json()["detail"]) == (409, f"Cluster {pool.cluster.name} has a pool taken already.")
    for name in ("", "two words", "-0", "x" * 64, 7):
        refused = api(cast.otto).patch(f"/api/v1/pools/{pool.pk}", {"name": name}, format="json")
        assert (refused.status_code, paths(refused)) == (422, [("/name", "grammar")])
    assert api(cast.alice).patch(f"/api/v1/pools/{pool.pk}", {"name": "mine"}, format="json").status_code == 403


def test_all_that_is_wrong_with_rules_is_said_at_once_and_nothing_changes(api: Api, cast: Cast) -> None:
    pool = make_pool()
    body = {
        "policy": "best",
        "weights": {"pack": -1, "luck": 1, "ratio": 0.5, "spread": True},
        "gpu_shares": "yes",
        "shared_devices_max": -1,
        "levels": ["rack", "room"],
        "size": 1,
    }
    answer = api(cast.otto).patch(f"/api/v1/pools/{pool.pk}", body, format="json")
    assert answer.status_code == 422
    assert paths(answer) == [
        ("/policy", "choice"),
        ("/weights/pack", "range"),
        ("/weights/luck", "choice"),
        ("/weights/ratio", "range"),
        ("/weights/spread", "range"),
        ("/gpu_shares", "boolean"),
        ("/shared_devices_max", "range"),
        ("/levels/1", "choice"),
        ("/size", "unknown_field"),
    ]
    assert Pool.objects.get(pk=pool.pk).rules is None


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, 10**30, [], "1", None], ids=["nan", "infinity", "huge", "list", "text", "null"]
)
def test_a_weight_that_is_no_whole_number_is_refused(value: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        placement.read_pool_changes({"weights": {"pack": value}})
    assert [(field.path, field.code) for field in refused.value.fields] == [("/weights/pack", "range")]


@pytest.mark.parametrize("body", [[], "pack", 1])
def test_rules_that_are_no_mapping_are_refused(api: Api, cast: Cast, body: object) -> None:
    assert api(cast.otto).patch(f"/api/v1/pools/{make_pool().pk}", body, format="json").status_code == 422


def test_an_engine_that_cannot_share_a_gpu_keeps_its_pools_from_lending_parts(api: Api, cast: Cast) -> None:
    pool = make_pool(gpus=2)
    url = f"/api/v1/pools/{pool.pk}"
    cluster = Cluster.objects.get(pk=pool.cluster_id)
    without = {name: able for name, able in cluster.abilities.items() if name != "shares_gpus"}
    Cluster.objects.filter(pk=cluster.pk).update(abilities=without)
    said = api(cast.otto).patch(url, {"gpu_shares": True}, format="json")
    assert said.status_code == 200, "the release before did not ask, and all its engines shared"
    api(cast.otto).patch(url, {"gpu_shares": None}, format="json")

    Cluster.objects.filter(pk=cluster.pk).update(abilities={**without, **abilities_document(Abilities())})
    answer = api(cast.otto).patch(url, {"gpu_shares": True}, format="json")
    assert (answer.status_code, paths(answer)) == (422, [("/gpu_shares", "not_supported")])
    assert "cannot lend parts" in answer.json()["detail"]


def test_what_an_older_release_said_of_mounts_is_still_read() -> None:
    places = Places(below=("/srv",), claims=True, makes_claims=True, shares=("nas",), checkpoints=False)
    written = json.loads(json.dumps(abilities_document(Abilities(places=places))))
    assert read_abilities(written).places == places
    assert written["mounts"] is True
    assert read_abilities({"mounts": True}).places == Places()
    assert read_abilities({"mounts": False}).places == NO_PLACES
    assert read_abilities(None).places == Places()
    assert read_abilities({"places": {"below": ["/"], "of_tomorrow": 1}}).places == Places()


def test_rules_are_not_changed_over_somebody_elses_change(api: Api, cast: Cast) -> None:
    url = f"/api/v1/pools/{make_pool().pk}"
    read = api(cast.otto).get(url)
    api(cast.otto).patch(url, {"policy": "pack"}, format="json")
    late = api(cast.otto).patch(url, {"policy": "spread"}, format="json", HTTP_IF_MATCH=read["ETag"])
    assert (late.status_code, late.json()["code"]) == (412, "precondition_failed")


def test_only_operators_change_pools_and_taints(api: Api, cast: Cast) -> None:
    node = make_node()
    assert api(cast.alice).patch(f"/api/v1/pools/{node.pool_id}", {"policy": "pack"}, format="json").status_code == 403
    assert api(cast.alice).patch(f"/api/v1/nodes/{node.pk}", {"taints": {}}, format="json").status_code == 403


def test_an_operator_taints_a_node_beside_the_taints_of_its_cluster(api: Api, cast: Cast) -> None:
    node = make_node(labels={"berth.dev/taint.fpga": "keep-out", "os": "x"})
    url = f"/api/v1/nodes/{node.pk}"
    answer = api(cast.otto).patch(url, {"taints": {"demo": "avoid"}}, format="json").json()
    assert answer["taints"] == {"demo": "avoid", "fpga": "keep-out"}
    assert (answer["own_taints"], answer["version"], answer["cordoned"]) == ({"demo": "avoid"}, 2, False)
    assert AuditEvent.objects.get(verb="node.taint").after == {"taints": {"demo": "avoid"}}
    both = api(cast.otto).patch(url, {"taints": {}, "cordoned": True, "cordon_reason": "Fan"}, format="json").json()
    assert (both["taints"], both["cordoned"]) == ({"fpga": "keep-out"}, True)


def test_all_that_is_wrong_with_taints_is_said_at_once(api: Api, cast: Cast) -> None:
    url = f"/api/v1/nodes/{make_node().pk}"
    answer = api(cast.otto).patch(url, {"taints": {"A b": "avoid", "demo": "never"}}, format="json")
    assert (answer.status_code, paths(answer)) == (422, [("/taints/A b", "grammar"), ("/taints/demo", "choice")])
    assert api(cast.otto).patch(url, {"taints": ["demo"]}, format="json").status_code == 422
    assert api(cast.otto).patch(url, {}, format="json").status_code == 422
