"""Start a program beside a live task: in its namespaces and control groups, as its user, at a terminal or at plain pipes.

Nothing of who and where comes from the request: user, groups and processes are in the record that the launcher wrote when it
started the task. What runs with root is fixed (a shell of ours that joins the groups, nsenter, setsid, setpriv) and finds a
fixed environment; what the task found in its own at start comes in memory, and is read by a shell that is the tenant already.

Beside a task in a container image nothing of that could be trusted to be the host's: `entering` starts what goes there.

The terminal is made in the sandbox's own /dev/pts, so that programs find it there by its name.

A shell lives no longer than its lifeline: a connection to the caller. It carries the exit code at the end; when it closes
before, the shell and what it started are told to hang up, and killed a moment later. What left the shell's session stays, as
behind every terminal, and ends with the task.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import selectors
import shlex
import shutil
import signal
import socket
import struct
import termios
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from clusters.engines.local import processes, records
from clusters.engines.local.launching import beneath, entering, syscalls, wire
from clusters.engines.local.launching.policy import Policy
from clusters.engines.local.launching.verbs import LauncherRefused, OpenedShell, OpenShell, Owner
from kernel.limits import COMMAND_ARGUMENTS, ENV_BYTES, TERMINAL_CELLS, TEXT_BYTES

SHELLS_MAX = 64  # At once on one host: each holds a thread, a connection and a terminal.
SHELLS_PER_TENANT = 32  # Half: whatever one tenant does, the others open some.
SHELLS_PER_USER = 16  # Half of that again.
_HANG_UP_SECONDS = 1.0  # For a shell to save its history, an editor its file.
_PAUSE_SECONDS = 0.02
_START_SECONDS = 2.0  # For a task that starts just now to become its program.
_ENVIRONMENT_BYTES = 4 * ENV_BYTES
_NS_GET_USERNS = 0xB701  # linux/nsfs.h: the user namespace that another namespace belongs to.
_TIOCSPTLCK = 0x40045431  # asm-generic/ioctls.h: the lock that a new terminal has.
_TIOCGPTPEER = 0x5441  # The same, Linux 4.13: the terminal's other end, without a path to it.
_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
_MARKER = processes.TASK_MARKER.encode()
_NAME = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*")
_NAMESPACES = (
    ("user", "--user"),
    ("mnt", "--mount"),
    ("pid", "--pid"),
    ("ipc", "--ipc"),
    ("uts", "--uts"),
    ("cgroup", "--cgroup"),
    ("net", "--net"),
)
_JOIN = """\
cd /
while [ "$1" != -- ]; do echo 0 >"$1" || { echo "berth: cannot join $1" >&2; exit 126; }; shift; done
shift
exec "$@"
"""
_BECOME = ". /proc/self/fd/3 && exec 3<&-\n" + 'exec "$@"'
_FOR_A_PERSON = "if [ -x /bin/bash ]; then exec /bin/bash -i; fi; exec /bin/sh -i"


@dataclass
class _Opening:
    """Descriptors of one start, so that whatever happens is undone."""

    descriptors: list[int] = field(default_factory=list)

    def keep(self, descriptor: int) -> int:
        self.descriptors.append(descriptor)
        return descriptor

    def close(self, *descriptors: int) -> None:
        for descriptor in descriptors or tuple(self.descriptors):
            os.close(descriptor)
            self.descriptors.remove(descriptor)


@dataclass(frozen=True, slots=True)
class _Target:
    """A live task: whose namespaces to join, which process to take cores from, and what it found in its environment."""

    frame: processes.Process
    program: processes.Process
    environment: Mapping[bytes, bytes] = field(repr=False)
    owner: Owner
    groups: tuple[str, ...]
    seccomp: bool
    container: bool


class Slots:
    """Places for shells: `SHELLS_MAX`, and a share of them for each tenant and user. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: Counter[tuple[str, str]] = Counter()

    def take(self, ask: OpenShell) -> Callable[[], None]:
        """A place; what is returned gives it back. OSError where there is none."""
        shares = [(("host", ""), SHELLS_MAX, "on this host")]
        shares += [(("tenant", ask.tenant), SHELLS_PER_TENANT, "on this host for this tenant")] if ask.tenant else []
        shares += [(("user", ask.user), SHELLS_PER_USER, "on this host for this person")] if ask.user else []
        with self._lock:
            for who, share, words in shares:
                if self._taken[who] >= share:
                    raise OSError(errno.EAGAIN, f"{share} shells are open {words}")
            self._taken.update(who for who, _, _ in shares)
        return lambda: self._give_back([who for who, _, _ in shares])

    def _give_back(self, whose: list[tuple[str, str]]) -> None:
        with self._lock:
            self._taken.subtract(whose)
            self._taken = +self._taken  # Without those who have none.


