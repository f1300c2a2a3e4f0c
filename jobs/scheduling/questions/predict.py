"""How long a job will run, from how long others like it ran: those of the same user and name, else those that ask for about as
much and as long, of the same user, else of the same queue, else of anybody.

A new name says nothing by itself: a user's short tests tell nothing of a long run on eight GPUs. So what stands in for it is
alike in size, by GPUs and by the time that was asked for, each to about the next power; where nothing is alike nothing is
predicted.

People ask for many times what they use, and mostly run the same thing again. So of the nearest kind that has run often enough,
the mean of the last two runs is the typical time where these two agree, and the median of the last ones where they do not; the
cautious time is one that nine in ten of them kept within. Of what runs already only those that ran for longer count: what has
run for long will mostly run for long. Seconds are whole, and the same history gives the same answer.

What was expected and what came are compared by `Corrections`, by band of wait: each that came later than expected lengthens the
next of its band, each that came in time shortens them, in proportions at which half come by the p50 and nine in ten by the p90.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

KEPT = 64  # Runs that are remembered of each kind: enough for a tenth at the top, and soon rid of how it was.
OBSERVED = 5_000  # Waits that are compared.
BANDS = (600, 3_600, 21_600)
"""Where bands of wait end, in seconds; the last has no end."""
MIDDLES = (150, 1_500, 9_000, 60_000)
"""A wait of each band to which the correction of that band applies as it is; between two of them it is interpolated."""
STEP_P50, STEP_P90 = 0.005, 0.03
"""By how much one start corrects those after it, as a logarithm. Measured on Philly: faster, the p50 follows each burst and
errs by twice as much."""
LATE_P50, LATE_P90 = 0.5, 0.08
"""The part of starts that may come later. Below a tenth for the p90, because the starts of a burst are late together, and only
those after it are corrected by them."""
FIRST_P90 = 0.5
"""The correction of each p90 before anything is known, as a logarithm. By sampled run times alone 76 % start in time on
Philly."""
ERRORS_LEAST, ERRORS_KEPT = 50, 200  # Starts of a band from which on its error is known, and the latest, which it is of.
NEAR, ERROR_MAX = (3, 4), 600
"""The part of these likely starts that was off by so many thousandths of the wait at most, or no likely start of the band is
told. Not the middle one alone: most errors come from a few bursts, each of which is all near or all far off, so that the middle
one of late says little of the next (bench/RESULTS.md, P9)."""
FACTOR_LOG_MAX = 5.0
LEAST_SECONDS = 60  # A wait that is expected shorter is corrected as if it were so long.
KINDS_MAX = 200_000  # Kinds that are remembered; then those that were not added to for longest are forgotten.
AGREE = 2  # Two runs agree where the longer is at most so many times the shorter.
ENOUGH = (2, 4, 4, 1)  # Runs that each kind needs, nearest first.
NINE_TENTHS = (9, 10)
BASES = ("name", "user", "queue", "all")

Kind = tuple[str, ...]


class Run(NamedTuple):
    """One that came to its end by itself: how long it ran, and when it ended."""

    seconds: int
    ended_at: int


class Prediction(NamedTuple):
    """How long: typically, and by nine in ten. `basis` is how near those are that it goes by, `runs` how many they are."""

    typical: int
    cautious: int
    basis: str
    runs: int


class Predictor:
    """What ran, by kind. `user`, `name` and `queue` are any words that stay the same."""

    def __init__(self) -> None:
        self._runs: dict[Kind, deque[Run]] = {}
        self.count = 0

    def add(self, *, user: str, name: str, queue: str, seconds: int, size: str = "", ended_at: int = 0) -> None:
        """A job came to its end by itself, after so long. `size` is that of `size_of`. To be told in the order of ends."""
        self.count += 1
        for kind in kinds_of(user, name, queue, size):
            runs = self._runs.pop(kind, None)
            if runs is None:
                runs = deque(maxlen=KEPT)
            runs.append(Run(max(0, seconds), ended_at))
            self._runs[kind] = runs  # Behind all others: the first are those that nothing was added to for longest.
        while len(self._runs) > KINDS_MAX:
            del self._runs[next(iter(self._runs))]

    def runs(self, kind: Kind) -> tuple[Run, ...]:
        """The latest runs of a kind, oldest first."""
        return tuple(self._runs.get(kind, ()))

    def predict(
        self, *, user: str, name: str, queue: str, longest: int | None = None, ran: int = 0, size: str = ""
    ) -> Prediction | None:
        """How long it will run in all, never above `longest`, when it ran for so long already; None where nothing is known."""
        for basis, kind, enough in zip(BASES, kinds_of(user, name, queue, size), ENOUGH, strict=True):
            runs = [run.seconds for run in self._runs.get(kind, ()) if not ran or run.seconds > ran]
            if len(runs) >= enough:
                typical, cautious = _typical(runs) if not ran else sorted(runs)[len(runs) // 2], _cautious(runs)
                if longest is not None:
                    typical, cautious = min(typical, longest), min(cautious, longest)
                return Prediction(typical, max(typical, cautious), basis, len(runs))
        if ran and self._runs:  # Longer than all that is known: as likely as not it is half through, and one in ten ten times.
            return Prediction(_least(2 * ran, longest), _least(10 * ran, longest), "ran", 0)
        return None if longest is None else Prediction(longest, longest, "asked", 0)


class Corrections:
    """By what expected waits are multiplied, by their band, and how far off those were that were told. To be told of what was
    expected in the order in which that was said, so that the same history corrects alike."""

    def __init__(self) -> None:
        self._typical = [0.0] * len(MIDDLES)  # Logarithms of factors.
        self._cautious = [FIRST_P90] * len(MIDDLES)
        self._begun: set[int] = set()  # The numbers of corrections of the p90 that something is known of.
        self._errors: list[deque[int]] = [deque(maxlen=ERRORS_KEPT) for _ in MIDDLES]

    def add(self, *, typical: int, cautious: int, kept_by: int, waited: int, has_started: bool, sure: int | None = None) -> None:
        """A job of which these waits were expected, uncorrected, has waited for so long, and has started or not. A job that
        still waits counts once it is late.

        `kept_by`: the cautious wait that was told. `sure`: the corrected likely wait, where the look ahead was sure of it,
        whether it was told or not.

        The p90 is corrected by whether what was told was kept, so that it holds in the long run whatever changes; the p50,
        which is not always told, by what it would be by now."""
        if cautious > 0 and kept_by > 0:
            begins = math.log(
                kept_by / max(LEAST_SECONDS, cautious)
            )  # What was corrected by what is forgotten goes on from there.
            for at, _ in _weights(cautious):
                if at not in self._begun:
                    self._begun.add(at)
                    self._cautious[at] = begins
        _follow(self._typical, typical, waited > _times(typical, self._typical), has_started, STEP_P50, LATE_P50)
        _follow(self._cautious, cautious, waited > kept_by, has_started, STEP_P90, LATE_P90)
        if sure is not None and has_started:
            self._errors[band_of(sure)].append(abs(waited - sure) * 1000 // max(LEAST_SECONDS, waited))

    def correct(self, *, typical: int, cautious: int) -> tuple[int, int]:
        """The waits to tell."""
        soon = _times(typical, self._typical)
        return soon, max(soon, _times(cautious, self._cautious))

    def error(self, sure: int) -> int | None:
        """How far off likely waits of this band were of late, in thousandths of the wait that came: the middle one. None: too
        few have started to say."""
        return self._error(sure, (1, 2))

    def is_near(self, sure: int) -> bool:
        """Whether likely waits of this band came true well enough of late for this one to be told. Not where too few have
        started to say."""
        error = self._error(sure, NEAR)
        return error is not None and error <= ERROR_MAX

    def _error(self, sure: int, part: tuple[int, int]) -> int | None:
        errors = sorted(self._errors[band_of(sure)])
        return errors[len(errors) * part[0] // part[1]] if len(errors) >= ERRORS_LEAST else None


def band_of(wait: int) -> int:
    """Of a wait in seconds, the number of its band."""
    return sum(wait >= end for end in BANDS)


def _weights(wait: int) -> tuple[tuple[int, float], ...]:
    """The corrections that apply to a wait, by their number, each with its part."""
    at = bisect_right(MIDDLES, wait)
    if at in (0, len(MIDDLES)):
        return ((max(0, at - 1), 1.0),)
    part = math.log(wait / MIDDLES[at - 1]) / math.log(MIDDLES[at] / MIDDLES[at - 1])
    return ((at - 1, 1 - part), (at, part))


def _follow(factors: list[float], expected: int, is_late: bool, has_started: bool, step: float, late: float) -> None:
    """One more start that came in time or late; `late` is the part that may."""
    if is_late or has_started:
        for at, part in _weights(expected):
            moved = factors[at] + part * step * ((1 - late) if is_late else -late)
            factors[at] = min(FACTOR_LOG_MAX, max(-FACTOR_LOG_MAX, moved))


def _times(wait: int, factors: Sequence[float]) -> int:
    """A wait corrected. None stays none: it starts in this moment; one that is shorter than a minute counts as a minute."""
    if wait <= 0:
        return 0
    return round(max(LEAST_SECONDS, wait) * math.exp(sum(factors[at] * part for at, part in _weights(wait))))


def _least(seconds: int, longest: int | None) -> int:
    return seconds if longest is None else min(seconds, longest)


def size_of(gpu_millis: int, longest: int | None) -> str:
    """What jobs must have in common to stand in for one another: GPUs to the next power of two, the time asked for to that of
    four."""
    gpus = (-(-gpu_millis // 1000) - 1).bit_length() + 1 if gpu_millis > 0 else 0
    return f"{gpus}/{'-' if longest is None else longest.bit_length() // 2}"


def kinds_of(user: str, name: str, queue: str, size: str) -> tuple[Kind, ...]:
    """The kinds that a job is of, nearest first."""
    return (("name", queue, user, name), ("user", queue, user, size), ("queue", queue, size), ("all", size))


def _typical(runs: list[int]) -> int:
    last, before = runs[-1], runs[-2] if len(runs) > 1 else runs[-1]
    if max(last, before) <= AGREE * min(last, before):
        return (last + before) // 2
    return sorted(runs)[len(runs) // 2]


def _cautious(runs: list[int]) -> int:
    ordered = sorted(runs)
    return ordered[min(len(ordered) - 1, len(ordered) * NINE_TENTHS[0] // NINE_TENTHS[1])]
