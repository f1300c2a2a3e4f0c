"""Colour where it helps and is wanted: on a terminal, unless NO_COLOR says otherwise. Meaning never hangs on it."""

from __future__ import annotations

import os
import sys
from typing import TextIO

_CODES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
    "bright_black": "90",
    "bright_blue": "94",
    "bright_magenta": "95",
    "bright_cyan": "96",
}
TASK_COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "bright_cyan", "bright_magenta", "bright_blue")


def is_terminal(stream: TextIO) -> bool:
    """Whether a person looks at this stream."""
    try:
        return stream.isatty()
    except ValueError:  # Closed.
        return False


def colour_wanted(stream: TextIO) -> bool:
    """NO_COLOR (no-color.org) wins over FORCE_COLOR, and that over what the stream is."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return is_terminal(stream) and os.environ.get("TERM") != "dumb"


def paint(text: str, style: str, *, stream: TextIO | None = None) -> str:
    """The text in a style such as `bold red`, or as it is where colour is not wanted."""
    if not style or not colour_wanted(stream or sys.stdout):
        return text
    codes = ";".join(_CODES[word] for word in style.split())
    return f"\x1b[{codes}m{text}\x1b[0m"
