from __future__ import annotations

import threading

from activity import hints
from controlplane.processes.loops import Loop


class Steps:
    """A loop that would look again in an hour, and how each of its steps came about."""

    def __init__(self, topic: str) -> None:
        self.hinted: list[bool] = []
        self.came = threading.Semaphore(0)
        self.loop = Loop("test", self._step, topics=(topic,))

    def _step(self, stop: threading.Event) -> float:
        self.hinted.append(self.loop.was_hinted)
        self.came.release()
        return 3600.0

    def wait(self) -> None:
        assert self.came.acquire(timeout=60)


def test_a_hint_ends_the_wait_and_the_step_knows_it() -> None:
    steps = Steps("a-topic")
    steps.loop.start()
    try:
        steps.wait()
        hints.wake_now("a-topic")
        steps.wait()
        hints.wake_now("another-topic")
        assert steps.hinted == [False, True]
    finally:
        assert steps.loop.finish(seconds=60)


def test_a_hint_during_a_step_is_not_lost() -> None:
    inside, go_on = threading.Event(), threading.Event()
    hinted: list[bool] = []

    def step(stop: threading.Event) -> float:
        hinted.append(loop.was_hinted)
        inside.set()
        assert go_on.wait(60)
        return 3600.0

    loop = Loop("test", step, topics=("a-topic",))
    loop.start()
    try:
        assert inside.wait(60)
        inside.clear()
        hints.wake_now("a-topic")
        go_on.set()
        assert inside.wait(60)
        assert hinted == [False, True]
    finally:
        assert loop.finish(seconds=60)
