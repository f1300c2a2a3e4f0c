"""Start one attempt: directories, control groups, wrappers that wait, the record, the gate, go.

The wrappers of all tasks exist before the gate is taken, and read a line from a pipe that only we hold. If we die before the
gate, they read its end and leave, and nothing has run; if `mkdir` of the gate fails, another start took it before. So the tasks
of an attempt start together, at most once ever, and a crash at any step leaves either nothing or a recorded attempt.

No file is synced: workers, launcher and tasks are on one host, and a power failure ends them all together.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import json
import os
import resource
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from clusters.engines.local import cgroups, passwd, processes, sandbox
from clusters.engines.local.containers.view import CannotShow
from clusters.engines.local.launching import beneath, syscalls
from clusters.engines.local.launching.policy import Policy
from clusters.engines.local.launching.rights import acting_as
from clusters.engines.local.launching.unpack import BadSnapshot, NoSnapshot, unpack
from clusters.engines.local.launching.verbs import (
    LauncherRefused,
    StartAttempt,
    StartCheckpoint,
    Started,
    StartMount,
    StartOutcome,
    StartTask,
)
from clusters.engines.local.records import ATTEMPTS, CONTROL, FILES, GATES, HOME, TEMPORARY, USERS, WORK

PENDING_EXIT = b"pending\n"
"""What an exit file holds until the wrapper writes over it, byte for byte: no new block is needed on a full disk, and a
reader sees either this or the whole code."""

WRAPPER = """\
umask 022
cd /
read -r go <&3 || exit 0
exec 3<&-
(
  while [ "$1" != -- ]; do echo 0 >"$1" || { echo "berth: cannot join $1" >&6; exit 126; }; shift; done
  shift
  exec "$@" >&5 2>&6 4>&- 5>&- 6>&-
)
printf '%-7d\\n' "$?" >&4
"""
"""Standard input: the task's script (memory only). 3: go. 4: the exit file. 5 and 6: the task's output. Arguments: the
`cgroup.procs` files to join, `--`, the command that drops rights and runs the script. 7, in a sandbox: the filter of system
calls, which bubblewrap reads and closes."""

_FILTER = 7
_UNFILTERED = "Container images are built under a filter of system calls. Install the package libseccomp2."

_AS_ASKED = frozenset(
    {errno.E2BIG, errno.ENAMETOOLONG, errno.EINVAL, errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENOEXEC, errno.EILSEQ}
)
"""What is asked for cannot be done on any try: a command or a name that is too long, a path through a file."""
_NOT_PERMITTED = frozenset({errno.EPERM, errno.EACCES, errno.EROFS})
"""The machine does not let the platform do its work: another try here ends the same way, until an operator has looked."""

_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
_RDMA = "/dev/infiniband/"  # Memory that an adapter reads by itself has to stay in place: its tasks may lock what they have.
_SETPRIV = "/usr/bin/setpriv"
_RESET_SIGNALS = [number for number in signal.valid_signals() if number not in (signal.SIGKILL, signal.SIGSTOP)]
_DETAIL_LENGTH = 200
_DESCRIPTOR_FLOOR = 20  # Above the numbers that the wrapper is given.


@dataclass
class _Starting:
    """Open descriptors and pids of one start, so that whatever happens is undone."""

    descriptors: list[int] = field(default_factory=list)
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    pids: dict[str, int] = field(default_factory=dict)
    made: tuple[int, str] | None = None  # Parent descriptor and name of the directory that is ours to remove.

    def keep(self, descriptor: int) -> int:
        self.descriptors.append(descriptor)
        return descriptor

    def undo(self) -> None:
        """Remove what a start that will not happen has made; its wrappers leave by themselves when we close the pipe."""
        for groups in self.groups.values():
            cgroups.remove(groups)
        if self.made is not None:
            beneath.remove_at(*self.made)

    def close(self) -> None:
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors.clear()


_IN_PROGRESS = Started(StartOutcome.BUSY, "start_in_progress", "The attempt is being started by another worker.")


class _CannotStart(Exception):
    def __init__(self, started: Started) -> None:
        super().__init__(started.detail)
        self.started = started


def start_attempt(attempt: StartAttempt, *, policy: Policy, groups: cgroups.Cgroups | None) -> tuple[Started, tuple[int, ...]]:
    """Start it; gives the outcome and the pids of the wrappers, which are this process's children."""
    starting = _Starting()
    try:
        result = _try(attempt, starting, policy, groups)
        if result.outcome is not StartOutcome.STARTED:
            starting.undo()
    finally:
        starting.close()
    return result, tuple(starting.pids.values())


