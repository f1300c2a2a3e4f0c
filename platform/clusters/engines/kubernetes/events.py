"""What kubelets say of pods on their way: that an image is being pulled, and why a volume is not mounted.

A pod's status has no word for either: from its binding until its container exists it says `ContainerCreating`, for an hour if
need be, and tells the end of the sandbox only after the pull. Events do say it. They are read where pods have stood there for
seconds, a namespace in one list, and they only explain: lost or late ones, or an account that may not read them, decide nothing
but how long a start may take.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from clusters.engines.interface import (
    WAITING_TEXT_LENGTH,
    EngineUnreachable,
    StartStep,
    TaskObservation,
    TaskWaiting,
)
from clusters.engines.kubernetes import states
from clusters.engines.kubernetes.api import Api, ApiRefused, Json, items

logger = logging.getLogger("berth.engines.kubernetes")

SLOW_SECONDS = 2.0  # Most pods begin sooner, and cost no list.
_ASK_SECONDS = 5.0
_ASKED_MAX = 5  # Namespaces in one look; the others come with the next.
_REFUSED_SECONDS = 300.0
_EVENTS_MAX = 2_000  # Of a namespace's pods in an hour; events of more pods at once are read in part.
_PULLING, _PULLED = "Pulling", frozenset({"Pulled", "Created", "Started"})
_MOUNTING = frozenset({"FailedMount", "FailedAttachVolume", "FailedMapVolume", "FailedBinding"})
_CREATING = frozenset({"FailedCreatePodSandBox", "NetworkNotReady", "FailedPrepareDynamicResources"})


class StartEvents:
    """Remembers what was said of pods that are slow to begin. What it forgets with its process is read anew."""

    def __init__(self, api: Api, clock: Callable[[], float] = time.monotonic) -> None:
        self._api, self._clock = api, clock
        self._first: dict[str, float] = {}
        self._asked_at: dict[str, float] = {}
        self._said: dict[str, dict[str, TaskWaiting]] = {}
        self._refused_at = float("-inf")

    def look(self, pods: Iterable[Json]) -> None:
        """Read the events of namespaces in which pods have been slow to begin."""
        now = self._clock()
        slow = {pod["metadata"]["uid"]: pod["metadata"]["namespace"] for pod in pods if states.is_silent(pod)}
        self._first = {uid: self._first.get(uid, now) for uid in slow}
        due = {namespace for uid, namespace in slow.items() if now - self._first[uid] >= SLOW_SECONDS}
        self._said = {namespace: said for namespace, said in self._said.items() if namespace in due}
        self._asked_at = {namespace: at for namespace, at in self._asked_at.items() if namespace in due}
        if now - self._refused_at < _REFUSED_SECONDS:
            return
        old = sorted((self._asked_at.get(namespace, float("-inf")), namespace) for namespace in due)
        for asked_at, namespace in old[:_ASKED_MAX]:
            if now - asked_at >= _ASK_SECONDS and not self._ask(namespace, now):
                return

    def explain(self, seen: TaskObservation, pod: Json | None) -> TaskObservation:
        """The same with what its kubelet said last, where its pod's status says nothing."""
        if seen.waiting is None or pod is None or not states.is_silent(pod):
            return seen
        said = self._said.get(pod["metadata"]["namespace"], {}).get(pod["metadata"]["uid"])
        return seen if said is None else replace(seen, waiting=said)

    def _ask(self, namespace: str, now: float) -> bool:
        self._asked_at[namespace] = now
        path = f"/api/v1/namespaces/{namespace}/events"
        try:
            answer = self._api.get(path, fieldSelector="involvedObject.kind=Pod", limit=_EVENTS_MAX)
        except (ApiRefused, EngineUnreachable) as error:
            logger.info("events_not_read", extra={"namespace": namespace, "error": str(error)})
            self._refused_at = now
            return False
        self._said[namespace] = read_waits(items(answer))
        return True


def read_waits(events: Iterable[Json]) -> dict[str, TaskWaiting]:
    """By the UID of the pod, what the latest of its events says that it waits for. Times have whole seconds: of two in the same
    second a pull that is over counts."""
    last: dict[str, tuple[str, bool, Json]] = {}
    for event in events:
        uid = str((event.get("involvedObject") or {}).get("uid", ""))
        moment = str(event.get("lastTimestamp") or event.get("eventTime") or event.get("firstTimestamp") or "")
        found = moment, event.get("reason") in _PULLED, event
        if uid not in last or found[:2] >= last[uid][:2]:
            last[uid] = found
    waits = ((uid, _wait(event)) for uid, (_, _, event) in last.items())
    return {uid: wait for uid, wait in waits if wait is not None}


def _wait(event: Json) -> TaskWaiting | None:
    reason, text = str(event.get("reason", "")), str(event.get("message", ""))[:WAITING_TEXT_LENGTH]
    if reason == _PULLING:
        return TaskWaiting(StartStep.PULLING_IMAGE)
    if reason in _MOUNTING:
        return TaskWaiting(StartStep.MOUNTING, text)
    return TaskWaiting(StartStep.CREATING, text) if reason in _CREATING else None
