"""Speak to a launcher over its socket. Every verb may be repeated, so a lost answer is asked for once more."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from clusters.engines.local.launching import wire
from clusters.engines.local.launching.measuring import measured
from clusters.engines.local.launching.verbs import (
    LauncherRefused,
    LauncherUnavailable,
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

_ANSWER_SECONDS = 300.0  # Unpacking the largest snapshot onto a slow disk; anything longer is a launcher that hangs.


class LauncherClient:
    """A Launcher behind a unix socket. Threads may share it; a launcher that restarts is found again."""

    def __init__(self, socket_path: str) -> None:
        self._path = socket_path
        self._lock = threading.Lock()
        self._idle: list[socket.socket] = []
        self._pid = os.getpid()

    def start(self, attempts: Sequence[StartAttempt]) -> Sequence[Started]:
        answer, _ = self._ask("start", attempts=[wire.encode_start(attempt) for attempt in attempts])
        return [wire.decode_started(item) for item in answer]

    def signal(self, signals: Sequence[SignalAttempt]) -> Sequence[int]:
        answer, _ = self._ask("signal", signals=[asdict(item) for item in signals])
        return [int(count) for count in answer]

    def look(self, asks: Sequence[SignalAttempt]) -> Sequence[Sequence[SeenProcess]]:
        answer, _ = self._ask("look", asks=[asdict(item) for item in asks])
        return [[SeenProcess(**process) for process in found] for found in answer]

    def pin(self, pins: Sequence[PinAttempt]) -> None:
        self._ask("pin", pins=[asdict(item) for item in pins])

    def remove_attempts(self, root: str, attempts: Sequence[str]) -> Sequence[bool]:
        answer, _ = self._ask("remove_attempts", root=root, attempts=list(attempts))
        return [bool(item) for item in answer]

    def open_file(
        self, root: str, path: str, owner: Owner | None, *, write: bool = False, mode: int = 0o640, truncate: bool = True
    ) -> int:
        _, descriptors = self._ask(
            "open_file", root=root, path=path, owner=wire.encode_owner(owner), write=write, mode=mode, truncate=truncate
        )
        if not descriptors:
            raise LauncherUnavailable("The launcher gave no file.")
        return descriptors[0]

    def open_shell(self, ask: OpenShell) -> OpenedShell:
        """Over a connection of its own, which is the program's lifeline from then on. Not repeated: it starts something."""
        try:
            connection = self._connect()
            try:
                wire.send(connection, {"verb": "open_shell", "arguments": asdict(ask)})
                answer, descriptors = wire.receive(connection)
                wire.result_of(answer)
            except BaseException:
                connection.close()
                raise
        except (ConnectionError, FileNotFoundError, TimeoutError, wire.Broken) as error:
            raise LauncherUnavailable(f"The launcher at {self._path} does not answer: {error}") from error
        return OpenedShell(descriptors[0], descriptors[-1], connection)

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
        further = {"start": start} if start else {}  # A launcher of the release before gives all names at once.
        answer, _ = self._ask(
            "list_directory",
            patient,
            root=root,
            path=path,
            owner=wire.encode_owner(owner),
            recursive=recursive,
            limit=limit,
            **further,
        )
        return wire.decode_listing(answer)

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
        asked = {"root": root, "path": path, "owner": wire.encode_owner(owner), "limit": limit}
        try:
            answer, _ = self._ask("measure_tree", patient, **asked, depth=depth, half_written=list(half_written))
        except LauncherRefused as error:
            if "is not a verb" not in str(error):
                raise
            # A launcher of the release before, which is replaced when no task runs: it tells all names.
            listing = self.list_directory(root, path, owner, recursive=True, limit=limit, patient=patient)
            return measured(listing.entries, depth=depth, half_written=half_written, truncated=listing.truncated)
        return wire.decode_measured(answer)

    def make_directory(self, root: str, path: str, owner: Owner | None, *, mode: int = 0o750) -> None:
        self._ask("make_directory", root=root, path=path, owner=wire.encode_owner(owner), mode=mode)

    def rename(self, root: str, source: str, target: str, owner: Owner | None) -> None:
        self._ask("rename", root=root, source=source, target=target, owner=wire.encode_owner(owner))

    def remove_tree(self, root: str, path: str, owner: Owner | None) -> None:
        self._ask("remove_tree", root=root, path=path, owner=wire.encode_owner(owner))

    def copy_tree(self, root: str, source: str, target: str, owner: Owner | None, *, seconds: float) -> bool:
        answer, _ = self._ask(
            "copy_tree", root=root, source=source, target=target, owner=wire.encode_owner(owner), seconds=seconds
        )
        return bool(answer)

    def give(self, root: str, path: str, owner: Owner, *, mode: int, share_with_group: bool = False) -> None:
        self._ask("give", root=root, path=path, owner=wire.encode_owner(owner), mode=mode, share_with_group=share_with_group)

    def seal(self, root: str, path: str, gid: int, *, everyone: bool = False) -> None:
        self._ask("seal", root=root, path=path, gid=gid, everyone=everyone)

    def close(self) -> None:
        """Close idle connections; the next verb opens a new one."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _ask(self, verb: str, patient: bool = False, **arguments: Any) -> tuple[Any, tuple[int, ...]]:
        message: dict[str, Any] = {"verb": verb, "arguments": arguments}
        if patient:
            message["patient"] = True
        try:
            answer, descriptors = self._exchange(message)
        except (OSError, wire.Broken):  # The launcher restarted under an idle connection, or in the middle of the verb.
            self.close()
            try:
                answer, descriptors = self._exchange(message)
            except (OSError, wire.Broken) as error:
                raise LauncherUnavailable(f"The launcher at {self._path} does not answer: {error}") from error
        return wire.result_of(answer), descriptors

    def _exchange(self, message: dict[str, Any]) -> tuple[dict[str, Any], tuple[int, ...]]:
        connection = self._take()
        try:
            wire.send(connection, message)
            result = wire.receive(connection)
        except BaseException:
            connection.close()
            raise
        with self._lock:
            self._idle.append(connection)
        return result

    def _take(self) -> socket.socket:
        with self._lock:
            if self._pid != os.getpid():  # A forked child must not share its parent's connections.
                self._idle, self._pid = [], os.getpid()
            if self._idle:
                return self._idle.pop()
        return self._connect()

    def _connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(_ANSWER_SECONDS)
            connection.connect(self._path)
        except BaseException:
            connection.close()
            raise
        return connection
