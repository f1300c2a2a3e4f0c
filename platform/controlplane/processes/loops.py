"""A loop that is meant to run for ever: the one place that catches every exception, logs it and backs off."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog
from django.db import close_old_connections, connection, connections

from activity import hints

log = structlog.get_logger("loops")

BACKOFF_SECONDS_MAX = 15.0
GATHER_SECONDS_MAX = 1.0


@dataclass(slots=True)
class Loop:
    """Calls `step(stop)` again and again in a thread of its own; `step` says how many seconds to wait until the next call."""

    name: str
    step: Callable[[threading.Event], float]
    wake: threading.Event = field(default_factory=threading.Event)
    stop: threading.Event = field(default_factory=threading.Event)
    topics: tuple[str, ...] = ()  # Hints that wake the loop before its time.
    gather_seconds: float = 0.0  # Hints that come so soon after a step are answered together, by one step;
    gather_share: float = 0.0  # also those that come in so many times what the step took, up to a second.
    finally_: Callable[[], None] | None = None  # Runs in the loop's thread when it ends.
    thread: threading.Thread | None = None
    has_run: bool = False  # Whether a step has ended well.
    was_hinted: bool = False  # Whether a hint ended the last wait, and not the time.

    def start(self) -> None:
        self.thread = threading.Thread(target=self.run, name=self.name, daemon=True)
        self.thread.start()

    def run(self) -> None:
        """Go on until told to stop. A failure costs a growing pause, never the loop."""
        with contextlib.ExitStack() as listening:
            for topic in self.topics:
                listening.enter_context(hints.listen(topic, self.wake.set))
            self._run()

    def _run(self) -> None:
        failures, gather = 0, 0.0
        while not self.stop.is_set():
            self.was_hinted = self.wake.is_set()
            self.wake.clear()  # Before the step: what rings while it works is a reason to work again.
            try:
                _give_back_connection()
                began = time.monotonic()
                wait = self.step(self.stop)
                gather = max(self.gather_seconds, min(GATHER_SECONDS_MAX, self.gather_share * (time.monotonic() - began)))
                failures = 0
                self.has_run = True
            except Exception:  # The outermost loop: log, back off, go on.
                failures += 1
                wait = min(BACKOFF_SECONDS_MAX, 0.2 * 2 ** min(failures, 8))
                log.exception("loop_failed", loop=self.name, failures=failures, wait_seconds=wait)
                connections.close_all()
            if wait > 0 and not self.stop.wait(min(wait, gather)):
                self.wake.wait(max(0.0, wait - gather))
        try:
            if self.finally_ is not None:
                self.finally_()
        except Exception:  # The loop ends anyway; whatever it could not give back expires.
            log.exception("loop_end_failed", loop=self.name)
        finally:
            connections.close_all()

    def ask_to_end(self) -> None:
        """Let the loop end after the step in hand."""
        self.stop.set()
        self.wake.set()

    def finish(self, *, seconds: float = 5.0) -> bool:
        """Ask the loop to end and wait for it; whether it has ended."""
        self.ask_to_end()
        if self.thread is not None:
            self.thread.join(seconds)
        return self.thread is None or not self.thread.is_alive()


def _give_back_connection() -> None:
    """To the pool of PostgreSQL, between steps. SQLite has none: opening its file anew costs more than most steps do."""
    if connection.vendor != "sqlite":
        close_old_connections()
