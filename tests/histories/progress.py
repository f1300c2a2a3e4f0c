"""I12: progress survives. Each attempt begins at the last whole checkpoint that an earlier one of its job wrote.

Judged by what payloads told of themselves: what they put in place, and what they found at their start. One that is killed
between a rename and the word about it has put in place what it only announced; so either count is right then.
"""

from __future__ import annotations

from collections import defaultdict

from tests.histories.history import History
from tests.histories.records import Record
from tests.histories.report import Report


def check_checkpoints(history: History, report: Report) -> None:
    """Follow the count of each task of a job through its attempts."""
    told: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for event in ("restored", "saving", "saved"):
        for record in history.all("payload", event):
            told[record["job"], str(record["task"])].append(record)
    for records in told.values():
        # In the order of attempts; within one by the machine's own clock, which nobody sets.
        records.sort(key=lambda record: (record["number"], record.get("monotonic", record.t), record["count"]))
        _follow(records, report)


def _follow(records: list[Record], report: Report) -> None:
    whole, announced = 0, 0
    writers: list[Record] = []  # The last words about what is in place.
    for record in records:
        if record.event == "saving":
            announced = record["count"]
            writers = [*writers[-1:], record]
        elif record.event == "saved":
            whole = announced = record["count"]
            writers = [record]
            report.count("I12", "checkpoints")
        else:
            if record["number"] > 1:
                report.count("I12", "attempts that went on")
            problem = _problem(record, whole, announced)
            if problem:
                what = f"attempt {record['number']} of job {record['job']} {problem}"
                report.fail("I12", what, [*writers, record])
            whole = announced = record["count"]  # Each loss is told once.


def _problem(restored: Record, whole: int, announced: int) -> str:
    if restored.get("half"):
        return "began with a half-written checkpoint"
    if restored["count"] < whole:
        return f"began at {restored['count']}, though {whole} was in place"
    if restored["count"] not in (whole, announced):
        return f"began at {restored['count']}, which was never written; {whole} was in place"
    return ""
