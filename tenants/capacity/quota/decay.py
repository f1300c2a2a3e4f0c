"""Use that fades: a moving average of what a queue held, halved for every half-life, in integers only.

`history(t + n) = history(t) * keep + used * (1 - keep)` with `keep = 2 ** (-n / half_life)`. A queue that holds the same amount
for long has that amount as its history; one that stopped has half of it a half-life later. The factor comes from integer
square roots, so every machine gets the same bytes.
"""

from __future__ import annotations

from math import isqrt

SCALE = 1 << 16  # A history is kept in 65,536ths of the unit of its resource.
_BITS = 62
_ONE = 1 << _BITS
_STEPS = 32  # A half-life is divided by 2**32: times may be cut anywhere, and the parts still add up.
_GONE = 80  # After so many half-lives nothing of an amount below 2**63 * SCALE is left.


def _roots() -> tuple[int, ...]:
    """2 ** -(2 ** -n) for n = 1.._STEPS, in units of _ONE, each the square root of the one before."""
    found, last = [], _ONE >> 1
    for _ in range(_STEPS):
        last = isqrt(last << _BITS)
        found.append(last)
    return tuple(found)


_ROOTS = _roots()


def keep(seconds: int, half_life: int) -> int:
    """The part of an old amount that is left after so many seconds, in units of 2**-62."""
    if seconds <= 0:
        return _ONE
    halvings, rest = divmod(seconds, half_life)
    if halvings >= _GONE:
        return 0
    part = (rest << _STEPS) // half_life
    left = _ONE
    for place, root in enumerate(_ROOTS, start=1):
        if part >> (_STEPS - place) & 1:
            left = left * root >> _BITS
    return left >> halvings


def left(used: int, started_at: int, ended_at: int, at: int, half_life: int) -> int:
    """The history (in 1/SCALE) that holding an amount from one second to another leaves at a later one: for a caller that makes
    a history anew from a ledger. Parts that meet add up to the whole, but for the last digit."""
    if not started_at <= ended_at <= at:
        raise ValueError("a history is made of what began, ended and is over")
    return used * SCALE * (keep(at - ended_at, half_life) - keep(at - started_at, half_life)) >> _BITS


def faded(history: int, used: int, kept: int) -> int:
    """A history (in 1/SCALE) after a time in which `used` was held, for `kept` from `keep`. Between the two, always."""
    now = used * SCALE
    return now + ((history - now) * kept >> _BITS)
