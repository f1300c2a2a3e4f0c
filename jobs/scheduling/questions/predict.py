"""How long a job will run, from how long others like it ran: those of the same user and name, else those that ask for about as
much and as long, of the same user, else of the same queue, else of anybody.

A new name says nothing by itself: a user's short tests tell nothing of a long run on eight GPUs. So what stands in for it is
alike in size, by GPUs and by the time that was asked for, each to about the next power; where nothing is alike nothing is
predicted.

People ask for many times what they use, and mostly run the same thing again. So of the nearest kind that has run often enough,
the mean of the last two runs is the typical time where these two agree, and the median of the last ones where they do not; the
cautious time is one that nine in ten of them kept within. Of what runs already only those that ran for longer count: what has
run for long will mostly run for long. Seconds are whole, and the same history gives the same answer.

What was expected and what came are compared by `Corrections`: expected waits are stretched until as many come true as should.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

KEPT = 64  # Runs that are remembered of each kind: enough for a tenth at the top, and soon rid of how it was.
OBSERVED, OBSERVED_LEAST = 512, 20  # Waits that are compared, and how many it takes to correct by them.
RATIO_MAX = 100_000
LEAST_SECONDS = 60  # A wait that is expected shorter is corrected as if it were so long.
KINDS_MAX = 200_000  # Kinds that are remembered; then those that were not added to for longest are forgotten.
AGREE = 2  # Two runs agree where the longer is at most so many times the shorter.
ENOUGH = (2, 4, 4, 1)  # Runs that each kind needs, nearest first.
NINE_TENTHS = (9, 10)
BASES = ("name", "user", "queue", "all")

Kind = tuple[str, ...]


class Prediction(NamedTuple):
    """How long: typically, and by nine in ten. `basis` is how near those are that it goes by, `runs` how many they are."""

    typical: int
    cautious: int
    basis: str
    runs: int


class Predictor:
    """What ran, by kind. `user`, `name` and `queue` are any words that stay the same."""

    def __init__(self) -> None:
        self._runs: dict[Kind, deque[int]] = {}

    def add(self, *, user: str, name: str, queue: str, seconds: int, size: str = "") -> None:
        """A job came to its end by itself, after so long. `size` is that of `size_of`."""
        for kind in _kinds(user, name, queue, size):
            runs = self._runs.pop(kind, None)
            if runs is None:
                runs = deque(maxlen=KEPT)
            runs.append(max(0, seconds))
            self._runs[kind] = runs  # Behind all others: the first are those that nothing was added to for longest.
        while len(self._runs) > KINDS_MAX:
            del self._runs[next(iter(self._runs))]

    def predict(
        self, *, user: str, name: str, queue: str, longest: int | None = None, ran: int = 0, size: str = ""
    ) -> Prediction | None:
        """How long it will run in all, never above `longest`, when it ran for so long already; None where nothing is known."""
        for basis, kind, enough in zip(BASES, _kinds(user, name, queue, size), ENOUGH, strict=True):
            runs = self._runs.get(kind)
            if runs is not None and ran:
                runs = deque(one for one in runs if one > ran)
            if runs is not None and len(runs) >= enough:
                typical, cautious = _typical(runs) if not ran else sorted(runs)[len(runs) // 2], _cautious(runs)
                if longest is not None:
                    typical, cautious = min(typical, longest), min(cautious, longest)
                return Prediction(typical, max(typical, cautious), basis, len(runs))
        if ran and self._runs:  # Longer than all that is known: as likely as not it is half through, and one in ten ten times.
            return Prediction(_least(2 * ran, longest), _least(10 * ran, longest), "ran", 0)
        return None if longest is None else Prediction(longest, longest, "asked", 0)


class Corrections:
    """By how much waits were expected too short or too long of late, in thousandths: the likely one and the cautious one."""

    def __init__(self) -> None:
        self._typical: deque[int] = deque(maxlen=OBSERVED)
        self._cautious: deque[int] = deque(maxlen=OBSERVED)

    def add(self, *, typical: int, cautious: int, actual: int) -> None:
        """Somebody who was told these waits, uncorrected, waited for so long."""
        self._typical.append(min(RATIO_MAX, actual * 1000 // max(LEAST_SECONDS, typical)))
        self._cautious.append(min(RATIO_MAX, actual * 1000 // max(LEAST_SECONDS, cautious)))

    def correct(self, *, typical: int, cautious: int) -> tuple[int, int]:
        """The waits to tell."""
        if len(self._typical) < OBSERVED_LEAST:
            return typical, cautious
        half = sorted(self._typical)[len(self._typical) // 2]
        most = sorted(self._cautious)[len(self._cautious) * NINE_TENTHS[0] // NINE_TENTHS[1]]
        soon = max(LEAST_SECONDS, typical) * half // 1000
        return soon, max(soon, max(LEAST_SECONDS, cautious) * most // 1000)

    def error(self) -> int:
        """How far off waits were that were expected as likely as not, in thousandths of what was expected: the middle one."""
        off = sorted(abs(one - 1000) for one in self._typical)
        return off[len(off) // 2] if off else 0


def _least(seconds: int, longest: int | None) -> int:
    return seconds if longest is None else min(seconds, longest)


def size_of(gpu_millis: int, longest: int | None) -> str:
    """What jobs must have in common to stand in for one another: GPUs to the next power of two, the time asked for to that of
    four."""
    gpus = (-(-gpu_millis // 1000) - 1).bit_length() + 1 if gpu_millis > 0 else 0
    return f"{gpus}/{'-' if longest is None else longest.bit_length() // 2}"


def _kinds(user: str, name: str, queue: str, size: str) -> tuple[Kind, ...]:
    return (("name", queue, user, name), ("user", queue, user, size), ("queue", queue, size), ("all", size))


def _typical(runs: deque[int]) -> int:
    last, before = runs[-1], runs[-2] if len(runs) > 1 else runs[-1]
    if max(last, before) <= AGREE * min(last, before):
        return (last + before) // 2
    return sorted(runs)[len(runs) // 2]


def _cautious(runs: deque[int]) -> int:
    ordered = sorted(runs)
    return ordered[min(len(ordered) - 1, len(ordered) * NINE_TENTHS[0] // NINE_TENTHS[1])]
