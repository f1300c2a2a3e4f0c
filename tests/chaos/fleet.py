"""The platform's processes as something to break: found by role, killed, frozen, and started again when nobody else does."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from pathlib import Path

from tests.builders.live import LivePlatform

RESTART_SECONDS = 0.5  # What a service manager waits before it starts a service again.


class Fleet:
    """All processes of one platform. A thread does what a service manager does: whatever ended as a whole is started again."""

    def __init__(self, platform: LivePlatform) -> None:
        self.platform = platform
        self.restarted_at: list[float] = []  # By hand, or by a service manager: seconds since the epoch.
        self._frozen: dict[int, float] = {}
        self._lock = threading.Lock()
        self._ends = threading.Event()
        self._keeper = threading.Thread(target=self._keep_up, name="service-manager", daemon=True)

    def start(self) -> None:
        self._keeper.start()

    def end(self) -> None:
        """Let everything run again and restart nothing any more."""
        self._ends.set()
        self._keeper.join()
        self.thaw_all()

    def _keep_up(self) -> None:
        while not self._ends.wait(0.1):
            if not self.platform.is_running:
                time.sleep(RESTART_SECONDS)
                self.platform.start_unready()
                self.restarted_at.append(time.time())

    # --- Who there is ------------------------------------------------------------------------------------------------

    def processes(self) -> dict[str, list[int]]:
        """Living processes by role; the embedded platform is one process with all of them, and perhaps a launcher."""
        if self.platform.settings.get("BERTH_SERVER_PROFILE") == "production":
            found = {role: [pid for pid in pids if _lives(pid)] for role, pids in self.platform.processes().items()}
        else:
            process = self.platform.process
            found = {"platform": [process.pid] if process is not None and process.poll() is None else []}
            found["launcher"] = launchers(self.platform.data_dir)
        return {role: pids for role, pids in found.items() if pids}

    def pick(self, chance: random.Random, roles: tuple[str, ...]) -> tuple[str, int] | None:
        """A living process of one of these roles, each process being as likely as the next."""
        known = self.processes()
        everybody = [(role, pid) for role in roles for pid in known.get(role, ())]
        return chance.choice(everybody) if everybody else None

    # --- What is done to them ----------------------------------------------------------------------------------------

    def kill(self, pid: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def freeze(self, pid: int, seconds: float) -> None:
        """Stop a process for a while; `thaw_due` lets it go on."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            with self._lock:
                self._frozen[pid] = time.monotonic() + seconds

    def freeze_found(self, seconds: float) -> None:
        """Take note of processes that stopped themselves, at a crash point, so that they go on again some time."""
        for pids in self.processes().values():
            for pid in pids:
                if is_stopped(pid):
                    with self._lock:
                        self._frozen.setdefault(pid, time.monotonic() + seconds)

    def thaw_due(self) -> list[int]:
        with self._lock:
            due = [pid for pid, until in self._frozen.items() if until <= time.monotonic()]
            for pid in due:
                del self._frozen[pid]
        for pid in due:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        return due

    def thaw_all(self) -> None:
        self.freeze_found(0.0)
        with self._lock:
            self._frozen = dict.fromkeys(self._frozen, 0.0)
        self.thaw_due()


def launchers(data_dir: Path) -> list[int]:
    """The processes that act with root for this platform, but for their keepers, which do nothing else than replace them."""
    word = f"{data_dir}/run/launcher.sock".encode()
    found: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if word in (path / "cmdline").read_bytes():
                found[int(path.name)] = int((path / "stat").read_text().rpartition(") ")[2].split()[1])
    return [pid for pid, parent in found.items() if parent in found]


def is_awake(pid: int) -> bool:
    """Whether a process lives and is not frozen."""
    return _state(pid) not in ("", "Z", "T")


def _lives(pid: int) -> bool:
    return _state(pid) not in ("", "Z")


def is_stopped(pid: int) -> bool:
    """Whether a process is frozen."""
    return _state(pid) == "T"


def _state(pid: int) -> str:
    """One letter, as the kernel has it; empty for a process that is not there."""
    with contextlib.suppress(OSError):
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(") ")[2].split()[0]
    return ""
