"""The worker with the real controller of Celery: ticks and hints become tasks, and nothing that happens in one ends it."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kombu import Connection, Exchange

from activity import hints
from controlplane import duties
from controlplane.celery import app
from controlplane.processes import worker as working
from controlplane.processes.worker import Worker, send
from reconciling import ticks
from reconciling.models import Tick
from tests.builders.live import wait_until

pytestmark = [pytest.mark.database, pytest.mark.django_db(transaction=True)]

PATIENCE = 60.0


class Notes:
    """What the tasks of these tests were called with, in order."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.threads: set[str] = set()
        self.free = threading.Event()
        self.entered = threading.Event()

    def wait_for(self, count: int) -> None:
        wait_until(lambda: len(self.calls) >= count, f"{count} calls", timeout=PATIENCE)


@pytest.fixture
def notes() -> Iterator[Notes]:
    made = Notes()

    def note(**arguments: Any) -> None:
        made.calls.append(arguments)
        made.threads.add(threading.current_thread().name)

    def fail(**arguments: Any) -> None:
        made.calls.append(arguments)
        raise RuntimeError("not this time")

    def stay(**arguments: Any) -> None:
        made.entered.set()
        made.free.wait(2 * PATIENCE)
        made.calls.append(arguments)

    names = {"tests.note": note, "tests.fail": fail, "tests.stay": stay}
    for name, work in names.items():
        app.task(name=name)(work)
    yield made
    made.free.set()
    for name in names:
        del app.tasks[name]


