"""What backup and restore say while they work: one line a step on stderr, with a moving figure at a terminal."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator

TELL_SECONDS = 0.5
UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


class Progress:
    """Steps with what came of them. Without a terminal each step is one line when it is over."""

    def __init__(self) -> None:
        self._on_terminal = sys.stderr.isatty()
        self._name = ""
        self._moved = 0
        self._total = 0
        self._said_at = 0.0

    @contextlib.contextmanager
    def step(self, name: str, total: int = 0) -> Iterator[list[str]]:
        """Words put into the list given are said behind the step's name when it is done."""
        self._name, self._moved, self._total = name, 0, total
        words: list[str] = []
        began = time.monotonic()
        self._show()
        try:
            yield words
        except BaseException:
            self._line("FAIL", name, "")
            raise
        seconds = time.monotonic() - began
        self._line("done", name, " ".join(words) + (f" ({seconds:.1f} s)" if seconds >= 1 else ""))

    def moved(self, count: int) -> None:
        """Count bytes of the present step."""
        self._moved += count
        if self._on_terminal and time.monotonic() - self._said_at > TELL_SECONDS:
            self._show()

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)  # noqa: T201 - progress of a command.

    def _show(self) -> None:
        if not self._on_terminal:
            return
        self._said_at = time.monotonic()
        figure = shown_bytes(self._moved) if self._moved else ""
        if self._total:
            figure += f" of {shown_bytes(self._total)}, {min(100, 100 * self._moved // self._total)} %"
        print(f"\r  ....  {self._name:<20} {figure}\x1b[K", end="", file=sys.stderr, flush=True)  # noqa: T201

    def _line(self, word: str, name: str, text: str) -> None:
        begin = "\r\x1b[K" if self._on_terminal else ""
        print(f"{begin}  {word}  {name:<20} {text}".rstrip(), file=sys.stderr, flush=True)  # noqa: T201


def shown_bytes(count: float) -> str:
    """A size as people read it."""
    for unit in UNITS:
        if count < 1024 or unit == UNITS[-1]:
            return f"{count:.0f} {unit}" if unit == "bytes" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError("the last unit ends the loop")


def shown_seconds(seconds: float) -> str:
    """A span as people say it."""
    if seconds < 120:
        return f"{seconds:.0f} seconds"
    if seconds < 7_200:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3_600:.1f} hours" if seconds < 172_800 else f"{seconds / 86_400:.1f} days"