def _try(attempt: StartAttempt, starting: _Starting, policy: Policy, groups: cgroups.Cgroups | None) -> Started:
    try:
        root = policy.check_root(attempt.root)
        policy.check_tenant(attempt.owner)
        _start(attempt, root, starting, policy, groups)
    except _CannotStart as stop:
        return stop.started
    except BadSnapshot as error:
        return Started(StartOutcome.IMPOSSIBLE, error.code, str(error))
    except LauncherRefused as error:
        return Started(StartOutcome.IMPOSSIBLE, "engine_gave_up", str(error))
    except OSError as error:
        return refusal(error)
    except ValueError as error:  # A NUL in a name or an argument, a text that has no bytes.
        return Started(StartOutcome.IMPOSSIBLE, "start_refused", str(error))
    return Started(StartOutcome.STARTED)


def refusal(error: OSError) -> Started:
    """What becomes of a start that the system refused: given up where it will not pass, tried again where it may.

    No space, no memory, no free descriptor or process, an interrupted call, something that another process removed at the moment:
    these pass. How long they are waited for is the start timeout's to say.
    """
    detail = f"{error.strerror}: {str(error.filename or 'the attempt')[:_DETAIL_LENGTH]}"
    if error.errno in _AS_ASKED:
        return Started(StartOutcome.IMPOSSIBLE, "start_refused", detail)
    if error.errno in _NOT_PERMITTED:
        return Started(StartOutcome.IMPOSSIBLE, "start_not_permitted", detail)
    return Started(StartOutcome.BUSY, "start_failed", detail)


def _start(attempt: StartAttempt, root: str, starting: _Starting, policy: Policy, groups: cgroups.Cgroups | None) -> None:
    if os.path.isdir(f"{root}/{GATES}/{attempt.attempt_id}"):
        raise _CannotStart(Started(StartOutcome.EXISTS))
    directory = _make_attempt(attempt, root, starting, policy)
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    starting.keep(write_end)
    go = _lift(read_end, starting)
    control = starting.keep(os.open(CONTROL, os.O_RDONLY | os.O_DIRECTORY, dir_fd=directory))
    for task in attempt.tasks:
        limits = cgroups.Limits(task.memory_bytes, task.cpu_millis, task.processes_max, task.cores)
        starting.groups[task.name] = groups.create(f"{attempt.attempt_id}.{task.name}", limits) if groups else ()
        _spawn(attempt, task, root, control, go, starting, policy)
    _record(attempt, control, starting, policy)
    try:
        os.mkdir(f"{root}/{GATES}/{attempt.attempt_id}", 0o755)
    except FileExistsError as error:
        raise _CannotStart(Started(StartOutcome.EXISTS)) from error
    if policy.drop_rights:
        os.chown(f"{root}/{GATES}/{attempt.attempt_id}", policy.service_uid, policy.service_gid, follow_symlinks=False)
    os.write(write_end, b"\n" * len(attempt.tasks))


def _make_attempt(attempt: StartAttempt, root: str, starting: _Starting, policy: Policy) -> int:
    """Make the attempt's directories afresh, under a lock: two starters at once do not mix their files."""
    parent = starting.keep(os.open(f"{root}/{ATTEMPTS}", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW))
    directory = _claim(parent, attempt.attempt_id, root, starting)
    if directory is None:
        with contextlib.suppress(FileExistsError):
            os.mkdir(attempt.attempt_id, 0o711, dir_fd=parent)
        directory = _claim(parent, attempt.attempt_id, root, starting)
    if directory is None:
        raise _CannotStart(_IN_PROGRESS)
    starting.made = (parent, attempt.attempt_id)
    os.chmod(attempt.attempt_id, 0o711, dir_fd=parent)  # noqa: S103 - tasks pass through it.
    _make(directory, CONTROL, 0o750, policy, None, policy.service_gid)
    owner = attempt.owner
    for name in (WORK, HOME, *(f"{TEMPORARY}-{task.name}" for task in attempt.tasks)):
        _make(directory, name, 0o700, policy, owner.uid, owner.gid)
    if attempt.files:
        _make(directory, FILES, 0o750, policy, None, owner.gid)
        for name, text in attempt.files.items():
            beneath.split(name)
            _write(directory, f"{FILES}/{name}", text.encode(), 0o640, policy, None, owner.gid)
    if attempt.sandbox:
        _write_users(attempt, directory, policy)
    if attempt.code:
        _unpack(attempt, directory, policy)
    if attempt.checkpoint is not None:
        _keep(attempt, attempt.checkpoint, directory, policy)
    return directory


