"""What may go wrong, where, and how often: drawn from the seed at every crash point, call and message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class Crash(BaseException):
    """The simulated process dies here. Not an Exception: nothing in the product may catch a kill."""


@dataclass(frozen=True, slots=True)
class Dangers:
    """Chances, each per occasion. A run alternates between a storm with these and calm without any."""

    crash: float = 0.0  # Per crash point that is reached.
    pause: float = 0.0  # Per crash point or call outside a transaction: the process sleeps while the world goes on.
    die_paused: float = 0.0  # A paused process never wakes.
    refuse: float = 0.0  # Per call of the engine.
    lose_reply: float = 0.0
    retry: float = 0.0  # Per item of `ensure`, `stop` and `forget`: the engine asks to come again.
    partial: float = 0.0  # Per observation.
    stale: float = 0.0
    lose_message: float = 0.0
    double_message: float = 0.0
    lose_hint: float = 0.0
    flush_broker: float = 0.0  # Per round: all messages and hints are gone.
    kill: float = 0.0  # Per round: a process dies between two steps.
    outage: float = 0.0  # Per round: the engine does not answer for a while.
    lose_node: float = 0.0  # Per round.
    delete: float = 0.0  # Per round: somebody removes an attempt from the engine by hand.
    cut_off: float = 0.0  # Per round: the engine loses contact with an attempt for a while.
    step_clock: float = 0.0  # Per round: a host's clock jumps.
    lost_answer: float = 0.0  # Per request: done, and the client never hears of it.
    leap: float = 0.0  # Per round: everybody sleeps for longer than a lease.


CALM = Dangers()
STORM = Dangers(
    crash=0.012, pause=0.01, die_paused=0.15, refuse=0.015, lose_reply=0.015, retry=0.02, partial=0.05, stale=0.05,
    lose_message=0.05, double_message=0.1, lose_hint=0.1, flush_broker=0.01, kill=0.04, outage=0.015, lose_node=0.01,
    delete=0.01, cut_off=0.02, step_clock=0.02, lost_answer=0.05, leap=0.02,
)  # fmt: skip


class Fates(dict[str, Callable[[], None]]):
    """Takes the place of the crash points' armed actions: every point that is reached asks here what becomes of it."""

    def __init__(self, decide: Callable[[str], Callable[[], None] | None]) -> None:
        super().__init__()
        self._decide = decide
        self.reached: Counter[str] = Counter()
        self.crashed: Counter[str] = Counter()

    def pop(self, name: str, *default: Any) -> Any:
        self.reached[name] += 1
        armed: Callable[[], None] | None = super().pop(name, None)
        return armed or self._decide(name)
