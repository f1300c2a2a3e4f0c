"""The local engine: attempts as process trees of this host, remembered in small files, seen again after any restart of ours.

What runs is decided by three facts: the gate (it was started, at most once), the exit file (it ended), and the process with
its start time and boot id (it lives). A stop is on disk before its first signal and is driven on by the next process that
looks, so the grace ends on time whatever happens to us meanwhile.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import threading
import time
import uuid
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from clusters.engines.interface import (
    WAITING_TEXT_LENGTH,
    Asker,
    AttemptId,
    AttemptObservation,
    Cursor,
    EngineUnreachable,
    Ensured,
    Execution,
    Forgotten,
    GiveUp,
    Gone,
    GpuFault,
    ImageKind,
    Inventory,
    LogChunks,
    LogCursor,
    LogStreamName,
    Observations,
    OutputFile,
    Retry,
    Sample,
    StartStep,
    Stop,
    Stopping,
    Stream,
    TaskName,
    TaskState,
    TaskWaiting,
    TerminalSize,
    Workload,
)
from clusters.engines.local import execution, passwd, plan, records
from clusters.engines.local.config import LocalEngineConfig
from clusters.engines.local.containers.store import Bounds, ImageStore, ReadyImage
from clusters.engines.local.gpus import Gpus
from clusters.engines.local.inventory import take_inventory
from clusters.engines.local.launching import Launcher, LauncherUnavailable
from clusters.engines.local.launching.verbs import StartAttempt, Started, StartOutcome
from clusters.engines.local.leases import CoreAsk, HostLeases, Lease, LeaseRefused, Table
from clusters.engines.local.logfiles import LogFiles
from clusters.engines.local.measure import Meter
from clusters.engines.local.outputs import Outputs
from clusters.engines.local.watch import Watch

_MINDER_SECONDS = 0.2  # How late a kill after the grace may be, and how long a task may stay above its memory unwatched.
_MINDER_BACKOFF_SECONDS = 5.0
_PURGE_SECONDS = 3_600.0
_IMAGES_SECONDS = 2.0  # How long a batch waits for images that come quickly.
IMAGES = "images"
_UNREADABLE = "What the engine wrote down of the attempt cannot be read, so it cannot say what runs. An operator has to look."

logger = logging.getLogger("berth.engines.local")


class LocalEngine:
    """One local cluster. Threads and processes may share its directory; every method may be repeated."""

    def __init__(self, config: LocalEngineConfig, launcher: Launcher) -> None:
        self.config = config
        self._launcher = launcher
        self._root = config.root
        self._gpus = Gpus(config.simulated())
        self._leases = HostLeases(config.leases)
        self._logs = LogFiles(config.root)
        self._outputs = Outputs(config.root, launcher)
        self._watch = Watch(config, launcher, self._leases)
        self._meter = Meter(config, self._gpus)
        self._images = ImageStore(
            f"{config.root}/{IMAGES}",
            rules=config.registries,
            bounds=Bounds(config.image_bytes_max, config.image_cache_bytes),
            in_use=self._images_in_use,
            are_checked=config.images_are_checked,
        )
        self._minder: threading.Thread | None = None
        self._minder_lock = threading.Lock()
        self._closed = threading.Event()
        self._purged_at = 0.0
        _make_root(self._root)

    # --- The contract ------------------------------------------------------------------------------------------------

    def ensure(self, workloads: Sequence[Workload]) -> Sequence[Ensured | Retry | GiveUp]:
        answers: dict[AttemptId, Ensured | Retry | GiveUp] = {}
        sandboxed = self.config.uses_sandbox
        new = []
        for workload in workloads:
            answer = self._known(workload.attempt_id) or plan.refuse(workload, self.config, sandboxed=sandboxed)
            if answer is None:
                new.append(workload)
            else:
                answers[workload.attempt_id] = answer
        images = self._find_images(new, answers)
        starts = self._plan([item for item in new if item.attempt_id not in answers], answers, images, sandboxed=sandboxed)
        with _reachable():
            results = self._launcher.start(starts) if starts else ()
        for start, result in zip(starts, results, strict=True):
            attempt_id = uuid.UUID(start.attempt_id)
            answers[attempt_id] = self._answer(attempt_id, result)
        failed = [str(key) for key, answer in answers.items() if _starts_nothing(answer)]
        self._release([start.attempt_id for start in starts if start.attempt_id in failed])
        self._mind()
        return [answers[workload.attempt_id] for workload in workloads]

    def observe(self, cursor: Cursor | None) -> Observations:
        with _reachable():
            self._watch.drive()
            items = self._watch.observe()
        self._purge()
        if self._watch.has_live:
            self._mind()
        return Observations(tuple(items), cursor=str(time.time_ns()), complete=True, read_at=datetime.now(UTC))

    def stop(self, stops: Sequence[Stop]) -> Sequence[Stopping | Gone | Retry]:
        with _reachable():
            answers = [self._stop(stop) for stop in stops]
            self._watch.drive([str(stop.attempt_id) for stop in stops])
        self._mind()
        return answers

    def forget(self, attempts: Sequence[AttemptId]) -> Sequence[Forgotten | Retry]:
        answers: dict[AttemptId, Forgotten | Retry] = {}
        ended = []
        with _reachable():
            observed = {item.attempt_id: item for item in self._watch.observe([str(attempt) for attempt in attempts])}
            for attempt in attempts:
                found = observed.get(attempt)
                if found is not None and not found.tasks:
                    answers[attempt] = Retry(attempt, "record_unreadable", _UNREADABLE)
                elif found is not None and not _has_ended(found):
                    answers[attempt] = Retry(attempt, "still_running", "The attempt still runs; stop it first.")
                else:
                    ended.append(attempt)
            removed = self._launcher.remove_attempts(self._root, [str(attempt) for attempt in ended]) if ended else ()
        for attempt, is_removed in zip(ended, removed, strict=True):
            if is_removed:
                self._leave_tombstone(str(attempt))
                answers[attempt] = Forgotten(attempt)
            else:
                answers[attempt] = Retry(attempt, "processes_left", "Processes are still ending, or files are left.", 0.2)
        gone = [str(attempt) for attempt, answer in answers.items() if isinstance(answer, Forgotten)]
        self._watch.drop(gone)
        return [answers[attempt] for attempt in attempts]

    def logs(self, attempt: AttemptId, task: TaskName, stream: Stream, cursor: LogCursor | None) -> LogChunks:
        ended = not self._watch.runs_on(str(attempt), task) and all(
            _task_ended(item.state) for found in self._watch.observe([str(attempt)]) for item in found.tasks if item.name == task
        )
        quota = self._watch.log_quota(str(attempt))
        return self._logs.read(str(attempt), str(task), stream, cursor or 0, quota=quota, ended=ended)

    def inventory(self) -> Inventory:
        with _reachable():
            self._launcher.signal([])  # A host whose launcher is gone can start and stop nothing: say so before a job finds out.
        return take_inventory(self.config, self._gpus)

    # --- More abilities ----------------------------------------------------------------------------------------------

    def list_outputs(self, attempt: AttemptId, paths: Sequence[str]) -> Sequence[OutputFile]:
        with _reachable():
            return self._outputs.list(str(attempt), paths)

    def open_output(self, attempt: AttemptId, path: str) -> int:
        with _reachable():
            return self._outputs.open(str(attempt), path)

    def log_marks(self, streams: Sequence[LogStreamName]) -> Sequence[Hashable]:
        return [self._logs.size(str(attempt), str(task), stream) for attempt, task, stream in streams]

    def execute(
        self, attempt: AttemptId, task: TaskName, argv: Sequence[str], terminal: TerminalSize | None, asker: Asker
    ) -> Execution:
        with _reachable():
            return execution.execute(self._launcher, self._root, str(attempt), task, argv, terminal, asker)

    def sample(self) -> Sequence[Sample]:
        return self._meter.sample(self._watch.live_tasks())

    def gpu_faults(self) -> Sequence[GpuFault]:
        return self._gpus.faults(self.config.node)

    # --- Starting ----------------------------------------------------------------------------------------------------

    def _known(self, attempt_id: AttemptId) -> Ensured | GiveUp | None:
        if not os.path.isdir(self._gate(attempt_id)):
            return None
        if os.path.isdir(f"{self._root}/{records.ATTEMPTS}/{attempt_id}"):
            return Ensured(attempt_id, created=False)
        return GiveUp(
            attempt_id, "attempt_forgotten", "This attempt was stopped before it started, or has ended and been forgotten."
        )

    def _find_images(
        self, workloads: Sequence[Workload], answers: dict[AttemptId, Ensured | Retry | GiveUp]
    ) -> dict[AttemptId, ReadyImage]:
        """The container images of those that name one; what has to wait for its image is answered."""
        found = {}
        deadline = time.monotonic() + _IMAGES_SECONDS
        for workload in workloads:
            if workload.image.kind is not ImageKind.REGISTRY:
                continue
            patient = time.monotonic() < deadline
            image = self._images.get(workload.image, workload.isolation_key, patient=patient)
            if isinstance(image, ReadyImage):
                found[workload.attempt_id] = image
            elif image.passes:
                failed = TaskWaiting(StartStep.IMAGE_RETRY, image.detail[:WAITING_TEXT_LENGTH])
                waiting = TaskWaiting(StartStep.PULLING_IMAGE) if image.is_pulling else failed
                answers[workload.attempt_id] = Retry(workload.attempt_id, image.code, image.detail, waiting=waiting)
            else:
                answers[workload.attempt_id] = GiveUp(workload.attempt_id, image.code, image.detail)
        return found

    def _images_in_use(self) -> frozenset[str]:
        """Digests of container images that attempts of this engine run in, or may be looked at in."""
        found = set()
        for name in os.listdir(f"{self._root}/{records.ATTEMPTS}"):
            record = records.read_started(self._root, name)
            if record is not None:
                found.add(records.parse_attempt(record.attempt).image)
        return frozenset(found)

    def _plan(
        self,
        workloads: Sequence[Workload],
        answers: dict[AttemptId, Ensured | Retry | GiveUp],
        images: Mapping[AttemptId, ReadyImage],
        *,
        sandboxed: bool,
    ) -> list[StartAttempt]:
        needs = [workload for workload in workloads if _needs_lease(workload)]
        leases: dict[AttemptId, Lease] = {}
        if needs:
            devices = self._gpus.usable()
            in_use = self._cores_in_use(workloads)
            with self._leases.locked() as table:
                for workload in needs:
                    try:
                        leases[workload.attempt_id] = self._lease(table, workload, devices, in_use)
                    except LeaseRefused as refused:
                        answers[workload.attempt_id] = _busy(workload, refused.code, refused.detail)
        exclusive = self._leases.exclusive_cores()
        shared = self._watch.shared_cores(exclusive)
        if any(lease.cores for lease in leases.values()):
            with _reachable():
                self._watch.share_cores()  # Tasks that run there leave before the owner comes.
        starts = []
        for workload in workloads:
            if workload.attempt_id in answers:
                continue
            lease = leases.get(workload.attempt_id) or Lease(self._root, 0.0)
            if exclusive and not shared and len(lease.cores) < len(workload.tasks):
                detail = f"All {len(exclusive)} cores of this host belong to one task alone each."
                answers[workload.attempt_id] = _busy(workload, "cores_busy", detail)
                self._release([str(workload.attempt_id)])
                continue
            nodes = {task: self._gpus.device_nodes(tuple(held)) for task, held in lease.gpus.items()}
            simulated = self._gpus.are_simulated and bool(lease.gpus)
            starts.append(
                plan.plan(
                    workload,
                    lease,
                    self.config,
                    sandboxed=sandboxed,
                    simulated=simulated,
                    devices=nodes,
                    shared_cores=shared,
                    container=images.get(workload.attempt_id),
                    user=self._user_of(workload, images.get(workload.attempt_id)),
                )
            )
        return starts

    def _user_of(self, workload: Workload, image: ReadyImage | None) -> str:
        """What the system that the tasks will see calls their user; "" where it has no name for it."""
        content = passwd.read("/" if image is None else image.root, passwd.PASSWD)
        return passwd.name_of(content or b"", self.config.uid_of(workload.isolation_number))

    def _cores_in_use(self, workloads: Sequence[Workload]) -> int:
        """Of tasks that share cores, those that start together with a task that wants cores alone."""
        tasks = [task for workload in workloads for task in workload.tasks]
        if not any(task.cpu_exclusive for task in tasks):
            return 0
        with _reachable():
            running = self._watch.shared_millis()
        return -(-(running + sum(task.resources.cpu_millis for task in tasks if not task.cpu_exclusive)) // 1000)

    def _lease(self, table: Table, workload: Workload, devices: Sequence[str], in_use: int) -> Lease:
        return table.take(
            str(workload.attempt_id),
            self._root,
            ports=[f"{task.name}/{port}" for task in workload.tasks for port in task.ports],
            gpu_millis={str(task.name): task.resources.gpu_millis for task in workload.tasks if task.resources.gpu_millis},
            devices=devices,
            port_range=self.config.ports,
            alone=CoreAsk(
                {str(task.name): plan.cores_of(task) for task in workload.tasks if task.cpu_exclusive},
                self.config.exclusive_cores(),
                in_use,
            ),
        )

    def _answer(self, attempt_id: AttemptId, result: Started) -> Ensured | Retry | GiveUp:
        if result.outcome is StartOutcome.STARTED:
            return Ensured(attempt_id, created=True)
        if result.outcome is StartOutcome.EXISTS:
            return self._known(attempt_id) or Retry(
                attempt_id, "start_in_progress", "The attempt is being started by another worker."
            )
        if result.outcome is StartOutcome.BUSY:
            return Retry(attempt_id, result.code, result.detail)
        return GiveUp(attempt_id, result.code, result.detail)

    def _release(self, attempt_ids: Sequence[str]) -> None:
        if attempt_ids:
            with self._leases.locked() as table:
                table.release(attempt_ids)

    # --- Stopping and forgetting -------------------------------------------------------------------------------------

    def _stop(self, stop: Stop) -> Stopping | Gone | Retry:
        key = str(stop.attempt_id)
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._gate(stop.attempt_id))  # Now no caller can start it any more.
            if os.path.isdir(f"{self._root}/{records.ATTEMPTS}/{key}"):
                self._launcher.remove_attempts(self._root, [key])  # Left behind by a start that died.
            return Gone(stop.attempt_id)
        observed = self._watch.observe([key])
        if any(not item.tasks for item in observed):
            return Retry(stop.attempt_id, "record_unreadable", _UNREADABLE)
        alive = tuple(str(task.name) for item in observed for task in item.tasks if not _task_ended(task.state))
        if not alive:
            return Gone(stop.attempt_id)
        number = int(getattr(signal, f"SIG{stop.signal}", signal.SIGTERM))
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        intent = records.StopIntent(
            cause=stop.cause.value,
            signal=number,
            asked_at=now,
            kill_at=now + max(0.0, stop.grace_seconds),
            boot_id=self._watch.boot_id,
            tasks=alive,
            target=stop.target.value,
        )
        with records.stops_locked(self._root):
            earlier = records.read_stop(self._root, key)
            if earlier is not None and earlier.boot_id == intent.boot_id:  # The first cause stands; a shorter grace counts.
                intent = replace(earlier, kill_at=min(earlier.kill_at, intent.kill_at))
            if intent != earlier:
                records.write_stop(self._root, key, intent)
        return Stopping(stop.attempt_id)

    def _leave_tombstone(self, attempt_id: str) -> None:
        gate = f"{self._root}/{records.GATES}/{attempt_id}"
        with contextlib.suppress(FileExistsError):
            os.mkdir(gate)
        os.utime(gate)  # Its days count from now.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{self._root}/{records.STOPS}/{attempt_id}.json")
        shutil.rmtree(records.note(self._root, attempt_id, ""), ignore_errors=True)

    def _purge(self) -> None:
        """Remove tombstones that are past their days; looked at once an hour."""
        now = time.time()
        if now - self._purged_at < _PURGE_SECONDS:
            return
        self._purged_at = now
        oldest = now - self.config.tombstone_days * 86_400
        for name in os.listdir(f"{self._root}/{records.GATES}"):
            gate = f"{self._root}/{records.GATES}/{name}"
            with contextlib.suppress(FileNotFoundError):  # Another process looked at the same time.
                if os.stat(gate).st_mtime < oldest and not os.path.isdir(f"{self._root}/{records.ATTEMPTS}/{name}"):
                    os.rmdir(gate)

    def _gate(self, attempt_id: AttemptId) -> str:
        return f"{self._root}/{records.GATES}/{attempt_id}"

    # --- Between observations ----------------------------------------------------------------------------------------

    def _mind(self) -> None:
        """Have a thread enforce graces and memory while anything lives; it ends when nothing does."""
        with self._minder_lock:
            if not self._closed.is_set() and (self._minder is None or not self._minder.is_alive()):
                self._minder = threading.Thread(target=self._mind_until_quiet, name="local-engine-minder", daemon=True)
                self._minder.start()

    def _mind_until_quiet(self) -> None:
        while not self._closed.wait(_MINDER_SECONDS):
            try:
                self._watch.drive()
            except LauncherUnavailable as error:  # Restarting; the next round asks again.
                logger.warning("The minder of %s waits for the launcher: %s", self._root, error)
            except Exception:
                logger.exception("The minder of %s failed; it goes on", self._root)
                self._closed.wait(_MINDER_BACKOFF_SECONDS)
            with self._minder_lock:
                if not self._watch.needs_minding:
                    self._minder = None
                    return

    def close(self) -> None:
        """End the minder: this object is no longer used. Tasks go on, and the next engine of the directory minds them."""
        self._closed.set()
        with self._minder_lock:
            minder = self._minder
        if minder is not None:
            minder.join()


@contextlib.contextmanager
def _reachable() -> Iterator[None]:
    try:
        yield
    except LauncherUnavailable as error:
        raise EngineUnreachable(str(error)) from error


def _make_root(root: str) -> None:
    """Make the engine's directories; tasks pass through the first ones, and only we may read the rest."""
    parent = os.path.dirname(root)
    os.makedirs(os.path.dirname(parent), exist_ok=True)
    modes = {parent: 0o711, root: 0o711, f"{root}/{records.ATTEMPTS}": 0o711}
    modes |= {f"{root}/{name}": 0o700 for name in (records.GATES, records.STOPS, records.NOTES)}
    for path, mode in modes.items():
        with contextlib.suppress(FileExistsError):
            os.mkdir(path)
            os.chmod(path, mode)


def _needs_lease(workload: Workload) -> bool:
    return any(task.ports or task.resources.gpu_millis or task.cpu_exclusive for task in workload.tasks)


def _busy(workload: Workload, code: str, detail: str) -> Retry:
    """Other tasks of the host have what it needs, a moment longer than the scheduler thought."""
    waiting = TaskWaiting(StartStep.WAITING_FOR_DEVICES, detail[:WAITING_TEXT_LENGTH])
    return Retry(workload.attempt_id, code, detail, after_seconds=2.0, waiting=waiting)


def _starts_nothing(answer: Ensured | Retry | GiveUp) -> bool:
    """Whether the leases of a start can be given back: it failed, and not because another start is under way."""
    return isinstance(answer, GiveUp) or (isinstance(answer, Retry) and answer.code != "start_in_progress")


def _task_ended(state: TaskState) -> bool:
    return state in (TaskState.ENDED, TaskState.GONE)


def _has_ended(item: AttemptObservation) -> bool:
    return all(_task_ended(task.state) for task in item.tasks)
