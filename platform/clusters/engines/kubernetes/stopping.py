"""`stop` and `forget`: intents on the gate before anything is done, so that the next caller can go on with them.

A task that runs is told from inside its container, and its pod stays until it is forgotten: the kubelet takes the containers of a
deleted pod away within a second of their end, with what they wrote last. Where it cannot be told, and where nothing runs yet, its
pod is deleted with its grace.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
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

_TELL_SECONDS = 10.0  # After which a stop that its caller has not carried through is carried through by another.
_LATE_SECONDS = 3.0  # For a container, past the end of its grace.


class Stops(Protocol):
    """Tells tasks from inside their containers."""

    def tell(self, pod: Json, signal: str, target: SignalTarget, grace_seconds: float) -> bool:
        """Have the task stopped: the signal to the processes of the target, KILL to all after the grace. Told again, the grace
        can only become shorter. False: it is not certain that the task was told."""
        ...


class Stopper:
    """Stops and forgets attempts of one cluster. Threads share it."""

    def __init__(self, spaces: tenancy.Tenancy, gates: Gates, pods: Pods, stops: Stops, parallel: int) -> None:
        self._spaces, self._gates, self._pods, self._stops = spaces, gates, pods, stops
        self._parallel = parallel

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

    def end_due(self, gate: Gate, alive: Sequence[Json]) -> bool:
        """Delete the pods of a stop that was not carried through, or whose time is over; whether there were any."""
        assert gate.stop is not None
        due = [pod for pod in alive if _is_due(pod, gate.stop, datetime.now(UTC))]
        for pod in due:
            self._pods.end(pod, gate.stop.kill_at)
        return bool(due)

    def _end(self, gate: Gate, alive: Sequence[Json]) -> None:
        """Tell the tasks, and write down that they were."""
        stop = gate.stop
        assert stop is not None

        def end(pod: Json) -> bool:
            grace = max(0.0, (stop.kill_at - datetime.now(UTC)).total_seconds())
            runs = gate.framed and states.is_running(pod) and not states.is_out_of_contact(pod)
            is_told = runs and self._stops.tell(pod, stop.signal, stop.target, grace)
            return is_told or self._pods.end(pod, stop.kill_at)

        with ThreadPoolExecutor(min(self._parallel, len(alive)), thread_name_prefix="kubernetes-stop") as pool:
            ended = list(pool.map(end, alive))
        if not all(ended):  # `observe` goes on with it.
            return
        with contextlib.suppress(Conflict, NotFound):  # Then somebody else goes on with it.
            self._gates.replace(replace(gate, stop=replace(stop, is_told=True)))

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
        if gate.stop is not None and not gate.stop.is_told:
            self._end(gate, alive)
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


def _is_due(pod: Json, stop: StopRecord, now: datetime) -> bool:
    """Whether a pod that is alive was neither told nor deleted, or has not ended in its time."""
    if now > stop.kill_at + timedelta(seconds=_LATE_SECONDS):
        return True
    is_left = not stop.is_told and now > stop.asked_at + timedelta(seconds=_TELL_SECONDS)
    return is_left and not pod["metadata"].get("deletionTimestamp")
