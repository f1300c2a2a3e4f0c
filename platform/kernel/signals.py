"""Which processes of a task get the signal of a stop: a word of job files, and what all engines know of processes for it."""

from __future__ import annotations

from enum import StrEnum

SHELLS = ("ash", "bash", "busybox", "dash", "ksh", "mksh", "sh", "zsh")
"""Names of processes that wait for programs, and go on with their script when these have ended."""


class SignalTarget(StrEnum):
    """The values of `checkpoint.to`."""

    PROGRAMS = "programs"  # Those that handle it; all others but shells when these have ended. All, where none handles it.
    ALL = "all"
    CHILDREN = "children"  # All but the first.
    FIRST = "first"  # What the command names, or the shell that runs its text.
