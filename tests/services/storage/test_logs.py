"""The log store: every byte once, gaps marked, order kept, characters whole."""

from __future__ import annotations

import random
import uuid
from datetime import UTC, datetime, timedelta

import pytest

from clusters.engines.interface import EngineUnreachable, LogChunk, LogChunks, Stream, TaskName
from kernel.config import current
from storage import bounds, logs
from storage.logs.append import StreamChunks, append_chunks
from storage.logs.store import AttemptKey, StreamKey, default_store
from storage.models import AttemptLog, LogChunkIndex, LogStreamState
from tests.factories.storage import WORKER, PrintingEngine, a_log_source
from webapi.errors import InvalidCursor

pytestmark = pytest.mark.database

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def pump(engine: PrintingEngine, *sources: logs.LogSource, now: datetime = NOW, **more: object) -> logs.PumpCounts:
    return logs.pump(engine, sources, now=lambda: now, **more)  # type: ignore[arg-type]


def text_of(source: logs.LogSource, **wanted: object) -> str:
    return "".join(item.text for item in everything(source, **wanted))


def everything(source: logs.LogSource, *, limit: int = 500, **more: object) -> list[logs.LogItem]:
    items, cursor = [], None
    while True:
        page = logs.read_merged(source.attempt_id, cursor=cursor, limit=limit, **more)  # type: ignore[arg-type]
        items += page.items
        cursor = page.cursor
        if not page.more:
            return items


def raw(source: logs.LogSource, start: int = 0, end: int = 10**9) -> bytes:
    facts = logs.find_stream(source.attempt_id, WORKER, Stream.OUT)
    assert facts is not None
    return b"".join(logs.read_stream_bytes(facts, start, end))


def test_what_a_task_printed_is_read_back_whole():
    source, engine = a_log_source(), PrintingEngine(chunk_bytes=7)
    engine.prints("加载数据 …\n".encode() * 50).prints(b"warning\n", stream=Stream.ERR)
    engine.ended = True
    counts = pump(engine, source)
    assert counts.complete == {source.attempt_id}
    assert text_of(source, wanted=logs.LogFilter(stream="stdout")) == "加载数据 …\n" * 50
    assert text_of(source, wanted=logs.LogFilter(stream="stderr")) == "warning\n"
    assert raw(source) == "加载数据 …\n".encode() * 50


def test_pumping_again_stores_nothing_twice():
    source, engine = a_log_source(), PrintingEngine().prints(b"one\n")
    pump(engine, source)
    before = LogChunkIndex.objects.count()
    assert pump(engine, source).stored_bytes == 0
    assert LogChunkIndex.objects.count() == before
    engine.prints(b"two\n")
    pump(engine, source)
    assert text_of(source) == "one\ntwo\n"


@pytest.mark.capability("41", "Logs are resumed by offset without gap or repeat")
def test_a_crash_between_bytes_and_rows_leaves_no_gap_and_no_double():
    source, engine = a_log_source(), PrintingEngine().prints(b"one\n")
    pump(engine, source)
    key = StreamKey(source.key, WORKER, Stream.OUT)
    default_store().write(key, 4, b"two\nthree, half wri")  # The pass died here: no row speaks of these bytes.
    engine.prints(b"two\nthree\n")
    pump(engine, source)
    assert text_of(source) == "one\ntwo\nthree\n"
    assert raw(source) == b"one\ntwo\nthree\n"


def test_a_late_second_pump_changes_nothing():
    source = a_log_source()
    engine = PrintingEngine().prints(b"abc")
    pump(engine, source)
    stale = LogStreamState.objects.get(attempt_id=source.attempt_id, stream="stdout")
    engine.prints(b"def")
    key = StreamKey(source.key, WORKER, Stream.OUT)
    answer = engine.logs(source.attempt_id, WORKER, Stream.OUT, stale.cursor)
    assert append_chunks([StreamChunks(key, answer)], now=NOW).stored_bytes == 3
    assert append_chunks([StreamChunks(key, answer)], now=NOW).stored_bytes == 0
    assert text_of(source) == "abcdef"


