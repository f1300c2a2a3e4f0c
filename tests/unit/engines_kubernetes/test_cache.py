"""Watched copies: order, age, and what a list may overwrite."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clusters.engines.kubernetes.api import Api, ApiRefused, Expired
from clusters.engines.kubernetes.cache import Cache, Key, by_label, prune_pod
from tests.unit.engines_kubernetes.test_api import Answer, Server

A, B = Key("n", "a"), Key("n", "b")


def document_of(name: str, version: int, **labels: str) -> dict[str, Any]:
    return {"metadata": {"namespace": "n", "name": name, "resourceVersion": str(version), "labels": labels}}


def listing(version: int, *documents: dict[str, Any]) -> Answer:
    return Answer(200, {"metadata": {"resourceVersion": str(version)}, "items": list(documents)})


def cache_of(*answers: Answer) -> Cache:
    return Cache(Server(*answers).api(), "/x", "a=b")


def event(kind: str, document: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": document}


def versions(cache: Cache) -> dict[str, str]:
    return {key.name: document["metadata"]["resourceVersion"] for key, document in cache.objects().items()}


def test_events_follow_a_list() -> None:
    cache = cache_of(listing(10, document_of("a", 3)))
    cache.relist()
    cache.handle(event("ADDED", document_of("b", 11)))
    cache.handle(event("MODIFIED", document_of("a", 12)))
    cache.handle(event("DELETED", document_of("b", 13)))
    cache.handle(event("BOOKMARK", document_of("", 20)))
    assert versions(cache) == {"a": "12"}
    assert cache._version == 20
    assert cache.is_fresh()


def test_an_event_that_comes_late_or_twice_changes_nothing() -> None:
    cache = cache_of(listing(10, document_of("a", 9)))
    cache.relist()
    cache.handle(event("MODIFIED", document_of("a", 5)))
    cache.handle(event("DELETED", document_of("a", 11)))
    cache.handle(event("MODIFIED", document_of("a", 10)))
    assert versions(cache) == {}


def test_a_list_that_is_older_than_what_is_known_takes_nothing_back() -> None:
    cache = cache_of(listing(10, document_of("a", 9), document_of("b", 8)))
    cache.put(document_of("a", 12))  # Our own write, while the list was on its way.
    cache.put(document_of("c", 13))
    cache.remove(B, 11)
    cache.relist()
    assert versions(cache) == {"a": "12", "c": "13"}


def test_what_a_newer_list_lacks_is_gone() -> None:
    cache = cache_of(listing(10, document_of("a", 9)), listing(20))
    cache.relist()
    cache.relist()
    assert cache.objects() == {}


@pytest.mark.parametrize("code", [410, 504])
def test_an_error_in_a_watch_asks_for_a_new_list(code: int) -> None:
    cache = cache_of(listing(10))
    cache.relist()
    with pytest.raises(Expired):
        cache.handle(event("ERROR", {"code": code, "reason": "Expired"}))
    with pytest.raises(ApiRefused):
        cache.handle(event("ERROR", {"code": 500}))


def test_the_watch_goes_on_where_the_list_ended() -> None:
    lines = b"".join(json.dumps(event("ADDED", document_of("b", 11))).encode() + b"\n" for _ in range(2))
    server = Server(listing(10, document_of("a", 3)), Answer(200, lines))
    cache = Cache(server.api(), "/x", "a=b")
    cache.relist()
    cache._watch()
    assert versions(cache) == {"a": "3", "b": "11"}
    assert "resourceVersion=10" in server.asked[1][1]
    assert "allowWatchBookmarks=true" in server.asked[1][1]


def test_a_dear_list_is_made_for_a_twentieth_of_the_time_only(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = cache_of(listing(10))
    assert cache.is_list_cheap()
    cache.relist()
    assert cache.is_list_cheap()
    cache._list_seconds = 6.0
    assert not cache.is_list_cheap()
    cache._listed_at -= 121.0
    assert cache.is_list_cheap()


def test_objects_by_label() -> None:
    documents = [document_of("a", 1, x="1"), document_of("b", 1, x="1"), document_of("c", 1)]
    assert [item["metadata"]["name"] for item in by_label(documents, "x")["1"]] == ["a", "b"]


def test_a_pruned_pod_keeps_what_is_asked_of_it() -> None:
    pod = {
        "metadata": {"name": "a", "managedFields": [1], "uid": "u"},
        "spec": {
            "nodeName": "x",
            "volumes": [{"name": "v", "emptyDir": {"sizeLimit": 1}}],
            "containers": [{"name": "task", "image": "i", "env": [1]}],
        },
        "status": {"phase": "Running"},
    }
    assert prune_pod(pod) == {
        "metadata": {"name": "a", "uid": "u"},
        "spec": {"nodeName": "x", "containers": [{"name": "task", "image": "i"}], "volumes": [{"emptyDir": {}}]},
        "status": {"phase": "Running"},
    }


def test_an_api_counts_its_calls() -> None:
    api: Api = Server(listing(1)).api()
    Cache(api, "/x", "").relist()
    assert api.calls == 1


def test_a_list_leaves_the_object_of_what_has_not_changed() -> None:
    cache = cache_of(
        listing(10, document_of("a", 3), document_of("b", 4)), listing(20, document_of("a", 3), document_of("b", 15))
    )
    cache.relist()
    before = cache.objects()
    cache.relist()
    assert cache.objects()[A] is before[A]
    assert cache.objects()[B] is not before[B]
