"""Smaller asks and larger machines, of which suggestions are made.

Nothing here decides whether they help; `suggest.py` tries them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jobs.scheduling.core.place.gangs import PACK, SPREAD, GangAsk, RoleAsk
from jobs.scheduling.core.place.machines import WHOLE_MILLIS, Machine, TaskAsk

COPIES_MAX = 64  # Of a task that asks for nothing.


def loosely(together: str) -> str:
    """The wish to be near each other if possible, instead of only within one place."""
    return together if together in ("", PACK, SPREAD) else PACK


def with_fewer(role: RoleAsk, count: int) -> RoleAsk:
    """The role with at least `count` tasks; at most as many as it asked for, where minimum and maximum differ."""
    return replace(role, minimum=count, maximum=count if role.minimum == role.maximum else role.maximum)


def tolerated(gang: GangAsk) -> frozenset[str]:
    return frozenset.intersection(*(role.ask.tolerates for role in gang.roles))


def machine_for(asks: Sequence[TaskAsk], like: Machine | None, pool: int) -> Machine:
    """A machine like those of the pool, larger where a task needs it."""
    labels = dict(like.labels) if like is not None else {}
    labels.update({label: min(accepted) for ask in asks for label, accepted in ask.needs if accepted})
    model = like.model if like is not None else ""
    for ask in asks:
        if ask.models and model not in ask.models:
            model = min(ask.models)
    gpus = max(-(-ask.gpu_millis // WHOLE_MILLIS) for ask in asks)
    return Machine(
        "",
        pool,
        max([like.cpu_millis if like else 0, *(ask.cpu_millis for ask in asks)]),
        max([like.memory_bytes if like else 0, *(ask.memory_bytes for ask in asks)]),
        max(like.gpus if like else 0, gpus),
        model,
        labels,
        exclusive=(like.exclusive if like else False) or any(ask.exclusive for ask in asks),
    )


def copies_on(ask: TaskAsk, machine: Machine) -> int:
    """How many tasks an empty machine takes; shares of a device count as whole ones."""
    rooms = (
        (machine.cpu_millis, ask.cpu_millis),
        (machine.memory_bytes, ask.memory_bytes),
        (machine.gpus, -(-ask.gpu_millis // WHOLE_MILLIS)),
    )
    return min((room // want for room, want in rooms if want), default=COPIES_MAX)
