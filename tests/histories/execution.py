"""I2, I3 and I8: what really ran, how often it was made, and whether it ended when somebody said so."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from tests.histories.history import History
from tests.histories.records import Record
from tests.histories.report import Report

STOP_SECONDS = 30.0  # Invariant I8: silent this long after the grace; one lease more where a process was lost meanwhile.
CALM_BEFORE_SECONDS = 60.0  # What was broken longer ago has no part in how a stop goes.
START_SECONDS = 1.0  # A start that was under way when its stop was acknowledged has become visible by then, or never does.
CLOCK_SECONDS = 0.001  # Times are rounded when they are written.


@dataclass
class Interval:
    """One attempt of a job as its payload told it: from the first sign of life of any task to the last."""

    number: int
    began: float
    ended: float
    records: list[Record] = field(default_factory=list)


def intervals(history: History) -> dict[str, list[Interval]]:
    """By job, in the order of their beginnings. A task that was killed has written no stop; it lived until its last beat."""
    found: dict[tuple[str, int], Interval] = {}
    for event in ("start", "beat", "stop"):
        for record in history.all("payload", event):
            key = (record["job"], record["number"])
            if key not in found:
                found[key] = Interval(record["number"], record.t, record.t)
            interval = found[key]
            interval.began = min(interval.began, record.t)
            interval.ended = max(interval.ended, record.t)
            if event != "beat":
                interval.records.append(record)
    by_job: dict[str, list[Interval]] = defaultdict(list)
    for (job_id, _), interval in sorted(found.items(), key=lambda item: (item[1].began, item[0][1])):
        by_job[job_id].append(interval)
    return by_job


def check_overlaps(history: History, report: Report) -> None:
    """I2: attempts of one job follow each other, with no instant in common."""
    for record in history.all("payload", "overlap"):
        report.fail("I2", f"attempt {record['number']} of job {record['job']} ran beside another of its attempts", [record])
    for job_id, attempts in intervals(history).items():
        report.count("I2", "jobs")
        report.count("I2", "intervals", len(attempts))
        last = attempts[0]
        for interval in attempts[1:]:
            if interval.began < last.ended - CLOCK_SECONDS:
                report.fail(
                    "I2",
                    f"attempts {last.number} and {interval.number} of job {job_id} ran at the same time for "
                    f"{min(last.ended, interval.ended) - interval.began:.3f} s",
                    [*last.records, *interval.records],
                )
            if interval.ended > last.ended:
                last = interval
    _check_starts(history, report)


def _check_starts(history: History, report: Report) -> None:
    """A task starts once per attempt."""
    started: dict[tuple[str, int, str], list[Record]] = defaultdict(list)
    for record in history.all("payload", "start"):
        started[(record["job"], record["number"], str(record["task"]))].append(record)
    for (job_id, number, task), records in started.items():
        if len(records) > 1:
            report.fail("I2", f"task {task} of attempt {number} of job {job_id} started {len(records)} times", records)


def check_creations(history: History, report: Report) -> None:
    """I3: one object on the engine per attempt, and only for attempts that the database has."""
    created: dict[tuple[str, int], list[Record]] = defaultdict(list)
    for record in history.all("engine", "create"):
        created[(record["job"], record["number"])].append(record)
    for (job_id, number), records in created.items():
        report.count("I3", "attempts made")
        if len(records) > 1:
            report.fail("I3", f"attempt {number} of job {job_id} was made {len(records)} times", records)
        if history.is_closed and {record["attempt"] for record in records} != {history.attempt_ids.get((job_id, number))}:
            report.fail("I3", f"the engine made attempt {number} of job {job_id}, which the database has not", records)
    for (job_id, number), attempt_id in history.attempt_ids.items():
        attempt = history.attempts[attempt_id]
        if created and attempt["launched_at"] is not None and (job_id, number) not in created:
            report.fail("I3", f"attempt {number} of job {job_id} counts as launched and was never made", [attempt])


def check_stops(history: History, report: Report) -> None:
    """I8: after an acknowledged stop nothing of the job runs any more, and no attempt of it begins."""
    lives = intervals(history)
    for record in history.all("client", "stop_acked"):
        report.count("I8", "acknowledged stops")
        job_id = record["job"]
        if record.get("state"):
            report.count("I8", f"stops of {record['state']} jobs")
        for each in [job_id, *(child["job"] for child in history.children_of.get(job_id, []))]:
            _check_stop(history, report, record, each, lives.get(each, []))


def _check_stop(history: History, report: Report, stop: Record, job_id: str, lives: list[Interval]) -> None:
    job = history.jobs.get(job_id)
    if job is not None and job["desired"] != "stop" and job["state"] not in ("succeeded", "failed", "stopped"):
        report.fail("I8", f"the stop of job {job_id} was acknowledged and is not stored", [stop, job])
    grace_seconds = float(stop["grace_seconds"])
    deadline = history.healthy_deadline(stop.t, grace_seconds + STOP_SECONDS)
    deadline += history.lease_lost(stop.t, deadline)
    calm_seconds = stop.get("calm_seconds")
    if calm_seconds is not None:
        calm_deadline = stop.t + grace_seconds + float(calm_seconds)
        if history.is_calm(stop.t - CALM_BEFORE_SECONDS, calm_deadline):
            report.count("I8", "stops while nothing was broken")
            deadline = calm_deadline
            _check_no_start(report, stop, job_id, lives)
    for interval in lives:
        report.count("I8", "intervals")
        if interval.ended > deadline:
            report.fail(
                "I8",
                f"attempt {interval.number} of job {job_id} ran {interval.ended - deadline:.3f} s past the deadline of its stop",
                [stop, *interval.records],
            )
    for attempt in history.attempts_of.get(job_id, []):
        if (attempt.get("created_at") or 0.0) > stop.t + CLOCK_SECONDS:
            report.fail(
                "I8", f"attempt {attempt['number']} of job {job_id} began after its stop was acknowledged", [stop, attempt]
            )


def _check_no_start(report: Report, stop: Record, job_id: str, lives: list[Interval]) -> None:
    """A stop that was acknowledged before the start starts nothing."""
    for interval in lives:
        late = interval.began - stop.t
        if late > START_SECONDS:
            what = f"attempt {interval.number} of job {job_id} started {late:.3f} s after its stop was acknowledged"
            report.fail("I8", what, [stop, *interval.records])
