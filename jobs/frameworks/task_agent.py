"""Runs inside a task, before and around its command: what a framework needs there, the same on every engine.

It refuses an image that lacks the framework's package, waits until the tasks of other roles are ready, starts the framework's
services (a scheduler, a master) beside the command, says when this task is ready itself, and runs a command that failed once more
where the job has tries for it. What to do stands in BERTH_TASK_PLAN (`jobs/frameworks/agent.py` writes it).

This file is sent to the tasks and run by whatever python3 their image has (3.7 or later), so it uses the standard library only
and imports nothing of Berth. Nothing of it is seen where a command runs once and ends: the task ends with the command's own code,
or by the same signal."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any, BinaryIO, Dict, Tuple  # noqa: UP035 - python3.7 evaluates the aliases below.

PACKAGE_ABSENT = 1  # The line before it names the end (`jobs/lifecycle/exit_table.py`), as of the next.
NOT_READY = 75  # EX_TEMPFAIL.
READY_SECONDS = 600.0  # As in `jobs/frameworks/agent.py`.
NOTICE_SECONDS = 15.0
LOOK_SECONDS = 0.05
CONNECT_SECONDS = 2.0
STOP_SECONDS = 5.0  # Of a service, after the command has ended: TERM, then KILL.
BACKOFF_SECONDS_MAX = 30.0
HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
SHELLS = ("ash", "bash", "busybox", "dash", "ksh", "mksh", "sh", "zsh")
SCRATCH = ("/tmp", os.environ.get("TMPDIR", "/tmp"))  # noqa: S108 - mkdtemp makes a private folder; a long path breaks sockets.
PR_SET_CHILD_SUBREAPER = 36
_folders: list[str] = []  # Of this task alone; they go with it.
READY_FILE = os.environ.pop("BERTH_READY_FILE", "")

Peer = Tuple[str, str, int]  # noqa: UP006 - task, address, port.
Plan = Dict[str, Any]  # noqa: UP006


def main() -> int:
    try:
        code = carry_out(json.loads(os.environ.pop("BERTH_TASK_PLAN")))
    finally:
        for folder in _folders:
            shutil.rmtree(folder, ignore_errors=True)
    return end_alike(code)


def carry_out(plan: Plan) -> int:
    """The code of the command, negative for a signal, once it needs no further try."""
    stop = Stopping(plan.get("signal_target", "programs"))
    for number in HANDLED:
        signal.signal(number, stop.note)
    prepare(plan.get("prepare"))
    refuse_absent(plan.get("requires", ()))
    wait_for(peers_of(plan.get("after", ())), plan["wait_seconds"], stop)
    fill = Filling(plan)
    ready = Readiness(plan)
    code, tried = 128 + signal.SIGTERM, 0
    while not stop.is_asked:
        code = CommandRun(plan, fill, ready, stop).to_its_end()
        if ready.failed.is_set():
            return NOT_READY
        if code == 0 or stop.is_asked or tried >= plan.get("max_retry", 0) or not may_retry(plan, code):
            break
        tried += 1
        say(f"the command {end_in_words(code)}; it is started again ({tried} of {plan['max_retry']})")
        stop.event.wait(min(2.0 ** (tried - 1), BACKOFF_SECONDS_MAX))
    if code and not stop.is_asked and plan.get("after_failure"):
        subprocess.call(fill.argv(plan["after_failure"]), env=fill.env, stdin=subprocess.DEVNULL)
    return code


def may_retry(plan: Plan, code: int) -> bool:
    """Whether the job wants another try after this end; a signal is told as shells tell it."""
    codes = plan.get("retry_codes")
    return not codes or (code if code >= 0 else 128 - code) in codes


# --- Before the command ----------------------------------------------------------------------------------------------


def prepare(argv: list[list[str]] | None) -> None:
    """Run what the job has for a role whose command is its framework's; the task ends where it fails."""
    if argv:
        code = subprocess.call(["".join(parts) for parts in argv], stdin=subprocess.DEVNULL)
        if code:
            say(f"the preparation {end_in_words(code)}")
            sys.exit(code if code > 0 else 128 - code)


def refuse_absent(required: list[dict[str, str]]) -> None:
    """End, naming what to install, where a module or program of the framework is not in the image."""
    missing = [entry for entry in required if not is_there(entry)]
    for entry in missing:
        say(f"not installed in the image: {entry['name']}. Add it: {entry['install']}")
    if missing:
        sys.exit(PACKAGE_ABSENT)


