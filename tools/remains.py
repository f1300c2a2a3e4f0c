"""What a run of tests left behind: processes that name the run's folder, mounts and files below it. Standard library only.

All that a run makes has its place in one folder. What is still there at its end was forgotten by a test, or by the product: it is
told, ended and removed. A network namespace lives as long as a process in it, so that it needs no look of its own.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

KILLED_SECONDS_MAX = 10
GONE = "ZX"  # States of proc(5).


@dataclass(frozen=True, slots=True)
class Remains:
    """`processes` by id, with what each runs; `mounts` by place, the innermost first; `files` by name."""

    processes: tuple[tuple[int, str], ...] = ()
    mounts: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """One for each, in words."""
        processes = [f"process {pid}: {command}" for pid, command in self.processes]
        return [*processes, *(f"mount {place}" for place in self.mounts), *(f"file {name}" for name in self.files)]


def find(folder: Path, *, expected: Sequence[str]) -> Remains:
    """What is left in and of a run's `folder`. `expected`: with what names begin of which the run knows."""
    temporary = folder / "tmp"
    paths = [*folder.glob("*"), *temporary.glob("*")]
    names = sorted(path.relative_to(folder).as_posix() for path in paths if path != temporary)
    return Remains(
        tuple(_processes(folder)), tuple(_mounts(folder)), tuple(name for name in names if not name.startswith((*expected,)))
    )


def remove(folder: Path, remains: Remains) -> None:
    """End the processes, undo the mounts, remove the folder."""
    with held([pid for pid, _ in remains.processes]) as kill:
        kill()
    end = time.monotonic() + KILLED_SECONDS_MAX
    while time.monotonic() < end and any(is_alive(pid) for pid, _ in remains.processes):
        time.sleep(0.02)
    for place in remains.mounts:
        subprocess.run(["umount", "--lazy", place], capture_output=True, check=False)
    if not _mounts(folder):  # What is mounted may be a folder of somebody's.
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def held(pids: Sequence[int]) -> Iterator[Callable[[], None]]:
    """Gives a function that kills these very processes, whatever has their numbers by then."""
    descriptors = []
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            descriptors.append(os.pidfd_open(pid))

    def kill() -> None:
        for descriptor in descriptors:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)

    try:
        yield kill
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not collected does not."""
    return _state_and_parent(pid)[0] not in GONE


def descendants(pid: int) -> list[int]:
    """The processes below this one, those further down last."""
    parents = {int(path.name): _state_and_parent(int(path.name))[1] for path in Path("/proc").glob("[0-9]*")}
    found = [pid]
    for parent in found:
        found += [child for child, its_parent in parents.items() if its_parent == parent]
    return found[1:]


def _processes(folder: Path) -> Iterator[tuple[int, str]]:
    word = os.fsencode(folder)
    for path in sorted(Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
        with contextlib.suppress(OSError):
            if int(path.name) == os.getpid() or not is_alive(int(path.name)):
                continue
            command = (path / "cmdline").read_bytes().replace(b"\0", b" ").strip()
            places = os.fsencode(os.readlink(path / "cwd")) + b" " + os.fsencode(os.readlink(path / "exe"))
            if any(word in text for text in (command, places, (path / "environ").read_bytes())):
                yield int(path.name), command.decode(errors="replace")[:200]


def _mounts(folder: Path) -> list[str]:
    lines = Path("/proc/self/mountinfo").read_text(errors="replace").splitlines()
    places = [line.split()[4] for line in lines]
    return sorted((place for place in places if Path(place).is_relative_to(folder)), reverse=True)


def _state_and_parent(pid: int) -> tuple[str, int]:
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return "X", 0
    return state, int(parent)
