"""I5 and I6: nothing is reserved above a ceiling at any commit, and all books of what is used say the same at rest."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from kernel.resources import RESOURCE_NAMES
from tests.histories.history import History
from tests.histories.records import Record
from tests.histories.report import Report

Key = tuple[str, str]  # Queue and pool.
CLOCK_SECONDS = 0.001


def check_samples(history: History, report: Report) -> None:
    """I5 as it was seen: use beside ceilings, read in one statement while the platform worked."""
    last: dict[Key, Mapping[str, int]] = {}
    for record in history.all("database", "sample"):
        report.count("I5", "samples")
        key = (record["queue"], record["pool"])
        over = _over(record["used"], record["ceilings"])
        before = last.get(key, {})
        if any(record["used"][name] > before.get(name, 0) for name in over):  # Above a ceiling that was cut, use only falls.
            report.fail("I5", f"queue {key[0]} used more of pool {key[1]} than it may: {', '.join(over)}", [record])
        last[key] = record["used"]


def _over(used: Mapping[str, int], ceilings: Mapping[str, int | None]) -> list[str]:
    return [
        name
        for name in RESOURCE_NAMES
        if (ceiling := ceilings.get(name)) is not None and int(used.get(name, 0)) > ceiling
    ]  # fmt: skip


def check_reservations(history: History, report: Report) -> None:
    """I5 replayed: reservations and their ends in the order in which they were committed, against every queue above."""
    paths = {record["queue"]: record["path"] for record in history.all("database", "queue")}
    ceilings = _first_ceilings(history)
    moments = _moments(history, report)
    used: dict[Key, Counter[str]] = defaultdict(Counter)
    for _, sign, record in moments:
        if record.event == "ceiling":
            ceilings[(record["queue"], record["pool"])] = record["ceilings"]
            continue
        for queue in paths.get(record["queue"], [record["queue"]]):
            key = (queue, record["pool"])
            for name in RESOURCE_NAMES:
                used[key][name] += sign * int(record["amount"].get(name, 0))
            grown = [name for name in _over(used[key], ceilings.get(key, {})) if record["amount"].get(name, 0)]
            if sign > 0 and grown:
                what = ", ".join(f"{name} {used[key][name]} of {ceilings[key][name]}" for name in grown)
                report.fail("I5", f"with attempt {record['attempt']} queue {queue} holds more than it may: {what}", [record])
    report.count("I5", "ceilings", sum(any(value is not None for value in each.values()) for each in ceilings.values()))


def _first_ceilings(history: History) -> dict[Key, Mapping[str, Any]]:
    """Ceilings as they were at the beginning: those at the end, unless they were set meanwhile."""
    ceilings = {(record["queue"], record["pool"]): record["ceilings"] for record in history.all("database", "ceiling")}
    for record in history.all("client", "ceiling"):
        ceilings.pop((record["queue"], record["pool"]), None)
    return ceilings


def _moments(history: History, report: Report) -> list[tuple[tuple[float, float], int, Record]]:
    """Beginnings and ends of reservations in the order of commits.

    The outbox has that order: a reservation is made before the event of its admission is written and after the locks are
    taken, and an attempt's end is told before its reservation is released. Where the outbox no longer has an attempt, its
    reservation is not replayed and counted as such.
    """
    admitted = {
        (record["job"], record.get("attempt")): record["seq"]
        for record in history.events
        if record["kind"] == "job.admitted" and record.get("attempt") is not None
    }
    ended = {record["subject"]: record["seq"] for record in history.events if record["kind"] == "attempt.ended"}
    times = [(record["seq"], record.t) for record in history.events]
    moments: list[tuple[tuple[float, float], int, Record]] = []
    for record in history.all("database", "reservation"):
        attempt = history.attempts.get(record["attempt"])
        if attempt is None:
            if record["released_at"] is None:
                report.fail("I5", f"an attempt that is not in the database holds capacity: {record['attempt']}", [record])
            continue
        began = admitted.get((attempt["job"], attempt["number"]))
        if began is None:
            report.count("I5", "reservations not replayed")
            continue
        report.count("I5", "reservations replayed")
        moments.append(((began, 1), 1, record))
        if record["released_at"] is not None and record["attempt"] in ended:
            moments.append(((ended[record["attempt"]], 0), -1, record))
    for record in history.all("client", "ceiling"):
        seq = max((seq for seq, t in times if t <= record.t), default=0)
        moments.append(((seq, 2), 0, record))
    return sorted(moments, key=lambda moment: moment[0])


def check_accounts(history: History, report: Report) -> None:
    """I6: at rest QueueUsage, reservations, attempts and ledger agree."""
    _check_usage(history, report)
    held = {record["attempt"]: record for record in history.all("database", "reservation")}
    for attempt_id, attempt in history.attempts.items():
        report.count("I6", "attempts")
        reservation = held.get(attempt_id)
        if reservation is None:
            report.fail("I6", f"attempt {attempt_id} holds no reservation and never did", [attempt])
        elif attempt["state"] != "ended" and reservation["released_at"] is not None:
            report.fail("I6", f"attempt {attempt_id} is {attempt['state']} and its capacity was released", [attempt, reservation])
        elif attempt["state"] == "ended" and reservation["released_at"] is None:
            report.fail("I6", f"attempt {attempt_id} has ended and holds its capacity", [attempt, reservation])
        elif reservation["released_at"] is not None and reservation["released_at"] < attempt["ended_at"] - CLOCK_SECONDS:
            report.fail("I6", f"the capacity of attempt {attempt_id} was released before its end", [attempt, reservation])
    _check_ledger(history, report, held)


def check_counts(history: History, report: Report) -> None:
    """I6 for numbers of jobs: what is kept by queue and state is what the rows add up to, and never below nothing."""
    for record in history.all("database", "count"):
        report.count("I6", "counts of jobs")
        if record["kept"] != record["counted"] or record["kept"] < 0:
            report.fail(
                "I6",
                f"queue {record['queue']} keeps {record['kept']} as its number of {record['state']} jobs; "
                f"there are {record['counted']}",
                [record],
            )


def _check_usage(history: History, report: Report) -> None:
    paths = {record["queue"]: record["path"] for record in history.all("database", "queue")}
    counted: dict[Key, Counter[str]] = defaultdict(Counter)
    for record in history.all("database", "reservation"):
        if record["released_at"] is None:
            for queue in paths.get(record["queue"], [record["queue"]]):
                for name in RESOURCE_NAMES:
                    counted[(queue, record["pool"])][name] += int(record["amount"][name])
    rows = {(record["queue"], record["pool"]): record for record in history.all("database", "usage")}
    for key in sorted({*rows, *counted}):
        report.count("I6", "usage rows")
        kept = (
            {name: int(rows[key]["used"][name]) for name in RESOURCE_NAMES} if key in rows else dict.fromkeys(RESOURCE_NAMES, 0)
        )
        recount = {name: counted[key][name] for name in RESOURCE_NAMES}
        if kept != recount:
            report.fail(
                "I6",
                f"queue {key[0]} keeps {kept} of pool {key[1]}, its reservations add up to {recount}",
                [rows[key]] if key in rows else [],
            )


def _check_ledger(history: History, report: Report, held: Mapping[str, Record]) -> None:
    lines: dict[str, list[Record]] = defaultdict(list)
    for record in history.all("database", "ledger"):
        lines[record["attempt"]].append(record)
    starts = {(record["job"], record["number"]) for record in history.all("payload", "start")}
    ran = {attempt_id for key, attempt_id in history.attempt_ids.items() if key in starts}
    for attempt_id, attempt in history.attempts.items():
        entries = lines.pop(attempt_id, [])
        is_charged = attempt["state"] == "ended" and (attempt["launched_at"] is not None or attempt_id in ran)
        report.count("I6", "ledger entries", len(entries))
        if len(entries) != int(is_charged):
            wanted = "one ledger entry" if is_charged else "no ledger entry"
            report.fail("I6", f"attempt {attempt_id} should have {wanted} and has {len(entries)}", [attempt, *entries])
            continue
        for entry in entries:
            reserved = held.get(attempt_id)
            if reserved is not None and dict(reserved["amount"]) != dict(entry["amount"]):
                report.fail("I6", f"attempt {attempt_id} is charged for other amounts than it held", [reserved, entry])
            if entry["ended_at"] > attempt["ended_at"] + CLOCK_SECONDS:
                report.fail("I6", f"attempt {attempt_id} is charged beyond its end", [attempt, entry])
    for attempt_id, entries in lines.items():
        report.fail("I6", f"the ledger charges attempt {attempt_id}, which is not in the database", entries)
