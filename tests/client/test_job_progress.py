"""What a program says of its progress."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import berth
from berth import job_progress
from jobs.lifecycle.progress import Progress, last_progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that have passed, last."""
    seconds = [0.0]
    monkeypatch.setattr("berth.job_progress.time.monotonic", lambda: seconds[-1])
    monkeypatch.setattr(job_progress, "_said_at", float("-inf"))
    return seconds


def test_it_is_said_at_most_once_a_second_and_the_end_always(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    for step in range(1, 9):
        clock.append(step * 0.4)
        berth.progress(step, 8)
    berth.progress(8, 8)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == [f"berth: progress {step}/8" for step in (1, 4, 7, 8, 8)]


@pytest.mark.parametrize(("done", "total"), [(-1, 3), (4, 3), (1, 2**53 + 1), (0.5, 1)])
def test_nonsense_is_refused(clock: list[float], done: int, total: int, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match=r"progress|format"):
        berth.progress(done, total)
    assert capsys.readouterr().err == ""


def test_the_platform_reads_what_a_program_says_that_has_nothing_but_this_package() -> None:
    said = "berth.progress(3, 10); assert 'httpx2' not in sys.modules; sys.stderr.close(); berth.progress(10, 10)"
    command = [sys.executable, "-c", f"import sys, berth; {said}"]
    paths = {"PYTHONPATH": str(Path(berth.__file__).parents[1])}
    printed = subprocess.run(command, capture_output=True, timeout=100, env={**os.environ, **paths})
    assert printed.returncode == 0, printed.stderr
    assert last_progress(printed.stderr) == Progress(3, 10)
