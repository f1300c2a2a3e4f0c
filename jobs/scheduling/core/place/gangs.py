"""What is asked of `place`, and what it answers: gangs of roles, where their tasks go, or why they go nowhere."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from jobs.lifecycle.wait_reasons import WAITS
from jobs.scheduling.core.place.filters import Refusal
from jobs.scheduling.core.place.machines import TaskAsk
from jobs.scheduling.core.place.ranking import ScoreRow
from kernel.wait_codes import WaitCode

PACK, SPREAD = "pack", "spread"


@dataclass(frozen=True, slots=True)
class RoleAsk:
    """`minimum` to `maximum` equal tasks. `pool` None: where the rest of the gang goes.

    `together`: `pack` near one another, `spread` apart, both as far as possible; a level of the pool (`island`, `switch`,
    `rack`): only within one of these. Empty: as the gang says, and near the other roles that say nothing.
    """

    role: str
    ask: TaskAsk
    minimum: int
    maximum: int
    together: str = ""
    pool: int | None = None
    image: str = ""  # Digest; a machine that has it is preferred.
    data: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class GangAsk:
    """All roles of a job, which start together or not at all."""

    roles: tuple[RoleAsk, ...]
    together: str = ""

    def __post_init__(self) -> None:
        assert len({role.role for role in self.roles}) == len(self.roles), "two roles of one gang have one name"


@dataclass(frozen=True, slots=True)
class PlacedTask:
    role: str
    index: int
    machine: int
    ask: TaskAsk
    devices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Placed:
    """Where each task of the gang goes.

    `hops` is the longest way between two of its tasks (`topology.py`). `tables` has for the first task of each role the scores
    of the machine that was chosen and of the next best.
    """

    pool: int
    tasks: tuple[PlacedTask, ...]
    hops: int = 0
    tables: tuple[tuple[str, tuple[ScoreRow, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Unplaced:
    """Why the gang fits nowhere: in the pool where it came furthest, `fitting` of the `needed` tasks of a role fitted.

    `code` is `no_pool` (none was given), `no_machine` (no machine of the pool could take a task of the role even when it is
    empty), `no_room` (it has to wait), or `not_together` (there is room for all, but not near enough to one another).
    `refusals` say what keeps a task out of how many machines.
    """

    code: WaitCode
    pool: int
    role: str
    needed: int
    fitting: int
    refusals: tuple[Refusal, ...] = ()

    @property
    def stage(self) -> int:
        """How far the gang came; it does not depend on amounts."""
        return WAITS[self.code].stage


def at_least(gang: GangAsk) -> GangAsk:
    """The same gang at its smallest."""
    if all(role.minimum == role.maximum for role in gang.roles):
        return gang
    return replace(gang, roles=tuple(replace(role, maximum=role.minimum) for role in gang.roles))


def each_asking(gang: GangAsk, **values: Any) -> GangAsk:
    """The same gang, with these values in the ask of every task."""
    return replace(gang, roles=tuple(replace(role, ask=replace(role.ask, **values)) for role in gang.roles))