def is_there(entry: dict[str, str]) -> bool:
    if os.environ.get(entry.get("variable") or ""):
        return True
    if entry.get("program"):
        path = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
        return shutil.which(entry["program"], path=path) is not None
    if importlib.util.find_spec(entry["module"]) is not None:
        return True
    python = shutil.which("python")  # An image whose `python` is another one than its `python3`.
    if python is None or os.path.realpath(python) == os.path.realpath(sys.executable):
        return False
    look = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"
    return subprocess.call([python, "-c", look, entry["module"]], stderr=subprocess.DEVNULL) == 0


def peers_of(roles: list[str]) -> list[Peer]:
    """Where the tasks of these roles say that they are ready."""
    if not roles:
        return []
    with open(READY_FILE, encoding="utf-8") as lines:
        entries = [line.split() for line in lines if line.strip()]
    return [(f"{role}-{index}", address, int(port)) for role, index, address, port in entries if role in roles]


def wait_for(peers: list[Peer], seconds: float, stop: Stopping) -> None:
    """Until all are ready; says every now and then which are not yet, and ends the task when the time is over."""
    began = noticed = time.monotonic()
    missing = list(peers)
    while missing and not stop.is_asked:
        missing = [peer for peer in missing if not answers(peer[1], peer[2])]
        now = time.monotonic()
        names = ", ".join(name for name, _, _ in missing[:5]) + (" ..." if len(missing) > 5 else "")
        if missing and now - began > seconds:
            say(f"not ready after {seconds:.0f} s: {names}")
            sys.exit(NOT_READY)
        if missing and now - noticed > NOTICE_SECONDS:
            noticed = now
            say(f"waits until {len(missing)} of {len(peers)} tasks are ready: {names}")
        if missing:
            stop.event.wait(LOOK_SECONDS)


def answers(address: str, port: int, path: str = "") -> bool:
    """Whether something listens there; with a path, whether it answers a GET of it by 2xx or 3xx."""
    try:
        if not path:
            with socket.create_connection((address, port), timeout=CONNECT_SECONDS):
                return True
        import urllib.request  # It costs a tenth of a second of a core, and most tasks have no path.

        host = f"[{address}]" if ":" in address else address
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://{host}:{port}{path}", timeout=CONNECT_SECONDS):
            return True
    except (OSError, ValueError):
        return False


def own_address(plan: Plan) -> str:
    """Where programs of this task listen."""
    host = os.environ.get("BERTH_HOST", "127.0.0.1")
    return plan.get("loopback") or host if host == "127.0.0.1" else host


