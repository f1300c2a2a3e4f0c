"""Output on its way from the engine into the store, where a stop and a launch meet."""

from __future__ import annotations

import errno
import math
import random
from collections.abc import Hashable, Sequence
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from clusters.engines.fake import FakeEngine, Script
from clusters.engines.interface import LogChunk, LogStreamName, Stream, TaskName, Workload
from jobs.models import Attempt
from jobs.reconcile import finish, launch, poll, pump
from jobs.services.compile import compile_attempts
from kernel import clock
from storage.logs import FileLogStore, LogStoreFull, read_tail
from tests.builders.quay import Quay
from tests.factories.clusters import use_engine

pytestmark = pytest.mark.database


def test_what_one_prints_that_was_stopped_while_it_was_handed_over_is_kept(quay: Quay) -> None:
    job = quay.submit(script=Script(duration_seconds=1.0, stdout=b"hello\n"))
    quay.schedule()
    (attempt,) = quay.attempts(job)
    (workload,) = compile_attempts([attempt])  # A worker has it in hand ...
    assert isinstance(workload, Workload)
    quay.stop(job)  # ... when somebody stops it,
    with clock.virtual(lambda: quay.now):
        pump.pump_live(quay.cluster.pk)  # and somebody else looks for output before the engine has it.
        quay.engine.ensure([workload])
        quay.pass_time(2)
        poll.poll(quay.cluster.pk)
        finish.finish(quay.cluster.pk)
    assert quay.attempts(job)[0].forgotten
    (task,) = quay.tasks(job)
    assert read_tail(attempt.id, TaskName(task.role, task.index), Stream.OUT, size_bytes=100) == "hello\n"


def printing(quay: Quay, count: int) -> None:
    """So many more jobs that have printed a word and run on."""
    for _ in range(count):
        script = Script(duration_seconds=None, stdout=b"hello\n")
        quay.submit("prints", script=script, resources={"cpu": "50m", "memory": "16Mi"})
    quay.schedule()
    with clock.virtual(lambda: quay.now):
        launch.launch(quay.cluster.pk)
        quay.pass_time(1)
        poll.poll(quay.cluster.pk)


def silent(quay: Quay) -> list[int]:
    """Which of the live attempts, in order, have nothing in the store."""
    ids = Attempt.objects.order_by("id").values_list("id", flat=True)
    return [
        number
        for number, attempt_id in enumerate(ids)
        if not read_tail(attempt_id, TaskName("worker", 0), Stream.OUT, size_bytes=9)
    ]


def test_what_more_jobs_print_than_fit_a_pass_is_shown_while_they_run(quay: Quay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pump, "BATCH_ATTEMPTS", 2)
    printing(quay, 3)
    with clock.virtual(lambda: quay.now):
        assert pump.pump_live(quay.cluster.pk).more, "the round is not over"
        assert silent(quay) == [2]
        assert not pump.pump_live(quay.cluster.pk).more
    assert silent(quay) == []


