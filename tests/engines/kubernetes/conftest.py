"""A bench on the real node, and the cluster beside it."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from clusters.engines.kubernetes import KubernetesEngine, names, open_engine
from clusters.engines.kubernetes.permissions import cluster_role
from tests.builders import kubernetes
from tests.builders.prepared import short_folder
from tests.contract.engines.bench import Bench
from tests.contract.engines.kubernetes_bench import config_of, remove_everything

if TYPE_CHECKING:
    from tools.kubernetes.cluster import Cluster


@dataclass
class Place:
    """One engine on one cluster, and what a person with kubectl sees of it."""

    bench: Bench
    cluster: Cluster

    @property
    def engine(self) -> KubernetesEngine:
        assert isinstance(self.bench.engine, KubernetesEngine)
        return self.bench.engine

    def namespace(self, tenant: int = 1) -> str:
        return names.tenant_namespace(self.engine.config.namespace_prefix, f"tenant-{tenant}")

    def pod(self, attempt_id: Any, place: int = 0, tenant: int = 1) -> dict[str, Any]:
        found: dict[str, Any] = self.cluster.request("GET", self.pod_path(attempt_id, place, tenant))
        return found

    def pod_path(self, attempt_id: Any, place: int = 0, tenant: int = 1) -> str:
        return f"/api/v1/namespaces/{self.namespace(tenant)}/pods/{names.pod_name(attempt_id, place)}"

    def pods(self, attempt_id: Any) -> list[dict[str, Any]]:
        query = f"labelSelector={names.ATTEMPT}%3D{attempt_id}"
        found: list[dict[str, Any]] = self.cluster.request("GET", f"/api/v1/pods?{query}")["items"]
        return found


@pytest.fixture
def open_place() -> Iterator[Callable[..., Place]]:
    """Makes benches with changes of the configuration."""
    kubernetes.skip_without_kubernetes()
    directory = short_folder("engine")
    directory.chmod(0o711)
    with kubernetes.shared() as cluster:
        opened: list[tuple[Bench, Any]] = []

        def make(**changes: object) -> Place:
            config = config_of(cluster, directory, **changes)
            bench = Bench("kubernetes", lambda: open_engine(config))
            opened.append((bench, config))
            return Place(bench, cluster)

        yield make
        for bench, config in opened:
            bench.close()
            remove_everything(cluster, config)
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def place(open_place: Callable[..., Place]) -> Place:
    return open_place()


@pytest.fixture
def with_rights(place: Place) -> Iterator[Callable[..., Bench]]:
    """Benches of people who have the engine's rights, but for some kinds of objects, with changes of the configuration."""
    made: list[str] = []

    def make(without: frozenset[str] = frozenset(), **changes: Any) -> Bench:
        user = f"berth-{secrets.token_hex(4)}"
        made.append(user)
        config = replace(place.engine.config, kubeconfig=place.cluster.kubeconfig_for(user).read_text(), **changes)
        role = cluster_role(user, config)
        role["rules"] = [rule for rule in role["rules"] if not set(rule["resources"]) & without]
        place.cluster.create(role)
        place.cluster.create(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": user},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
            }
        )
        bench = Bench("kubernetes", lambda: open_engine(config))
        opened.append(bench)
        return bench

    opened: list[Bench] = []
    yield make
    for bench in opened:
        bench.close()
    for user in made:
        for kind in ("clusterrolebindings", "clusterroles"):
            place.cluster.request("DELETE", f"/apis/rbac.authorization.k8s.io/v1/{kind}/{user}")
