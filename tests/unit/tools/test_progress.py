"""What a person sees while they wait: on a terminal one line that counts, elsewhere lines that stay."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys

import pytest

from tools.place import ROOT
from tools.progress import Stop, step

# A step that lasts until so much was told of it, and a while longer; times are twenty times faster than in life.
PROGRAM = """
import sys, time
sys.path.insert(0, sys.argv[1])
from tools import progress
progress.TELL_SECONDS = 0.05
progress.LINES_APART_SECONDS = float(sys.argv[3])
write, told = sys.stdout.write, []
sys.stdout.write = lambda text: (write(text), told.append(1) if " ....  " in text else None)[0]
try:
    with progress.step("environment") as done:
        while len(told) < int(sys.argv[4]):
            time.sleep(0.01)
        time.sleep(0.3)
        done.outcome = "installed"
        if sys.argv[2] == "fail":
            raise progress.Stop("no")
except progress.Stop:
    pass
"""


def on_a_terminal(how: str) -> str:
    """What a terminal receives from the program."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(ROOT), how, "3600", "2"], stdout=theirs, stderr=theirs)
    os.close(theirs)
    received = b""
    while True:
        try:
            chunk = os.read(ours, 4096)
        except OSError:  # The other side is closed.
            break
        received += chunk
    os.close(ours)
    assert process.wait() == 0
    return received.decode()


def in_a_file(how: str, *, lines_apart_seconds: float, lines: int) -> str:
    command = [sys.executable, "-c", PROGRAM, str(ROOT), how, str(lines_apart_seconds), str(lines)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_terminal_shows_one_line_that_counts_and_is_replaced() -> None:
    *counts, last = on_a_terminal("work").split("\r  ....  ")
    assert counts.pop(0) == ""
    assert all(re.fullmatch(r"environment      \d+ s", count) for count in counts)
    assert re.fullmatch(r"environment      \d+ s\r\x1b\[K  done  environment      installed( \(\d+\.\d s\))?\r\n", last)


def test_a_failed_step_leaves_nothing_of_its_counter_on_a_terminal() -> None:
    assert on_a_terminal("fail").endswith("\r\x1b[K  FAIL  environment\r\n")


def test_a_file_gets_one_line_when_it_takes_long_and_the_outcome() -> None:
    pattern = r"  \.\.\.\.  environment      \d+ s\n  done  environment      installed( \(\d+\.\d s\))?\n"
    assert re.fullmatch(pattern, in_a_file("work", lines_apart_seconds=3600, lines=1))


def test_a_file_is_told_again_from_time_to_time() -> None:
    assert in_a_file("work", lines_apart_seconds=0, lines=2).count("  ....  ") >= 2


def test_a_short_step_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with step("server") as done:
        done.outcome = "there already"
    assert capsys.readouterr().out == "  done  server           there already\n"


def test_a_step_that_fails_says_so_and_lets_the_reason_through(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Stop, match="no room"), step("server"):
        raise Stop("no room")
    assert capsys.readouterr().out == "  FAIL  server\n"
