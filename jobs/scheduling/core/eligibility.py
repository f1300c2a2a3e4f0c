"""Which pools a job may go to at all, and what keeps it out of the others; free capacity is not looked at here.

`Core` is told the pools that are left. Properties of a whole pool - its GPU model, its isolation, whether its cluster answers -
are judged here once for all jobs that ask for the same, and so is whether a gang could ever fit.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from clusters.engines.interface import Claim, HostDir, Place, Places, Share
from jobs.scheduling.core.place.gangs import GangAsk, RoleAsk, at_least, each_asking
from jobs.scheduling.core.place.machines import Machine, Machines
from jobs.scheduling.core.place.placing import has_place
from jobs.scheduling.core.place.scores import PoolRules
from kernel.gpus import is_model
from kernel.resources import RESOURCE_NAMES, Resources
from kernel.wait_codes import WaitCode

BLOCKED_NODES, BLOCKED_CHARACTERS = 3, 300  # How many nodes out of service a reason tells about, and how much of each.

Refusal = tuple[WaitCode, Mapping[str, object]]
"""An entry of jobs/lifecycle/wait_reasons.py and its amounts."""


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
    places: Places = field(default_factory=Places)  # Where volumes may be that its cluster mounts.
    checkpoints: bool = True  # A job's checkpoint directory outlives its attempts.
    node_ports: int | None = None  # Ports that one machine has for all its tasks; None: no bound.
    gpus_simulated: bool = False
    isolation: str = ""
    gpu_shares: bool = False
    lacks: tuple[str, ...] = ()  # Kinds of objects that its cluster does not have and that every attempt there would need.
    bare_images: tuple[str, ...] = ()  # Beginnings of references of images without a shell.


@dataclass(frozen=True, slots=True)
class VolumeAsk:
    """A volume that a job mounts, and where it is. `cluster_name`: of its cluster, where it is a claim."""

    name: str
    place: Place
    cluster_name: str = ""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a spec asks of the scheduler; equal wishes are best one object. `models`: the GPU models that roles insist on."""

    gang: GangAsk
    models: frozenset[str] = frozenset()
    pool_name: str = ""
    cluster_name: str = ""
    mounts: tuple[str, ...] = ()  # Volumes as the spec names them.
    places: tuple[VolumeAsk, ...] = ()  # Where these volumes are, as far as that was looked up.
    keeps_checkpoint: bool = False  # It has a checkpoint directory that is in none of them.
    checkpoint_seconds: int = 0  # How often the program promises to save its work; 0: it does not say.
    grace_seconds: int | None = None  # How long it asks for between the signal to stop and the kill; None: it does not say.

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
    """The pools, by number, to which a job may go; where there is none, `refusal` is that of the pool where it came furthest."""

    pools: tuple[int, ...]
    refusal: Refusal = (WaitCode.NO_POOL, {})


def eligible(wish: Wish, tenant_id: uuid.UUID, image_kind: str, pools: Sequence[PoolView]) -> Eligible:
    """Where a job may go now. Conditions are checked in stages; the refusal of a later stage says more."""
    found: list[int] = []
    furthest: tuple[int, Refusal] = (-1, (WaitCode.NO_POOL, {"pool": wish.pool_name, "cluster": wish.cluster_name}))
    for number, pool in enumerate(pools):
        refused = unfit(wish, image_kind, pool) or _closed(tenant_id, pool)
        if refused is None:
            found.append(number)
        elif refused[0] > furthest[0]:
            furthest = refused
    return Eligible(tuple(found), furthest[1])


def unfit(wish: Wish, image_kind: str, pool: PoolView) -> tuple[int, Refusal] | None:
    """The stage and refusal where a pool is not what the job asks for; None where it is."""
    if wish.pool_name and wish.pool_name != pool.name:
        return 0, (WaitCode.NO_POOL, {"pool": wish.pool_name})
    if wish.cluster_name and wish.cluster_name != pool.cluster_name:
        return 0, (WaitCode.NO_POOL, {"cluster": wish.cluster_name})
    if not all(is_model(model, pool.gpu_model) for model in wish.models):
        return 1, (WaitCode.GPU_MODEL, {"need": sorted(wish.models), "have": pool.gpu_model, "pool": pool.name})
    if image_kind not in pool.image_kinds:
        return 1, (WaitCode.IMAGE_KIND, {"need": image_kind, "pool": pool.name})
    if wish.mounts and not pool.places:
        return 1, (WaitCode.NO_MOUNTS, {"pool": pool.name})
    for volume in wish.places:
        if not pool.places.has(volume.place, pool.cluster_id):
            return 1, (WaitCode.VOLUME_PLACE, {"pool": pool.name, **_told(volume, pool)})
    if wish.keeps_checkpoint and not pool.checkpoints:
        return 1, (WaitCode.CHECKPOINT_PLACE, {"pool": pool.name})
    if wish.shares_gpus and not pool.gpu_shares:
        return 1, (WaitCode.GPU_SHARES, {"pool": pool.name})
    if pool.lacks:
        return 1, (WaitCode.CLUSTER_LACKS, {"cluster": pool.cluster_name, "lacks": list(pool.lacks)})
    return None


def _told(volume: VolumeAsk, pool: PoolView) -> Mapping[str, object]:
    """What a reason says of where a volume is: no path of the host. `cluster` None: a claim's own cluster cannot make it."""
    match volume.place:
        case HostDir():
            return {"volume": volume.name, "kind": "local"}
        case Claim(cluster_id):
            elsewhere = volume.cluster_name if cluster_id != pool.cluster_id else None
            return {"volume": volume.name, "kind": "claim", "cluster": elsewhere}
        case Share(server):
            return {"volume": volume.name, "kind": "nfs", "server": server}


