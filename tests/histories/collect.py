"""Reads the database's side of a history at its end: every row that an invariant is decided over.

Called inside a process that has Django set up, when the platform is at rest. `python -m tests.histories.collect FILE` appends
to a history with the settings of the environment (`BERTH_DATA_DIR`, `BERTH_DATABASE_URL`).
"""

from __future__ import annotations

import re
import sys
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from kernel.resources import RESOURCE_NAMES
from tests.histories.records import HistoryFile, Record

ROWS = 5_000
LINE = re.compile(r"line (\d+)")


def collect(*, with_logs: bool = True) -> Iterator[Record]:
    """All records of the database's side; the last is `database.end`. Reads in bounded pages."""
    from kernel.clock import database_now

    now = database_now().timestamp()
    yield from _jobs(now)
    yield from _attempts(now)
    yield from _changes(now)
    yield from _capacity(now)
    yield from _counts(now)
    yield from _audit(now)
    if with_logs:
        yield from _logs(now)
    yield Record(now, "database", "end", {})


def samples() -> Iterator[Record]:
    """Use beside ceilings as one statement sees them: taken while the platform works."""
    from kernel.clock import database_now
    from tenants.models import QueueUsage

    now = database_now().timestamp()
    for row in QueueUsage.objects.all():
        yield Record(now, "database", "sample", {"queue": str(row.queue_id), "pool": str(row.pool_id), **_use(row)})


def _use(row: Any) -> dict[str, Any]:
    return {
        "used": {name: getattr(row, name) for name in RESOURCE_NAMES},
        "ceilings": {name: getattr(row, f"{name}_max") for name in RESOURCE_NAMES},
    }


def _jobs(now: float) -> Iterator[Record]:
    from jobs.models import Dependency, Job

    columns = (
        "id", "name", "state", "desired", "hold", "open_dependencies", "attempt_count", "reason_code", "parent_id",
        "array_size", "not_before_at",
    )  # fmt: skip
    for row in Job.objects.order_by("id").values_list(*columns).iterator(ROWS):
        job_id, name, state, desired, hold, open_dependencies, attempt_count, reason, parent_id, array_size, not_before_at = row
        yield Record(
            now,
            "database",
            "job",
            {
                "job": str(job_id), "name": name, "state": state, "desired": desired, "hold": hold,
                "open_dependencies": open_dependencies, "attempt_count": attempt_count, "reason": reason,
                "parent": _text(parent_id), "is_array": array_size is not None, "not_before_at": _seconds(not_before_at),
            },
        )  # fmt: skip
    for job_id, on_id, met in Dependency.objects.order_by("id").values_list("job_id", "on_id", "met").iterator(ROWS):
        yield Record(now, "database", "dependency", {"job": str(job_id), "on": str(on_id), "met": met})


def _attempts(now: float) -> Iterator[Record]:
    from jobs.models import Attempt, Task

    columns = ("id", "job_id", "number", "state", "outcome", "created_at", "launched_at", "ended_at", "forgotten", "condition")
    for row in Attempt.objects.order_by("id").values_list(*columns).iterator(ROWS):
        attempt_id, job_id, number, state, outcome, created_at, launched_at, ended_at, forgotten, condition = row
        yield Record(
            now,
            "database",
            "attempt",
            {
                "attempt": str(attempt_id), "job": str(job_id), "number": number, "state": state, "outcome": outcome,
                "created_at": _seconds(created_at), "launched_at": _seconds(launched_at), "ended_at": _seconds(ended_at),
                "forgotten": forgotten, "condition": condition,
            },
        )  # fmt: skip
    for task_id, attempt_id, state in Task.objects.order_by("id").values_list("id", "attempt_id", "state").iterator(ROWS):
        yield Record(now, "database", "task", {"task": str(task_id), "attempt": str(attempt_id), "state": state})


def _changes(now: float) -> Iterator[Record]:
    from activity.models import Event
    from reconciling.models import Transition

    columns = ("id", "subject_kind", "subject_id", "from_state", "to_state", "reason", "actor", "at")
    rows = Transition.objects.order_by("id").values_list(*columns).iterator(ROWS)
    for order, (row_id, kind, subject_id, from_state, to_state, reason, actor, at) in enumerate(rows):
        yield Record(
            at.timestamp(),
            "database",
            "transition",
            {
                "id": str(row_id), "kind": kind, "subject": str(subject_id), "from": from_state, "to": to_state,
                "reason": reason, "actor": actor, "order": order,
            },
        )  # fmt: skip
    for row in Event.objects.order_by("row").iterator(ROWS):
        data = row.data if isinstance(row.data, dict) else {}
        detail = data.get("detail")
        attempt = detail.get("attempt") if isinstance(detail, dict) else None
        yield Record(
            row.at.timestamp(),
            "database",
            "event",
            {
                "seq": row.seq, "kind": row.kind, "subject": str(row.subject_id), "job": _text(row.job_id),
                "from": data.get("from"), "to": data.get("to"), "attempt": attempt,
            },
        )  # fmt: skip


