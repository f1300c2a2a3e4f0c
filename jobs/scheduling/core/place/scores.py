"""The score of a machine for a task, in whole numbers: 0 to 10000 for each term, more is better, times the pool's weight for it.

| term | a machine scores well when |
|---|---|
| fragmentation | it spoils least idle GPU for the mix that the pool usually gets (Weng et al., FGD, ATC'23) |
| pack | least is left on it afterwards, against the largest machine of the pool (best fit) |
| spread | most is left on it afterwards |
| ratio | the lowest part of what it has is taken afterwards |
| balanced | its CPU, memory and GPUs are taken in equal parts afterwards |
| taints | it has no taint that asks to be avoided |
| image, data | the image, or the datasets, are there already; these two count for one machine, all others for its whole class |

How near to each other the tasks of a gang go is not a score: `placing.py` looks for the nearest domain that holds all of them,
and the scores choose within it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import mul
from typing import NamedTuple

from jobs.scheduling.core.place.filters import TaskShape
from jobs.scheduling.core.place.machines import WHOLE_MILLIS, MachineClass, TaskAsk
from kernel.resources import Resources

SCALE = 10_000
POLICIES: Mapping[str, Mapping[str, int]] = {
    "fragmentation": {"fragmentation": 100, "balanced": 2, "taints": 200, "image": 10, "data": 20},
    "pack": {"pack": 100, "taints": 200, "image": 10, "data": 20},
    "spread": {"spread": 100, "taints": 200, "image": 10, "data": 20},
    "ratio": {"ratio": 100, "balanced": 10, "taints": 200, "image": 10, "data": 20},
}
TERMS = ("fragmentation", "pack", "spread", "ratio", "balanced", "taints", "image", "data")


class Mix:
    """The usual tasks of a pool with their frequency, by which fragmentation is measured.

    F(machine) = sum over shapes of (how often) x (idle GPU that a task of this shape cannot use): all of it where the shape does
    not fit there or asks for no GPU, else the devices with less left than it asks of a device. Counts stay counts and thousandths
    stay thousandths, so F is a whole number.

    The shortcut: which shapes pass by CPU, memory and model depends on few thresholds, so machines fall into few groups, and in
    a group F is a sum over devices of a function of what is left. F is the same as by the definition (see the property tests).
    """

    def __init__(self, shapes: Iterable[tuple[TaskAsk, int]]) -> None:
        counted: dict[tuple[int, int, int, frozenset[str]], int] = {}
        for ask, often in shapes:
            key = (ask.cpu_millis, ask.memory_bytes, ask.gpu_millis, ask.models)
            counted[key] = counted.get(key, 0) + often
        self.shapes = tuple(sorted(counted.items(), key=lambda entry: (entry[0][:3], sorted(entry[0][3]))))
        self.total = sum(counted.values())
        self._with_gpu = [(key, often) for key, often in self.shapes if key[2]]
        self._cpu = sorted({key[0] for key, _ in self._with_gpu})
        self._memory = sorted({key[1] for key, _ in self._with_gpu})
        self._cpu_pass = [self._mask(lambda key, most=most: key[0] <= most) for most in [-1, *self._cpu]]
        self._memory_pass = [self._mask(lambda key, most=most: key[1] <= most) for most in [-1, *self._memory]]
        self._model_pass: dict[str, int] = {}
        self._groups: dict[int, _Group] = {}

    def __repr__(self) -> str:
        return f"Mix({self.shapes!r})"

    def fragmented(self, model: str, cpu: int, memory: int, whole: int, partial: Iterable[int]) -> int:
        """F of a machine with this much left: `whole` idle devices, and parts of others."""
        group = self.group(model, cpu, memory)
        lost = group.idle(whole)
        for left in partial:
            lost += group.part(left)
        return lost

    def lost(self, machine_class: MachineClass) -> int:
        """F of a machine of a class as it is, kept with the class."""
        known = machine_class.lost.get(self)
        if known is None:
            known = machine_class.lost[self] = self.fragmented(
                machine_class.kind.model, machine_class.cpu, machine_class.memory, machine_class.whole, machine_class.partial
            )
        return known

    def group(self, model: str, cpu: int, memory: int) -> _Group:
        passing = self._model_pass.get(model)
        if passing is None:
            passing = self._model_pass[model] = self._mask(lambda key: not key[3] or model in key[3])
        passing &= self._cpu_pass[bisect_right(self._cpu, cpu)] & self._memory_pass[bisect_right(self._memory, memory)]
        group = self._groups.get(passing)
        if group is None:
            chosen = [entry for index, entry in enumerate(self._with_gpu) if passing >> index & 1]
            group = self._groups[passing] = _Group(self.total, [(key[2], often) for key, often in chosen])
        return group

    def _mask(self, passes: Callable[..., bool]) -> int:
        return sum(1 << index for index, (key, _) in enumerate(self._with_gpu) if passes(key))


class _Group:
    """Idle GPU that is lost on machines on which the same shapes pass by CPU, memory and model."""

    __slots__ = ("_idle", "_larger", "_part", "_shares", "_total", "_wholes")

    def __init__(self, total: int, asks: list[tuple[int, int]]) -> None:
        shares = sorted((millis, often) for millis, often in asks if millis < WHOLE_MILLIS)
        self._wholes = sorted((millis // WHOLE_MILLIS, often) for millis, often in asks if millis >= WHOLE_MILLIS)
        self._total = total - sum(often for _, often in asks)  # Tasks that no device of this machine helps.
        self._shares = [millis for millis, _ in shares]
        self._larger = [sum(often for _, often in shares[index:]) for index in range(len(shares) + 1)]
        self._part: dict[int, int] = {}
        self._idle: dict[int, int] = {}

    def part(self, left: int) -> int:
        """What is lost of a device with this much left: for tasks that need whole devices or larger shares."""
        lost = self._part.get(left)
        if lost is None:
            unserved = self._total + sum(often for _, often in self._wholes)
            lost = self._part[left] = max(0, left) * (unserved + self._larger[bisect_right(self._shares, left)])
        return lost

    def idle(self, whole: int) -> int:
        """What is lost of this many idle devices: for tasks that need more of them."""
        lost = self._idle.get(whole)
        if lost is None:
            more = sum(often for need, often in self._wholes if need > whole)
            lost = self._idle[whole] = whole * WHOLE_MILLIS * (self._total + more)
        return lost


@dataclass(frozen=True, slots=True, eq=False)
class PoolRules:
    """The rules by which a pool is filled.

    `policy` names a row of POLICIES; `weights` change single terms of it. `mix`: the usual tasks, for the term fragmentation;
    without a mix that term is `pack`. `shares`: whether parts of a GPU are lent, and `shared_devices_max` of how many devices at
    most (None: any). `levels`: the labels that say where a machine stands, nearest first. `runners_up`: how many other machines
    the table of a placement shows.
    """

    policy: str = "ratio"
    weights: Mapping[str, int] = field(default_factory=dict)
    mix: Mix | None = None
    shares: bool = False
    shared_devices_max: int | None = None
    levels: tuple[str, ...] = ("island", "switch", "rack")
    runners_up: int = 3

    @property
    def said(self) -> tuple[object, ...]:
        """All rules but the mix and the weights, which change scores alone."""
        return (self.policy, self.shares, self.shared_devices_max, self.levels, self.runners_up)

    def weight(self, term: str) -> int:
        return self.weights.get(term, POLICIES[self.policy].get(term, 0))


class Fit(NamedTuple):
    """The score of a class of machines for a shape. `remainder`: the device that a share takes, by what is left of it. `values`:
    by term."""

    score: int
    remainder: int
    values: tuple[int, ...]


class Scorer:
    """The terms that are the same for a whole class, for one shape in one pool; only for classes that passed the filters."""

    __slots__ = ("_largest", "_mix", "_names", "_shape", "_terms", "_weights")

    def __init__(self, shape: TaskShape, rules: PoolRules, largest: Resources) -> None:
        self._shape = shape
        self._largest = largest
        weights = {name: weight for name in ("fragmentation", *_CLASS_TERMS) if (weight := rules.weight(name))}
        self._mix = rules.mix if rules.mix is not None and rules.mix.total and "fragmentation" in weights else None
        self._names = tuple(weights)
        self._weights = tuple(weights.values())
        self._terms = tuple(_CLASS_TERMS.get(name, _pack) for name in weights if self._mix is None or name != "fragmentation")

    def fit(self, machine_class: MachineClass) -> Fit:
        """The weighted sum, the device, and the value of each term."""
        shape, largest, remainder = self._shape, self._largest, 0
        values = [term(machine_class, shape, largest) for term in self._terms]
        if self._mix is not None:
            value, remainder = gradient_of(machine_class, shape, self._mix)
            values.insert(0, value)
        elif shape.share:
            remainder = tightest(machine_class, shape)
        return Fit(sum(map(mul, self._weights, values)), remainder, tuple(values))

    def terms(self, fit: Fit) -> tuple[tuple[str, int, int], ...]:
        """The terms of the sum for people to read: (term, value, weight)."""
        return tuple(zip(self._names, fit.values, self._weights, strict=True))


def tightest(machine_class: MachineClass, shape: TaskShape) -> int:
    """What is left of the device on which a share fits best."""
    return next(left for left in (machine_class.partial if shape.joining else machine_class.devices) if left >= shape.share)


def gradient_of(machine_class: MachineClass, shape: TaskShape, mix: Mix) -> tuple[int, int]:
    """(value, remainder of the device): half the scale less the thousandths of a GPU that are lost by the task, in expectation.

    The device is that where the loss is least.
    """
    added, remainder = increase(machine_class, shape, mix)
    return SCALE // 2 - added // mix.total, remainder


def increase(machine_class: MachineClass, shape: TaskShape, mix: Mix) -> tuple[int, int]:
    """The growth of F by the task, times the mix's total, and how much is left of the device that it takes."""
    kind, ask = machine_class.kind, shape.ask
    before = mix.lost(machine_class)
    group = mix.group(kind.model, machine_class.cpu - ask.cpu_millis, machine_class.memory - ask.memory_bytes)
    parts = sum(map(group.part, machine_class.partial))
    if not shape.share:
        return parts + group.idle(machine_class.whole - shape.whole) - before, 0
    best: tuple[int, int] | None = None
    unchanged = parts + group.idle(machine_class.whole) - before
    for left in sorted(set(machine_class.partial)):
        if left >= shape.share:
            found = (unchanged - group.part(left) + group.part(left - shape.share), left)
            if best is None or found < best:
                best = found
    if machine_class.whole and not shape.joining:
        added = parts + group.idle(machine_class.whole - 1) + group.part(WHOLE_MILLIS - shape.share) - before
        if best is None or added < best[0]:
            best = (added, WHOLE_MILLIS)
    assert best is not None, "the filters let a share pass that fits on no device"
    return best


