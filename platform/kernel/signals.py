"""Which processes of a task get the signal of a stop: a word of job files, which engines read, too."""

from __future__ import annotations

from enum import StrEnum


class SignalTarget(StrEnum):
    """The values of `checkpoint.to`."""

    PROGRAMS = "programs"  # Those that handle it; all others but shells when these have ended. All, where none handles it.
    ALL = "all"
    CHILDREN = "children"  # All but the first.
    FIRST = "first"  # What the command names, or the shell that runs its text.
