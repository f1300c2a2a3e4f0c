"""Idle capacity by shape, and the usual mix of tasks: which jobs could start in a pool now, and how fragmented it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from jobs.scheduling.core.place.filters import TaskShape, copies
from jobs.scheduling.core.place.machines import WHOLE_MILLIS, MachineClass, Machines, TaskAsk
from jobs.scheduling.core.place.scores import Mix

MIX_SHAPES_MAX = 32  # The most frequent shapes; rarer ones say little about the pool.
MIX_PARTS = 1000  # Resolution of the frequencies: a change of less than a thousandth does not count.

MixRow = tuple[int, int, int, tuple[str, ...], int]
"""CPU, memory and GPU of a task, the GPU models that it accepts, and how often."""


@dataclass(frozen=True, slots=True)
class IdleModel:
    """Idle GPUs of one model in a pool, in whole devices: all of them; the most that one task could get now; the most that a
    job of equal tasks of a usual shape could get now; and by number of idle devices, how many machines have it."""

    gpus: int
    largest_task: int
    largest_job: int
    machines: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Idle:
    """What could start in a pool now. `fragmentation`: the part of the idle GPU, in thousandths, that a task of the mix with
    GPUs cannot use, in expectation; 0 for an empty pool, None without idle GPU or without such a task. `cpu_millis`: the most
    that one task could get."""

    fragmentation: int | None
    cpu_millis: int
    models: Mapping[str, IdleModel]


def mix_rows(asked: Iterable[tuple[TaskAsk, int]]) -> tuple[MixRow, ...]:
    """The most frequent shapes of tasks with their frequency in parts of `MIX_PARTS`, most frequent first, so that small
    changes give the same rows."""
    counted: dict[tuple[int, int, int, tuple[str, ...]], int] = {}
    for ask, often in asked:
        key = (ask.cpu_millis, ask.memory_bytes, ask.gpu_millis, tuple(sorted(ask.models)))
        counted[key] = counted.get(key, 0) + often
    kept = sorted(counted.items(), key=lambda row: (-row[1], row[0]))[:MIX_SHAPES_MAX]
    total = sum(often for _, often in kept)
    return tuple((*key, max(1, often * MIX_PARTS // total)) for key, often in kept)


def mix_of(rows: Iterable[MixRow]) -> Mix | None:
    shapes = [(TaskAsk(cpu, memory, gpu, frozenset(models)), often) for cpu, memory, gpu, models, often in rows]
    return Mix(shapes) if shapes else None


def idle_of(machines: Machines, pool: int) -> Idle:
    """What could start in a pool now as far as machines decide; limits are not looked at."""
    inside = [machine_class for machine_class in machines.classes(pool) if not machine_class.kind.blocked]
    rules = machines.rules.get(pool)
    mix = rules.mix if rules is not None else None
    asks = [
        TaskAsk(cpu, memory, gpu, models)
        for (cpu, memory, gpu, models), _ in (mix.shapes if mix is not None else ())
        if gpu >= WHOLE_MILLIS
    ]
    models = {}
    for model in sorted({machine_class.kind.model for machine_class in inside if machine_class.kind.gpus}):
        alike = [machine_class for machine_class in inside if machine_class.kind.model == model and machine_class.kind.gpus]
        counts: dict[int, int] = {}
        for machine_class in alike:
            counts[machine_class.whole] = counts.get(machine_class.whole, 0) + len(machine_class.members)
        gpus = sum(whole * count for whole, count in counts.items())
        jobs = [
            sum(copies(machine_class, shape) * len(machine_class.members) for machine_class in alike) * shape.whole
            for shape in (TaskShape.of(ask, bits=0, shares=False) for ask in asks if not ask.models or model in ask.models)
        ]
        models[model] = IdleModel(gpus, max(counts), max(jobs, default=gpus), dict(sorted(counts.items())))
    idle_gpu = sum(
        (machine_class.whole * WHOLE_MILLIS + sum(machine_class.partial)) * len(machine_class.members) for machine_class in inside
    )
    cpu_millis = max((machine_class.cpu for machine_class in inside), default=0)
    return Idle(_fragmentation(inside, mix) if idle_gpu else None, max(0, cpu_millis), models)


def _fragmentation(inside: Iterable[MachineClass], mix: Mix | None) -> int | None:
    """The part of the idle GPU, in thousandths, that tasks of the mix with GPUs cannot use. Empty machines are not fragmented;
    tasks without GPUs are left out, because for them all idle GPU would count as lost."""
    asking = [shape for shape in (mix.shapes if mix is not None else ()) if shape[0][2]]
    if not asking:
        return None
    machines = [machine_class for machine_class in inside if machine_class.kind.gpus]
    if all(
        machine_class.whole == machine_class.kind.gpus and machine_class.cpu == machine_class.kind.cpu_millis
        for machine_class in machines
    ):
        return 0
    wanted = Mix((TaskAsk(cpu, memory, gpu, models), often) for (cpu, memory, gpu, models), often in asking)
    idle = sum(
        (machine_class.whole * WHOLE_MILLIS + sum(machine_class.partial)) * len(machine_class.members)
        for machine_class in machines
    )
    lost = sum(
        wanted.fragmented(
            machine_class.kind.model, machine_class.cpu, machine_class.memory, machine_class.whole, machine_class.partial
        )
        * len(machine_class.members)
        for machine_class in machines
    )
    return lost * 1000 // (idle * wanted.total)