class Filling:
    """Puts in what only the task itself knows: its private folder, and its secret variables."""

    def __init__(self, plan: Plan) -> None:
        self._loopback = plan.get("loopback", "")
        self._folder = ""
        self.env = {**os.environ, **{name: self.text(parts) for name, parts in plan.get("env", {}).items()}}
        for name, parts in plan.get("files", {}).items():
            path = os.path.join(self._scratch(), name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                os.chmod(path, 0o700)  # Programs among them run, and ssh takes no key that others may read.
                file.write(self.text(parts))

    def text(self, parts: list[Any]) -> str:
        return "".join(part if isinstance(part, str) else self._own(part) for part in parts)

    def argv(self, arguments: list[list[Any]]) -> list[str]:
        return [self.text(parts) for parts in arguments]

    def _own(self, part: dict[str, str]) -> str:
        if "env" in part:
            return os.environ.get(part["env"], "")
        if "address" in part:
            return self._loopback if self._loopback and part["address"] == "127.0.0.1" else part["address"]
        if "work" in part:
            with contextlib.suppress(OSError):  # A working directory that may only be read has no outputs either.
                return made(os.path.abspath(part["work"]))
        return made(os.path.join(self._scratch(), part.get("scratch") or part["work"]))

    def _scratch(self) -> str:
        if not self._folder:
            parent = next((folder for folder in SCRATCH if os.access(folder, os.W_OK)), None)
            self._folder = tempfile.mkdtemp(prefix="berth-", dir=parent)
            _folders.append(self._folder)
        return self._folder


def made(path: str) -> str:
    """The path of a folder that is there from now on."""
    os.makedirs(path, exist_ok=True)
    return path


# --- The command and what runs beside it -----------------------------------------------------------------------------


class CommandRun:
    """One time through services and command. All that it started is gone when it is over."""

    def __init__(self, plan: Plan, fill: Filling, ready: Readiness, stop: Stopping) -> None:
        self._plan, self._fill, self._ready, self._stop = plan, fill, ready, stop
        self._services: dict[str, subprocess.Popen[bytes]] = {}

    def to_its_end(self) -> int:
        """The command's code, negative for a signal."""
        adopt_orphans()
        try:
            failed = self._start_services()
            if failed or self._stop.is_asked:
                return failed or 128 + signal.SIGTERM
            if self._services:
                self._ready.watch()
            wait_for(peers_of(self._plan.get("before", ())), self._plan["wait_seconds"], self._stop)
            return self._command()
        finally:
            end_all(list(self._services.values()))
            kill_rest()

    def _start_services(self) -> int:
        """Start each when the one before it is up. 0, or the code with which one of them ended."""
        for service in self._plan.get("services", ()):
            process = subprocess.Popen(self._fill.argv(service["argv"]), env=self._fill.env, stdin=subprocess.DEVNULL)
            self._services[service["name"]] = process
            host, port = own_address(self._plan), int(service["port"] or 0)
            began = time.monotonic()
            while port and not self._stop.is_asked and not answers(host, port):
                if process.poll() is not None:
                    say(f"{service['name']} {end_in_words(process.returncode)} before it was up")
                    return process.returncode or 1
                if time.monotonic() - began > READY_SECONDS:
                    say(f"not ready after {READY_SECONDS:.0f} s: {service['name']} of this task")
                    return NOT_READY
                self._stop.event.wait(LOOK_SECONDS)
        return 0

    def _command(self) -> int:
        argv = self._fill.argv(self._plan["argv"])
        if not argv:  # Services alone: the task is over when one of them is.
            return self._watch([])
        output = subprocess.PIPE if self._ready.log else None
        processes = [
            subprocess.Popen(argv, env={**self._fill.env, **own}, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
            for own in own_variables(self._plan)
        ]
        copies = [thread for process in processes for thread in self._ready.copy(process)]
        if not self._services:
            self._ready.watch()
        code = self._watch(processes)
        end_all([process for process in processes if process.poll() is None])
        for thread in copies:
            thread.join(STOP_SECONDS)
        return code

    def _watch(self, processes: list[subprocess.Popen[bytes]]) -> int:
        """Until all processes of the command have ended well, one of them badly, or a service has ended.

        Children are waited for by their signal, so that nothing is asked again and again while nothing happens."""
        while True:
            codes = [process.poll() for process in processes]
            bad = [code for code in codes if code]
            if bad or (processes and None not in codes):
                return bad[0] if bad else 0
            for name, process in self._services.items():
                if process.poll() is not None:
                    if self._stop.is_asked:
                        return process.returncode
                    say(f"{name} {end_in_words(process.returncode)}, and the command with it")
                    return process.returncode or 1
            wait_for_child([process.pid for process in (*processes, *self._services.values())])


def own_variables(plan: Plan) -> list[dict[str, str]]:
    """What each process of the command has besides the task's variables: where they share GPUs, one of these."""
    processes: list[dict[str, str]] = plan.get("processes") or [{}]
    devices = [device for device in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if device]
    if len(processes) == 1 or not devices:
        return processes
    share = plan["processes_per_gpu"]
    return [{**own, "CUDA_VISIBLE_DEVICES": devices[number // share]} for number, own in enumerate(processes)]


class Readiness:
    """Whether this task is ready, and telling it to those who ask: a port that is open from then on."""

    def __init__(self, plan: Plan) -> None:
        self._check = plan.get("ready") or {}
        self._host = own_address(plan)
        self._port = int(plan.get("ready_port") or 0)
        self._seconds = float(self._check.get("seconds") or READY_SECONDS)
        self.log = self._check.get("log", "").encode()
        self._logged = threading.Event()
        self.failed = threading.Event()
        self._is_watched = False

    def watch(self) -> None:
        """Begin to look, once."""
        if not self._is_watched and (self._port or self._check):
            self._is_watched = True
            threading.Thread(target=self._look, daemon=True).start()

    def copy(self, process: subprocess.Popen[bytes]) -> list[threading.Thread]:
        """Pass on what the process writes, looking for the line that says ready."""
        pairs = [(process.stdout, sys.stdout.buffer), (process.stderr, sys.stderr.buffer)]
        threads = [
            threading.Thread(target=self._pass_on, args=(source, target), daemon=True) for source, target in pairs if source
        ]
        for thread in threads:
            thread.start()
        return threads

    def _pass_on(self, source: BinaryIO, target: BinaryIO) -> None:
        tail = b""
        while True:
            data = os.read(source.fileno(), 65536)
            if not data:
                return
            target.write(data)
            target.flush()
            if not self._logged.is_set():
                tail = (tail + data)[-(len(data) + len(self.log)) :]
                if self.log in tail:
                    self._logged.set()

    def _look(self) -> None:
        began = time.monotonic()
        while not self._is_ready():
            if time.monotonic() - began > self._seconds:
                say(f"not ready after {self._seconds:.0f} s: this task")
                self._fail()
                return
            time.sleep(LOOK_SECONDS)
        if self._port and not listen_for_ever(self._port):
            self._fail()

    def _fail(self) -> None:
        """End the command; the thread that waits for it ends the task."""
        self.failed.set()
        tell([pid for pid, _, _, _ in descendants()], signal.SIGKILL)

    def _is_ready(self) -> bool:
        if self.log:
            return self._logged.is_set()
        if not self._check.get("port"):
            return True
        return answers(self._host, int(self._check["port"]), self._check.get("path", ""))


def listen_for_ever(port: int) -> bool:
    """Accept and close: a peer that can connect knows enough. False where that cannot be."""
    own = os.environ.get("BERTH_HOST", "")
    server = socket.socket(socket.AF_INET6 if ":" in own else socket.AF_INET)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        try:
            server.bind((own, port))
        except OSError:
            server.bind(("", port))  # The address is one that others see, not one of this machine's own.
        server.listen(128)
    except OSError as error:
        say(f"cannot say that this task is ready: port {port}: {error.strerror}")
        return False
    while True:
        with contextlib.suppress(OSError):
            server.accept()[0].close()


# --- Ends ------------------------------------------------------------------------------------------------------------


class Stopping:
    """Whether the end of this task was asked for by a signal, and passing that signal on where the engine did not.

    An engine gives it to those processes of a task that handle it, and to all where none does. This program handles it, so the
    second case looks to the engine like the first: then the others are told from here."""

    def __init__(self, target: str) -> None:
        self.event = threading.Event()
        self._target = target

    @property
    def is_asked(self) -> bool:
        return self.event.is_set()

    def note(self, number: int, _: object) -> None:
        self.event.set()
        processes = list(descendants())
        if self._target == "first":
            tell([pid for pid, parent, _, _ in processes if parent == os.getpid()], number)
        elif not (any(handles(mask, number, name) for _, _, name, mask in processes) or all_are_shells(processes)):
            tell([pid for pid, _, _, _ in processes], number)


def tell(pids: list[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def all_are_shells(processes: list[tuple[int, int, str, int]]) -> bool:
    """Shells alone go on with their script: the program that handled the signal may have ended just now."""
    return all(name in SHELLS for _, _, name, _ in processes)


def handles(mask: int, number: int, name: str) -> bool:
    """Every shell handles INT, by leaving its script."""
    return bool(mask >> (number - 1) & 1) and not (number == signal.SIGINT and name in SHELLS)


def descendants() -> list[tuple[int, int, str, int]]:
    """Pid, parent, name and mask of handled signals of all processes that come from this one."""
    seen: dict[int, tuple[int, str, int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError, KeyError, ValueError), open(f"/proc/{entry}/status", encoding="utf-8") as lines:
                words = dict(line.rstrip("\n").split(":\t", 1) for line in lines if ":\t" in line)
                if not words["State"].startswith(("Z", "X")):
                    seen[int(entry)] = (int(words["PPid"]), words["Name"], int(words["SigCgt"], 16))
    own, grew = {os.getpid()}, True
    while grew:
        more = {pid for pid, (parent, _, _) in seen.items() if parent in own} - own
        own |= more
        grew = bool(more)
    return [(pid, *seen[pid]) for pid in sorted(own - {os.getpid()}) if pid in seen]


def adopt_orphans() -> None:
    """Descendants whose parent has ended become children of this process, so that none outlives a run."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def wait_for_child(own: list[int]) -> None:
    """Until one of these children has ended, which is left for its `poll`. Orphans that end meanwhile are let go."""
    with contextlib.suppress(ChildProcessError):
        while True:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
            if ended is None or ended.si_pid in own:
                return
            os.waitpid(ended.si_pid, 0)


def end_all(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        if process.poll() is None:
            process.terminate()
    deadline = time.monotonic() + STOP_SECONDS
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def kill_rest() -> None:
    """What a command leaves running would be there twice after another try."""
    for _ in range(50):
        left = descendants()
        tell([pid for pid, _, _, _ in left], signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not left:
            return
        time.sleep(0.02)


def end_in_words(code: int) -> str:
    return f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"


def end_alike(code: int) -> int:
    """The same end as the command's; by the same signal, where one ended it."""
    if code >= 0:
        return code
    sys.stdout.flush()
    sys.stderr.flush()
    with contextlib.suppress(OSError, ValueError):
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
    return 128 - code


def say(text: str) -> None:
    sys.stderr.write(f"berth: {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