class Shells:
    """Starts shells, never more at once than there are places."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._slots = Slots()

    def start(self, ask: OpenShell) -> Shell:
        """Start one. LauncherRefused where the request is none that can be carried out, OSError where the task is gone."""
        _check(ask)
        give_back = self._slots.take(ask)  # Before the task is looked for: for one that hides, this takes seconds.
        opening = _Opening()
        try:
            return self._start(ask, _find(ask, self._policy), opening, give_back)
        except BaseException:
            opening.close()
            give_back()
            raise

    def _start(self, ask: OpenShell, target: _Target, opening: _Opening, give_back: Callable[[], None]) -> Shell:
        script = opening.keep(os.memfd_create("berth-exec", os.MFD_CLOEXEC))
        with open(script, "wb", closefd=False) as file:
            file.write(_script(target.environment, ask))
        if target.container:
            return self._start_in_image(ask, target, script, opening, give_back)
        input_end, output_end, standard = _ends(ask, target, opening)
        spaces = _namespaces(target.frame, opening)
        if not processes.is_alive(target.frame.pid, target.frame.start_ticks):
            raise _gone(ask)  # The opened descriptors may be another process's.
        pid = _spawn(ask, target, standard, script, spaces, self._policy)
        ours = dict.fromkeys((input_end, output_end))
        opening.close(*[number for number in opening.descriptors if number not in ours and number not in spaces.values()])
        return Shell(pid, input_end, output_end, tuple(spaces.values()), give_back)

    def _start_in_image(
        self, ask: OpenShell, target: _Target, script: int, opening: _Opening, give_back: Callable[[], None]
    ) -> Shell:
        if ask.terminal:
            nothing = opening.keep(os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC))
            input_end, output_end, standard = -1, -1, (nothing, nothing)
        else:
            input_end, output_end, standard = _pipes(opening)
        owner = target.owner if self._policy.drop_rights else None
        size = (ask.rows, ask.columns) if ask.terminal else None
        argv = tuple(ask.argv or _shell_for(ask))
        entrance = entering.Entrance(target.frame, owner, target.groups, target.seccomp, argv, size)
        with _on_cores_of(target.program.pid):
            pid, master = entering.enter(entrance, standard=standard, script=script)
        if master is not None:
            input_end = output_end = master
        opening.close(*[number for number in opening.descriptors if number not in (input_end, output_end)])
        return Shell(pid, input_end, output_end, (), give_back)


class Shell:
    """A program that runs beside a task, as a child of this process. Its owner calls one of the two `keep`."""

    def __init__(self, pid: int, input_end: int, output_end: int, held: tuple[int, ...], on_end: Callable[[], None]) -> None:
        self._pid, self._input, self._output = pid, input_end, output_end
        self._held = held  # The namespaces, which nsenter opens by our descriptors.
        self._on_end: Callable[[], None] | None = on_end

    def keep_beside(self) -> OpenedShell:
        """Have a thread keep it; give its ends. Where that fails, it is ended, and nothing stays open."""
        with contextlib.ExitStack() as undo:
            undo.callback(self._finish)
            ours, theirs = map(undo.enter_context, socket.socketpair())
            input_end = output_end = self._given(self._input, undo)
            if self._output != self._input:
                output_end = self._given(self._output, undo)
            threading.Thread(target=self._keep, args=(theirs,), name="shell", daemon=True).start()
            undo.pop_all()
        return OpenedShell(input_end, output_end, ours)

    def _given(self, descriptor: int, undo: contextlib.ExitStack) -> int:
        duplicate = os.dup(descriptor)
        undo.callback(os.close, duplicate)
        return duplicate

    def keep(self, lifeline: socket.socket) -> None:
        """Send its ends over the lifeline and stay until it has ended, or the lifeline has."""
        try:
            wire.send(lifeline, {"result": None}, tuple(dict.fromkeys((self._input, self._output))))
        except BaseException:
            self._finish()
            raise
        self._wait(lifeline)

    def _keep(self, lifeline: socket.socket) -> None:
        with lifeline, contextlib.suppress(ConnectionError):
            self._wait(lifeline)

    def _wait(self, lifeline: socket.socket) -> None:
        for descriptor in dict.fromkeys((self._input, self._output)):
            os.close(descriptor)  # A terminal hangs up only when no process holds it any more.
        self._input = self._output = -1
        code: int | None = None
        try:
            with _watching(self._pid) as ended, selectors.DefaultSelector() as selector:
                selector.register(ended, selectors.EVENT_READ)
                selector.register(lifeline, selectors.EVENT_READ)
                ready = {key.fd for key, _ in selector.select()}
                if ended in ready:
                    code = self._reap()
        finally:
            self._finish()
        if code is not None:
            wire.send(lifeline, {"exit_code": code})

    def _reap(self) -> int:
        """Collect the child; its code as a shell sees it."""
        pid, self._pid = self._pid, 0
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        return code if code >= 0 else 128 - code

    def _finish(self) -> None:
        """End what still runs of it and give back what it held; once."""
        try:
            if self._pid:
                _end(self._pid)
                self._reap()
        finally:
            for descriptor in {*self._held, self._input, self._output} - {-1}:
                os.close(descriptor)
            self._held, self._input, self._output = (), -1, -1
            release, self._on_end = self._on_end, None
            if release is not None:
                release()


def _check(ask: OpenShell) -> None:
    if len(ask.argv) > COMMAND_ARGUMENTS or sum(len(item.encode(errors="surrogateescape")) for item in ask.argv) > TEXT_BYTES:
        raise LauncherRefused(f"a command has at most {COMMAND_ARGUMENTS} arguments and {TEXT_BYTES} bytes")
    if any("\0" in item for item in ask.argv):
        raise LauncherRefused("a command holds no NUL byte")
    if not (0 < ask.rows <= TERMINAL_CELLS and 0 < ask.columns <= TERMINAL_CELLS):
        raise LauncherRefused(f"a terminal has 1 to {TERMINAL_CELLS} rows and columns")


def _find(ask: OpenShell, policy: Policy) -> _Target:
    """Find the task by its record. Its frame is bubblewrap's first process in the sandbox, which no tenant can replace."""
    root = policy.check_root(ask.root)
    (name,) = beneath.split(ask.attempt_id)
    record = records.read_started(root, name)
    if record is None or record.boot_id != processes.boot_id() or ask.task not in record.tasks:
        raise _gone(ask)
    if record.builds_image:  # Beside its builder is a task with the tenant's account, which no member reads.
        raise LauncherRefused("the build of a container image takes no programs beside its tasks")
    attempt = records.parse_attempt(record.attempt)
    owner = policy.check_tenant(Owner(attempt.uid, attempt.gid, attempt.groups))
    started = record.tasks[ask.task]
    if not processes.is_alive(started.pid, started.start_ticks):
        raise _gone(ask)
    deadline = time.monotonic() + _START_SECONDS
    while True:
        frame, program = _frame_and_program(started.pid, sandbox=record.sandbox)
        if frame is not None and program is not None:
            environment = _environment(program.pid)
            if _MARKER in environment or time.monotonic() > deadline:
                environment[_MARKER] = f"{name}.{ask.task}".encode()  # By which a kill finds it where there are no groups.
                return _Target(frame, program, environment, owner, started.groups, record.seccomp, record.container)
        if time.monotonic() > deadline or not processes.is_alive(started.pid, started.start_ticks):
            raise _gone(ask)
        time.sleep(_PAUSE_SECONDS)


