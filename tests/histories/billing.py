"""I11: the ledger says what ran, by the payloads' own clock: from the first sign of life of an attempt to the last.

Judged where payloads told a monotonic clock, which no change of the machine's time bends.
"""

from __future__ import annotations

from collections import defaultdict

from tests.histories.history import History
from tests.histories.records import Record
from tests.histories.report import Report

BILL_SECONDS = 1.0  # Invariant I11.
STARTS = 2  # As long as the machine takes to start a task that does nothing, before a payload's first word and after its last.
AROUND_SECONDS = 3.0  # Around what a payload told: for so long it matters how slow the machine was.
BEAT_SECONDS = 1.0  # Between two signs of life: how much longer one that was killed may have run than it could say.


def check_bills(history: History, report: Report) -> None:
    """Compare what is billed of each ended attempt with what its payload told."""
    told: dict[tuple[str, int], list[Record]] = defaultdict(list)
    for event in ("start", "beat", "printed", "stop"):
        for record in history.all("payload", event):
            if record.get("monotonic") is not None:
                told[record["job"], record["number"]].append(record)
    if not told:
        return
    slow = [(record.t, float(record["seconds"])) for record in history.all("machine", "slow")]
    billed: dict[str, float] = defaultdict(float)
    for entry in history.all("database", "ledger"):
        billed[entry["attempt"]] += entry["ended_at"] - entry["started_at"]
    for attempt_id, attempt in history.attempts.items():
        if attempt["state"] != "ended":
            continue
        records = told.get((attempt["job"], attempt["number"]), [])
        least, most = _ran_seconds(records)
        seconds = billed.get(attempt_id, 0.0)
        report.count("I11", "bills")
        report.count("I11", "seconds billed", round(seconds))
        report.count("I11", "seconds run", round(least))
        spare = BILL_SECONDS + STARTS * _slowest(slow, records)
        if not least - spare <= seconds <= most + spare:
            what = f"attempt {attempt['number']} of job {attempt['job']} ran {least:.1f} s and {seconds:.1f} s are billed"
            report.fail("I11", what, [attempt, *records[:1], *records[-1:]])


def _slowest(slow: list[tuple[float, float]], records: list[Record]) -> float:
    """The longest that the machine took to start a task while these were told: what it alone adds to a start and to an end."""
    if not records:
        return 0.0
    first, last = min(record.t for record in records), max(record.t for record in records)
    return max((seconds for t, seconds in slow if first - AROUND_SECONDS <= t <= last + AROUND_SECONDS), default=0.0)


def _ran_seconds(records: list[Record]) -> tuple[float, float]:
    """At least and at most so long, by the witness; nothing where the payload never said a word."""
    if not records:
        return 0.0, 0.0
    times = [float(record["monotonic"]) for record in records]
    least = max(times) - min(times)
    said_end = any(record.event == "stop" for record in records)
    return least, least if said_end else least + BEAT_SECONDS
