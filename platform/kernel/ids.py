"""Identifiers of everything Berth stores: UUIDv7, so that ids sort by the time of their making."""

import os
import threading
import time
import uuid
from collections.abc import Iterator
from datetime import datetime

_lock = threading.Lock()
_last_millis = 0
_sequence = 0
_followed: tuple[float, int] | None = None  # A reading of this process's monotonic clock, and the database's milliseconds then.


def follow(moment: datetime) -> None:
    """Take the time of ids from the database's clock, as it was just read: the hosts of an installation disagree about the time,
    and a clock that is set must not put what is made now before what was made then."""
    global _followed
    _followed = time.monotonic(), int(moment.timestamp() * 1000)


def new_id() -> uuid.UUID:
    """Make one UUIDv7 (RFC 9562, section 5.7); strictly increasing within a process."""
    return next(new_ids(1))


def new_ids(count: int) -> Iterator[uuid.UUID]:
    """Make `count` increasing ids; cheap enough for batches of tens of thousands."""
    for _ in range(count):
        millis, sequence = _next_tick()
        tail = int.from_bytes(os.urandom(8), "big") & ((1 << 62) - 1)
        yield uuid.UUID(int=(millis << 80) | (0x7 << 76) | (sequence << 64) | (0b10 << 62) | tail)


def id_at(moment: datetime) -> uuid.UUID:
    """The smallest id that could be made at a time: ids of lists in their order are found by it."""
    return uuid.UUID(int=min((1 << 128) - 1, max(0, int(moment.timestamp() * 1000)) << 80))


def _next_tick() -> tuple[int, int]:
    """The 12 bits after the version count within one millisecond, and borrow from the next when full."""
    global _last_millis, _sequence
    with _lock:
        now_millis = _now_millis()
        if now_millis > _last_millis:
            _last_millis, _sequence = now_millis, 0
        else:
            _sequence += 1
            if _sequence > 0xFFF:
                _last_millis, _sequence = _last_millis + 1, 0
        return _last_millis, _sequence


def _now_millis() -> int:
    if _followed is None:
        return time.time_ns() // 1_000_000
    read_at, millis = _followed
    return millis + int((time.monotonic() - read_at) * 1000)
