"""I1: what was acknowledged is there, and there once."""

from __future__ import annotations

from collections import defaultdict

from tests.histories.history import History
from tests.histories.records import Record
from tests.histories.report import Report


def check_submissions(history: History, report: Report) -> None:
    acked: set[str] = set()
    named: dict[str, list[Record]] = defaultdict(list)
    for record in history.all("client", "submit_acked"):
        report.count("I1", "acknowledged submissions")
        for job_id in record["jobs"]:
            acked.add(job_id)
            report.count("I1", "acknowledged jobs")
            if job_id not in history.jobs:
                report.fail("I1", f"job {job_id} was acknowledged and is not in the database", [record])
        if record.get("name"):
            named[record["name"]].append(record)
    for name, records in named.items():
        answers = {tuple(record["jobs"]) for record in records}
        if len(answers) > 1:
            report.fail("I1", f"the submission {name} was acknowledged as {len(answers)} different jobs", records)
    _check_once(history, report, named.keys() | {record.get("name") for record in history.all("client", "submit_unknown")})
    if all(record.get("name") for record in history.all("client", "submit_unknown")):
        _check_nothing_refused_is_stored(history, report)


def _check_once(history: History, report: Report, names: set[str | None]) -> None:
    """A name that stands for one submission is the name of one job, children of an array aside."""
    stored: dict[str, list[Record]] = defaultdict(list)
    for job in history.jobs.values():
        if job.get("name") in names and not job.get("parent"):
            stored[job["name"]].append(job)
    for name, jobs in stored.items():
        report.count("I1", "names stored once")
        if len(jobs) > 1:
            report.fail("I1", f"one submission, {name}, became {len(jobs)} jobs", jobs)


def _check_nothing_refused_is_stored(history: History, report: Report) -> None:
    stored = {job.get("name"): job for job in history.jobs.values()}
    for record in history.all("client", "submit_refused"):
        if record.get("name"):
            report.count("I1", "refused submissions")
            if record["name"] in stored:
                report.fail("I1", f"the submission {record['name']} was refused and is stored", [record, stored[record["name"]]])
