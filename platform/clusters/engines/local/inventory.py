"""What this host has, and in plain words what keeps its tenants apart and what does not."""

from __future__ import annotations

import os
from datetime import UTC, datetime

from clusters import isolation_facts
from clusters.engines.interface import NO_PLACES, Abilities, ImageKind, Inventory, ObservedNode, Places
from clusters.engines.local import cgroups, processes
from clusters.engines.local.config import LocalEngineConfig
from clusters.engines.local.gpus import Gpus
from clusters.engines.local.launching import syscalls
from clusters.engines.local.leases import WHOLE_MILLIS
from clusters.placement import EXCLUSIVE_CORES, GPU_CUDA, GPU_DRIVER, RDMA, RDMA_PRESENT
from kernel.resources import Resources


def take_inventory(config: LocalEngineConfig, gpus: Gpus) -> Inventory:
    """Read the one node of this cluster."""
    devices = gpus.devices()
    groups = cgroups.detect() if not config.drop_rights or os.geteuid() == 0 else _groups_of_launcher()
    models = sorted({device.model for device in devices})
    node = ObservedNode(
        name=config.node,
        capacity=Resources(
            cpu_millis=config.cpu_millis or len(os.sched_getaffinity(0)) * 1000,
            memory_bytes=config.memory_bytes or _machine_memory() * 9 // 10,
            gpu_millis=sum(device.healthy for device in devices) * WHOLE_MILLIS,
        ),
        gpus=devices,
        gpu_model=", ".join(models),
        labels={
            "kernel": os.uname().release,
            "os": _os_name(),
            "architecture": os.uname().machine,
            GPU_DRIVER: gpus.driver(),
            GPU_CUDA: gpus.cuda(),
            "gpus_simulated": "yes" if gpus.are_simulated else "no",
            "cgroups": f"v{groups.version}" if groups else "none",
            RDMA: RDMA_PRESENT if config.rdma_devices() else "no",
            EXCLUSIVE_CORES: str(len(config.exclusive_cores())),
        },
    )
    facts, kept_apart = _isolation(config, groups)
    low, high = config.ports
    kinds = {ImageKind.HOST, ImageKind.PYTHON, *([ImageKind.REGISTRY] if config.uses_sandbox else [])}
    places = Places() if config.uses_sandbox else NO_PLACES
    abilities = Abilities(frozenset(kinds), places, node_ports=high - low, shares_gpus=True)
    return Inventory((node,), datetime.now(UTC), abilities, isolation=facts, tenants_kept_apart=kept_apart)


def _isolation(config: LocalEngineConfig, groups: cgroups.Cgroups | None) -> tuple[tuple[str, ...], bool]:
    off, sandboxed = config.isolation == "none", config.uses_sandbox
    facts = [isolation_facts.TURNED_OFF if off else isolation_facts.OWN_USERS if config.drop_rights else isolation_facts.NO_ROOT]
    if not off:
        facts.append(isolation_facts.SANDBOX if sandboxed else isolation_facts.NO_SANDBOX)
        facts.append(isolation_facts.FILTER if syscalls.compiled(syscalls.Filter.TASK) else isolation_facts.NO_FILTER)
    if groups is not None and groups.limits_memory:
        facts.append(isolation_facts.limited(groups.version))
    else:
        facts.append(isolation_facts.WATCHED)
    facts.append(isolation_facts.NETWORK)
    kept_apart = off or config.drop_rights or sandboxed
    if not kept_apart:
        facts.append(isolation_facts.ONE_TENANT)
    return tuple(fact.en for fact in facts), kept_apart


def _groups_of_launcher() -> cgroups.Cgroups | None:
    """The launcher's groups as they can be seen without its rights: it makes our folder when it starts."""
    return cgroups.find()


def _machine_memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * processes.PAGE_BYTES


def _os_name() -> str:
    try:
        with open("/etc/os-release", encoding="utf-8") as file:
            values = dict(line.rstrip().split("=", 1) for line in file if "=" in line)
    except OSError:
        return os.uname().sysname
    return values.get("PRETTY_NAME", os.uname().sysname).strip('"')
