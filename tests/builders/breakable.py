"""PostgreSQL and Redis that a test may kill, freeze, empty and start again: its own, never those of the whole run.

with breakable_servers() as servers, servers.platform() as platform:
    servers.redis.kill()
    servers.redis.start(empty=True)
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import redis

from tests import servers as plain
from tests.builders.live import LivePlatform, running_platform
from tests.builders.prepared import short_folder
from tests.builders.stores import let_service_user_in

# A server is told to end when the thread that started it ends: one thread starts them all and lives as long as this process.
_STARTER = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="server-starter")


class Breakable:
    """One server process and what may be done to it."""

    def __init__(self, server: plain.LaidOut) -> None:
        self.server = server
        self.url = server.url
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self, *, empty: bool = False) -> None:
        """Start it and wait until it answers; `empty` throws away what Redis had kept."""
        assert not self.is_running, f"{self.server.name} runs already"
        if empty:
            shutil.rmtree(self.server.home / "appendonlydir", ignore_errors=True)
        self.process = _STARTER.submit(plain.start_server, self.server).result()
        plain.wait_until_it_answers(self.server, self.process)
        self.let_service_user_in()

    def let_service_user_in(self) -> None:
        """As root the platform runs as a user of its own; a socket is made anew with each start."""
        let_service_user_in(self.server.home)

    def kill(self, number: int = signal.SIGKILL) -> None:
        """kill -9, or for PostgreSQL SIGQUIT: an immediate stop in the middle of whatever it does."""
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait()

    def freeze(self) -> None:
        """Stop it and all that it has started: a process of PostgreSQL for each connection, which would go on by itself."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        wait_frozen(self.process.pid)  # From here on no more children are made.
        self._tell_children(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self.process is not None
        self._tell_children(signal.SIGCONT)
        self.process.send_signal(signal.SIGCONT)

    def _tell_children(self, number: signal.Signals) -> None:
        assert self.process is not None
        task = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        for child in task.read_text().split() if task.exists() else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(child), number)

    def mend(self) -> None:
        """Let it run again, whatever was done to it."""
        if self.is_running:
            self.thaw()
        else:
            self.start()

    def end(self) -> None:
        if self.process is not None and self.is_running:
            self.thaw()
            plain.end_server(self.server, self.process)


@dataclass(frozen=True)
class BreakableServers:
    """Both servers, running."""

    postgresql: Breakable
    redis: Breakable

    def mend(self) -> None:
        for server in (self.postgresql, self.redis):
            server.mend()

    def restart_database(self) -> None:
        """An immediate stop, as by a power cut of the database alone, and up again at once."""
        self.postgresql.kill(signal.SIGQUIT)
        self.postgresql.start()

    def cut_connections(self) -> int:
        """End every connection of the platform to its database; how many there were."""
        ours = "datname LIKE 'live_%' AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        with psycopg.connect(self.postgresql.url, autocommit=True) as connection:
            found = connection.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {ours}")  # type: ignore[arg-type]
            return len(found.fetchall())

    def flush_redis(self) -> None:
        with redis.Redis.from_url(self.redis.url) as client:
            client.flushall()

    @contextlib.contextmanager
    def platform(self, **settings: str) -> Iterator[LivePlatform]:
        """A platform on these servers while the block runs."""
        before = {name: os.environ.get(name) for name in ("BERTH_DATABASE_URL", "BERTH_REDIS_URL")}
        os.environ.update(BERTH_DATABASE_URL=self.postgresql.url, BERTH_REDIS_URL=self.redis.url)
        try:
            with running_platform(**settings) as platform:
                try:
                    yield platform
                finally:
                    self.mend()
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


@contextlib.contextmanager
def breakable_servers() -> Iterator[BreakableServers]:
    """Both, fresh and empty, while the block runs."""
    plain.require_packages()
    root = short_folder("breakable")
    root.chmod(0o711)
    postgresql = Breakable(plain.lay_out_postgresql(root / "postgresql"))
    redis_server = Breakable(plain.lay_out_redis(root / "redis"))
    try:
        postgresql.start()
        plain.create_database(postgresql.server)
        redis_server.start()
        yield BreakableServers(postgresql, redis_server)
    finally:
        for server in (redis_server, postgresql):
            server.end()
        shutil.rmtree(root, ignore_errors=True)


def wait_frozen(pid: int, *, seconds: float = 60.0) -> None:
    """Wait until a process that was sent SIGSTOP, or sent it to itself, has stopped."""
    deadline = time.monotonic() + seconds
    while (Path("/proc") / str(pid) / "stat").read_text().rpartition(") ")[2].split()[0] not in "Tt":
        assert time.monotonic() < deadline, f"process {pid} has not stopped after {seconds} s"
        time.sleep(0.01)
