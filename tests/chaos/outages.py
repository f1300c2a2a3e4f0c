"""For how long nobody was served, by the fault that it began with, and whether it took a hand to end it. Plain arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

BEFORE_SECONDS = 3.0  # A gap is noticed a little after the fault, and a fault is written down a little after it was done.
SLOW_SECONDS = 2.0  # Submissions that are promised sooner were served.

Span = tuple[float, float]  # Seconds since the epoch.


@dataclass
class Outage:
    """All gaps that began with one kind of fault."""

    gaps: int = 0
    seconds: float = 0.0
    longest: float = 0.0
    by_hand: int = 0  # Of them ended only after something was started again from outside.
    by_hand_seconds: float = 0.0

    def add(self, span: Span, *, is_by_hand: bool) -> None:
        seconds = span[1] - span[0]
        self.gaps += 1
        self.seconds += seconds
        self.longest = max(self.longest, seconds)
        self.by_hand += is_by_hand
        self.by_hand_seconds += seconds if is_by_hand else 0.0

    def as_dict(self) -> dict[str, Any]:
        return {
            "gaps": self.gaps, "seconds": round(self.seconds, 2), "longest_seconds": round(self.longest, 2),
            "ended_by_hand": self.by_hand, "ended_by_hand_seconds": round(self.by_hand_seconds, 2),
        }  # fmt: skip


@dataclass(frozen=True)
class Service:
    """What did not answer, and when something was started by hand."""

    address: Sequence[Span] = ()  # While `/livez` did not answer.
    submissions: Sequence[Span] = ()  # While no submission was promised.
    hands: Sequence[float] = field(default_factory=tuple)

    def by_fault(self, faults: Sequence[tuple[float, str]]) -> dict[str, dict[str, Any]]:
        """By kind of fault, those with the most seconds first; `none` where nothing was broken just before."""
        return {
            "address": _by_fault(self.address, faults, self.hands),
            "submissions": _by_fault(self.submissions, faults, self.hands),
        }


def slow_spans(acked: Sequence[tuple[float, float]]) -> list[Span]:
    """Times in which a submission waited for its promise for longer than it should, joined where they overlap.

    `acked` has for each submission when it was first sent and how many seconds later it was promised.
    """
    spans: list[Span] = []
    for began, seconds in sorted(acked):
        if seconds <= SLOW_SECONDS:
            continue
        if spans and began <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], began + seconds))
        else:
            spans.append((began, began + seconds))
    return spans


def _by_fault(spans: Sequence[Span], faults: Sequence[tuple[float, str]], hands: Sequence[float]) -> dict[str, Any]:
    found: dict[str, Outage] = {}
    for span in spans:
        # The first fault around the moment from which there was no answer: the others came to what was broken already.
        before = [what for at, what in sorted(faults) if span[0] - BEFORE_SECONDS <= at <= span[0] + BEFORE_SECONDS]
        is_by_hand = any(span[0] - BEFORE_SECONDS <= at <= span[1] for at in hands)
        found.setdefault(before[0] if before else "none", Outage()).add(span, is_by_hand=is_by_hand)
    ordered = sorted(found.items(), key=lambda item: -item[1].seconds)
    return {what: outage.as_dict() for what, outage in ordered}
