"""Debian's PostgreSQL and Redis for one test run: started in a temporary directory, on unix sockets only, with passwords.

    python tests/servers.py run -- pytest -m database

starts both, sets BERTH_DATABASE_URL and BERTH_REDIS_URL for the command, and stops both when it ends. As a library:
`with servers() as running: ...`. As root the servers run as `postgres` and `redis`; missing packages are installed. Without
root they run as whoever calls, and missing packages are named. Both die with this process, even when it is killed.

Durability is left on (`fsync`, `appendonly`): the tests shall see the speed and the order that production sees.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg
import redis

from tests.builders.prepared import short_folder

START_SECONDS = 60.0  # A loaded machine with a slow disk; an idle one needs less than two.
STOP_SECONDS = 20.0
REDIS_DATABASES = 256

POSTGRES_PACKAGES = ("postgresql",)
REDIS_PACKAGES = ("redis-server",)


class ServerError(Exception):
    """A server is not installed or did not start; the message says which, and what to do."""


@dataclass(frozen=True)
class Servers:
    """Where the two servers of this run are reached."""

    database_url: str
    redis_url: str

    def environment(self) -> dict[str, str]:
        return {"BERTH_DATABASE_URL": self.database_url, "BERTH_REDIS_URL": self.redis_url}


@contextlib.contextmanager
def servers() -> Iterator[Servers]:
    """Both servers, fresh and empty, while the block runs. Raises ServerError."""
    require_packages()
    root = short_folder("servers")
    root.chmod(0o711)
    try:
        with contextlib.ExitStack() as stack:
            database_url = stack.enter_context(_postgresql(root / "postgresql"))
            redis_url = stack.enter_context(_redis(root / "redis"))
            yield Servers(database_url, redis_url)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def require_packages() -> None:
    """Install what is missing when root on Debian; otherwise raise ServerError that names the packages."""
    missing = [*(() if postgresql_programs() else POSTGRES_PACKAGES), *(() if _redis_program() else REDIS_PACKAGES)]
    if not missing:
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise ServerError(f"The tests need {' and '.join(missing)}. Install with: apt-get install {' '.join(missing)}")
    print(f"Installing {' and '.join(missing)} ...", file=sys.stderr, flush=True)
    # Run level 1 keeps the packages from starting services of their own beside ours.
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing]
    done = subprocess.run(install, env=environment, capture_output=True, text=True)
    if done.returncode:
        subprocess.run(["apt-get", "update", "-qq"], env=environment, capture_output=True)
        done = subprocess.run(install, env=environment, capture_output=True, text=True)
    if done.returncode or not (postgresql_programs() and _redis_program()):
        raise ServerError(f"apt-get could not install {' and '.join(missing)}: {done.stderr.strip()[-500:]}")


@dataclass(frozen=True)
class LaidOut:
    """A server whose files are in place: how it is started, as whom, and how it is reached once it runs."""

    name: str
    home: Path
    command: tuple[str, ...]
    user: str | None
    url: str
    stop_signal: signal.Signals
    ask: Callable[[], None]  # Raises `refusal` until the server answers.
    refusal: type[Exception]


@contextlib.contextmanager
def _postgresql(home: Path) -> Iterator[str]:
    server = lay_out_postgresql(home)
    with _running(server) as process:
        wait_until_it_answers(server, process)
        create_database(server)
        yield server.url


def lay_out_postgresql(home: Path) -> LaidOut:
    """Make a new cluster in `home`. Its database `berth` is still to be made, once the server runs (`create_database`)."""
    programs = postgresql_programs()
    assert programs is not None
    user = _own(home, "postgres")
    password = secrets.token_hex(16)
    password_file = home / "password"
    _write_private(password_file, password, user)
    run = [
        str(programs / "initdb"),
        f"--pgdata={home / 'data'}",
        "--username=berth",
        f"--pwfile={password_file}",
        "--auth=scram-sha-256",
        "--encoding=UTF8",
        "--locale=C.UTF-8",
        "--no-sync",
    ]
    done = subprocess.run(_as(user, run), capture_output=True, text=True, cwd=home)
    if done.returncode:
        raise ServerError(f"initdb failed: {done.stderr.strip()[-500:]}")
    password_file.unlink()
    settings = {
        "listen_addresses": "",
        "unix_socket_directories": str(home),
        "unix_socket_permissions": "0700",
        "shared_buffers": "64MB",
        "max_connections": "200",
        "max_wal_size": "256MB",
        "fsync": "on",
        "log_min_messages": "fatal",
    }
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    url = f"postgresql://berth:{password}@/{{}}?host={home}&port=5432"
    return LaidOut(
        name="PostgreSQL",
        home=home,
        command=(str(programs / "postgres"), "-D", str(home / "data"), *options),
        user=user,
        url=url.format("berth"),
        stop_signal=signal.SIGINT,
        ask=lambda: psycopg.connect(url.format("postgres")).close(),
        refusal=psycopg.OperationalError,
    )


def create_database(server: LaidOut) -> None:
    """Make the database `berth` on a cluster that runs for the first time."""
    with psycopg.connect(server.url.replace("@/berth?", "@/postgres?"), autocommit=True) as connection:
        connection.execute("CREATE DATABASE berth")


@contextlib.contextmanager
def _redis(home: Path) -> Iterator[str]:
    server = lay_out_redis(home)
    with _running(server) as process:
        wait_until_it_answers(server, process)
        yield server.url


def lay_out_redis(home: Path) -> LaidOut:
    """Write the configuration of a new Redis in `home`."""
    program = _redis_program()
    assert program is not None
    user = _own(home, "redis")
    password = secrets.token_hex(16)
    path = home / "redis.sock"
    settings = {
        "port": "0",
        "unixsocket": str(path),
        "unixsocketperm": "700",
        "requirepass": password,
        "databases": str(REDIS_DATABASES),
        "appendonly": "yes",
        "save": '""',
        "maxmemory-policy": "noeviction",
        "daemonize": "no",
        "dir": str(home),
    }
    configuration = home / "redis.conf"  # A password in a command line would be seen by every user.
    _write_private(configuration, "".join(f"{name} {value}\n" for name, value in settings.items()), user)
    url = f"unix://:{password}@{path}?db=0"

    def ping() -> None:
        with redis.Redis.from_url(url) as client:
            client.ping()

    return LaidOut(
        name="Redis",
        home=home,
        command=(program, str(configuration)),
        user=user,
        url=url,
        stop_signal=signal.SIGTERM,
        ask=ping,
        refusal=redis.RedisError,
    )


@contextlib.contextmanager
def _running(server: LaidOut) -> Iterator[subprocess.Popen[bytes]]:
    process = start_server(server)
    try:
        yield process
    finally:
        end_server(server, process)


def start_server(server: LaidOut) -> subprocess.Popen[bytes]:
    """Start it; it gets its stop signal when this process dies."""
    with (server.home / "log").open("ab") as log:
        wrapped = _as(server.user, server.command, "--pdeathsig", server.stop_signal.name.removeprefix("SIG"))
        return subprocess.Popen(
            wrapped, cwd=server.home, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )  # fmt: skip


def end_server(server: LaidOut, process: subprocess.Popen[bytes]) -> None:
    """Ask it to stop, and kill it if it does not."""
    process.send_signal(server.stop_signal)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        print(f"{server.name} did not stop within {STOP_SECONDS:.0f} s and is killed.", file=sys.stderr)
        process.kill()
        process.wait()


def wait_until_it_answers(server: LaidOut, process: subprocess.Popen[bytes]) -> None:
    """Raises ServerError with the end of its log if it does not start."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            server.ask()
            return
        except server.refusal as error:
            if process.poll() is not None or time.monotonic() > deadline:
                tail = (server.home / "log").read_text(errors="replace")[-1000:]
                raise ServerError(f"{server.name} did not start: {error}\n{tail}") from None
            time.sleep(0.05)


