"""The Kubernetes engine: attempts as pods in a namespace per tenant, remembered in gates, seen through two watched copies.

Nothing is decided on a view that may be old: a start and a stop by changes of the gate that the API server orders, an end by
the pod's own status, the absence of an attempt by whole lists. Whatever the platform left half done, `observe` goes on with.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import TypeVar

from clusters.engines.interface import (
    Asker,
    AttemptId,
    CordonAnswer,
    CordonWish,
    Cursor,
    EngineUnreachable,
    Ensured,
    Execution,
    Forgotten,
    GiveUp,
    Gone,
    GpuFault,
    Inventory,
    LogChunks,
    LogCursor,
    LogStreamName,
    NotRunning,
    Observations,
    OutputFile,
    OutputsLost,
    Retry,
    Sample,
    Stop,
    Stopping,
    Stream,
    TaskName,
    TerminalSize,
    Workload,
)
from clusters.engines.kubernetes import checks, cordons, execution, names, states
from clusters.engines.kubernetes.api import Api, ApiRefused, Forbidden, Json, NotFound
from clusters.engines.kubernetes.cache import Cache, Key, prune_pod
from clusters.engines.kubernetes.carrying import Carrier
from clusters.engines.kubernetes.config import KubernetesConfig
from clusters.engines.kubernetes.gates import Gates
from clusters.engines.kubernetes.gpu_exporter import GpuExporters
from clusters.engines.kubernetes.inventory import take_inventory
from clusters.engines.kubernetes.logs import Fetch, LogReader, read_raw
from clusters.engines.kubernetes.metrics import ClusterMeter
from clusters.engines.kubernetes.observing import AttemptView
from clusters.engines.kubernetes.outputs import PodOutputs
from clusters.engines.kubernetes.pods import Pods, in_order, in_parallel, is_task, pod_name
from clusters.engines.kubernetes.record import Gate, GateUnreadable
from clusters.engines.kubernetes.starting import Starter
from clusters.engines.kubernetes.stopping import Stopper
from clusters.engines.kubernetes.tenancy import Tenancy
from clusters.engines.settings import Finding

_PURGE_SECONDS = 3_600.0
_LOOKS_SHARE = 0.5  # Of the requests that may be made, for logs of containers that print nothing.
AGAIN_SECONDS = 5.0  # After no answer to one of several.

Item = TypeVar("Item", Workload, Stop, AttemptId)
Answer = TypeVar("Answer")


class KubernetesEngine:
    """One Kubernetes cluster. Threads and processes may share it; every method may be repeated."""

    def __init__(self, config: KubernetesConfig, api: Api, websocket: execution.Websockets) -> None:
        self.config, self.api, self._websocket = config, api, websocket
        control = names.control_namespace(config.namespace_prefix)
        live = names.selector(config.cluster_id, names.GATE, f"!{names.FORGOTTEN_ON}")
        self._gate_cache = Cache(api, f"/api/v1/namespaces/{control}/configmaps", live)
        self._pod_cache = Cache(api, "/api/v1/pods", names.selector(config.cluster_id, names.TASK), prune=prune_pod)
        spaces = Tenancy(api, config)
        self._gates = Gates(api, config, self._gate_cache)
        self._pods = Pods(api, config, self._pod_cache)
        self._starter = Starter(api, config, spaces, self._gates, self._pods, self._gate_cache)
        self._stopper = Stopper(spaces, self._gates, self._pods, execution.ExecStops(websocket), config.parallel)
        caches = (self._gate_cache, self._pod_cache)
        self._carrier = Carrier(websocket, config.parallel)
        self._view = AttemptView(api, config, caches, self._gates, self._pods, self._stopper, self._carrier)
        self._logs = LogReader()
        self._outputs = PodOutputs(websocket, config.parallel, config.outputs_patience_seconds)
        self._exporters = GpuExporters(api, config)
        self._meter = ClusterMeter(api, config, self._exporters)
        self._purged_at = time.monotonic()

    # --- The contract ------------------------------------------------------------------------------------------------

    def ensure(self, workloads: Sequence[Workload]) -> Sequence[Ensured | Retry | GiveUp]:
        def ensure(workload: Workload) -> Ensured | Retry | GiveUp:
            with _reachable():
                return self._starter.ensure(workload)

        return self._each(workloads, ensure)

    def observe(self, cursor: Cursor | None) -> Observations:
        with _reachable():
            observations = self._view.observe()
            if time.monotonic() - self._purged_at > _PURGE_SECONDS:
                self._purged_at = time.monotonic()
                with contextlib.suppress(ApiRefused):
                    self._gates.purge()
        return observations

    def stop(self, stops: Sequence[Stop]) -> Sequence[Stopping | Gone | Retry]:
        def stop(item: Stop) -> Stopping | Gone | Retry:
            with _reachable():
                return self._stopper.stop(item)

        return self._each(stops, stop)

    def forget(self, attempts: Sequence[AttemptId]) -> Sequence[Forgotten | Retry]:
        def forget(attempt_id: AttemptId) -> Forgotten | Retry:
            with _reachable():
                return self._stopper.forget(attempt_id)

        return self._each(attempts, forget)

    def logs(self, attempt: AttemptId, task: TaskName, stream: Stream, cursor: LogCursor | None) -> LogChunks:
        start = cursor or 0
        with _reachable():
            gate, pod = self._find(attempt, task)
            if gate is None:
                return LogChunks((), start, complete=True, drained=True)
            name = _log_name(attempt, task)
            if pod is None and gate.has_pods:
                return self._logs.cut_off(name, stream, start)
            ended = pod is not None and states.is_over(pod)
            if pod is None or not states.has_log(pod) or (not ended and states.is_out_of_contact(pod)):
                return LogChunks((), start, complete=ended, drained=True)
            try:
                return self._read_log(name, gate, pod, stream, start, ended=ended)
            except NotFound:
                return self._logs.cut_off(name, stream, start)

    def inventory(self) -> Inventory:
        with _reachable():
            return take_inventory(self.api, self.config)

    def log_marks(self, streams: Sequence[LogStreamName]) -> Sequence[Hashable]:
        """Raises EngineUnreachable where no container could be asked; where some could not, their marks stay what they were, so
        that the others are read."""
        slowest = len(self._pod_cache.objects()) / (self.config.requests_per_second * _LOOKS_SHARE)
        found: dict[tuple[AttemptId, TaskName], Mapping[Stream, Hashable]] = {}
        failures: list[EngineUnreachable] = []

        def look(container: tuple[AttemptId, TaskName]) -> None:
            try:
                with _reachable():
                    found[container] = self._look_at_log(*container, slowest)
            except NotFound:
                found[container] = dict.fromkeys(Stream, time.monotonic())
            except EngineUnreachable as error:
                known = self._logs.last_marks(_log_name(*container))
                found[container] = known or dict.fromkeys(Stream, time.monotonic())
                failures.append(error)

        containers = list(dict.fromkeys((attempt, task) for attempt, task, _ in streams))
        in_parallel(look, containers, self.config.parallel)
        if failures and len(failures) == len(containers):
            raise failures[0]
        return [found[attempt, task][stream] for attempt, task, stream in streams]

    # --- More abilities ----------------------------------------------------------------------------------------------

    def execute(
        self, attempt: AttemptId, task: TaskName, argv: Sequence[str], terminal: TerminalSize | None, asker: Asker
    ) -> Execution:
        with _reachable():
            gate, pod = self._find(attempt, task)
        if gate is None or pod is None or not states.is_running(pod):
            raise NotRunning(f"Task {task} does not run any more.")
        words = execution.in_workdir(argv, framed=gate.framed)
        try:
            connection = self._websocket(execution.exec_path(pod, words, terminal=terminal is not None))
        except EngineUnreachable as error:
            raise execution.refused(error) from error
        opened = execution.KubernetesExecution(connection, terminal=terminal is not None)
        if terminal is not None:
            opened.resize(terminal)
        return opened

    def list_outputs(self, attempt: AttemptId, paths: Sequence[str]) -> Sequence[OutputFile]:
        with _reachable():
            gate = self._read_gate(attempt)
            if gate is None or gate.is_tombstone:
                return ()
            if not gate.keeps_outputs:
                raise OutputsLost(
                    "its pods keep no files after the end, for want of a shell in the image; write results into a volume"
                )
            pods = in_order(gate, self._pods.of(gate))
            return self._outputs.list_files(
                attempt, [(task.name, pod) for task, pod in zip(gate.tasks, pods, strict=True)], paths
            )

    def open_output(self, attempt: AttemptId, path: str) -> int:
        with _reachable():
            return self._outputs.open_file(attempt, path)

    def sample(self) -> Sequence[Sample]:
        with _reachable():
            return self._meter.sample(self._pod_cache.objects().values())

    def gpu_faults(self) -> Sequence[GpuFault]:
        with _reachable():
            return self._exporters.faults()

    def cordon(self, wishes: Sequence[CordonWish]) -> Sequence[CordonAnswer]:
        return cordons.set_all(self.api, self.config, wishes)

    def check(self, now: datetime) -> Sequence[Finding]:
        return checks.check(self.api, self.config, now)

    def close(self) -> None:
        """End the watches."""
        self._carrier.close()
        self._gate_cache.close()
        self._pod_cache.close()

    # --- Parts -------------------------------------------------------------------------------------------------------

    def _each(self, asked: Sequence[Item], answer: Callable[[Item], Answer]) -> list[Answer | Retry]:
        """Answer several items at once. One without an answer keeps no other from its own: the cluster may have failed at that
        one alone, for as long as it is asked for. Without an answer to any, EngineUnreachable is raised."""
        if len(asked) < 2:
            return [answer(item) for item in asked]
        failures: list[EngineUnreachable] = []

        def attempt(item: Item) -> Answer | Retry:
            try:
                return answer(item)
            except EngineUnreachable as error:
                failures.append(error)
                attempt_id = item if isinstance(item, uuid.UUID) else item.attempt_id
                return Retry(attempt_id, "engine_unreachable", str(error), AGAIN_SECONDS)

        with ThreadPoolExecutor(min(self.config.parallel, len(asked)), thread_name_prefix="kubernetes") as pool:
            answers = list(pool.map(attempt, asked))
        if len(failures) == len(asked):
            raise failures[0]
        return answers

    def _read_gate(self, attempt: AttemptId) -> Gate | None:
        try:
            return self._gates.find(attempt) or self._gates.read(attempt)
        except GateUnreadable as error:
            raise EngineUnreachable(str(error)) from error

    def _find(self, attempt: AttemptId, task: TaskName) -> tuple[Gate | None, Json | None]:
        """The attempt's gate and the task's pod: from the cache where they are there, else from the API server."""
        gate = self._read_gate(attempt)
        place = None if gate is None or gate.is_tombstone else gate.task(task)
        if gate is None or place is None:
            return None, None
        name = pod_name(gate, place)
        if not name:
            return gate, None
        pod = self._pod_cache.find(Key(gate.namespace, name)) if self._pod_cache.is_fresh() else None
        if pod is None:
            with contextlib.suppress(NotFound):
                pod = self._pods.read(gate.namespace, name)
        return gate, pod if pod is not None and is_task(gate, place, pod) else None

    def _look_at_log(self, attempt: AttemptId, task: TaskName, slowest: float) -> Mapping[Stream, Hashable]:
        """Marks of both streams. What has no log to ask for has a mark by which `logs` says so once."""
        gate, pod = self._find(attempt, task)
        if gate is None or pod is None or not gate.framed:
            return dict.fromkeys(Stream, time.monotonic())
        ended = states.is_over(pod)
        if not states.has_log(pod) or (not ended and states.is_out_of_contact(pod)):
            return dict.fromkeys(Stream, ("no log", ended))
        return self._logs.look(_log_name(attempt, task), ended=ended, slowest=slowest, fetch=self._fetch_of(pod))

    def _read_log(self, name: str, gate: Gate, pod: Json, stream: Stream, start: int, *, ended: bool) -> LogChunks:
        if not gate.framed:
            if stream is Stream.ERR:
                return LogChunks((), start, complete=ended, drained=True)
            return read_raw(self._pods.log(pod, "", timestamps=False), start, ended=ended, quota=gate.log_quota_bytes)

        return self._logs.read(name, stream, start, quota=gate.log_quota_bytes, ended=ended, fetch=self._fetch_of(pod))

    def _fetch_of(self, pod: Json) -> Fetch:
        def fetch(since: str, bytes_max: int) -> bytes:
            try:
                return self._pods.log(pod, since, timestamps=True, bytes_max=bytes_max)
            except NotFound:
                raise
            except ApiRefused as refusal:
                if refusal.status == 400:  # The container is about to start.
                    return b""
                raise

        return fetch


def _log_name(attempt: AttemptId, task: TaskName) -> str:
    """Of a container's log among all."""
    return f"{attempt}/{task}"


@contextlib.contextmanager
def _reachable() -> Iterator[None]:
    """What the API server refuses beyond what a verb expects is no answer: an account that lost a permission, a broken server."""
    try:
        yield
    except Forbidden as error:
        raise EngineUnreachable(f"The cluster refuses the account of Berth: {error}") from error
    except ApiRefused as error:
        raise EngineUnreachable(str(error)) from error
