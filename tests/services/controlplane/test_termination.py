"""SIGTERM ends the whole platform within five seconds, whoever listens to it, and nothing of it stays behind."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from websockets.sync.client import connect

from tests.builders.live import LivePlatform, wait_until

pytestmark = [pytest.mark.engines, pytest.mark.database]

SECONDS_MAX = 5.0
USUAL_SECONDS = 0.3  # What a process that imports a few modules takes on a machine that does nothing else, at most.


@pytest.fixture
def platform(live_platform: LivePlatform) -> Iterator[LivePlatform]:
    if not live_platform.is_running:
        live_platform.start()
    yield live_platform
    if not live_platform.is_running:
        live_platform.start()


def pace() -> float:
    """How many times longer than usual this machine takes for a small process just now; 1 where it is not loaded."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "import asyncio, json, sqlite3"], check=True)
    return max(1.0, (time.monotonic() - began) / USUAL_SECONDS)


def terminate(platform: LivePlatform, *numbers: signal.Signals, codes: Sequence[int] = (0,)) -> None:
    """Send the signals; the process must end with such an exit status, in time for as busy as the machine is."""
    assert platform.process is not None
    before = pace()
    began = time.monotonic()
    for number in numbers:
        platform.process.send_signal(number)
    assert platform.wait_dead() in codes, platform.log_tail()
    seconds = time.monotonic() - began
    assert seconds < SECONDS_MAX * max(before, pace()), f"{seconds:.1f} s"


class Streams:
    """Listeners of every kind, each of which has heard something and waits for more."""

    def __init__(self, platform: LivePlatform, stack: contextlib.ExitStack) -> None:
        self.platform = platform
        self.ended: list[str] = []
        job = platform.submit({"name": "talking", "command": "while true; do echo here; sleep 0.2; done"}, wait=["running"])
        self.job = str(job["id"])
        platform.operator.wait_for_line(job, "here")
        for _ in range(3):
            self._listen(stack)
        paths = [f"/jobs/{self.job}/logs/stream", "/events/stream"] * 3
        self.threads = [threading.Thread(target=self._follow, args=(path,), daemon=True) for path in paths]
        self.heard = threading.Semaphore(0)
        for thread in self.threads:
            thread.start()
        platform.api("PUT", f"/jobs/{self.job}/tags/heard")
        for _ in self.threads:
            assert self.heard.acquire(timeout=60), "a stream that says nothing"

    def _listen(self, stack: contextlib.ExitStack) -> None:
        url = self.platform.url.replace("http", "ws", 1) + "/ws/v1/live"
        headers = {"Authorization": f"Bearer {self.platform.token}"}
        socket = stack.enter_context(connect(url, additional_headers=headers, proxy=None, open_timeout=60))
        socket.send(json.dumps({"subscribe": {"job": self.job}, "id": "j"}))
        assert json.loads(socket.recv(timeout=60))["type"] == "subscribed"

    def _follow(self, path: str) -> None:
        with contextlib.suppress(Exception), self.platform.operator.http.stream("GET", f"/api/v1{path}", timeout=120) as answer:
            for number, _ in enumerate(answer.iter_raw()):
                if number == 0:
                    self.heard.release()
        self.ended.append(path)


def test_an_idle_platform_ends_in_time_and_leaves_no_process(platform: LivePlatform) -> None:
    assert platform.process is not None
    children = Path(f"/proc/{platform.process.pid}/task/{platform.process.pid}/children").read_text().split()
    terminate(platform, signal.SIGTERM)
    wait_until(lambda: not [child for child in children if _is_ours(child)], "the end of the launcher")


def _is_ours(process: str) -> bool:
    with contextlib.suppress(OSError):
        return b"clusters.engines.local.launching" in Path(f"/proc/{process}/cmdline").read_bytes()
    return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_open_streams_and_sockets_do_not_hold_it_up(platform: LivePlatform, number: signal.Signals) -> None:
    with contextlib.ExitStack() as stack:
        streams = Streams(platform, stack)
        terminate(platform, number)
        wait_until(lambda: len(streams.ended) == len(streams.threads), "the end of all streams")
    stopped = platform.log_events("stopped")[-1]
    assert stopped["left"] == [], "every thread had time to end"
    assert "Traceback" not in platform.log_tail().rpartition('"event": "serving"')[2]
    platform.start()
    assert platform.operator.job(streams.job)["state"] == "running", "the job did not notice"
    platform.operator.stop(streams.job, grace_seconds=0)
    platform.operator.wait(streams.job)


def test_one_that_still_starts_ends_too(platform: LivePlatform) -> None:
    platform.stop()
    platform.start_unready()
    time.sleep(0.3)  # Somewhere before it serves: what it does then differs, that it ends does not.
    terminate(platform, signal.SIGTERM, codes=(0, -signal.SIGTERM))


def test_two_signals_end_it_no_later(platform: LivePlatform) -> None:
    assert platform.process is not None
    terminate(platform, signal.SIGTERM, signal.SIGTERM)
