"""How the commands of this folder say what they do: steps with their time, and failures in words. Standard library only."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

CLEAR_LINE = "\x1b[K"
TELL_SECONDS = 1.0  # A user who waits longer than this wants to know for what.
LINES_APART_SECONDS = 10  # Without a terminal each word is a line for ever.


class Stop(Exception):
    """The command ends here; the message says why and what to do."""


class Told:
    """What came of a step; the code that works on it sets the outcome."""

    outcome = ""


@contextlib.contextmanager
def step(name: str) -> Iterator[Told]:
    """Say what is being done while it takes longer than a second, and what came of it."""
    began = time.monotonic()
    over = threading.Event()
    on_terminal = sys.stdout.isatty()
    told = Told()

    def tell() -> None:
        said_at: int | None = None
        while not over.wait(TELL_SECONDS):
            seconds = int(time.monotonic() - began)
            if on_terminal:
                print(f"\r  ....  {name:<16} {seconds} s", end="", flush=True)
            elif said_at is None or seconds >= said_at + LINES_APART_SECONDS:
                print(f"  ....  {name:<16} {seconds} s", flush=True)
                said_at = seconds

    def end(word: str, text: str) -> None:
        over.set()
        teller.join()
        print(f"{chr(13) + CLEAR_LINE if on_terminal else ''}  {word}  {name:<16} {text}".rstrip(" "), flush=True)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield told
    except BaseException:
        end("FAIL", "")
        raise
    seconds = time.monotonic() - began
    end("done", told.outcome + (f" ({seconds:.1f} s)" if seconds >= 1 else ""))


def run_quietly(command: list[str], *, why: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Stop(f"{why}: `{' '.join(command[:4])}` said: {last_line(done.stderr or done.stdout)}")


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "nothing"


def say_error(text: str) -> None:
    print(f"\nberth: {text}", file=sys.stderr, flush=True)
