"""When those who wait will start, as far as one can see: the core that schedules, run forward on how long things are thought to
run.

Two runs tell a band: one in which everything takes its typical time, one in which everything takes long (`Prediction.cautious`,
never above what a job may). Both begin with the same state, so all rules are in it: limits, fair order, evictions, windows,
booked starts. What is not in it is what nobody has submitted yet, and what is done once a minute for those who were refused
(`balance.py`), which looks too far into each moment to be repeated for every moment to come. Whoever runs already for longer than
was thought is thought to need half as long again, or three times as long in all.

The work is bounded by a horizon and a number of passes. Who has no start within them, or is withheld by something that only its
people can change, gets none, and the reason.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

from jobs.scheduling.core.core import Core
from jobs.scheduling.core.snapshot import State, build
from jobs.scheduling.core.state.decisions import Admit, Claim, Evict
from jobs.scheduling.core.state.work import Job, Running
from jobs.scheduling.questions.predict import Prediction

HORIZON_SECONDS = 14 * 86_400
PASSES_MAX = 5_000
END, GONE = range(2)


class Expected(NamedTuple):
    """By when a job starts: as likely as not, and by nine in ten. None: not within what was looked at, `reason` says why:
    `horizon`, `passes`, or what it waits for when nothing more will happen by itself."""

    p50: int | None
    p90: int | None
    reason: str = ""


def expected_starts(
    state: State,
    job_ids: Collection[str],
    predictions: Mapping[str, Prediction],
    *,
    horizon_seconds: int = HORIZON_SECONDS,
    passes_max: int = PASSES_MAX,
) -> dict[str, Expected]:
    """The expected start of each of these waiting jobs. `predictions` are of all jobs, waiting and running; without one a job
    takes all the time that it may, and for ever where it may."""
    found: list[dict[str, int]] = []
    reasons: dict[str, str] = {}
    for typical in (True, False):
        ahead = _Ahead(state, predictions, typical=typical)
        found.append(ahead.run(set(job_ids), state.at + horizon_seconds, passes_max))
        reasons |= ahead.reasons
    soon, late = found
    answer: dict[str, Expected] = {}
    for job_id in sorted(job_ids):
        early, cautious = soon.get(job_id), late.get(job_id)
        if early is not None and cautious is not None and cautious < early:
            early, cautious = cautious, early
        answer[job_id] = Expected(early, cautious, reasons.get(job_id, "") if early is None or cautious is None else "")
    return answer


class _Ahead:
    """One run forward."""

    def __init__(self, state: State, predictions: Mapping[str, Prediction], *, typical: bool) -> None:
        self.core: Core = build(replace(state, policy=replace(state.policy, evens=False, moves=0)))
        self.at = state.at
        self.reasons: dict[str, str] = {}
        self._predictions = predictions
        self._typical = typical
        self._grace = state.policy.grace_seconds
        self._turn: dict[str, int] = {}
        self._events: list[tuple[int, int, str, int]] = []
        for one in self.core.running.values():
            if one.job.id in self.core.transfers:
                continue
            if one.is_leaving:
                self._push(self.at + self._grace, GONE, one.job.id)
            else:
                self._push(self._end_of(one), END, one.job.id)

    def run(self, wanted: set[str], until: int, passes_max: int) -> dict[str, int]:
        """The starts of those who are wanted, by the core as it would decide."""
        found: dict[str, int] = {}
        now, passes = self.at, 0
        while True:
            if passes >= passes_max:
                return self._stop(wanted, "passes", found)
            passes += 1
            for one in self.core.decide(now):
                if isinstance(one, Admit):
                    if one.id in wanted:
                        wanted.discard(one.id)
                        found[one.id] = now
                    self._push(self._end_of(self.core.running[one.id]), END, one.id)
                elif isinstance(one, Evict):
                    self._push(now + self._grace, GONE, one.id)
                elif isinstance(one, Claim) and not self.core.transfers[one.id].leaving:
                    self._push(now + 1, GONE, "")
            if not wanted:
                return found
            moment = self._next(now)
            if moment is None:
                return self._stop(wanted, "", found)
            if moment > until:
                return self._stop(wanted, "horizon", found)
            now = moment
            while self._events and self._events[0][0] <= now:
                self._happen(*heapq.heappop(self._events)[1:])

    def _next(self, now: int) -> int | None:
        ring = self.core.next_ring
        moments = [max(ring, now + 1)] if ring is not None and self._has_future() else []
        if self._events:
            moments.append(max(self._events[0][0], now))
        return min(moments, default=None)

    def _has_future(self) -> bool:
        return bool(self.core.ordering) or self.core.is_anybody_aside

    def _happen(self, kind: int, job_id: str, turn: int) -> None:
        one = self.core.running.get(job_id)
        if one is None or self._turn.get(job_id, 0) != turn:
            return
        self._turn[job_id] = turn + 1
        self.core.ended(job_id)
        if kind == GONE:
            self.core.submit(one.job)  # Evicted: it waits again.

    def _push(self, at: int | None, kind: int, job_id: str) -> None:
        if kind == GONE:
            self._turn[job_id] = self._turn.get(job_id, 0) + 1
        if at is not None:
            heapq.heappush(self._events, (at, kind, job_id, self._turn.get(job_id, 0)))

    def _end_of(self, one: Running) -> int | None:
        """When it ends; None: never, as far as anybody knows."""
        lasts = self._lasts(one.job)
        if lasts is None:
            return None
        ran = self.core.now - one.started_at if one.started_at <= self.core.now else 0
        if ran >= lasts:
            lasts = ran + max(1, ran // 2 if self._typical else 2 * ran)
        if one.job.max_runtime is not None:
            lasts = min(lasts, one.job.max_runtime)
        return max(one.started_at + lasts, self.core.now + 1)

    def _lasts(self, job: Job) -> int | None:
        known = self._predictions.get(job.id)
        if known is None:
            return job.max_runtime
        lasts = known.typical if self._typical else known.cautious
        return lasts if job.max_runtime is None else min(lasts, job.max_runtime)

    def _stop(self, wanted: Collection[str], reason: str, found: dict[str, int]) -> dict[str, int]:
        for job_id in wanted:
            why = self.core.why(job_id)
            self.reasons[job_id] = reason or (why.code if why is not None else "unknown")
        return found
