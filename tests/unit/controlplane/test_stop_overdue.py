"""A stop that would hang ends all the same, and says where it hung."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PLATFORM = Path(__file__).resolve().parents[3] / "platform"

HANGING = """
import threading
from controlplane.management.leaving import end_overdue

asked = threading.Event()
end_overdue(asked, seconds=0.2)
print("serving", flush=True)
asked.set()
threading.Event().wait()
"""
ENDING = HANGING.replace("threading.Event().wait()", "print('stopped')")


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": str(PLATFORM)},
    )


def test_a_stop_that_hangs_is_ended_and_its_threads_are_told() -> None:
    done = run(HANGING)
    assert done.returncode == 1
    assert "stop_overdue" in done.stdout + done.stderr
    assert "MainThread" in done.stdout + done.stderr


def test_a_stop_in_time_is_left_alone() -> None:
    done = run(ENDING)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "stopped")
