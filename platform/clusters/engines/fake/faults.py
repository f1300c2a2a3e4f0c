"""Faults on demand: what a real cluster does only when it hurts. Each is set for the next calls of one verb."""

from __future__ import annotations

from collections import Counter

from clusters.engines.interface import EngineUnreachable


class Faults:
    """`verb` is a method name of the engine, or `*` for all."""

    def __init__(self) -> None:
        self._before: Counter[str] = Counter()
        self._after: Counter[str] = Counter()
        self._incomplete = 0
        self.calls: Counter[str] = Counter()
        self.is_down = False

    def refuse(self, verb: str, times: int = 1) -> None:
        """The next calls do nothing and raise EngineUnreachable."""
        self._before[verb] += times

    def lose_reply(self, verb: str, times: int = 1) -> None:
        """The next calls do their work and then raise EngineUnreachable."""
        self._after[verb] += times

    def observe_partly(self, times: int = 1) -> None:
        """The next observations leave out every second attempt and say that they are not complete."""
        self._incomplete += times

    def enter(self, verb: str) -> None:
        """Called by the engine before it acts."""
        self.calls[verb] += 1
        if self.is_down or _take(self._before, verb):
            raise EngineUnreachable(f"{verb}: no answer")

    def leave(self, verb: str) -> None:
        """Called by the engine after it acted."""
        if _take(self._after, verb):
            raise EngineUnreachable(f"{verb}: the answer was lost")

    def take_incomplete(self) -> bool:
        if self._incomplete:
            self._incomplete -= 1
            return True
        return False


def _take(counter: Counter[str], verb: str) -> bool:
    for name in (verb, "*"):
        if counter[name] > 0:
            counter[name] -= 1
            return True
    return False