def _claim(parent: int, name: str, root: str, starting: _Starting) -> int | None:
    """Lock the directory and give it if it is empty and in place; what a start that died left behind is removed.

    The gate is looked at under the lock, because a starter takes the gate before it lets go of the lock.
    """
    try:
        descriptor = starting.keep(os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent))
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise _CannotStart(_IN_PROGRESS) from error
    if os.path.isdir(f"{root}/{GATES}/{name}"):
        raise _CannotStart(Started(StartOutcome.EXISTS))
    with contextlib.suppress(FileNotFoundError):
        if os.stat(name, dir_fd=parent).st_ino != os.fstat(descriptor).st_ino:
            return None
        if not os.listdir(descriptor):
            return descriptor
        beneath.remove_at(parent, name)
    return None


def _write_users(attempt: StartAttempt, directory: int, policy: Policy) -> None:
    """The passwd and group files that its tasks see. The name is in the record, which launchers of every release take."""
    name = json.loads(attempt.record).get("user", "")
    if not name:
        return  # Of a worker of an older release.
    if not passwd.is_name(name):
        raise LauncherRefused(f"{name[:_DETAIL_LENGTH]!r} is no name of a user")
    owner = attempt.owner
    root = policy.check_root(attempt.container) if attempt.container else "/"
    with acting_as(owner if policy.drop_rights else None):  # Nothing of an image is shown that its tenant could not read.
        users, groups = passwd.read(root, passwd.PASSWD), passwd.read(root, passwd.GROUP)
    if users is None or groups is None:
        return
    _make(directory, USERS, 0o750, policy, None, owner.gid)
    uid, gid = (owner.uid, owner.gid) if policy.drop_rights else (os.geteuid(), os.getegid())
    users = passwd.with_user(users, name, uid, gid, sandbox.HOME)
    groups = passwd.with_groups(groups, name, gid, owner.groups)
    for file, content in ((passwd.PASSWD, users), (passwd.GROUP, groups)):
        _write(directory, f"{USERS}/{file}", content, 0o644, policy, None, owner.gid)


def _unpack(attempt: StartAttempt, directory: int, policy: Policy) -> None:
    path = os.path.realpath(attempt.code)
    policy.check_root(path)
    try:
        archive = open(path, "rb")  # noqa: SIM115 - closed below.
    except FileNotFoundError as error:
        raise NoSnapshot(f"The code snapshot {os.path.basename(path)} is not there.") from error
    with archive, beneath.directory(directory, (WORK,)) as work, acting_as(attempt.owner if policy.drop_rights else None):
        unpack(archive, work)


def _keep(attempt: StartAttempt, checkpoint: StartCheckpoint, directory: int, policy: Policy) -> None:
    """Make the directory that the job keeps, give it to the tenant, and put the link to it below the working directory."""
    root, path = policy.check_checkpoint(checkpoint.source)
    beneath.make_directories(root, path, 0o711)
    owner = attempt.owner
    with beneath.directory(root, beneath.split(path), read=True) as kept:
        if policy.drop_rights:
            os.fchown(kept, owner.uid, owner.gid)
        os.fchmod(kept, 0o700)
    seen = sandbox.CHECKPOINT if attempt.sandbox else checkpoint.source
    try:
        with acting_as(owner if policy.drop_rights else None), _folder(directory, f"{WORK}/{checkpoint.folder}") as folder:
            beneath.link(folder, checkpoint.link, seen)
    except FileNotFoundError:
        return  # Without the folder that its tasks begin in the attempt fails, and says so itself.
    except (FileExistsError, NotADirectoryError) as error:
        detail = f"The code has something at {checkpoint.link}, where the checkpoint directory has to appear."
        raise _CannotStart(Started(StartOutcome.IMPOSSIBLE, "checkpoint_path_taken", detail)) from error


