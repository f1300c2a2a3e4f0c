"""What a look takes over from the one before: the same documents, and nothing that time or a question could change."""

from __future__ import annotations

import copy
import uuid
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from clusters.engines.interface import AttemptObservation, StopCause, TaskName
from clusters.engines.kubernetes import names, states
from clusters.engines.kubernetes.cache import Key
from clusters.engines.kubernetes.record import Gate, GateTask, GateUnreadable, StopRecord, gate_document
from clusters.engines.kubernetes.remembering import GateReader, Settled

ATTEMPT = uuid.UUID(int=7)
GATE = Gate(ATTEMPT, released=True, namespace="n", tasks=(GateTask(TaskName("worker", 0)), GateTask(TaskName("worker", 1))))
CLUSTER = "c"
KEY = Key("control", "gate")


def pod(place: int, state: dict[str, Any] | None = None, *, notes: dict[str, str] | None = None) -> dict[str, Any]:
    container = {"name": names.CONTAINER, "state": {"running": {}} if state is None else state}
    metadata = {"name": names.pod_name(ATTEMPT, place), "namespace": "n", "uid": f"u{place}", "annotations": notes or {}}
    return {"metadata": metadata, "spec": {"nodeName": "a"}, "status": {"phase": "Running", "containerStatuses": [container]}}


def observation(gate: Gate, pods: list[dict[str, Any]]) -> AttemptObservation:
    return AttemptObservation(ATTEMPT, tuple(states.observe_task(gate, place, each) for place, each in enumerate(pods)))


def noted(gate: Gate, pods: list[dict[str, Any]]) -> Settled:
    settled = Settled()
    settled.note(gate, pods, observation(gate, pods))
    return settled


def test_what_was_seen_of_the_same_documents_is_seen_again() -> None:
    pods = [pod(0), pod(1, {"terminated": {"exitCode": 0}})]
    settled = noted(GATE, pods)
    assert settled.find(GATE, list(pods)) == observation(GATE, pods)


def test_another_document_is_looked_at_anew() -> None:
    pods = [pod(0), pod(1)]
    settled = noted(GATE, pods)
    assert settled.find(GATE, [pods[0], copy.deepcopy(pods[1])]) is None
    assert settled.find(GATE, pods[:1]) is None
    assert settled.find(replace(GATE), pods) is None


@pytest.mark.parametrize(
    ("gate", "state"),
    [
        pytest.param(GATE, {"waiting": {"reason": "ContainerCreating"}}, id="a task has not begun"),
        pytest.param(replace(GATE, released=False), None, id="it is not released"),
        pytest.param(replace(GATE, parent="volcanojob"), None, id="a controller has not made its pods"),
        pytest.param(replace(GATE, together=True), None, id="its containers were not told of the start"),
        pytest.param(
            replace(GATE, stop=StopRecord(StopCause.USER, "TERM", datetime.now(UTC), datetime.now(UTC), ())), None, id="it stops"
        ),
    ],
)
def test_what_time_or_a_question_can_change_is_not_kept(gate: Gate, state: dict[str, Any] | None) -> None:
    pods = [pod(0), pod(1, state)]
    assert noted(gate, pods).find(gate, pods) is None


def test_a_gang_that_was_told_of_its_start_is_kept() -> None:
    pods = [pod(place, notes={names.STARTED: "now"}) for place in (0, 1)]
    gate = replace(GATE, together=True)
    assert noted(gate, pods).find(gate, pods) is not None


def test_an_attempt_that_is_gone_is_forgotten() -> None:
    pods = [pod(0), pod(1)]
    settled = noted(GATE, pods)
    settled.keep({})
    assert settled.find(GATE, pods) is None


def test_a_gate_is_read_again_only_as_another_document() -> None:
    reader = GateReader(CLUSTER)
    document = gate_document(GATE, cluster_id=CLUSTER, namespace="control")
    first = reader.read({KEY: document})[KEY]
    assert isinstance(first, Gate)
    assert reader.read({KEY: document})[KEY] is first
    assert reader.read({KEY: copy.deepcopy(document)})[KEY] == first
    assert reader.read({KEY: copy.deepcopy(document)})[KEY] is not first


def test_a_gate_that_cannot_be_read_is_told_of_each_time() -> None:
    reader = GateReader(CLUSTER)
    document = gate_document(GATE, cluster_id="another", namespace="control")
    for _ in range(2):
        assert isinstance(reader.read({KEY: document})[KEY], GateUnreadable)
