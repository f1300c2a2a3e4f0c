"""After a restore the rows are older than the files: what the engine handed on meanwhile is found in the store, once."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from clusters.engines.interface import LogChunk, LogChunks, Stream
from storage import bounds, logs
from storage.logs.append import StreamChunks, append_chunks, open_logs
from storage.logs.store import StreamKey, default_store
from storage.models import AttemptLog, LogChunkIndex, LogStreamState
from tests.factories.storage import WORKER, a_log_source

pytestmark = pytest.mark.database

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
GONE = "These bytes were handed on earlier and are no longer here."


def key_of(source: logs.LogSource) -> StreamKey:
    return StreamKey(source.key, WORKER, Stream.OUT)


def give(source: logs.LogSource, *chunks: LogChunk, complete: bool = False) -> None:
    end = max(chunk.offset + len(chunk.data) + chunk.skipped_bytes for chunk in chunks)
    append_chunks([StreamChunks(key_of(source), LogChunks(chunks, end, complete))], now=NOW)


def text(source: logs.LogSource) -> str:
    items, cursor = [], None
    while True:
        page = logs.read_merged(source.attempt_id, cursor=cursor, limit=500)
        items += page.items
        cursor = page.cursor
        if not page.more:
            return "".join(item.text for item in items)


@pytest.fixture
def source() -> logs.LogSource:
    """A stream of which the rows know the first line; the file has two more, which the engine has no longer."""
    made = a_log_source()
    open_logs([(made.key, made.tasks)], now=NOW)
    give(made, LogChunk(0, b"one\n"))
    default_store().write(key_of(made), 4, b"two\nthree\n")
    return made


def test_what_the_engine_handed_on_is_taken_from_the_store(source: logs.LogSource) -> None:
    give(source, LogChunk(4, b"", GONE, 10), LogChunk(14, b"four\n"))
    assert text(source) == "one\ntwo\nthree\nfour\n"
    assert not LogChunkIndex.objects.exclude(marker="").exists()


def test_a_log_without_any_row_is_found_from_its_beginning(source: logs.LogSource) -> None:
    """As of an attempt that was started after the backup and was adopted."""
    for model in (LogChunkIndex, LogStreamState, AttemptLog):
        model.objects.filter(attempt_id=source.attempt_id).delete()  # type: ignore[attr-defined]
    open_logs([(source.key, source.tasks)], now=NOW)
    give(source, LogChunk(0, b"", GONE, 14), LogChunk(14, b"four\n"))
    assert text(source) == "one\ntwo\nthree\nfour\n"


def test_a_long_gap_is_filled_pass_by_pass(source: logs.LogSource, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "LOG_PASS_BYTES", 4)
    for _ in range(3):
        cursor = LogStreamState.objects.get(attempt_id=source.attempt_id, role="worker", stream="stdout").cursor
        give(source, LogChunk(cursor, b"", GONE, 14 - cursor), LogChunk(14, b"four\n"))
    cursor = LogStreamState.objects.get(attempt_id=source.attempt_id, role="worker", stream="stdout").cursor
    if cursor < 19:
        give(source, LogChunk(14, b"four\n"))
    assert text(source) == "one\ntwo\nthree\nfour\n"


def test_what_the_store_has_not_is_marked_as_ever(source: logs.LogSource) -> None:
    give(source, LogChunk(4, b"", GONE, 30), LogChunk(34, b"five\n"))
    [marked] = LogChunkIndex.objects.exclude(marker="")
    assert (marked.offset, marked.skipped_bytes, marked.marker) == (4, 30, GONE)
    assert text(source).endswith("five\n")


def test_bytes_behind_a_marker_are_not_taken_for_the_streams(source: logs.LogSource) -> None:
    default_store().write(key_of(source), 4, b"\n[berth: output was lost]\n")
    give(source, LogChunk(4, b"", GONE, 10), LogChunk(14, b"four\n"))
    assert LogChunkIndex.objects.exclude(marker="").count() == 1
