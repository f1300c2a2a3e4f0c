"""When waiting jobs will start: the core that schedules, run forward from the present state into several sampled futures.

In each future every job lasts for a time drawn from what is known of its kind (`lifetimes.py`). All futures begin with the same
state, so all rules are in them: limits, fair order, evictions, bookings, reserved starts. The starts of a job in them are a
sample whose quantiles are shown: the median, and the p90. Where the sampled waits are far apart (`SURE`), the median says
little, and only the p90 is shown.

Two things are left out: what the scheduler does once a minute for refused jobs (`rebalance.py`), which costs too much to repeat
for every moment to come, and jobs that have not been submitted yet. Arrivals drawn from each tenant's last days took ten times
as long on Philly, those of the next hour alone half as long again, and gave no better quantiles (bench/RESULTS.md, P9); their
delay is corrected by how past expectations came true (`predict.py`).

The work is bounded by a horizon, the number of futures, and the passes of each (`Effort`). A job that does not start within
these bounds in too many futures for a quantile to be known gets no time but the reason; so does a job that waits for something
which no end of another job brings.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from jobs.lifecycle.wait_reasons import WAITS
from jobs.scheduling.core.core import Core
from jobs.scheduling.core.snapshot import State, build
from jobs.scheduling.core.state.decisions import Admit, Claim, Evict
from jobs.scheduling.core.state.reservation import grace_of
from jobs.scheduling.core.state.work import Running
from jobs.scheduling.questions.predict import LEAST_SECONDS

HORIZON_SECONDS = 14 * 86_400
END, GONE = range(2)


class Effort(NamedTuple):
    """How much work a look ahead may be: the number of futures, and of passes of each.

    `rounding`: each end is rounded to a power of two seconds of at most this part of the time until then, up as often as down.
    With 4 a run time is off by an eighth at most, and many ends share a pass, which costs about as much for ten ends as for
    one. A wake-up that the core sets itself, such as the moment from which an eviction is allowed, comes late by half of that
    part at most. 0: not rounded."""

    futures: int
    passes: int
    rounding: int = 0


SMALL_JOBS = 1_000  # Jobs that wait or run.
SMALL, LARGE = Effort(futures=8, passes=750), Effort(futures=4, passes=200, rounding=4)
"""The effort in the background, for up to `SMALL_JOBS` and up to `LARGE_JOBS`. Eight futures: sixteen took twice as long on
Philly and gave no better quantiles. CPU times are in bench/RESULTS.md, P9."""
LARGE_JOBS = 20_000
ASKED_SMALL, ASKED_LARGE = Effort(futures=4, passes=200), Effort(futures=4, passes=50, rounding=4)
"""The same in a request, which asks for one job, up to `SMALL_JOBS` and up to `ASKED_JOBS`."""
ASKED_JOBS = 3_000
UNKNOWN_ENDS = "unknown_ends"
"""Why no start is expected: jobs that the job waits for have no known end. No job like them has ended, and they have no
`max_runtime`."""
UNCERTAIN = "uncertain"
"""Why only the p90 is shown: the sampled waits are too far apart for a median to mean something."""
SURE = 3
"""How many times the shortest sampled wait the longest may be for a median to be shown. With 2 or 1.5 fewer were shown on
Philly, and those were no better (bench/RESULTS.md, P9)."""


class StartForecast(NamedTuple):
    """When a job starts: the median, and the p90. None: not within the bounds of the look ahead, and `reason` says why:
    `horizon`, `passes`, or what the job waits for when nothing more will happen by itself. `is_sure`: show the p50, too."""

    p50: int | None
    p90: int | None
    reason: str = ""
    is_sure: bool = True


def expected_starts(
    state: State,
    job_ids: Collection[str],
    futures: Sequence[Mapping[str, int]],
    effort: Effort,
    *,
    horizon_seconds: int = HORIZON_SECONDS,
) -> dict[str, StartForecast]:
    """The expected start of each of these waiting jobs. Each of the `futures` has, by job that waits or runs, how many seconds
    its attempt lasts from its start; a job without an entry takes its `max_runtime`, and without one its end is not known."""
    starts: dict[str, list[int]] = {job_id: [] for job_id in sorted(job_ids)}
    reasons: dict[str, str] = {}
    for lasts in futures:
        ahead = _Ahead(state, lasts, effort.rounding)
        for job_id, at in ahead.run(set(starts), state.at + horizon_seconds, effort.passes).items():
            starts[job_id].append(at - state.at)
        reasons = ahead.reasons | reasons
    return {job_id: _expected(state.at, sorted(waits), len(futures), reasons.get(job_id, "")) for job_id, waits in starts.items()}


def _expected(at: int, waits: Sequence[int], samples: int, reason: str) -> StartForecast:
    """The quantiles of sorted waits; samples that are missing count as longer than all."""
    median, most = quantile(waits, samples, 1, 2), quantile(waits, samples, 9, 10)
    if median is None or most is None:
        return StartForecast(None, None, reason, is_sure=False)
    is_sure = len(waits) == samples and waits[-1] <= SURE * max(waits[0], LEAST_SECONDS)
    return StartForecast(at + median, at + most, "", is_sure)


def quantile(ordered: Sequence[int], samples: int, part: int, of: int) -> int | None:
    """The value below which `part` of `of` samples lie, interpolated between two of them; None where it is not known."""
    place = max(0, min((2 * samples * part - of), 2 * of * (samples - 1)))  # From the first sample, in units of 1 / (2 x of).
    lower, rest = divmod(place, 2 * of)
    if lower + (rest > 0) >= len(ordered):
        return None
    return ordered[lower] + ((ordered[lower + 1] - ordered[lower]) * rest // (2 * of) if rest else 0)


def effort_of(jobs: int, *, is_asked: bool = False) -> Effort | None:
    """The effort for this number of waiting and running jobs, in the background or in a request; None: too many jobs."""
    if jobs > (ASKED_JOBS if is_asked else LARGE_JOBS):
        return None
    small, large = (ASKED_SMALL, ASKED_LARGE) if is_asked else (SMALL, LARGE)
    return small if jobs <= SMALL_JOBS else large


class _Ahead:
    """One future: the core run forward until the wanted jobs have started or a bound is reached."""

    def __init__(self, state: State, lasts: Mapping[str, int], rounding: int) -> None:
        self.core: Core = build(replace(state, policy=replace(state.policy, rebalances=False, migrations=0)))
        self.at = state.at
        self.reasons: dict[str, str] = {}
        self._lasts = dict(lasts)
        self._rounding = rounding
        self._turn: dict[str, int] = {}
        self._events: list[tuple[int, int, str, int]] = []
        for running in self.core.running.values():
            if running.job.id in self.core.transfers:
                continue
            if running.is_leaving:
                self._push(self.at + self._grace_of(running.job.id), GONE, running.job.id)
            else:
                self._push(self._end_of(running), END, running.job.id)

    def run(self, wanted: set[str], until: int, passes_max: int) -> dict[str, int]:
        """The starts of the wanted jobs, as the core decides them."""
        found: dict[str, int] = {}
        now, passes = self.at, 0
        while True:
            if passes >= passes_max:
                return self._stop(wanted, "passes", found)
            passes += 1
            for decision in self.core.decide(now):
                if isinstance(decision, Admit):
                    if decision.id in wanted:
                        wanted.discard(decision.id)
                        found[decision.id] = now
                    self._push(self._end_of(self.core.running[decision.id]), END, decision.id)
                elif isinstance(decision, Evict):
                    self._save(decision.id, now)
                    self._push(now + self._grace_of(decision.id), GONE, decision.id)
                elif isinstance(decision, Claim) and not self.core.transfers[decision.id].leaving:
                    self._push(now + 1, GONE, "")
            if not wanted:
                return found
            moment = self._next(now)
            if moment is None:
                return self._stop(wanted, "", found)
            if moment > until:  # Without known ends only new plans still come.
                return self._stop(wanted, "" if self._has_unknown_ends() and not self._events else "horizon", found)
            now = moment
            while self._events and self._events[0][0] <= now:
                self._happen(*heapq.heappop(self._events)[1:])

    def _next(self, now: int) -> int | None:
        wakeup_at, pause = self.core.next_pass_at, (now - self.at) // (2 * self._rounding) if self._rounding else 0
        moments = [max(wakeup_at, now + 1, now + pause)] if wakeup_at is not None and self._has_future() else []
        if self._events:
            moments.append(max(self._events[0][0], now))
        return min(moments, default=None)

    def _has_future(self) -> bool:
        return bool(self.core.ordering) or self.core.is_anybody_aside

    def _happen(self, kind: int, job_id: str, turn: int) -> None:
        running = self.core.running.get(job_id)
        if running is None or self._turn.get(job_id, 0) != turn:
            return
        self._turn[job_id] = turn + 1
        self.core.ended(job_id)
        if kind == GONE:
            self.core.submit(running.job)  # Evicted: it waits again.

    def _push(self, at: int | None, kind: int, job_id: str) -> None:
        if kind == GONE:
            self._turn[job_id] = self._turn.get(job_id, 0) + 1
        if at is not None:
            heapq.heappush(self._events, (at, kind, job_id, self._turn.get(job_id, 0)))

    def _grace_of(self, job_id: str) -> int:
        return grace_of(self.core.running[job_id].job, self.core.policy)

    def _save(self, job_id: str, now: int) -> None:
        """An evicted job goes on later from its last checkpoint."""
        running = self.core.running.get(job_id)
        if running is not None and job_id in self._lasts and running.job.checkpoint_seconds:
            self._lasts[job_id] = max(1, self._lasts[job_id] - max(0, running.saved_at(now) - running.started_at))

    def _end_of(self, running: Running) -> int | None:
        """When a running gang ends; None: not known."""
        lasts, most = self._lasts.get(running.job.id), running.job.max_runtime
        if lasts is None or (most is not None and most < lasts):
            lasts = most
        return (
            None if lasts is None else rounded(max(running.started_at + lasts, self.core.now + 1), self.core.now, self._rounding)
        )

    def _has_unknown_ends(self) -> bool:
        return any(self._end_of(running) is None for running in self.core.running.values())

    def _stop(self, wanted: Collection[str], reason: str, found: dict[str, int]) -> dict[str, int]:
        has_unknown_ends = self._has_unknown_ends()
        for job_id in wanted:
            why = self.core.why(job_id)
            code = str(why.code) if why is not None else "unknown"
            is_possible = why is not None and WAITS[why.code].ends_help and not 0 < why.limit < why.need
            self.reasons[job_id] = reason or (UNKNOWN_ENDS if has_unknown_ends and is_possible else code)
        return found


def rounded(end: int, now: int, rounding: int) -> int:
    """An end after `now`, rounded to the nearest multiple of the step that `Effort` describes."""
    step = 1 << max(1, (end - now) // rounding).bit_length() - 1 if rounding else 1
    return (end + step // 2) // step * step
