"""Named places between two side effects where a process may die. Tests kill it there, one by one, and look at what remains.

Every step with a side effect names a point, and its app registers it; the registry is the list that the fault harness loops over.
In production a point costs one dictionary look-up.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping

from kernel.registry import Registry


def _missing(name: str, meaning: str) -> str:
    if name.count(".") < 2:
        return "a point is named <app>.<what is done>.<where it is interrupted>"
    is_sentence = meaning.endswith(".") and len(meaning) > 20
    return "" if is_sentence else "say in a sentence what is done there and what is not"


POINTS: Registry[str] = Registry("crash point", missing=_missing)


def register_crash_points(points: Mapping[str, str]) -> None:
    """Called by each app at start, with its own: what is done and what is not, by the point's name."""
    POINTS.add(points.items())


_actions: dict[str, Callable[[], None]] = {}


def crashpoint(name: str) -> None:
    """Die here if a test asked for it: `BERTH_CRASH_AT=<name>` kills the process, `arm` runs an action.

    `BERTH_CRASH_AT=/<path>` takes the name from that file at the moment, so that a process that runs already can be told, and
    removes the file, so that the next process lives. `freeze <name>` stops the process there instead, as SIGSTOP does: a test
    that lets it go on later has a worker that was paused with work in hand.
    """
    if name not in POINTS:
        raise AssertionError(f"crash point {name} is not among CRASH_POINTS of its app's wiring.py")
    action = _actions.pop(name, None)
    if action is not None:
        action()
    asked = os.environ.get("BERTH_CRASH_AT")
    if asked is not None and (fate := signal.SIGKILL if asked == name else _stands_in(asked, name)):
        os.kill(os.getpid(), fate)


def _stands_in(path: str, name: str) -> signal.Signals | None:
    """What the file asks for at this point, if anything."""
    try:
        with open(path) as file:
            fate, _, point = file.read().rpartition(" ")
        if point != name:
            return None
        os.unlink(path)
    except FileNotFoundError:  # Nothing is asked for now, or another thread dies of it already. All else is the test's mistake.
        return None
    return signal.SIGSTOP if fate == "freeze" else signal.SIGKILL


def arm(name: str, action: Callable[[], None]) -> None:
    """Run `action` once when the point is reached next; a simulator raises from it."""
    if name not in POINTS:
        raise AssertionError(f"crash point {name} is not registered")
    _actions[name] = action


def disarm_all() -> None:
    _actions.clear()
