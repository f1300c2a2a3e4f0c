"""Tasks that are far behind the others of their role. It is words and advice alone: no task is stopped for being slow.

A median instead of a mean, so that the slow ones do not move what they are measured by; and none before the median is well on its
way, as tasks begin at different times.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from statistics import median
from typing import Generic, TypeVar

from jobs.lifecycle.progress import Progress

Name = TypeVar("Name", bound=Hashable)

TASKS_LEAST = 3
MEDIAN_LEAST = 0.2
SHARE_OF_MEDIAN = 0.5


@dataclass(frozen=True, slots=True)
class Straggler:
    """How far a task is behind: the share of its work that the median task has done, and how much less this task has."""

    behind_percent: int
    median_percent: int


@dataclass(frozen=True, slots=True)
class TaskMark(Generic[Name]):
    """How far a task of a role is that runs, or has succeeded. A total of 0 says nothing of a distance."""

    name: Name
    progress: Progress
    is_running: bool


def stragglers(marks: Iterable[TaskMark[Name]]) -> dict[Name, Straggler]:
    """Those tasks of one role that are stragglers."""
    counted = [mark for mark in marks if mark.progress.total]
    if len(counted) < TASKS_LEAST:
        return {}
    middle = median(mark.progress.share for mark in counted)
    if middle < MEDIAN_LEAST:
        return {}
    return {
        mark.name: Straggler(round(100 * (middle - mark.progress.share)), round(100 * middle))
        for mark in counted
        if mark.is_running and mark.progress.share < SHARE_OF_MEDIAN * middle
    }
