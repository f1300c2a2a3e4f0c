"""What a pod says of its task. Pure: from JSON and the attempt's gate to an observation.

The reason outweighs the code: a container whose child was killed for memory ends with code 0 and the reason OOMKilled, an
evicted pod has no container status at all. `ENDED` and `GONE` are said only of what certainly runs no more: a pod that is being
deleted may run until its containers are told of as terminated, whatever its phase; a pod of a node out of contact is
UNREACHABLE.
"""

from __future__ import annotations

import re
import signal as signals
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from clusters.engines.interface import (
    WAITING_TEXT_LENGTH,
    ExitReason,
    StartStep,
    StopCause,
    TaskExit,
    TaskObservation,
    TaskState,
    TaskWaiting,
)
from clusters.engines.kubernetes.gang import VOLCANO
from clusters.engines.kubernetes.names import CARRIER, CONTAINER, KEEPER, SCHEDULING_GATE
from clusters.engines.kubernetes.record import Gate, GateTask, StopRecord
from clusters.engines.kubernetes.scheduler_words import step_of
from clusters.engines.kubernetes.wrapper import CANNOT_START

_SIGNAL_BASE = 128
_NODE_GONE = frozenset({"DeletionByPodGC", "NodeLost"})
_PULLING = frozenset({"ErrImagePull", "ImagePullBackOff"})  # The message says more.
_BAD_IMAGE = {  # By the kubelet's reason, entries of the exit classification.
    **dict.fromkeys(_PULLING, "image_unreachable"),
    "ErrImageNeverPull": "image_absent",
    "InvalidImageName": "workload_invalid",
    "RegistryUnavailable": "image_unreachable",
    "ImageInspectError": "image_broken",
    "SignatureValidationFailed": "image_denied",
}
_AT_ONCE = frozenset({"image_absent", "image_denied", "workload_invalid"})
_QUOTED = re.compile(r'"[^"\s]*"')  # References and addresses in a message of a container runtime.
_STATUS_DENIED, _STATUS_ABSENT, _STATUS_LIMITED = (re.compile(rf"\b(?:{codes})\b") for codes in ("401|403", "404", "429"))
_CANNOT_RUN = frozenset({"ContainerCannotRun", "StartError", "CreateContainerError", "RunContainerError"})
_NO_CONFIG = "CreateContainerConfigError"  # A ConfigMap or Secret that its environment is from is not there: the start object.
_UNDER_WAY = ("ContainerCreating", "PodInitializing")
_LIGHT_VOLUMES = frozenset({"emptyDir", "configMap", "secret", "downwardAPI", "projected"})
_KUBELET_REFUSED = ("OutOf", "UnexpectedAdmissionError", "NodeAffinity", "TopologyAffinityError", "NodeShutdown", "Terminated")
_EVER_RAN = "used to be Running"
_EVIDENCE_LENGTH = 1_000


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a task has not begun. `at_once`: it never will; else it may, and is waited for, `since` then where the cluster tells.
    `repeats`: the kubelet waits until it tries again, and may say no more of why. Codes begin the evidence of its end."""

    code: str
    text: str
    at_once: bool = False
    since: datetime | None = None
    repeats: bool = False


def observe_task(gate: Gate, place: int, pod: Mapping[str, Any] | None) -> TaskObservation:
    """The task as its pod shows it. `pod` None: a whole and new list has none of it."""
    task = gate.tasks[place]
    if pod is None:
        return _without_pod(gate, task)
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    state = container_status(pod).get("state") or {}
    ended, running = state.get("terminated"), state.get("running")
    seen = TaskObservation(
        name=task.name,
        state=TaskState.PENDING,
        node=str(spec.get("nodeName", "")),
        address=gate.hosts[place] if gate.hosts else str(status.get("podIP", "")),
        ports=dict(task.ports),
        started_at=read_time(running.get("startedAt")) if running is not None else None,
    )
    if ended is not None:
        return replace(
            seen,
            state=TaskState.ENDED,
            exit=_classify(gate, task, pod, ended),
            started_at=read_time(ended.get("startedAt")),
            ended_at=read_time(ended.get("finishedAt")),
        )
    if status.get("phase") in ("Failed", "Succeeded"):
        return replace(seen, state=TaskState.ENDED, exit=_without_container(gate, task, pod), ended_at=_transition(pod))
    if never_ran(pod):
        return replace(seen, state=TaskState.ENDED, exit=_never_began(gate, task, pod), ended_at=read_time(_deleted_at(pod)))
    if is_out_of_contact(pod):
        return replace(seen, state=TaskState.UNREACHABLE)
    if running is not None:
        return replace(seen, state=TaskState.RUNNING)
    return replace(seen, waiting=_waiting(gate, pod))


def _waiting(gate: Gate, pod: Mapping[str, Any]) -> TaskWaiting:
    """What a pod that has not begun waits for. The kubelet mounts, then makes the sandbox, then pulls, then looks for the start
    object of the gang. Of mounting and pulling the status has no words, and may tell of the sandbox late: see `events`."""
    if waits_for_code(pod):
        return TaskWaiting(StartStep.BRINGING_CODE)
    waiting = _first_waiting(pod)
    reason, message = str(waiting.get("reason", "")), str(waiting.get("message", ""))
    if not (pod.get("spec") or {}).get("nodeName"):
        return _waits_for_node(gate, pod)
    if reason in _BAD_IMAGE:
        return _because(StartStep.IMAGE_RETRY, _text(reason, message))
    if reason == _NO_CONFIG and gate.together:
        return TaskWaiting(StartStep.WAITING_FOR_GANG)
    if reason not in ("", *_UNDER_WAY):
        return _because(StartStep.CREATING, _text(reason, message))
    sandbox = condition(pod, "PodReadyToStartContainers").get("status")
    if sandbox == "True" and reason:
        return TaskWaiting(StartStep.PULLING_IMAGE)
    return TaskWaiting(StartStep.MOUNTING if _mounts(pod) else StartStep.CREATING)


def _waits_for_node(gate: Gate, pod: Mapping[str, Any]) -> TaskWaiting:
    gates = {str(item.get("name")) for item in (pod.get("spec") or {}).get("schedulingGates") or []}
    if gates:  # Ours is taken away once all objects of the attempt were made.
        return TaskWaiting(StartStep.CREATING if SCHEDULING_GATE in gates else StartStep.WAITING_FOR_QUEUE)
    scheduled = condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        message = str(scheduled.get("message") or scheduled.get("reason") or "")
        return _because(step_of(message), message)
    return TaskWaiting(StartStep.WAITING_FOR_QUEUE if gate.scheduler == VOLCANO else StartStep.CREATING)


def _because(code: StartStep, text: str) -> TaskWaiting:
    return TaskWaiting(code, text[:WAITING_TEXT_LENGTH])


def _mounts(pod: Mapping[str, Any]) -> bool:
    """Whether it has volumes that are more than files of the node's own."""
    volumes = (pod.get("spec") or {}).get("volumes") or []
    return any(kind not in _LIGHT_VOLUMES for volume in volumes for kind in volume if kind != "name")


