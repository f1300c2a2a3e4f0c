"""Which pools a job may go to at all, and what keeps it out of the others; what is free there is not asked here.

`Core` is told the pools that are left. What a whole pool has or has not - its GPU model, its isolation, whether its cluster
answers - is judged here once for all jobs that ask for the same, and so is whether a gang could ever fit.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jobs.scheduling.core.place.gangs import GangAsk, Placed, RoleAsk
from jobs.scheduling.core.place.machines import Machine, Machines
from jobs.scheduling.core.place.placing import place, undo
from jobs.scheduling.core.place.scores import PoolRules
from kernel.gpus import is_model
from kernel.resources import RESOURCE_NAMES, Resources

BLOCKED_NODES, BLOCKED_CHARACTERS = 3, 300  # How many nodes out of service a reason tells about, and how much of each.

Refusal = tuple[str, Mapping[str, object]]
"""An entry of jobs/lifecycle/reasons.py and its amounts."""


@dataclass(frozen=True, slots=True)
class PoolView:
    """What all nodes of a pool have in common. `tenant_bound` names the only tenant that its cluster may run now, where it
    cannot keep tenants apart (`keeps_apart`). `enabled` False: an operator has disabled the cluster."""

    id: uuid.UUID
    cluster_id: uuid.UUID
    name: str
    cluster_name: str
    gpu_model: str = ""
    enabled: bool = True
    reachable: bool = True
    keeps_apart: bool = True
    tenant_bound: uuid.UUID | None = None
    image_kinds: frozenset[str] = frozenset({"host", "python"})
    mounts: bool = True
    node_ports: int | None = None  # Ports that one machine has for all its tasks; None: no bound.
    gpus_simulated: bool = False
    isolation: str = ""
    gpu_shares: bool = False


@dataclass(frozen=True, slots=True)
class Wish:
    """What a spec asks of the scheduler; equal ones are best one object. `models`: the GPU models that roles insist on."""

    gang: GangAsk
    models: frozenset[str] = frozenset()
    pool_name: str = ""
    cluster_name: str = ""
    mounts: tuple[str, ...] = ()  # Volumes as the spec names them.
    checkpoint_seconds: int = 0  # How often the program reservations to save its work; 0: it does not say.

    @property
    def largest(self) -> Resources:
        """All that the gang holds at its largest."""
        return _sum((role, role.maximum) for role in self.gang.roles)

    @property
    def least(self) -> Resources:
        return _sum((role, role.minimum) for role in self.gang.roles)

    @property
    def shares_gpus(self) -> bool:
        return any(role.ask.is_share for role in self.gang.roles)


@dataclass(frozen=True, slots=True)
class Eligible:
    """The pools, by number, to which a job may go; without any, `refusal` says why not to the one where it came furthest."""

    pools: tuple[int, ...]
    refusal: Refusal = ("no_pool", {})


def eligible(wish: Wish, tenant_id: uuid.UUID, image_kind: str, pools: Sequence[PoolView]) -> Eligible:
    """Where a job may go now. Stages in the order in which a person would ask; a later one is the more telling refusal."""
    found: list[int] = []
    furthest: tuple[int, Refusal] = (-1, ("no_pool", {"pool": wish.pool_name, "cluster": wish.cluster_name}))
    for number, pool in enumerate(pools):
        refused = unfit(wish, image_kind, pool) or _closed(tenant_id, pool)
        if refused is None:
            found.append(number)
        elif refused[0] > furthest[0]:
            furthest = refused
    return Eligible(tuple(found), furthest[1])


def unfit(wish: Wish, image_kind: str, pool: PoolView) -> tuple[int, Refusal] | None:
    """Whether the pool is not what the job asks for."""
    if wish.pool_name and wish.pool_name != pool.name:
        return 0, ("no_pool", {"pool": wish.pool_name})
    if wish.cluster_name and wish.cluster_name != pool.cluster_name:
        return 0, ("no_pool", {"cluster": wish.cluster_name})
    if not all(is_model(model, pool.gpu_model) for model in wish.models):
        return 1, ("gpu_model", {"need": sorted(wish.models), "have": pool.gpu_model, "pool": pool.name})
    if image_kind not in pool.image_kinds:
        return 1, ("image_kind", {"need": image_kind, "pool": pool.name})
    if wish.mounts and not pool.mounts:
        return 1, ("no_mounts", {"pool": pool.name})
    if wish.shares_gpus and not pool.gpu_shares:
        return 1, ("gpu_shares", {"pool": pool.name})
    return None


def _closed(tenant_id: uuid.UUID, pool: PoolView) -> tuple[int, Refusal] | None:
    """Whether nothing of this tenant may start there at present."""
    if not pool.enabled:
        return 2, ("cluster_disabled", {"cluster": pool.cluster_name})
    if not pool.reachable:
        return 2, ("cluster_unreachable", {"cluster": pool.cluster_name})
    if not pool.keeps_apart and pool.tenant_bound is not None and pool.tenant_bound != tenant_id:
        return 3, ("one_tenant_only", {"cluster": pool.cluster_name})
    return None


@dataclass(slots=True)
class Sizes:
    """Whether gangs could ever fit into pools, as far as these machines go. Remembers what it found."""

    machines: Sequence[Machine]
    pools: Sequence[PoolView]
    rules: Mapping[int, PoolRules] = field(default_factory=dict)
    _in_service: Machines | None = None
    _whole: Machines | None = None
    _known: dict[tuple[GangAsk, int], Refusal | None] = field(default_factory=dict)

    @property
    def known(self) -> int:
        """How many answers are remembered."""
        return len(self._known)

    def refusal(self, gang: GangAsk, pool: int) -> Refusal | None:
        """Why a gang, at its smallest, does not fit into a pool even when it is empty; None when it does."""
        key = (gang, pool)
        if key not in self._known:
            self._known[key] = self._look(gang, pool)
        return self._known[key]

    def _look(self, gang: GangAsk, pool: int) -> Refusal | None:
        if self._in_service is None:
            self._in_service = Machines(self.machines, dict(self.rules))
        if _fits(gang, self._in_service, pool):
            return None
        here = [one for one in self.machines if one.pool == pool]
        if not here:
            return "no_machines", {"pool": self.pools[pool].name}
        if self._whole is None and any(one.blocked for one in self.machines):
            self._whole = Machines([replace(one, blocked="") for one in self.machines], dict(self.rules))
        if self._whole is not None and _fits(gang, self._whole, pool):
            why = [one.blocked[:BLOCKED_CHARACTERS] for one in sorted(here, key=lambda one: one.name) if one.blocked]
            return "no_ready_node", {"pool": self.pools[pool].name, "why": why[:BLOCKED_NODES]}
        unmet = _unmet(gang, self._whole or self._in_service, pool)
        if unmet is not None:
            return unmet[0], {"pool": self.pools[pool].name, **unmet[1]}
        need = _sum((role, role.minimum) for role in gang.roles)
        amounts = [Resources(one.cpu_millis, one.memory_bytes, one.gpus * 1000) for one in here]
        largest = Resources(*(max((getattr(one, name) for one in amounts), default=0) for name in RESOURCE_NAMES))
        return "larger_than_pool", {"pool": self.pools[pool].name, "need": need.as_dict(), "largest_node": largest.as_dict()}


def never(wish: Wish, image_kind: str, sizes: Sizes) -> Refusal | None:
    """Why a job could not start in any of these pools even when they are empty and in service; None when it could in one."""
    furthest: tuple[int, Refusal] = (-1, ("no_pool", {"pool": wish.pool_name, "cluster": wish.cluster_name}))
    for number, pool in enumerate(sizes.pools):
        refused = unfit(wish, image_kind, pool)
        if refused is None and not pool.enabled:
            refused = (2, ("cluster_disabled", {"cluster": pool.cluster_name}))
        if refused is None:
            too_large = sizes.refusal(wish.gang, number)
            if too_large is None or too_large[0] == "no_ready_node":
                return None
            refused = (4, too_large)
        furthest = max(furthest, refused, key=lambda one: one[0])
    return furthest[1]


def _unmet(gang: GangAsk, machines: Machines, pool: int) -> Refusal | None:
    """The wish about machines without which the gang would fit when the pool is empty; of several in the way the first."""
    asks = [role.ask for role in gang.roles]
    inside = [machines.at[index] for index in machines.pools[pool].members] if pool in machines.pools else []
    taints: frozenset[str] = frozenset().union(*(one.taints for one in inside))
    labels = {label: sorted(accepted) for ask in asks for label, accepted in ask.needs}
    told: list[tuple[Refusal, GangAsk]] = []
    if labels:
        told.append((("label", {"labels": dict(sorted(labels.items()))}), _each(gang, needs=())))
    if taints:
        refusing = taints - frozenset.intersection(*(ask.tolerates for ask in asks))
        told.append((("taint", {"taints": sorted(refusing)}), _each(gang, tolerates=taints)))
    if any(ask.exclusive for ask in asks):
        cores = max(-(-ask.cpu_millis // 1000) for ask in asks if ask.exclusive)
        largest = max((one.cpu_millis // 1000 for one in inside if one.exclusive), default=0)
        detail = {"cores": cores, "machines": sum(one.exclusive for one in inside), "largest": largest}
        told.append((("exclusive_cores", detail), _each(gang, exclusive=False)))
    if gang.together:
        tasks = sum(role.minimum for role in gang.roles)
        told.append((("no_place", {"place": gang.together, "tasks": tasks}), replace(gang, together="")))
    for refusal, without in told:
        if _fits(without, machines, pool):
            return refusal
    loose = replace(_each(gang, needs=(), tolerates=taints, exclusive=False), together="")
    return told[0][0] if len(told) > 1 and _fits(loose, machines, pool) else None


def _each(gang: GangAsk, **changes: Any) -> GangAsk:
    return replace(gang, roles=tuple(replace(role, ask=replace(role.ask, **changes)) for role in gang.roles))


def _fits(gang: GangAsk, machines: Machines, pool: int) -> bool:
    smallest = replace(gang, roles=tuple(replace(role, maximum=role.minimum) for role in gang.roles))
    answer = place(smallest, machines, (pool,))
    if isinstance(answer, Placed):
        undo(answer, machines)
        return True
    return False


def _sum(roles: Iterable[tuple[RoleAsk, int]]) -> Resources:
    whole = Resources()
    for role, count in roles:
        whole += role.ask.resources * count
    return whole
