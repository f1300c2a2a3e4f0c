"""What did not fit since room was last given back: most of a long queue is answered from here.

Room only shrinks between two gives. So an ask that needs at least as much in every way as one that was refused is refused too,
and as many tasks of it or more. A give makes an entry void when a task of it fits on the machine that got more room; until then
it stands, because no other machine can take more of it than before.

Only gangs whose tasks are equal and may stand anywhere are remembered: for these, whether all fit is a matter of counting, and
does not depend on which machines are taken first.
"""

from __future__ import annotations

from dataclasses import dataclass

from jobs.scheduling.filters import Refusal, Shape, refusal
from jobs.scheduling.machines import MachineClass, TaskAsk

ENTRIES_MAX = 48  # Comparing with as many costs about what one search does.


@dataclass(frozen=True, slots=True)
class Refused:
    """So many tasks of this did not fit; how many did, and what kept the next one out."""

    shape: Shape
    count: int
    fitting: int
    refusals: tuple[Refusal, ...]


class RefusedAsks:
    """The memory of one pool."""

    __slots__ = ("_entries", "_seen")

    def __init__(self) -> None:
        self._entries: dict[TaskAsk, Refused] = {}
        self._seen = 0

    def copy(self) -> RefusedAsks:
        other = RefusedAsks()
        other._entries = dict(self._entries)
        other._seen = self._seen
        return other

    def catch_up(self, given: list[MachineClass], *, may_clear: bool) -> None:
        """Drop what may fit again after these gives."""
        if self._seen < len(given):
            changed = set(given[self._seen :])
            self._entries = {
                ask: entry for ask, entry in self._entries.items() if all(refusal(one, entry.shape) for one in changed)
            }
            self._seen = len(given)
        if may_clear and given:
            given.clear()
            self._seen = 0

    def find(self, ask: TaskAsk, count: int) -> Refused | None:
        """An entry by which so many tasks of this ask cannot fit: its own, else that of a smaller one."""
        own = self._entries.get(ask)
        if own is not None and own.count <= count:
            return own
        for other, entry in self._entries.items():
            if entry.count <= count and needs_as_much(ask, other):
                return entry
        return None

    def remember(self, ask: TaskAsk, entry: Refused) -> None:
        own = self._entries.get(ask)
        if own is None or entry.count <= own.count:
            self._entries.pop(ask, None)
            self._entries[ask] = entry
        if len(self._entries) > ENTRIES_MAX:
            del self._entries[next(iter(self._entries))]


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
