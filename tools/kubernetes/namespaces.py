"""Network, mount and process namespaces of their own, which one process holds.

The kernel ends all of it with that process: whatever runs inside, however often it forked, mounts that were made inside, network
devices and the other ends of their cables. So what a killed test leaves is never more than files and empty cgroups.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from tools.kubernetes import pidfiles
from tools.progress import Stop

# Process 1 inside. The kernel hands it each process whose parent died; a parent that ignores this signal need not collect them.
HOLDER = """\
import signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print("ready", flush=True)
while True:
    signal.pause()
"""


class Namespaces:
    """Those of one directory, which knows their holder. With `dies_with_caller` they end with the thread that starts them."""

    def __init__(self, directory: Path, *, dies_with_caller: bool = False) -> None:
        self.directory = directory
        self.dies_with_caller = dies_with_caller

    def start(self) -> None:
        """Make them, unless they are there. As root."""
        if self.is_there:
            return
        deathly = ["setpriv", "--pdeathsig", "KILL", "--"] if self.dies_with_caller else []
        command = [
            *deathly, "unshare", "--fork", "--kill-child=KILL", "--pid", "--mount", "--net", "--propagation", "private",
            "--mount-proc", "--", sys.executable, "-I", "-S", "-c", HOLDER,
        ]  # fmt: skip
        with self._log.open("wb") as log:
            child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, cwd="/", start_new_session=True
            )
        pidfiles.adopt(child)
        assert child.stdout is not None
        with child.stdout:
            is_ready = child.stdout.readline() == b"ready\n"
        if not is_ready:
            raise Stop(f"namespaces need root with CAP_SYS_ADMIN: {pidfiles.last_lines(self._log)}")
        pidfiles.remember(self._pidfile, pidfiles.only_child(child, self._log))

    def stop(self) -> None:
        """Kill the holder, and with it all that runs inside; nothing if there is none."""
        if not pidfiles.end(self._pidfile, signal.SIGKILL, pidfiles.KILL_SECONDS_MAX):
            raise Stop(f"the namespaces of {self.directory} do not end, though process {self.holder} was killed.")

    @property
    def is_there(self) -> bool:
        return bool(pidfiles.remembered(self._pidfile))

    @property
    def holder(self) -> int:
        """The first process inside, by its number outside."""
        holder = pidfiles.remembered(self._pidfile)
        if not holder:
            raise Stop(f"{self.directory} has no namespaces now: the node is switched off, or the cluster is down.")
        return holder

    def enter(self, *command: str) -> list[str]:
        """The command line that runs a command inside."""
        return ["nsenter", "--target", str(self.holder), "--mount", "--net", "--pid", "--wd=/", "--", *command]

    def enter_network(self, *command: str) -> list[str]:
        """The same inside of the network alone, where it sees the files and processes of this machine."""
        return ["nsenter", f"--net=/proc/{self.holder}/ns/net", "--", *command]

    @property
    def _pidfile(self) -> Path:
        return self.directory / "namespaces.pid"

    @property
    def _log(self) -> Path:
        return self.directory / "namespaces.log"
