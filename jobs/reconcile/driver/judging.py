"""Hands the core the jobs that wait: those that came or changed, and all of them where what they are judged by did."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from uuid import UUID

from images.services import ResolvedImage
from jobs.loading.rows import PendingRow
from jobs.loading.specs import load_spec, wish_of
from jobs.loading.state import Judge, digest_of, volumes_of
from jobs.reconcile.driver.kept_core import KeptCore
from jobs.reconcile.driver.pending import Pending
from jobs.scheduling.replay.log import Ended, Submitted, Withdrawn


def judge_waiting(judge: Judge, kept: KeptCore, pending: Pending) -> None:
    """Say of each job that is to be judged what it asks for and what withholds it, and hand it in where that is new."""
    while kept.due and kept.due[0][0] <= judge.now:
        kept.to_judge.add(heapq.heappop(kept.due)[1])
    around = judge.around
    judged_by = (
        around.pools, around.holds, around.spent, around.tenant_paths, around.disabled, judge.departed, judge.images,
        frozenset(judge.struck),
    )  # fmt: skip
    if judged_by != kept.judged_by:
        kept.judged_by = judged_by
        kept.to_judge = set(pending.rows)
    rows = [pending.rows[job_id] for job_id in sorted(kept.to_judge) if job_id in pending.rows]
    kept.to_judge = set()
    pending.read_specs(rows)
    for row in rows:
        _hand_in(row, judge, kept, pending)
    if kept.resumed is not None:
        kept.feed(kept.resumed)
        kept.resumed = None


def judge_near(changed: frozenset[str], images: Mapping[UUID, ResolvedImage], kept: KeptCore, pending: Pending) -> None:
    """Those who would like to be near what machines hold, or do not hold any more (`changed`), are to be judged again."""
    if not changed:
        return
    for row in pending.rows.values():
        wish = pending.wishes.get(row.spec_id)
        mounted = volumes_of(row, wish, pending.volumes) if wish is not None and wish.mounts else ()
        if digest_of(row, images) in changed or not changed.isdisjoint(mounted):
            kept.to_judge.add(row.id)


def _hand_in(row: PendingRow, judge: Judge, kept: KeptCore, pending: Pending) -> None:
    key = str(row.id)
    if row.id in judge.struck or row.queue_id not in judge.numbers.queue_at:
        if kept.waiting.pop(key, None) is not None:
            kept.feed(Withdrawn(key))
        return
    # A spec that could not be read is read again here, alone, and fails at the job that has it.
    job, withheld = judge.job(row, pending.wishes.get(row.spec_id) or wish_of(load_spec(row.spec_id)))
    if row.not_before_at is not None and row.not_before_at > judge.now:
        heapq.heappush(kept.due, (row.not_before_at, row.id))
    if kept.waiting.get(key) == job and kept.withheld.get(key) == withheld:
        return
    if key in kept.core.transfers:  # It was edited while others leave for it: it is looked at as it is now, without a claim.
        kept.feed(Withdrawn(key))
    elif key in kept.core.running:  # What we thought that we had started.
        kept.live.pop(key, None)
        kept.feed(Ended(key))
    kept.feed(Submitted(job))
    kept.waiting[key] = job
    kept.to_tell.add(key)
    if withheld is None:
        kept.withheld.pop(key, None)
    else:
        kept.withheld[key] = withheld
