"""Which processes of a task get the signal that asks it to end, and when. Pure.

A command is seldom one process: a shell waits for the program, `tee` reads what it says, a launcher watches its workers. The
program has a handler that saves; the others would be ended by the signal, and most take the program with them (a pipe without a
reader, a task without its first process). So those that handle it get it at once, and the others once these have ended. A shell
that waits for a program goes on with its script, as under Slurm. Where no process handles the signal all get it at once, because
nothing is saved by waiting.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence

from clusters.engines.local.launching.verbs import SeenProcess
from kernel.signals import SHELLS, SignalTarget

Pids = tuple[tuple[int, int], ...]
"""Process ids with start times, in ticks since boot: an id alone may be another process's by now."""


def recipients(seen: Sequence[SeenProcess], number: int, target: SignalTarget) -> tuple[Pids, Pids]:
    """Those that get this signal at once, and those that get it when these have ended."""
    if target is SignalTarget.ALL:
        return _pids(seen), ()
    if target is SignalTarget.FIRST:
        return _pids([process for process in seen if process.is_first]), ()
    if target is SignalTarget.CHILDREN:
        return _pids([process for process in seen if not process.is_first]), ()
    # Every shell handles INT, by leaving its script.
    handling = [process for process in seen if process.handles and not (number == signal.SIGINT and process.name in SHELLS)]
    if not handling:
        return _pids(seen), ()
    return _pids(handling), _pids([process for process in seen if process not in handling and process.name not in SHELLS])


def _pids(seen: Sequence[SeenProcess]) -> Pids:
    return tuple((process.pid, process.start_ticks) for process in seen)
