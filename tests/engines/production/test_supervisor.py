"""Two or more of each process under a supervisor: the same product as in one; and what it ends, replaces, leaves."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator

import httpx2
import pytest

from controlplane.instance import EXIT_CONFIG
from controlplane.processes.supervisor import HEALTHY_SECONDS
from tests.builders.live import Json, LivePlatform, running_platform, wait_until
from tests.builders.release import PRODUCT_SETTINGS

pytestmark = [pytest.mark.engines, pytest.mark.alone, pytest.mark.database, pytest.mark.timeout(1_200)]

END_SECONDS = 45.0  # More than the slowest worker may take, and then the launcher; without a bound a busy one takes for ever.
START_SECONDS = 240.0  # Of one process on a machine that many others use; an idle one needs three.
ROLL_SECONDS = 600.0  # All nine, one after the other.
DEATHS = 4
DEATHS_MAX = 20
WAITS_SECONDS = 60.0  # What a supervisor waits for those of the one before is the time of requests in hand, and a little more.

# For as long as a file is there, a web process does not come as far as to notice that its supervisor is gone.
LOADS_LONG = """
import os, sys, time
while sys.orig_argv[-2:] == ["run", "web"] and os.path.exists(os.environ["TEST_LOADING"]):
    time.sleep(0.05)
"""


@pytest.fixture(scope="module")
def platform() -> Iterator[LivePlatform]:
    """With nothing but the product's own settings, as it is installed: all other live platforms hash passwords for less."""
    with running_platform(BERTH_SERVER_PROFILE="production", DJANGO_SETTINGS_MODULE=PRODUCT_SETTINGS) as made:
        yield made


@pytest.fixture
def running(platform: LivePlatform) -> LivePlatform:
    if not platform.is_running:
        platform.start()
    return platform


@pytest.fixture
def stopped(platform: LivePlatform) -> LivePlatform:
    if platform.is_running:
        platform.stop()
    return platform


class Prober(threading.Thread):
    """Connects anew, asks whether the platform lives, and reads `processes.json`, again and again."""

    def __init__(self, platform: LivePlatform) -> None:
        super().__init__(daemon=True)
        self.platform = platform
        self.over = threading.Event()
        self.answers = 0
        self.failures: list[str] = []

    def run(self) -> None:
        path = self.platform.data_dir / "run" / "processes.json"
        while not self.over.wait(0.02):
            try:
                answer = httpx2.get(f"{self.platform.url}/livez", timeout=60, trust_env=False)
                assert answer.status_code == 200, answer.text
                assert json.loads(path.read_text())["supervisor"], "who supervises"
                self.answers += 1
            except Exception as failure:
                self.failures.append(repr(failure))


def test_a_job_runs_from_submission_to_its_log(running: LivePlatform) -> None:
    job = running.submit({"command": "echo hello"}, wait=True)

    assert job["state"] == "succeeded"
    assert running.logs(job) == "hello\n"


def test_a_password_is_stored_at_its_full_cost_and_signs_its_owner_in(running: LivePlatform) -> None:
    paula = running.person("paula")
    [(stored,)] = running.rows("SELECT password FROM tenants_user WHERE name = 'paula'")

    assert stored.startswith(f"scrypt${2**14}$")
    assert _sign_in(running, paula.name, paula.password) == 201
    assert _sign_in(running, paula.name, paula.password + " ") == 401


def _sign_in(platform: LivePlatform, name: str, password: str) -> int:
    said = {"name": name, "password": password}
    return httpx2.post(f"{platform.url}/api/v1/session", json=said, timeout=60, trust_env=False).status_code


def test_a_rolling_restart_replaces_every_process_and_refuses_nobody(running: LivePlatform) -> None:
    before = running.processes()
    assert running.process is not None
    prober = Prober(running)
    prober.start()
    try:
        running.process.send_signal(signal.SIGHUP)

        def is_replaced() -> bool:
            now = running.processes()
            return all(role in now and not set(now[role]) & set(before[role]) for role in before if role != "supervisor")

        wait_until(is_replaced, "other processes in the place of all", timeout=ROLL_SECONDS)
        wait_until(running._are_all_ready, "all of them ready", timeout=START_SECONDS)
    finally:
        prober.over.set()
        prober.join(60)
    assert running.processes()["supervisor"] == before["supervisor"]
    assert prober.failures == []
    assert prober.answers > 10


