"""I7: once everything is healed and at rest, the database and the engine say the same, and nobody waits without a reason."""

from __future__ import annotations

from collections import defaultdict

from tests.histories.history import History
from tests.histories.records import Record
from tests.histories.report import Report

TERMINAL = ("succeeded", "failed", "stopped")


def check_rest(history: History, report: Report) -> None:
    waits = _open_dependencies(history)
    excused: dict[str, bool] = {}
    for job_id, job in history.jobs.items():
        report.count("I7", "jobs")
        if job["state"] not in TERMINAL and not _waits_rightly(history, job_id, waits, excused):
            report.fail("I7", f"job {job_id} is {job['state']} ({job['reason'] or 'no reason'}) at rest", [job])
    _check_attempts(history, report)
    _check_objects(history, report)


def _open_dependencies(history: History) -> dict[str, list[str]]:
    waits: dict[str, list[str]] = defaultdict(list)
    for record in history.all("database", "dependency"):
        if record["met"] is None:
            waits[record["job"]].append(record["on"])
    return waits


def _waits_rightly(history: History, job_id: str, waits: dict[str, list[str]], excused: dict[str, bool]) -> bool:
    """Held by somebody, or not yet due, or behind a job that waits rightly itself; a parent, if one of its children does."""
    if job_id in excused:
        return excused[job_id]
    excused[job_id] = False  # Whoever waits for itself waits wrongly.
    job = history.jobs.get(job_id)
    if job is None or job["state"] in TERMINAL:
        return False
    if job.get("is_array"):
        children = [row["job"] for row in history.children_of.get(job_id, []) if row["state"] not in TERMINAL]
        excused[job_id] = bool(children) and all(_waits_rightly(history, child, waits, excused) for child in children)
    elif job["state"] == "queued" and job["desired"] == "run":
        excused[job_id] = (
            bool(job["hold"])
            or (job.get("not_before_at") or 0.0) > history.end_at
            or any(_waits_rightly(history, on, waits, excused) for on in waits[job_id])
        )
    return excused[job_id]


def _check_attempts(history: History, report: Report) -> None:
    last: dict[str, Record] = {}
    alive: dict[str, list[Record]] = defaultdict(list)
    for attempt_id, attempt in history.attempts.items():
        report.count("I7", "attempts")
        job_id = attempt["job"]
        if attempt["state"] != "ended":
            alive[job_id].append(attempt)
        if job_id not in last or attempt["number"] > last[job_id]["number"]:
            last[job_id] = attempt
        job = history.jobs.get(job_id)
        if job is not None and job["state"] in (*TERMINAL, "queued") and attempt["state"] != "ended":
            report.fail("I7", f"attempt {attempt_id} is {attempt['state']} and its job {job['state']}", [job, attempt])
        if attempt["state"] == "ended" and not attempt["forgotten"]:
            report.fail("I7", f"attempt {attempt_id} has ended and was not tidied away", [attempt])
    for job_id, attempts in alive.items():
        if len(attempts) > 1:
            report.fail("I7", f"job {job_id} has {len(attempts)} attempts alive", attempts)
    for job_id, job in history.jobs.items():
        numbers = sorted(attempt["number"] for attempt in history.attempts_of.get(job_id, []))
        if numbers != list(range(1, job["attempt_count"] + 1)):
            report.fail("I7", f"job {job_id} counts {job['attempt_count']} attempts and has {numbers}", [job])


def _check_objects(history: History, report: Report) -> None:
    """What the engine still has, against the attempts that should be there."""
    objects = {record["attempt"]: record for record in history.all("engine", "object")}
    for attempt_id, record in objects.items():
        report.count("I7", "engine objects")
        attempt = history.attempts.get(attempt_id)
        if attempt is None:
            report.fail("I7", f"the engine has attempt {attempt_id}, which the database has not", [record])
        elif attempt["forgotten"]:
            report.fail("I7", f"the engine has attempt {attempt_id}, which was forgotten", [record, attempt])
        elif attempt["state"] == "ended" and record["alive"]:
            report.fail("I7", f"attempt {attempt_id} has ended and runs on", [record, attempt])
    for attempt_id, attempt in history.attempts.items():
        if history.all("engine", "create") and attempt["state"] in ("starting", "running") and attempt_id not in objects:
            report.fail("I7", f"attempt {attempt_id} is {attempt['state']} and the engine does not have it", [attempt])