@pytest.mark.parametrize("seed", range(4))
def test_every_live_stream_has_its_turn_within_as_many_passes_as_there_are_windows(
    quay: Quay, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Also while others begin; and wherever the round before stood."""
    chance = random.Random(seed)
    window = chance.randint(1, 5)
    monkeypatch.setattr(pump, "BATCH_ATTEMPTS", window)
    with clock.virtual(lambda: quay.now):
        for _ in range(4):
            printing(quay, chance.randint(0, 6))
            live = list(Attempt.objects.order_by("id").values_list("id", flat=True))
            for _ in range(chance.randint(0, 3)):
                pump.pump_live(quay.cluster.pk)
            visited = set()
            for _ in range(2 * (math.ceil(len(live) / window) + 1)):  # What is left of this round, and the next one.
                seen = watch_reads(quay, monkeypatch)
                pump.pump_live(quay.cluster.pk)
                visited |= seen
            assert visited >= set(live)
    assert silent(quay) == []


def watch_reads(quay: Quay, monkeypatch: pytest.MonkeyPatch) -> set[object]:
    """The attempts whose output the engine is asked for from now on."""
    seen: set[object] = set()
    read = FakeEngine.logs

    def logs(attempt, task, stream, cursor):  # type: ignore[no-untyped-def]
        seen.add(attempt)
        return read(quay.engine, attempt, task, stream, cursor)

    monkeypatch.setattr(quay.engine, "logs", logs)
    return seen


class MarkingEngine(FakeEngine):
    """An engine that can tell which streams went on."""

    lengths: dict[LogStreamName, int]

    def log_marks(self, streams: Sequence[LogStreamName]) -> Sequence[Hashable]:
        return [self.lengths.get(name, 0) for name in streams]


def marking(quay: Quay) -> MarkingEngine:
    quay.engine.__class__ = MarkingEngine
    engine = quay.engine
    assert isinstance(engine, MarkingEngine)
    engine.lengths = {}
    use_engine(engine)
    return engine


def test_a_stream_that_printed_nothing_since_is_not_asked_for_again(quay: Quay, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = marking(quay)
    printing(quay, 3)
    with clock.virtual(lambda: quay.now):
        pump.pump_live(quay.cluster.pk)
        seen = watch_reads(quay, monkeypatch)
        assert pump.pump_live(quay.cluster.pk).live == 3, "they are looked at all the same"
        assert seen == set()
        attempt = Attempt.objects.latest("id")
        engine.lengths[attempt.id, TaskName("worker", 0), Stream.OUT] = 7
        pump.pump_live(quay.cluster.pk)
    assert seen == {attempt.id}


def test_a_pass_asks_the_engine_once_for_each_stream_that_went_on(quay: Quay, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = marking(quay)
    printing(quay, 3)
    with clock.virtual(lambda: quay.now):
        pump.pump_live(quay.cluster.pk)
        name = (Attempt.objects.latest("id").id, TaskName("worker", 0), Stream.OUT)
        engine.lengths[name] = 7
        calls: list[tuple[object, ...]] = []
        read = engine.logs

        def logs(*asked):  # type: ignore[no-untyped-def]
            calls.append(asked[:3])
            answer = read(*asked)
            return replace(answer, chunks=(LogChunk(6, b"!"),), cursor=7) if asked[3] == 6 else answer

        monkeypatch.setattr(engine, "logs", logs)
        assert pump.pump_live(quay.cluster.pk).stored_bytes == 1
    assert calls == [name], "its other stream stood still, and the engine said that nothing follows"


def test_what_could_not_be_stored_is_asked_for_again_although_its_stream_stood_still(
    quay: Quay, monkeypatch: pytest.MonkeyPatch
) -> None:
    marking(quay)
    printing(quay, 2)

    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with clock.virtual(lambda: quay.now):
        with monkeypatch.context() as broken:
            broken.setattr(FileLogStore, "write", full)
            with pytest.raises(LogStoreFull) as told:
                pump.pump_live(quay.cluster.pk)
            assert told.value.retry_after_seconds == 1
            with pytest.raises(LogStoreFull) as told:
                pump.pump_live(quay.cluster.pk)
            assert told.value.retry_after_seconds == 2, "it backs off"
        pump.pump_live(quay.cluster.pk)
    assert silent(quay) == []


def test_a_full_log_store_is_told_once_and_costs_no_output(quay: Quay, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [quay.submit("prints", script=Script(stdout=b"hello\n")) for _ in range(3)]

    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with capture_logs() as said, monkeypatch.context() as broken:
        broken.setattr(FileLogStore, "write", full)
        for _ in range(40):  # More tries than an engine that has lost the output is given.
            quay.turn()
            quay.pass_time(16)
        assert [quay.state(job) for job in jobs] == ["succeeded"] * 3
        assert not Attempt.objects.filter(logs_stored=True).exists()
    with capture_logs() as later:
        quay.settle()
    told = [entry["event"] for entry in (*said, *later)]
    assert told.count("log_store_has_no_room") == 1
    assert told.count("log_store_has_no_room_over") == 1
    assert not [entry for entry in (*said, *later) if "exc_info" in entry or "exception" in entry]
    for job in jobs:
        (attempt,) = quay.attempts(job)
        assert read_tail(attempt.id, TaskName("worker", 0), Stream.OUT, size_bytes=100) == "hello\n"


def test_rounds_that_ask_all_have_a_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds_now = 1_000.0
    monkeypatch.setattr("time.monotonic", lambda: seconds_now)
    round_ = pump._Round(began_at=seconds_now)
    whole = []
    for seconds in (30, 100, 400, 100, 30, 500):  # The first asks all, and takes 30: another is due 600 after it began.
        seconds_now += seconds
        round_.end()
        whole.append(round_.is_whole)
    assert whole == [False, False, False, True, False, False]
