"""Looks through tenants' folders in processes of their own: few at once, a user's after another's, and few that wait.

Else one tenant with large folders and many requests would hold up whatever the asking process does besides.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clusters.engines.local.launching import wire
from clusters.engines.local.launching.verbs import LauncherBusy, LauncherUnavailable

VERBS = frozenset({"list_directory", "measure_tree"})
_AT_ONCE = 2
_LONG_AT_ONCE = 1  # Of whole trees; the other place is for a page of a folder, which a person waits for.
_WAITING_MAX = 2  # Of one user, for people: each waits in a thread of the process that asks, and is answered there.
_WAIT_SECONDS = 30.0
_PATIENT_SECONDS = 240.0  # For what the platform asks by itself. Below the time that a client of the launcher waits.
_ANSWER_SECONDS = 60.0  # Three times what a walk takes at most.


@dataclass(eq=False, slots=True)
class _Ask:
    user: str
    is_long: bool
    is_patient: bool


class Walks:
    """Threads may share it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running: list[_Ask] = []
        self._waiting: list[_Ask] = []
        self._served: Counter[str] = Counter()  # When a user had a turn last, as the number of that turn.
        self._turn = 0
        self._idle: list[_Walker] = []

    def ask(self, verb: str, arguments: dict[str, Any], *, user: str, patient: bool = False) -> bytes:
        """The answer as the JSON that it is. One user's looks go one after the other. LauncherBusy; LauncherUnavailable.

        `patient`: it waits however many wait, since nobody sits there and the platform needs the answer.
        """
        message = {"verb": verb, "arguments": arguments}
        is_long = verb == "measure_tree" or bool(arguments.get("recursive"))
        with self._taking_turn(_Ask(user, is_long, patient)):
            walker = self._take()
            try:
                answer = walker.exchange(message)
            except (OSError, wire.Broken):  # One that had waited so long that it went, or was killed.
                walker.close()
                walker = _Walker()
                try:
                    answer = walker.exchange(message)
                except (OSError, wire.Broken) as error:
                    walker.close()
                    raise LauncherUnavailable(f"A look through a folder broke off: {error}") from error
            with self._changed:
                self._idle.append(walker)
        return answer

    def close(self) -> None:
        """End the processes that wait; the next look starts another."""
        with self._changed:
            idle, self._idle = self._idle, []
        for walker in idle:
            walker.close()

    @contextlib.contextmanager
    def _taking_turn(self, ask: _Ask) -> Iterator[None]:
        deadline = time.monotonic() + (_PATIENT_SECONDS if ask.is_patient else _WAIT_SECONDS)
        with self._changed:
            waiting = sum(each.user == ask.user and not each.is_patient for each in self._waiting)
            if waiting >= _WAITING_MAX and not ask.is_patient:
                raise LauncherBusy("As many looks through this user's files wait as may.")
            self._waiting.append(ask)
            try:
                while self._next() is not ask:
                    if not self._changed.wait(deadline - time.monotonic()):
                        raise LauncherBusy("Other looks through files took too long.")
            finally:
                self._waiting.remove(ask)
                self._changed.notify_all()
            self._turn += 1
            self._served[ask.user] = self._turn
            self._running.append(ask)
        try:
            yield
        finally:
            with self._changed:
                self._running.remove(ask)
                if not self._waiting and not self._running:
                    self._served.clear()
                self._changed.notify_all()

    def _next(self) -> _Ask | None:
        """Whose turn it is: of those that may run now, the one whose user had none for the longest, and what is patient first."""
        if len(self._running) >= _AT_ONCE:
            return None
        busy = {each.user for each in self._running}
        has_long_room = sum(each.is_long for each in self._running) < _LONG_AT_ONCE
        free = [each for each in self._waiting if each.user not in busy and (has_long_room or not each.is_long)]
        return min(free, key=lambda each: (self._served[each.user], not each.is_patient), default=None)

    def _take(self) -> _Walker:
        with self._changed:
            if self._idle:
                return self._idle.pop()
        return _Walker()


class _Walker:
    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            environment = {
                "PATH": os.environ.get("PATH", os.defpath),
                "PYTHONPATH": str(Path(__file__).parents[4]),
                "LANG": "C.UTF-8",
            }
            command = [sys.executable, "-P", "-m", "clusters.engines.local.launching.walking"]
            self._process = subprocess.Popen(command, stdin=theirs.fileno(), env=environment, cwd="/", start_new_session=True)
        ours.settimeout(_ANSWER_SECONDS)
        self._connection = ours

    def exchange(self, message: dict[str, Any]) -> bytes:
        wire.send(self._connection, message)
        return wire.receive_packed(self._connection)

    def close(self) -> None:
        self._connection.close()
        self._process.kill()
        self._process.wait()


WALKS = Walks()
"""Those of this process."""

os.register_at_fork(after_in_child=WALKS.__init__)  # type: ignore[misc]  # A forked child shares none of its parent's.
