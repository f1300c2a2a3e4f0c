"""What a launcher can be asked: plain values and the Protocol. Every verb takes a batch or one path beneath a known root.

Nothing here names a program to run as root. A task's command runs as its tenant; the launcher's own part is fixed.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


class LauncherUnavailable(Exception):
    """The launcher did not answer. Whether the verb was carried out is unknown: ask again, every verb may be repeated."""


class LauncherBusy(LauncherUnavailable):
    """As many looks through this user's files are under way, or wait, as may be. Ask again a little later."""


class LauncherRefused(Exception):
    """An argument breaks the launcher's rules: a path outside its roots, a uid outside its range. A mistake of ours."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Under whose rights files are touched. `groups` are supplementary."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class StartMount:
    source: str
    target: str
    read_only: bool


CHECKPOINTS = "checkpoints"  # The folder of a launcher's root with the directories that jobs keep: `<tenant>/<job>`.


@dataclass(frozen=True, slots=True)
class StartCheckpoint:
    """A job's own directory, made if it is missing and given to the tenant. In `folder`, where its tasks begin, `link` leads to
    it."""

    source: str
    folder: str
    link: str


@dataclass(frozen=True, slots=True)
class StartTask:
    """One wrapper and the task below it.

    `script` is read by a shell that already runs as the tenant: quoted exports, a change of directory and an exec. It
    carries the secrets and exists in memory only.
    """

    name: str
    argv: tuple[str, ...]
    script: str = field(repr=False)
    memory_bytes: int = 0
    cpu_millis: int = 0
    processes_max: int = 0
    shm_bytes: int = 0
    devices: tuple[str, ...] = ()  # Device nodes of the leased GPUs; no others are visible in a sandbox.
    cores: tuple[int, ...] = ()  # Where it may run; empty: anywhere.
    builds_image: bool = False  # It puts a container image together: `sandbox.View.builds_image`.


@dataclass(frozen=True, slots=True)
class StartAttempt:
    """Everything needed to start an attempt's tasks together. `record` is stored beside them as the engine's memory."""

    root: str
    attempt_id: str
    owner: Owner
    tasks: tuple[StartTask, ...]
    record: str = "{}"
    files: Mapping[str, str] = field(default_factory=dict)
    code: str = ""
    mounts: tuple[StartMount, ...] = ()
    image: str = ""
    container: str = ""  # The root of an unpacked container image, seen in place of the host's own system.
    network: bool = True
    sandbox: bool = False
    seccomp: bool = True  # Where the host has libseccomp.
    checkpoint: StartCheckpoint | None = None


class StartOutcome(StrEnum):
    STARTED = "started"
    EXISTS = "exists"  # The gate was taken earlier: it runs, ran, or is refused for good.
    BUSY = "busy"  # Another caller is starting it right now, or the machine is short of something; ask again.
    IMPOSSIBLE = "impossible"


@dataclass(frozen=True, slots=True)
class Started:
    outcome: StartOutcome
    code: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class SignalAttempt:
    """`number` 9 ends the whole tree and waits briefly until it is gone; any other reaches the tasks, not our wrappers.

    An empty `tasks` means all of the attempt. `only`: these of its processes and no others, by id and start time in ticks.
    """

    root: str
    attempt_id: str
    number: int
    tasks: tuple[str, ...] = ()
    only: tuple[tuple[int, int], ...] | None = None


@dataclass(frozen=True, slots=True)
class SeenProcess:
    """A live process of a task. `handles`: it has a handler of its own for the signal that was asked about. `is_first`: it is
    what the command of the task became; of several tasks together, of the oldest."""

    pid: int
    start_ticks: int
    name: str
    is_first: bool
    handles: bool


@dataclass(frozen=True, slots=True)
class PinAttempt:
    """On which cores the processes of these tasks may run from now on; empty: anywhere that the launcher may."""

    root: str
    attempt_id: str
    tasks: tuple[str, ...]
    cores: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OpenShell:
    """A program beside a live task: under its user, in its sandbox and its groups, with what its own program found at start.

    An empty `argv` means a shell for a person. `terminal` False: plain pipes, with what it prints and its errors in one.
    `tenant` and `user` say whose share of the host's shells it is; empty: no user's.
    """

    root: str
    attempt_id: str
    task: str
    argv: tuple[str, ...] = ()
    rows: int = 24
    columns: int = 80
    terminal: bool = True
    tenant: str = ""
    user: str = ""


@dataclass(frozen=True, slots=True)
class OpenedShell:
    """Both ends as descriptors (of a terminal one and the same), and the connection over which its exit code will come.

    Closing `lifeline` ends the program, and so does the end of the process that holds it.
    """

    input: int
    output: int
    lifeline: socket.socket


@dataclass(frozen=True, slots=True)
class Entry:
    """One name in a directory. `kind` is `file`, `directory`, `link` or `other`; links are reported, never followed.

    `disk_bytes`: what a file with holes takes of the disk; None from a launcher of the release before, which does not tell.
    """

    path: str
    kind: str
    size_bytes: int
    mode: int
    modified_at: float
    disk_bytes: int | None = None

    @property
    def held_bytes(self) -> int:
        return self.size_bytes if self.disk_bytes is None else self.disk_bytes


@dataclass(frozen=True, slots=True)
class Listing:
    """`truncated`: there is more. `next`: the name in this folder at which the next page begins."""

    entries: tuple[Entry, ...]
    truncated: bool = False
    next: str | None = None


@dataclass(frozen=True, slots=True)
class MeasuredTree:
    """What a tree holds. Lengths and what they hold of the disk are in bytes, of plain files alone. Of the things `depth` levels
    below the top: `newest` in each folder above them, where a file lies in it or it is one, and `half_written` by their names."""

    file_count: int
    length_bytes: int
    held_bytes: int
    newest: tuple[Entry, ...] = ()
    half_written: tuple[str, ...] = ()
    truncated: bool = False


class Launcher(Protocol):
    """The fixed verbs. Paths are given as a root, which must be one the launcher knows, and a relative path beneath it."""

    def start(self, attempts: Sequence[StartAttempt]) -> Sequence[Started]:
        """Start each attempt's tasks, all or none. At most once ever per attempt, by the gate `gates/<attempt id>`."""
        ...

    def signal(self, signals: Sequence[SignalAttempt]) -> Sequence[int]:
        """Send to the live processes of each attempt; gives how many of them are left (0: none runs)."""
        ...

    def look(self, asks: Sequence[SignalAttempt]) -> Sequence[Sequence[SeenProcess]]:
        """The live processes of each attempt that such a signal would reach; nothing is sent."""
        ...

    def pin(self, pins: Sequence[PinAttempt]) -> None:
        """Move live tasks to these cores, with all that they have started."""
        ...

    def open_shell(self, ask: OpenShell) -> OpenedShell:
        """Start a program beside a live task. It ends with the task, and with the lifeline that is given."""
        ...

    def remove_attempts(self, root: str, attempts: Sequence[str]) -> Sequence[bool]:
        """Remove directory and control groups of ended attempts; False where a process lives or more is left."""
        ...

    def open_file(
        self, root: str, path: str, owner: Owner | None, *, write: bool = False, mode: int = 0o640, truncate: bool = True
    ) -> int:
        """Open a regular file with the owner's rights; `write` creates it, or opens the one there, emptied or not."""
        ...

    def list_directory(
        self,
        root: str,
        path: str,
        owner: Owner | None,
        *,
        recursive: bool = False,
        limit: int = 10_000,
        start: str = "",
        patient: bool = False,
    ) -> Listing:
        """Names of a folder in order, from `start` on; `recursive`: of all folders below it too, and from the beginning.

        LauncherBusy where too many look already, unless it is `patient`.
        """
        ...

    def measure_tree(
        self,
        root: str,
        path: str,
        owner: Owner | None,
        *,
        depth: int = 0,
        half_written: Sequence[str] = (),
        limit: int,
        patient: bool = False,
    ) -> MeasuredTree:
        """Look through a tree of at most so many names. `half_written`: how names end that count as such."""
        ...

    def make_directory(self, root: str, path: str, owner: Owner | None, *, mode: int = 0o750) -> None: ...

    def rename(self, root: str, source: str, target: str, owner: Owner | None) -> None:
        """Move within a root, replacing a file of that name in one step."""
        ...

    def remove_tree(self, root: str, path: str, owner: Owner | None) -> None:
        """Remove a file or directory tree; absent is done. Links are removed, not followed."""
        ...

    def copy_tree(self, root: str, source: str, target: str, owner: Owner | None, *, seconds: float) -> bool:
        """Copy what a directory holds into another one that is there, for about so long; True once all of it is there.

        Called again it goes on where it stopped. Links are copied as links; what is neither file, folder nor link is left out.
        """
        ...

    def give(self, root: str, path: str, owner: Owner, *, mode: int, share_with_group: bool = False) -> None:
        """Make a directory beneath root if need be, and give it to the owner with this mode.

        `share_with_group`: what is made in it later is open to its group, whatever the umask of who makes it.
        """
        ...

    def seal(self, root: str, path: str, gid: int, *, everyone: bool = False) -> None:
        """Take a tree from its tenant: owned by us, readable by `gid` alone or everyone, writable by no user."""
        ...