def _frame_and_program(wrapper: int, *, sandbox: bool) -> tuple[processes.Process | None, processes.Process | None]:
    """wrapper > bwrap > bwrap (the frame) > program; without a sandbox the wrapper's child is both."""
    everything = processes.read_all()
    child = _child(everything, wrapper)
    if not sandbox:
        return child, child
    if child is None or child.name != "bwrap":
        return None, None
    frame = _child(everything, child.pid)
    if frame is None or frame.name != "bwrap":
        return None, None
    return frame, _child(everything, frame.pid)


def _child(everything: Mapping[int, processes.Process], parent: int) -> processes.Process | None:
    """The first child that lives: later ones of a sandbox's first process are orphans that it took in."""
    found = [process for process in everything.values() if process.parent == parent and not process.is_dead]
    return min(found, key=lambda process: (process.start_ticks, process.pid), default=None)


def _ends(ask: OpenShell, target: _Target, opening: _Opening) -> tuple[int, int, tuple[int, int]]:
    """Our end to write, ours to read, and what the program gets as its input and output."""
    if not ask.terminal:
        return _pipes(opening)
    master = opening.keep(_open_terminal(target))
    fcntl.ioctl(master, _TIOCSPTLCK, struct.pack("i", 0))
    slave = opening.keep(fcntl.ioctl(master, _TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    if os.geteuid() == 0:
        os.fchown(slave, target.owner.uid, -1)
    os.fchmod(slave, 0o600)
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ask.rows, ask.columns, 0, 0))
    return master, master, (slave, slave)