@pytest.fixture(autouse=True)
def _no_duties_but_ours(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The duties of the product would work on the database beside the tests."""
    monkeypatch.setattr(duties, "register", lambda: None)
    monkeypatch.setattr(duties, "plain_hints", lambda: {"storm": "tests.note"})
    monkeypatch.setattr(duties, "cluster_hints", lambda: {"launch": "tests.note"})
    monkeypatch.setattr(ticks, "_duties", {})
    app.control.purge()
    yield
    app.control.purge()


@pytest.fixture
def start() -> Iterator[Callable[[], Worker]]:
    made: list[Worker] = []

    def started() -> Worker:
        worker = Worker(threads=2)
        made.append(worker)
        worker.start()
        return worker

    yield started
    for worker in made:
        worker.finish(seconds=PATIENCE)


def test_a_duty_that_is_due_is_done_and_comes_again(notes: Notes, start: Callable[[], Worker]) -> None:
    ticks.register("tests.note", every_seconds=0.05)
    start()
    notes.wait_for(3)
    tick = Tick.objects.get(name="tests.note")
    assert tick.claimed_by.endswith(f":{working.os.getpid()}")
    assert all(name.startswith("ThreadPoolExecutor") for name in notes.threads), "tasks run in the pool"


def test_a_hint_runs_its_task_without_waiting_for_a_tick(notes: Notes, start: Callable[[], Worker]) -> None:
    start()
    hints.wake_now("storm")
    notes.wait_for(1)


def test_a_storm_of_hints_becomes_few_messages_and_the_last_one_is_heard(notes: Notes, start: Callable[[], Worker]) -> None:
    worker = start()
    hints.wake_now("storm")
    notes.wait_for(1)
    began = time.monotonic()
    for _ in range(5_000):
        hints.wake_now("storm")
    last_at = len(notes.calls)
    hints.wake_now("storm")
    seconds = time.monotonic() - began
    notes.wait_for(last_at + 1)
    wait_until(lambda: not worker._hinted, "all hints sent")
    assert len(notes.calls) <= 5 + seconds / working.GATHER_SECONDS


def test_hints_of_a_cluster_carry_its_id(notes: Notes, start: Callable[[], Worker], monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [uuid.uuid4(), uuid.uuid4()]
    monkeypatch.setattr(working, "observed_clusters", lambda: ids)
    start()
    for each in ids:
        hints.wake_now(f"launch.{each}")
    notes.wait_for(2)
    assert {call["cluster_id"] for call in notes.calls} == {str(each) for each in ids}


def test_a_task_that_raises_is_logged_and_the_next_one_runs(
    notes: Notes, start: Callable[[], Worker], caplog: pytest.LogCaptureFixture
) -> None:
    start()
    for _ in range(4):  # More than there are threads.
        send("tests.fail")
    send("tests.note", after="failures")
    wait_until(lambda: {"after": "failures"} in notes.calls, "the task after the failures", timeout=PATIENCE)
    wait_until(lambda: "not this time" in caplog.text, "what is said of the failures", timeout=PATIENCE)


def test_messages_that_nobody_understands_are_dropped(notes: Notes, start: Callable[[], Worker]) -> None:
    start()
    app.send_task("tests.unknown")
    with Connection(app.conf.broker_url, transport_options=app.conf.broker_transport_options) as connection:
        producer = connection.Producer(exchange=Exchange(""), routing_key="default")
        for body, kind in ((b"\x80\x04.", "application/x-python-serialize"), (b"{", "application/json"), (b"\xff", "text/plain")):
            producer.publish(body, content_type=kind, content_encoding="binary")
    send("tests.note", still="here")
    wait_until(lambda: {"still": "here"} in notes.calls, "the task after them", timeout=PATIENCE)


def test_a_worker_that_ends_leaves_no_thread_and_no_listener(notes: Notes) -> None:
    before = set(threading.enumerate())
    for _ in range(2):  # A second one in the same process is as good as the first.
        worker = Worker(threads=2)
        worker.start()
        send("tests.note")
        notes.wait_for(1)
        notes.calls.clear()
        assert worker.finish(seconds=PATIENCE)

    def left() -> list[str]:
        return [thread.name for thread in set(threading.enumerate()) - before if not thread.name.startswith("hints-")]

    wait_until(lambda: not left(), "the last moment of each thread", timeout=PATIENCE)
    assert "storm" not in hints._receivers


def test_a_worker_may_end_while_it_still_starts() -> None:
    worker = Worker()
    worker.start()
    assert worker.finish(seconds=PATIENCE)
    assert not worker._thread.is_alive()


def test_a_worker_leaves_no_sockets_whose_loop_began_after_it_was_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker()
    worker.start()
    stop, hub = worker._stop_controller, worker._controller.hub

    def stop_before_the_loop(deadline: float) -> None:
        stop(deadline)
        if hub is not None and worker._thread is not None:  # Only a broker with sockets has a loop.
            worker._thread.join(PATIENCE)
            hub._create_waker()

    monkeypatch.setattr(worker, "_stop_controller", stop_before_the_loop)
    assert worker.finish(seconds=PATIENCE)
    assert hub is None or hub._waker is None


def test_a_task_in_hand_is_not_waited_for_without_a_bound(notes: Notes) -> None:
    worker = Worker(threads=1)
    worker.start()
    send("tests.stay", told="once")
    assert notes.entered.wait(PATIENCE)
    began = time.monotonic()
    assert not worker.finish(seconds=0.3)
    assert time.monotonic() - began < PATIENCE / 2, "it was waited for"
    notes.free.set()
    notes.wait_for(1)
    worker._thread.join(PATIENCE)
    assert not worker._thread.is_alive()
    assert notes.calls == [{"told": "once"}]


def test_what_a_hint_asks_for_is_done_here_when_no_broker_carries_it(notes: Notes, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[dict[str, Any]] = []

    def broken(*arguments: Any, **more: Any) -> None:
        raise ConnectionError("refused")

    monkeypatch.setattr(app, "send_task", broken)
    monkeypatch.setattr(working.log, "warning", lambda event, **facts: said.append({"event": event, **facts}), raising=False)
    send("tests.note", cluster_id="x")
    assert notes.calls == [{"cluster_id": "x"}]
    assert said == [{"event": "hint_not_sent", "task": "tests.note", "error": "ConnectionError('refused')"}]


def test_a_task_that_raises_without_a_broker_fails_nobody(notes: Notes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(working.broker, "answers", lambda: False)
    send("tests.fail", number=1)
    send("tests.note", number=2)
    assert notes.calls == [{"number": 1}, {"number": 2}]


def test_every_duty_and_hint_of_the_product_has_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(ticks, "_duties", {})
    duties.register()
    app.loader.import_default_modules()
    named = {*ticks.registered(), *duties.cluster_hints().values(), *duties.plain_hints().values()}
    assert named <= set(app.tasks)
    assert {*duties.cluster_hints().values(), *duties.plain_hints().values()} <= set(ticks.registered()), "hints only hurry"
