"""`make up PROFILE=production` as an operator meets it: the real servers and processes, a power cut, and all of it up again."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.builders.live import wait_until
from tests.unit.tools.newcomer import Newcomer, a_newcomer
from tools.production import are_all_ready, read_processes
from tools.servers import Redis, is_alive, missing_packages, own_servers
from tools.up import get

pytestmark = [pytest.mark.engines, pytest.mark.timeout(900)]

BACK_SECONDS_MAX = 180.0  # A loaded machine; an idle one needs five.
ONE_OF_EACH = {f"BERTH_{role}_PROCESSES": "1" for role in ("WORKER", "SCHEDULER", "OBSERVER")}


@pytest.fixture
def newcomer() -> Iterator[Newcomer]:
    """An empty home on a machine that has the packages, or may get them."""
    if os.geteuid() != 0 and missing_packages(database=True, broker=True):
        pytest.skip("PostgreSQL and Redis are not installed, and only root installs them")
    with a_newcomer() as made:
        try:
            yield made
        finally:
            made.run("down")
            for pid in [server.process() for server in own_servers(made.place) if server.process()]:
                os.kill(pid, signal.SIGKILL)


def power_cut(newcomer: Newcomer) -> None:
    """kill -9 of keeper, supervisor, its processes and both servers."""
    newcomer.kill_keeper()
    document = json.loads((newcomer.data / "run" / "processes.json").read_text())
    pids = [pid for found in document.values() if isinstance(found, list) for pid in found]
    pids += [document["supervisor"], *(server.process() for server in own_servers(newcomer.place))]
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not any(is_alive(pid) for pid in pids), "the end of everything")


def secrets_of(newcomer: Newcomer) -> list[str]:
    return list(json.loads((newcomer.data / "release" / "servers.json").read_text()).values())


def server_command(newcomer: Newcomer, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    return subprocess.run(
        [str(newcomer.place.server_command), *words], env=environment, capture_output=True, text=True, check=False
    )  # fmt: skip


def test_a_production_installation_lives_through_a_power_cut(newcomer: Newcomer) -> None:
    said = newcomer.up("--profile", "production", **ONE_OF_EACH)
    assert "PostgreSQL and Redis run below" in said
    assert "all ready" in said
    job = newcomer.berth("submit", "-y", "--name", "before", "--follow", "--", "echo", "hello")
    assert "hello" in job.stdout, job.stdout + job.stderr

    check_that_what_dies_comes_back_without_a_hand(newcomer)
    check_that_up_waits_for_what_a_killed_supervisor_left(newcomer)

    power_cut(newcomer)
    stale = [server.pidfile for server in own_servers(newcomer.place)]
    assert all(path.exists() for path in stale)
    status = newcomer.run("status")
    assert status.returncode == 1
    assert status.stdout.count(", not running") == 2

    again = newcomer.up(**ONE_OF_EACH)
    assert "Token" not in again
    kept = newcomer.berth("ps", "-a")
    assert "before" in kept.stdout, kept.stdout + kept.stderr

    status = newcomer.run("status")
    assert status.returncode == 0
    for word in ("web", "worker", "scheduler", "observer", "PostgreSQL", "Redis"):
        assert f"\n  {word} " in status.stdout
    shown = server_command(newcomer, "processes", "--json")
    assert {row["role"] for row in json.loads(shown.stdout) if row["lives"]} >= {"web", "worker"}, shown.stderr

    refused = newcomer.run("up", "--profile", "embedded")
    assert "is an installation of the production profile" in refused.stderr
    check_that_nobody_else_comes_in(newcomer)

    down = newcomer.run("down")
    assert down.returncode == 0, down.stderr
    assert "Redis and PostgreSQL stopped" in down.stdout
    assert newcomer.processes() == []


def check_that_what_dies_comes_back_without_a_hand(newcomer: Newcomer) -> None:
    """The supervisor alone, each server alone, and then supervisor, launcher and database at once."""
    database, broker = own_servers(newcomer.place)

    def supervisor() -> int:
        running = newcomer.running()
        return running.process if running is not None else 0

    def launcher() -> int:
        return next(iter(json.loads((newcomer.data / "run" / "processes.json").read_text()).get("launcher", [])), 0)

    deaths: dict[str, list[Callable[[], int]]] = {
        "supervisor": [supervisor], "PostgreSQL": [database.process], "Redis": [broker.process],
        "supervisor, launcher and PostgreSQL": [supervisor, launcher, database.process],
    }  # fmt: skip
    for name, whom in deaths.items():
        victims = [pid for find in whom if (pid := find())]
        began = time.monotonic()
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda pids=victims: not any(is_alive(pid) for pid in pids), "their end")  # type: ignore[misc]
        wait_until(lambda: is_whole(newcomer), f"everything again after the death of {name}", timeout=BACK_SECONDS_MAX)
        print(f"after the death of {name} everything ran again in {time.monotonic() - began:.1f} s")
    said = (newcomer.data / "log" / "keeper.log").read_text()
    assert said.count("PostgreSQL does not run; it is started again.") == 2
    # The keeper may look between two deaths: then a first start meets no database, and there is another.
    assert said.count("The platform does not run; it is started again.") in (2, 3)


def is_whole(newcomer: Newcomer) -> bool:
    """Whether every part runs and the platform is ready, as `make status` sees it."""
    running = newcomer.running()
    if running is None or not all(server.answers() for server in own_servers(newcomer.place)):
        return False
    return are_all_ready(read_processes(newcomer.place, running)) and get(f"{running.url}/readyz")[0] == 200


def check_that_up_waits_for_what_a_killed_supervisor_left(newcomer: Newcomer) -> None:
    """The web process still has a request in hand, and with it the port, when `make up` comes."""
    document = json.loads((newcomer.data / "run" / "processes.json").read_text())
    with socket.create_connection(("127.0.0.1", newcomer.port), timeout=60) as request:
        request.sendall(b"POST /api/v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n")
        assert request.recv(4096).startswith(b"HTTP/1.1 100 "), "it is in hand"
        newcomer.kill()
        said = newcomer.up(**ONE_OF_EACH)
    assert "of the platform that was killed have ended" in said
    assert any(f"web {pid}" in said for pid in document["web"]), said
    assert "all ready" in said


def check_that_nobody_else_comes_in(newcomer: Newcomer) -> None:
    """Folders, passwords and what is written about them."""
    for name in ("sockets", "postgresql", "redis"):
        facts = (newcomer.data / name).stat()
        assert stat.S_IMODE(facts.st_mode) == 0o700, name
        assert (facts.st_uid == 0) is False, name
    for path in (newcomer.data / "release").glob("*.*"):
        assert path.suffix not in (".json", ".env") or stat.S_IMODE(path.stat().st_mode) == 0o600, path
    words = secrets_of(newcomer)
    assert len(words) == 2
    for log in (newcomer.data / "log").iterdir():
        text = log.read_text(errors="replace")
        assert not any(word in text for word in words), log
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            line = (folder / "cmdline").read_bytes()
            assert not any(word.encode() in line for word in words), line
    client = ["redis-cli", "-s", str(Redis(newcomer.place).address), "ping"]
    assert "NOAUTH" in subprocess.run(client, capture_output=True, text=True, check=False).stdout