def test_a_process_that_dies_again_and_again_is_slowed_down_and_keeps_nobody_from_starting(running: LivePlatform) -> None:
    """One worker is killed as often as it comes; meanwhile a web process is killed and replaced."""
    keeps = running.processes()["worker"][0]
    seen = len(running.log_events("process_died"))

    def deaths() -> list[Json]:
        return [entry for entry in running.log_events("process_died")[seen:] if entry["role"] == "worker"]

    def waits() -> list[float]:
        """Before the next tries, since one last lived so long that its death was not taken for one of its start."""
        found: list[float] = []
        for entry in deaths():
            found = [*(found if entry["lived_seconds"] < HEALTHY_SECONDS else []), entry["wait_seconds"]]
        return found

    for number in range(DEATHS_MAX):
        if len(waits()) >= DEATHS:
            break
        wait_until(lambda: len(running.processes()["worker"]) == 2, "another worker", timeout=START_SECONDS)
        [pid] = [pid for pid in running.processes()["worker"] if pid != keeps]
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda number=number: len(deaths()) > number, "the word of its end")  # type: ignore[misc]
    web = running.kill_one("web")
    wait_until(
        lambda: web not in running.processes()["web"] and len(running.processes()["web"]) == 2,
        "another web",
        timeout=START_SECONDS,
    )
    wait_until(running._are_all_ready, "all of them ready", timeout=START_SECONDS)
    assert len(waits()) >= DEATHS
    assert waits()[DEATHS - 1] > 0
    assert waits() == sorted(waits()), "each wait is longer than the one before"


def test_sigterm_ends_everything_within_seconds(running: LivePlatform) -> None:
    pids = [pid for each in running.processes().values() for pid in each]
    began = time.monotonic()
    assert running.stop() == 0
    assert time.monotonic() - began < END_SECONDS
    assert not [pid for pid in pids if _lives(pid)]


def test_a_supervisor_that_is_killed_while_its_processes_start_is_followed_at_once(stopped: LivePlatform) -> None:
    """A web process that only loads has the listening socket already: the next supervisor waits for its end."""
    site, gate = stopped.place / "site", stopped.place / "loading"
    site.mkdir(mode=0o755)
    (site / "sitecustomize.py").write_text(LOADS_LONG)
    (site / "sitecustomize.py").chmod(0o644)
    gate.touch()
    stopped.start_unready(PYTHONPATH=str(site), TEST_LOADING=str(gate))
    wait_until(lambda: bool(stopped.processes().get("web")), "a web process that starts", timeout=START_SECONDS)
    starting = stopped.processes()
    [supervisor] = starting["supervisor"]
    os.kill(supervisor, signal.SIGKILL)
    assert stopped.wait_dead() == -signal.SIGKILL
    said = len(stopped.log_events("waiting_for_previous"))
    stopped.start_unready(BERTH_WEB_DRAIN_SECONDS=str(WAITS_SECONDS))
    wait_until(lambda: len(stopped.log_events("waiting_for_previous")) > said, "the next supervisor to wait")
    gate.unlink()
    stopped.wait_ready()
    assert stopped.processes()["supervisor"] != [supervisor]
    [waited] = stopped.log_events("waiting_for_previous")[said:]
    assert set(waited["processes"]["web"]) >= set(starting["web"])


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    ("setting", "value", "word"),
    [
        ("BERTH_WEB_PROCESSES", "many", "BERTH_WEB_PROCESSES"),
        ("BERTH_SECRET_KEY", "short", "The secret key is shorter"),
        ("BERTH_VISIBILITY_SECONDS", "1", "BERTH_VISIBILITY_SECONDS"),
    ],
)
def test_a_bad_setting_ends_it_at_once_with_the_words(stopped: LivePlatform, setting: str, value: str, word: str) -> None:
    said = stopped.log.stat().st_size
    stopped.start_unready(**{setting: value})
    assert stopped.wait_dead(timeout=60) == EXIT_CONFIG
    words = stopped.log.read_bytes()[said:].decode()
    assert "berth: " in words
    assert word in words
    assert words.count('"role": "prepare"') <= 1, "it is not tried again"


def test_a_missing_key_ends_it_at_once_with_the_words(stopped: LivePlatform) -> None:
    key = stopped.data_dir / "secret.key"
    hidden = key.with_suffix(".hidden")
    key.rename(hidden)
    try:
        said = stopped.log.stat().st_size
        stopped.start_unready()
        assert stopped.wait_dead(timeout=60) == EXIT_CONFIG
        assert "BERTH_SECRET_KEY" in stopped.log.read_bytes()[said:].decode()
    finally:
        hidden.rename(key)


def test_a_taken_port_is_said_and_may_be_tried_again(stopped: LivePlatform) -> None:
    with socket.create_server(("127.0.0.1", stopped.port)):
        stopped.start_unready()
        assert stopped.wait_dead(timeout=60) != 0
    assert "cannot be used" in stopped.log_tail()
