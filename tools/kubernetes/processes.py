"""Long-lived processes that a directory knows by name: one process starts them, another one may look, kill and start anew.

processes = Processes(directory, inside=namespaces)
processes.start("etcd", ["/path/of/etcd", ...])    # its log is etcd.log, its process id in etcd.pid
processes.kill("etcd")
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tools.kubernetes import pidfiles
from tools.kubernetes.namespaces import Namespaces
from tools.progress import Stop

STOP_SECONDS_MAX = 20.0
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Processes:
    """Those of one directory. With `dies_with_caller` each gets SIGKILL when the thread that started it ends."""

    def __init__(self, directory: Path, inside: Namespaces | None = None, *, dies_with_caller: bool = False) -> None:
        self.directory = directory
        self.inside = inside
        self.dies_with_caller = dies_with_caller

    def start(self, name: str, command: Sequence[str]) -> None:
        """Start it unless it runs. It sees none of this process's environment: a proxy named there is none of a cluster's."""
        if self.process(name):
            return
        if self.inside is not None:
            command = self.inside.enter(*command)
        elif self.dies_with_caller:
            command = ["setpriv", "--pdeathsig", "KILL", "--", *command]
        environment = {"PATH": PATH, "HOME": os.environ.get("HOME", "/"), "LANG": "C.UTF-8"}
        with self.log(name).open("ab") as log:
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", env=environment, start_new_session=True
            )
        pidfiles.adopt(child)
        pid = child.pid if self.inside is None else pidfiles.only_child(child, self.log(name))
        pidfiles.remember(self._pidfile(name), pid)

    def process(self, name: str) -> int:
        """Its process id, or 0 if it does not run."""
        return pidfiles.remembered(self._pidfile(name))

    def stop(self, name: str) -> None:
        """Ask it to end, and kill it if it does not."""
        pidfiles.end(self._pidfile(name), signal.SIGTERM, STOP_SECONDS_MAX)
        self.kill(name)

    def kill(self, name: str) -> None:
        """kill -9; returns when it is gone."""
        if not pidfiles.end(self._pidfile(name), signal.SIGKILL, pidfiles.KILL_SECONDS_MAX):
            raise Stop(f"{name} (process {self.process(name)}) does not end, though it was killed.")

    def log(self, name: str) -> Path:
        return self.directory / f"{name}.log"

    def last_words(self, name: str) -> str:
        return pidfiles.last_lines(self.log(name))

    def _pidfile(self, name: str) -> Path:
        return self.directory / f"{name}.pid"