def find_trouble(pod: Mapping[str, Any]) -> Trouble | None:
    """Why a task that has not begun waits, where that is no matter of course."""
    waiting = _first_waiting(pod)
    reason, message = str(waiting.get("reason", "")), str(waiting.get("message", ""))
    status = pod.get("status") or {}
    if reason in _BAD_IMAGE:
        image = container_image(pod)
        code = _pull_code(message, image) if reason in _PULLING else _BAD_IMAGE[reason]
        text = f"Image {image!r}: {reason}: {message}"[:_EVIDENCE_LENGTH]
        repeats = reason == "ImagePullBackOff"
        at_once = code in _AT_ONCE and not repeats and not (reason in _PULLING and _has_account(pod))
        return Trouble(code, text, at_once=at_once, repeats=repeats)
    if reason in _CANNOT_RUN:
        return Trouble("start_failed", f"{reason}: {message}"[:_EVIDENCE_LENGTH])
    unscheduled = condition(pod, "PodScheduled")
    gates = (pod.get("spec") or {}).get("schedulingGates")
    if unscheduled.get("reason") == "Unschedulable" and not gates and status.get("phase") == "Pending":
        text = f"The cluster's scheduler finds no place: {unscheduled.get('message', '')}"[:_EVIDENCE_LENGTH]
        return Trouble("unschedulable", text, since=read_time(unscheduled.get("lastTransitionTime")))
    return None


