"""What did not fit since room was last given back: most of a long queue is answered from here.

Room only shrinks between two gives. So an ask that needs at least as much in every way as one that was refused is refused too,
and as many tasks of it or more. A give makes an entry void when a task of it fits on the machine that got more room; until then
it stands, because no other machine can take more of it than before.

Only gangs whose tasks are equal and may stand anywhere are remembered: for these, whether all fit is a matter of counting, and
does not depend on which machines are taken first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jobs.scheduling.core.place.filters import Refusal, Shape, refusal
from jobs.scheduling.core.place.machines import MachineClass, TaskAsk

ENTRIES_MAX = 48  # Comparing with as many costs about what one search does.
EXPLAINED_MAX = 4096  # More different asks than any queue that we have seen; they are forgotten together.


@dataclass(frozen=True, slots=True)
class Refused:
    """So many tasks of this did not fit; how many did, and what kept the next one out."""

    shape: Shape
    count: int
    fitting: int
    refusals: tuple[Refusal, ...]


class RefusedAsks:
    """The memory of one pool: what was searched for in vain, and beside it what was refused because of that, explained."""

    __slots__ = ("_entries", "_explained", "_seen")

    def __init__(self) -> None:
        self._entries: dict[TaskAsk, Refused] = {}
        self._explained: dict[TaskAsk, tuple[Refused, Refused]] = {}
        self._seen = 0

    def copy(self) -> RefusedAsks:
        """The same to come back to. Explanations hold amounts of the moment and are left behind."""
        other = RefusedAsks()
        other._entries = dict(self._entries)
        other._seen = self._seen
        return other

    def catch_up(self, given: list[MachineClass], *, may_clear: bool) -> None:
        """Drop what may fit again after these gives."""
        if self._seen < len(given):
            changed = set(given[self._seen :])
            kept = {ask: entry for ask, entry in self._entries.items() if all(refusal(one, entry.shape) for one in changed)}
            if len(kept) < len(self._entries):
                self._explained = {ask: pair for ask, pair in self._explained.items() if kept.get(pair[0].shape.ask) is pair[0]}
                self._entries = kept
            self._seen = len(given)
        if may_clear and given:
            given.clear()
            self._seen = 0

    def find(self, ask: TaskAsk, count: int, explain: Callable[[], Refused]) -> Refused | None:
        """Why so many tasks of this ask cannot fit, if that follows from what was refused; `explain` counts for a larger ask."""
        own = self._entries.get(ask)
        if own is not None and own.count <= count:
            return own
        known = self._explained.get(ask)
        if known is not None and known[0].count <= count:
            return known[1]
        for other, entry in self._entries.items():
            if entry.count <= count and needs_as_much(ask, other):
                explained = explain()
                if len(self._explained) >= EXPLAINED_MAX:
                    self._explained.clear()
                self._explained[ask] = (entry, explained)
                return explained
        return None

    def remember(self, ask: TaskAsk, entry: Refused) -> None:
        """Keep what was searched for in vain; what needs at least as much need not be kept as well."""
        for other, known in list(self._entries.items()):
            if known.count >= entry.count and needs_as_much(other, ask):
                self._forget(other)
        if len(self._entries) >= ENTRIES_MAX:
            self._forget(next(iter(self._entries)))
        self._entries[ask] = entry

    def _forget(self, ask: TaskAsk) -> None:
        gone = self._entries.pop(ask)
        self._explained = {each: pair for each, pair in self._explained.items() if pair[0] is not gone}


def needs_as_much(ask: TaskAsk, other: TaskAsk) -> bool:
    """Whether every machine that takes n tasks of `ask` takes n of `other`."""
    if ask.cpu_millis < other.cpu_millis or ask.memory_bytes < other.memory_bytes or ask.gpu_millis < other.gpu_millis:
        return False
    if other.gpu_millis:
        if ask.is_share != other.is_share:  # A pool may lend whole devices and no shares.
            return False
        if other.models and not (ask.models and ask.models <= other.models):
            return False
    return (
        (not other.exclusive or ask.exclusive)
        and ask.tolerates <= other.tolerates
        and (not other.needs or set(other.needs) <= set(ask.needs))
    )
