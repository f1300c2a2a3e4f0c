"""Runs in the map tasks of a MapReduce job: sorts what the command prints, and sends each reduce task its part.

    run COMMAND...   Run COMMAND, whose output are lines key<TAB>value.
    give-up          Tell the reduce tasks that this map has failed for good.

The parts are sent when the command has ended well, each whole. Another try of this task finds in BERTH_SHUFFLE_DIR how far the
one before it came: the command does not run again where it has ended well, so that parts of two runs never mix.

This file is sent to the tasks and run by whatever python3 their image has (3.7 or later), so it uses the standard library only
and imports nothing of Berth."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Tuple  # noqa: UP035 - python3.7 evaluates the alias below.

if TYPE_CHECKING or __package__:
    from jobs.frameworks.sorted_lines import Partitions
    from jobs.frameworks.task_http import Client, RequestRefused
else:  # Beside this file in a task.
    from sorted_lines import Partitions
    from task_http import Client, RequestRefused

NO_REDUCER = 75  # EX_TEMPFAIL.
WAIT_SECONDS = 600.0  # As long as tasks may take to start.
LAST_WORD_SECONDS = 30.0
AGAIN_SECONDS = 0.3

Reducer = Tuple[str, int]  # noqa: UP006 - address and port.


def run_map(argv: list[str]) -> int:
    """The command's end, or that no reduce task took what it printed."""
    reducers, folder = read_reducers(), os.environ["BERTH_SHUFFLE_DIR"]
    work, mapped = os.path.join(folder, "work"), os.path.join(folder, "mapped")
    if not os.path.exists(mapped):
        shutil.rmtree(work, ignore_errors=True)  # Of a try that was killed.
        os.makedirs(work)
        parts = Partitions(work, len(reducers))
        code = read_command(argv, parts)
        if code:
            return code
        parts.files()
        os.rename(work, mapped)
    return send_all(reducers, mapped)


def read_reducers() -> list[Reducer]:
    with open(os.environ["BERTH_REDUCERS"], encoding="utf-8") as lines:
        entries = [line.split() for line in lines if line.strip()]
    return [(address, int(port)) for _, address, port in entries]


def read_command(argv: list[str], parts: Partitions) -> int:
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    signal.signal(signal.SIGTERM, lambda number, _: process.send_signal(number))
    assert process.stdout is not None
    for line in process.stdout:
        parts.add(line)
    code = process.wait()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    return 128 - code if code < 0 else code


def send_all(reducers: list[Reducer], folder: str) -> int:
    """Begin with another one in each map, so that they do not all ask the same reduce task first. What is sent is removed."""
    index = int(os.environ["BERTH_INDEX"])
    for step in range(len(reducers)):
        number = (index + step) % len(reducers)
        file = os.path.join(folder, f"part-{number}")
        try:
            if os.path.exists(file):
                send(reducers[number], f"/part/{index}", file, WAIT_SECONDS)
                os.unlink(file)
        except (OSError, RequestRefused) as error:
            say(f"reduce-{number} does not take its part: {error}")
            return NO_REDUCER
    return 0


def send(reducer: Reducer, path: str, file: str, seconds: float) -> None:
    """Until it is there; the reduce task may still start, or start again."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            with open(file, "rb") as body:
                Client(*reducer).send("PUT", path, body, os.path.getsize(file))
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
        time.sleep(AGAIN_SECONDS)


def give_up() -> int:
    """Say so to all that can be reached."""
    failed = 0
    for number, reducer in enumerate(read_reducers()):
        try:
            send(reducer, f"/failed/{os.environ['BERTH_INDEX']}", os.devnull, LAST_WORD_SECONDS)
        except (OSError, RequestRefused) as error:
            say(f"reduce-{number} does not hear that this map has failed: {error}")
            failed = NO_REDUCER
    return failed


def main(arguments: list[str]) -> int:
    return give_up() if arguments[0] == "give-up" else run_map(arguments[1:])


def say(text: str) -> None:
    sys.stderr.write(f"berth: {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
