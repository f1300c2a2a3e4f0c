"""The keeper of an installation that `make up` started: what dies of it is started again. Standard library only.

It does what systemd does for installations that have it: once a second it looks whether PostgreSQL and Redis, where they are
this installation's own, and the platform itself run, and starts what does not. `make down` ends it first. It holds nothing
that the platform needs: when it dies everything goes on, and the next `make up` starts another one.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.leftover import end_left_over  # noqa: E402 - the root comes first.
from tools.place import Place, find_running, is_locked  # noqa: E402
from tools.production import PRODUCTION, known_profile, remembered_settings  # noqa: E402
from tools.progress import Stop  # noqa: E402
from tools.servers import own_servers  # noqa: E402

LOOK_SECONDS = 1.0
PAUSE_SECONDS = (1.0, 60.0)  # After a failed start; doubled with each further one.
END_SECONDS_MAX = 150  # In the midst of a start it ends after it: a database may have to read its log again.
STARTED_SECONDS_MAX = 10

Start = Callable[[Place, Mapping[str, str]], int]


def lock_path(place: Place) -> Path:
    return place.data / "release" / "keeper.lock"


def find_keeper(place: Place) -> int:
    """The keeper's process, or 0."""
    path = lock_path(place)
    if not is_locked(path):
        return 0
    with contextlib.suppress(OSError, ValueError):
        return int(path.read_text())
    return 0


def start_keeper(place: Place) -> int:
    """Start one, of the present code and settings, in the place of the one that may run; its process."""
    end_keeper(place)
    running = find_running(place)
    port = running.url.rpartition(":")[2] if running is not None else str(place.port)
    environment = {**os.environ, "BERTH_DATA_DIR": str(place.data), "BERTH_PORT": port}
    with (place.data / "log" / "keeper.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve())],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", env=environment, start_new_session=True,
        )  # fmt: skip
    deadline = time.monotonic() + STARTED_SECONDS_MAX
    while find_keeper(place) != process.pid:
        if process.poll() is not None or time.monotonic() > deadline:
            raise Stop(f"the keeper did not start; its log: {place.data / 'log' / 'keeper.log'}")
        time.sleep(0.02)
    return process.pid


def end_keeper(place: Place) -> None:
    """End the one that runs, and wait for it: afterwards nothing is started any more."""
    pid = find_keeper(place)
    if not pid:
        return
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        return
    except PermissionError:
        somebody = f"the keeper (process {pid}) belongs to somebody else"
        raise Stop(f"{somebody}; they can stop it with `{place.down_command}`.") from None
    deadline = time.monotonic() + END_SECONDS_MAX
    while is_locked(lock_path(place)):
        if time.monotonic() > deadline:
            raise Stop(f"the keeper (process {pid}) does not end; its log: {place.data / 'log' / 'keeper.log'}")
        time.sleep(0.02)


class Keeper:
    """Looks, and starts what does not run. `start` starts the platform and waits until it is ready."""

    def __init__(self, place: Place, start: Start) -> None:
        self.place = place
        self.start = start
        self.ends = False
        self._pause = 0.0
        self._not_before = 0.0

    def run(self) -> None:
        """Go on until told to end."""
        while not self.ends:
            if time.monotonic() >= self._not_before:
                self._look()
            time.sleep(LOOK_SECONDS)

    def _look(self) -> None:
        try:
            self._keep_servers()
            self._keep_platform()
            self._pause = 0.0
        except (Stop, OSError) as error:
            least, most = PAUSE_SECONDS
            self._pause = min(most, max(least, self._pause * 2))
            self._not_before = time.monotonic() + self._pause
            tell(f"{error} Another try in {self._pause:.0f} s.")

    def _keep_servers(self) -> None:
        for server in own_servers(self.place):
            if not server.process() and not self.ends:
                tell(f"{server.name} does not run; it is started again.")
                server.start()
                tell(f"{server.name} runs as process {server.process()}.")

    def _keep_platform(self) -> None:
        if self.ends or find_running(self.place) is not None:
            return
        tell("The platform does not run; it is started again.")
        end_left_over(self.place)
        settings = remembered_settings(self.place) if known_profile(self.place) == PRODUCTION else {}
        tell(f"The platform runs as process {self.start(self.place, settings)}.")


def tell(text: str) -> None:
    print(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {text}", flush=True)


def main() -> int:
    from tools.up import start

    os.umask(0o022)
    place = Place.find(int(os.environ["BERTH_PORT"]))
    keeper = Keeper(place, start)
    descriptor = os.open(lock_path(place), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    if not _lock(descriptor):
        tell("Another keeper is at work.")
        return 1

    def end(number: int, frame: object) -> None:
        keeper.ends = True

    signal.signal(signal.SIGTERM, end)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    keeper.run()
    return 0


def _lock(descriptor: int) -> bool:
    """Hold the lock for the life of this process; a process that only looks holds it for a moment."""
    deadline = time.monotonic() + LOOK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        else:
            return True


if __name__ == "__main__":
    sys.exit(main())