def _left_over(machine_class: MachineClass, shape: TaskShape, largest: Resources) -> int:
    """What is left afterwards, relative to the largest machine of the pool: mean of CPU and GPU; in a pool without GPUs of CPU
    and memory."""
    cpu = (machine_class.cpu - shape.ask.cpu_millis) * SCALE // max(1, largest.cpu_millis)
    if largest.gpu_millis:
        return (cpu + (machine_class.gpu - shape.ask.gpu_millis) * SCALE // largest.gpu_millis) // 2
    return (cpu + (machine_class.memory - shape.ask.memory_bytes) * SCALE // max(1, largest.memory_bytes)) // 2


def _pack(machine_class: MachineClass, shape: TaskShape, largest: Resources) -> int:
    return SCALE - _left_over(machine_class, shape, largest)


def _ratios(machine_class: MachineClass, shape: TaskShape) -> list[int]:
    """The part of each resource of the machine that is taken afterwards, in parts of `SCALE`."""
    kind, ask = machine_class.kind, shape.ask
    pairs = (
        (machine_class.cpu - ask.cpu_millis, kind.cpu_millis),
        (machine_class.memory - ask.memory_bytes, kind.memory_bytes),
        (machine_class.gpu - ask.gpu_millis, kind.gpus * WHOLE_MILLIS),
    )
    return [SCALE - left * SCALE // has for left, has in pairs if has]


def _ratio(machine_class: MachineClass, shape: TaskShape, largest: Resources) -> int:
    del largest
    ratios = _ratios(machine_class, shape)
    return SCALE - sum(ratios) // max(1, len(ratios))


def _balanced(machine_class: MachineClass, shape: TaskShape, largest: Resources) -> int:
    del largest
    ratios = _ratios(machine_class, shape) or [0]
    return SCALE - (max(ratios) - min(ratios))


def _taints(machine_class: MachineClass, shape: TaskShape, largest: Resources) -> int:
    del largest
    return SCALE // (1 + len(machine_class.kind.avoid - shape.ask.tolerates)) if machine_class.kind.avoid else SCALE


_CLASS_TERMS: Mapping[str, Callable[[MachineClass, TaskShape, Resources], int]] = {
    "pack": _pack,
    "spread": _left_over,
    "ratio": _ratio,
    "balanced": _balanced,
    "taints": _taints,
}
