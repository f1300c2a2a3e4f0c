"""What must be true before an embedded platform may start, each said in words when it is not."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
from pathlib import Path

from kernel.config import Config

FREE_BYTES_MIN = 512 * 1024**2  # The database, logs and an example image fit; less is a disk about to be full.


class CannotStart(Exception):
    """The platform does not start; the message says why and what to do."""


# Directories that jobs pass through on their way to what is theirs, which they cannot list; and those that are ours alone.
OPEN_FOLDERS = ("engine", "images", "volumes")
CLOSED_FOLDERS = ("run", "log", "logs", "uploads", "code", "artifacts", "tools")


def lay_out_data_directory(config: Config, *, uid: int, gid: int) -> None:
    """Make the data directory's folders with their owner and modes, whatever the umask is; harmless when they are there."""
    for name in (*OPEN_FOLDERS, *CLOSED_FOLDERS):
        path = config.data_dir / name
        path.mkdir(exist_ok=True)
        path.chmod(0o711 if name in OPEN_FOLDERS else 0o700)
        os.chown(path, uid, gid)


def lock_data_directory(config: Config) -> int:
    """Hold the directory's lock for the life of the process. Raises CannotStart if another platform has it."""
    path = config.data_dir / "platform.lock"
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise CannotStart(f"{path} cannot be opened: {error.strerror}. Does this user own {config.data_dir}?") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(descriptor, 100).decode(errors="replace").strip()
        os.close(descriptor)
        raise CannotStart(
            f"Another platform (process {holder or 'unknown'}) runs on {config.data_dir}. "
            "Stop it with `make down`, or choose another BERTH_DATA_DIR."
        ) from None
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode())
    return descriptor


def check_port(config: Config) -> None:
    """Raise CannotStart if something listens on our port already."""
    with socket.socket(socket.AF_INET6 if ":" in config.host else socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((config.host, config.port))
        except OSError as error:
            raise CannotStart(
                f"Port {config.port} on {config.host} cannot be used: {error.strerror}. "
                "Choose another one, for example `make up PORT=8700`."
            ) from None


def check_disk(path: Path) -> None:
    """Raise CannotStart if the disk below `path` is nearly full."""
    free = shutil.disk_usage(path).free
    if free < FREE_BYTES_MIN:
        raise CannotStart(
            f"Only {free // 1024**2} MiB are free below {path}; Berth needs {FREE_BYTES_MIN // 1024**2} MiB. "
            "Free some space or choose another BERTH_DATA_DIR."
        )


def check_exposure(config: Config) -> None:
    """Refuse to listen beyond this host without TLS in front, unless somebody says where people reach it (security C41)."""
    if config.host not in {"127.0.0.1", "::1", "localhost"} and not config.public_url.startswith("https://"):
        raise CannotStart(
            f"BERTH_HOST={config.host} listens beyond this machine. Put a TLS proxy in front and set "
            "BERTH_PUBLIC_URL=https://..., or keep 127.0.0.1."
        )
