"""What changed since those that were refused were looked at: marks by pool, which `wakeups.py` reads."""

from __future__ import annotations

from collections.abc import Iterable

from jobs.scheduling.core.state.user_caps import Place


class Changes:
    """`marked`: pools in which something was freed. `grown`: machines with more room, of which the placement cache does not know
    yet. `given_back`: where users hold less."""

    def __init__(self) -> None:
        self.marked: set[int] = set()
        self.grown: set[int] = set()
        self.given_back: dict[Place, None] = {}

    def mark(self, pools: Iterable[int]) -> None:
        """Something was freed in these pools: limits, room, or work that may be evicted by now."""
        self.marked.update(pools)

    def note(self, machines: Iterable[int]) -> None:
        """There is more room on these machines, which is looked at once the next pass begins: until then there may be many."""
        self.grown.update(machines)

    def give_back(self, places: Iterable[Place]) -> None:
        """Less is held there of what caps on users allow."""
        self.given_back.update(dict.fromkeys(places))

    @property
    def is_to_look(self) -> bool:
        """Whether the next pass will look at a pool, whatever happens before."""
        return bool(self.marked or self.grown)
