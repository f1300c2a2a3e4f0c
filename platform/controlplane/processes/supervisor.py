"""`manage.py serve` in the production profile: starts two or more of each process and keeps them running.

Deliberately small: no Django, no database, no threads, nothing read but the exit and the readiness of its
children. It keeps root where it has it, as an init system does, and only to start the launcher; all others become the service
user before they do anything. It holds the listening socket, so that a web process that dies or is replaced loses no
connection that waits. When it dies itself its children end; the jobs never notice.

SIGTERM ends everything, SIGHUP replaces everything one by one, by the present release if `make up` has put another one there:
the supervisor first runs the other release in its own place, keeping its process id, its children and its socket.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import selectors
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import structlog

from controlplane import logs
from controlplane.instance import (
    EXIT_CONFIG,
    RELEASE,
    CannotStart,
    check_data_directory,
    check_disk,
    check_exposure,
    lay_out_data_directory,
    listen,
    lock_data_directory,
    write_lock,
)
from controlplane.processes import children
from controlplane.processes.children import Child
from controlplane.processes.service_user import owner_of_data
from controlplane.processes.signs import say_ready, say_stopping
from kernel.config import BadSetting, Config, current

log = structlog.get_logger("supervisor")

LAUNCHER, PREPARE = "launcher", "prepare"
STATE = "BERTH_SUPERVISOR_STATE"
FIRST_SECONDS = 15.0  # The first process of each role has the machine to itself for so long; it needs three to start.
READY_SECONDS_MAX = 120.0  # A process that does not say by then that it is ready is taken for broken.
HEALTHY_SECONDS = 10.0  # One that lived so long did not end by its start; the next one starts at once.
PAUSE_SECONDS = (0.2, 15.0)  # The first wait before another try, and the longest.
WEB_END_SECONDS = 5.0  # Beside the time for requests in hand; a kill after that.
WORKER_END_SECONDS = 15.0
END_SECONDS_OTHERS = 10.0
LOOK_SECONDS = 0.5
PREVIOUS_LOOK_SECONDS = 0.05
TRIES = 3  # A new process that ends before it was ready may have been killed; one that does so again and again is broken.


@dataclass(slots=True)
class Brake:
    """How soon a role may be started again after deaths in a row."""

    pause: float = 0.0
    not_before: float = 0.0

    def note_death(self, lived_seconds: float) -> None:
        healthy = lived_seconds >= HEALTHY_SECONDS
        self.pause = 0.0 if healthy else min(PAUSE_SECONDS[1], max(PAUSE_SECONDS[0], self.pause * 2))
        # Some noise: what they die of may be that they all start at once.
        self.not_before = time.monotonic() + self.pause * random.uniform(0.8, 1.2)  # noqa: S311


@dataclass(slots=True)
class Replacing:
    """One step of a rolling restart: the new process must be ready before the old one is asked to end."""

    old_pid: int
    new_pid: int = 0
    tries: int = 0


class Supervisor:
    """The children, and what is to become of them."""

    def __init__(self, config: Config, *, lock: int, listener: int) -> None:
        self.config = config
        self.lock = lock
        self.listener = listener
        self.children: list[Child] = []
        self.roles = _wanted(config)
        self.brakes: dict[str, Brake] = {role: Brake() for role in self.roles}
        self.prepared = False
        self.bootstrap = False
        self.stopping = False
        self.failed = 0  # The exit code of what cannot be helped by trying again.
        self.roll_asked = False
        self.rolling: list[Replacing] = []
        self.said_ready = False
        self._written = ""
        self._wake, self._waker = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    # --- The loop ----------------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Go on until everything has ended; the exit code."""
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, self._note)
        while not (self.stopping and not self.children):
            self._reap()
            if self.roll_asked and not self.stopping and not self._is_busy:
                self._take_the_present_release()
            self._advance()
            self._write_processes()
            self._wait()
        self._write_processes()
        return self.failed

    def _note(self, number: int, frame: FrameType | None) -> None:
        if number in (signal.SIGTERM, signal.SIGINT):
            self.stopping = True
        elif number == signal.SIGHUP:
            self.roll_asked = True

    @property
    def _is_busy(self) -> bool:
        return bool(self.rolling) or not self.prepared

    def _advance(self) -> None:
        if self.stopping:
            self._end_all()
        elif not self.prepared:
            self._prepare()
        else:
            self._replace_next()
            self._start_missing()
            self._tell_ready()
        for child in self.children:
            if child.kill_overdue():
                log.warning("killed", role=child.role, pid=child.pid)

    def _wait(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake, selectors.EVENT_READ)
            for child in self.children:
                if child.ready_fd >= 0:
                    selector.register(child.ready_fd, selectors.EVENT_READ, child)
            for key, _ in selector.select(LOOK_SECONDS if self._has_timers else None):
                if key.data is not None:
                    key.data.hear()
                    log.info("process_ready", role=key.data.role, pid=key.data.pid) if key.data.is_ready else None
                else:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._wake, 4096)

    @property
    def _has_timers(self) -> bool:
        """Whether something is to be done at a time, and not only when a child or a signal says so."""
        waits = any(child.is_ending or not child.is_ready for child in self.children)
        return waits or self.stopping or bool(self.rolling) or bool(self._missing())

    # --- Starting ----------------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Bring the database to this release in a child of its own, before any process of this release uses it."""
        lacks_launcher = LAUNCHER in self.roles and not any(child.role == LAUNCHER for child in self.children)
        if lacks_launcher and time.monotonic() >= self.brakes[LAUNCHER].not_before:
            self._start(LAUNCHER, ["run", LAUNCHER])  # Beside it: on new data, this machine is measured.
        if not any(child.role == PREPARE for child in self.children):
            self._start(PREPARE, [PREPARE, *(["--bootstrap"] if self.bootstrap else [])])

    def _start_missing(self) -> None:
        for role in self._missing():
            if time.monotonic() >= self.brakes[role].not_before:
                self._start(role, ["run", role])

    def _missing(self) -> list[str]:
        """What is to be started: the launcher, then one of each role, and the others when those are ready."""
        if not self.prepared or self.stopping:
            return []
        alive = Counter(child.role for child in self.children if not child.is_ending)
        ready = Counter(child.role for child in self.children if child.is_ready and not child.is_ending)
        if alive[LAUNCHER] < self.roles.get(LAUNCHER, 0):
            return [LAUNCHER]
        first = [role for role in self.roles if not alive[role]]
        if first or any(not ready[role] and self._starts_still(role) for role in self.roles):
            return first
        return [role for role, number in self.roles.items() for _ in range(number - alive[role])]

    def _starts_still(self, role: str) -> bool:
        """Whether a process of this role may still become ready soon. One that hangs keeps no other from being doubled."""
        started = [child.started_at for child in self.children if child.role == role and not child.is_ending]
        return bool(started) and time.monotonic() - min(started) < FIRST_SECONDS

    def _start(self, role: str, words: list[str]) -> Child:
        listener = self.listener if role == "web" else None
        program = [str(RELEASE / "manage.py"), *words]
        child = children.start(role, program, environment=os.environ, listener=listener)
        self.children.append(child)
        log.info("process_started", role=role, pid=child.pid)
        return child

    def _tell_ready(self) -> None:
        if not self.said_ready and not self._missing() and all(child.is_ready for child in self.children):
            self.said_ready = True
            log.info("all_ready", processes=len(self.children), url=self.config.url)
            say_ready()

    # --- Ends --------------------------------------------------------------------------------------------------------

    def _reap(self) -> None:
        """Collect what has ended; as the first process of a container also orphans."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if not pid:
                break
            for child in [each for each in self.children if each.pid == pid]:
                self.children.remove(child)
                self._note_end(child, os.waitstatus_to_exitcode(status))
        self._end_silent()

    def _note_end(self, child: Child, code: int) -> None:
        child.forget_pipe()
        lived = time.monotonic() - child.started_at
        if child.role == PREPARE:
            self._note_prepared(code)
        elif code == EXIT_CONFIG and not self.rolling and not self.said_ready and not self.stopping:
            # It said why. While others of it work, as in a rolling restart, they go on; at the start nothing can.
            log.error("cannot_start", role=child.role, pid=child.pid)
            self.failed, self.stopping = code, True
        elif child.is_ending or self.stopping:
            log.info("process_ended", role=child.role, pid=child.pid, code=code)
        else:
            self.brakes[child.role].note_death(lived)
            wait = round(max(0.0, self.brakes[child.role].not_before - time.monotonic()), 1)
            log.error("process_died", role=child.role, pid=child.pid, code=code, lived_seconds=round(lived, 1), wait_seconds=wait)
        for step in [each for each in self.rolling if each.new_pid == child.pid]:
            step.new_pid = 0
            if step.tries == TRIES and not self.stopping:
                self._give_up_rolling(f"the new {child.role} ended with {code}")

    def _note_prepared(self, code: int) -> None:
        if self.stopping:
            return
        if code == 0:
            self.prepared = True
            return
        if self.rolling or any(
            child.role != LAUNCHER for child in self.children
        ):  # The release before goes on: its database is as good as it was.
            self.prepared = True
            self._give_up_rolling(f"the database could not be prepared (exit {code})")
            return
        self.failed, self.stopping = code if code > 0 else 1, True

    def _end_silent(self) -> None:
        """A process that never says that it is ready is as good as dead."""
        for child in self.children:
            is_silent = child.role != PREPARE and not child.is_ready and not child.is_ending
            if is_silent and time.monotonic() - child.started_at > READY_SECONDS_MAX:
                log.error("never_ready", role=child.role, pid=child.pid, seconds=READY_SECONDS_MAX)
                child.send(signal.SIGKILL)

    def _end_all(self) -> None:
        """All at once; the launcher last, because the others still ask it to end what they have in hand."""
        if not any(child.is_ending for child in self.children):
            log.info("stopping", processes=len(self.children))
            say_stopping()
        others = [child for child in self.children if child.role != LAUNCHER]
        for child in others or self.children:
            child.ask_to_end(within_seconds=self._end_seconds(child.role))

    def _end_seconds(self, role: str) -> float:
        """How long a process of this role may take to end before it is killed."""
        if role == "web":
            return self.config.web_drain_seconds + WEB_END_SECONDS
        return WORKER_END_SECONDS if role == "worker" else END_SECONDS_OTHERS

    # --- Replacing all, one by one -----------------------------------------------------------------------------------

    def _take_the_present_release(self) -> None:
        """Begin a rolling restart: run the present release in our own place, which then replaces the children."""
        interpreter, manage = _present_release(self.config)
        for descriptor in (self.lock, self.listener, *(child.ready_fd for child in self.children if child.ready_fd >= 0)):
            os.set_inheritable(descriptor, True)
        state = {
            "lock": self.lock,
            "listener": self.listener,
            "brakes": {role: brake.pause for role, brake in self.brakes.items()},
            "children": [child.document() for child in self.children],
        }
        log.info("rolling_restart", release=str(manage.parent))
        environment = {**os.environ, STATE: json.dumps(state)}
        os.execve(interpreter, [interpreter, str(manage), "serve"], environment)  # noqa: S606  (ourselves, again)

    def begin_rolling(self) -> None:
        """Replace what the supervisor before us started, after the database is prepared for both releases."""
        self.rolling = [Replacing(child.pid) for role in self.roles for child in self.children if child.role == role]
        for child in [each for each in self.children if each.role not in self.roles]:
            child.ask_to_end(within_seconds=END_SECONDS_OTHERS)  # A role that this release does not have.

    def _replace_next(self) -> None:
        """One step: start the new one; when it is ready, end the old one; when that is gone, go on with the next."""
        while self.rolling and self._find(self.rolling[0].old_pid) is None:
            self.rolling.pop(0)
            if not self.rolling:
                log.info("rolled", release=str(RELEASE))
        if not self.rolling:
            return
        step = self.rolling[0]
        old = self._find(step.old_pid)
        assert old is not None
        if not step.new_pid:
            if time.monotonic() < self.brakes[old.role].not_before:
                return
            step.tries += 1
            step.new_pid = self._start(old.role, ["run", old.role]).pid
            return
        new = self._find(step.new_pid)
        if new is not None and new.is_ready:
            old.ask_to_end(within_seconds=self._end_seconds(old.role))

    def _give_up_rolling(self, why: str) -> None:
        """What runs of the release before goes on; nothing more is replaced until the next SIGHUP."""
        left = len(self.rolling)
        self.rolling = []
        log.error("rolling_restart_given_up", why=why, not_replaced=left)

    def _find(self, pid: int) -> Child | None:
        return next((child for child in self.children if child.pid == pid), None)

    # --- What others read --------------------------------------------------------------------------------------------

    def _write_processes(self) -> None:
        """The process ids of each role. Root writes here in a folder that is not root's: no link is followed."""
        document: dict[str, Any] = {"supervisor": os.getpid(), "release": str(RELEASE), "rolling": bool(self.rolling)}
        for role in self.roles:
            document[role] = [child.pid for child in self.children if child.role == role]
        document["ready"] = sorted(child.pid for child in self.children if child.is_ready)
        text = json.dumps(document) + "\n"
        if text == self._written:
            return
        try:
            _write_whole(self.config.data_dir / "run", "processes.json", text)
        except OSError as error:
            log.warning("processes_not_written", error=str(error))
        self._written = text