def _pipes(opening: _Opening) -> tuple[int, int, tuple[int, int]]:
    input_read, input_write = map(opening.keep, os.pipe2(os.O_CLOEXEC))
    output_read, output_write = map(opening.keep, os.pipe2(os.O_CLOEXEC))
    return input_write, output_read, (input_read, output_write)


def _open_terminal(target: _Target) -> int:
    flags = os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC
    with contextlib.suppress(OSError):
        return os.open(f"/proc/{target.frame.pid}/root/dev/pts/ptmx", flags)
    return os.open("/dev/ptmx", flags)


def _environment(pid: int) -> dict[bytes, bytes]:
    """What a process found in its environment when it began."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            content = file.read(_ENVIRONMENT_BYTES)
    except OSError:
        return {}
    pairs = (item.partition(b"=") for item in content.split(b"\0"))
    return {name: value for name, _, value in pairs if _NAME.fullmatch(name)}


def _script(environment: Mapping[bytes, bytes], ask: OpenShell) -> bytes:
    """Quoted exports and a change of directory, for a shell that has the tenant's rights already."""
    named = {key.decode(): value.decode(errors="surrogateescape") for key, value in environment.items()}
    if ask.terminal:
        named["TERM"] = "xterm-256color"
    lines = [f"export {name}={shlex.quote(value)}" for name, value in named.items()]
    lines += ["umask 077", 'cd -- "${BERTH_WORKDIR:-/}" || cd /', ""]
    return "\n".join(lines).encode(errors="surrogateescape")


def _namespaces(frame: processes.Process, opening: _Opening) -> dict[str, int]:
    """Open those in which the task is and we are not, by nsenter's option."""
    found = {}
    for kind, option in _NAMESPACES:
        try:
            if os.stat(f"/proc/{frame.pid}/ns/{kind}").st_ino != os.stat(f"/proc/self/ns/{kind}").st_ino:
                found[option] = opening.keep(os.open(f"/proc/{frame.pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC))
        except FileNotFoundError:  # A kernel without this kind, or the task is gone, which is looked at next.
            continue
    if "--user" in found and "--mount" in found:
        # Without root, bubblewrap makes a second user namespace in the one that all others belong to. That one comes first.
        found["--user"] = opening.keep(fcntl.ioctl(found["--mount"], _NS_GET_USERNS))
    return found


def _spawn(
    ask: OpenShell, target: _Target, standard: tuple[int, int], script: int, spaces: Mapping[str, int], policy: Policy
) -> int:
    joins = [f"{path}/cgroup.procs" for path in target.groups]
    line = ["/bin/sh", "-c", _JOIN, "berth-exec", *joins, "--", *_command(ask, target, spaces, policy)]
    reset = [number for number in signal.valid_signals() if number not in (signal.SIGKILL, signal.SIGSTOP)]

    def start() -> int:
        with _on_cores_of(target.program.pid):
            return os.posix_spawn(
                line[0],
                line,
                _ENVIRONMENT,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, _above(source), number)
                    for number, source in ((0, standard[0]), (1, standard[1]), (2, standard[1]), (3, script))
                ],
                setsid=True,
                setsigmask=[],
                setsigdef=reset,
            )

    if not target.seccomp:
        return start()
    return syscalls.start_filtered(syscalls.Filter.ENTERING if spaces else syscalls.Filter.TASK, start)


