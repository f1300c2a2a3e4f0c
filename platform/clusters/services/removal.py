"""What stands against the removal of a cluster, and what goes with it: known above this app, asked for here."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernel.words import Text


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One thing that keeps a cluster from being removed, or its place from being changed, and what to do about it.

    `code` is stable. `is_of_place`: it stands against another place of the same cluster, too, since it would be lost from sight.
    """

    code: str
    text: Text[str]
    hint: Text[str]
    is_of_place: bool = False


Obstacles = Callable[[uuid.UUID, Sequence[uuid.UUID]], Sequence[Obstacle]]
Cleaner = Callable[[Sequence[uuid.UUID]], None]

_obstacles: list[Obstacles] = []
_cleaners: list[Cleaner] = []


def register_removal(obstacles: Obstacles, *, clean: Cleaner | None = None) -> None:
    """Say who knows what stands against the removal of a cluster with these pools, and who deletes what belonged to the pools."""
    _obstacles.append(obstacles)
    if clean is not None:
        _cleaners.append(clean)


def obstacles_of(cluster_id: uuid.UUID, pool_ids: Sequence[uuid.UUID]) -> list[Obstacle]:
    return [found for source in _obstacles for found in source(cluster_id, pool_ids)]


def clean_up_after(pool_ids: Sequence[uuid.UUID]) -> None:
    """Inside the transaction of the removal."""
    for clean in _cleaners:
        clean(pool_ids)
