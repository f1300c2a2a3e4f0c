"""What must be true before an embedded platform may start, each said in words when it is not."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import socket
import time
from pathlib import Path

from kernel.config import Config

FREE_BYTES_MIN = 512 * 1024**2  # The database, logs and an example image fit; less is a disk about to be full.
BACKLOG = 2_048  # Connections that wait while every web process is busy or being replaced.
LOCK_BYTES_MAX = 4_096  # A number, an address and a path.
LOCK_SECONDS = 1.0  # `make status` holds the lock for a moment to see whether it is free.
RELEASE = Path(__file__).resolve().parents[2]  # The copy of the server that runs.
EXIT_CONFIG = 78  # EX_CONFIG of sysexits.h.


class CannotStart(Exception):
    """The platform does not start; the message says why and what to do. `is_final`: nothing but a person's act changes that."""

    def __init__(self, reason: str, *, is_final: bool = True) -> None:
        super().__init__(reason)
        self.is_final = is_final

    @property
    def exit_code(self) -> int:
        """What the process ends with: a supervisor, ours or systemd, tries again only where that may help."""
        return EXIT_CONFIG if self.is_final else 1


# Directories that jobs pass through on their way to what is theirs, which they cannot list; and those that are ours alone.
OPEN_FOLDERS = ("engine", "images", "volumes", "checkpoints")
CLOSED_FOLDERS = ("run", "logs", "uploads", "code", "artifacts", "tools", "scheduler")


UNFINISHED_RESTORE = "restore.unfinished"  # There while a restore exchanges files; left by one that was cut off.


def check_data_directory(config: Config, *, may_be_unfinished: bool = False) -> None:
    """Raise CannotStart unless there is a directory that this user may write to, and no restore was cut off in it."""
    if not config.data_dir.is_dir():
        raise CannotStart(f"{config.data_dir} is no directory. Make it, or set BERTH_DATA_DIR to another one.")
    if not os.access(config.data_dir, os.W_OK | os.X_OK):
        raise CannotStart(f"This user may not write to {config.data_dir}. Set BERTH_DATA_DIR to a directory of yours.")
    if (config.data_dir / UNFINISHED_RESTORE).exists() and not may_be_unfinished:
        raise CannotStart(f"A restore of {config.data_dir} was cut off. Run the same `manage.py restore` once more, then start.")


def lay_out_data_directory(config: Config, *, uid: int, gid: int) -> None:
    """Make the data directory's folders with their owner and modes, whatever the umask is; harmless when they are there.

    As root the directory itself stays root's: the service user adds files, but cannot put others in the place of what root
    runs from there at the next start.
    """
    if os.geteuid() == 0:
        os.chown(config.data_dir, 0, gid)
        config.data_dir.chmod(0o1771)
    for name in (*OPEN_FOLDERS, *CLOSED_FOLDERS):
        path = config.data_dir / name
        path.mkdir(exist_ok=True)
        path.chmod(0o711 if name in OPEN_FOLDERS else 0o700)
        os.chown(path, uid, gid, follow_symlinks=False)


def lock_data_directory(config: Config) -> int:
    """Hold the directory's lock for the life of the process. Raises CannotStart if another platform has it.

    Its lines say who holds it: process, address, copy of the server. They stay when the holder dies; the lock does not.
    """
    path = config.data_dir / "platform.lock"
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        # Linux lets not even root open an existing file of another user with O_CREAT here (fs.protected_regular).
        descriptor = os.open(path, flags if path.exists() else flags | os.O_CREAT, 0o600)
    except OSError as error:
        raise CannotStart(f"{path} cannot be opened: {error.strerror}. Does this user own {config.data_dir}?") from None
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() < deadline:
                time.sleep(0.02)
                continue
        holder = os.read(descriptor, 20).decode(errors="replace").partition("\n")[0]
        os.close(descriptor)
        raise CannotStart(
            f"Another platform (process {holder or 'unknown'}) runs on {config.data_dir}. "
            "Stop it with `make down`, or choose another BERTH_DATA_DIR."
        )
    write_lock(descriptor, config)
    return descriptor


def write_lock(descriptor: int, config: Config) -> None:
    """Say in the lock that we hold who we are."""
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n{local_url(config)}\n{RELEASE}\n".encode(), 0)


def running_url(config: Config) -> str:
    """Where the platform that runs on this data directory serves, as it wrote into the lock that it holds; empty if none runs."""
    try:
        descriptor = os.open(config.data_dir / "platform.lock", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return ""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        lines = os.read(descriptor, LOCK_BYTES_MAX).decode(errors="replace").split("\n")
        return lines[1] if len(lines) > 2 else ""
    finally:
        os.close(descriptor)
    return ""


def local_url(config: Config) -> str:
    """Where this machine reaches the platform, whatever others call it."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(config.host, config.host)  # noqa: S104  (compared, not bound)
    return f"http://[{host}]:{config.port}" if ":" in host else f"http://{host}:{config.port}"


def check_port(config: Config) -> None:
    """Raise CannotStart if something listens on our port already."""
    listen(config, backlog=0).close()


def listen(config: Config, *, shared: bool = False, backlog: int = BACKLOG) -> socket.socket:
    """Take the port, and listen on it unless `backlog` is 0. Raises CannotStart, in words.

    `shared` lets other processes of the same user listen on it, too, each with a queue of its own (SO_REUSEPORT, socket(7)).
    """
    listener = socket.socket(socket.AF_INET6 if ":" in config.host else socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        listener.bind((config.host, config.port))
        if backlog:
            listener.listen(backlog)
    except OSError as error:
        listener.close()
        if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            raise CannotStart(f"BERTH_HOST={config.host} is no address of this machine.") from None
        raise CannotStart(
            f"Port {config.port} on {config.host} cannot be used: {error.strerror}. "
            "Choose another one, for example `make up PORT=8700`.",
            is_final=False,
        ) from None
    return listener


def check_disk(path: Path) -> None:
    """Raise CannotStart if the disk below `path` is nearly full."""
    free = shutil.disk_usage(path).free
    if free < FREE_BYTES_MIN:
        raise CannotStart(
            f"Only {free // 1024**2} MiB are free below {path}; Berth needs {FREE_BYTES_MIN // 1024**2} MiB. "
            "Free some space or choose another BERTH_DATA_DIR."
        )


def check_exposure(config: Config) -> None:
    """Refuse to listen beyond this host without TLS in front, unless the operator says where people reach it (security C41)."""
    if config.host not in {"127.0.0.1", "::1", "localhost"} and not config.public_url.startswith("https://"):
        raise CannotStart(
            f"BERTH_HOST={config.host} listens beyond this machine. Put a TLS proxy in front and set "
            "BERTH_PUBLIC_URL=https://..., or keep 127.0.0.1."
        )
