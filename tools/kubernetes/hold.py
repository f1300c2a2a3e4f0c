"""A cluster that ends with its last user: a process holds it, and removes it when the last connection to it has closed.

    with held(nodes=1) as cluster: ...                  # starts the holder, waits until it is ready, and lets go
    with joined(directory) as cluster: ...              # another process that uses the same

The kernel closes the connections of a process that dies, in whatever way, so a killed test run leaves nothing. The holder is in a
session of its own, which no key of a terminal ends. If it is killed itself, the kernel ends with it what runs in namespaces; then
files and empty control groups are left, and `sweep` finds these by the lock that no process holds any more.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tools.kubernetes import pidfiles
from tools.kubernetes.cluster import Cluster
from tools.progress import Stop

PREFIX = "berth-kubernetes-"
PLACE = Path("/tmp")  # Each holder makes a directory of its own there, with an unpredictable name.
LOCK = "holder.lock"
SOCKET = "holder.sock"
LOG = "holder.log"
READY = b"ready\n"
KEPT = b"kept\n"  # Others use it still.
UP_SECONDS_MAX = 600.0
DOWN_SECONDS_MAX = 180.0
MAKING_SECONDS_MAX = 600.0  # A directory without a lock is one that is being made, or was left by a process killed just then.


@contextlib.contextmanager
def held(*, nodes: int = 1, simulated: int = 0, gpus: int = 4, with_python: bool = False) -> Iterator[Cluster]:
    """A new cluster. It is gone when the block has ended and all who joined have left."""
    sweep()
    flags = ["--nodes", str(nodes), "--simulated", str(simulated), "--gpus", str(gpus), *(["--python"] if with_python else [])]
    directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir=PLACE))
    ours, theirs = socket.socketpair()
    with (directory / LOCK).open("w") as lock, (directory / LOG).open("wb") as log:
        fcntl.flock(lock, fcntl.LOCK_EX)  # The holder inherits the lock with the file.
        command = [sys.executable, "-m", "tools.kubernetes", "hold", str(directory), *flags, "--lock", str(lock.fileno())]
        holder = subprocess.Popen(
            command, stdin=theirs.fileno(), stdout=log, stderr=log, pass_fds=[lock.fileno()], start_new_session=True,
            cwd=Path(__file__).resolve().parents[2],
        )  # fmt: skip
    pidfiles.adopt(holder)  # It runs on if others use the cluster.
    theirs.close()
    try:
        with _used(ours, directory) as cluster:
            yield cluster
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired):
            holder.wait(1.0)  # Already over, unless others use the cluster.


@contextlib.contextmanager
def joined(directory: Path) -> Iterator[Cluster]:
    """The cluster that another process holds. Raises ConnectionError if it has ended."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(directory / SOCKET))
    except OSError as error:
        connection.close()
        raise ConnectionError(f"nothing holds {directory}: {error.strerror}") from None
    with _used(connection, directory) as cluster:
        yield cluster


def hold(cluster: Cluster, lock: int, *, nodes: int, simulated: int, gpus: int, with_python: bool) -> int:
    """The holder itself: its standard input is the first connection, and `lock` the descriptor of the lock. An exit status."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    first = socket.socket(fileno=os.dup(0))
    listener = socket.socket(socket.AF_UNIX)
    users = [first]
    try:
        listener.bind(str(cluster.directory / SOCKET))
        listener.listen()
        try:
            cluster.up(nodes=nodes, simulated=simulated, gpus=gpus, with_python=with_python)
        except Stop as refusal:
            _say(first, f"{refusal}\n".encode())
            return 1
        _say(first, READY)
        _serve(listener, users)
        return 0
    finally:
        listener.close()
        cluster.remove()
        for user in users:
            user.close()  # A process that waits for the end now sees it.
        os.close(lock)


def sweep() -> list[Path]:
    """Remove the clusters of this user whose holders were killed; their directories."""
    removed = []
    for directory in PLACE.glob(f"{PREFIX}*"):
        with contextlib.suppress(FileNotFoundError), contextlib.ExitStack() as stack:  # Its holder is removing it.
            if directory.is_symlink() or directory.stat().st_uid != os.geteuid():
                continue
            if stack.enter_context(_unless_held(directory)):
                Cluster(directory).remove()
                removed.append(directory)
    return removed


@contextlib.contextmanager
def _unless_held(directory: Path) -> Iterator[bool]:
    """Whether no process holds the cluster; while the block runs no other process gets True."""
    try:
        lock = (directory / LOCK).open("r")
    except FileNotFoundError:
        yield time.time() - directory.stat().st_mtime > MAKING_SECONDS_MAX
        return
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


@contextlib.contextmanager
def _used(connection: socket.socket, directory: Path) -> Iterator[Cluster]:
    """Wait until the holder says that it is ready, and at the end until it has removed the cluster or says that others use it."""
    with connection:
        connection.settimeout(UP_SECONDS_MAX)
        said = _line(connection)
        if said != READY:
            raise ConnectionError(said.decode().strip() or f"the holder of {directory} ended: {_last_words(directory)}")
        try:
            yield Cluster(directory)
        finally:
            connection.settimeout(DOWN_SECONDS_MAX)
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_WR)
                _line(connection)


def _serve(listener: socket.socket, users: list[socket.socket]) -> None:
    """Take connections until the last has closed, which stays in `users` so that it learns of the end."""
    with selectors.DefaultSelector() as selector:
        for each in (listener, *users):
            selector.register(each, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is listener:
                    user, _ = listener.accept()
                    _say(user, READY)
                    selector.register(user, selectors.EVENT_READ)
                    users.append(user)
                    continue
                [leaving] = [user for user in users if user is key.fileobj]
                if _is_open(leaving):
                    continue
                selector.unregister(leaving)
                if len(users) == 1:
                    return
                users.remove(leaving)
                _say(leaving, KEPT)
                leaving.close()


def _is_open(user: socket.socket) -> bool:
    try:
        return bool(user.recv(1024))
    except OSError:
        return False


def _say(user: socket.socket, words: bytes) -> None:
    """To a user who may be dead."""
    with contextlib.suppress(OSError):
        user.sendall(words)


def _line(connection: socket.socket) -> bytes:
    """What is said until the line or the connection ends."""
    said = b""
    with contextlib.suppress(ConnectionResetError):
        while not said.endswith(b"\n"):
            more = connection.recv(4096)
            if not more:
                break
            said += more
    return said


def _last_words(directory: Path) -> str:
    with contextlib.suppress(FileNotFoundError):
        return (directory / LOG).read_text(errors="replace").strip()[-1000:]
    return "its directory is gone"
