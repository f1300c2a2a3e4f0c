"""Logs of attempts: chunk files behind one interface, index rows, and one pump that feeds them."""

from storage.logs.append import LogStoreFull, StreamChunks, append_chunks, open_logs, topic
from storage.logs.follow import follow
from storage.logs.pump import LogSource, PumpCounts, close_logs, complete_logs, pump
from storage.logs.read import (
    ALL_STREAMS,
    LogFilter,
    LogItem,
    LogPage,
    StreamFacts,
    find_stream,
    list_streams,
    read_merged,
    read_stream_bytes,
    read_tail,
    tail_cursor,
)
from storage.logs.retention import remove_old_logs
from storage.logs.store import AttemptKey, FileLogStore, LogStore, StreamKey

__all__ = [
    "ALL_STREAMS",
    "AttemptKey",
    "FileLogStore",
    "LogFilter",
    "LogItem",
    "LogPage",
    "LogSource",
    "LogStore",
    "LogStoreFull",
    "PumpCounts",
    "StreamChunks",
    "StreamFacts",
    "StreamKey",
    "append_chunks",
    "close_logs",
    "complete_logs",
    "find_stream",
    "follow",
    "list_streams",
    "open_logs",
    "pump",
    "read_merged",
    "read_stream_bytes",
    "read_tail",
    "remove_old_logs",
    "tail_cursor",
    "topic",
]
