"""What there is and what is free: the machines of a pass, and the only thing that changes while it runs.

Machines are numbered by (pool, name), so that every answer is the same in whatever order they were given. `take` and `give` are
exact inverses; they record what is and never refuse, because a node may have shrunk below what runs on it. Deciding what fits
is the business of `placing.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kernel.resources import Resources

WHOLE_MILLIS = 1000


@dataclass(frozen=True, slots=True)
class Machine:
    """A node as the core sees it. `pool` is the index of its pool; `gpus` counts whole devices, all of one `model`."""

    name: str
    pool: int
    cpu_millis: int
    memory_bytes: int
    gpus: int = 0
    model: str = ""
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)  # Also where it stands: island, switch, rack.
    taints: frozenset[str] = frozenset()
    blocked: str = ""  # Why nothing may start there; empty when something may.
    exclusive: bool = False  # Whether tasks may have cores of their own there.
    images: frozenset[str] = frozenset()  # Digests that are there already.
    data: frozenset[str] = frozenset()  # Datasets that are there already.


@dataclass(frozen=True, slots=True)
class TaskAsk:
    """What one task needs of one machine; equal asks meet the same fate.

    `gpu_millis` below 1000 is a share of one device, else a multiple of 1000. `needs` are labels with the values accepted, in
    order of the label. `models` empty accepts any.
    """

    cpu_millis: int
    memory_bytes: int
    gpu_millis: int = 0
    models: frozenset[str] = frozenset()
    needs: tuple[tuple[str, frozenset[str]], ...] = ()
    tolerates: frozenset[str] = frozenset()
    exclusive: bool = False

    @property
    def is_share(self) -> bool:
        return 0 < self.gpu_millis < WHOLE_MILLIS

    @property
    def resources(self) -> Resources:
        return Resources(self.cpu_millis, self.memory_bytes, self.gpu_millis)


@dataclass(frozen=True, slots=True)
class PoolRules:
    """How one pool wants to be filled. `policy`: fragmentation, pack, spread or ratio. `shares`: whether parts of a GPU are lent."""

    policy: str = "ratio"
    shares: bool = False


class Machines:
    """All machines with what is left of each."""

    def __init__(self, machines: Iterable[Machine], rules: Mapping[int, PoolRules] | None = None) -> None:
        self.at = tuple(sorted(machines, key=lambda one: (one.pool, one.name)))
        self.rules = dict(rules or {})
        self._index = {(one.pool, one.name): index for index, one in enumerate(self.at)}
        self._cpu = [one.cpu_millis for one in self.at]
        self._memory = [one.memory_bytes for one in self.at]
        self._devices = [[WHOLE_MILLIS] * one.gpus for one in self.at]

    def find(self, pool: int, name: str) -> int | None:
        """The number of a machine, by which all else goes; None when there is none of that name."""
        return self._index.get((pool, name))

    def left(self, machine: int) -> Resources:
        return Resources(self._cpu[machine], self._memory[machine], sum(self._devices[machine]))

    def devices_left(self, machine: int) -> tuple[int, ...]:
        """What is left of each device, in thousandths."""
        return tuple(self._devices[machine])

    def free(self, pool: int) -> Resources:
        """What is left on the machines of a pool on which something may start."""
        cpu = memory = gpu = 0
        for index, one in enumerate(self.at):
            if one.pool == pool and not one.blocked:
                cpu += self._cpu[index]
                memory += self._memory[index]
                gpu += sum(self._devices[index])
        return Resources(cpu, memory, gpu)

    def take(self, machine: int, ask: TaskAsk, devices: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """Hold what one task needs; returns the devices that it got, to be handed to `give`. `devices` None: the fullest that fit."""
        chosen = self._choose(machine, ask) if devices is None else devices
        self._change(machine, ask, chosen, -1)
        return chosen

    def give(self, machine: int, ask: TaskAsk, devices: tuple[int, ...]) -> None:
        """The exact inverse of the `take` that returned these devices."""
        self._change(machine, ask, devices, 1)

    def _choose(self, machine: int, ask: TaskAsk) -> tuple[int, ...]:
        left = self._devices[machine]
        if not ask.gpu_millis or not left:
            return ()
        each = min(ask.gpu_millis, WHOLE_MILLIS)
        order = sorted(range(len(left)), key=lambda device: (left[device] < each, left[device], device))
        return tuple(sorted(order[: max(1, ask.gpu_millis // WHOLE_MILLIS)]))

    def _change(self, machine: int, ask: TaskAsk, devices: tuple[int, ...], sign: int) -> None:
        self._cpu[machine] += sign * ask.cpu_millis
        self._memory[machine] += sign * ask.memory_bytes
        each = min(ask.gpu_millis, WHOLE_MILLIS)
        for device in devices:
            self._devices[machine][device] += sign * each
