"""Where a gang fits best, and why it does not.

`place` holds the whole gang on `machines` when it fits and leaves them as they were when it does not; who decides against a
placement afterwards calls `undo`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from jobs.scheduling.machines import Machine, Machines, TaskAsk

TOGETHER = ("", "pack", "spread", "island", "switch", "rack")


@dataclass(frozen=True, slots=True)
class RoleAsk:
    """`minimum` to `maximum` equal tasks. `pool` None: where the rest of the gang goes."""

    role: str
    ask: TaskAsk
    minimum: int
    maximum: int
    together: str = ""  # pack: near one another; spread: apart; island, switch, rack: only within one. Empty: as the gang.
    pool: int | None = None
    image: str = ""  # Digest; a machine that has it is preferred.
    data: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class GangAsk:
    """All roles of a job, which start together or not at all."""

    roles: tuple[RoleAsk, ...]
    together: str = ""


@dataclass(frozen=True, slots=True)
class PlacedTask:
    role: str
    index: int
    machine: int
    ask: TaskAsk
    devices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Placed:
    """Where each task of the gang goes. `hops` is the longest way between two of its tasks (see `topology.py`)."""

    pool: int
    tasks: tuple[PlacedTask, ...]
    hops: int = 0


@dataclass(frozen=True, slots=True)
class Refusal:
    """How many machines one filter kept out; `need` is what a task asks for there, `best` the most that any of them had."""

    code: str
    machines: int
    need: int = 0
    best: int = 0


@dataclass(frozen=True, slots=True)
class Unplaced:
    """Why the gang fits nowhere: the pool and role where it came furthest, how many tasks of the role did fit, who refused the next."""

    code: str
    pool: int
    role: str
    needed: int
    fitting: int
    refusals: tuple[Refusal, ...] = field(default=())


def place(gang: GangAsk, machines: Machines, pools: Sequence[int]) -> Placed | Unplaced:
    """Hold the gang in the first of these pools that takes all of it, at its largest size there; else say why in none."""
    furthest: Unplaced | None = None
    for pool in pools:
        answer = _place_in(gang, machines, pool)
        if isinstance(answer, Placed):
            return answer
        if furthest is None or answer.fitting > furthest.fitting:
            furthest = answer
    return furthest or Unplaced("no_pool", -1, gang.roles[0].role if gang.roles else "", 0, 0)


def undo(placed: Placed, machines: Machines) -> None:
    """Give back all that `place` took."""
    for task in placed.tasks:
        machines.give(task.machine, task.ask, task.devices)


def _place_in(gang: GangAsk, machines: Machines, pool: int) -> Placed | Unplaced:
    tasks: list[PlacedTask] = []
    for role in sorted(gang.roles, key=lambda one: (-one.ask.gpu_millis, -one.ask.cpu_millis, -one.ask.memory_bytes, one.role)):
        for index in range(role.maximum):
            machine = _first(role.ask, machines, pool if role.pool is None else role.pool)
            if machine is None:
                if index >= role.minimum:
                    break
                undo(Placed(pool, tuple(tasks)), machines)
                return Unplaced("no_room", pool, role.role, role.minimum, index)
            tasks.append(PlacedTask(role.role, index, machine, role.ask, machines.take(machine, role.ask)))
    return Placed(pool, tuple(tasks))


def _first(ask: TaskAsk, machines: Machines, pool: int) -> int | None:
    for index, machine in enumerate(machines.at):
        if machine.pool == pool and _allows(ask, machine, machines) and _fits(ask, machines, index):
            return index
    return None


def _allows(ask: TaskAsk, machine: Machine, machines: Machines) -> bool:
    rules = machines.rules.get(machine.pool)
    return (
        not machine.blocked
        and (not ask.gpu_millis or not ask.models or machine.model in ask.models)
        and all(machine.labels.get(label) in values for label, values in ask.needs)
        and machine.taints <= ask.tolerates
        and (not ask.is_share or (rules is not None and rules.shares))
        and (not ask.exclusive or machine.exclusive)
    )


def _fits(ask: TaskAsk, machines: Machines, index: int) -> bool:
    left = machines.left(index)
    if ask.cpu_millis > left.cpu_millis or ask.memory_bytes > left.memory_bytes:
        return False
    each = min(ask.gpu_millis, 1000)
    fitting = sum(one >= each for one in machines.devices_left(index)) if each else 0
    return fitting >= -(-ask.gpu_millis // 1000)
