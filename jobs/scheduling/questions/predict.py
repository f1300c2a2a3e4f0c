"""How long a job will run, from how long jobs like it ran: jobs of the same user and name, else jobs of about the same size, of
the same user, else of the same queue, else of all users.

A new name says nothing by itself: a user's short tests say nothing about a long run on eight GPUs. So the jobs that stand in
for it have about its size, by GPUs and by the time asked for, each rounded to a power; where no job is alike nothing is
predicted.

People ask for many times what they use, and mostly run the same thing again. So of the nearest kind that has run often enough,
the mean of the last two runs is the typical time where these two agree, and the median of the last runs where they do not; nine
in ten of them kept within the cautious time. For a job that runs already only runs that lasted longer count: a job that has run
for long will mostly run for long. Seconds are whole, and the same history gives the same answer.

`Corrections` compares expected and actual starts, by band of wait: each start that came later than expected lengthens the next
expected waits of its band, each that came in time shortens them, in proportions at which half come by the p50 and nine in ten
by the p90.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

KEPT = 64  # Runs that are remembered of each kind: enough for a p90, and few enough to follow changes.
OBSERVED = 5_000  # Waits that are compared.
BANDS = (600, 3_600, 21_600)
"""Where bands of wait end, in seconds; the last has no end."""
MIDDLES = (150, 1_500, 9_000, 60_000)
"""A wait of each band to which the correction of that band applies as it is; between two of them it is interpolated."""
STEP_P50, STEP_P90 = 0.005, 0.03
"""By how much one start corrects the expected waits after it, as a logarithm. Measured on Philly: with a larger step the p50
follows each burst and errs by twice as much."""
LATE_P50, LATE_P90 = 0.5, 0.08
"""The part of starts that may come later. Below a tenth for the p90, because the starts of a burst are late together, and only
those after it are corrected by them."""
FIRST_P90 = 0.5
"""The correction of each p90 before anything is known, as a logarithm. By sampled run times alone 76 % start in time on
Philly."""
ERRORS_LEAST, ERRORS_KEPT = 50, 200  # Starts of a band from which its error is known, and how many of the latest count.
NEAR, ERROR_MAX = (3, 4), 600
"""Likely starts of a band are shown only where this part of the latest was off by at most this many thousandths of the wait.
The median error alone is not enough: most errors come from a few bursts, each of which is all near or all far off, so that the
recent median says little of the next (bench/RESULTS.md, P9)."""
FACTOR_LOG_MAX = 5.0
LEAST_SECONDS = 60  # A shorter expected wait is corrected as if it were this long.
KINDS_MAX = 200_000  # Kinds that are remembered; beyond that the kind with the oldest latest run is forgotten.
AGREE = 2  # Two runs agree where the longer is at most this many times the shorter.
ENOUGH = (2, 4, 4, 1)  # Runs that each kind needs, nearest first.
NINE_TENTHS = (9, 10)
BASES = ("name", "user", "queue", "all")

Kind = tuple[str, ...]


class EndedRun(NamedTuple):
    """A run that ended by itself: how long it ran, and when it ended."""

    seconds: int
    ended_at: int


class Prediction(NamedTuple):
    """How long a job runs, in seconds: typically, and nine times in ten. `basis`: the kind of runs that it rests on, `runs`:
    how many."""

    typical: int
    cautious: int
    basis: str
    runs: int


class Predictor:
    """Ended runs, by kind. `user`, `name` and `queue` are any words that stay the same."""

    def __init__(self) -> None:
        self._runs: dict[Kind, deque[EndedRun]] = {}
        self.count = 0

    def add(self, *, user: str, name: str, queue: str, seconds: int, size: str = "", ended_at: int = 0) -> None:
        """A job ended by itself after `seconds`. `size` is that of `size_of`. To be called in the order of ends."""
        self.count += 1
        for kind in kinds_of(user, name, queue, size):
            runs = self._runs.pop(kind, None)
            if runs is None:
                runs = deque(maxlen=KEPT)
            runs.append(EndedRun(max(0, seconds), ended_at))
            self._runs[kind] = runs  # At the end: the first kinds have the oldest latest runs.
        while len(self._runs) > KINDS_MAX:
            del self._runs[next(iter(self._runs))]

    def runs(self, kind: Kind) -> tuple[EndedRun, ...]:
        """The latest runs of a kind, oldest first."""
        return tuple(self._runs.get(kind, ()))

    def predict(
        self, *, user: str, name: str, queue: str, longest: int | None = None, ran: int = 0, size: str = ""
    ) -> Prediction | None:
        """How long a job will run in all, at most `longest`, that has run for `ran` seconds; None where nothing is known."""
        for basis, kind, enough in zip(BASES, kinds_of(user, name, queue, size), ENOUGH, strict=True):
            runs = [run.seconds for run in self._runs.get(kind, ()) if not ran or run.seconds > ran]
            if len(runs) >= enough:
                typical, cautious = _typical(runs) if not ran else sorted(runs)[len(runs) // 2], _cautious(runs)
                if longest is not None:
                    typical, cautious = min(typical, longest), min(cautious, longest)
                return Prediction(typical, max(typical, cautious), basis, len(runs))
        if ran and self._runs:  # Longer than all known runs: half will run twice as long, a tenth ten times.
            return Prediction(_least(2 * ran, longest), _least(10 * ran, longest), "ran", 0)
        return None if longest is None else Prediction(longest, longest, "asked", 0)


class Corrections:
    """Factors of expected waits, by band, and the errors of the expectations that were shown. Expectations are to be added in
    the order in which they were made, so that the same history corrects alike."""

    def __init__(self) -> None:
        self._typical = [0.0] * len(MIDDLES)  # Logarithms of factors.
        self._cautious = [FIRST_P90] * len(MIDDLES)
        self._begun: set[int] = set()  # The bands of which a p90 was corrected.
        self._errors: list[deque[int]] = [deque(maxlen=ERRORS_KEPT) for _ in MIDDLES]

    def add(self, *, typical: int, cautious: int, kept_by: int, waited: int, has_started: bool, sure: int | None = None) -> None:
        """A job with these expected waits, uncorrected, has waited for `waited` seconds, and has started or not. A job that
        still waits counts once it is late.

        `kept_by`: the cautious wait that was shown. `sure`: the corrected likely wait, where the look ahead was sure of it,
        whether it was shown or not.

        The p90 is corrected by whether the shown one was kept, so that it holds in the long run whatever changes; the p50,
        which is not always shown, by what it would be by now."""
        if cautious > 0 and kept_by > 0:
            begins = math.log(kept_by / max(LEAST_SECONDS, cautious))  # A forgotten correction goes on from there.
            for at, _ in _weights(cautious):
                if at not in self._begun:
                    self._begun.add(at)
                    self._cautious[at] = begins
        _follow(self._typical, typical, waited > _times(typical, self._typical), has_started, STEP_P50, LATE_P50)
        _follow(self._cautious, cautious, waited > kept_by, has_started, STEP_P90, LATE_P90)
        if sure is not None and has_started:
            self._errors[band_of(sure)].append(abs(waited - sure) * 1000 // max(LEAST_SECONDS, waited))

    def correct(self, *, typical: int, cautious: int) -> tuple[int, int]:
        """The corrected waits, likely and cautious."""
        soon = _times(typical, self._typical)
        return soon, max(soon, _times(cautious, self._cautious))

    def error(self, sure: int) -> int | None:
        """The median error of recent likely waits of this band, in thousandths of the actual wait. None: too few have started."""
        return self._error(sure, (1, 2))

    def is_near(self, sure: int) -> bool:
        """Whether recent likely waits of this band were near enough to show this one. False where too few have started."""
        error = self._error(sure, NEAR)
        return error is not None and error <= ERROR_MAX

    def _error(self, sure: int, part: tuple[int, int]) -> int | None:
        errors = sorted(self._errors[band_of(sure)])
        return errors[len(errors) * part[0] // part[1]] if len(errors) >= ERRORS_LEAST else None


def band_of(wait: int) -> int:
    """The number of the band of a wait in seconds."""
    return sum(wait >= end for end in BANDS)


def _weights(wait: int) -> tuple[tuple[int, float], ...]:
    """The numbers of the corrections that apply to a wait, each with its weight."""
    at = bisect_right(MIDDLES, wait)
    if at in (0, len(MIDDLES)):
        return ((max(0, at - 1), 1.0),)
    part = math.log(wait / MIDDLES[at - 1]) / math.log(MIDDLES[at] / MIDDLES[at - 1])
    return ((at - 1, 1 - part), (at, part))


def _follow(factors: list[float], expected: int, is_late: bool, has_started: bool, step: float, late: float) -> None:
    """Correct the factors by a start that came in time or late. `late`: the part of starts that may come late."""
    if is_late or has_started:
        for at, part in _weights(expected):
            moved = factors[at] + part * step * ((1 - late) if is_late else -late)
            factors[at] = min(FACTOR_LOG_MAX, max(-FACTOR_LOG_MAX, moved))


def _times(wait: int, factors: Sequence[float]) -> int:
    """A corrected wait. 0 stays 0: the job starts at once; a wait of less than a minute counts as a minute."""
    if wait <= 0:
        return 0
    return round(max(LEAST_SECONDS, wait) * math.exp(sum(factors[at] * part for at, part in _weights(wait))))


def _least(seconds: int, longest: int | None) -> int:
    return seconds if longest is None else min(seconds, longest)


def size_of(gpu_millis: int, longest: int | None) -> str:
    """The size by which jobs stand in for each other: GPUs to the next power of two, the time asked for to the next of four."""
    gpus = (-(-gpu_millis // 1000) - 1).bit_length() + 1 if gpu_millis > 0 else 0
    return f"{gpus}/{'-' if longest is None else longest.bit_length() // 2}"


def kinds_of(user: str, name: str, queue: str, size: str) -> tuple[Kind, ...]:
    """The kinds of a job, nearest first."""
    return (("name", queue, user, name), ("user", queue, user, size), ("queue", queue, size), ("all", size))


def _typical(runs: list[int]) -> int:
    last, before = runs[-1], runs[-2] if len(runs) > 1 else runs[-1]
    if max(last, before) <= AGREE * min(last, before):
        return (last + before) // 2
    return sorted(runs)[len(runs) // 2]


def _cautious(runs: list[int]) -> int:
    ordered = sorted(runs)
    return ordered[min(len(ordered) - 1, len(ordered) * NINE_TENTHS[0] // NINE_TENTHS[1])]
