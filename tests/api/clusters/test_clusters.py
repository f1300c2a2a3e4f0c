"""GET /clusters and /clusters/{id}."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rest_framework.test import APIClient

from tests.factories.clusters import make_cluster
from tests.factories.tenants import Cast

pytestmark = pytest.mark.database

Api = Callable[..., APIClient]


def test_everybody_with_a_tenant_sees_clusters_and_how_they_keep_tenants_apart(api: Api, cast: Cast) -> None:
    make_cluster("far", config={"password": "hidden"}, isolation=["Tenants share one user."], tenants_kept_apart=False)
    answer = api(cast.vera).get("/api/v1/clusters")
    assert answer.status_code == 200
    (item,) = answer.json()["items"]
    assert item["name"] == "far"
    assert item["isolation"] == {"tenants_kept_apart": False, "facts": ["Tenants share one user."]}
    assert item["condition"] == {"name": "unknown", "detail": "", "since_at": None}
    assert "hidden" not in answer.content.decode()


def test_one_cluster_is_read_by_id(api: Api, cast: Cast) -> None:
    cluster = make_cluster("far")
    answer = api(cast.bob).get(f"/api/v1/clusters/{cluster.pk}")
    assert (answer.status_code, answer.json()["id"]) == (200, str(cluster.pk))


@pytest.mark.parametrize("text", ["far", "0", "01936f3e-8d1c-7a40-9c2b-5f0e6a7d1001", "x" * 300])
def test_what_is_no_cluster_is_not_found(api: Api, cast: Cast, text: str) -> None:
    assert api(cast.bob).get(f"/api/v1/clusters/{text}").status_code == 404


def test_without_a_token_nothing_is_said(api: Api) -> None:
    assert api().get("/api/v1/clusters").status_code == 401


def test_pages_follow_each_other_without_a_gap(api: Api, cast: Cast) -> None:
    for name in "edcba":
        make_cluster(name)
    seen, cursor = [], None
    while cursor is not None or not seen:
        answer = api(cast.bob).get("/api/v1/clusters", {"limit": 2, **({"cursor": cursor} if cursor else {})}).json()
        seen += [item["name"] for item in answer["items"]]
        cursor = answer["next"]
    assert seen == list("abcde")
