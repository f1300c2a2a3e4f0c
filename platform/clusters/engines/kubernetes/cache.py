"""Copies of all objects of one kind, kept up by a watch, and honest about how old they are.

A watch ends: by its timeout, by the server, by a lost connection, with 410 after a restart of the API server. None of these
says that nothing happened, so the next watch goes on from the last resourceVersion, and a 410 or anything unexpected begins
with a new list. A watch can be silent for ever over a half-open connection: bookmarks come once a minute, and longer silence
breaks it off. A list that is older than what was seen already is thrown away. Our own writes are put in at once, so that a
caller finds what it did.

Whether something *is not* there only a whole list can say that began after the question: `relist`. It costs 0.3 s of CPU per
1,000 pods, so its price is remembered, and `is_list_quick` and `is_list_cheap` say whether a caller should ask for one.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from clusters.engines.interface import EngineUnreachable
from clusters.engines.kubernetes.api import Api, ApiRefused, Expired, Json, items, version_of

logger = logging.getLogger("berth.engines.kubernetes")

WATCH_SECONDS = 290
SILENCE_SECONDS = 100.0
_CHEAP_SECONDS = 0.1  # A list as cheap as this is made at every question.
_LIST_SHARE = 0.05  # Of the time, a dearer one may take.
_BACKOFF_SECONDS_MAX = 30.0
_DELETED_KEPT = 10_000
_OWN_KEPT = 2_000  # Of our own writes, in a process that never looks at the cluster as a whole.


@dataclass(frozen=True, slots=True)
class Key:
    """What identifies an object of one kind."""

    namespace: str
    name: str


class Cache:
    """Objects of one kind by namespace and name. Threads share it; documents in it are never changed."""

    def __init__(self, api: Api, path: str, selector: str, *, prune: Callable[[Json], Json] = lambda document: document) -> None:
        self._api, self._path, self._selector, self._prune = api, path, selector, prune
        self._objects: dict[Key, Json] = {}
        self._deleted: dict[Key, int] = {}  # What is gone, and since which version: a late word of it is not believed.
        self._version = 0  # Of the last list or event: where the next watch begins.
        self._listed_at = 0.0
        self._list_seconds = 0.0
        self._heard_at = 0.0
        self._lock = threading.Lock()
        self._listing = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    # --- Reading -----------------------------------------------------------------------------------------------------

    def objects(self) -> Mapping[Key, Json]:
        """All that is known now."""
        with self._lock:
            return dict(self._objects)

    def find(self, key: Key) -> Json | None:
        with self._lock:
            return self._objects.get(key)

    def is_fresh(self) -> bool:
        """Whether a list was made and the watch has been heard since."""
        return self._listed_at > 0 and time.monotonic() - self._heard_at < SILENCE_SECONDS

    def heard_seconds_ago(self) -> float:
        return time.monotonic() - self._heard_at if self._heard_at else float("inf")

    def is_list_quick(self) -> bool:
        """Whether a whole list may be made at every question."""
        return self._listed_at == 0 or self._list_seconds < _CHEAP_SECONDS

    def is_list_cheap(self) -> bool:
        """Whether a new whole list now keeps lists within their share of the time."""
        return self.is_list_quick() or (time.monotonic() - self._listed_at) * _LIST_SHARE > self._list_seconds

    def relist(self) -> int:
        """Make a whole list, which begins after this call; gives its version. Raises EngineUnreachable and ApiRefused."""
        with self._listing:
            began = time.monotonic()
            answer = self._api.get(self._path, labelSelector=self._selector)
            version = version_of(answer)
            found = {key_of(item): self._prune(item) for item in items(answer)}
            with self._lock:
                self._replace(found, version)
                self._listed_at = self._heard_at = time.monotonic()
                self._list_seconds = self._listed_at - began
        return version

    def _replace(self, found: Mapping[Key, Json], version: int) -> None:
        """Take a list over, but for what is known to be newer than it. What is known in the same version stays the same object:
        by that, readers know that nothing of it has changed."""
        newer = {key: item for key, item in self._objects.items() if version_of(item) > version}
        gone = {key for key, deleted in self._deleted.items() if deleted > version}
        kept = {
            key: newer.get(key) or self._as_known(key, item)
            for key, item in found.items()
            if key not in gone and self._deleted.get(key, 0) <= version_of(item)
        }
        self._objects = {**kept, **newer}
        self._deleted = {key: deleted for key, deleted in self._deleted.items() if deleted > version}
        self._version = max(self._version, version)

    def _as_known(self, key: Key, item: Json) -> Json:
        """The document that is known already, where it is the same version of the same object."""
        known = self._objects.get(key)
        return known if known is not None and _identity(known) == _identity(item) else item

    # --- Our own writes ----------------------------------------------------------------------------------------------

    def put(self, document: Json) -> None:
        """Note the answer to a write of ours."""
        self._take(self._prune(document), deleted=False)

    def remove(self, key: Key, version: int) -> None:
        """Note that it is gone since this version."""
        with self._lock:
            self._objects.pop(key, None)
            self._note_deleted(key, version)

    # --- Following ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to follow, once."""
        with self._lock:
            if self._thread is None and not self._closed.is_set():
                self._thread = threading.Thread(target=self._follow, name="kubernetes-watch", daemon=True)
                self._thread.start()

    def close(self) -> None:
        self._closed.set()

    def _follow(self) -> None:
        backoff, has_expired = 0.5, False
        while not self._closed.is_set():
            try:
                if self._version == 0:
                    self.relist()
                self._watch()
                backoff, has_expired = 0.5, False
            except Expired:
                with self._lock:
                    self._version = 0  # Only a new list helps; what is known stays until it is there.
                if has_expired:  # A list that is too old as soon as it was made: a server that is restored, or out of order.
                    self._closed.wait(backoff)
                    backoff = min(_BACKOFF_SECONDS_MAX, backoff * 2)
                has_expired = True
            except (EngineUnreachable, ApiRefused) as error:
                logger.info("watch_broken", extra={"path": self._path, "error": str(error)})
                self._closed.wait(backoff)
                backoff = min(_BACKOFF_SECONDS_MAX, backoff * 2)
            except Exception:
                logger.exception("watch_failed", extra={"path": self._path})
                with self._lock:
                    self._version = 0
                self._closed.wait(_BACKOFF_SECONDS_MAX)

    def _watch(self) -> None:
        lines = self._api.lines(
            self._path,
            silence_seconds=SILENCE_SECONDS,
            watch=True,
            labelSelector=self._selector,
            resourceVersion=str(self._version),
            allowWatchBookmarks=True,
            timeoutSeconds=WATCH_SECONDS,
        )
        for line in lines:
            if self._closed.is_set():
                return
            self.handle(json.loads(line))

    def handle(self, event: Mapping[str, Any]) -> None:
        """Take in one event of a watch. Raises Expired and ApiRefused for what the server says instead."""
        kind, document = event.get("type"), event.get("object") or {}
        if kind == "ERROR":
            status, text = int(document.get("code") or 500), str(document.get("message", ""))
            raise Expired(status, str(document.get("reason", "")), text) if status in (410, 504) else ApiRefused(status, "", text)
        if kind in ("ADDED", "MODIFIED", "DELETED"):
            self._take(self._prune(document), deleted=kind == "DELETED")
        with self._lock:
            self._heard_at = time.monotonic()
            self._version = max(self._version, version_of(document))

    def _take(self, document: Json, *, deleted: bool) -> None:
        """Take over what is newer than what is known. Events come twice, late, and behind our own writes."""
        key, version = key_of(document), version_of(document)
        with self._lock:
            if version < self._deleted.get(key, 0):
                return
            known = self._objects.get(key)
            if known is not None and version_of(known) > version:
                return
            if deleted:
                self._objects.pop(key, None)
                self._note_deleted(key, version)
            else:
                self._objects[key] = document
                if self._listed_at == 0 and len(self._objects) > _OWN_KEPT:
                    del self._objects[next(iter(self._objects))]

    def _note_deleted(self, key: Key, version: int) -> None:
        self._deleted[key] = max(version, self._deleted.get(key, 0))
        if len(self._deleted) > _DELETED_KEPT:
            for old in sorted(self._deleted, key=self._deleted.__getitem__)[: _DELETED_KEPT // 2]:
                del self._deleted[old]


def _identity(document: Json) -> tuple[str, str]:
    metadata = document.get("metadata") or {}
    return str(metadata.get("uid", "")), str(metadata.get("resourceVersion", ""))


def key_of(document: Mapping[str, Any]) -> Key:
    metadata = document.get("metadata") or {}
    return Key(str(metadata.get("namespace", "")), str(metadata.get("name", "")))


def by_label(documents: Iterable[Json], label: str) -> dict[str, list[Json]]:
    """Group objects by the value of a label."""
    found: dict[str, list[Json]] = {}
    for document in documents:
        value = ((document.get("metadata") or {}).get("labels") or {}).get(label)
        if value is not None:
            found.setdefault(value, []).append(document)
    return found


def prune_pod(document: Json) -> Json:
    """A pod without the fields that no reader asks for: a third of its size, 20,000 times."""
    metadata, spec = document.get("metadata") or {}, document.get("spec") or {}
    kept = ["name", "namespace", "uid", "resourceVersion", "labels", "annotations", "finalizers"]
    kept += ["deletionTimestamp", "deletionGracePeriodSeconds", "creationTimestamp"]
    kept_of_spec = ("nodeName", "schedulingGates", "terminationGracePeriodSeconds", "imagePullSecrets")
    return {
        "metadata": {name: metadata[name] for name in kept if name in metadata},
        "spec": {
            **{name: spec[name] for name in kept_of_spec if name in spec},
            "containers": [{"name": item.get("name"), "image": item.get("image")} for item in spec.get("containers") or []],
            "volumes": [{kind: {} for kind in item if kind != "name"} for item in spec.get("volumes") or []],
        },
        "status": document.get("status") or {},
    }
