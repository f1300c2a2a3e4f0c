"""`stop` and `forget`: intents on the gate before anything is deleted, so that the next caller can go on with them."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

from clusters.engines.interface import AttemptId, Forgotten, Gone, Retry, Stop, Stopping
from clusters.engines.kubernetes import states, tenancy
from clusters.engines.kubernetes.api import AlreadyExists, Conflict, Forbidden, Json, NotFound
from clusters.engines.kubernetes.gates import Gates
from clusters.engines.kubernetes.pods import Pods, in_order
from clusters.engines.kubernetes.record import Gate, GateUnreadable, StopRecord, today, with_stop
from kernel.signals import SignalTarget

_ROUNDS = 5  # Others change the gate only a few times in its life.
_BUSY = "The attempt's gate is being changed by others."

_ROOM_SECONDS = 3.0  # For the kubelet, past the end of a grace.
_AGAIN_SECONDS = 5.0


class Signals(Protocol):
    """Programs beside a task. Both may fail silently: the kubelet's TERM and its KILL after the first grace come anyway."""

    def name(self, pod: Json, signal: str, target: SignalTarget) -> None:
        """Tell the wrapper which signal the kubelet's TERM stands for, and which processes get it."""
        ...

    def kill(self, pod: Json) -> None:
        """Kill everything in the container."""
        ...