def main(arguments: list[str]) -> int:
    """Run the supervisor; `--bootstrap` makes the first operator, tenant and token on new data."""
    logs.set_up(debug=current().debug)
    try:
        return _resume(current()) if STATE in os.environ else _begin(current(), bootstrap="--bootstrap" in arguments)
    except (CannotStart, BadSetting) as reason:
        print(f"berth: {reason}", file=sys.stderr)  # noqa: T201  (`make up` looks for this line)
        return EXIT_CONFIG


def _begin(config: Config, *, bootstrap: bool) -> int:
    os.umask(0o077)
    check_exposure(config)
    check_data_directory(config)
    check_disk(config.data_dir)
    lock = lock_data_directory(config)  # Before the port: who has the lock also has the port, and is the better reason.
    _wait_for_previous(config)
    listener = listen(config)
    owner = owner_of_data()
    lay_out_data_directory(config, uid=owner.pw_uid, gid=owner.pw_gid)
    supervisor = Supervisor(config, lock=lock, listener=children.lift(listener.detach()))
    supervisor.bootstrap = bootstrap
    log.info("supervising", url=config.url, release=str(RELEASE), processes=supervisor.roles)
    return supervisor.run()


def _resume(config: Config) -> int:
    """Go on where the supervisor before us ran this program in its place."""
    state = json.loads(os.environ.pop(STATE))
    os.umask(0o077)
    supervisor = Supervisor(config, lock=state["lock"], listener=state["listener"])
    supervisor.children = [Child(**document) for document in state["children"]]
    for descriptor in (supervisor.lock, supervisor.listener, *(child.ready_fd for child in supervisor.children)):
        if descriptor >= 0:
            os.set_inheritable(descriptor, False)
    for role, pause in state["brakes"].items():
        if role in supervisor.brakes:
            supervisor.brakes[role].pause = pause
    write_lock(supervisor.lock, config)
    supervisor.said_ready = True
    supervisor.begin_rolling()
    return supervisor.run()