def test_a_pump_that_lost_the_race_after_reading_the_state_is_dropped(monkeypatch):
    source = a_log_source()
    engine = PrintingEngine().prints(b"abc")
    pump(engine, source)
    engine.prints(b"def")
    key = StreamKey(source.key, WORKER, Stream.OUT)
    answer = engine.logs(source.attempt_id, WORKER, Stream.OUT, 3)

    class Racing:
        """While the slow pump writes its bytes, a fast one finishes."""

        def write(self, key: StreamKey, position: int, data: bytes) -> None:
            default_store().write(key, position, data)
            append_chunks([StreamChunks(key, answer)], now=NOW)

        read = remove = None

    assert append_chunks([StreamChunks(key, answer)], now=NOW, store=Racing()).stored_bytes == 0  # type: ignore[arg-type]
    assert text_of(source) == "abcdef"


def test_chunks_may_overlap_what_is_stored():
    source = a_log_source()
    logs.open_logs([(source.key, source.tasks)], now=NOW)
    key = StreamKey(source.key, WORKER, Stream.OUT)
    append_chunks([StreamChunks(key, LogChunks((LogChunk(0, b"abcd"),), 4, False))], now=NOW)
    append_chunks([StreamChunks(key, LogChunks((LogChunk(2, b"cdef"),), 6, False))], now=NOW)
    assert text_of(source) == "abcdef"


@pytest.mark.capability("41", "A gap is marked, never silent")
def test_missing_bytes_become_a_marker_never_silence():
    source = a_log_source()
    logs.open_logs([(source.key, source.tasks)], now=NOW)
    key = StreamKey(source.key, WORKER, Stream.OUT)
    append_chunks([StreamChunks(key, LogChunks((LogChunk(0, b"a\n"), LogChunk(100, b"b\n")), 102, False))], now=NOW)
    items = everything(source)
    assert [(item.offset, item.text, item.skipped_bytes) for item in items] == [(0, "a\n", 0), (2, "", 98), (100, "b\n", 0)]
    assert "lost" in items[1].marker
    assert b"[berth: output was lost" in raw(source)


def test_an_engines_own_gap_is_kept_with_its_reason():
    source, engine = a_log_source(), PrintingEngine()
    engine.prints(b"x" * 1000)
    engine.gaps = [(200, 900, "past the log quota")]
    engine.ended = True
    pump(engine, source)
    marked = [item for item in everything(source) if item.marker]
    assert [(item.offset, item.skipped_bytes, item.marker) for item in marked] == [(200, 700, "past the log quota")]
    assert text_of(source) == "x" * 300


def test_a_gap_that_grows_stays_one_row():
    source = a_log_source()
    logs.open_logs([(source.key, source.tasks)], now=NOW)
    key = StreamKey(source.key, WORKER, Stream.OUT)
    for start in range(0, 1000, 100):
        answer = LogChunks((LogChunk(start, b"", "past the quota", 100),), start + 100, False)
        append_chunks([StreamChunks(key, answer)], now=NOW + timedelta(seconds=start))
    row = LogChunkIndex.objects.get(attempt_id=source.attempt_id)
    assert (row.offset, row.skipped_bytes) == (0, 1000)
    assert raw(source).count(b"[berth: past the quota]") == 1


def test_a_marker_without_bytes_is_not_repeated():
    source = a_log_source()
    logs.open_logs([(source.key, source.tasks)], now=NOW)
    key = StreamKey(source.key, WORKER, Stream.OUT)
    for _ in range(3):
        append_chunks([StreamChunks(key, LogChunks((LogChunk(0, b"", "the node is lost"),), 0, False))], now=NOW)
    assert LogChunkIndex.objects.filter(attempt_id=source.attempt_id).count() == 1


