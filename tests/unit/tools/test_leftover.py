"""`make up` after a kill waits for the processes that the kill left, names them, and touches nobody else's."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.breakable import wait_frozen
from tools import leftover
from tools.leftover import end_left_over, left_over
from tools.place import Place

# What a process of a platform looks like from outside. It says when it listens to signals; then it sleeps.
PROGRAM = "import signal, time; signal.signal(signal.SIGTERM, {}); print('ready', flush=True); time.sleep(600)"
ENDS, STAYS = "lambda number, frame: exit(0)", "lambda number, frame: None"
NOBODY = 2**22 + 1  # More than any process id, proc(5).


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path, 8620)


@contextlib.contextmanager
def process(place: Place, role: str, *, supervisor: int = NOBODY, does: str = ENDS) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, "BERTH_DATA_DIR": str(place.data), leftover.SUPERVISOR: str(supervisor)}
    words = [sys.executable, "-c", PROGRAM.format(does), "/somewhere/manage.py", "run", role]
    started = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE)
    try:
        assert started.stdout is not None
        assert started.stdout.readline() == b"ready\n"
        yield started
    finally:
        started.kill()
        started.communicate()


def test_it_waits_for_what_a_killed_platform_left_and_names_it(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with process(place, "web") as web, process(place, "worker") as worker:
        assert left_over(place) == {web.pid: "web", worker.pid: "worker"}
        sleep = time.sleep

        def end_while_it_waits(seconds: float) -> None:
            for each in (web, worker):
                each.send_signal(signal.SIGTERM)
            sleep(seconds)

        monkeypatch.setattr(time, "sleep", end_while_it_waits)
        end_left_over(place)
        said = capsys.readouterr().out
    assert f"web {web.pid}" in said
    assert f"worker {worker.pid}" in said
    assert "killed, because" not in said
    assert left_over(place) == {}


def test_one_that_does_not_end_is_killed_and_said(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftover, "LEFT_SECONDS_MAX", 0.2)
    with process(place, "web", does=STAYS) as web:
        end_left_over(place)
        assert web.wait(60) == -signal.SIGKILL
    assert f"did not end by themselves: web {web.pid}" in capsys.readouterr().out


def test_one_that_is_frozen_is_not_waited_for(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    with process(place, "observer") as observer:
        observer.send_signal(signal.SIGSTOP)
        wait_frozen(observer.pid)
        end_left_over(place)
        assert observer.wait(60) == -signal.SIGKILL
    assert f"observer {observer.pid}" in capsys.readouterr().out


def test_processes_of_a_living_supervisor_or_of_other_data_are_left_alone(place: Place, tmp_path: Path) -> None:
    other = Place(tmp_path / "other", 8620)
    with process(place, "web", supervisor=os.getpid()) as supervised, process(other, "web") as elsewhere:
        assert left_over(place) == {}
        end_left_over(place)
        assert (supervised.poll(), elsewhere.poll()) == (None, None)
