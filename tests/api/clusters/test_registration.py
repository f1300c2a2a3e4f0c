"""POST /clusters, PATCH, DELETE and :check: what operators do, and what they are told when it is wrong."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from rest_framework.test import APIClient

from clusters.models import Cluster
from clusters.services import forget_engines
from tests.factories.clusters import a_cluster
from tests.factories.kubeconfig import kubeconfig, token_until
from tests.factories.tenants import Cast

pytestmark = pytest.mark.database

Api = Callable[..., APIClient]
URL = "/api/v1/clusters"
THERE = "https://127.0.0.1:9"


@pytest.fixture(autouse=True)
def _no_engines() -> Iterator[None]:
    forget_engines()
    yield
    forget_engines()


def body(**given: object) -> dict[str, object]:
    return {"name": "research", "kind": "kubernetes", "credentials": kubeconfig(THERE), **given}


def paths(answer: object) -> list[tuple[str, str]]:
    return [(field["path"], field["code"]) for field in answer.json()["fields"]]  # type: ignore[attr-defined]


def test_an_operator_adds_changes_and_removes_a_cluster(api: Api, cast: Cast) -> None:
    otto = api(cast.otto)
    added = otto.post(URL, body(config={"default_image": "base:2"}), format="json")
    assert (added.status_code, added["ETag"]) == (201, '"1"')
    shown = added.json()
    assert shown["access"] == {
        "server": THERE, "account": "berth", "origin": "kubeconfig", "expires_at": None, "verifies_tls": True,
    }  # fmt: skip
    assert (shown["condition"]["name"], shown["config"]) == ("unknown", {"default_image": "base:2"})
    url = f"{URL}/{shown['id']}"
    changed = otto.patch(url, {"is_enabled": False, "config": {"default_image": None}}, format="json", HTTP_IF_MATCH='"1"')
    assert (changed.status_code, changed["ETag"], changed.json()["config"]) == (200, '"2"', {})
    assert otto.patch(url, {"name": "x"}, format="json", HTTP_IF_MATCH='"1"').status_code == 412
    assert otto.delete(url).status_code == 204
    assert otto.get(url).status_code == 404


def test_others_see_no_settings_and_no_address(api: Api, cast: Cast) -> None:
    added = api(cast.otto).post(URL, body(), format="json").json()
    for seen in (api(cast.vera).get(f"{URL}/{added['id']}").json(), api(cast.vera).get(URL).json()["items"][0]):
        assert (seen["name"], seen["config"], seen["access"]) == ("research", None, None)
    assert api(cast.otto).get(URL).json()["items"][0]["access"]["server"] == THERE
    assert api(cast.alice).post(URL, body(name="other"), format="json").status_code == 403
    assert api(cast.alice).post(f"{URL}:check", body(name="other"), format="json").status_code == 403


def test_everything_that_is_wrong_is_told_at_its_field(api: Api, cast: Cast) -> None:
    wrong = kubeconfig("ftp://there", token="", username="admin", password="secret")
    answer = api(cast.otto).post(URL, body(name="-", config={"paralel": 1}, credentials=wrong), format="json")
    assert answer.status_code == 422
    assert paths(answer) == [
        ("/name", "invalid"),
        ("/config/paralel", "unknown_field"),
        ("/credentials", "invalid"),
        ("/credentials", "invalid"),
        ("/credentials", "invalid"),
    ]
    assert "secret" not in answer.content.decode()
    unknown = api(cast.otto).post(URL, body(kind="mesos"), format="json")
    assert paths(unknown) == [("/kind", "unknown_kind")]
    assert api(cast.otto).post(URL, {"name": "a"}, format="json").status_code == 422


def test_two_clusters_with_one_name_are_refused(api: Api, cast: Cast) -> None:
    assert api(cast.otto).post(URL, body(), format="json").status_code == 201
    again = api(cast.otto).post(URL, body(), format="json")
    assert (again.status_code, paths(again)) == (409, [("/name", "taken")])


def test_one_place_has_one_cluster_and_the_other_is_named(api: Api, cast: Cast) -> None:
    otto = api(cast.otto)
    assert otto.post(URL, body(), format="json").status_code == 201
    again = otto.post(URL, body(name="second"), format="json")
    assert (again.status_code, paths(again)) == (409, [("/config/namespace_prefix", "place_taken")])
    assert "research" in again.json()["detail"]
    assert otto.post(f"{URL}:check", body(name="second"), format="json").status_code == 409
    other = otto.post(URL, body(name="second", config={"namespace_prefix": "second"}), format="json")
    assert other.status_code == 201
    moved = otto.patch(f"{URL}/{other.json()['id']}", {"config": {"namespace_prefix": None}}, format="json")
    assert (moved.status_code, paths(moved)) == (409, [("/config/namespace_prefix", "place_taken")])


def test_credentials_that_are_over_are_not_stored(api: Api, cast: Cast) -> None:
    otto = api(cast.otto)
    over = kubeconfig(THERE, token=token_until(datetime.now(UTC) - timedelta(hours=1)))
    refused = otto.post(URL, body(credentials=over), format="json")
    assert (refused.status_code, paths(refused)) == (422, [("/credentials", "expired")])
    added = otto.post(URL, body(), format="json").json()
    changed = otto.patch(f"{URL}/{added['id']}", {"credentials": over}, format="json")
    assert (changed.status_code, paths(changed)) == (422, [("/credentials", "expired")])


def test_a_check_stores_nothing_and_says_what_to_do(api: Api, cast: Cast) -> None:
    token = token_until(datetime.now(UTC) - timedelta(hours=1))
    checked = api(cast.otto).post(f"{URL}:check", body(credentials=kubeconfig(THERE, token=token)), format="json")
    assert checked.status_code == 200
    found = {item["check"]: item for item in checked.json()["items"]}
    assert (checked.json()["outcome"], found["credentials"]["outcome"]) == ("failed", "failed")
    assert "expired at" in found["credentials"]["text"]
    assert found["reachable"]["outcome"] == "failed"
    assert "check the port" in found["reachable"]["hint"]
    assert not Cluster.objects.exists()
    chinese = api(cast.otto).post(f"{URL}:check", body(), format="json", HTTP_ACCEPT_LANGUAGE="zh-CN")
    assert "请检查端口" in chinese.json()["items"][-1]["hint"]


def test_a_server_that_never_answers_ends_the_check(api: Api, cast: Cast) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # Takes connections and says nothing.
        there = f"https://127.0.0.1:{silent.getsockname()[1]}"
        config = {"connect_seconds": 0.3, "read_seconds": 0.3}
        answer = api(cast.otto).post(f"{URL}:check", body(config=config, credentials=kubeconfig(there)), format="json")
    assert answer.json()["items"][-1]["outcome"] == "failed"


def test_a_cluster_is_checked_as_it_would_be(api: Api, cast: Cast) -> None:
    added = api(cast.otto).post(URL, body(), format="json").json()
    url = f"{URL}/{added['id']}/check"
    assert api(cast.otto).post(url, {}, format="json").json()["outcome"] == "failed"
    refused = api(cast.otto).post(url, {"config": {"parallel": "many"}}, format="json")
    assert (refused.status_code, paths(refused)) == (422, [("/config/parallel", "invalid")])
    assert Cluster.objects.get().config == {}


def test_the_cluster_of_this_machine_has_no_settings_and_keeps_its_name(api: Api, cast: Cast) -> None:
    cluster = a_cluster().with_nodes(1).build()
    Cluster.objects.filter(pk=cluster.pk).update(kind="local")
    url = f"{URL}/{cluster.pk}"
    refused = api(cast.otto).patch(url, {"name": "mine", "config": {"a": 1}}, format="json")
    assert (refused.status_code, paths(refused)) == (422, [("/name", "not_changeable"), ("/config", "not_changeable")])
    assert api(cast.otto).patch(url, {"is_enabled": False}, format="json").status_code == 200
    assert api(cast.otto).delete(url).status_code == 409


def test_a_cluster_is_declared_lost_and_comes_back(api: Api, cast: Cast) -> None:
    added = api(cast.otto).post(URL, body(), format="json").json()
    url = f"{URL}/{added['id']}"
    refused = api(cast.otto).patch(url, {"is_lost": True}, format="json")
    assert (refused.status_code, paths(refused)) == (409, [("", "enabled")])
    assert "berth clusters disable research" in refused.json()["hint"]
    lost = api(cast.otto).patch(url, {"is_enabled": False, "is_lost": True}, format="json")
    assert (lost.status_code, lost.json()["lost_at"] is not None) == (200, True)
    back = api(cast.otto).patch(url, {"is_enabled": True}, format="json")
    assert (back.status_code, back.json()["lost_at"]) == (200, None)


def test_texts_that_no_database_stores_are_refused(api: Api, cast: Cast) -> None:
    answer = api(cast.otto).post(URL, body(config={"default_image": "a\u0000b"}), format="json")
    assert answer.status_code in (400, 422)
