"""Calls about the pods of an attempt: find, take the scheduling gate away, end, let go.

Of an attempt whose pods a controller makes, the tasks are those pods alone that stand on its gate, by UID: a pod that the
controller makes later in place of one keeps its scheduling gate for ever.
"""

from __future__ import annotations

import contextlib
import math
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from clusters.engines.kubernetes import names, states
from clusters.engines.kubernetes.api import STRATEGIC_PATCH, Api, Conflict, Json, NotFound, items, version_of
from clusters.engines.kubernetes.cache import Cache, Key, key_of
from clusters.engines.kubernetes.config import KubernetesConfig
from clusters.engines.kubernetes.gang import POD_GROUP
from clusters.engines.kubernetes.kind import path_of_parent
from clusters.engines.kubernetes.kinds import KINDS
from clusters.engines.kubernetes.record import Gate

_BY_LABEL = ("configmaps", "secrets")  # What can be deleted as a collection.
_SOONER_SECONDS = 1.0  # A grace that ends earlier by less is not asked for again.

Item = TypeVar("Item")


class Pods:
    """The pods of one cluster. Every change notes itself in the cache."""

    def __init__(self, api: Api, config: KubernetesConfig, cache: Cache) -> None:
        self._api, self._config, self._cache = api, config, cache

    def of(self, gate: Gate) -> list[Json]:
        """The attempt's pods as they are now, past the cache."""
        if not gate.namespace:
            return []
        selector = names.selector(self._config.cluster_id, names.TASK, f"{names.ATTEMPT}={gate.attempt_id}")
        try:
            found = items(self._api.get(f"/api/v1/namespaces/{gate.namespace}/pods", labelSelector=selector))
        except NotFound:
            return []
        for pod in found:
            self._cache.put(pod)
        return list(found)

    def over(self, gate: Gate) -> list[Json] | None:
        """All the attempt's pods from the cache, where all of them are there and over, which stays so; else None."""
        found = [self._cache.find(Key(gate.namespace, pod_name(gate, place))) for place in range(len(gate.tasks))]
        ended = [pod for place, pod in enumerate(found) if pod is not None and is_task(gate, place, pod) and states.is_over(pod)]
        return ended if len(ended) == len(gate.tasks) else None

    def create(self, document: Json) -> None:
        """Raises AlreadyExists."""
        self._cache.put(self._api.create(f"/api/v1/namespaces/{document['metadata']['namespace']}/pods", document))

    def read(self, namespace: str, name: str) -> Json:
        """Raises NotFound."""
        found = self._api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
        self._cache.put(found)
        return found

    def release(self, namespace: str, name: str, uid: str = "") -> None:
        """Let the scheduler have it. A pod that is gone stays gone: this is bound to nothing but an existing one, with a `uid` to
        that one. Gates of others stay; our finalizer comes with it where a controller left it out."""
        change: Json = {"spec": {"schedulingGates": [{"$patch": "delete", "name": names.SCHEDULING_GATE}]}}
        change["metadata"] = {"finalizers": [names.FINALIZER], **({"uid": uid} if uid else {})}
        with contextlib.suppress(NotFound, *([Conflict] if uid else [])):
            self._cache.put(self._api.patch(f"/api/v1/namespaces/{namespace}/pods/{name}", change, STRATEGIC_PATCH))

    def wake(self, namespace: str, name: str) -> None:
        """Have the kubelet look again at once, by a change of an annotation."""
        self._patch(
            namespace, name, {"metadata": {"annotations": {names.STARTED: datetime.now(UTC).isoformat(timespec="seconds")}}}
        )

    def end(self, pod: Json, kill_at: datetime) -> bool:
        """Delete it with what is left of its grace; again with a shorter one where it was given a longer one before. The
        finalizer keeps the object until its end was seen. False: the API server refused, and it may run on."""
        metadata = pod["metadata"]
        deadline = states.read_time(metadata.get("deletionTimestamp"))
        if deadline is not None and deadline <= kill_at + timedelta(seconds=_SOONER_SECONDS):
            return True
        grace = max(1, math.ceil((kill_at - datetime.now(UTC)).total_seconds()))
        options = {"gracePeriodSeconds": grace, "preconditions": {"uid": metadata["uid"]}}
        try:
            self._cache.put(self._api.delete(_path(pod), options))
        except NotFound:
            return True
        except Conflict:
            return False
        return True

    def let_go(self, pod: Json) -> None:
        """Remove a pod that is over: without grace, but for a keeper that ends then, and without our finalizer."""
        metadata = pod["metadata"]
        with contextlib.suppress(NotFound, Conflict):
            if not metadata.get("deletionTimestamp"):
                options = {"gracePeriodSeconds": int(states.is_kept(pod)), "preconditions": {"uid": metadata["uid"]}}
                self._api.delete(_path(pod), options)
        change = {"metadata": {"uid": metadata["uid"], "$deleteFromPrimitiveList/finalizers": [names.FINALIZER]}}
        with contextlib.suppress(NotFound, Conflict):  # Finalizers of others stay, or go meanwhile.
            found = self._api.patch(_path(pod), change, STRATEGIC_PATCH)
            self._cache.remove(key_of(pod), max(version_of(found), version_of(pod)))

    def remove_objects(self, gate: Gate) -> None:
        """Delete what else the attempt has: one call for each kind."""
        if not gate.namespace:
            return
        place = f"/api/v1/namespaces/{gate.namespace}"
        selector = names.selector(self._config.cluster_id, "", f"{names.ATTEMPT}={gate.attempt_id}")
        for kind in gate.objects:
            with contextlib.suppress(NotFound):
                if kind in KINDS:
                    self.remove_parent(kind, gate.namespace, gate.attempt_id)
                elif kind == POD_GROUP.plural:
                    self._api.delete(f"{POD_GROUP.collection(gate.namespace)}/{names.service_name(gate.attempt_id)}")
                elif kind in _BY_LABEL:
                    self._api.delete(f"{place}/{kind}", labelSelector=selector)
                elif kind == "services":
                    self._api.delete(f"{place}/services/{names.service_name(gate.attempt_id)}")
                else:
                    policies = f"/apis/networking.k8s.io/v1/namespaces/{gate.namespace}/networkpolicies"
                    self._api.delete(f"{policies}/{names.object_name(gate.attempt_id, names.ROUTES)}")

    def find_parent(self, gate: Gate) -> Json | None:
        """The object whose controller makes the attempt's pods, past the cache; None where it is gone or not the attempt's."""
        try:
            found = self._api.get(path_of_parent(KINDS[gate.parent], gate.namespace, gate.attempt_id))
        except NotFound:
            return None
        return found if is_ours(found, gate.attempt_id, self._config.cluster_id) else None

    def remove_parent(self, kind: str, namespace: str, attempt_id: uuid.UUID) -> None:
        """Delete an attempt's object, so that its controller makes no more pods. Raises NotFound."""
        path = path_of_parent(KINDS[kind], namespace, attempt_id)
        found = self._api.get(path)
        if is_ours(found, attempt_id, self._config.cluster_id):
            options = {"propagationPolicy": "Background", "preconditions": {"uid": found["metadata"]["uid"]}}
            with contextlib.suppress(Conflict):
                self._api.delete(path, options)

    def log(self, pod: Json, since: str, *, timestamps: bool, bytes_max: int = 0) -> bytes:
        """What the kubelet has of the container's log; of that, with `bytes_max`, its beginning. Raises NotFound, ApiRefused."""
        query = {"sinceTime": since or None, "limitBytes": bytes_max or None}
        return self._api.text(f"{_path(pod)}/log", container=names.CONTAINER, timestamps=timestamps, **query)

    def _patch(self, namespace: str, name: str, document: Json) -> None:
        with contextlib.suppress(NotFound):
            self._cache.put(self._api.patch(f"/api/v1/namespaces/{namespace}/pods/{name}", document))


