"""I4: the changes of state of every job, attempt and task are a path of the declared graph that ends where the row stands."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from jobs.lifecycle.states import ATTEMPT_LIFECYCLE, JOB_LIFECYCLE, TASK_LIFECYCLE
from tests.histories.history import History
from tests.histories.records import Record
from tests.histories.report import Report

LIFECYCLES = {"job": JOB_LIFECYCLE, "attempt": ATTEMPT_LIFECYCLE, "task": TASK_LIFECYCLE}
FIRST = {"job": "", "attempt": "admitted", "task": "pending"}  # A job's first transition is from nothing.


def check_lifecycles(history: History, report: Report) -> None:
    changes: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in history.all("database", "transition"):
        if record["kind"] in LIFECYCLES:
            changes[(record["kind"], record["subject"])].append(record)
    tasks = {record["task"]: record for record in history.all("database", "task")}
    rows = {"job": history.jobs, "attempt": history.attempts, "task": tasks}
    for kind, subjects in rows.items():
        for subject, row in subjects.items():
            report.count("I4", f"{kind}s")
            _check_path(report, kind, subject, row, changes.pop((kind, subject), []))
    for (kind, subject), records in changes.items():
        report.fail("I4", f"{kind} {subject} changed its state and is not in the database", records)
    _check_told(history, report)


def _check_path(report: Report, kind: str, subject: str, row: Record, records: list[Record]) -> None:
    report.count("I4", "changes", len(records))
    lifecycle = LIFECYCLES[kind]
    for record in records:
        if record["from"] != "" and not lifecycle.allows(record["from"], record["to"]):
            report.fail("I4", f"{kind} {subject} went from {record['from']} to {record['to']}, which is no edge", [record])
            return
    ends = [record for record in records if lifecycle.is_terminal(record["to"])]
    if len(ends) > 1:
        report.fail("I4", f"{kind} {subject} ended {len(ends)} times", ends)
        return
    if not is_path([(record["from"], record["to"]) for record in records], FIRST[kind], row["state"]):
        path = " ".join(f"{record['from'] or 'nothing'}->{record['to']}" for record in records)
        report.fail("I4", f"the changes of {kind} {subject} do not lead to {row['state']}: {path or 'none'}", [row, *records])


def is_path(edges: Sequence[tuple[str, str]], first: str, last: str) -> bool:
    """Whether all edges, each used once, can be walked from `first` to `last`.

    Ids of several processes do not sort by time, so the order is not taken from them: what counts is that there is one.
    """
    balance: Counter[str] = Counter()
    neighbours: dict[str, set[str]] = defaultdict(set)
    for start, end in edges:
        balance[start] += 1
        balance[end] -= 1
        neighbours[start].add(end)
        neighbours[end].add(start)
    wanted = Counter() if first == last else Counter({first: 1, last: -1})
    if {state: number for state, number in balance.items() if number} != dict(wanted):
        return False
    reached, waiting = {first}, [first]
    while waiting:
        for neighbour in neighbours[waiting.pop()] - reached:
            reached.add(neighbour)
            waiting.append(neighbour)
    return all(start in reached for start, _ in edges)


def _check_told(history: History, report: Report) -> None:
    """The outbox tells the changes of a job in the order in which they happened."""
    told: dict[str, list[Record]] = defaultdict(list)
    for record in history.events:
        if record.get("to") and record["kind"].startswith("job."):
            told[record["subject"]].append(record)
    for job_id, records in told.items():
        report.count("I4", "told jobs")
        if records[0]["from"] != "":
            continue  # Its first events were removed by retention.
        state = ""
        for record in records:
            if record["from"] != state:
                report.fail("I4", f"events of job {job_id} go from {state or 'nothing'} on with {record['from']}", records)
                break
            state = record["to"]
        else:
            if job_id in history.jobs and history.jobs[job_id]["state"] != state:
                report.fail("I4", f"events of job {job_id} end with {state}", [history.jobs[job_id], *records[-2:]])
