"""Where an installation of the embedded platform is, and the process that runs on it, if any. Standard library only."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tools.progress import Stop

ROOT = Path(__file__).resolve().parent.parent
DEFAULT_PORT = 8620
EXTRAS = ("ldap",)  # Each has a lock file of its own: `requirements-<extra>.lock`.
LOCK_SECONDS_MAX = 20  # A holder writes who it is just after it has locked; a machine that is busy may stop it in between.


class Place:
    """The data directory, the environment and the copy of the server of this installation."""

    up_command = "make up"  # What messages tell the user to run.
    down_command = "make down"

    def __init__(self, data: Path, port: int) -> None:
        self.data = data
        self.port = port
        host = os.environ.get("BERTH_HOST", "127.0.0.1")
        self.host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
        self.url = f"http://[{self.host}]:{port}" if ":" in self.host else f"http://{self.host}:{port}"
        self.chosen_extras = data / "release" / "extras"
        locks = b"".join(path.read_bytes() for path in self.lock_files)
        given = os.environ.get("BERTH_ENVIRONMENT")
        self.is_environment_given = bool(given)
        name = hashlib.sha256(locks + sys.version.encode()).hexdigest()[:12]
        self.environment = Path(given) if given else data / "env" / name
        self.python = self.environment / "bin" / "python"
        self.command = data / "bin" / "berth"
        self.server_command = data / "bin" / "berth-server"
        self.log = data / "log" / "platform.log"
        self.lock = data / "platform.lock"
        self.welcomed = data / "release" / "welcomed"  # The example ran here, or was declined.

    @classmethod
    def find(cls, port: int) -> Place:
        """The directory from BERTH_DATA_DIR; else /var/lib/berth for root, the user's data folder for others."""
        text = os.environ.get("BERTH_DATA_DIR")
        if text:
            return cls(Path(text).expanduser().resolve(), port)
        if os.geteuid() == 0:
            return cls(Path("/var/lib/berth"), port)
        base = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
        return cls(Path(base) / "berth", port)

    @property
    def extras(self) -> list[str]:
        """What was asked for beside the server itself, at the last `make up EXTRAS=...`."""
        try:
            return [word for word in self.chosen_extras.read_text().split() if word in EXTRAS]
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return []

    @property
    def lock_files(self) -> list[Path]:
        """What the environment is made from; its name says their content."""
        return [ROOT / "requirements.lock", *(ROOT / f"requirements-{extra}.lock" for extra in self.extras)]

    @property
    def release(self) -> Path:
        return self.data / "release" / (self.data / "release" / "current").read_text().strip()


class RunningPlatform:
    """The platform that holds a data directory: its process, where it answers and the copy of the server that it runs."""

    def __init__(self, process: int, url: str, release: str) -> None:
        self.process = process
        self.url = url
        self.release = release


def find_running(place: Place) -> RunningPlatform | None:
    """The platform that holds the data directory's lock, if any does. What a dead one wrote there does not count."""
    deadline = time.monotonic() + LOCK_SECONDS_MAX
    while is_locked(place.lock):
        words = read_lock(place)
        if len(words) == 3 and words[0].isdigit():
            return RunningPlatform(int(words[0]), words[1], words[2])
        if time.monotonic() > deadline:
            raise Stop(f"something holds {place.lock} and does not say who it is; `fuser {place.lock}` tells.")
        time.sleep(0.02)
    return None


def is_locked(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    except PermissionError:
        raise Stop(f"{path.parent} belongs to somebody else. Set BERTH_DATA_DIR to a directory of yours.") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def read_lock(place: Place) -> list[str]:
    """Process, address and release of the platform that runs, or ran last; empty before the first."""
    try:
        return place.lock.read_text(errors="replace").split("\n")[:3]
    except FileNotFoundError:
        return []


@contextlib.contextmanager
def alone(place: Place) -> Iterator[None]:
    """Two of these at once would install into each other's folders."""
    with (place.data / "release" / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Stop(f"another `{place.up_command}` is at work on {place.data}. Wait until it has ended.") from None
        yield


def check_port(place: Place) -> None:
    try:
        bind(place.host, place.port)
    except OSError as error:
        raise Stop(
            f"port {place.port} cannot be used: {error.strerror}. Choose another one: {place.up_command} PORT={free_port(place)}"
        ) from None


def bind(host: str, port: int) -> None:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))


def free_port(place: Place) -> int:
    """A port to propose: the first free one of a few that are easily remembered."""
    for port in range(8700, 8800, 10):
        with contextlib.suppress(OSError):
            bind(place.host, port)
            return port
    return DEFAULT_PORT


def command_folder() -> Path:
    given = os.environ.get("BERTH_COMMAND_DIR")
    if given:
        return Path(given)
    return Path("/usr/local/bin") if os.geteuid() == 0 else Path.home() / ".local" / "bin"


def config_path() -> Path:
    """Where the command line keeps servers and tokens."""
    given = os.environ.get("BERTH_CONFIG")
    if given:
        return Path(given).expanduser()
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "berth" / "config.toml"
