"""The launcher's verbs, carried out by this very process: as they are without root, behind the socket as root.

Stateless but for the pids of its own children, which it must reap: what it needs to know about an attempt it reads from the
record that it wrote itself, in a directory that only it can write.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal as signals
import struct
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from clusters.engines.local import cgroups, processes, records
from clusters.engines.local.launching import beneath, shells, spawning, walks, wire
from clusters.engines.local.launching.policy import Policy
from clusters.engines.local.launching.rights import acting_as
from clusters.engines.local.launching.verbs import (
    Listing,
    MeasuredTree,
    OpenedShell,
    OpenShell,
    Owner,
    PinAttempt,
    SeenProcess,
    SignalAttempt,
    StartAttempt,
    Started,
)

_THREADS = 4  # Starting and removing mostly wait for the kernel (exec, control groups); more threads gained nothing.
_REMOVE_SECONDS = 2.0  # Of one directory and call: millions of files take minutes, and everybody's starts are in these threads.
_KILL_SECONDS = 2.0  # A killed process leaves within milliseconds unless the kernel holds it; then the caller asks again.
_KILL_PAUSE_SECONDS = 0.002
_ROUNDS_BEFORE_FORBIDDING = 3
_PIN_ROUNDS = 10  # What is forked while we look is found in the next round; more than a few is a tree that forks for ever.


@dataclass(frozen=True, slots=True)
class _Tree:
    """The processes of some tasks, as the record names them. `wrappers` are ours; all others are the user's or bubblewrap's."""

    keys: frozenset[str]  # What `processes.TASK_MARKER` says in the tasks' environment.
    sandbox: bool
    wrappers: tuple[tuple[int, int], ...]  # Pid and start time.
    groups: tuple[tuple[str, ...], ...]


class DirectLauncher:
    """Carries the verbs out here. Threads may share it."""

    def __init__(self, policy: Policy, *, use_cgroups: bool = True) -> None:
        self._policy = policy
        self._groups = cgroups.detect() if use_cgroups else None
        self._children: set[int] = set()
        self._shells = shells.Shells(policy)
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="launcher")

    def start(self, attempts: Sequence[StartAttempt]) -> Sequence[Started]:
        self.reap()
        return list(self._pool.map(self._start, attempts) if len(attempts) > 1 else map(self._start, attempts))

    def signal(self, signals: Sequence[SignalAttempt]) -> Sequence[int]:
        trees = [self._tree(item) for item in signals]
        left = [0] * len(trees)
        kills = [index for index, item in enumerate(signals) if item.number == _KILL]
        for index, found in zip(range(len(trees)), self._find(trees), strict=True):
            left[index] = len(found)
            if index in kills:
                continue
            number, only = signals[index].number, signals[index].only
            for process in found.values():
                is_meant = only is None or (process.pid, process.start_ticks) in only
                if number and is_meant and not _is_bubblewrap(process, trees[index]):
                    processes.send(process, number)
        if kills:
            for index, count in zip(kills, self._kill([trees[index] for index in kills]), strict=True):
                left[index] = count
        self.reap()
        return left

    def look(self, asks: Sequence[SignalAttempt]) -> Sequence[Sequence[SeenProcess]]:
        trees = [self._tree(item) for item in asks]
        return [
            _seen([process for process in found.values() if not _is_bubblewrap(process, tree)], ask.number)
            for ask, tree, found in zip(asks, trees, self._find(trees), strict=True)
        ]

    def pin(self, pins: Sequence[PinAttempt]) -> None:
        trees = [self._tree(SignalAttempt(item.root, item.attempt_id, 0, item.tasks)) for item in pins]
        wanted = [frozenset(item.cores) or frozenset(os.sched_getaffinity(0)) for item in pins]
        for tree, item in zip(trees, pins, strict=True):
            for groups in tree.groups:
                cgroups.pin(groups, item.cores)
        for _ in range(_PIN_ROUNDS):
            moved = 0
            for tree, found, cores in zip(trees, self._find(trees), wanted, strict=True):
                pids = [*found, *(pid for pid, start in tree.wrappers if processes.is_alive(pid, start))]
                moved += sum(processes.pin(pid, cores) for pid in pids)
            if not moved:
                break

    def open_shell(self, ask: OpenShell) -> OpenedShell:
        """Start it here; a thread keeps it."""
        return self.start_shell(ask).keep_beside()

    def start_shell(self, ask: OpenShell) -> shells.Shell:
        """Start it for a caller that keeps it."""
        return self._shells.start(ask)

    def remove_attempts(self, root: str, attempts: Sequence[str]) -> Sequence[bool]:
        real = self._policy.check_root(root)
        trees = [self._tree(SignalAttempt(real, attempt, 0)) for attempt in attempts]
        results = list(self._pool.map(partial(self._remove, real), attempts, trees, self._find(trees)))
        if self._groups is not None:
            self._groups.prune()
        self.reap()
        return results

    def open_file(
        self, root: str, path: str, owner: Owner | None, *, write: bool = False, mode: int = 0o640, truncate: bool = True
    ) -> int:
        with self._acting(owner):
            return beneath.open_file(self._policy.check_root(root), path, write=write, mode=mode & 0o777, truncate=truncate)

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
        asked = {"root": root, "path": path, "owner": wire.encode_owner(owner), "recursive": recursive, "limit": limit}
        answer = self.walk("list_directory", {**asked, "start": start}, patient=patient)
        return wire.decode_listing(wire.result_of(json.loads(answer)))

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
        asked = {"root": root, "path": path, "owner": wire.encode_owner(owner), "depth": depth, "limit": limit}
        answer = self.walk("measure_tree", {**asked, "half_written": list(half_written)}, patient=patient)
        return wire.decode_measured(wire.result_of(json.loads(answer)))

    def walk(self, verb: str, arguments: dict[str, Any], *, patient: bool) -> bytes:
        """A verb that looks through folders, with its arguments and its answer as the wire has them."""
        owner = wire.find_owner(arguments["owner"])
        root = self._policy.check_root(arguments["root"])
        if owner is not None:
            self._policy.check_tenant(owner)
        acting = arguments["owner"] if self._policy.drop_rights else None
        user = f"{arguments['root']}/{arguments['path']}" if owner is None else str(owner.uid)
        return walks.WALKS.ask(verb, {**arguments, "root": root, "owner": acting}, user=user, patient=patient)

    def make_directory(self, root: str, path: str, owner: Owner | None, *, mode: int = 0o750) -> None:
        with self._acting(owner):
            beneath.make_directories(self._policy.check_root(root), path, mode & 0o2777)

    def rename(self, root: str, source: str, target: str, owner: Owner | None) -> None:
        with self._acting(owner):
            beneath.rename(self._policy.check_root(root), source, target)

    def remove_tree(self, root: str, path: str, owner: Owner | None) -> None:
        with self._acting(owner):
            beneath.remove(self._policy.check_root(root), path)

    def copy_tree(self, root: str, source: str, target: str, owner: Owner | None, *, seconds: float) -> bool:
        with self._acting(owner):
            return beneath.copy_tree(self._policy.check_root(root), source, target, seconds=seconds)

    def give(self, root: str, path: str, owner: Owner, *, mode: int, share_with_group: bool = False) -> None:
        real = self._policy.check_root(root)
        self._policy.check_receiver(owner)
        beneath.make_directories(real, path, 0o711)
        with beneath.directory(real, beneath.split(path), read=True) as opened:
            if self._policy.drop_rights:
                os.fchown(opened, owner.uid, owner.gid)
            os.fchmod(opened, mode & 0o2777)
            if share_with_group:
                with contextlib.suppress(OSError):  # A file system without access lists: only the makers' own rights count.
                    os.setxattr(opened, "system.posix_acl_default", _GROUP_ACCESS)

    def seal(self, root: str, path: str, gid: int, *, everyone: bool = False) -> None:
        real = self._policy.check_root(root)
        self._policy.check_gid(gid)
        drops = self._policy.drop_rights
        beneath.seal(real, path, uid=os.geteuid() if drops else -1, gid=gid if drops else -1, everyone=everyone)

    def reap(self) -> None:
        """Collect wrappers that ended; their exit is in their file. A child that other code collected is forgotten."""
        with self._lock:
            for pid in tuple(self._children):
                try:
                    done, _ = os.waitpid(pid, os.WNOHANG)
                except ChildProcessError:
                    done = pid
                if done:
                    self._children.discard(pid)

    def _remove(self, root: str, attempt: str, tree: _Tree, found: Mapping[int, processes.Process]) -> bool:
        if found or any(processes.is_alive(*wrapper) for wrapper in tree.wrappers):
            return False
        if not all([cgroups.remove(groups) for groups in tree.groups]):  # noqa: C419 - every one is tried.
            return False
        if not tree.wrappers and self._groups is not None:
            self._groups.remove_all(f"{attempt}.")  # Of a start that died before its record.
        return beneath.remove(root, f"{records.ATTEMPTS}/{attempt}", seconds=_REMOVE_SECONDS)

    def _start(self, attempt: StartAttempt) -> Started:
        result, pids = spawning.start_attempt(attempt, policy=self._policy, groups=self._groups)
        with self._lock:
            self._children.update(pids)
        return result

    def _acting(self, owner: Owner | None) -> contextlib.AbstractContextManager[None]:
        if owner is not None:
            self._policy.check_tenant(owner)
        return acting_as(owner if self._policy.drop_rights else None)

    def _tree(self, item: SignalAttempt) -> _Tree:
        root = self._policy.check_root(item.root)
        (name,) = beneath.split(item.attempt_id)
        record = records.read_started(root, name)
        if record is None or record.boot_id != processes.boot_id():
            return _Tree(frozenset(), True, (), ())
        tasks = {key: task for key, task in record.tasks.items() if not item.tasks or key in item.tasks}
        return _Tree(
            keys=frozenset(f"{name}.{key}" for key in tasks),
            sandbox=record.sandbox,
            wrappers=tuple((task.pid, task.start_ticks) for task in tasks.values()),
            groups=tuple(task.groups for task in tasks.values()),
        )

    def _find(self, trees: Sequence[_Tree]) -> list[dict[int, processes.Process]]:
        """Give the live processes of each tree without our wrappers; reads all of /proc only where no groups tell."""
        everything: Mapping[int, processes.Process] | None = None
        loose: dict[int, str] | None = None
        results = []
        for tree in trees:
            pids: set[int] = set()
            for groups in tree.groups:
                pids |= cgroups.members(groups)
            if tree.wrappers and not all(tree.groups):
                if everything is None:
                    everything = processes.read_all()
                pids |= processes.descendants(everything, (pid for pid, start in tree.wrappers if processes.is_alive(pid, start)))
                if loose is None:
                    loose = processes.marked(everything)
                pids |= {pid for pid, key in loose.items() if key in tree.keys}
            results.append(_alive(pids - {pid for pid, _ in tree.wrappers}))
        return results

    def _kill(self, trees: Sequence[_Tree]) -> list[int]:
        """Kill until nothing is left or the time is over: a tree that still forks is found again in the next round."""
        deadline = time.monotonic() + _KILL_SECONDS
        # Without groups one look may miss a child whose parent ended meanwhile; two empty looks in a row do not.
        looks = 2 if any(tree.wrappers and not all(tree.groups) for tree in trees) else 1
        empty = 0
        for round_number in itertools.count():
            for tree in trees:
                for groups in tree.groups:
                    cgroups.kill(groups, forbid_new=round_number >= _ROUNDS_BEFORE_FORBIDDING)
            found = self._find(trees)
            for processes_of_tree in found:
                for process in processes_of_tree.values():
                    processes.send(process, _KILL)
            empty = 0 if any(found) else empty + 1
            if empty == looks or time.monotonic() > deadline:
                break
            time.sleep(_KILL_PAUSE_SECONDS)
        return [len(each) for each in found]


_GROUP_ACCESS = struct.pack("<I" + "HHI" * 3, 2, 1, 7, 0xFFFFFFFF, 4, 7, 0xFFFFFFFF, 32, 0, 0xFFFFFFFF)
"""A default access list: user rwx, group rwx, others nothing (linux/posix_acl_xattr.h: version 2, tag, permissions, id)."""
_KILL = int(signals.SIGKILL)


def _seen(found: Sequence[processes.Process], number: int) -> list[SeenProcess]:
    """The first process of a task is the oldest that no other of them started."""
    pids = {process.pid for process in found}
    roots = [process for process in found if process.parent not in pids]
    first = min(roots, key=lambda process: (process.start_ticks, process.pid), default=None)
    return [
        SeenProcess(
            process.pid,
            process.start_ticks,
            process.name,
            is_first=process is first,
            handles=processes.handles(process.pid, number),
        )
        for process in found
    ]


def _alive(pids: Iterable[int]) -> dict[int, processes.Process]:
    found = {pid: processes.read_process(pid) for pid in pids}
    return {pid: process for pid, process in found.items() if process is not None and not process.is_dead}


def _is_bubblewrap(process: processes.Process, tree: _Tree) -> bool:
    """Whether it is the frame of the sandbox, which must outlive a polite signal to bring the task's exit code home."""
    if not tree.sandbox or process.name != "bwrap":
        return False
    wrappers = {pid for pid, _ in tree.wrappers}
    parent = processes.read_process(process.parent)
    return process.parent in wrappers or (parent is not None and parent.name == "bwrap" and parent.parent in wrappers)