def _capacity(now: float) -> Iterator[Record]:
    from tenants.models import LedgerEntry, Queue, QueueUsage, Reservation

    for row in Queue.objects.order_by("id"):
        path = [str(uuid.UUID(hex=step)) for step in row.path.split("/") if step]
        yield Record(now, "database", "queue", {"queue": str(row.pk), "name": row.name, "path": path})
    for usage in QueueUsage.objects.order_by("id"):
        key = {"queue": str(usage.queue_id), "pool": str(usage.pool_id)}
        use = _use(usage)
        yield Record(now, "database", "usage", {**key, "used": use["used"]})
        yield Record(now, "database", "ceiling", {**key, "ceilings": use["ceilings"]})
    for held in Reservation.objects.order_by("id").iterator(ROWS):
        yield Record(
            now,
            "database",
            "reservation",
            {
                "attempt": str(held.attempt_id), "queue": str(held.queue_id), "pool": str(held.pool_id),
                "amount": {name: getattr(held, name) for name in RESOURCE_NAMES},
                "created_at": _seconds(held.created_at), "released_at": _seconds(held.released_at),
            },
        )  # fmt: skip
    for entry in LedgerEntry.objects.order_by("id").iterator(ROWS):
        yield Record(
            now,
            "database",
            "ledger",
            {
                "attempt": str(entry.attempt_id), "pool": str(entry.pool_id),
                "amount": {name: getattr(entry, name) for name in RESOURCE_NAMES},
                "started_at": _seconds(entry.started_at), "ended_at": _seconds(entry.ended_at), "outcome": entry.outcome,
            },
        )  # fmt: skip


def _counts(now: float) -> Iterator[Record]:
    """Numbers of jobs as they are kept, beside those of the rows: an array counts as one."""
    from django.db.models import Count, Sum

    from jobs.models import Job, JobCount

    kept: Counter[tuple[str, str]] = Counter()
    counted: Counter[tuple[str, str]] = Counter()
    for queue_id, state, number in JobCount.objects.values_list("queue_id", "state").annotate(Sum("number")):
        kept[str(queue_id), state] = number
    for queue_id, state, number in Job.objects.filter(parent=None).values_list("queue_id", "state").annotate(Count("id")):
        counted[str(queue_id), state] = number
    for queue, state in sorted({*kept, *counted}):
        key = (queue, state)
        yield Record(
            now, "database", "count", {"queue": queue, "state": state, "kept": kept[key], "counted": counted[key]}
        )  # fmt: skip


def _audit(now: float) -> Iterator[Record]:
    from activity.audit import verify_audit_chain
    from activity.models import AuditEvent

    for verb, target, count, actor in (
        AuditEvent.objects.order_by("id").values_list("verb", "target_id", "count", "actor_name").iterator(ROWS)
    ):
        yield Record(now, "database", "audit", {"verb": verb, "target": target, "count": count, "actor": actor})
    chain = verify_audit_chain()
    problems = [f"{problem.seq}: {problem.what}" for problem in chain.problems]
    yield Record(now, "database", "audit_chain", {"sealed": chain.sealed, "unsealed": chain.unsealed, "problems": problems})


def _logs(now: float) -> Iterator[Record]:
    """Logs of payloads that number their lines (`line 0`, `line 1`, ...); others have nothing to count."""
    from jobs.models import Attempt
    from storage.logs import read_merged

    for attempt_id, job_id, number in Attempt.objects.order_by("id").values_list("id", "job_id", "number"):
        printed: dict[str, list[str]] = defaultdict(list)
        cursor: str | None = None
        while True:
            page = read_merged(attempt_id, cursor=cursor)
            for item in page.items:
                printed[f"{item.role}-{item.index}.{item.stream}"].append(item.text)
            cursor = page.cursor
            if not page.more:
                break
        for stream, texts in printed.items():
            task, _, kind = stream.rpartition(".")
            numbers = [int(found) for found in LINE.findall("".join(texts))]
            if kind == "stdout" and numbers:
                yield Record(now, "database", "log", {"job": str(job_id), "number": number, "task": task, **_gaps(numbers)})


def _gaps(numbers: Iterable[int]) -> dict[str, Any]:
    counts = Counter(numbers)
    expected = range(max(counts) + 1)
    missing = [number for number in expected if number not in counts]
    repeated = [number for number, times in sorted(counts.items()) if times > 1]
    return {"lines": len(counts), "missing": missing[:100], "repeated": repeated[:100]}


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print(__doc__)
        return 2
    import os

    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    django.setup()
    file = HistoryFile(Path(arguments[0]))
    file.add_all(collect())
    file.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
