"""How long jobs will last, as samples: each future draws for every job a time from what is known of its kind, given how long it
has run already.

The latest ended runs of a kind of job and its present runs make a life table (Kaplan-Meier with delayed entry): a present run
counts as long as it has run, so a kind with many long runs is not taken for short because only its short ones have ended; and
each run counts only from the age that it had when the window of the table began. The table counts one run more than was seen,
which outlives all others (the chance that the next of n alike is the longest is 1 / (n + 1)), with a Pareto tail of exponent
one: of the runs that lasted longer than any known one, half will last twice as long, a tenth ten times.

The sample comes from the nearest kind of which enough runs lasted for longer than the job has run: its name, else its user, its
queue, all, each of about its size; of the widest the tail is enough. A job of which no kind has ended has no sampled time, and
lasts for its `max_runtime`; without one its end is not known, and the look ahead says so.

Jobs of one kind are not independent, for they are mostly the same program with other parameters: their draws share a part
(`TOGETHER`, a Gaussian copula). Draws are stratified over the futures. All of it depends on the ids of jobs and kinds, the
moment and the number of the future alone, by hashing, in whatever order the jobs are listed.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from statistics import NormalDist
from typing import NamedTuple

from jobs.scheduling.core.snapshot import State
from jobs.scheduling.questions.predict import KEPT, LEAST_SECONDS, EndedRun, Kind, Predictor

TOGETHER = 0.5
"""Correlation of the draws of one kind. Measured on Philly: with 0 only 70 % start by the p90, with 0.6 it is 82 %."""
ENOUGH = 4  # Ends after the present age that a kind needs; the widest needs one.
LONGEST_SECONDS = 100_000_000  # Three years, for a tail that has no end.
DIGEST_BYTES = 8  # Of the hash, for each future; it has 64 at most.
NORMAL = NormalDist()


class KnownJob(NamedTuple):
    """What is known of a waiting or running job: its kinds, nearest first, and the seconds of work that it saved before."""

    kinds: tuple[Kind, ...]
    saved: int = 0


class Table(NamedTuple):
    """The ages at which the runs of a kind ended, in order, the part of all runs left after each, and the greatest age."""

    ends: tuple[int, ...] = ()
    left: tuple[float, ...] = ()
    longest: int = 0

    def draw(self, ran: int, part: float) -> int:
        """The age in seconds at which a job ends that has run for `ran` seconds: the age by which this part (0 to 1) of the
        runs that got so far have ended."""
        first = bisect_right(self.ends, ran)
        now = self.left[first - 1] if first else 1.0
        wanted = (1 - part) * now
        for position in range(first, len(self.ends)):
            if self.left[position] <= wanted:
                return self.ends[position]
        begins, at_last = max(ran, self.longest, LEAST_SECONDS), self.left[-1] if self.left else 1.0
        return max(ran + 1, math.floor(min(LONGEST_SECONDS, begins * at_last / max(1e-9, wanted))))


def life_table(ended: Iterable[EndedRun], running: Iterable[int], at: int) -> Table:
    """The table of one kind. `ended`: its latest runs, oldest first; `running`: the ages of its present runs in seconds.

    Where only the latest runs are remembered, a window begins with the end of the first of them. Runs that ended in that same
    second say nothing within it. Where these are more than half, as after an array whose tasks ended together, there is no
    window, and all runs count from their start."""
    runs = list(ended)
    since = runs[0].ended_at if len(runs) >= KEPT else None
    if since is not None and 2 * sum(run.ended_at <= since for run in runs) > len(runs):
        since = None
    spans = [(0 if since is None else max(0, run.seconds - (run.ended_at - since)), run.seconds) for run in runs]
    alive = [(0 if since is None else max(0, age - max(0, at - since)), age) for age in running]
    entries = sorted(entry for entry, _ in (*spans, *alive))
    exits = sorted(age for _, age in (*spans, *alive))
    ends = sorted(age for entry, age in spans if entry < age or not age)
    left: list[float] = []
    rest = 1.0
    for position, age in enumerate(ends):
        ended_as_old = position - bisect_left(ends, age)
        at_risk = len(exits) - bisect_left(exits, age) - (len(entries) - bisect_left(entries, age) if age else 0) + 1
        rest *= 1 - 1 / (at_risk - ended_as_old)
        left.append(rest)
    return Table(tuple(ends), tuple(left), exits[-1] if exits else 0)


class Lifetimes:
    """The tables of one moment. `known` is of all waiting and running jobs, by id."""

    def __init__(self, state: State, predictor: Predictor, known: Mapping[str, KnownJob]) -> None:
        self.state = state
        self.runs_count = predictor.count
        self._predictor = predictor
        self._known = known
        self._ages = {held.job.id: max(0, state.at - held.started_at) for held in state.running}
        self._running: dict[Kind, list[int]] = {}
        for job_id, age in self._ages.items():
            if job_id in known:
                for kind in known[job_id].kinds:
                    self._running.setdefault(kind, []).append(age + known[job_id].saved)
        self._tables: dict[Kind, Table] = {}

    def futures(self, samples: int) -> list[dict[str, int]]:
        """`samples` futures: by job, how many seconds its attempt lasts from its start. No entry: its `max_runtime`."""
        found: list[dict[str, int]] = [{} for _ in range(samples)]
        strata: dict[Kind, list[float]] = {}
        for job_id, known in self._known.items():
            age = self._ages.get(job_id, 0)
            table = self._table_for(known.kinds, age + known.saved)
            if table is None:
                continue
            own = _strata(job_id, self.state.at, samples)
            kind = known.kinds[0]
            if kind not in strata:
                strata[kind] = _strata("\0".join(kind), self.state.at, samples)
            for future, alone, shared in zip(found, own, strata[kind], strict=True):
                part = NORMAL.cdf(math.sqrt(TOGETHER) * shared + math.sqrt(1 - TOGETHER) * alone)
                future[job_id] = max(age + 1, table.draw(age + known.saved, part) - known.saved)
        return found

    def _table_for(self, kinds: tuple[Kind, ...], ran: int) -> Table | None:
        """The table of the nearest kind with enough ends after that age, else of the widest, which has a tail; None: no job of
        these kinds has ended."""
        table = Table()
        for number, kind in enumerate(kinds, start=1):
            table = self._table(kind)
            if len(table.ends) - bisect_right(table.ends, ran) >= (ENOUGH if number < len(kinds) else 1):
                return table
        return table if table.ends else None

    def _table(self, kind: Kind) -> Table:
        found = self._tables.get(kind)
        if found is None:
            found = life_table(self._predictor.runs(kind), self._running.get(kind, ()), self.state.at)
            self._tables[kind] = found
        return found


def _strata(name: str, at: int, samples: int) -> list[float]:
    """A standard normal number for each future: one from each of `samples` equal parts of the distribution, in an order drawn
    by the name."""
    digest = blake2b(f"{name}/{at}".encode(), digest_size=DIGEST_BYTES * samples).digest()
    order = sorted(range(samples), key=lambda number: digest[DIGEST_BYTES * number : DIGEST_BYTES * (number + 1)])
    return [NORMAL.inv_cdf((place + 0.5) / samples) for place in order]