def _folder(parent: int, path: str) -> contextlib.AbstractContextManager[int]:
    return beneath.directory(parent, beneath.split(path))


def _spawn(attempt: StartAttempt, task: StartTask, root: str, control: int, go: int, starting: _Starting, policy: Policy) -> None:
    owner = attempt.owner
    exit_file = _lift(_create(control, f"{task.name}.exit", 0o640, policy, None, policy.service_gid), starting)
    os.write(exit_file, PENDING_EXIT)
    os.lseek(exit_file, 0, os.SEEK_SET)
    out, err = (
        _lift(_create(control, f"{task.name}.{stream}", 0o660, policy, owner.uid, policy.service_gid), starting)
        for stream in ("stdout", "stderr")
    )
    script = _lift(os.memfd_create("berth", os.MFD_CLOEXEC), starting)
    with open(script, "wb", closefd=False) as file:
        file.write(task.script.encode("utf-8", "surrogateescape"))
    os.lseek(script, 0, os.SEEK_SET)
    given = {0: script, 3: go, 4: exit_file, 5: out, 6: err}
    kind = syscalls.Filter.BUILDING if task.builds_image else syscalls.Filter.TASK  # Without its own, a builder cannot work.
    filters = attempt.sandbox and (attempt.seccomp or task.builds_image)
    if filters and (program := syscalls.open_compiled(kind)) is not None:
        given[_FILTER] = _lift(program, starting)
    elif task.builds_image:  # It has all rights in its namespace: nothing else closes the rest of the kernel to it.
        raise _CannotStart(Started(StartOutcome.IMPOSSIBLE, "workload_invalid", _UNFILTERED))
    groups = starting.groups[task.name]
    command = _command(attempt, task, root, groups, policy, filtered=_FILTER in given)
    start = functools.partial(_spawn_wrapper, [f"{path}/cgroup.procs" for path in groups], command, given)
    by_thread = attempt.seccomp and not attempt.sandbox  # bubblewrap has to build the view before the filter closes that.
    starting.pids[task.name] = syscalls.start_filtered(syscalls.Filter.TASK, start) if by_thread else start()
    if any(device.startswith(_RDMA) for device in task.devices):
        with contextlib.suppress(OSError, ValueError):  # Without the right to it, what the host allows has to do.
            resource.prlimit(starting.pids[task.name], resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    if task.cores:
        os.sched_setaffinity(starting.pids[task.name], task.cores)  # It waits for its word; what it starts inherits this.


def _spawn_wrapper(joins: Sequence[str], command: Sequence[str], given: Mapping[int, int]) -> int:
    return os.posix_spawn(
        "/bin/sh",
        ["berth-task", "-c", WRAPPER, "berth-task", *joins, "--", *command],
        _ENVIRONMENT,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0),
            *((os.POSIX_SPAWN_DUP2, source, number) for number, source in given.items()),
        ],
        setsid=True,
        setsigmask=[],
        setsigdef=_RESET_SIGNALS,
    )


