"""What a machine must have before a task may go there: one filter each, with a stable code and numbers.

The filters are asked in a fixed order, from what never changes to what comes and goes, and the first that refuses a machine is
the one that is blamed for it: nobody is told that memory is short on a machine of the wrong model. They look at a class of
machines, so that a thousand equal ones are refused once and counted a thousand times.

Ports need no filter: an engine gives every task its own. Volumes of one writer, and whose tenant may run in a pool, are the
caller's: they are a matter of the pool, not of a machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from jobs.scheduling.core.place.machines import WHOLE_MILLIS, Kind, MachineClass, TaskAsk

# Code -> what it says. The order is the order in which they are asked.
FILTERS = {
    "blocked": "nothing may start on the machine: not ready, or cordoned",
    "gpu_model": "it has not the GPU model that was asked for",
    "label": "it lacks a label that was asked for",
    "taint": "it is kept for others by a taint that the job does not tolerate",
    "shares_not_allowed": "its pool does not lend parts of a GPU",
    "exclusive_cores": "it cannot give cores to one task alone",
    "gpu": "not as many whole GPUs are free on it",
    "gpu_share": "no GPU of it has as large a part free",
    "gpu_share_guard": "as many GPUs of the pool as may be are shared already, and none of this machine's has room",
    "cpu": "not as many cores are free on it",
    "memory": "not as much memory is free on it",
}
_UNBOUNDED = 1 << 30


@dataclass(frozen=True, slots=True)
class Refusal:
    """How many machines one filter kept out. Where it compares amounts: `need` is what one task asks for there, `best` the most
    that any of them has left, `never` how many of them would refuse even when they are empty."""

    code: str
    machines: int
    need: int = 0
    best: int = 0
    never: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """An ask made ready for comparing. `joining`: a share that may not open another whole device."""

    ask: TaskAsk
    bits: int
    shares: bool
    joining: bool
    whole: int  # Whole devices.
    share: int  # Part of one device; 0 for whole ones or none.

    @classmethod
    def of(cls, ask: TaskAsk, *, bits: int, shares: bool, joining: bool = False) -> Shape:
        share = ask.gpu_millis if ask.is_share else 0
        return cls(ask, bits, shares, joining, 0 if share else ask.gpu_millis // WHOLE_MILLIS, share)


def refusal(one: MachineClass, shape: Shape) -> str:
    """The code of the first filter that keeps the task out; empty when it may go there."""
    kind, ask = one.kind, shape.ask
    refused = refusal_of_kind(kind, shape)
    if refused:
        return refused
    if shape.whole:
        if shape.whole > one.whole:
            return "gpu"
    elif shape.share:
        if not shape.shares:
            return "shares_not_allowed"
        if not one.devices or one.devices[-1] < shape.share:
            return "gpu_share"
        if shape.joining and not (one.partial and one.partial[-1] >= shape.share):
            return "gpu_share_guard"
    if ask.cpu_millis > one.cpu:
        return "cpu"
    if ask.memory_bytes > one.memory:
        return "memory"
    return ""


def refusal_of_kind(kind: Kind, shape: Shape) -> str:
    """The code of the first filter that keeps the task out of such machines even where nothing is taken of them."""
    ask = shape.ask
    if kind.blocked:
        return "blocked"
    if ask.models and ask.gpu_millis and kind.model not in ask.models:
        return "gpu_model"
    if kind.meets & shape.bits != shape.bits:
        return "label"
    if kind.taints and not kind.taints <= ask.tolerates:
        return "taint"
    if ask.exclusive and not kind.exclusive:
        return "exclusive_cores"
    return ""


def copies(one: MachineClass, shape: Shape) -> int:
    """How many such tasks one machine of the class takes now. With nothing asked for there is no bound but a large number."""
    if refusal(one, shape):
        return 0
    ask = shape.ask
    most = _UNBOUNDED
    if ask.cpu_millis:
        most = one.cpu // ask.cpu_millis
    if ask.memory_bytes:
        most = min(most, one.memory // ask.memory_bytes)
    if shape.whole:
        most = min(most, one.whole // shape.whole)
    elif shape.share:
        devices = one.partial if shape.joining else one.devices
        most = min(most, sum(left // shape.share for left in devices if left > 0))
    return most


def tally(classes: Iterable[MachineClass], shape: Shape) -> tuple[Refusal, ...]:
    """Which filter kept out how many of these machines, in the order of the filters."""
    found: dict[str, list[int]] = {}
    need = {
        "gpu": shape.whole * WHOLE_MILLIS,
        "gpu_share": shape.share,
        "gpu_share_guard": shape.share,
        "cpu": shape.ask.cpu_millis,
        "memory": shape.ask.memory_bytes,
    }
    for one in classes:
        code = refusal(one, shape)
        if code:
            row = found.setdefault(code, [0, 0, 0])
            row[0] += len(one.members)
            left, ever = _amounts(one, code)
            row[1] = max(row[1], left)
            row[2] += len(one.members) if ever < need.get(code, 0) else 0
    return tuple(Refusal(code, found[code][0], need.get(code, 0), *found[code][1:]) for code in FILTERS if code in found)


def _amounts(one: MachineClass, code: str) -> tuple[int, int]:
    """What a machine has left of what the filter compares, and what it has when it is empty."""
    if code == "gpu":
        return one.whole * WHOLE_MILLIS, one.kind.gpus * WHOLE_MILLIS
    if code == "gpu_share":
        return max(one.devices, default=0), WHOLE_MILLIS if one.kind.gpus else 0
    if code == "gpu_share_guard":
        return max(one.partial, default=0), WHOLE_MILLIS
    if code == "cpu":
        return one.cpu, one.kind.cpu_millis
    if code == "memory":
        return one.memory, one.kind.memory_bytes
    return 0, 0