def postgresql_programs() -> Path | None:
    """The directory of the newest PostgreSQL; Debian keeps its server programs off the PATH."""
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/postgres")]
    return max(found, key=lambda path: int(path.parent.name), default=None)


def _redis_program() -> str | None:
    return shutil.which("redis-server")


def _own(home: Path, wanted: str) -> str | None:
    """Create a private directory; as root it belongs to the server's own user, which is returned."""
    home.mkdir(mode=0o700)
    if os.geteuid() != 0:
        return None
    shutil.chown(home, wanted, pwd.getpwnam(wanted).pw_gid)
    return wanted


def _as(user: str | None, command: Sequence[str], *options: str) -> list[str]:
    identity = [f"--reuid={user}", f"--regid={pwd.getpwnam(user).pw_gid}", "--init-groups"] if user else []
    return ["setpriv", *identity, *options, "--", *command]


def _write_private(path: Path, text: str, user: str | None) -> None:
    path.touch(mode=0o600)
    path.write_text(text)
    if user:
        shutil.chown(path, user, pwd.getpwnam(user).pw_gid)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Run a command with PostgreSQL and Redis of its own.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run", help="start both servers, run the command, stop both")
    run.add_argument("command", nargs=argparse.REMAINDER)
    command = parser.parse_args(arguments).command
    command = command[1:] if command[:1] == ["--"] else command
    if not command:
        parser.error("say what to run after --")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # Leave the blocks below, so that the servers stop too.
    try:
        with servers() as running:
            return subprocess.run(command, env={**os.environ, **running.environment()}).returncode
    except ServerError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
