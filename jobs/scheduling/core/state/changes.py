"""Changes since refused jobs were last asked: a mark for each pool and kind of change, which `wakeups.py` reads.

Freed room and limits may help all jobs that wait for a pool. Work that may be evicted from now on helps only jobs that have a
right to its room, so it has marks of its own, which wake only these.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from jobs.scheduling.core.state.user_caps import Place


@dataclass(frozen=True, slots=True)
class Freed:
    """Room or limits of a pool became free: for all jobs that wait for it."""

    pool: int


@dataclass(frozen=True, slots=True)
class Reclaimable:
    """Work that other queues may evict by now: for the queues that hold less of a pool than they deserve."""

    pool: int


@dataclass(frozen=True, slots=True)
class Preemptible:
    """Work that its own queue may evict by now: for the higher priorities of this queue."""

    pool: int
    queue: int
    priority: int


Mark = Freed | Reclaimable | Preemptible


class Changes:
    """Changes that are not handled yet. `marked`: what may help jobs that wait for a pool. `grown`: machines with more room, of
    which the placement cache does not know yet. `given_back`: the places of caps in which less is held."""

    def __init__(self) -> None:
        self.marked: set[Mark] = set()
        self.grown: set[int] = set()
        self.given_back: dict[Place, None] = {}

    def free(self, pools: Iterable[int]) -> None:
        """Limits or room became free in these pools."""
        self.marked.update(map(Freed, pools))

    def note(self, machines: Iterable[int]) -> None:
        """These machines have more room. They are handled together when the next pass begins."""
        self.grown.update(machines)

    def give_back(self, places: Iterable[Place]) -> None:
        """Less is held in these places of caps."""
        self.given_back.update(dict.fromkeys(places))

    def take(self) -> dict[int, set[Mark]]:
        """The marks by pool, lowest first; each is returned once."""
        found: dict[int, set[Mark]] = {pool: set() for pool in sorted({mark.pool for mark in self.marked})}
        for mark in self.marked:
            found[mark.pool].add(mark)
        self.marked.clear()
        return found

    @property
    def is_to_look(self) -> bool:
        """Whether the next pass has changes to handle."""
        return bool(self.marked or self.grown)