def _closed(tenant_id: uuid.UUID, pool: PoolView) -> tuple[int, Refusal] | None:
    """The stage and refusal where no job of this tenant may start in a pool at present; None where it may."""
    if not pool.enabled:
        return 2, (WaitCode.CLUSTER_DISABLED, {"cluster": pool.cluster_name})
    if not pool.reachable:
        return 2, (WaitCode.CLUSTER_UNREACHABLE, {"cluster": pool.cluster_name})
    if not pool.keeps_apart and pool.tenant_bound is not None and pool.tenant_bound != tenant_id:
        return 3, (WaitCode.ONE_TENANT_ONLY, {"cluster": pool.cluster_name})
    return None


@dataclass(slots=True)
class Sizes:
    """Whether gangs could ever fit into pools with these machines. Answers are remembered."""

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
        here = [machine for machine in self.machines if machine.pool == pool]
        if not here:
            return WaitCode.NO_MACHINES, {"pool": self.pools[pool].name}
        if self._whole is None and any(machine.blocked for machine in self.machines):
            self._whole = Machines([replace(machine, blocked="") for machine in self.machines], dict(self.rules))
        if self._whole is not None and _fits(gang, self._whole, pool):
            why = [
                machine.blocked[:BLOCKED_CHARACTERS]
                for machine in sorted(here, key=lambda machine: machine.name)
                if machine.blocked
            ]
            return WaitCode.NO_READY_NODE, {"pool": self.pools[pool].name, "why": why[:BLOCKED_NODES]}
        unmet = _unmet(gang, self._whole or self._in_service, pool)
        if unmet is not None:
            return unmet[0], {"pool": self.pools[pool].name, **unmet[1]}
        need = _sum((role, role.minimum) for role in gang.roles)
        amounts = [Resources(machine.cpu_millis, machine.memory_bytes, machine.gpus * 1000) for machine in here]
        largest = Resources(*(max((getattr(amount, name) for amount in amounts), default=0) for name in RESOURCE_NAMES))
        return WaitCode.LARGER_THAN_POOL, {
            "pool": self.pools[pool].name,
            "need": need.as_dict(),
            "largest_node": largest.as_dict(),
        }


def never(wish: Wish, image_kind: str, sizes: Sizes) -> Refusal | None:
    """Why a job could not start in any of these pools even when they are empty and in service; None when it could."""
    furthest: tuple[int, Refusal] = (-1, (WaitCode.NO_POOL, {"pool": wish.pool_name, "cluster": wish.cluster_name}))
    for number, pool in enumerate(sizes.pools):
        refused = unfit(wish, image_kind, pool)
        if refused is None and not pool.enabled:
            refused = (2, (WaitCode.CLUSTER_DISABLED, {"cluster": pool.cluster_name}))
        if refused is None:
            too_large = sizes.refusal(wish.gang, number)
            if too_large is None or too_large[0] == WaitCode.NO_READY_NODE:
                return None
            refused = (4, too_large)
        furthest = max(furthest, refused, key=lambda entry: entry[0])
    return furthest[1]


def _unmet(gang: GangAsk, machines: Machines, pool: int) -> Refusal | None:
    """The first condition on machines without which the gang would fit into the empty pool."""
    asks = [role.ask for role in gang.roles]
    inside = [machines.at[index] for index in machines.pools[pool].members] if pool in machines.pools else []
    taints: frozenset[str] = frozenset().union(*(machine.taints for machine in inside))
    labels = {label: sorted(accepted) for ask in asks for label, accepted in ask.needs}
    told: list[tuple[Refusal, GangAsk]] = []
    if labels:
        told.append(((WaitCode.LABEL, {"labels": dict(sorted(labels.items()))}), each_asking(gang, needs=())))
    if taints:
        refusing = taints - frozenset.intersection(*(ask.tolerates for ask in asks))
        told.append(((WaitCode.TAINT, {"taints": sorted(refusing)}), each_asking(gang, tolerates=taints)))
    if any(ask.exclusive for ask in asks):
        cores = max(-(-ask.cpu_millis // 1000) for ask in asks if ask.exclusive)
        largest = max((machine.cpu_millis // 1000 for machine in inside if machine.exclusive), default=0)
        detail = {"cores": cores, "machines": sum(machine.exclusive for machine in inside), "largest": largest}
        told.append(((WaitCode.EXCLUSIVE_CORES, detail), each_asking(gang, exclusive=False)))
    if gang.together:
        tasks = sum(role.minimum for role in gang.roles)
        told.append(((WaitCode.NO_PLACE, {"place": gang.together, "tasks": tasks}), replace(gang, together="")))
    for refusal, without in told:
        if _fits(without, machines, pool):
            return refusal
    loose = replace(each_asking(gang, needs=(), tolerates=taints, exclusive=False), together="")
    return told[0][0] if len(told) > 1 and _fits(loose, machines, pool) else None


def _fits(gang: GangAsk, machines: Machines, pool: int) -> bool:
    return has_place(at_least(gang), machines, pool)


def _sum(roles: Iterable[tuple[RoleAsk, int]]) -> Resources:
    whole = Resources()
    for role, count in roles:
        whole += role.ask.resources * count
    return whole
