"""Clusters that operators add, change and remove while the platform runs."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from activity.models import AuditEvent, Event
from clusters.engines.fake import Script
from clusters.engines.interface import EngineUnreachable
from clusters.models import Cluster, Pool
from clusters.services import (
    ClusterChanges,
    ClusterGone,
    NewCluster,
    add_cluster,
    change_cluster,
    engine_for,
    forget_engines,
    record_inventory,
    refresh_engines,
    remove_cluster,
    rotate_credentials,
)
from clusters.services.credentials import unseal
from kernel.actor import system_actor
from kernel.errors import Conflict, InvalidInput, PreconditionFailed
from tenants.capacity.models import Queue, QueueLimit, QueueUsage
from tests.builders.quay import Quay
from tests.factories.clusters import NOW, a_cluster, inventory, make_cluster, node_facts
from tests.factories.kubeconfig import kubeconfig, token_until
from tests.factories.tenants import Cast

pytestmark = pytest.mark.database

OPERATOR = system_actor("tests")
SECRET = "t0ken-that-nobody-may-see"
THERE = "https://127.0.0.1:9"


@pytest.fixture(autouse=True)
def _no_engines() -> Iterator[None]:
    forget_engines()
    yield
    forget_engines()


def added(name: str = "research", **given: object) -> Cluster:
    values = {"kind": "kubernetes", "config": {}, "credentials": kubeconfig(THERE), **given}
    return add_cluster(actor=OPERATOR, wanted=NewCluster(name, **values), now=NOW)  # type: ignore[arg-type]


def paths(refusal: InvalidInput | Conflict) -> list[tuple[str, str]]:
    return [(field.path, field.code) for field in refusal.fields]


def test_credentials_are_sealed_and_told_to_nobody() -> None:
    ends = datetime(2027, 3, 1, tzinfo=UTC)
    cluster = added(credentials=kubeconfig(THERE, token=f"{token_until(ends)}"), config={"namespace_prefix": "b2"})
    cluster.refresh_from_db()
    assert "token" in unseal(cluster)
    assert cluster.config == {"namespace_prefix": "b2"}
    assert cluster.access == {
        "server": THERE, "account": "system:serviceaccount:berth:berth", "origin": "kubeconfig", "place": f"{THERE} b2",
        "expires_at": "2027-03-01T00:00:00Z", "verifies_tls": True,
    }  # fmt: skip
    change_cluster(
        actor=OPERATOR, cluster_id=cluster.pk, changes=ClusterChanges(credentials=kubeconfig(THERE, token=SECRET)), now=NOW
    )
    everything = [json.dumps(row, default=str) for model in (Cluster, AuditEvent, Event) for row in model.objects.values()]
    assert not [text for text in everything if SECRET in text or "current-context" in text]
    assert AuditEvent.objects.filter(verb="cluster.edit").count() == 2


def test_sealed_credentials_of_one_cluster_do_not_open_for_another() -> None:
    first, second = added("first"), added("second", config={"namespace_prefix": "second"})
    Cluster.objects.filter(pk=second.pk).update(credentials_sealed=first.credentials_sealed)
    with pytest.raises(EngineUnreachable, match="do not open"):
        engine_for(second.pk)


def test_credentials_are_sealed_anew_under_a_new_key(settings: object) -> None:
    cluster = added()
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]  # type: ignore[attr-defined]
    settings.SECRET_KEY = "n" * 20 + str(uuid.uuid4())  # type: ignore[attr-defined]
    assert rotate_credentials() == 1
    settings.SECRET_KEY_FALLBACKS = []  # type: ignore[attr-defined]
    cluster.refresh_from_db()
    assert json.loads(unseal(cluster))["current-context"] == "berth"


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(InvalidInput) as caught:
        added(" no ", config={"paralel": 3, "cpu_request_percent": 0, "kubeconfig": "x"}, credentials="users: 3")
    assert paths(caught.value) == [
        ("/name", "invalid"),
        ("/config/kubeconfig", "secret"),
        ("/config/paralel", "unknown_field"),
        ("/config/cpu_request_percent", "invalid"),
        ("/credentials", "invalid"),
    ]
    assert not Cluster.objects.exists()


def test_an_unknown_kind_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(InvalidInput) as caught:
        added(kind="local")
    assert paths(caught.value) == [("/kind", "unknown_kind")]
    assert "Kinds are: kubernetes." in caught.value.detail


def test_two_clusters_with_one_name_are_refused() -> None:
    added("research")
    with pytest.raises(Conflict) as caught:
        added("research")
    assert paths(caught.value) == [("/name", "taken")]
    other = added("other", config={"namespace_prefix": "other"})
    with pytest.raises(Conflict):
        change_cluster(actor=OPERATOR, cluster_id=other.pk, changes=ClusterChanges(name="research"), now=NOW)


def test_without_a_kubeconfig_berth_must_run_in_a_pod() -> None:
    with pytest.raises(InvalidInput) as caught:
        added(credentials="")
    assert paths(caught.value) == [("/credentials", "required")]


def test_names_of_the_configuration_are_changed_one_by_one() -> None:
    cluster = added(config={"default_image": "a:1", "node_selector": {"team": "x"}})
    changes = ClusterChanges(config={"default_image": None, "cpu_request_percent": 50})
    changed = change_cluster(actor=OPERATOR, cluster_id=cluster.pk, changes=changes, expected_version=1, now=NOW)
    assert (changed.version, changed.config) == (2, {"node_selector": {"team": "x"}, "cpu_request_percent": 50})
    with pytest.raises(PreconditionFailed):
        change_cluster(actor=OPERATOR, cluster_id=cluster.pk, changes=changes, expected_version=1, now=NOW)
    same = change_cluster(actor=OPERATOR, cluster_id=cluster.pk, changes=changes, now=NOW)
    assert same.version == 2


def test_an_engine_is_made_anew_with_its_settings_and_only_then() -> None:
    cluster = added()
    first = engine_for(cluster.pk)
    Cluster.objects.filter(pk=cluster.pk).update(version=7, is_enabled=False)  # As another process does it.
    refresh_engines()
    assert engine_for(cluster.pk) is first
    Cluster.objects.filter(pk=cluster.pk).update(version=8, config={"namespace_prefix": "other"})
    assert engine_for(cluster.pk) is first
    refresh_engines()
    second = engine_for(cluster.pk)
    assert second.config.namespace_prefix == "other"  # type: ignore[attr-defined]
    Cluster.objects.filter(pk=cluster.pk).delete()
    refresh_engines()
    with pytest.raises(ClusterGone):
        engine_for(cluster.pk)


def test_a_cluster_with_live_attempts_is_neither_removed_nor_moved(cast: Cast) -> None:
    quay = Quay(cast)
    quay.submit("train", script=Script(duration_seconds=None))
    quay.turn()
    cluster = quay.cluster
    with pytest.raises(Conflict) as caught:
        remove_cluster(actor=OPERATOR, cluster_id=cluster.pk, now=NOW)
    assert [field.code for field in caught.value.fields] == ["live_attempts"]
    assert "1 attempt lives there (train)." in caught.value.detail
    assert "berth clusters disable" in caught.value.hint
    Cluster.objects.filter(pk=cluster.pk).update(kind="kubernetes", access={"place": f"{THERE} berth"})
    elsewhere = ClusterChanges(credentials=kubeconfig("https://127.0.0.2:9"))
    with pytest.raises(Conflict, match="another place"):
        change_cluster(actor=OPERATOR, cluster_id=cluster.pk, changes=elsewhere, now=NOW)
    renewed = ClusterChanges(credentials=kubeconfig(THERE, token="new"))
    change_cluster(actor=OPERATOR, cluster_id=cluster.pk, changes=renewed, now=NOW)


def test_promises_are_given_up_before_a_cluster_is_removed(cast: Cast) -> None:
    cluster = a_cluster().with_nodes(1, gpus=4).build()
    pool = Pool.objects.get(cluster=cluster)
    other = Pool.objects.get(cluster=a_cluster().with_nodes(1).build())
    queue = Queue.objects.get(tenant=cast.tenant)
    limit = QueueLimit.objects.create(queue=queue, pool_id=pool.pk, resource="gpu_millis", guarantee=2_000)
    QueueLimit.objects.create(queue=queue, pool_id=other.pk, resource="gpu_millis", ceiling=1_000)
    QueueUsage.objects.create(queue=queue, pool_id=pool.pk)
    with pytest.raises(Conflict) as caught:
        remove_cluster(actor=OPERATOR, cluster_id=cluster.pk, now=NOW)
    assert [field.code for field in caught.value.fields] == ["guarantees"]
    QueueLimit.objects.filter(pk=limit.pk).update(guarantee=0)
    remove_cluster(actor=OPERATOR, cluster_id=cluster.pk, expected_version=1, now=NOW)
    assert not Cluster.objects.filter(pk=cluster.pk).exists()
    assert list(QueueLimit.objects.values_list("pool_id", flat=True)) == [other.pk]
    assert not QueueUsage.objects.filter(pool_id=pool.pk).exists()
    audit = AuditEvent.objects.get(verb="cluster.delete")
    assert audit.target_name == cluster.name
    assert Event.objects.filter(kind="cluster.removed", subject_id=cluster.pk).exists()


def test_what_is_read_of_a_cluster_that_is_gone_is_dropped() -> None:
    cluster = make_cluster()
    Cluster.objects.filter(pk=cluster.pk).delete()
    with pytest.raises(ClusterGone):
        record_inventory(cluster.pk, inventory(node_facts()), NOW)


def test_a_note_of_the_inventory_is_shown_while_the_cluster_answers() -> None:
    cluster = make_cluster()
    record_inventory(cluster.pk, inventory(note="No node has the labels."), NOW)
    cluster.refresh_from_db()
    assert (cluster.condition, cluster.condition_detail) == ("reachable", "No node has the labels.")
    record_inventory(cluster.pk, inventory(node_facts(), read_at=NOW + timedelta(seconds=1)), NOW)
    cluster.refresh_from_db()
    assert cluster.condition_detail == ""
