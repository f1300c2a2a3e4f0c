"""Brings what happened to jobs from the database to what is kept of them.

Changed jobs are known by the `seq` of their events. A sweep reads all jobs and proves that nothing was missed.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping

import structlog

from activity.selectors import changed_subjects
from activity.sequencer import last_seq
from jobs.loading.predictions import Predictions
from jobs.loading.rows import LiveRow, PendingRow, Shared, load_live, load_pending
from jobs.reconcile.driver.kept_core import KeptCore
from jobs.reconcile.driver.pending import Pending
from kernel.config import current

log = structlog.get_logger("scheduler")

FULL_LOAD_REST = 40  # A full load takes at most one part in so many of our time, however many wait.
FULL_LOAD_ROWS = 20_000  # From so many changed jobs on, reading all that wait is no dearer than picking out these.
BATCH = 500


class JobChanges:
    """Up to where the events were followed."""

    def __init__(self, pending: Pending, predictions: Predictions) -> None:
        self.full_load_at = 0.0  # On the monotonic clock.
        self.have_come = False  # Since the last pass.
        self.stale: set[uuid.UUID] = set()  # To be read again, whatever events say.
        self._pending = pending
        self._predictions = predictions
        self._shared: Shared = {}
        self._cursor: int | None = None

    def take_in(self, kept: KeptCore | None) -> None:
        """Read what changed since the last time, and bring `kept` up to it."""
        if self._cursor is None or time.monotonic() >= self.full_load_at:
            self._load_everything(kept)
            return
        changed, cursor = self.stale, self._cursor  # What is not taken in, because reading fails, stays stale.
        while True:
            more, cursor_after = changed_subjects("job", after=cursor)
            if cursor_after == cursor:
                break
            changed |= more
            cursor = cursor_after
            if len(changed) > FULL_LOAD_ROWS:
                self._load_everything(kept)
                return
        self._cursor = cursor
        self.have_come |= bool(changed)
        for ids in _batches(sorted(changed)):
            fresh = {row.id: row for row in self._predictions.predict(load_pending(self._shared, id__in=ids))}
            live = {row.job_id: row for row in load_live(job_id__in=ids)} if kept is not None else {}
            self._bring(ids, fresh, live, kept)
            self.stale.difference_update(ids)

    def _load_everything(self, kept: KeptCore | None) -> None:
        """Read all jobs that wait or run, and take in whatever events did not tell of."""
        began, is_first, self.full_load_at = time.thread_time(), not self.full_load_at, 0.0  # Until it is done, it is due.
        self._cursor = last_seq()  # Read before the rows: a change in between is then seen twice, never missed.
        self._shared = {}
        fresh = {row.id: row for row in self._predictions.predict(load_pending(self._shared))}
        live = {row.job_id: row for row in load_live()} if kept is not None else {}
        known = {row.job_id for row in kept.live.values()} if kept is not None else set()
        waiting = self._pending.rows
        differ = {job_id for job_id in fresh.keys() | waiting.keys() if not _is_same(fresh.get(job_id), waiting.get(job_id))}
        differ |= known ^ live.keys()
        differ |= self.stale  # Whose start was lost: nothing about them need have changed, and the core does not have them.
        if not is_first and (fresh.keys() != waiting.keys() or known != live.keys()):
            log.info("full_load_differs", kept=len(waiting), found=len(fresh), running=len(known), run=len(live))
        self.stale = set()
        self.have_come |= bool(differ)
        self._bring(sorted(differ), fresh, live, kept)
        self._pending.forget_unused(fresh)
        remounted = self._pending.read_volumes_again()
        if kept is not None:
            kept.to_judge.update(remounted)
        # Waiting for a database is no work: it must not keep the next sweep away.
        self.full_load_at = time.monotonic() + max(current().sweep_seconds, (time.thread_time() - began) * FULL_LOAD_REST)

    def _bring(
        self,
        ids: Iterable[uuid.UUID],
        fresh: Mapping[uuid.UUID, PendingRow],
        live: Mapping[uuid.UUID, LiveRow],
        kept: KeptCore | None,
    ) -> None:
        """Bring `kept` up to what the database says of these jobs: of each what ended, and whether it waits; then what runs."""
        began: list[LiveRow] = []
        for job_id in ids:
            if kept is not None:
                runs = live.get(job_id)
                kept.compare(job_id, runs)
                if runs is not None and str(job_id) not in kept.live:
                    began.append(runs)
            if job_id in fresh:
                self._pending.put(fresh[job_id])
                if kept is not None:
                    kept.to_judge.add(job_id)
            else:
                self._pending.drop(job_id)
                if kept is not None:
                    kept.drop(job_id)
        if kept is not None:
            kept.begin(began)


def _is_same(row: PendingRow | None, other: PendingRow | None) -> bool:
    """Whether two readings of a waiting job are the same but for why it waits, which is ours to write."""
    if row is None or other is None:
        return row is other
    return row == other or row._replace(reason_code="", reason_detail={}) == other._replace(reason_code="", reason_detail={})


def _batches(ids: list[uuid.UUID]) -> Iterator[list[uuid.UUID]]:
    return (ids[start : start + BATCH] for start in range(0, len(ids), BATCH))
