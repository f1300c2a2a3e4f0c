"""An API server of one process, with as much of it as the engine needs to make, find, change and delete objects by name, label,
resourceVersion, UID and finalizer. No admission, no schema, no watch: what the real one refuses is seen on the real one."""

from __future__ import annotations

import copy
import itertools
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from clusters.engines.kubernetes.api import STRATEGIC_PATCH, Json

_PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/(?P<version>[^/]+)(?:/namespaces/(?P<namespace>[^/]+)(?=/))?/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?"
)
_REMOVE = "$deleteFromPrimitiveList/"
_OWN_GROUPS = (None, "networking.k8s.io")
_DISCOVERY = re.compile(r"/apis/([^/]+)/([^/]+)")


class Answer:
    """One answer, as the transport gives it."""

    headers: Mapping[str, str] = {}

    def __init__(self, status: int, document: Json) -> None:
        self.status, self._document = status, document

    def body(self) -> bytes:
        return json.dumps(self._document).encode()

    def chunks(self) -> Iterator[bytes]:
        return iter(())

    def close(self) -> None: ...


class StoredObjects:
    """A transport of the engine's `Api`. `definitions` are the plurals of others' kinds, as `PLURAL.GROUP/VERSION`."""

    def __init__(self, *definitions: str) -> None:
        self.definitions = set(definitions)
        self.objects: dict[tuple[str, str, str], Json] = {}  # By plural, namespace and name.
        self._versions = itertools.count(1)

    def __call__(
        self, method: str, path: str, body: Any, headers: Mapping[str, str], *, connect_seconds: float, read_seconds: float
    ) -> Answer:
        parts = urlsplit(path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if query.get("watch"):
            raise OSError("no watches here")
        if found := _DISCOVERY.fullmatch(parts.path):
            served = [{"name": item.split(".")[0]} for item in self.definitions if item.endswith(f".{found[1]}/{found[2]}")]
            return Answer(200, {"resources": served}) if served else _refused(404, "NotFound")
        place = _PATH.fullmatch(parts.path)
        assert place is not None, parts.path
        if place["group"] not in _OWN_GROUPS and not self._has(place["plural"], place["group"], place["version"]):
            return _refused(404, "NotFound")
        body = copy.deepcopy(body)
        key = (place["plural"], place["namespace"] or "", place["name"] or (body or {}).get("metadata", {}).get("name", ""))
        if method == "GET" and not place["name"]:
            return self._list(place["plural"], place["namespace"], query.get("labelSelector", ""))
        if method == "POST":
            if key in self.objects:
                return _refused(409, "AlreadyExists")
            return Answer(201, self._store(key, self.admit(body), is_new=True))
        if method == "DELETE" and not place["name"]:
            for other in self._selected(place["plural"], place["namespace"], query.get("labelSelector", "")):
                del self.objects[other]
            return Answer(200, {})
        if method == "PATCH" and "apply" in headers["Content-Type"]:
            return Answer(200, self._store(key, body, is_new=key not in self.objects))
        if key not in self.objects:
            return _refused(404, "NotFound")
        return self._change(method, key, body, headers.get("Content-Type", ""))

    def admit(self, document: Json) -> Json:
        """What an admission webhook would change of an object that is made; tests put theirs in place of it."""
        return document

    def put_pod(self, document: Json, name: str, **status: Any) -> Json:
        """A pod that a controller makes of a template."""
        namespace = document["metadata"].get("namespace", "")
        made = copy.deepcopy(
            {**document, "metadata": {**document["metadata"], "name": name}, "status": {"phase": "Pending", **status}}
        )
        return self._store(("pods", namespace, name), made, is_new=True)

    def put_node(self, name: str, **spec: Any) -> Json:
        """A node that is ready, with 8 processors and 2 GPUs."""
        amounts = {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "2"}
        status = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": amounts}
        return self._store(("nodes", "", name), {"spec": spec, "status": status}, is_new=True)

    def set_status(self, name: str, **status: Any) -> None:
        """What a kubelet says of a pod."""
        key = next(key for key in self.objects if key[0] == "pods" and key[2] == name)
        self._store(key, {**self.objects[key], "status": status})

    def find(self, plural: str, name: str) -> Json | None:
        return next((item for key, item in self.objects.items() if (key[0], key[2]) == (plural, name)), None)

    def _change(self, method: str, key: tuple[str, str, str], body: Any, kind: str) -> Answer:
        known = self.objects[key]
        if method == "GET":
            return Answer(200, known)
        told = (body or {}).get("preconditions") or (body or {}).get("metadata") or {}
        if told.get("uid", known["metadata"]["uid"]) != known["metadata"]["uid"]:
            return _refused(409, "Conflict")
        version = known["metadata"]["resourceVersion"]
        if method == "PATCH" and told.get("resourceVersion", version) != version:
            return _refused(409, "Conflict")
        if method == "PUT":
            if body["metadata"].get("resourceVersion") != version:
                return _refused(409, "Conflict")
            return Answer(200, self._store(key, body))
        if method == "PATCH":
            known = _merged(known, body, strategic=kind == STRATEGIC_PATCH)
        else:
            known = {**known, "metadata": {**known["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
        if known["metadata"].get("deletionTimestamp") and not known["metadata"].get("finalizers"):
            del self.objects[key]
            return Answer(200, known)
        return Answer(200, self._store(key, known))

    def _store(self, key: tuple[str, str, str], document: Json, *, is_new: bool = False) -> Json:
        number = str(next(self._versions))
        before = self.objects.get(key, {}).get("metadata", {})
        uid = f"uid-{number}" if is_new else before.get("uid", "")
        metadata = {**document.get("metadata", {}), "name": key[2], "uid": uid, "resourceVersion": number}
        if key[1]:
            metadata["namespace"] = key[1]
        self.objects[key] = {**document, "metadata": metadata}
        return self.objects[key]

    def _list(self, plural: str, namespace: str | None, selector: str) -> Answer:
        found = [self.objects[key] for key in self._selected(plural, namespace, selector)]
        return Answer(200, {"metadata": {"resourceVersion": str(next(self._versions))}, "items": found})

    def _selected(self, plural: str, namespace: str | None, selector: str) -> list[tuple[str, str, str]]:
        return [
            key
            for key, item in self.objects.items()
            if key[0] == plural and (namespace is None or key[1] == namespace) and _matches(item, selector)
        ]

    def _has(self, plural: str, group: str, version: str) -> bool:
        return f"{plural}.{group}/{version}" in self.definitions


def _matches(document: Json, selector: str) -> bool:
    labels = document["metadata"].get("labels") or {}
    for word in filter(None, selector.split(",")):
        name, equals, value = word.partition("=")
        if (word.startswith("!") and word[1:] in labels) or (equals and labels.get(name) != value):
            return False
    return True


def _merged(known: Any, change: Any, *, strategic: bool) -> Any:
    if isinstance(known, dict) and isinstance(change, dict):
        found = {name: value for name, value in known.items() if not (name in change and change[name] is None)}
        for name, value in change.items():
            if name.startswith(_REMOVE):
                listed = name.removeprefix(_REMOVE)
                found[listed] = [item for item in known.get(listed) or [] if item not in value]
            elif value is not None:
                found[name] = _merged(found.get(name), value, strategic=strategic)
        return found
    if strategic and isinstance(change, list):
        gone = [item["name"] for item in change if isinstance(item, dict) and item.get("$patch") == "delete"]
        kept = [item for item in known or [] if not (isinstance(item, dict) and item.get("name") in gone)]
        return [*kept, *(item for item in change if item not in kept and not (isinstance(item, dict) and "$patch" in item))]
    return change


def _refused(status: int, reason: str) -> Answer:
    return Answer(status, {"kind": "Status", "reason": reason, "message": reason})