def test_past_the_attempts_quota_a_marker_counts_what_is_no_longer_kept():
    source, engine = a_log_source(), PrintingEngine(chunk_bytes=100)
    engine.prints(b"y" * 1000)
    pump(engine, source, attempt_quota_bytes=300)
    engine.prints(b"y" * 1000)
    engine.ended = True
    pump(engine, source, attempt_quota_bytes=300)
    items = everything(source)
    assert sum(len(item.text) for item in items) == 300
    assert sum(item.skipped_bytes for item in items) == 1700
    assert AttemptLog.objects.get(attempt_id=source.attempt_id).complete


def test_a_character_is_never_cut_in_two():
    text = "é加🚀" * 40
    data = text.encode()
    for seed in range(5):
        source, engine = a_log_source(), PrintingEngine()
        chooser, position = random.Random(seed), 0
        while position < len(data):
            size = chooser.randint(1, 5)
            engine.prints(data[position : position + size])
            position += size
            pump(engine, source, now=NOW + timedelta(seconds=position))
        engine.ended = True
        pump(engine, source)
        assert all("\ufffd" not in item.text for item in everything(source, limit=1, bytes_max=chooser.randint(4, 9)))
        assert "".join(item.text for item in everything(source, bytes_max=5)) == text


def test_a_character_at_the_border_of_two_rows_stays_whole(monkeypatch):
    monkeypatch.setattr(bounds, "LOG_ROW_BYTES", 16)
    for chunk_bytes in (5, 7, 16, 100):
        source, engine = a_log_source(), PrintingEngine(chunk_bytes=chunk_bytes)
        engine.prints(("加🚀é" * 30).encode())
        engine.ended = True
        pump(engine, source)
        items = everything(source)
        assert "".join(item.text for item in items) == "加🚀é" * 30
        assert all(item.offset == sum(len(before.text.encode()) for before in items[:n]) for n, item in enumerate(items))


def test_bytes_that_are_no_text_are_stored_as_they_are():
    source, engine = a_log_source(), PrintingEngine().prints(b"\xff\xfe\x00ok\xe2\x82")
    engine.ended = True
    pump(engine, source)
    assert raw(source) == b"\xff\xfe\x00ok\xe2\x82"
    assert text_of(source).endswith("ok\ufffd")


def test_small_prints_do_not_become_a_row_each():
    source, engine = a_log_source(), PrintingEngine()
    for step in range(100):
        engine.prints(f"step {step}\n".encode())
        pump(engine, source, now=NOW + timedelta(milliseconds=step))
    assert LogChunkIndex.objects.filter(attempt_id=source.attempt_id).count() == 1
    assert text_of(source) == "".join(f"step {step}\n" for step in range(100))


def test_a_reader_inside_a_growing_row_misses_and_repeats_nothing():
    source, engine = a_log_source(), PrintingEngine()
    seen, cursor = "", None
    for step in range(50):
        engine.prints(f"step {step}\n".encode(), stream=Stream.OUT if step % 7 else Stream.ERR)
        pump(engine, source, now=NOW + timedelta(milliseconds=100 * step))
        page = logs.read_merged(source.attempt_id, cursor=cursor, limit=1 + step % 3, bytes_max=5 + step % 9)
        seen, cursor = seen + "".join(item.text for item in page.items), page.cursor
    while True:
        page = logs.read_merged(source.attempt_id, cursor=cursor)
        seen, cursor = seen + "".join(item.text for item in page.items), page.cursor
        if not page.more:
            break
    assert sorted(seen.splitlines()) == sorted(f"step {step}" for step in range(50))


