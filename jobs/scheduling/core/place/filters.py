"""What a machine must have before a task may go there: one filter each, with its code and numbers.

The filters are asked in a fixed order, from what never changes to what comes and goes, and the first that refuses a machine is
named as its reason: memory is never said to be short on a machine of the wrong model. They look at a class of
machines, so that a thousand equal machines are refused once and counted a thousand times.

Ports need no filter: an engine gives every task its own. Volumes of one writer, and whose tenant may run in a pool, are the
caller's: they are a matter of the pool, not of a machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from jobs.lifecycle.filter_words import FilterCode
from jobs.scheduling.core.place.machines import WHOLE_MILLIS, MachineClass, MachineKind, TaskAsk

FILTERS = (
    FilterCode.BLOCKED,
    FilterCode.GPU_MODEL,
    FilterCode.LABEL,
    FilterCode.TAINT,
    FilterCode.SHARES_NOT_ALLOWED,
    FilterCode.EXCLUSIVE_CORES,
    FilterCode.GPU,
    FilterCode.GPU_SHARE,
    FilterCode.GPU_SHARE_GUARD,
    FilterCode.CPU,
    FilterCode.MEMORY,
    FilterCode.TASKS,
)
"""The order in which they are asked. What each of them says stands in `jobs/lifecycle/filter_words.py`."""
if len(FILTERS) != len(set(FILTERS)) or set(FILTERS) != set(FilterCode):
    raise TypeError("every filter has one place in the order in which they are asked")
_UNBOUNDED = 1 << 30


@dataclass(frozen=True, slots=True)
class Refusal:
    """How many machines one filter kept out. Where it compares amounts: `need` is what one task asks for there, `best` the most
    that any of them has left, `never` how many of them would refuse even when they are empty."""

    code: FilterCode
    machines: int
    need: int = 0
    best: int = 0
    never: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class TaskShape:
    """An ask made ready for comparing. `joining`: a share that may not open another whole device."""

    ask: TaskAsk
    bits: int
    shares: bool
    joining: bool
    whole: int  # Whole devices.
    share: int  # Part of one device; 0 for whole devices or none.

    @classmethod
    def of(cls, ask: TaskAsk, *, bits: int, shares: bool, joining: bool = False) -> TaskShape:
        share = ask.gpu_millis if ask.is_share else 0
        return cls(ask, bits, shares, joining, 0 if share else ask.gpu_millis // WHOLE_MILLIS, share)


def refusal(machine_class: MachineClass, shape: TaskShape) -> FilterCode | None:
    """The code of the first filter that keeps the task out; None when it may go there."""
    kind, ask = machine_class.kind, shape.ask
    refused = refusal_of_kind(kind, shape)
    if refused:
        return refused
    if shape.whole:
        if shape.whole > machine_class.whole:
            return FilterCode.GPU
    elif shape.share:
        if not shape.shares:
            return FilterCode.SHARES_NOT_ALLOWED
        if not machine_class.devices or machine_class.devices[-1] < shape.share:
            return FilterCode.GPU_SHARE
        if shape.joining and not (machine_class.partial and machine_class.partial[-1] >= shape.share):
            return FilterCode.GPU_SHARE_GUARD
    if ask.cpu_millis > machine_class.cpu:
        return FilterCode.CPU
    if ask.memory_bytes > machine_class.memory:
        return FilterCode.MEMORY
    if machine_class.tasks is not None and machine_class.tasks < 1:
        return FilterCode.TASKS
    return None


def refusal_of_kind(kind: MachineKind, shape: TaskShape) -> FilterCode | None:
    """The code of the first filter that keeps the task out of such machines even where nothing is taken of them."""
    ask = shape.ask
    if kind.blocked:
        return FilterCode.BLOCKED
    if ask.models and ask.gpu_millis and kind.model not in ask.models:
        return FilterCode.GPU_MODEL
    if kind.meets & shape.bits != shape.bits:
        return FilterCode.LABEL
    if kind.taints and not kind.taints <= ask.tolerates:
        return FilterCode.TAINT
    if ask.exclusive and not kind.exclusive:
        return FilterCode.EXCLUSIVE_CORES
    return None


def copies(machine_class: MachineClass, shape: TaskShape) -> int:
    """How many such tasks one machine of the class takes now. With nothing asked for there is no bound but a large number."""
    if refusal(machine_class, shape):
        return 0
    ask = shape.ask
    most = _UNBOUNDED
    if ask.cpu_millis:
        most = machine_class.cpu // ask.cpu_millis
    if ask.memory_bytes:
        most = min(most, machine_class.memory // ask.memory_bytes)
    if shape.whole:
        most = min(most, machine_class.whole // shape.whole)
    elif shape.share:
        devices = machine_class.partial if shape.joining else machine_class.devices
        most = min(most, sum(left // shape.share for left in devices if left > 0))
    return most if machine_class.tasks is None else min(most, machine_class.tasks)


Kept = tuple[FilterCode, int, bool]
"""By which filter a class is kept out, what it has left of what that compares, and whether it would be when it is empty, too."""


def tally(classes: Iterable[MachineClass], shape: TaskShape, cache: dict[MachineClass, Kept | None]) -> tuple[Refusal, ...]:
    """Which filter kept out how many of these machines, in the order of the filters. `cache` keeps the answer of each."""
    rows: dict[FilterCode, list[int]] = {}
    need = {
        FilterCode.GPU: shape.whole * WHOLE_MILLIS,
        FilterCode.GPU_SHARE: shape.share,
        FilterCode.GPU_SHARE_GUARD: shape.share,
        FilterCode.CPU: shape.ask.cpu_millis,
        FilterCode.MEMORY: shape.ask.memory_bytes,
        FilterCode.TASKS: 1,
    }
    for machine_class in classes:
        try:
            kept = cache[machine_class]
        except KeyError:
            code = refusal(machine_class, shape)
            left, ever = _amounts(machine_class, code) if code else (0, 0)
            kept = cache[machine_class] = (code, left, ever < need.get(code, 0)) if code else None
        if kept is not None:
            row, many = rows.setdefault(kept[0], [0, 0, 0]), len(machine_class.members)
            row[0] += many
            row[1] = max(row[1], kept[1])
            row[2] += many if kept[2] else 0
    return tuple(Refusal(code, rows[code][0], need.get(code, 0), *rows[code][1:]) for code in FILTERS if code in rows)


def _amounts(machine_class: MachineClass, code: FilterCode) -> tuple[int, int]:
    """What a machine has left of what the filter compares, and what it has when it is empty."""
    if code is FilterCode.GPU:
        return machine_class.whole * WHOLE_MILLIS, machine_class.kind.gpus * WHOLE_MILLIS
    if code is FilterCode.GPU_SHARE:
        return max(machine_class.devices, default=0), WHOLE_MILLIS if machine_class.kind.gpus else 0
    if code is FilterCode.GPU_SHARE_GUARD:
        return max(machine_class.partial, default=0), WHOLE_MILLIS
    if code is FilterCode.CPU:
        return machine_class.cpu, machine_class.kind.cpu_millis
    if code is FilterCode.MEMORY:
        return machine_class.memory, machine_class.kind.memory_bytes
    if code is FilterCode.TASKS:
        return max(0, machine_class.tasks or 0), machine_class.kind.tasks_max or 0
    return 0, 0
