"""Which nodes make a pool. Pure: no database, no clock.

Limits and prices hang on pools, so a pool must outlive what happens to its nodes: memory that differs a little from machine
to machine or after a kernel update, a broken GPU, an upgrade of all its machines. A node therefore stays in its pool while it
fits, GPUs out of order do not move it, and a pool whose nodes all changed alike takes their new shape.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from clusters.engines.interface import ObservedNode
from clusters.placement import GPU_DRIVER
from kernel.limits import GIB

MEMORY_TOLERANCE_PERCENT = 5  # Firmware and kernels reserve different amounts on machines that were bought as equal.


@dataclass(frozen=True, slots=True)
class Shape:
    """What one node of a pool offers."""

    gpu_model: str
    gpus_simulated: bool
    cpu_millis: int
    memory_bytes: int

    def admits(self, other: Shape) -> bool:
        """Whether a node of the other shape belongs to a pool of this one."""
        return (
            self.gpu_model == other.gpu_model
            and self.gpus_simulated == other.gpus_simulated
            and self.cpu_millis == other.cpu_millis
            and abs(self.memory_bytes - other.memory_bytes) * 100 <= self.memory_bytes * MEMORY_TOLERANCE_PERCENT
        )


@dataclass(frozen=True, slots=True)
class KnownPool:
    """A pool that exists already."""

    id: uuid.UUID
    name: str
    shape: Shape


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes of one pool. `pool_id` None: the pool is new, and `name` was made for it."""

    pool_id: uuid.UUID | None
    name: str
    shape: Shape
    nodes: tuple[ObservedNode, ...]


def shape_of(node: ObservedNode) -> Shape:
    whole = node.offers or node.capacity
    return Shape(
        gpu_model=node.gpu_model,
        gpus_simulated=is_simulated(node),
        cpu_millis=whole.cpu_millis,
        memory_bytes=whole.memory_bytes,
    )


def is_simulated(node: ObservedNode) -> bool:
    return any(gpu.simulated for gpu in node.gpus)


def group_nodes(nodes: Sequence[ObservedNode], pools: Sequence[KnownPool], pool_of: Mapping[str, uuid.UUID]) -> tuple[Group, ...]:
    """Divide nodes among pools; `pool_of` says where the nodes known by name were. Pools left without nodes are in it too."""
    members: dict[uuid.UUID, list[ObservedNode]] = {pool.id: [] for pool in pools}
    drafts: list[tuple[Shape, list[ObservedNode]]] = []
    for node in sorted(nodes, key=lambda node: node.name):
        shape = shape_of(node)
        known = sorted(pools, key=lambda pool: (pool.id != pool_of.get(node.name), pool.id))
        home = next((pool.id for pool in known if pool.shape.admits(shape)), None)
        if home is not None:
            members[home].append(node)
            continue
        draft = next((found for found in drafts if found[0].admits(shape)), None)
        if draft is None:
            drafts.append((shape, [node]))
        else:
            draft[1].append(node)
    groups = [Group(pool.id, pool.name, pool.shape, tuple(members[pool.id])) for pool in pools]
    taken = {pool.name for pool in pools}
    for shape, found in drafts:
        position = _heir(groups, found, pool_of)
        if position is not None:
            groups[position] = replace(groups[position], shape=shape, nodes=tuple(found))
            continue
        name = _name(shape, taken)
        taken.add(name)
        groups.append(Group(None, name, shape, tuple(found)))
    return tuple(groups)


EVEN_LABELS = ("architecture", GPU_DRIVER, "kernel", "os")  # What nodes of one shape may differ in that jobs may notice.
VALUES_MAX = 8


def unevenness(nodes: Iterable[ObservedNode]) -> dict[str, list[str]]:
    """In which of these labels the ready nodes of a pool differ, with the values: a driver that was not rolled out everywhere."""
    ready = [node for node in nodes if node.ready]
    found = {}
    for label in EVEN_LABELS:
        values = sorted({str(node.labels.get(label, "")) for node in ready})
        if len(values) > 1:
            found[label] = values[:VALUES_MAX]
    return found


def _heir(groups: Sequence[Group], found: Iterable[ObservedNode], pool_of: Mapping[str, uuid.UUID]) -> int | None:
    """The pool, now empty, in which all of these nodes were: its machines changed together, and it stays theirs."""
    homes = {pool_of.get(node.name) for node in found}
    if len(homes) != 1:
        return None
    home = homes.pop()
    return next(
        (position for position, group in enumerate(groups) if home is not None and group.pool_id == home and not group.nodes),
        None,
    )


def _name(shape: Shape, taken: set[str]) -> str:
    """`a100`, or `cpu` without GPUs; with the size of a node, then a number, while that is taken."""
    model = re.sub(r"[^a-z0-9]+", "-", shape.gpu_model.lower()).strip("-") or "cpu"
    sized = f"{model}-{shape.cpu_millis // 1000}c-{round(shape.memory_bytes / GIB)}g"
    candidates = [model, sized, *(f"{sized}-{number}" for number in range(2, len(taken) + 3))]
    return next(name for name in candidates if name not in taken)
