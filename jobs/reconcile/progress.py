"""Writes down how far tasks say that they are: once for a pass, however many of them said it, and only where it changed."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any

from django.db import connections, models, transaction

from clusters.engines.interface import LogChunk, LogStreamName
from jobs.lifecycle.progress import OpenLine, Progress, read_progress
from jobs.models import Task
from kernel.clock import utc_text
from reconciling import bulk
from storage.logs import StreamKey

NAMED_MAX = 1_000  # Of so many different indexes a query asks by number; of more it reads all tasks of the attempts.

TaskKey = tuple[uuid.UUID, str, int]


class ProgressReader:
    """Looks at what a pump has stored. It may see many passes: then a line that was cut between two of them is read, too.

    Each byte is looked at by the pump that stored it, and these may write in another order than they stored: what was stored
    later stands. `waits` for rows that another process holds: only for tasks of which nothing but pumps writes any more. Else
    they are left for the next pass, as others may hold and wait for rows in another order.
    """

    def __init__(self, *, waits: bool = False) -> None:
        self._waits = waits
        self._open_lines: dict[LogStreamName, OpenLine] = {}
        self._reports: dict[TaskKey, tuple[Progress, datetime]] = {}

    def __enter__(self) -> ProgressReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.write()

    def look(self, key: StreamKey, chunks: Sequence[LogChunk], stored_at: datetime) -> None:
        """Take in what one stream gave."""
        attempt_id, task = key.attempt.attempt_id, key.task
        progress = read_progress(self._open_lines, (attempt_id, task, key.stream), chunks)
        if progress is not None:
            self._reports[attempt_id, task.role, task.index] = progress, stored_at

    def keep(self, attempt_ids: Collection[uuid.UUID]) -> None:
        """Forget all attempts but these."""
        self._open_lines = {name: line for name, line in self._open_lines.items() if name[0] in attempt_ids}
        self._reports = {key: report for key, report in self._reports.items() if key[0] in attempt_ids}

    def write(self) -> None:
        """Two statements; none where no task said anything."""
        if not self._reports:
            return
        changed = []
        with transaction.atomic():
            for task_id, attempt_id, role, index, stored in self._rows():
                report = self._reports.pop((attempt_id, role, index), None)
                if report is not None and _is_news(stored, *report):
                    changed.append({"id": task_id, "progress": _document(*report)})
            bulk.update(Task, changed)

    def _rows(self) -> models.QuerySet[Task, tuple[Any, ...]]:
        """The rows of those that said something, locked; perhaps of others beside them."""
        rows = Task.objects.filter(attempt_id__in={key[0] for key in self._reports}, role__in={key[1] for key in self._reports})
        indexes = {key[2] for key in self._reports}
        if len(indexes) <= NAMED_MAX:
            rows = rows.filter(index__in=indexes)
        if connections[rows.db].features.has_select_for_update_skip_locked:
            rows = rows.order_by("id").select_for_update(skip_locked=not self._waits, no_key=True)
        return rows.values_list("id", "attempt_id", "role", "index", "progress")


def _document(progress: Progress, at: datetime) -> dict[str, Any]:
    return {"done": progress.done, "total": progress.total, "at": utc_text(at)}


def _is_news(stored: dict[str, Any] | None, progress: Progress, at: datetime) -> bool:
    if stored is None:
        return True
    return (stored["done"], stored["total"]) != (progress.done, progress.total) and datetime.fromisoformat(stored["at"]) <= at