@pytest.mark.capability("100", "Logs of several tasks are merged in the order they came, and filtered by task")
def test_streams_of_several_tasks_are_merged_in_the_order_they_came():
    tasks = (TaskName("worker", 0), TaskName("worker", 1))
    source, engine = a_log_source(tasks=tasks), PrintingEngine()
    for step in range(6):
        engine.prints(f"{step}\n".encode(), task=tasks[step % 2])
        pump(engine, source, now=NOW + timedelta(seconds=step))
    items = everything(source)
    assert [item.text for item in items] == [f"{step}\n" for step in range(6)]
    assert [item.index for item in items] == [0, 1, 0, 1, 0, 1]
    assert text_of(source, wanted=logs.LogFilter(role="worker", index=1)) == "1\n3\n5\n"


def test_pages_say_when_nothing_follows():
    source, engine = a_log_source(), PrintingEngine().prints(b"a\n")
    assert logs.read_merged(source.attempt_id).complete is False
    pump(engine, source)
    page = logs.read_merged(source.attempt_id)
    assert (page.more, page.complete) == (False, False)
    engine.ended = True
    pump(engine, source)
    page = logs.read_merged(source.attempt_id, cursor=page.cursor)
    assert (page.items, page.complete) == ((), True)


def test_a_cursor_of_someones_own_making_is_refused():
    source = a_log_source()
    for cursor in ("1", "-1-0", "1-0; drop table", "9" * 30 + "-0", "1-0\n"):
        with pytest.raises(InvalidCursor):
            logs.read_merged(source.attempt_id, cursor=cursor)


def test_the_tail_begins_at_a_line():
    source, engine = a_log_source(), PrintingEngine(chunk_bytes=10)
    engine.prints("".join(f"line {number}\n" for number in range(1000)).encode())
    pump(engine, source)
    for lines in (1, 3, 999, 1000, 5000):
        cursor = logs.tail_cursor(source.attempt_id, lines=lines)
        page = logs.read_merged(source.attempt_id, cursor=cursor)
        got = "".join(item.text for item in page.items).splitlines()
        assert got == [f"line {number}" for number in range(max(0, 1000 - lines), 1000)]
    assert logs.read_merged(source.attempt_id, cursor=logs.tail_cursor(source.attempt_id, lines=0)).items == ()


def test_a_range_of_one_stream_is_read_without_the_rest():
    source, engine = a_log_source(), PrintingEngine().prints(bytes(range(256)) * 100)
    engine.ended = True
    pump(engine, source)
    assert raw(source, 1000, 1010) == (bytes(range(256)) * 100)[1000:1010]
    assert raw(source, 25_000, 99_999) == (bytes(range(256)) * 100)[25_000:]
    assert logs.find_stream(source.attempt_id, TaskName("worker", 9), Stream.OUT) is None
    assert logs.find_stream(uuid.uuid4(), WORKER, Stream.OUT) is None


def test_a_stream_that_never_stops_gives_way_to_others(monkeypatch):
    monkeypatch.setattr(bounds, "LOG_PASS_BYTES", 1000)
    tasks = (TaskName("loud", 0), TaskName("quiet", 0))
    source, engine = a_log_source(tasks=tasks), PrintingEngine(chunk_bytes=100)
    engine.prints(b"z" * 100_000, task=tasks[0]).prints(b"hello\n", task=tasks[1])
    counts = pump(engine, source)
    assert counts.more is True
    assert text_of(source, wanted=logs.LogFilter(role="quiet")) == "hello\n"
    assert len(text_of(source, wanted=logs.LogFilter(role="loud"))) == 1000


def test_a_burst_is_written_in_bounded_batches(monkeypatch):
    monkeypatch.setattr(bounds, "LOG_BATCH_BYTES", 2_000)
    monkeypatch.setattr(bounds, "LOG_ROW_BYTES", 512)
    source, engine = a_log_source(), PrintingEngine(chunk_bytes=1000)
    engine.prints(b"q" * 50_000)
    engine.ended = True
    pump(engine, source)
    assert raw(source) == b"q" * 50_000
    assert LogChunkIndex.objects.filter(attempt_id=source.attempt_id, length__gt=512).count() == 0