def _first_waiting(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """Why the container whose turn it is does not run: the one that waits for the code comes before the task's."""
    carrier = (_status_of(pod, CARRIER, "initContainerStatuses").get("state") or {}).get("waiting")
    return carrier or (container_status(pod).get("state") or {}).get("waiting") or {}


def container_status(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """The status of the task's container; empty as long as it has none."""
    return _status_of(pod, CONTAINER)


def has_log(pod: Mapping[str, Any]) -> bool:
    """Whether the task's container has run, so that its kubelet may have output of it."""
    return bool({"running", "terminated"} & set(container_status(pod).get("state") or {}))


def _status_of(pod: Mapping[str, Any], container: str, among: str = "containerStatuses") -> Mapping[str, Any]:
    found = (pod.get("status") or {}).get(among) or []
    return next((item for item in found if item.get("name") == container), {})


def waits_for_code(pod: Mapping[str, Any]) -> bool:
    """Whether its init container runs, into which the code is written."""
    return "running" in (_status_of(pod, CARRIER, "initContainerStatuses").get("state") or {})


def has_code(pod: Mapping[str, Any]) -> bool:
    """Whether its code was written whole."""
    return "terminated" in (_status_of(pod, CARRIER, "initContainerStatuses").get("state") or {})


def is_kept(pod: Mapping[str, Any]) -> bool:
    """Whether a keeper is there, through which the task's files can be read."""
    return "running" in (_status_of(pod, KEEPER).get("state") or {})


def container_image(pod: Mapping[str, Any]) -> str:
    """The reference that the container was given."""
    found = (pod.get("spec") or {}).get("containers") or []
    return next((str(item.get("image", "")) for item in found if item.get("name") == CONTAINER), "")


def condition(pod: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """A condition of the pod; empty where it has none of this type."""
    found = (pod.get("status") or {}).get("conditions") or []
    return next((item for item in found if item.get("type") == kind), {})


def is_running(pod: Mapping[str, Any]) -> bool:
    """Whether its container runs, as the kubelet last said."""
    return "running" in (container_status(pod).get("state") or {})


def is_silent(pod: Mapping[str, Any]) -> bool:
    """Whether its kubelet has it, and its status does not say what it waits for."""
    if (pod.get("status") or {}).get("phase") != "Pending" or not (pod.get("spec") or {}).get("nodeName"):
        return False
    return not waits_for_code(pod) and str(_first_waiting(pod).get("reason", "")) in ("", *_UNDER_WAY)


def is_gated(pod: Mapping[str, Any]) -> bool:
    """Whether our gate still keeps the scheduler from it."""
    gates = (pod.get("spec") or {}).get("schedulingGates") or []
    return any(gate.get("name") == SCHEDULING_GATE for gate in gates)


def is_over(pod: Mapping[str, Any]) -> bool:
    """Whether nothing of the pod runs or will."""
    status = pod.get("status") or {}
    ended = "terminated" in (container_status(pod).get("state") or {})
    return ended or status.get("phase") in ("Failed", "Succeeded") or never_ran(pod)


def never_ran(pod: Mapping[str, Any]) -> bool:
    """Whether it is being deleted and was on no node: the API server binds no such pod any more."""
    return _deleted_at(pod) is not None and not (pod.get("spec") or {}).get("nodeName")


def is_out_of_contact(pod: Mapping[str, Any]) -> bool:
    """The node's controller marks all pods of a silent node as not ready, and leaves what the kubelet last said of containers."""
    ready, containers = condition(pod, "Ready"), condition(pod, "ContainersReady")
    lost = ready.get("status") == "False" and containers.get("status") == "True"
    return lost or (pod.get("status") or {}).get("phase") == "Unknown"


def read_time(text: object) -> datetime | None:
    """A time of the API; what lies before this century is a container that never began."""
    if not isinstance(text, str):
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.year >= 2000 and found.tzinfo is not None else None


# --- Ends ------------------------------------------------------------------------------------------------------------


def _classify(gate: Gate, task: GateTask, pod: Mapping[str, Any], ended: Mapping[str, Any]) -> TaskExit:
    code, reason, message = int(ended.get("exitCode", -1)), str(ended.get("reason", "")), str(ended.get("message", ""))
    number = _signal_of(code, ended)
    if reason == "ContainerStatusUnknown" and _EVER_RAN not in message and _deleted_at(pod) is not None:
        return _never_began(gate, task, pod)  # What the kubelet writes of a container that it had not started.
    if reason == "ContainerStatusUnknown":
        return _stopped_or(gate, task, TaskExit(None, reason=ExitReason.NODE_LOST, evidence=_text(reason, message)))
    if reason == "OOMKilled":
        evidence = f"Killed by the kernel at the container's memory limit (exit code {code})."
        return TaskExit(code, number, ExitReason.OOM, evidence=evidence)
    if reason in _CANNOT_RUN:
        return TaskExit(code, None, ExitReason.START_FAILED, evidence=_text(reason, message))
    if (pod.get("status") or {}).get("reason") == "Evicted":
        return TaskExit(code, number, ExitReason.EVICTED, evidence=_pod_text(pod))
    finished = read_time(ended.get("finishedAt"))
    if gate.stop is not None and task.name in gate.stop.tasks and _asked_before(gate.stop, finished):
        how = "killed after its grace" if number == signals.SIGKILL else "ended after the stop signal"
        evidence = f"Stopped ({gate.stop.cause}): {how}."
        return TaskExit(code, number, ExitReason.STOPPED, gate.stop.cause, evidence)
    if code in (126, 127) and message.startswith(CANNOT_START):
        return TaskExit(code, None, ExitReason.START_FAILED, evidence=message[:_EVIDENCE_LENGTH])
    if code != 0 and (disturbed := _disturbed(pod)) is not None:
        return TaskExit(code, number, disturbed[0], evidence=disturbed[1])
    if reason == "DeadlineExceeded":
        return TaskExit(code, number, ExitReason.STOPPED, StopCause.DEADLINE, _text(reason, message))
    if number is not None:
        return TaskExit(code, number, evidence=f"Ended by signal {signals.Signals(number).name if number < 32 else number}.")
    return TaskExit(code)


def _without_container(gate: Gate, task: GateTask, pod: Mapping[str, Any]) -> TaskExit:
    """The pod is over and no container tells how: evicted or refused by the kubelet, or removed with its node."""
    status = pod.get("status") or {}
    reason = str(status.get("reason", ""))
    if reason == "Evicted" or reason.startswith(_KUBELET_REFUSED):
        return TaskExit(None, reason=ExitReason.EVICTED, evidence=_pod_text(pod))
    if reason == "DeadlineExceeded":
        return TaskExit(None, reason=ExitReason.STOPPED, stop_cause=StopCause.DEADLINE, evidence=_pod_text(pod))
    if task.name in gate.verdicts or gate.stop is not None:
        return _never_began(gate, task, pod)
    disturbed = _disturbed(pod)
    if disturbed is not None:
        return TaskExit(None, reason=disturbed[0], evidence=disturbed[1])
    return TaskExit(None, evidence=_pod_text(pod) or "The pod is over, and its container left no status.")


def _never_began(gate: Gate, task: GateTask, pod: Mapping[str, Any] | None) -> TaskExit:
    if task.name in gate.verdicts:
        code, _, text = gate.verdicts[task.name].partition(": ")
        return TaskExit(None, reason=ExitReason.START_FAILED, evidence=text, given_up=code)
    if gate.stop is not None and task.name in gate.stop.tasks:
        evidence = f"Stopped ({gate.stop.cause}) before it began."
        return TaskExit(None, reason=ExitReason.STOPPED, stop_cause=gate.stop.cause, evidence=evidence)
    disturbed = _disturbed(pod) if pod is not None else None
    kind, text = disturbed or (ExitReason.EVICTED, "The pod was removed before it began, and not by Berth.")
    return TaskExit(None, reason=kind, evidence=text)


def _without_pod(gate: Gate, task: GateTask) -> TaskObservation:
    if not gate.has_pods:  # Of a controller that makes the pods, the cluster's queue may hold the object.
        step = StartStep.WAITING_FOR_QUEUE if gate.released and gate.parent and gate.scheduler else StartStep.CREATING
        return TaskObservation(task.name, TaskState.PENDING, ports=dict(task.ports), waiting=TaskWaiting(step))
    lost = TaskExit(None, reason=ExitReason.EVICTED, evidence="The pod was removed by force, and not by Berth.")
    return TaskObservation(task.name, TaskState.GONE, exit=_stopped_or(gate, task, lost), ports=dict(task.ports))


def _stopped_or(gate: Gate, task: GateTask, otherwise: TaskExit) -> TaskExit:
    if gate.stop is None or task.name not in gate.stop.tasks:
        return otherwise
    evidence = f"Stopped ({gate.stop.cause}); no exit code was left."
    return TaskExit(None, reason=ExitReason.STOPPED, stop_cause=gate.stop.cause, evidence=evidence)


def _disturbed(pod: Mapping[str, Any]) -> tuple[ExitReason, str] | None:
    """The pod did not end by itself: an eviction, a preemption, a lost node, a person. None: it did."""
    target = condition(pod, "DisruptionTarget")
    if target.get("status") == "True":
        reason = str(target.get("reason", ""))
        kind = ExitReason.NODE_LOST if reason in _NODE_GONE else ExitReason.EVICTED
        return kind, _text(reason, str(target.get("message", "")))
    if _deleted_at(pod) is not None and _deleted_alive(pod):
        return ExitReason.EVICTED, "The pod was deleted, and not by Berth."
    return None


def _deleted_alive(pod: Mapping[str, Any]) -> bool:
    """Whether it ran when it was deleted: `deletionTimestamp` is the end of the grace."""
    deadline = read_time(_deleted_at(pod))
    ended = (container_status(pod).get("state") or {}).get("terminated") or {}
    finished = read_time(ended.get("finishedAt"))
    grace = (pod.get("metadata") or {}).get("deletionGracePeriodSeconds") or 0
    return deadline is None or finished is None or finished >= deadline - timedelta(seconds=grace + 1)


def _signal_of(code: int, ended: Mapping[str, Any]) -> int | None:
    told = ended.get("signal")
    number = int(told) if isinstance(told, int) and told > 0 else code - _SIGNAL_BASE
    return number if number in signals.valid_signals() else None


def _asked_before(stop: StopRecord, finished: datetime | None) -> bool:
    """Times of the node have whole seconds: an end in the second of the stop counts as after it."""
    return finished is None or finished.timestamp() + 1.0 > int(stop.asked_at.timestamp())


def _has_account(pod: Mapping[str, Any]) -> bool:
    """Whether the image is pulled with an account. A kubelet that does not have the Secret within a second of the pod's arrival
    pulls without it, and the registry refuses; ten seconds later it tries again, with the Secret."""
    return bool((pod.get("spec") or {}).get("imagePullSecrets"))


def _pull_code(message: str, image: str) -> str:
    """Why a pull failed, by the words of the container runtime; there are no codes. Names and digests say nothing of it, whatever
    words and numbers are in them."""
    text = _QUOTED.sub("", message.replace(image, "") if image else message).lower()
    if any(word in text for word in ("toomanyrequests", "rate limit")) or _STATUS_LIMITED.search(text):
        return "image_rate_limited"
    refusals = ("unauthorized", "denied", "forbidden", "authentication required", "authorization failed")
    if any(word in text for word in refusals) or _STATUS_DENIED.search(text):
        return "image_denied"
    if any(word in text for word in ("not found", "manifest unknown", "name unknown")) or _STATUS_ABSENT.search(text):
        return "image_absent"
    return "image_unreachable"


def _deleted_at(pod: Mapping[str, Any]) -> object:
    return (pod.get("metadata") or {}).get("deletionTimestamp")


def _transition(pod: Mapping[str, Any]) -> datetime | None:
    times = [read_time(item.get("lastTransitionTime")) for item in (pod.get("status") or {}).get("conditions") or []]
    return max((time for time in times if time is not None), default=None)


def _pod_text(pod: Mapping[str, Any]) -> str:
    status = pod.get("status") or {}
    return _text(str(status.get("reason", "")), str(status.get("message", "")))


def _text(reason: str, message: str) -> str:
    return f"{reason}: {message}".strip(": ")[:_EVIDENCE_LENGTH]
