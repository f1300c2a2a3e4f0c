"""Berth for a benchmark: the product's own command on new data in a folder of /tmp, nothing in it switched for measuring.

    with running_platform(BERTH_LOCAL_CPU_MILLIS="32000") as berth:
        berth.api("POST", "/jobs", {...})
        before = berth.cpu_seconds()

The production profile runs on Debian's PostgreSQL and Redis, private to this run, with durability on.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import pwd
import secrets
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psutil

from bench.frame import BenchError, temporary_folder
from tests.servers import ServerError, Servers, servers
from tools import up

START_SECONDS_MAX = 180.0
STOP_SECONDS_MAX = 60.0
SETTINGS = {"BERTH_REQUESTS_PER_MINUTE": "0"}  # One client stands for many people.

Json = Any


class RunningPlatform:
    """One installation with its first operator."""

    def __init__(
        self,
        place: Path,
        settings: Mapping[str, str],
        stores: Servers | None,
        server: Path | None,
        through: Sequence[str] = (),
    ) -> None:
        self.place = place
        self._through = through
        self.data_dir = place / "data"
        self.log = place / "platform.log"
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.settings = dict(settings)
        self.stores = stores
        self.token = self.tenant = ""
        self.ready_seconds = 0.0
        self.process: subprocess.Popen[bytes] | None = None
        self.data_dir.mkdir(mode=0o711, exist_ok=True)
        self.data_dir.chmod(0o711)
        release = up.Place(place, 0)
        release.python = Path(sys.executable)
        (place / "release").mkdir(exist_ok=True)
        up.copy_release(release)
        self._release = release.release
        self._server = server or release.release / "manage.py"
        if os.geteuid() == 0:
            up.ensure_service_user(up.Place(Path("/var/lib/berth"), 0))
            user = pwd.getpwnam(up.SERVICE_USER)
            os.chown(self.data_dir, user.pw_uid, user.pw_gid)

    # --- Life --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start it and wait until it is ready; `ready_seconds` says how long that took."""
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.data_dir),
            "LANG": "C.UTF-8",
            "PYTHONUNBUFFERED": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            **SETTINGS,
            **(self.stores.environment() if self.stores is not None else {}),
            **self.settings,
            "BERTH_DATA_DIR": str(self.data_dir),
            "BERTH_PORT": str(self.port),
            "BENCH_RELEASE": str(self._release),
        }
        began = time.monotonic()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self._through, sys.executable, str(self._server), "serve", "--bootstrap"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", env=environment, start_new_session=True,
            )  # fmt: skip
        while not self._is_ready():
            if self.process.poll() is not None:
                raise BenchError(f"the platform ended with {self.process.returncode}:\n{self._log_tail()}")
            if time.monotonic() - began > START_SECONDS_MAX:
                raise BenchError(f"the platform is not ready after {START_SECONDS_MAX:.0f} s:\n{self._log_tail()}")
            time.sleep(0.02)
        self.ready_seconds = time.monotonic() - began
        first = self.data_dir / "first-credentials.json"
        if not self.token and first.exists():
            credentials = json.loads(first.read_text())
            self.token, self.tenant = credentials["token"], credentials["tenant"]

    def stop(self) -> None:
        """What `make down` does; what does not end in time is killed."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _is_ready(self) -> bool:
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self._call("GET", "/readyz", None)[0] == 200
        return False

    def _log_tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])

    # --- Talking to it -----------------------------------------------------------------------------------------------

    def api(self, method: str, path: str, body: Json = None) -> Json:
        """One call below /api/v1 that must succeed."""
        status, answer = self._call(method, f"/api/v1{path}", body)
        if not 200 <= status < 300:
            raise BenchError(f"{method} {path}: {status} {answer[:1000].decode(errors='replace')}")
        return json.loads(answer) if answer else None

    def _call(self, method: str, path: str, body: Json) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        headers = {"Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """What its database says, past the product: for counting what is stored."""
        if self.stores is None:
            path = self.data_dir / "berth.sqlite3"
            with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=20)) as connection:
                return connection.execute(sql).fetchall()
        import psycopg

        with psycopg.connect(self.stores.database_url) as connection:
            return connection.execute(sql).fetchall()  # type: ignore[call-overload,no-any-return]

    def execute(self, sql: str) -> None:
        """Change its database past the product, while it is down: to bring in what would take hours to come about."""
        if self.stores is None:
            path = self.data_dir / "berth.sqlite3"
            with contextlib.closing(sqlite3.connect(path, timeout=20)) as connection, connection:
                connection.execute(sql)
            return
        import psycopg

        with psycopg.connect(self.stores.database_url) as connection:
            connection.execute(sql)  # type: ignore[call-overload]

    def columns(self, table: str) -> list[str]:
        """The columns of a table that can be written, in order."""
        if self.stores is None:
            return [str(row[1]) for row in self.rows(f"PRAGMA table_info({table})")]
        found = self.rows(
            f"SELECT column_name FROM information_schema.columns WHERE table_name = '{table}' AND is_generated = 'NEVER' "
            "ORDER BY ordinal_position"
        )
        return [str(row[0]) for row in found]

    # --- What it costs -----------------------------------------------------------------------------------------------

    def processes(self) -> dict[str, list[psutil.Process]]:
        """Its live processes by what they are; those of jobs are not among them."""
        assert self.process is not None
        known = self._known_roles()
        found: dict[str, list[psutil.Process]] = {}
        roots = [psutil.Process(self.process.pid), *_store_processes(self.stores)]
        for root in roots:
            with contextlib.suppress(psutil.NoSuchProcess):
                for process in (root, *root.children(recursive=True)):
                    with contextlib.suppress(psutil.NoSuchProcess):
                        if (name := known.get(process.pid) or _role(process, main=self.process.pid)) is not None:
                            found.setdefault(name, []).append(process)
        return found

    def _known_roles(self) -> dict[int, str]:
        """What the supervisor of the production profile says of its children."""
        with contextlib.suppress(OSError, ValueError):
            document = json.loads((self.data_dir / "run" / "processes.json").read_text())
            return {pid: role for role, pids in document.items() if role != "ready" and isinstance(pids, list) for pid in pids}
        return {}

    def cpu_seconds(self) -> dict[str, float]:
        """CPU used so far, by process; `... children` is what its ended children used, which includes those of jobs."""
        used: dict[str, float] = {}
        for name, group in self.processes().items():
            for process in group:
                with contextlib.suppress(psutil.NoSuchProcess):
                    times = process.cpu_times()
                    used[name] = used.get(name, 0.0) + times.user + times.system
                    ended = times.children_user + times.children_system
                    if ended:
                        used[f"{name} children"] = used.get(f"{name} children", 0.0) + ended
        return used

    def memory_bytes(self) -> dict[str, tuple[int, int]]:
        """Resident and proportional size, by process. Pages that forked processes share count in each resident size."""
        sizes: dict[str, tuple[int, int]] = {}
        for name, group in self.processes().items():
            for process in group:
                with contextlib.suppress(psutil.Error):
                    info = process.memory_full_info()
                    resident, proportional = sizes.get(name, (0, 0))
                    sizes[name] = (resident + info.rss, proportional + info.pss)
        return sizes


@contextlib.contextmanager
def running_platform(
    *, profile: str = "embedded", server: Path | None = None, through: Sequence[str] = (), **settings: str
) -> Iterator[RunningPlatform]:
    """A platform on new data while the block runs. `server`: a program to run in place of the product's own; `through`: a command
    line that becomes it."""
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(temporary_folder("berth"))
        stores = None
        if profile == "production":
            try:
                stores = stack.enter_context(servers())
            except ServerError as error:
                raise BenchError(str(error)) from None
            _let_service_user_in(stores)
            settings = {"BERTH_SERVER_PROFILE": "production", "BERTH_SECRET_KEY": secrets.token_urlsafe(48), **settings}
        platform = RunningPlatform(place, settings, stores, server, through)
        try:
            platform.start()
            yield platform
        finally:
            platform.stop()
            _end_tasks(platform.data_dir)


def _role(process: psutil.Process, *, main: int) -> str | None:
    """What a process is; None for those that belong to a job."""
    line = process.cmdline()
    text = " ".join(line)
    if process.pid == main:
        return "platform"
    if "postgres" in process.name():
        return "postgresql"
    if "redis" in process.name():
        return "redis"
    if "setpriv" in line[:1] or "bwrap" in text.split(" ")[0] or not line:
        return None
    if "launching" in text or "launcher" in text:
        return "launcher"
    for role in ("web", "worker", "scheduler", "observer"):
        if f"run {role}" in text:
            return role
    return None


def _store_processes(stores: Servers | None) -> list[psutil.Process]:
    """The parents of the database's and the broker's processes, which are children of this one."""
    if stores is None:
        return []
    return [process for process in psutil.Process().children() if process.name() in ("postgres", "redis-server")]


def _let_service_user_in(stores: Servers) -> None:
    """The servers' sockets are closed to everybody but their own users; the platform's user may pass."""
    if os.geteuid() != 0:
        return
    up.ensure_service_user(up.Place(Path("/var/lib/berth"), 0))
    group = pwd.getpwnam(up.SERVICE_USER).pw_gid
    database = Path(parse_qs(urlsplit(stores.database_url).query)["host"][0])
    broker = Path(urlsplit(stores.redis_url).path).parent
    for directory in (database, broker):
        for path, mode in [(directory, 0o710), *((each, 0o770) for each in directory.iterdir() if each.is_socket())]:
            os.chown(path, -1, group)
            path.chmod(mode)


def _end_tasks(data_dir: Path) -> None:
    """Kill what tasks of this data directory's jobs still run, found by the mark that the engine gives them."""
    mark = f"{data_dir}/engine/"
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.cwd().startswith(mark) or any(mark in word for word in process.cmdline()):
                process.kill()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
