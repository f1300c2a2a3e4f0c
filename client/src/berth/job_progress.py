"""How far a program is, said to the platform that runs it by a line of its output; outside a job the same line is printed."""

from __future__ import annotations

import contextlib
import sys
import time

AMOUNT_MAX = 2**53
SECONDS_BETWEEN = 1.0

_said_at = float("-inf")


def progress(done: int, total: int) -> None:
    """Say that `done` of `total` are done, in units of your own. At most once a second, so that a loop may call it at each step;
    the end, where both are equal, is always said.

    It prints `berth: progress DONE/TOTAL` to standard error; a program in any language can print such a line.
    """
    global _said_at
    if not 0 <= done <= total <= AMOUNT_MAX:
        raise ValueError(f"progress needs 0 <= done <= total <= 2**53, not {done!r} of {total!r}.")
    line = f"berth: progress {done:d}/{total:d}\n"
    now = time.monotonic()
    if sys.stderr is None or (done != total and now - _said_at < SECONDS_BETWEEN):
        return
    _said_at = now
    with contextlib.suppress(OSError, ValueError):  # Closed: a program does not fail for what it says beside its work.
        sys.stderr.write(line)
        sys.stderr.flush()
