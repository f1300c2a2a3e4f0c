"""Room on machines that is held, but by no gang: what claims leave over, and what is hidden for reserved starts."""

from __future__ import annotations

from collections.abc import Iterable

from jobs.scheduling.core.place.machines import Machines, TaskAsk
from jobs.scheduling.core.state.work import HeldRoom


def hold(machines: Machines, held_rooms: Iterable[HeldRoom]) -> None:
    """Hold this room."""
    for held in held_rooms:
        machines.take(held.machine, TaskAsk(held.cpu_millis, held.memory_bytes, held.gpu_millis), held.devices, held.tasks)


def release(machines: Machines, held_rooms: Iterable[HeldRoom]) -> None:
    """Hold it no more."""
    for held in held_rooms:
        machines.give(held.machine, TaskAsk(held.cpu_millis, held.memory_bytes, held.gpu_millis), held.devices, held.tasks)