def in_parallel(act: Callable[[Item], object], targets: Sequence[Item], parallel: int) -> None:
    """Do it for each, so many at once: a call is mostly waiting, and a gang has hundreds of pods. The first error is raised once
    those that had begun have ended; what had not begun is left out."""
    if len(targets) < 2:
        for target in targets:
            act(target)
        return
    with ThreadPoolExecutor(min(parallel, len(targets)), thread_name_prefix="kubernetes-pods") as pool:
        list(pool.map(act, targets))


def in_order(gate: Gate, pods: Sequence[Json]) -> list[Json | None]:
    """The pods by the place of their task."""
    by_name = {pod["metadata"]["name"]: pod for pod in pods}
    found = [by_name.get(pod_name(gate, place)) for place in range(len(gate.tasks))]
    return [pod if pod is not None and is_task(gate, place, pod) else None for place, pod in enumerate(found)]


def pod_name(gate: Gate, place: int) -> str:
    """The name of a task's pod; "" where it is not known."""
    if not gate.parent:
        return names.pod_name(gate.attempt_id, place)
    return gate.chosen[place].name if gate.chosen else ""


def is_task(gate: Gate, place: int, pod: Json) -> bool:
    """Whether a pod with a task's name is the task, and not one that a controller made in its place."""
    return not gate.parent or (bool(gate.chosen) and pod["metadata"].get("uid") == gate.chosen[place].uid)


def is_ours(document: Any, attempt_id: uuid.UUID, cluster_id: str) -> bool:
    """Whether an object of that name is the attempt's own."""
    labels = ((document or {}).get("metadata") or {}).get("labels") or {}
    return labels.get(names.ATTEMPT) == str(attempt_id) and labels.get(names.CLUSTER) == cluster_id


def _path(pod: Json) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
