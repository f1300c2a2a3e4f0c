"""I9: every accepted change has its audit row, the chain holds, events have no gap, and no printed line is missing."""

from __future__ import annotations

from collections import Counter

from tests.histories.history import History
from tests.histories.report import Report

SUBMIT_VERBS = ("job.submit", "job.submit_batch", "job.rerun", "job.clone", "image.build")


def check_completeness(history: History, report: Report) -> None:
    _check_submissions(history, report)
    for event, verb in (("stop", "job.stop"), ("edit", "job.edit")):
        _check_verb(history, report, event, verb)
    _check_chain(history, report)
    _check_events(history, report)
    _check_logs(history, report)


def _check_submissions(history: History, report: Report) -> None:
    """All stored jobs stand in exactly one audit row: a row tells how many its call stored."""
    rows = [record for record in history.all("database", "audit") if record["verb"] in SUBMIT_VERBS]
    told = sum(int(record["count"]) for record in rows)
    report.count("I9", "audit rows", len(history.all("database", "audit")))
    if told != len(history.jobs):
        report.fail("I9", f"audit rows tell of {told} submitted jobs, the database has {len(history.jobs)}", rows[-3:])
    targets = Counter(record["target"] for record in rows)
    for record in history.all("client", "submit_acked"):
        if record["jobs"] and targets[record["jobs"][0]] != 1:
            report.fail("I9", f"the submission of job {record['jobs'][0]} has {targets[record['jobs'][0]]} audit rows", [record])


def _check_verb(history: History, report: Report, event: str, verb: str) -> None:
    """As many rows as acknowledged calls; a call whose answer was lost has one or none."""
    rows = Counter(record["target"] for record in history.all("database", "audit") if record["verb"] == verb)
    acked = Counter(record["job"] for record in history.all("client", f"{event}_acked"))
    unknown = Counter(record["job"] for record in history.all("client", f"{event}_unknown"))
    for job_id in sorted({*rows, *acked}):
        report.count("I9", f"jobs with {verb}")
        if not acked[job_id] <= rows[job_id] <= acked[job_id] + unknown[job_id]:
            records = [record for record in history.all("client", f"{event}_acked") if record["job"] == job_id]
            report.fail(
                "I9",
                f"job {job_id}: {acked[job_id]} acknowledged and {unknown[job_id]} unanswered calls of {verb} "
                f"have {rows[job_id]} audit rows",
                records,
            )


def _check_chain(history: History, report: Report) -> None:
    for record in history.all("database", "audit_chain"):
        report.count("I9", "sealed audit rows", int(record["sealed"]))
        for problem in record["problems"]:
            report.fail("I9", f"the audit chain does not hold: {problem}", [record])
        if record["unsealed"]:
            report.fail("I9", f"{record['unsealed']} audit rows were not sealed at rest", [record])


def _check_events(history: History, report: Report) -> None:
    """Numbers 1, 2, 3 ... without a gap; nothing is left without a number at rest."""
    unnumbered = [record for record in history.all("database", "event") if record["seq"] is None]
    if unnumbered:
        report.fail("I9", f"{len(unnumbered)} events have no number at rest", unnumbered)
    report.count("I9", "events", len(history.events))
    for before, after in zip(history.events, history.events[1:], strict=False):
        if after["seq"] != before["seq"] + 1:
            report.fail("I9", f"events jump from {before['seq']} to {after['seq']}", [before, after])


def _check_logs(history: History, report: Report) -> None:
    """Lines that a payload numbered and said to have printed are all stored."""
    stored = {(record["job"], record["number"], str(record["task"])): record for record in history.all("database", "log")}
    for record in history.all("payload", "printed"):
        key = (record["job"], record["number"], str(record["task"]))
        report.count("I9", "printed lines", int(record["lines"]))
        log = stored.get(key)
        if log is None:
            report.fail("I9", f"the log of task {key[2]} of attempt {key[1]} of job {key[0]} is not there", [record])
        elif int(log["lines"]) != int(record["lines"]):
            report.fail("I9", f"{record['lines']} lines were printed and {log['lines']} are stored", [record, log])
    for log in stored.values():
        if log["missing"] or log["repeated"]:
            report.fail("I9", f"a log lacks lines {log['missing']} and repeats {log['repeated']}", [log])
