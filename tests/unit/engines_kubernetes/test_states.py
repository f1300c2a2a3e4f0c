"""Every way in which a pod tells of its task."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from clusters.engines.interface import ExitReason, StopCause, TaskName, TaskState
from clusters.engines.kubernetes import states
from clusters.engines.kubernetes.cache import prune_pod
from clusters.engines.kubernetes.names import SCHEDULING_GATE
from clusters.engines.kubernetes.record import StopRecord
from jobs.lifecycle import exits
from jobs.lifecycle.exit_classes import FailureClass, Reaction
from jobs.reconcile.stored_exits import exit_document, exit_value
from tests.unit.engines_kubernetes import samples

BEGAN, ENDED = "2026-01-01T10:00:00Z", "2026-01-01T10:05:00Z"
FIRST = TaskName("worker", 0)


def ended(code: int, reason: str = "Error", **more: Any) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, "startedAt": BEGAN, "finishedAt": ENDED, **more}}


def condition(kind: str, status: str = "True", **more: str) -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": status, **more}]}


def stopped(at: str = "2026-01-01T10:04:58Z", cause: StopCause = StopCause.PREEMPTED) -> StopRecord:
    asked_at = datetime.fromisoformat(at)
    return StopRecord(cause, "TERM", asked_at, asked_at + timedelta(seconds=1), (FIRST,))


def observe(pod: dict[str, Any] | None, **gate: Any) -> Any:
    return states.observe_task(samples.gate(samples.workload(), **gate), 0, pod)


@pytest.mark.parametrize(
    ("pod", "state"),
    [
        (samples.pod(phase="Pending"), TaskState.PENDING),
        (samples.pod(state={"waiting": {"reason": "ContainerCreating"}}, phase="Pending"), TaskState.PENDING),
        (samples.pod(state={"running": {"startedAt": BEGAN}}), TaskState.RUNNING),
        (samples.pod(state={"running": {"startedAt": BEGAN}}, metadata={"deletionTimestamp": ENDED}), TaskState.RUNNING),
        (samples.pod(phase="Unknown"), TaskState.UNREACHABLE),
        (samples.pod(state=ended(0, "Completed"), phase="Succeeded"), TaskState.ENDED),
        (samples.pod(phase="Failed", status={"reason": "Evicted"}), TaskState.ENDED),
        (samples.pod(phase="Pending", metadata={"deletionTimestamp": ENDED}), TaskState.PENDING),
        (samples.pod(phase="Pending", metadata={"deletionTimestamp": ENDED}, spec={"nodeName": ""}), TaskState.ENDED),
    ],
)
def test_the_state_of_a_task(pod: dict[str, Any], state: TaskState) -> None:
    assert observe(pod).state is state


def conditions(**states: str) -> list[dict[str, str]]:
    return [{"type": kind, "status": status} for kind, status in states.items()]


NO_PLACE = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
CLAIMED = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "tmp", "emptyDir": {}}]}
UNPLACED = {"nodeName": ""}


def before_code(**state: Any) -> dict[str, Any]:
    """A pod whose task waits for the container into which its code is written."""
    initial = [{"name": "code", "state": state}]
    return {"state": {"waiting": {"reason": "PodInitializing"}}, "status": {"initContainerStatuses": initial}}


@pytest.mark.parametrize(
    ("pod", "gate", "expected"),
    [
        ({"spec": {**UNPLACED, "schedulingGates": [{"name": SCHEDULING_GATE}]}}, {}, ("creating", "")),
        ({"spec": {**UNPLACED, "schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}}, {}, ("waiting_for_queue", "")),
        ({"spec": UNPLACED}, {"scheduler": "volcano"}, ("waiting_for_queue", "")),
        ({"spec": UNPLACED}, {}, ("creating", "")),
        (
            {"spec": UNPLACED, "status": condition("PodScheduled", "False", reason="Unschedulable", message=NO_PLACE)},
            {"scheduler": "volcano"},
            ("unschedulable", NO_PLACE),
        ),
        ({"status": {"conditions": conditions(PodReadyToStartContainers="False")}}, {}, ("creating", "")),
        ({"status": {"conditions": conditions(PodReadyToStartContainers="False")}, "spec": CLAIMED}, {}, ("mounting", "")),
        (
            {
                "state": {"waiting": {"reason": "ContainerCreating"}},
                "status": {"conditions": conditions(PodReadyToStartContainers="True")},
                "spec": CLAIMED,
            },
            {},
            ("pulling_image", ""),
        ),
        (
            {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "x" * 2_000}}},
            {},
            ("image_retry", f"ImagePullBackOff: {'x' * 2_000}"[:500]),
        ),
        (before_code(running={}), {}, ("bringing_code", "")),
        (before_code(waiting={"reason": "ErrImagePull", "message": "m"}), {}, ("image_retry", "ErrImagePull: m")),
        (
            {"state": {"waiting": {"reason": "CreateContainerConfigError", "message": 'configmap "start" not found'}}},
            {"together": True},
            ("waiting_for_gang", ""),
        ),
        (
            {"state": {"waiting": {"reason": "CreateContainerConfigError", "message": 'secret "s" not found'}}},
            {},
            ("creating", 'CreateContainerConfigError: secret "s" not found'),
        ),
    ],
)
def test_what_a_task_waits_for_before_it_begins(pod: dict[str, Any], gate: dict[str, Any], expected: tuple[str, str]) -> None:
    seen = observe(prune_pod(samples.pod(phase="Pending", **pod)), **gate)
    assert (seen.state, seen.waiting.code, seen.waiting.text) == (TaskState.PENDING, *expected)


def test_a_task_without_a_pod_waits_for_its_objects_or_in_the_queue_of_their_controller() -> None:
    assert observe(None, released=False).waiting.code == "creating"
    made = {"parent": "volcanojob", "scheduler": "volcano"}
    assert observe(None, **made).waiting.code == "waiting_for_queue"
    assert observe(samples.pod(state={"running": {"startedAt": BEGAN}})).waiting is None


def test_a_pod_of_a_silent_node_is_out_of_contact_and_not_over() -> None:
    lost = {
        "conditions": [{"type": "Ready", "status": "False"}, {"type": "ContainersReady", "status": "True"}],
    }
    assert observe(samples.pod(state={"running": {"startedAt": BEGAN}}, status=lost)).state is TaskState.UNREACHABLE


def test_a_pod_that_is_missing_is_gone_only_once_it_was_released() -> None:
    assert observe(None, released=False).state is TaskState.PENDING
    gone = observe(None)
    assert (gone.state, gone.exit.reason) == (TaskState.GONE, ExitReason.EVICTED)
    assert observe(None, stop=stopped()).exit.reason is ExitReason.STOPPED


@pytest.mark.parametrize(
    ("terminated", "status", "expected"),
    [
        (ended(0, "Completed"), {}, (0, None, ExitReason.NONE)),
        (ended(7), {}, (7, None, ExitReason.NONE)),
        (ended(139), {}, (139, 11, ExitReason.NONE)),
        (ended(255), {}, (255, None, ExitReason.NONE)),
        (ended(137, "OOMKilled"), {}, (137, 9, ExitReason.OOM)),
        (ended(0, "OOMKilled"), {}, (0, None, ExitReason.OOM)),
        (ended(128, "StartError", message="exec: no such file"), {}, (128, None, ExitReason.START_FAILED)),
        (ended(127, message="berth: cannot start /x"), {}, (127, None, ExitReason.START_FAILED)),
        (ended(127), {}, (127, None, ExitReason.NONE)),
        (ended(1, message="berth: cannot start /x"), {}, (1, None, ExitReason.NONE)),
        (ended(137), {"reason": "Evicted"}, (137, 9, ExitReason.EVICTED)),
        (ended(143), condition("DisruptionTarget", reason="EvictionByEvictionAPI"), (143, 15, ExitReason.EVICTED)),
        (ended(137), condition("DisruptionTarget", reason="DeletionByPodGC"), (137, 9, ExitReason.NODE_LOST)),
        (ended(0, "Completed"), condition("DisruptionTarget", reason="EvictionByEvictionAPI"), (0, None, ExitReason.NONE)),
        (ended(137, "ContainerStatusUnknown", message="used to be Running"), {}, (None, None, ExitReason.NODE_LOST)),
    ],
)
def test_an_end_by_its_reason_and_its_code(terminated: dict[str, Any], status: dict[str, Any], expected: tuple[Any, ...]) -> None:
    found = observe(samples.pod(state=terminated, phase="Failed", status=status)).exit
    assert (found.code, found.signal, found.reason) == expected


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("Evicted", ExitReason.EVICTED),
        ("OutOfcpu", ExitReason.EVICTED),
        ("UnexpectedAdmissionError", ExitReason.EVICTED),
        ("DeadlineExceeded", ExitReason.STOPPED),
        ("", ExitReason.NONE),
    ],
)
def test_an_end_without_a_container(reason: str, expected: ExitReason) -> None:
    found = observe(samples.pod(phase="Failed", status={"reason": reason, "message": "why"})).exit
    assert (found.code, found.reason) == (None, expected)
    assert "why" in found.evidence


def test_a_stop_of_ours_names_its_cause_and_the_memory_limit_outweighs_it() -> None:
    polite = observe(samples.pod(state=ended(143), phase="Failed"), stop=stopped()).exit
    assert (polite.code, polite.reason, polite.stop_cause) == (143, ExitReason.STOPPED, StopCause.PREEMPTED)
    memory = observe(samples.pod(state=ended(137, "OOMKilled"), phase="Failed"), stop=stopped()).exit
    assert memory.reason is ExitReason.OOM


def test_an_end_before_the_stop_was_no_stop() -> None:
    found = observe(samples.pod(state=ended(5), phase="Failed"), stop=stopped(at="2026-01-01T10:06:00Z")).exit
    assert (found.code, found.reason, found.stop_cause) == (5, ExitReason.NONE, None)


def test_a_pod_that_somebody_deleted_while_it_ran_is_told_from_one_that_was_over() -> None:
    when = {"deletionTimestamp": "2026-01-01T10:05:20Z", "deletionGracePeriodSeconds": 30}
    assert observe(samples.pod(state=ended(143), metadata=when)).exit.reason is ExitReason.EVICTED
    later = {"deletionTimestamp": "2026-01-01T10:09:00Z", "deletionGracePeriodSeconds": 30}
    assert observe(samples.pod(state=ended(1), metadata=later)).exit.reason is ExitReason.NONE


def test_a_task_that_never_began_says_what_the_engine_gave_up_for() -> None:
    deleted = samples.pod(phase="Pending", metadata={"deletionTimestamp": ENDED}, spec={"nodeName": ""})
    found = observe(deleted, verdicts={FIRST: "image_absent: no such image"}).exit
    assert (found.reason, found.given_up, found.evidence) == (ExitReason.START_FAILED, "image_absent", "no such image")


@pytest.mark.parametrize(
    ("reason", "message", "code", "at_once"),
    [
        ("ErrImagePull", "manifest unknown: not found", "image_absent", True),
        ("ImagePullBackOff", "manifest unknown: not found", "image_absent", False),
        ("ErrImagePull", "401 Unauthorized", "image_denied", True),
        ("ErrImagePull", 'failed to pull "h:1/denied@sha256:8401ab": EOF', "image_unreachable", False),
        ("ErrImagePull", "reading x:1 of h:4031: 5403 bytes: unexpected end", "image_unreachable", False),
        ("ErrImagePull", "toomanyrequests: slow down", "image_rate_limited", False),
        ("ErrImagePull", "dial tcp: i/o timeout", "image_unreachable", False),
        ("ErrImageNeverPull", "not present", "image_absent", True),
        ("InvalidImageName", "bad", "workload_invalid", True),
        ("CreateContainerError", "no such device", "start_failed", False),
    ],
)
def test_why_a_task_does_not_begin(reason: str, message: str, code: str, at_once: bool) -> None:
    waiting = samples.pod(state={"waiting": {"reason": reason, "message": message}}, phase="Pending")
    trouble = states.find_trouble(waiting)
    assert trouble is not None
    assert (trouble.code, trouble.at_once) == (code, at_once)


@pytest.mark.parametrize("message", ["401 Unauthorized", "not found"])
def test_what_a_registry_refuses_where_there_is_an_account_is_tried_again(message: str) -> None:
    """The kubelet pulls without the Secret where it does not have it soon enough."""
    state = {"waiting": {"reason": "ErrImagePull", "message": message}}
    with_account = samples.pod(state=state, phase="Pending", spec={"imagePullSecrets": [{"name": "account"}]})
    trouble = states.find_trouble(prune_pod(with_account))
    assert trouble is not None
    assert not trouble.at_once


@pytest.mark.parametrize("reason", sorted({*states._BAD_IMAGE, *states._CANNOT_RUN}))
@pytest.mark.parametrize("message", ["toomanyrequests", "denied", "not found", "anything else"])
def test_every_reason_is_an_entry_of_the_exit_classification(reason: str, message: str) -> None:
    trouble = states.find_trouble(samples.pod(state={"waiting": {"reason": reason, "message": message}}, phase="Pending"))
    assert trouble is not None
    assert exits.find_class(trouble.code) is not None


def test_a_registry_that_is_away_is_the_platforms_failure_and_tried_again() -> None:
    deleted = samples.pod(phase="Pending", metadata={"deletionTimestamp": ENDED}, spec={"nodeName": ""})
    seen = observe(deleted, verdicts={FIRST: "image_unreachable: dial tcp: i/o timeout"})
    stored = exit_value(json.loads(json.dumps(exit_document(seen))))
    assert stored is not None
    assert stored == seen.exit
    verdict = exits.classify([exits.EndedTask(FIRST, stored)]).exit_class
    expected = ("image_unreachable", FailureClass.PLATFORM, Reaction.BACKOFF)
    assert (verdict.code, verdict.failure_class, verdict.reaction) == expected


def test_waiting_for_the_start_object_or_for_a_place_of_ours_is_no_trouble() -> None:
    config_error = {"waiting": {"reason": "CreateContainerConfigError", "message": 'configmap "b-start" not found'}}
    assert states.find_trouble(samples.pod(state=config_error, phase="Pending")) is None
    gated = condition("PodScheduled", "False", reason="SchedulingGated")
    assert states.find_trouble(samples.pod(phase="Pending", status=gated, spec={"nodeName": ""})) is None
    full = condition("PodScheduled", "False", reason="Unschedulable", message="0/3 nodes", lastTransitionTime=BEGAN)
    trouble = states.find_trouble(samples.pod(phase="Pending", status=full, spec={"nodeName": ""}))
    assert trouble is not None
    assert (trouble.code, trouble.since) == ("unschedulable", datetime(2026, 1, 1, 10, tzinfo=UTC))


@pytest.mark.parametrize("text", [None, 5, "", "1970-01-01T00:00:00Z", "yesterday", "2026-01-01T00:00:00"])
def test_what_is_no_time(text: object) -> None:
    assert states.read_time(text) is None
