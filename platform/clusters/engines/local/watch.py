"""Looking at attempts and driving on what was decided: stops, kills after the grace, memory where no control group holds it.

Nothing is remembered here that is not on disk, but for what cannot change any more (an attempt all of whose tasks ended).
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
import time
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from clusters.engines.interface import (
    AttemptLabels,
    AttemptObservation,
    TaskExit,
    TaskName,
    TaskObservation,
    TaskState,
)
from clusters.engines.local import cgroups, exits, logfiles, processes, records
from clusters.engines.local.config import LocalEngineConfig
from clusters.engines.local.launching import Launcher, LauncherRefused
from clusters.engines.local.launching.verbs import PinAttempt, SignalAttempt
from clusters.engines.local.leases import ABANDONED_SECONDS, HostLeases
from clusters.engines.local.plan import ADDRESS
from clusters.engines.local.signalling import recipients
from kernel.resources import Resources
from kernel.signals import SignalTarget

_LOG_SECONDS = 1.0  # How long output may run past its quota before the surplus is given back to the disk.
_LEASE_SWEEP_SECONDS = 600.0
_BROKEN = (ValueError, KeyError, TypeError, AttributeError)  # What reading a file of ours raises that is not what we wrote.

logger = logging.getLogger("berth.engines.local")


@dataclass(frozen=True, slots=True)
class Known:
    """A started attempt, as its directory says."""

    attempt_id: str
    started: records.StartedRecord
    attempt: records.AttemptRecord
    labels: AttemptLabels


@dataclass(frozen=True, slots=True)
class LiveTask:
    attempt_id: str
    record: records.TaskRecord
    started: records.StartedTask


class Watch:
    """Reads the state of attempts. Threads may share it."""

    def __init__(self, config: LocalEngineConfig, launcher: Launcher, leases: HostLeases) -> None:
        self.boot_id = processes.boot_id(config.boot_id_file)
        self._config = config
        self._root = config.root
        self._launcher = launcher
        self._leases = leases
        self._known: dict[str, Known] = {}
        self._settled: dict[str, AttemptObservation] = {}
        self._lock = threading.RLock()
        self._stopping: set[str] = set()
        self._unreadable: set[str] = set()  # What was said of already.
        self._watches_memory = False
        self._cores = config.exclusive_cores()
        self._made_at = time.time()
        self._shares_on: dict[str, tuple[int, ...]] = {}  # By live attempt, where its tasks without own cores were last put.
        self._logs_at = 0.0
        self._swept_at = time.monotonic()

    @property
    def has_live(self) -> bool:
        return len(self._known) > len(self._settled)

    @property
    def needs_minding(self) -> bool:
        """Whether something will have to be done although no caller asks: a kill after a grace, a task above its memory."""
        return bool(self._stopping) or self._watches_memory

    def observe(self, attempt_ids: Sequence[str] | None = None) -> list[AttemptObservation]:
        """Give the state of these attempts, or of all; one that was never started or is forgotten is left out."""
        with self._lock:
            names = os.listdir(f"{self._root}/{records.ATTEMPTS}") if attempt_ids is None else attempt_ids
            if attempt_ids is None:
                self.drop(self._known.keys() - set(names))
            found, unreadable = self._find_all(names)
            ended = self._end_leftovers(found)
            items = [self._settled.get(known.attempt_id) or self._look(known, ended) for known in found]
            self._settle(found, items)
            return items + [AttemptObservation(uuid.UUID(name), ()) for name in unreadable]

    def runs_on(self, attempt_id: str, task: TaskName) -> bool:
        """Whether a task certainly runs, by two looks at files. False: `observe` knows.

        Without the lock: the output of each task is read every second, and would wait for looks at all of them.
        """
        known = self._known.get(attempt_id)
        if known is None or known.started.boot_id != self.boot_id:
            return False
        started = known.started.tasks.get(str(task))
        return (
            started is not None
            and exits.read_exit(self._control(attempt_id, f"{task}.exit")) is None
            and processes.is_alive(started.pid, started.start_ticks)
        )

    def drive(self, attempt_ids: Sequence[str] | None = None) -> None:
        """Send the signals that are due, end tasks above their memory, and cut output past its quota."""
        with self._lock:
            self._drive_stops(attempt_ids)
            if attempt_ids is None:
                self._watch_memory()
                self._cut_logs()
                self._sweep_leases()
                self.share_cores()

    def drop(self, attempt_ids: Iterable[str]) -> None:
        """Forget what is remembered of attempts whose directory is gone."""
        with self._lock:
            for attempt_id in tuple(attempt_ids):
                self._known.pop(attempt_id, None)
                self._settled.pop(attempt_id, None)
                self._stopping.discard(attempt_id)

    def log_quota(self, attempt_id: str) -> int:
        found, _ = self._find_all([attempt_id])
        return found[0].attempt.log_quota_bytes if found else self._config.log_quota_bytes

    def live_tasks(self) -> list[LiveTask]:
        """Give the tasks that run now, for measuring."""
        return [
            LiveTask(str(item.attempt_id), known.attempt.tasks[str(task.name)], known.started.tasks[str(task.name)])
            for item in self.observe()
            if (known := self._known.get(str(item.attempt_id))) is not None
            for task in item.tasks
            if task.state is TaskState.RUNNING
        ]

    # --- Looking -----------------------------------------------------------------------------------------------------

    def _find_all(self, names: Iterable[str]) -> tuple[list[Known], list[str]]:
        """The attempts that were started, and the names of those whose record cannot be read: they may run, so they are told
        of, without tasks. One broken file must not hide what all the others do."""
        found, unreadable = [], []
        for name in names:
            try:
                known = self._find(name)
            except _BROKEN as error:
                if name not in self._unreadable:
                    logger.error("The record of attempt %s cannot be read: %r", name, error)
                    self._unreadable.add(name)
                unreadable.append(name)
                continue
            if known is not None:
                found.append(known)
        return found, unreadable

    def _find(self, name: str) -> Known | None:
        known = self._known.get(name)
        if known is not None:
            if name in self._settled and not os.path.isdir(f"{self._root}/{records.ATTEMPTS}/{name}"):
                self.drop([name])
                return None
            return known
        if not os.path.isdir(f"{self._root}/{records.GATES}/{name}"):
            return None  # Being prepared, or left by a start that died: nothing has run.
        started = records.read_started(self._root, name)
        if started is None:
            return None
        attempt = records.parse_attempt(started.attempt)
        known = self._known[name] = Known(name, started, attempt, _labels(attempt))
        return known

    def _look(self, known: Known, ended: Set[tuple[str, str]]) -> AttemptObservation:
        stop = records.read_stop(self._root, known.attempt_id)
        tasks = tuple(self._look_at(known, name, stop, is_over=(known.attempt_id, name) in ended) for name in known.attempt.tasks)
        return AttemptObservation(uuid.UUID(known.attempt_id), tasks, known.labels)

    def _look_at(self, known: Known, name: str, stop: records.StopIntent | None, *, is_over: bool) -> TaskObservation:
        """`is_over`: nothing that it left runs any more. One whose exit came since then runs on until the next look."""
        started, record = known.started.tasks[name], known.attempt.tasks[name]
        stop = stop if stop is not None and name in stop.tasks else None
        rebooted = known.started.boot_id != self.boot_id
        state, task_exit, ended_at = TaskState.RUNNING, None, None
        path = self._control(known.attempt_id, f"{name}.exit")
        left, lives = exits.read_exit(path), True
        if left is None and (rebooted or not self._lives(known, name, started)):
            # A dead wrapper has written its exit: only an exit looked for after the death is certainly missing.
            left, lives = exits.read_exit(path), False
        if left is not None and (rebooted or (not cgroups.members(started.groups) if started.groups else is_over)):
            state, ended_at = TaskState.ENDED, datetime.fromtimestamp(left[1], UTC)
            task_exit = self._classify(known, name, left[0], stop)
        elif left is None and not lives:
            state, task_exit = TaskState.GONE, exits.vanished(stop, rebooted=rebooted)
        return TaskObservation(
            name=TaskName(record.role, record.index),
            state=state,
            exit=task_exit,
            node=self._config.node,
            address=ADDRESS,
            ports=record.ports,
            gpus=record.gpus,
            gpus_simulated=known.attempt.gpus_simulated and bool(record.gpus),
            pid=started.pid if state is TaskState.RUNNING else None,
            started_at=datetime.fromtimestamp(known.started.started_at, UTC),
            ended_at=ended_at,
        )

    def _lives(self, known: Known, name: str, started: records.StartedTask) -> bool:
        """Whether anything of a task without an exit code runs. Its wrapper may be gone and the task go on."""
        if processes.is_alive(started.pid, started.start_ticks):
            return True
        return self._runs_still(known, name, started)

    def _classify(self, known: Known, name: str, code: int, stop: records.StopIntent | None) -> TaskExit:
        return exits.classify(
            code,
            groups=known.started.tasks[name].groups,
            stop=stop,
            memory_verdict=self._read_verdict(known.attempt_id, name),
            stderr_path=self._control(known.attempt_id, f"{name}.stderr"),
        )

    def _end_leftovers(self, found: Sequence[Known]) -> set[tuple[str, str]]:
        """Kill what tasks that ended have left running: background processes do not outlive their task, but for the grace of a
        stop, in which they may save. Returns attempt and name of those tasks."""
        leftovers, ended = [], set()
        for known in found:
            if known.attempt_id in self._settled or known.started.boot_id != self.boot_id:
                continue
            over = [name for name in known.started.tasks if exits.read_exit(self._control(known.attempt_id, f"{name}.exit"))]
            stop = records.read_stop(self._root, known.attempt_id) if over else None
            for name in over:
                started = known.started.tasks[name]
                if stop is not None and self._has_grace(stop, name) and self._runs_still(known, name, started):
                    continue
                ended.add((known.attempt_id, name))
                if not started.groups or cgroups.members(started.groups):
                    leftovers.append((known.attempt_id, int(signal.SIGKILL), (name,)))
        if leftovers:
            self._signal(leftovers)
        return ended

    def _has_grace(self, stop: records.StopIntent, name: str) -> bool:
        is_under_way = stop.boot_id == self.boot_id and not stop.killed and name in stop.tasks
        return is_under_way and time.clock_gettime(time.CLOCK_BOOTTIME) < stop.kill_at

    def _runs_still(self, known: Known, name: str, started: records.StartedTask) -> bool:
        if started.groups:
            return bool(cgroups.members(started.groups))
        return self._signal([(known.attempt_id, 0, (name,))])[0] > 0

    def _settle(self, found: Sequence[Known], items: Sequence[AttemptObservation]) -> None:
        """Remember what cannot change any more, once what it held is free: an attempt that is settled is not looked at again."""
        settled = {
            known.attempt_id: item
            for known, item in zip(found, items, strict=True)
            if known.attempt_id not in self._settled and not any(task.state is TaskState.RUNNING for task in item.tasks)
        }
        own_cores = {known.attempt_id for known in found if any(task.cores for task in known.attempt.tasks.values())}
        held = [key for key, item in settled.items() if key in own_cores or any(task.ports or task.gpus for task in item.tasks)]
        if held:
            with self._leases.locked() as table:
                table.release(held)
        self._settled |= settled
        self._stopping -= settled.keys()

    # --- Driving -----------------------------------------------------------------------------------------------------

    def _drive_stops(self, attempt_ids: Sequence[str] | None) -> None:
        if attempt_ids is None:
            names = os.listdir(f"{self._root}/{records.STOPS}")
            attempt_ids = [name.removesuffix(".json") for name in names if name.endswith(".json") and not name.startswith(".")]
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        polite: list[str] = []
        kills: list[str] = []
        for attempt_id in attempt_ids:
            if attempt_id in self._settled:
                continue
            intent = records.read_stop(self._root, attempt_id)
            if intent is None or intent.boot_id != self.boot_id or not self._is_live(attempt_id):
                self._stopping.discard(attempt_id)
                continue
            self._stopping.add(attempt_id)
            if now >= intent.kill_at:
                kills.append(attempt_id)
            elif not intent.signalled or (intent.later and not _any_lives(intent.told)):
                polite.append(attempt_id)
        if kills or polite:
            self._send_due(kills, polite)

    def _send_due(self, kills: Sequence[str], polite: Sequence[str]) -> None:
        """Signal, and note it. Other processes look at the same stops: what one of them has signalled is not signalled again."""
        with records.stops_locked(self._root):
            killed = self._intents(kills)
            for attempt_id, intent in killed.items():
                self._save(attempt_id, replace(intent, signalled=True, killed=True), intent)
            asked = self._intents(polite)
            self._tell_first({key: intent for key, intent in asked.items() if not intent.signalled})
            self._tell_others({key: intent for key, intent in asked.items() if intent.signalled and intent.later})
        self._signal([(key, int(signal.SIGKILL), intent.tasks) for key, intent in killed.items()])

    def _tell_first(self, intents: Mapping[str, records.StopIntent]) -> None:
        asks = [SignalAttempt(self._root, key, at.signal, (task,)) for key, at in intents.items() for task in at.tasks]
        try:
            found = iter(self._launcher.look(asks) if asks else ())
        except LauncherRefused:  # By a launcher of the release before, which is replaced when no task runs: it tells all.
            self._launcher.signal(asks)
            for key, intent in intents.items():
                self._save(key, replace(intent, signalled=True), intent)
            return
        noted = {}
        for key, intent in intents.items():
            each = [recipients(next(found), intent.signal, SignalTarget(intent.target)) for _ in intent.tasks]
            told, later = (tuple(pid for part in parts for pid in part) for parts in zip(*each, strict=True))
            noted[key] = replace(intent, signalled=True, told=told, later=later)
        if noted:
            self._launcher.signal([SignalAttempt(self._root, key, at.signal, at.tasks, at.told) for key, at in noted.items()])
        for key, intent in noted.items():
            self._save(key, intent, intents[key])

    def _tell_others(self, intents: Mapping[str, records.StopIntent]) -> None:
        due = {key: intent for key, intent in intents.items() if not _any_lives(intent.told)}
        if due:
            asks = [SignalAttempt(self._root, key, intent.signal, intent.tasks, intent.later) for key, intent in due.items()]
            self._launcher.signal(asks)
        for key, intent in due.items():
            self._save(key, replace(intent, later=()), intent)

    def _intents(self, attempt_ids: Iterable[str]) -> dict[str, records.StopIntent]:
        found = ((attempt_id, records.read_stop(self._root, attempt_id)) for attempt_id in attempt_ids)
        return {attempt_id: intent for attempt_id, intent in found if intent is not None}

    def _is_live(self, attempt_id: str) -> bool:
        return any(task.state is TaskState.RUNNING for item in self.observe([attempt_id]) for task in item.tasks)

    def _save(self, attempt_id: str, intent: records.StopIntent, before: records.StopIntent) -> None:
        if intent != before:
            records.write_stop(self._root, attempt_id, intent)

    def _watch_memory(self) -> None:
        """End tasks whose processes together hold more than they asked for, where no control group does."""
        unheld = [
            (known, name)
            for known in self._known.values()
            if known.attempt_id not in self._settled and known.started.boot_id == self.boot_id
            for name, task in known.attempt.tasks.items()
            if task.memory_bytes and not any("memory" in path or "unified" in path for path in known.started.tasks[name].groups)
        ]
        self._watches_memory = bool(unheld)
        if not unheld:
            return
        everything = processes.read_all()
        due = []
        for known, name in unheld:
            pids = processes.descendants(everything, [known.started.tasks[name].pid])
            resident, limit = sum(everything[pid].resident_bytes for pid in pids), known.attempt.tasks[name].memory_bytes
            if resident > limit and processes.is_alive(known.started.tasks[name].pid, known.started.tasks[name].start_ticks):
                verdict = f"Ended by Berth at {resident} bytes of resident memory; the task's limit is {limit} bytes."
                records.note(self._root, known.attempt_id, f"{name}.memory", make=True).write_text(verdict)
                due.append((known.attempt_id, int(signal.SIGKILL), (name,)))
        self._signal(due)

    def shared_cores(self, exclusive: Collection[int]) -> tuple[int, ...]:
        """Where tasks without cores of their own may run; empty while that is anywhere."""
        return tuple(core for core in self._cores if core not in exclusive) if exclusive else ()

    def share_cores(self) -> None:
        """Keep tasks that share cores off those that belong to one task alone, and let them back when these are free again.

        What a process before this one did is not known, so what it started is put where it belongs once.
        """
        with self._lock:
            shared = self.shared_cores(self._leases.exclusive_cores())
            live: dict[str, tuple[int, ...]] = {}
            pins = []
            for known in self._known.values():
                if known.attempt_id in self._settled or known.started.boot_id != self.boot_id:
                    continue
                tasks = tuple(name for name, task in known.attempt.tasks.items() if not task.cores)
                live[known.attempt_id] = shared
                before = () if known.started.started_at > self._made_at else None  # It began anywhere, or we cannot tell.
                if tasks and self._shares_on.get(known.attempt_id, before) != shared:
                    pins.append(PinAttempt(self._root, known.attempt_id, tasks, shared))
            if pins:
                self._launcher.pin(pins)
            self._shares_on = live

    def shared_millis(self) -> int:
        """Thousandths of cores that the live tasks need together which share them."""
        return sum(task.record.cpu_millis for task in self.live_tasks() if not task.record.cores)

    def _cut_logs(self) -> None:
        now = time.monotonic()
        if now - self._logs_at < _LOG_SECONDS:
            return
        self._logs_at = now
        for known in self._known.values():
            if known.attempt_id not in self._settled:
                for name in known.attempt.tasks:
                    for stream in ("stdout", "stderr"):
                        logfiles.cut(self._control(known.attempt_id, f"{name}.{stream}"), known.attempt.log_quota_bytes)

    def _sweep_leases(self) -> None:
        """Release leases of starts that died before anything ran."""
        now = time.monotonic()
        if now - self._swept_at < _LEASE_SWEEP_SECONDS:
            return
        self._swept_at = now
        with self._leases.locked() as table:
            table.release(
                [
                    attempt_id
                    for attempt_id, lease in table.leases.items()
                    if lease.root == self._root
                    and time.time() - lease.at > ABANDONED_SECONDS
                    and (attempt_id in self._settled or self._find_all([attempt_id]) == ([], []))
                ]
            )

    def _signal(self, due: Sequence[tuple[str, int, tuple[str, ...]]]) -> Sequence[int]:
        if not due:
            return ()
        return self._launcher.signal([SignalAttempt(self._root, attempt, number, tasks) for attempt, number, tasks in due])

    def _control(self, attempt_id: str, name: str) -> str:
        return f"{self._root}/{records.ATTEMPTS}/{attempt_id}/{records.CONTROL}/{name}"

    def _read_verdict(self, attempt_id: str, name: str) -> str:
        with contextlib.suppress(FileNotFoundError):
            return records.note(self._root, attempt_id, f"{name}.memory").read_text()
        return ""


def _any_lives(pids: Iterable[tuple[int, int]]) -> bool:
    return any(processes.is_alive(pid, start_ticks) for pid, start_ticks in pids)


def _labels(attempt: records.AttemptRecord) -> AttemptLabels:
    return AttemptLabels(
        job_id=uuid.UUID(attempt.job_id) if attempt.job_id else None,
        number=attempt.number,
        name=attempt.name,
        isolation_key=attempt.isolation_key,
        amounts={
            TaskName(task.role, task.index): Resources(task.cpu_millis, task.memory_bytes, task.gpu_millis)
            for task in attempt.tasks.values()
        },
    )
