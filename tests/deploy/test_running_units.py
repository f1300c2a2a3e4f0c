"""Every command line of the systemd units, run as the units say: they notify, share one socket, and run a job to its end."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.builders.live import LivePlatform, LiveUser, end_tasks
from tests.builders.prepared import short_folder
from tests.builders.release import server_copy
from tests.deploy.test_units import UNITS, command_of, read

pytestmark = [pytest.mark.engines, pytest.mark.database]

SECONDS = 60.0
PASS_SOCKET = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])
"""


class Units:
    """Starts units without systemd: their command, their environment, their readiness, their socket."""

    def __init__(self, platform: LivePlatform) -> None:
        self.platform = platform
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.address = str(platform.place / "notify")
        self.notified.bind(self.address)
        os.chmod(self.address, 0o777)
        self.notified.settimeout(SECONDS)
        self.web = socket.create_server(("127.0.0.1", platform.port), backlog=128)

    def start(self, name: str, instance: str = "") -> None:
        """Start a unit and wait until it says that it is ready, or has ended well where it is a oneshot."""
        path = UNITS / f"{name}.service"
        unit = read(path)["Service"]
        command = [sys.executable, str(server_copy() / "manage.py"), *command_of(path)]
        passed: tuple[int, ...] = ()
        if "Sockets" in unit:  # As systemd passes them: from descriptor 3 on, counted, for this process.
            command = [sys.executable, "-c", PASS_SOCKET, str(self.web.fileno()), *command]
            passed = (self.web.fileno(),)
        with self.platform.log.open("ab") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", env=self._environment(unit["Environment"]),
                start_new_session=True, pass_fds=passed, user=self._user(unit.get("User")), group=self._user(unit.get("Group")),
                extra_groups=[] if os.geteuid() == 0 else None,
            )  # fmt: skip
        self.running[f"{name}{instance}"] = process
        if unit["Type"] == "oneshot":
            assert process.wait(SECONDS) == 0, self.platform.log_tail()
            return
        assert unit["Type"] == "notify"
        try:
            assert self.notified.recv(100) == b"READY=1"
        except TimeoutError:
            raise AssertionError(f"{name} did not say that it is ready:\n{self.platform.log_tail()}") from None

    def end(self, name: str) -> int:
        process = self.running[name]
        process.send_signal(signal.SIGTERM)
        code = process.wait(SECONDS)
        while self.notified.recv(100) != b"STOPPING=1":
            pass
        return code

    def close(self) -> None:
        for process in self.running.values():
            if process.poll() is None:
                process.terminate()
        for process in self.running.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(15)
            process.kill()
        self.notified.close()
        self.web.close()

    def _environment(self, words: str) -> dict[str, str]:
        named = dict(word.partition("=")[::2] for word in shlex.split(words))
        platform = self.platform
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            "NOTIFY_SOCKET": self.address,
            **named,
            **platform.settings,
            **platform.environment,
            "BERTH_DATA_DIR": str(platform.data_dir),
            "BERTH_PORT": str(platform.port),
        }

    @staticmethod
    def _user(name: str | None) -> str | None:
        return name if os.geteuid() == 0 else None


@pytest.fixture
def units(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Units]:
    if "BERTH_REDIS_URL" not in os.environ:
        pytest.skip("the production profile needs PostgreSQL and Redis")
    place = short_folder("units")
    place.chmod(0o711)
    platform = LivePlatform(place, BERTH_SERVER_PROFILE="production")
    units = Units(platform)
    try:
        yield units
    finally:
        units.close()
        end_tasks(platform.data_dir)
        platform.end()
        shutil.rmtree(place, ignore_errors=True)


def test_the_units_commands_make_a_platform_that_runs_a_job_and_end_when_told(units: Units) -> None:
    if os.geteuid() == 0:
        units.start("berth-launcher")
    units.start("berth-prepare")
    doubled = [f"berth-{role}@" for role in ("web", "scheduler", "worker", "observer")]
    for name in doubled:
        for instance in ("1", "2"):
            units.start(name, instance)
    credentials = json.loads((units.platform.data_dir / "first-credentials.json").read_text())
    operator = LiveUser(units.platform, credentials["token"], tenant=credentials["tenant"])
    job = operator.submit({"name": "first", "command": ["echo", "from a unit"]}, wait=True)
    assert job["state"] == "succeeded"
    assert "from a unit" in operator.logs(job)

    long = operator.submit({"name": "long", "command": ["sleep", "3"]}, wait=["running"])
    for name in doubled:  # One of each goes while the job runs; the other goes on.
        assert units.end(f"{name}1") == 0
    assert operator.wait(long)["state"] == "succeeded"
    operator.close()
    units.start("berth-backup")