def _command(
    attempt: StartAttempt, task: StartTask, root: str, joined: tuple[str, ...], policy: Policy, *, filtered: bool
) -> list[str]:
    """Build the fixed command: view, rights, shell. Only the task's own argv is the user's, after the last `--`."""
    base = f"{root}/{ATTEMPTS}/{attempt.attempt_id}"
    line: list[str] = []
    if attempt.sandbox:
        program = sandbox.bubblewrap()
        if program is None:
            raise _CannotStart(
                Started(StartOutcome.BUSY, "bubblewrap_missing", "bubblewrap does not work on this host any more.")
            )
        view = sandbox.View(
            work=f"{base}/{WORK}",
            home=f"{base}/{HOME}",
            temporary=f"{base}/{TEMPORARY}-{task.name}",
            files=f"{base}/{FILES}" if attempt.files else "",
            image=policy.check_root(attempt.image) if attempt.image else "",
            users="" if task.builds_image else f"{base}/{USERS}",
            checkpoint="/".join(policy.check_checkpoint(attempt.checkpoint.source)) if attempt.checkpoint else "",
            mounts=_checked(attempt, policy),
            devices=tuple(device for device in task.devices if device.startswith(("/dev/nvidia", _RDMA))),
            shm_bytes=task.shm_bytes,
            network=attempt.network,
            groups=cgroups.places(joined),
            root=policy.check_root(attempt.container) if attempt.container else "",
            filter=_FILTER if filtered else None,
            builds_image=task.builds_image,
        )
        try:
            line += sandbox.command(program, view)
        except CannotShow as error:
            raise _CannotStart(Started(StartOutcome.IMPOSSIBLE, "mount_target_refused", str(error))) from error
    if policy.drop_rights:
        owner = attempt.owner
        groups = ["--groups", ",".join(map(str, owner.groups))] if owner.groups else ["--clear-groups"]
        rights = [_SETPRIV, "--reuid", str(owner.uid), "--regid", str(owner.gid), *groups]
        rights += ["--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]
        # Nothing with our rights ever runs in a tenant's image, where a loader would read files of the image's maker: there the
        # rights go first, and bubblewrap builds the view in a user namespace of the tenant's.
        # A builder of images has all rights in such a namespace, and nothing beside the tenant's outside of it.
        line = [*rights, *line] if attempt.container or task.builds_image else [*line, *rights]
    return [*line, "/bin/sh", "-s", "--", *task.argv]


def _checked(attempt: StartAttempt, policy: Policy) -> tuple[StartMount, ...]:
    taken = [mount.target for mount in attempt.mounts] + ([attempt.image] if attempt.image else [])
    found = []
    for mount in attempt.mounts:
        source = policy.check_root(mount.source)
        refused = sandbox.refuse_below(mount.target, taken)
        if mount.target != source:  # At its own place a directory of ours hides nothing of the system.
            refused = refused or sandbox.refuse_target(mount.target, taken)
        if refused:
            raise LauncherRefused(refused)
        found.append(StartMount(source, mount.target, mount.read_only))
    return tuple(found)


def _record(attempt: StartAttempt, control: int, starting: _Starting, policy: Policy) -> None:
    tasks = {}
    for name, pid in starting.pids.items():
        process = processes.read_process(pid)
        tasks[name] = {"pid": pid, "start_ticks": process.start_ticks if process else -1, "groups": starting.groups[name]}
    record = {
        "boot_id": processes.boot_id(),
        "started_at": time.time(),
        "sandbox": attempt.sandbox,
        "seccomp": attempt.seccomp,
        "container": bool(attempt.container),
        "builds_image": any(task.builds_image for task in attempt.tasks),
        "attempt": json.loads(attempt.record),
        "tasks": tasks,
    }
    _write(control, "started.json.new", json.dumps(record).encode(), 0o640, policy, None, policy.service_gid)
    os.rename("started.json.new", "started.json", src_dir_fd=control, dst_dir_fd=control)


def _make(parent: int, name: str, mode: int, policy: Policy, uid: int | None, gid: int) -> None:
    os.mkdir(name, mode, dir_fd=parent)
    _own(parent, name, mode, policy, uid, gid)


def _own(parent: int, name: str, mode: int, policy: Policy, uid: int | None, gid: int) -> None:
    """Set the mode whatever the umask is, and the owner where rights are dropped; None keeps ourselves."""
    if policy.drop_rights:
        os.chown(name, os.geteuid() if uid is None else uid, gid, dir_fd=parent, follow_symlinks=False)
    os.chmod(name, mode, dir_fd=parent)


def _create(parent: int, name: str, mode: int, policy: Policy, uid: int | None, gid: int) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    if not name.endswith(".exit"):
        flags |= os.O_APPEND
    descriptor = os.open(name, flags, mode, dir_fd=parent)
    if policy.drop_rights:
        os.fchown(descriptor, os.geteuid() if uid is None else uid, gid)
    os.fchmod(descriptor, mode)
    return descriptor


def _write(parent: int, name: str, content: bytes, mode: int, policy: Policy, uid: int | None, gid: int) -> None:
    with os.fdopen(_create(parent, name, mode, policy, uid, gid), "wb") as file:
        file.write(content)


def _lift(descriptor: int, starting: _Starting) -> int:
    """Move a descriptor above the numbers that the wrapper is given."""
    lifted = starting.keep(fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _DESCRIPTOR_FLOOR))
    os.close(descriptor)
    return lifted
