"""Periodic duties: what runs without any hint, and how often. Each app registers its own; hints only make them run sooner."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kernel.config import Config
from kernel.registry import Registry


@dataclass(frozen=True, slots=True)
class Duty:
    """A task that is run again and again, every so many seconds by the settings.

    `hint` is the topic that makes it run sooner, empty for none. A duty `by_cluster` asks engines: it is one message for each
    cluster, in the queue of that cluster, its task takes the cluster's id, and its topics are `<hint>.<cluster id>`.
    """

    task: str
    seconds: Callable[[Config], float]
    hint: str = ""
    by_cluster: bool = False


def _missing(task: str, duty: Duty) -> str:
    if "." not in task:
        return "a task is named <app>.<what it does>"
    if duty.hint and any(duty.hint == other.hint for other in DUTIES.values()):
        return f"another duty is hinted at by {duty.hint}"
    return "" if duty.seconds(Config()) > 0 else "its interval is not above zero"


DUTIES: Registry[Duty] = Registry("duty", missing=_missing)


def register_duties(duties: Iterable[Duty]) -> None:
    """Called by each app at start, with its own."""
    DUTIES.add((duty.task, duty) for duty in duties)