def _above(descriptor: int) -> int:
    """Our descriptors are never 0 to 3: those are open in every process of the platform."""
    assert descriptor > 3, "standard descriptors are open"
    return descriptor


def _command(ask: OpenShell, target: _Target, spaces: Mapping[str, int], policy: Policy) -> list[str]:
    line: list[str] = []
    if spaces:
        entering = [f"{option}=/proc/{os.getpid()}/fd/{descriptor}" for option, descriptor in spaces.items()]
        line += [_program("nsenter"), *entering, *(["--preserve-credentials"] if "--user" in spaces else []), "--"]
    if "--user" in spaces and "--pid" in spaces:  # Now the sandbox's first process is number 1.
        line += [_program("nsenter"), "--user=/proc/1/ns/user", "--preserve-credentials", "--"]
    line += [_program("setsid"), "--wait", *(["--ctty"] if ask.terminal else [])]
    if policy.drop_rights:
        owner = target.owner
        groups = ["--groups", ",".join(map(str, owner.groups))] if owner.groups else ["--clear-groups"]
        line += [_program("setpriv"), "--reuid", str(owner.uid), "--regid", str(owner.gid), *groups]
        line += ["--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]
    else:
        line += [_program("setpriv"), "--no-new-privs"]
    return [*line, "/bin/sh", "-c", _BECOME, "berth-exec", *(ask.argv or _shell_for(ask))]


def _shell_for(ask: OpenShell) -> Sequence[str]:
    """For those who name no program."""
    return ("/bin/sh", "-c", _FOR_A_PERSON) if ask.terminal else ("/bin/sh",)


def _program(name: str) -> str:
    found = shutil.which(name, path=_ENVIRONMENT["PATH"])
    if found is None:
        raise LauncherRefused(f"{name} is not installed on this host (package util-linux)")
    return found


@contextlib.contextmanager
def _on_cores_of(pid: int) -> Iterator[None]:
    """What this thread starts in the block runs where that process may run."""
    before = os.sched_getaffinity(0)
    try:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, os.sched_getaffinity(pid))
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def _watching(pid: int) -> Iterator[int]:
    descriptor = os.pidfd_open(pid)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _end(pid: int) -> None:
    """Hang up on a child and what it started, and kill what is left after a moment."""
    own = processes.read_process(pid)
    everything = processes.read_all()
    tree = [everything[item] for item in processes.descendants(everything, [pid]) if item in everything]
    tree += [own] if own is not None else []
    for process in tree[:-1]:  # Not the child itself, which is only nsenter or setsid and brings the others' end home.
        for number in (signal.SIGHUP, signal.SIGCONT):
            processes.send(process, number)
    deadline = time.monotonic() + _HANG_UP_SECONDS
    while time.monotonic() < deadline and processes.is_alive(pid, own.start_ticks if own is not None else -1):
        time.sleep(_PAUSE_SECONDS)
    everything = processes.read_all()
    found = processes.descendants(everything, [pid])
    for process in {item.pid: item for item in (*tree, *(everything[item] for item in found))}.values():
        if not process.is_dead:
            processes.send(process, signal.SIGKILL)


def _gone(ask: OpenShell) -> OSError:
    return ProcessLookupError(errno.ESRCH, f"Task {ask.task} does not run any more")
