"""What a history is made of: one JSON object a line, each with a time, a source and an event.

A history is written while something is done to a platform - by the simulator, a test that injects faults or a long round of
chaos - and closed by what the database says at the end (`collect.py`). `checker.py` decides from the records alone. A record
that is not in the table below, or lacks one of its fields, is refused when it is read: a checker must not skip what it does
not understand.

Times are seconds since the epoch. Ids are text. `number` is the number of an attempt within its job.
"""

from __future__ import annotations

import io
import json
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

# (source, event) -> fields that a record must have. Further fields are kept.
EVENTS: dict[tuple[str, str], tuple[str, ...]] = {
    # What somebody who uses the platform did and was told. `unknown`: the answer was lost, so that nobody may count on either.
    # `name` is optional: a name that was used for this one submission only, however often it was sent. A stop may say in which
    # `state` it found the job, and within how many `calm_seconds` beyond its grace it must be over where nothing is broken.
    ("client", "submit_acked"): ("jobs",),
    ("client", "submit_unknown"): (),
    ("client", "submit_refused"): (),
    ("client", "stop_acked"): ("job", "grace_seconds"),
    ("client", "stop_unknown"): ("job",),
    ("client", "edit_acked"): ("job",),
    ("client", "edit_unknown"): ("job",),
    ("client", "ceiling"): ("queue", "pool", "ceilings"),  # A limit was set while the history ran; null is no limit.
    # What the engine really did, told by itself and not by what it answered.
    ("engine", "create"): ("attempt", "job", "number"),
    ("engine", "object"): ("attempt", "alive"),  # At the end: it still knows this attempt.
    # What the payloads wrote, with `monotonic` seconds where they know any. `beat`: it was alive then; `overlap`: it found the
    # lock of another attempt of its job held.
    ("payload", "start"): ("job", "number", "task"),
    ("payload", "beat"): ("job", "number", "task"),
    ("payload", "stop"): ("job", "number", "task"),
    ("payload", "overlap"): ("job", "number", "task"),
    ("payload", "printed"): ("job", "number", "task", "lines"),
    # A payload that counts, of its checkpoint: what it found at its start (0 for nothing; `half` when its end is missing), and
    # what it was about to put in place and had put in place.
    ("payload", "restored"): ("job", "number", "task", "count"),
    ("payload", "saving"): ("job", "number", "task", "count"),
    ("payload", "saved"): ("job", "number", "task", "count"),
    # The database, sampled while the history ran and read at its end.
    ("database", "sample"): ("queue", "pool", "used", "ceilings"),
    ("database", "job"): ("job", "state", "desired", "hold", "open_dependencies", "attempt_count", "reason"),
    ("database", "dependency"): ("job", "on", "met"),
    ("database", "attempt"): ("attempt", "job", "number", "state", "launched_at", "ended_at", "forgotten"),
    ("database", "task"): ("task", "attempt", "state"),
    ("database", "transition"): ("kind", "subject", "from", "to", "order"),
    ("database", "event"): ("seq", "kind", "subject", "job"),
    ("database", "queue"): ("queue", "path"),
    ("database", "ceiling"): ("queue", "pool", "ceilings"),
    ("database", "usage"): ("queue", "pool", "used"),
    ("database", "reservation"): ("attempt", "queue", "pool", "amount", "created_at", "released_at"),
    ("database", "count"): ("queue", "state", "kept", "counted"),  # Jobs by the kept numbers, and by their rows.
    ("database", "ledger"): ("attempt", "pool", "amount", "started_at", "ended_at"),
    ("database", "audit"): ("verb", "target", "count"),
    ("database", "audit_chain"): ("sealed", "unsealed", "problems"),
    ("database", "log"): ("job", "number", "task", "lines", "missing", "repeated"),
    ("database", "end"): (),  # Nothing follows but what was read in one go at the end; its time is that of the reading.
    # How long the machine took to start and end a process that does nothing, where that was no matter of milliseconds.
    ("machine", "slow"): ("seconds",),
    # What was done to the platform. An outage lasts until its `healed`; while one lasts no deadline runs.
    ("fault", "injected"): ("what",),
    ("fault", "outage"): ("what",),
    ("fault", "healed"): ("what",),
}  # fmt: skip


class BadHistory(Exception):
    """A line cannot be understood; the message says which and why."""


@dataclass(frozen=True, slots=True)
class Record:
    """One thing that happened."""

    t: float
    source: str
    event: str
    data: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        required = EVENTS.get((self.source, self.event))
        if required is None:
            raise BadHistory(f"there is no event {self.source}.{self.event}")
        missing = [name for name in required if name not in self.data]
        if missing:
            raise BadHistory(f"{self.source}.{self.event} lacks {', '.join(missing)}: {dict(self.data)}")

    def __getitem__(self, name: str) -> Any:
        return self.data[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self.data.get(name, default)

    def line(self) -> str:
        """The record as one line of JSON, the same for the same record."""
        document = {"t": round(float(self.t), 6), "source": self.source, "event": self.event, **self.data}
        return json.dumps(document, separators=(",", ":"), default=str)

    @classmethod
    def from_line(cls, line: str) -> Self:
        try:
            document = json.loads(line)
            t, source, event = float(document.pop("t")), document.pop("source"), document.pop("event")
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise BadHistory(f"not a record: {line[:200]!r} ({error})") from None
        return cls(t, source, event, document)


class HistoryFile:
    """Appends records to a file, from any thread; each is one write, so that several processes may share the file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644)
        self._lock = threading.Lock()

    def add(self, t: float, source: str, event: str, **data: Any) -> None:
        line = (Record(t, source, event, data).line() + "\n").encode()
        with self._lock:
            os.write(self._descriptor, line)

    def add_all(self, records: Iterable[Record]) -> None:
        for record in records:
            self.add(record.t, record.source, record.event, **record.data)

    def close(self) -> None:
        os.close(self._descriptor)


def read_history(path: Path) -> Iterator[Record]:
    """The records of a file in their order. A last line that was cut off by a kill is left out."""
    with path.open(encoding="utf-8") as file:
        yield from read_lines(file)


def read_lines(file: io.TextIOBase | Iterable[str]) -> Iterator[Record]:
    for line in file:
        if line.endswith("\n") and line.strip():
            yield Record.from_line(line)
