"""Seconds of a machine that lets everybody go on: what promises of seconds are judged by."""

from __future__ import annotations

import threading
import time
from types import TracebackType

TICK_SECONDS = 0.02


class Watch:
    """Counts while the block runs. A wake-up that comes late, because the machine stood still, counts as one tick and no more."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        last = time.monotonic()
        while not self._over.wait(TICK_SECONDS):
            now = time.monotonic()
            self.seconds += min(now - last, 2 * TICK_SECONDS)
            last = now