def test_what_was_read_before_contact_was_lost_is_kept():
    class Losing(PrintingEngine):
        def logs(self, attempt, task, stream, cursor):
            if stream == Stream.ERR:
                raise EngineUnreachable("no answer")
            return super().logs(attempt, task, stream, cursor)

    source, engine = a_log_source(), Losing().prints(b"kept\n")
    with pytest.raises(EngineUnreachable):
        pump(engine, source)
    assert text_of(source) == "kept\n"


def test_closing_a_log_says_why_it_stops():
    source, engine = a_log_source(), PrintingEngine().prints(b"half")
    pump(engine, source)
    logs.close_logs([source], now=NOW, marker="the machine is gone")
    logs.close_logs([source], now=NOW, marker="the machine is gone")
    items = everything(source)
    assert logs.complete_logs([source.attempt_id]) == {source.attempt_id}
    assert sorted(item.stream for item in items if item.marker == "the machine is gone") == ["stderr", "stdout"]


def test_the_number_of_statements_does_not_depend_on_the_number_of_streams(django_assert_max_num_queries):
    few = a_log_source(tasks=[TaskName("worker", index) for index in range(2)])
    many = a_log_source(tasks=[TaskName("worker", index) for index in range(60)])
    engine = PrintingEngine()
    for index in range(60):
        engine.prints(b"line\n", task=TaskName("worker", index))
    pump(engine, few)
    pump(engine, many)
    for index in range(60):
        engine.prints(b"line\n", task=TaskName("worker", index))
    with django_assert_max_num_queries(16):
        pump(engine, many, now=NOW + timedelta(seconds=9))


def test_old_logs_are_removed_and_younger_ones_stay():
    old, young, live = a_log_source(), a_log_source(), a_log_source()
    engine = PrintingEngine().prints(b"text\n")
    pump(engine, live, now=NOW - timedelta(days=200))
    engine.ended = True
    pump(engine, old, now=NOW - timedelta(days=100))
    pump(engine, young, now=NOW - timedelta(days=10))
    assert logs.remove_old_logs(now=NOW) == 1
    assert logs.remove_old_logs(now=NOW) == 0
    assert text_of(young) == "text\n"
    assert text_of(live) == "text\n"
    page = logs.read_merged(old.attempt_id)
    assert (page.items, page.complete) == ((), True)
    assert logs.find_stream(old.attempt_id, WORKER, Stream.OUT) is None
    assert pump(engine, old).stored_bytes == 0


def test_a_log_that_cannot_be_removed_keeps_none_behind_it():
    sources = [a_log_source() for _ in range(3)]
    engine = PrintingEngine().prints(b"text\n")
    engine.ended = True
    for days, source in zip((120, 110, 100), sources, strict=True):
        pump(engine, source, now=NOW - timedelta(days=days))

    class Stuck(logs.FileLogStore):
        def remove(self, attempt: logs.AttemptKey) -> None:
            if attempt == sources[0].key:
                raise PermissionError("not ours")
            super().remove(attempt)

    store = Stuck(current().data_dir / "logs")
    assert [logs.remove_old_logs(now=NOW, limit=1, store=store) for _ in range(3)] == [1, 1, 0]
    assert text_of(sources[0]) == "text\n"
    assert logs.remove_old_logs(now=NOW) == 1


def test_logs_of_other_attempts_are_no_part_of_the_answer():
    mine, other = a_log_source(), a_log_source()
    engine = PrintingEngine().prints(b"canary\n")
    pump(engine, other)
    pump(PrintingEngine().prints(b"mine\n"), mine)
    assert text_of(mine) == "mine\n"


def test_a_role_cannot_choose_a_file(data_dir):
    key = StreamKey(AttemptKey(uuid.uuid4(), uuid.uuid4(), uuid.uuid4()), TaskName("../../etc/passwd", 0), Stream.OUT)
    with pytest.raises(AssertionError):
        default_store().write(key, 0, b"x")
