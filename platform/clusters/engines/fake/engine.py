"""The fake engine. States follow from the script and the clock alone, so that virtual time moves everything at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from clusters import isolation_facts
from clusters.bounds import LOG_CHUNK_BYTES
from clusters.engines.fake.faults import Faults
from clusters.engines.fake.script import Script, script_from_labels
from clusters.engines.interface import (
    Abilities,
    AddressOf,
    AttemptId,
    AttemptLabels,
    AttemptObservation,
    CheckpointDir,
    Cursor,
    Ensured,
    ExitReason,
    FileOf,
    Forgotten,
    GiveUp,
    Gone,
    Inventory,
    LogChunk,
    LogChunks,
    LogCursor,
    Observations,
    ObservedNode,
    PortOf,
    Retry,
    StartStep,
    Stop,
    StopCause,
    Stopping,
    Stream,
    TaskExit,
    TaskName,
    TaskObservation,
    TaskState,
    TaskWaiting,
    TaskWorkload,
    Text,
    Workload,
)
from kernel.limits import GIB
from kernel.resources import Resources

_KILLED = 137  # A shell's code for an end by KILL.
_FIRST_PORT = 20_000
_LOG_QUOTA_BYTES = 256 * 1024**2
TOMBSTONE_DAYS = 7

Clock = Callable[[], datetime]
ScriptFor = Callable[[Workload, TaskWorkload], Script]


@dataclass
class _Task:
    workload: TaskWorkload
    script: Script
    started_at: datetime
    ports: dict[str, int]
    gpus: tuple[str, ...]
    lost: bool = False


@dataclass
class _Stop:
    stop: Stop
    asked_at: datetime
    kill_at: datetime
    alive: frozenset[TaskName] = frozenset()


@dataclass
class _Attempt:
    workload: Workload
    tasks: dict[TaskName, _Task]
    stop: _Stop | None = None
    unreachable: bool = False


@dataclass
class State:
    """What survives a restart of the platform: give the same state to the next FakeEngine."""

    attempts: dict[AttemptId, _Attempt] = field(default_factory=dict)
    tombstones: dict[AttemptId, datetime] = field(default_factory=dict)
    next_port: int = _FIRST_PORT
    saved: dict[str, bytes] = field(default_factory=dict)  # By the location of the checkpoint: it outlives attempts.
    starts: list[AttemptId] = field(default_factory=list)  # Every start that really happened, in order.


class FakeEngine:
    """Runs nothing. `script_for` says what each task does; `faults` what goes wrong with the calls."""

    def __init__(
        self,
        *,
        clock: Clock = lambda: datetime.now(UTC),
        script_for: ScriptFor = script_from_labels,
        nodes: Sequence[ObservedNode] = (),
        state: State | None = None,
        faults: Faults | None = None,
    ) -> None:
        self.state = state or State()
        self.faults = faults or Faults()
        self._clock = clock
        self._script_for = script_for
        self._nodes = tuple(nodes) or (
            ObservedNode("fake-0", Resources(64_000, 256 * GIB, 8_000), labels={"gpus_simulated": "yes"}),
        )

    # --- The contract ------------------------------------------------------------------------------------------------

    def ensure(self, workloads: Sequence[Workload]) -> Sequence[Ensured | Retry | GiveUp]:
        self.faults.enter("ensure")
        answers = [self._ensure(workload) for workload in workloads]
        self.faults.leave("ensure")
        return answers

    def observe(self, cursor: Cursor | None) -> Observations:
        self.faults.enter("observe")
        now = self._clock()
        items = [self._look(attempt, now) for attempt in self.state.attempts.values()]
        incomplete = self.faults.take_incomplete()
        self.faults.leave("observe")
        shown = items[::2] if incomplete else items
        return Observations(tuple(shown), cursor=now.isoformat(), complete=not incomplete, read_at=now)

    def stop(self, stops: Sequence[Stop]) -> Sequence[Stopping | Gone | Retry]:
        self.faults.enter("stop")
        answers = [self._stop(stop) for stop in stops]
        self.faults.leave("stop")
        return answers

    def forget(self, attempts: Sequence[AttemptId]) -> Sequence[Forgotten | Retry]:
        self.faults.enter("forget")
        now = self._clock()
        answers: list[Forgotten | Retry] = []
        for attempt_id in attempts:
            attempt = self.state.attempts.get(attempt_id)
            if attempt is not None and self._alive(attempt, now):
                answers.append(Retry(attempt_id, "still_running", "The attempt still runs; stop it first."))
                continue
            self.state.attempts.pop(attempt_id, None)
            self.state.tombstones[attempt_id] = now
            answers.append(Forgotten(attempt_id))
        oldest = now - timedelta(days=TOMBSTONE_DAYS)
        self.state.tombstones = {key: at for key, at in self.state.tombstones.items() if at > oldest}
        self.faults.leave("forget")
        return answers

    def logs(self, attempt: AttemptId, task: TaskName, stream: Stream, cursor: LogCursor | None) -> LogChunks:
        self.faults.enter("logs")
        found = self.state.attempts.get(attempt)
        start = cursor or 0
        if found is None or task not in found.tasks:
            return LogChunks((), start, complete=True)
        now = self._clock()
        script = found.tasks[task].script
        data = script.stdout if stream is Stream.OUT else script.stderr
        quota = found.workload.log_quota_bytes or _LOG_QUOTA_BYTES
        chunks = [
            LogChunk(offset, data[offset : min(offset + LOG_CHUNK_BYTES, quota)])
            for offset in range(start, min(len(data), quota), LOG_CHUNK_BYTES)
        ]
        if len(data) > max(quota, start):
            offset = max(quota, start)
            marker = f"Output past the limit of {quota} bytes is dropped."
            chunks.append(LogChunk(offset, b"", marker=marker, skipped_bytes=len(data) - offset))
        ended = self._look_at(found, found.tasks[task], now).state in (TaskState.ENDED, TaskState.GONE)
        self.faults.leave("logs")
        return LogChunks(tuple(chunks), max(start, len(data)), complete=ended, drained=True)

    def inventory(self) -> Inventory:
        self.faults.enter("inventory")
        return Inventory(self._nodes, self._clock(), Abilities(shares_gpus=True), isolation=(isolation_facts.PRETENDED.en,))

    # --- Turning the world -------------------------------------------------------------------------------------------

    def next_change_at(self) -> datetime | None:
        """When the next state changes by itself, for simulations that jump there; None if nothing will."""
        now = self._clock()
        moments = [moment for attempt in self.state.attempts.values() for moment in self._moments(attempt) if moment > now]
        return min(moments, default=None)

    def lose_node(self, node: str) -> None:
        """Its tasks are gone for certain, without an exit."""
        for attempt in self.state.attempts.values():
            for task in attempt.tasks.values():
                task.lost = task.lost or (task.workload.node or self._nodes[0].name) == node

    def cut_off(self, attempt_id: AttemptId, *, is_cut: bool = True) -> None:
        """The tasks go on unseen: UNREACHABLE until they are back."""
        self.state.attempts[attempt_id].unreachable = is_cut

    def delete(self, attempt_id: AttemptId) -> None:
        """A user removed the attempt by hand: it is gone without a trace and without a tombstone."""
        del self.state.attempts[attempt_id]

    # --- Inside ------------------------------------------------------------------------------------------------------

    def _ensure(self, workload: Workload) -> Ensured | Retry | GiveUp:
        attempt_id = workload.attempt_id
        if attempt_id in self.state.attempts:
            return Ensured(attempt_id, created=False)
        if attempt_id in self.state.tombstones:
            return GiveUp(attempt_id, "attempt_forgotten", "This attempt was stopped before it started, or has been forgotten.")
        known = {node.name for node in self._nodes}
        for task in workload.tasks:
            if task.node and task.node not in known:
                return GiveUp(attempt_id, "node_unknown", f"There is no node {task.node}.")
        now = self._clock()
        ports = {(task.name, port): self._lease_port() for task in workload.tasks for port in task.ports}
        tasks = {
            task.name: _Task(
                workload=task,
                script=self._script_for(workload, task),
                started_at=now,
                ports={name: number for (owner, name), number in ports.items() if owner == task.name},
                gpus=self._devices(attempt_id, task),
            )
            for task in workload.tasks
        }
        self._keep(workload, tasks)
        self.state.attempts[attempt_id] = _Attempt(workload, tasks)
        self.state.starts.append(attempt_id)
        return Ensured(attempt_id, created=True)

    def _keep(self, workload: Workload, tasks: dict[TaskName, _Task]) -> None:
        """What earlier attempts saved is there for those that read it; what these save is there from now on."""
        if workload.checkpoint is None:
            return
        location = workload.checkpoint.location or workload.checkpoint.target
        for task in tasks.values():
            if task.script.reads_saved:
                task.script = replace(task.script, stdout=task.script.stdout + self.state.saved.get(location, b""))
            if task.script.saves:
                self.state.saved[location] = task.script.saves

    def _devices(self, attempt_id: AttemptId, task: TaskWorkload) -> tuple[str, ...]:
        """Devices of its own, or for a part of one the fullest of the node that has as much left."""
        millis = task.resources.gpu_millis
        if not 0 < millis < _WHOLE:
            return tuple(f"fake-{attempt_id}-{task.name}-{index}" for index in range(-(-millis // _WHOLE)))
        left: dict[str, int] = {}
        for attempt in self.state.attempts.values():
            for other in attempt.tasks.values():
                if 0 < other.workload.resources.gpu_millis < _WHOLE and other.workload.node == task.node:
                    left[other.gpus[0]] = left.get(other.gpus[0], _WHOLE) - other.workload.resources.gpu_millis
        room = sorted((free, name) for name, free in left.items() if free >= millis)
        return (room[0][1] if room else f"fake-{attempt_id}-{task.name}-0",)

    def _lease_port(self) -> int:
        self.state.next_port += 1
        return self.state.next_port

    def resolve(self, attempt_id: AttemptId, text: Text) -> str:
        """Join a text as a task of this attempt would see it."""
        tasks = self.state.attempts[attempt_id].tasks
        parts = []
        for part in text:
            if isinstance(part, AddressOf):
                parts.append("127.0.0.1")
            elif isinstance(part, PortOf):
                parts.append(str(tasks[TaskName(part.role, part.index)].ports[part.name]))
            elif isinstance(part, FileOf):
                parts.append(f"/berth/files/{part.name}")
            elif isinstance(part, CheckpointDir):
                kept = self.state.attempts[attempt_id].workload.checkpoint
                parts.append("" if kept is None else "/berth/checkpoint" if kept.location else kept.target)
            else:
                parts.append(part)
        return "".join(parts)

    def _stop(self, stop: Stop) -> Stopping | Gone | Retry:
        now = self._clock()
        attempt = self.state.attempts.get(stop.attempt_id)
        if attempt is None:
            self.state.tombstones.setdefault(stop.attempt_id, now)
            return Gone(stop.attempt_id)
        if not self._alive(attempt, now):
            return Gone(stop.attempt_id)
        kill_at = now + timedelta(seconds=max(0.0, stop.grace_seconds))
        if attempt.stop is None:
            alive = frozenset(name for name, task in attempt.tasks.items() if self._look_at(attempt, task, now).state in _ALIVE)
            attempt.stop = _Stop(stop, now, kill_at, alive)
        else:
            attempt.stop.kill_at = min(attempt.stop.kill_at, kill_at)
        return Stopping(stop.attempt_id)

    def _alive(self, attempt: _Attempt, now: datetime) -> bool:
        return any(self._look_at(attempt, task, now).state in _ALIVE for task in attempt.tasks.values())

    def _look(self, attempt: _Attempt, now: datetime) -> AttemptObservation:
        workload = attempt.workload
        labels = AttemptLabels(
            job_id=workload.job_id,
            number=workload.number,
            name=workload.name,
            isolation_key=workload.isolation_key,
            amounts={task.name: task.resources for task in workload.tasks},
        )
        tasks = tuple(self._look_at(attempt, task, now) for task in attempt.tasks.values())
        return AttemptObservation(workload.attempt_id, tasks, labels)

    def _look_at(self, attempt: _Attempt, task: _Task, now: datetime) -> TaskObservation:
        runs_at = task.started_at + timedelta(seconds=task.script.start_seconds)
        seen = TaskObservation(
            name=task.workload.name,
            state=TaskState.RUNNING if now >= runs_at else TaskState.PENDING,
            node=task.workload.node or self._nodes[0].name,
            address="127.0.0.1",
            ports=task.ports,
            gpus=task.gpus,
            gpus_simulated=bool(task.gpus),
            started_at=runs_at if now >= runs_at else None,
        )
        if task.lost:
            lost = TaskExit(None, reason=ExitReason.NODE_LOST, evidence="The node is gone.")
            return replace(seen, state=TaskState.GONE, exit=lost)
        if attempt.unreachable:
            return replace(seen, state=TaskState.UNREACHABLE)
        ended_at, task_exit = self._end(attempt, task)
        if now >= ended_at:
            return replace(seen, state=TaskState.ENDED, exit=task_exit, ended_at=ended_at)
        if now < min(runs_at, task.started_at + timedelta(seconds=task.script.pull_seconds)):
            return replace(seen, waiting=TaskWaiting(StartStep.PULLING_IMAGE))
        return seen

    def _end(self, attempt: _Attempt, task: _Task) -> tuple[datetime, TaskExit]:
        """When and how the task ends, as far as is decided now."""
        script, stop = task.script, attempt.stop
        natural = _after(task.started_at, script.start_seconds, script.duration_seconds)
        if stop is None or task.workload.name not in stop.alive or natural <= stop.asked_at:
            return natural, script.natural_exit()
        polite = _after(stop.asked_at, 0.0, script.stop_seconds)
        at = min(natural, polite, stop.kill_at)
        cause = StopCause(stop.stop.cause)
        if at == natural:
            return at, replace(script.natural_exit(), reason=ExitReason.STOPPED, stop_cause=cause)
        if at == polite:
            number = script.stop_code - 128 if script.stop_code > 128 else None
            return at, TaskExit(script.stop_code, number, ExitReason.STOPPED, cause, f"Stopped ({cause}).")
        return at, TaskExit(_KILLED, 9, ExitReason.STOPPED, cause, f"Stopped ({cause}): killed after its grace.")

    def _moments(self, attempt: _Attempt) -> list[datetime]:
        starts = [task.started_at + timedelta(seconds=task.script.start_seconds) for task in attempt.tasks.values()]
        pulls = [task.started_at + timedelta(seconds=task.script.pull_seconds) for task in attempt.tasks.values()]
        ends = [self._end(attempt, task)[0] for task in attempt.tasks.values()]
        return [*starts, *pulls, *(moment for moment in ends if moment != _NEVER)]


_ALIVE = (TaskState.PENDING, TaskState.RUNNING, TaskState.UNREACHABLE)
_WHOLE = 1000
_NEVER = datetime.max.replace(tzinfo=UTC)


def _after(start: datetime, delay_seconds: float, duration_seconds: float | None) -> datetime:
    if duration_seconds is None or math.isinf(duration_seconds):
        return _NEVER
    return start + timedelta(seconds=delay_seconds + duration_seconds)
