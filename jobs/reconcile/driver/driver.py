"""Keeps the scheduler's state up to date, asks it for decisions, and applies them.

A run of the driver: `JobChanges` reads what happened into `Pending` (who waits) and `KeptCore` (the core, and what runs);
a pass looks at what is around the jobs, hands in those that wait, lets the core decide, and applies what it decided. What a pass
costs goes with what changed. After an error the core is thrown away, and the job at which deciding fails is found and set aside.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

import structlog

from images.lifecycle import ImageState
from images.services import ResolvedImage, resolved_images
from jobs.loading import memory
from jobs.loading.around import Around, look_around
from jobs.loading.predictions import Predictions
from jobs.loading.rows import PendingRow, load_live, load_parallelism, tenants_of
from jobs.loading.specs import load_spec, wish_of
from jobs.loading.state import SCHEDULE, Judge, make_state
from jobs.reconcile import demand, poisoned_jobs
from jobs.reconcile.driver.applying import apply_decisions, tell_waiting
from jobs.reconcile.driver.changes import JobChanges
from jobs.reconcile.driver.judging import judge_near, judge_waiting
from jobs.reconcile.driver.kept_core import KeptCore
from jobs.reconcile.driver.pending import Pending
from jobs.reconcile.measuring import MIX_SECONDS, count_mixes, measure_pools
from jobs.reconcile.missed_wakeups import Rested, note_missed
from jobs.scheduling.core.snapshot import build
from jobs.scheduling.core.state.decisions import Wait
from jobs.scheduling.replay.log import Checkpointed, Decided
from jobs.services.unstartable import fail_unstartable
from kernel.clock import database_now
from kernel.config import current
from reconciling import poison
from storage.selectors import checkpoint_times
from tenants.capacity.quota.accounting import mark
from tenants.identity.standing import departed_from

log = structlog.get_logger("scheduler")

AGAIN_SECONDS = 0.05  # After a pass that failed at one job, or a race that was lost: the others wait no longer for it.
LOOK_SECONDS = 1.0
IDLE_LOOK_SECONDS = 10.0  # While no job waits; bookings are cleared half a minute before they begin.


class SchedulerDriver:
    """One per process; only the leader's is used."""

    kept: KeptCore | None = None

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Drop everything: a new leader starts from the database."""
        self._forget_core()
        self.has_admitted = False  # In its last run.
        self.pending = Pending()
        self._predictions = Predictions()
        self.changes = JobChanges(self.pending, self._predictions)
        self._looked_at = time.monotonic()  # Around, the last time.
        self._demand_at: int | None = None  # Up to when demand was recorded; None: no job waited.
        self._measured_at = self._mixed_at = self._saved_looked_at = 0
        self._rested: Rested | None = None  # What the core before would have decided, where the present one replaced it at rest.
        self._lost: frozenset[uuid.UUID] = frozenset()  # In the last pass. A job that loses twice in a row has lost no race.

    def _forget_core(self) -> None:
        if self.kept is not None:
            self.kept.close()
        self.kept = None

    def run(self, *, now: datetime | None = None) -> float:
        """Take in changes and decide; seconds until it is worth looking again.

        Without `now`, the time is read once changes have been taken in: nothing starts before it came.
        """
        self.has_admitted = False
        try:
            self.changes.take_in(self.kept)
            now = database_now() if now is None else now
            wait = self._decide(now)
        except Exception as error:  # One waiting job must not keep all others waiting: find it, and go on without it.
            self._forget_core()
            if poison.is_infrastructure(error) or not self._sift(list(self.pending.rows.values()), now or database_now()):
                raise
            return AGAIN_SECONDS
        self._measure(now)
        return wait

    def _decide(self, now: datetime) -> float:
        if not self.pending.rows:
            self._demand_at = None
            if not self._has_plans():
                return LOOK_SECONDS
        self._looked_at = time.monotonic()
        return self._pass(now)

    def _has_plans(self) -> bool:
        """Whether there is something to do though no job waits: room to be cleared for a booking, now or before long."""
        if self.kept is not None and (self.kept.core.transfers or self.kept.core.advance):
            return True
        return time.monotonic() - self._looked_at >= IDLE_LOOK_SECONDS

    def _pass(self, now: datetime) -> float:
        images = resolved_images(self.pending.image_ids())
        self._fail_without_image(images, now)
        around = look_around(now, tenants_of(self.kept.live.values() if self.kept is not None else ()))
        struck = self._struck(now)
        kept = self._follow(around, now)
        core, pending = kept.core, self.pending
        kept.held, had = frozenset(core.machines.holders), kept.held
        parallelism = pending.parallelism(kept.to_judge)
        departed = departed_from(pending.places())
        judge = Judge(around, kept.numbers, images, struck, parallelism, now, kept.held, pending.volumes, departed)
        judge_near(kept.held ^ had, images, kept, pending)
        judge_waiting(judge, kept, pending)
        self._tell_saved(kept, now)
        began = time.monotonic()
        waiting = dict(kept.waiting) if self._rested is not None else {}
        decisions = kept.feed(Decided(mark(now)))
        if self._rested is not None:
            note_missed(self._rested.missed(decisions, waiting))
            self._rested = None
        applied = apply_decisions(decisions, kept, pending, now)
        self.changes.stale |= applied.lost
        self.has_admitted = bool(applied.admitted)
        kept.note_rest(now, stirred=self.changes.have_come or not all(isinstance(decision, Wait) for decision in decisions))
        self.changes.have_come = False
        tell_waiting(decisions, kept, pending, now)
        kept.save(now)
        self._demand_at = demand.keep(core, kept.numbers, since=self._demand_at, now=mark(now))
        if self.has_admitted or applied.lost:
            log.info(
                "pass", waiting=len(pending.rows), decisions=len(decisions), lost=len(applied.lost),
                seconds=round(time.monotonic() - began, 4),
            )  # fmt: skip
        is_race, self._lost = bool(applied.lost - self._lost), applied.lost
        return AGAIN_SECONDS if is_race else _next_look(kept, now)

    def _follow(self, around: Around, now: datetime) -> KeptCore:
        """The core that knows what is around: told what changed, or made anew."""
        kept = self.kept
        if kept is not None and not kept.is_to_be_built_anew(around, now, have_changes_come=self.changes.have_come):
            kept.follow(around)
            return kept
        known, had = (memory.load(), []) if kept is None else (memory.remember(kept.core), list(kept.live.values()))
        self._rested = None if kept is None else kept.asked_once_more(around, now)
        self._forget_core()
        self.kept = KeptCore.build(around if kept is not None else None, known, had, self._predictions, now)
        self.kept.to_judge = set(self.pending.rows)
        return self.kept

    def _fail_without_image(self, images: Mapping[uuid.UUID, ResolvedImage], now: datetime) -> None:
        """A job whose image could not be built will never start: say so now."""
        failed = {image_id: image for image_id, image in images.items() if image.state == ImageState.FAILED}
        rows = [row for row in self.pending.rows.values() if row.image_id in failed] if failed else []
        if rows:
            fail_unstartable(
                [
                    (row.id, "image_build_failed", {"image": failed[row.image_id].name})
                    for row in rows
                    if row.image_id is not None
                ],
                now=now,
            )
            for row in rows:
                self.pending.drop(row.id)
                if self.kept is not None:
                    self.kept.drop(row.id)

    def _tell_saved(self, kept: KeptCore, now: datetime) -> None:
        """Tell the core when running jobs saved their work last: what an eviction would lose counts from then.

        One query, and none where no running job keeps a checkpoint.
        """
        if mark(now) - self._saved_looked_at < current().checkpoint_seconds:
            return
        self._saved_looked_at = mark(now)
        saving = [row.job_id for row in kept.live.values() if row.checkpoint is not None]
        for job_id, saved_at in checkpoint_times(saving).items() if saving else ():
            kept.feed(Checkpointed(str(job_id), mark(saved_at)))

    def _measure(self, now: datetime) -> None:
        """Tell how pools are filled, and count again what they usually get, when it is time."""
        if self.kept is None:
            return
        if mark(now) - self._mixed_at >= MIX_SECONDS:
            self._mixed_at = mark(now)
            count_mixes(now)
        if mark(now) - self._measured_at >= current().telemetry_seconds:
            self._measured_at = mark(now)
            measure_pools(self.kept.core, self.kept.around, now)

    # --- Jobs at which deciding fails ---------------------------------------------------------------------------------

    def _struck(self, now: datetime) -> Collection[uuid.UUID]:
        """The waiting jobs at which a pass fails. Those of them whose time has come are tried, alone."""
        struck, rows = poison.strikes(SCHEDULE), self.pending.rows
        due = [rows[job_id] for job_id, strike in struck.items() if job_id in rows and strike.due_at <= now]
        if due:
            self._sift(due, now)
            struck = poison.strikes(SCHEDULE)
        return frozenset(struck)

    def _sift(self, rows: Sequence[PendingRow], now: datetime) -> bool:
        """Decide without writing, to find the jobs at which deciding fails; whether there are any."""
        live = load_live()
        around = look_around(now, tenants_of(live))
        numbers = around.numbers()
        images = resolved_images({row.image_id for row in rows if row.image_id is not None})
        judge = Judge(around, numbers, images, (), load_parallelism(rows, live), now)

        def decide(part: Sequence[PendingRow]) -> None:
            core = build(make_state(around, numbers, (), live, judge.parallelism, now, memory.NOTHING))
            for row in part:
                if row.queue_id in numbers.queue_at:
                    core.submit(judge.job(row, wish_of(load_spec(row.spec_id)))[0])
            core.decide(mark(now))

        struck = poison.work_through(SCHEDULE, rows, decide, now=now, key=lambda row: row.id)
        poisoned_jobs.say_why_it_waits(struck)
        return bool(struck)


def _next_look(kept: KeptCore, now: datetime) -> float:
    """Seconds until time alone may change something; a second where nothing is known to."""
    moments = [LOOK_SECONDS]
    if kept.due:
        moments.append((kept.due[0][0] - now).total_seconds())
    if kept.core.next_pass_at is not None:
        moments.append(kept.core.next_pass_at - now.timestamp())
    return max(0.01, min(moments))
