"""A condition of what everything stands on, told once: a full disk must not write a line a second into the log that fills it.

The first that meets it tells, the others are counted, and all wait. The first success tells that it is over. It is kept by
process: each one tells what it met itself.
"""

from __future__ import annotations

import threading

import structlog

log = structlog.get_logger("troubles")

WAIT_SECONDS_FIRST = 1.0
WAIT_SECONDS_MAX = 8.0  # How late what waited goes on when the trouble is over.


class Trouble:
    """One condition. `met` and `over` may be called by any thread, as often as they like."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._times = 0
        self._lock = threading.Lock()

    def met(self, **facts: object) -> float:
        """Tell it, the first time; gives how many seconds to wait before the next try, which grow."""
        with self._lock:
            self._times += 1
            times = self._times
        if times == 1:
            log.error(self.name, **facts)
        return float(min(WAIT_SECONDS_MAX, WAIT_SECONDS_FIRST * 2 ** min(times - 1, 10)))

    def over(self) -> None:
        """Tell that it is over, if it was met."""
        if not self._times:
            return
        with self._lock:
            times, self._times = self._times, 0
        if times:
            log.info(f"{self.name}_over", times=times)
