"""The loop that runs for ever: it backs off, wakes, ends, and no exception ends it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from activity import hints
from controlplane.processes import loops
from controlplane.processes.loops import BACKOFF_SECONDS_MAX, Loop

FOREVER = 3600.0
PATIENCE = 30.0


@pytest.fixture(autouse=True)
def connections(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which thread closed its database connections."""
    closed: list[str] = []

    class Connections:
        def close_all(self) -> None:
            closed.append(threading.current_thread().name)

    monkeypatch.setattr(loops, "connections", Connections())
    return closed


@pytest.fixture
def started() -> Iterator[Callable[[Loop], Loop]]:
    made: list[Loop] = []

    def start(loop: Loop) -> Loop:
        made.append(loop)
        loop.start()
        return loop

    yield start
    assert all(loop.finish(seconds=PATIENCE) for loop in made)


class Counter:
    """A step that counts its calls, and waits as long as it is told to until the next."""

    def __init__(self, *answers: float | Exception) -> None:
        self.answers = list(answers)
        self.calls = 0
        self.called = threading.Condition()

    def __call__(self, stop: threading.Event) -> float:
        with self.called:
            self.calls += 1
            self.called.notify_all()
            answer = self.answers.pop(0) if self.answers else FOREVER
        if isinstance(answer, Exception):
            raise answer
        return answer

    def wait_for(self, calls: int) -> None:
        with self.called:
            assert self.called.wait_for(lambda: self.calls >= calls, PATIENCE), f"{self.calls} of {calls} calls"


def test_it_calls_again_after_as_long_as_the_step_says(started: Callable[[Loop], Loop]) -> None:
    counter = Counter(0.0, 0.01, 0.0, FOREVER)
    started(Loop("counting", counter))
    counter.wait_for(4)


def test_a_hint_wakes_it_before_its_time(started: Callable[[Loop], Loop]) -> None:
    counter = Counter()
    started(Loop("waiting", counter, topics=("bell", "other")))
    counter.wait_for(1)
    hints.wake_now("bell")
    counter.wait_for(2)
    hints.wake_now("other")
    counter.wait_for(3)


def test_a_hint_that_comes_while_it_works_is_not_lost(started: Callable[[Loop], Loop]) -> None:
    calls = threading.Semaphore(0)
    heard = False

    def step(stop: threading.Event) -> float:
        nonlocal heard
        if not heard:
            heard = True
            hints.wake_now("bell")
        calls.release()
        return FOREVER

    started(Loop("busy", step, topics=("bell",)))
    assert calls.acquire(timeout=PATIENCE)
    assert calls.acquire(timeout=PATIENCE)


def test_it_stops_listening_when_it_ends() -> None:
    counter = Counter()
    loop = Loop("listening", counter, topics=("bell",))
    loop.start()
    counter.wait_for(1)
    assert loop.finish(seconds=PATIENCE)
    assert "bell" not in hints._receivers


def test_an_exception_costs_a_pause_that_grows_and_never_the_loop(
    started: Callable[[Loop], Loop], monkeypatch: pytest.MonkeyPatch, connections: list[str]
) -> None:
    waits: list[float] = []
    said: list[dict[str, Any]] = []
    monkeypatch.setattr(loops.log, "exception", lambda event, **facts: said.append({"event": event, **facts}), raising=False)
    counter = Counter(*[RuntimeError("no database")] * 9, 0.0, RuntimeError("again"))
    loop = Loop("failing", counter)
    monkeypatch.setattr(loop.wake, "wait", lambda seconds: waits.append(seconds) or seconds < FOREVER)
    loop.step = stop_after(counter, 11, loop)
    loop.run()
    assert waits[:4] == [0.4, 0.8, 1.6, 3.2]
    assert waits == sorted(waits[:9]) + waits[9:]
    assert max(waits) == BACKOFF_SECONDS_MAX
    assert waits[9] == 0.4, "a step that works makes the pause short again"
    assert [entry["failures"] for entry in said] == [*range(1, 10), 1]
    assert {(entry["event"], entry["loop"]) for entry in said} == {("loop_failed", "failing")}
    assert len(connections) == 11, "a connection that failed is not used again"


def stop_after(counter: Counter, calls: int, loop: Loop) -> Callable[[threading.Event], float]:
    def step(stop: threading.Event) -> float:
        if counter.calls == calls:
            loop.stop.set()
            return 0.0
        return counter(stop)

    return step


def test_it_ends_at_once_in_the_middle_of_a_long_wait(connections: list[str]) -> None:
    ended = threading.Event()
    counter = Counter()
    loop = Loop("resting", counter, finally_=ended.set)
    loop.start()
    counter.wait_for(1)
    assert loop.finish(seconds=PATIENCE)
    assert ended.is_set()
    assert connections == ["resting"]


def test_a_step_that_lasts_is_told_and_reported() -> None:
    free = threading.Event()
    entered = threading.Event()

    def step(stop: threading.Event) -> float:
        entered.set()
        free.wait(PATIENCE)
        assert stop.is_set()
        return 0.0

    loop = Loop("busy", step)
    loop.start()
    assert entered.wait(PATIENCE)
    assert not loop.finish(seconds=0.01)
    free.set()
    assert loop.finish(seconds=PATIENCE)


def test_what_fails_at_the_end_keeps_it_from_nothing(connections: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(loops.log, "exception", lambda event, **facts: said.append(event), raising=False)

    def fail() -> None:
        raise RuntimeError("no database")

    counter = Counter()
    loop = Loop("ending", counter, finally_=fail)
    loop.start()
    counter.wait_for(1)
    assert loop.finish(seconds=PATIENCE)
    assert said == ["loop_end_failed"]
    assert connections == ["ending"]


def test_one_that_never_started_is_finished() -> None:
    assert Loop("idle", Counter()).finish()