class Stopper:
    """Stops and forgets attempts of one cluster. Threads share it."""

    def __init__(self, spaces: tenancy.Tenancy, gates: Gates, pods: Pods, signals: Signals) -> None:
        self._spaces, self._gates, self._pods, self._signals = spaces, gates, pods, signals
        self._killed_at: dict[str, float] = {}

    def stop(self, stop: Stop) -> Stopping | Gone | Retry:
        """Raises EngineUnreachable."""
        try:
            for _ in range(_ROUNDS):
                answer = self._stop(stop)
                if answer is not None:
                    return answer
        except GateUnreadable as error:
            return Retry(stop.attempt_id, "record_unreadable", str(error), 5.0)
        except (tenancy.NamespaceForeign, tenancy.NamespaceNotReady, Forbidden) as error:
            return Retry(stop.attempt_id, "cluster_refuses", str(error), 5.0)
        return Retry(stop.attempt_id, "cluster_changed", _BUSY)

    def forget(self, attempt_id: AttemptId) -> Forgotten | Retry:
        """Raises EngineUnreachable."""
        try:
            for number in range(_ROUNDS):
                answer = self._forget(attempt_id, is_first=number == 0)
                if answer is not None:
                    return answer
        except GateUnreadable as error:
            return Retry(attempt_id, "record_unreadable", str(error), 5.0)
        except (tenancy.NamespaceForeign, tenancy.NamespaceNotReady, Forbidden) as error:
            return Retry(attempt_id, "cluster_refuses", str(error), 5.0)
        return Retry(attempt_id, "cluster_changed", _BUSY)

    def end_pod(self, gate: Gate, pod: Json) -> None:
        """Delete a pod by the stop on its gate. The kubelet holds to the grace of the first delete (1.35, containerd 1.6): one
        that became shorter is enforced by a program in the container."""
        assert gate.stop is not None
        deadline = states.read_time(pod["metadata"].get("deletionTimestamp"))
        is_unusual = gate.stop.signal != "TERM" or gate.stop.target is not SignalTarget.PROGRAMS
        if deadline is None and is_unusual and gate.framed and states.is_running(pod):
            self._signals.name(pod, gate.stop.signal, gate.stop.target)
        self._pods.end(pod, gate.stop.kill_at)
        sooner = deadline is not None and deadline > gate.stop.kill_at + timedelta(seconds=_ROOM_SECONDS)
        left = (gate.stop.kill_at - datetime.now(UTC)).total_seconds()
        if gate.framed and states.is_running(pod) and (left < -_ROOM_SECONDS or (sooner and left <= 0)):
            self._kill(pod)

    def _kill(self, pod: Json) -> None:
        """Now and then, not at every look: what is beyond reach stays so for a while."""
        uid, now = str(pod["metadata"]["uid"]), time.monotonic()
        if now - self._killed_at.get(uid, -_AGAIN_SECONDS) >= _AGAIN_SECONDS:
            self._killed_at = {key: at for key, at in self._killed_at.items() if now - at < 10 * _AGAIN_SECONDS}
            self._killed_at[uid] = now
            self._signals.kill(pod)

    def _stop(self, stop: Stop) -> Stopping | Gone | Retry | None:
        """One try; None: another caller changed the gate meanwhile."""
        gate = self._gates.read(stop.attempt_id)
        if gate is None:
            return Gone(stop.attempt_id) if self._bury_unseen(stop.attempt_id) else None
        if gate.is_tombstone:
            return Gone(stop.attempt_id)
        pods = self._pods.of(gate)
        try:
            if not gate.has_pods:  # None of them was let go.
                self._bury(gate, pods)
                return Gone(stop.attempt_id)
            places = in_order(gate, pods)
            alive = [pod for pod in places if pod is not None and not states.is_over(pod)]
            if not alive:
                return Gone(stop.attempt_id)
            asked_at = datetime.now(UTC)
            intent = StopRecord(
                cause=stop.cause,
                signal=stop.signal,
                target=stop.target,
                asked_at=asked_at,
                kill_at=asked_at + timedelta(seconds=max(0.0, stop.grace_seconds)),
                tasks=tuple(task.name for task, pod in zip(gate.tasks, places, strict=True) if pod in alive),
            )
            intended = with_stop(gate, intent)
            if intended != gate:
                gate = self._gates.replace(intended)
        except (Conflict, NotFound):
            return None
        for pod in alive:
            self.end_pod(gate, pod)
        return Stopping(stop.attempt_id)

    def _forget(self, attempt_id: AttemptId, *, is_first: bool) -> Forgotten | Retry | None:
        known = self._gates.find(attempt_id) if is_first else None  # Old or not: one that changed since refuses the tombstone.
        gate = known or self._gates.read(attempt_id)
        if gate is None:
            return Forgotten(attempt_id) if self._bury_unseen(attempt_id) else None
        if gate.is_tombstone:
            return self._forget_buried(gate)
        over = self._pods.over(gate)
        pods = over if over is not None else self._pods.of(gate)
        if gate.has_pods and any(not states.is_over(pod) for pod in in_order(gate, pods) if pod is not None):
            return Retry(attempt_id, "still_running", "The attempt still runs; stop it first.")
        try:
            self._bury(gate, pods)
        except (Conflict, NotFound):
            return None
        return Forgotten(attempt_id)

    def _forget_buried(self, gate: Gate) -> Forgotten | None:
        """What was stopped, or given up, before its release: its objects may be there still, or once more."""
        if gate.objects:
            try:
                self._pods.remove_objects(gate)
                self._gates.replace(gate.buried(today()))
            except (Conflict, NotFound):
                return None
        return Forgotten(gate.attempt_id)

    def _bury_unseen(self, attempt_id: AttemptId) -> bool:
        """Create a tombstone where no gate was; False: another caller made a gate first."""
        self._spaces.control()
        try:
            self._gates.create(Gate(attempt_id, is_tombstone=True, forgotten_on=today()))
        except AlreadyExists:
            return False
        return True

    def _bury(self, gate: Gate, pods: list[Json]) -> None:
        """Secrets and files first, which nothing that is over needs, so that none outlives a caller that dies here. From the
        tombstone on no caller can release or start anything; pods that are left are swept up by `observe`."""
        self._pods.remove_objects(gate)
        self._gates.replace(gate.buried(today()))
        for pod in pods:
            self._pods.let_go(pod)