def _wait_for_previous(config: Config) -> None:
    """Wait for the processes of a supervisor that was killed. They end by themselves; until then a web process has the port."""
    deadline = time.monotonic() + config.web_drain_seconds + WEB_END_SECONDS
    said: dict[str, list[int]] = {}
    while (left := _left_of_previous(config.data_dir)) and time.monotonic() < deadline:
        if not said:
            said = left
            log.info("waiting_for_previous", processes=left)
        time.sleep(PREVIOUS_LOOK_SECONDS)


def _left_of_previous(data_dir: Path) -> dict[str, list[int]]:
    """Those of its children, as it wrote them down, that still live. An id may be another program's by now."""
    try:
        document = json.loads((data_dir / "run" / "processes.json").read_text())
        roles = {role: pids for role, pids in document.items() if isinstance(pids, list) and role != "ready"}
        found = {role: [pid for pid in pids if _runs_role(int(pid), role)] for role, pids in roles.items()}
    except (OSError, ValueError, AttributeError):
        return {}
    return {role: pids for role, pids in found.items() if pids}


def _runs_role(pid: int, role: str) -> bool:
    """Whether this process is `manage.py run ROLE`; one that has ended has no command line."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return [b"run", role.encode()] == words[2:4] and words[1].endswith(b"manage.py")


def _wanted(config: Config) -> dict[str, int]:
    """How many of each role, in the order in which they are started and replaced."""
    wanted = {
        "web": config.web_processes,
        "scheduler": config.scheduler_processes,
        "worker": config.worker_processes,
        "observer": config.observer_processes,
    }
    has_launcher = os.geteuid() == 0 and config.local_cluster
    return {LAUNCHER: 1, **wanted} if has_launcher else wanted


def _present_release(config: Config) -> tuple[str, Path]:
    """The interpreter and the program that `make up` put in place last; our own where it did not start us.

    What root runs must be root's: a release that others could have written is not taken.
    """
    folder = config.data_dir / "release"
    if RELEASE.parent != folder.resolve():
        return sys.executable, RELEASE / "manage.py"
    try:
        release = folder / (folder / "current").read_text().strip()
        interpreter = (folder / "interpreter").read_text().strip()
        manage = release / "manage.py"
        if os.geteuid() == 0 and manage.stat().st_uid != 0:
            raise PermissionError(f"{manage} is not root's")
        if not os.access(interpreter, os.X_OK):
            raise FileNotFoundError(interpreter)
    except OSError as error:
        log.error("release_not_taken", error=str(error))
        return sys.executable, RELEASE / "manage.py"
    return interpreter, manage


def _write_whole(folder: Path, name: str, text: str) -> None:
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        temporary = f".{name}.{os.getpid()}"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=directory)
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o644, dir_fd=directory)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            os.fchmod(descriptor, 0o644)
        os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    finally:
        os.close(directory)
