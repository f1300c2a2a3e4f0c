"""Which roles a framework takes: said once, refused in the same words for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jobs.frameworks.interface import RoleShape
from kernel.errors import FieldError
from kernel.words import Text


@dataclass(frozen=True, slots=True)
class RoleLaw:
    """`is_single`: one task, never more."""

    is_required: bool = False
    is_single: bool = False


REQUIRED = RoleLaw(is_required=True)
SINGLE = RoleLaw(is_required=True, is_single=True)
AT_MOST_ONE = RoleLaw(is_single=True)
ANY = RoleLaw()


def check_roles(
    framework: str, laws: Mapping[str, RoleLaw], roles: Mapping[str, RoleShape], *, takes_others: bool = False
) -> Iterator[FieldError]:
    """Roles that are missing, there once too often, or none of the framework's; `takes_others`: any other role is welcome."""
    for name, law in laws.items():
        if law.is_required and name not in roles:
            yield FieldError(
                "/roles",
                "role_missing",
                Text(f"A job of framework {framework} needs a role {name}.", f"框架 {framework} 的作业需要角色 {name}。"),
                Text(f"Add roles: {{{name}: ...}}.", f"请添加 roles: {{{name}: ...}}。"),
            )
        if law.is_single and name in roles and roles[name].replicas_max != 1:
            count = roles[name].replicas_max
            yield FieldError(
                f"/roles/{name}/replicas",
                "role_single",
                Text(
                    f"Role {name} of framework {framework} is one task, not {count}.",
                    f"框架 {framework} 的角色 {name} 只能有一个任务，而非 {count} 个。",
                ),
                Text("Write replicas: 1.", "请写 replicas: 1。"),
            )
    for name in roles:
        if name not in laws and not takes_others:
            yield FieldError(
                f"/roles/{name}",
                "role_unknown",
                Text(f"Framework {framework} has no role {name}.", f"框架 {framework} 没有角色 {name}。"),
                Text(f"Its roles: {', '.join(laws)}.", f"其角色：{', '.join(laws)}。"),
            )


def check_memory(framework: str, mib: int, roles: Mapping[str, RoleShape]) -> Iterator[FieldError]:
    """Roles whose tasks have less memory than the framework's programs take."""
    for name, shape in roles.items():
        if shape.memory_bytes < mib * 1024**2:
            yield FieldError(
                f"/roles/{name}/resources/memory",
                "role_memory",
                Text(
                    f"A task of framework {framework} needs at least {mib} MiB of memory.",
                    f"框架 {framework} 的每个任务至少需要 {mib} MiB 内存。",
                ),
                Text(f"Write memory: {mib}Mi or more.", f"请写 memory: {mib}Mi 或更多。"),
            )


# --- Where tasks go, by what they do -------------------------------------------------------------------------------------

PACK, SPREAD = "pack", "spread"
ALL_ROLES = ""


def ring(roles: Mapping[str, RoleShape]) -> dict[str, str]:
    """Tasks that reduce together are as fast as the longest way between two of them: near one another, all roles alike."""
    return {ALL_ROLES: PACK} if sum(role.replicas_max for role in roles.values()) > 1 else {}


def served(roles: Mapping[str, RoleShape], servers: str) -> dict[str, str]:
    """All workers speak to all servers at once: servers on machines of their own share no network card. Workers by their load."""
    workers = {name: role for name, role in roles.items() if name != servers}
    return {**by_load(workers), **({servers: SPREAD} if roles[servers].replicas_max > 1 else {})}


def by_load(roles: Mapping[str, RoleShape]) -> dict[str, str]:
    """Tasks with GPUs near one another, because they exchange what they compute; those of cores alone apart, because they share
    caches and disks instead."""
    return {name: PACK if role.gpu_millis else SPREAD for name, role in roles.items() if role.replicas_max > 1}


# --- Roles of the short form ---------------------------------------------------------------------------------------------


def headed_roles(role: Mapping[str, Any], head: str, worker: str) -> dict[str, Mapping[str, Any]]:
    """One command for the head, everything else for the workers; the head has what a worker has but no GPU."""
    return {head: without(role, "replicas", "gpu", "ports", "max_retry", "policies"), worker: without(role, "command", "shell")}


def without(role: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """A role as it is written, without some of its keys and of its resources."""
    kept = {key: value for key, value in role.items() if key not in keys}
    resources = kept.get("resources")
    if isinstance(resources, Mapping):
        kept["resources"] = {key: value for key, value in resources.items() if key not in keys}
    return kept
