"""Each cluster has a few threads of its own: what hangs in one lane holds up no other, and nothing piles up."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from reconciling import lanes
from reconciling.lanes import KIND_THREADS, LANE_THREADS, Lane, Lanes
from tests.builders.live import wait_until

PATIENCE = 60.0


class Hang:
    """Work that does not end until the test lets it."""

    def __init__(self) -> None:
        self.free = threading.Event()
        self.begun = 0
        self._lock = threading.Lock()

    def __call__(self) -> None:
        with self._lock:
            self.begun += 1
        assert self.free.wait(2 * PATIENCE)


@pytest.fixture
def hang() -> Iterator[Hang]:
    made = Hang()
    yield made
    made.free.set()


@pytest.fixture
def opened(hang: Hang) -> Iterator[Lanes]:
    made = Lanes()
    with lanes.opened(made):
        yield made
    hang.free.set()
    assert made.finish(seconds=PATIENCE)


def test_work_that_hangs_for_one_cluster_holds_up_no_other(opened: Lanes, hang: Hang) -> None:
    for _ in range(20):
        lanes.run("slow", "launch", hang)
    wait_until(lambda: hang.begun > 0, "the one that hangs")
    done = threading.Event()
    lanes.run("quick", "launch", done.set)
    assert done.wait(PATIENCE)


def test_work_that_hangs_leaves_room_for_other_work_of_its_cluster(opened: Lanes, hang: Hang) -> None:
    for number in range(1, KIND_THREADS + 1):
        lanes.run("slow", "launch", hang)
        wait_until(lambda number=number: hang.begun == number, "the next one that hangs")
    lanes.run("slow", "launch", hang)
    done = threading.Event()
    lanes.run("slow", "stop", done.set)
    assert done.wait(PATIENCE)
    assert hang.begun == KIND_THREADS


def test_what_is_asked_for_a_thousand_times_waits_once(hang: Hang) -> None:
    lane = Lane("slow")
    done: list[None] = []
    for number in range(1, LANE_THREADS + 1):
        lane.ask(f"kind {number}", hang)
        wait_until(lambda number=number: hang.begun == number, "the next one that hangs")
    for _ in range(1_000):
        lane.ask("launch", lambda: done.append(None))
    assert len(lane._threads) == LANE_THREADS
    hang.free.set()
    wait_until(lambda: bool(done), "the one that waited")
    assert lane.finish(until=time.monotonic() + PATIENCE)
    assert len(done) == 1


def test_what_comes_due_while_a_look_is_under_way_is_looked_at_afterwards(opened: Lanes) -> None:
    due, seen = [1], []
    begun, go_on = threading.Event(), threading.Event()

    def look() -> None:
        found = list(due)
        begun.set()
        assert go_on.wait(PATIENCE)
        seen.extend(found)

    lanes.run("a", "launch", look)
    assert begun.wait(PATIENCE)
    due.append(2)
    lanes.run("a", "launch", look)
    go_on.set()
    wait_until(lambda: 2 in seen, "what came later")


def test_work_that_fails_is_said_and_the_next_is_done(opened: Lanes, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[tuple[str, dict[str, object]]] = []
    monkeypatch.setattr(lanes.log, "exception", lambda event, **facts: said.append((event, facts)), raising=False)

    def fail() -> None:
        raise RuntimeError("not this time")

    lanes.run("a", "launch", fail)
    done = threading.Event()
    lanes.run("a", "stop", done.set)
    assert done.wait(PATIENCE)
    wait_until(lambda: bool(said), "what is said of the failure")
    assert said == [("task_failed", {"task": "launch", "lane": "a"})]


def test_a_thread_without_work_ends_and_another_begins_when_there_is_some() -> None:
    lane = Lane("a", idle_seconds=0.01)
    for _ in range(3):
        done = threading.Event()
        lane.ask("launch", done.set)
        assert done.wait(PATIENCE)
        wait_until(lambda: not lane._threads, "the end of the thread")


def test_lanes_that_hang_are_not_waited_for_without_a_bound(hang: Hang) -> None:
    slow = Lanes()
    slow.ask("slow", "launch", hang)
    wait_until(lambda: hang.begun == 1, "the one that hangs")
    began = time.monotonic()
    assert not slow.finish(seconds=0.2)
    assert time.monotonic() - began < PATIENCE
    hang.free.set()
    assert slow.finish(seconds=PATIENCE)


def test_a_lane_of_a_cluster_that_is_gone_ends(opened: Lanes) -> None:
    done = threading.Event()
    lanes.run("gone", "launch", done.set)
    assert done.wait(PATIENCE)
    lane = opened._lanes["gone"]
    opened.keep({"here"})
    wait_until(lambda: not lane._threads, "the end of its threads")
    assert opened._lanes == {}


def test_without_lanes_work_is_done_at_once_and_its_failure_raised() -> None:
    def fail() -> None:
        raise RuntimeError("not this time")

    with pytest.raises(RuntimeError, match="not this time"):
        lanes.run("a", "launch", fail)
