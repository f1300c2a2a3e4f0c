"""The shape of what is idle and of what is usually asked for: which jobs could start now, what a pool is fragmented for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from jobs.scheduling.core.place.filters import Shape, copies
from jobs.scheduling.core.place.machines import WHOLE_MILLIS, MachineClass, Machines, TaskAsk
from jobs.scheduling.core.place.scores import Mix

MIX_SHAPES_MAX = 32  # The most frequent ones; what is rarer than all of these is no habit of the pool.
MIX_PARTS = 1000  # How finely the frequencies are told: less than a thousandth is no news.

MixRow = tuple[int, int, int, tuple[str, ...], int]
"""CPU, memory and GPU of a task, the GPU models that it accepts, and how often."""


@dataclass(frozen=True, slots=True)
class IdleModel:
    """Of one GPU model in a pool: whole devices that are idle; the most that one task could get now; the most that a job of equal
    tasks could get now, of those shapes that the pool usually gets; and how many machines have how many idle."""

    gpus: int
    largest_task: int
    largest_job: int
    machines: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Idle:
    """What could start in a pool now. `fragmentation`: which part of the idle GPU a task of the mix that asks for GPUs cannot
    use, in thousandths and in expectation; 0 of a pool of which nothing is taken, None without idle GPU or without such a task.
    `cpu_millis`: the most that one task could get."""

    fragmentation: int | None
    cpu_millis: int
    models: Mapping[str, IdleModel]


def mix_rows(asked: Iterable[tuple[TaskAsk, int]]) -> tuple[MixRow, ...]:
    """How often which task was asked for, in parts of `MIX_PARTS`, most frequent first: small changes leave it as it is."""
    counted: dict[tuple[int, int, int, tuple[str, ...]], int] = {}
    for ask, often in asked:
        key = (ask.cpu_millis, ask.memory_bytes, ask.gpu_millis, tuple(sorted(ask.models)))
        counted[key] = counted.get(key, 0) + often
    kept = sorted(counted.items(), key=lambda one: (-one[1], one[0]))[:MIX_SHAPES_MAX]
    total = sum(often for _, often in kept)
    return tuple((*key, max(1, often * MIX_PARTS // total)) for key, often in kept)


def mix_of(rows: Iterable[MixRow]) -> Mix | None:
    shapes = [(TaskAsk(cpu, memory, gpu, frozenset(models)), often) for cpu, memory, gpu, models, often in rows]
    return Mix(shapes) if shapes else None


def idle_of(machines: Machines, pool: int) -> Idle:
    """What could start in a pool now, whatever anybody's limits say."""
    inside = [one for one in machines.classes(pool) if not one.kind.blocked]
    rules = machines.rules.get(pool)
    mix = rules.mix if rules is not None else None
    asks = [
        TaskAsk(cpu, memory, gpu, models)
        for (cpu, memory, gpu, models), _ in (mix.shapes if mix is not None else ())
        if gpu >= WHOLE_MILLIS
    ]
    models = {}
    for model in sorted({one.kind.model for one in inside if one.kind.gpus}):
        alike = [one for one in inside if one.kind.model == model and one.kind.gpus]
        counts: dict[int, int] = {}
        for one in alike:
            counts[one.whole] = counts.get(one.whole, 0) + len(one.members)
        gpus = sum(whole * count for whole, count in counts.items())
        jobs = [
            sum(copies(one, shape) * len(one.members) for one in alike) * shape.whole
            for shape in (Shape.of(ask, bits=0, shares=False) for ask in asks if not ask.models or model in ask.models)
        ]
        models[model] = IdleModel(gpus, max(counts), max(jobs, default=gpus), dict(sorted(counts.items())))
    idle_gpu = sum((one.whole * WHOLE_MILLIS + sum(one.partial)) * len(one.members) for one in inside)
    cpu_millis = max((one.cpu for one in inside), default=0)
    return Idle(_broken(inside, mix) if idle_gpu else None, max(0, cpu_millis), models)


def _broken(inside: Iterable[MachineClass], mix: Mix | None) -> int | None:
    """What the tasks of the mix that ask for GPUs cannot use of the idle ones, in thousandths. Nothing is broken of machines of
    which nothing is taken; and tasks without GPUs would count all that is idle as lost."""
    asking = [shape for shape in (mix.shapes if mix is not None else ()) if shape[0][2]]
    if not asking:
        return None
    machines = [one for one in inside if one.kind.gpus]
    if all(one.whole == one.kind.gpus and one.cpu == one.kind.cpu_millis for one in machines):
        return 0
    wanted = Mix((TaskAsk(cpu, memory, gpu, models), often) for (cpu, memory, gpu, models), often in asking)
    idle = sum((one.whole * WHOLE_MILLIS + sum(one.partial)) * len(one.members) for one in machines)
    lost = sum(
        wanted.fragmented(one.kind.model, one.cpu, one.memory, one.whole, one.partial) * len(one.members) for one in machines
    )
    return lost * 1000 // (idle * wanted.total)
