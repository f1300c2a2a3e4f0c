"""The engine's memory: small files in each attempt's directory, written whole or not at all. There is no database here.

`control/started.json` is the launcher's (who started what, with which pids); `stops/<attempt id>.json` is the engine's
(a stop that was asked for); `gates/<attempt id>` is taken once, by a start or by a refusal, and outlives the attempt.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ATTEMPTS, GATES, STOPS, NOTES, CONTROL = "attempts", "gates", "stops", "notes", "control"
STOPS_SECONDS = 2.0  # A change of a stop takes milliseconds.
_LOCK_PAUSE_SECONDS = 0.002
WORK, HOME, FILES, USERS, TEMPORARY = "work", "home", "files", "users", "tmp"


@dataclass(frozen=True, slots=True)
class StartedTask:
    pid: int
    start_ticks: int
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StartedRecord:
    """What the launcher wrote just before the tasks were let go."""

    boot_id: str
    started_at: float
    sandbox: bool
    seccomp: bool
    attempt: Mapping[str, Any]
    tasks: Mapping[str, StartedTask]
    container: bool = False  # The tasks see a container image, in a user namespace of their own.
    builds_image: bool = False  # One of its tasks puts a container image together, another one may hold an account for it.


@dataclass(frozen=True, slots=True)
class StopIntent:
    """A stop, recorded before its first signal. Times are seconds of the boot clock, which no one sets back.

    `tasks` are those that were alive: only their ends count as stopped. `told` are the processes that got the signal, by id and
    start time in ticks, `later` those of any task that get it when all of these have ended.
    """

    cause: str
    signal: int
    asked_at: float
    kill_at: float
    boot_id: str
    tasks: tuple[str, ...]
    signalled: bool = False
    killed: bool = False
    target: str = "all"  # A stop that an older release recorded.
    told: tuple[tuple[int, int], ...] = ()
    later: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """What the engine asked the launcher to keep with the attempt; never a secret."""

    number: int
    uid: int
    gid: int
    groups: tuple[int, ...]
    log_quota_bytes: int
    gpus_simulated: bool
    tasks: Mapping[str, TaskRecord] = field(default_factory=dict)
    job_id: str = ""  # Empty in records of release 0.1.
    name: str = ""
    isolation_key: str = ""
    image: str = ""  # The digest of the container image that it runs in.
    user: str = ""  # What its user is called, where the system that it sees has no name for it.


@dataclass(frozen=True, slots=True)
class TaskRecord:
    role: str
    index: int
    ports: Mapping[str, int]
    gpus: tuple[str, ...]
    memory_bytes: int
    program: str
    cpu_millis: int = 0
    gpu_millis: int = 0
    cores: tuple[int, ...] = ()  # That are this task's alone; empty: it shares what no task has alone.


def read_started(root: str, attempt_id: str) -> StartedRecord | None:
    """Read the record of a start, or None if there is none."""
    found = read_json(f"{root}/{ATTEMPTS}/{attempt_id}/{CONTROL}/started.json")
    if found is None:
        return None
    tasks = {name: StartedTask(task["pid"], task["start_ticks"], tuple(task["groups"])) for name, task in found["tasks"].items()}
    seccomp = found.get("seccomp", False)  # Absent in records of release 0.1.
    return StartedRecord(
        found["boot_id"],
        found["started_at"],
        found["sandbox"],
        seccomp,
        found["attempt"],
        tasks,
        found.get("container", False),
        found.get("builds_image", False),
    )


def parse_attempt(kept: Mapping[str, Any]) -> AttemptRecord:
    """Give the engine's part of a start record as a value."""
    tasks = {name: _task(task) for name, task in kept["tasks"].items()}
    return AttemptRecord(
        kept["number"],
        kept["uid"],
        kept["gid"],
        tuple(kept["groups"]),
        kept["log_quota_bytes"],
        kept["gpus_simulated"],
        tasks,
        kept.get("job_id", ""),
        kept.get("name", ""),
        kept.get("isolation_key", ""),
        kept.get("image", ""),
        kept.get("user", ""),
    )


def _task(kept: Mapping[str, Any]) -> TaskRecord:
    return TaskRecord(
        role=kept["role"],
        index=kept["index"],
        ports=kept["ports"],
        gpus=tuple(kept["gpus"]),
        memory_bytes=kept["memory_bytes"],
        program=kept["program"],
        cpu_millis=kept.get("cpu_millis", 0),
        gpu_millis=kept.get("gpu_millis", 0),
        cores=tuple(kept.get("cores", ())),
    )


def document(attempt: AttemptRecord) -> dict[str, Any]:
    """Give the record as JSON can hold it, for `parse_attempt`."""
    tasks = {
        name: {
            "role": task.role,
            "index": task.index,
            "ports": dict(task.ports),
            "gpus": task.gpus,
            "memory_bytes": task.memory_bytes,
            "program": task.program,
            "cpu_millis": task.cpu_millis,
            "gpu_millis": task.gpu_millis,
            "cores": task.cores,
        }
        for name, task in attempt.tasks.items()
    }
    return {
        "number": attempt.number,
        "uid": attempt.uid,
        "gid": attempt.gid,
        "groups": attempt.groups,
        "log_quota_bytes": attempt.log_quota_bytes,
        "gpus_simulated": attempt.gpus_simulated,
        "tasks": tasks,
        "job_id": attempt.job_id,
        "name": attempt.name,
        "isolation_key": attempt.isolation_key,
        "image": attempt.image,
        "user": attempt.user,
    }


def read_stop(root: str, attempt_id: str) -> StopIntent | None:
    """Read a stop; None if there is none, or none that can be read: the platform asks again until its attempt has ended."""
    try:
        found = read_json(f"{root}/{STOPS}/{attempt_id}.json")
        if not found:
            return None
        pids = {name: tuple((int(pid), int(start)) for pid, start in found.get(name, ())) for name in ("told", "later")}
        return StopIntent(**{**found, **pids, "tasks": tuple(found["tasks"])})
    except (ValueError, KeyError, TypeError):
        return None


def write_stop(root: str, attempt_id: str, intent: StopIntent) -> None:
    write_json(Path(f"{root}/{STOPS}/{attempt_id}.json"), asdict(intent))


@contextlib.contextmanager
def stops_locked(root: str) -> Iterator[None]:
    """Change stops alone: several processes drive them, and a task shall get its signal once.

    A process that froze with the lock may not keep a job from being stopped: after a while we go on without it.
    """
    descriptor = os.open(f"{root}/{STOPS}/.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        lock_within(descriptor, STOPS_SECONDS)
        yield
    finally:
        os.close(descriptor)


def lock_within(descriptor: int, seconds: float) -> bool:
    """Lock an open file for this process; whether that worked in time. Closing the file unlocks it."""
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(_LOCK_PAUSE_SECONDS)


def note(root: str, attempt_id: str, name: str, *, make: bool = False) -> Path:
    """Give the path of a rare finding about an attempt (memory verdict, cut output), `make` with its directory."""
    directory = Path(f"{root}/{NOTES}/{attempt_id}")
    if make:
        directory.mkdir(mode=0o700, exist_ok=True)
    return directory / name


def read_json(path: str | Path) -> dict[str, Any] | None:
    """Read a JSON object; None if the file is not there."""
    try:
        with open(path, "rb") as file:
            found: dict[str, Any] = json.loads(file.read())
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write atomically: readers see the old file or the new one."""
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w") as file:
            json.dump(document, file)
        os.rename(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
