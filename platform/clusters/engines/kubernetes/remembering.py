"""What a look need not work out again: of 20,000 attempts a second brings news of a few, and reading all gates takes two.

Documents in the watched copies are never changed, and one that a list brings again in the same version stays the object that
it was (`cache`). So the same document says the same, and what follows from documents alone, without a clock and without a
question to the cluster, holds as long as these do.
"""

from __future__ import annotations

import operator
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clusters.engines.interface import AttemptObservation, TaskState
from clusters.engines.kubernetes import names, states
from clusters.engines.kubernetes.api import Json
from clusters.engines.kubernetes.cache import Key
from clusters.engines.kubernetes.record import Gate, GateUnreadable, read_gate


class GateReader:
    """Reads each version of a gate once."""

    def __init__(self, cluster_id: str) -> None:
        self._cluster_id = cluster_id
        self._read: dict[Key, tuple[Json, Gate | GateUnreadable]] = {}

    def read(self, documents: Mapping[Key, Json]) -> dict[Key, Gate | GateUnreadable]:
        """All of these, and forget all others."""
        self._read = {key: self._known(key, document) for key, document in documents.items()}
        return {key: gate for key, (_, gate) in self._read.items()}

    def _known(self, key: Key, document: Json) -> tuple[Json, Gate | GateUnreadable]:
        known = self._read.get(key)
        if known is not None and known[0] is document:
            return known
        try:
            return document, read_gate(document, cluster_id=self._cluster_id)
        except GateUnreadable as error:
            return document, error


@dataclass(frozen=True, slots=True)
class _Seen:
    gate: Gate
    pods: tuple[Json, ...]
    observation: AttemptObservation


class Settled:
    """Attempts for which nothing is due and whose observation only another document changes."""

    def __init__(self) -> None:
        self._seen: dict[uuid.UUID, _Seen] = {}

    def find(self, gate: Gate, pods: Sequence[Json]) -> AttemptObservation | None:
        """What was observed of the attempt, where these are the gate and the pods that it was observed of."""
        seen = self._seen.get(gate.attempt_id)
        if seen is None or seen.gate is not gate or len(seen.pods) != len(pods):
            return None
        return seen.observation if all(map(operator.is_, seen.pods, pods)) else None

    def note(self, gate: Gate, pods: Sequence[Json], observation: AttemptObservation) -> None:
        """Remember it, if it is settled."""
        if is_settled(gate, pods, observation):
            self._seen[gate.attempt_id] = _Seen(gate, tuple(pods), observation)

    def keep(self, attempts: Mapping[uuid.UUID, Gate]) -> None:
        """Forget all other attempts."""
        for attempt_id in self._seen.keys() - attempts.keys():
            self._seen.pop(attempt_id, None)


def is_settled(gate: Gate, pods: Sequence[Json], observation: AttemptObservation) -> bool:
    """Whether all tasks have begun and nothing is to be done for them: no stop to carry through, no word to give to a kubelet. A
    task that has not begun is waited for by the clock, and a gang's end may be held back by it (`observing`)."""
    if not gate.has_pods or gate.stop is not None or len(pods) != len(gate.tasks):
        return False
    if any(task.state in (TaskState.PENDING, TaskState.GONE) for task in observation.tasks):
        return False
    return not any(_is_due(gate, pod) for pod in pods if not states.is_over(pod))


def _is_due(gate: Gate, pod: Json) -> bool:
    is_asleep = gate.together and names.STARTED not in (pod["metadata"].get("annotations") or {})
    return is_asleep or states.is_gated(pod) or states.waits_for_code(pod) or states.find_trouble(pod) is not None
