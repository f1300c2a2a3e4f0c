"""One workload for each kind of object, small enough to read its documents, with all in which tasks can differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from clusters.engines.interface import AddressOf, PortOf, TaskName
from clusters.engines.kubernetes import manifests, wrapper
from clusters.engines.kubernetes.api import Json
from clusters.engines.kubernetes.gang import Gang
from clusters.engines.kubernetes.kind import SELECT_SCRIPT, Kind
from clusters.engines.kubernetes.manifests import Plan
from tests.unit.engines_kubernetes import samples
from tests.unit.engines_kubernetes.samples import CONFIG

ROLES: Mapping[str, tuple[tuple[str, int], ...]] = {
    "tfjob": (("chief", 1), ("worker", 2), ("ps", 1)),
    "rayjob": (("head", 1), ("worker", 1)),
    "mpijob": (("launcher", 1), ("worker", 2)),
    "pytorchjob": (("worker", 3),),
}
_SCRIPTS = {
    manifests.literal(wrapper.SCRIPT): "<wrapper>",
    manifests.literal(wrapper.TASK_SCRIPT): "<task wrapper>",
    manifests.literal(SELECT_SCRIPT): "<select>",
}


def plan(*roles: tuple[str, int], nodes: bool = True, **gate: Any) -> Plan:
    """Tasks with nodes, ranks, the address of the first, and a secret of the last."""
    first, names = roles[0][0], [TaskName(role, index) for role, count in roles for index in range(count)]
    pattern = samples.workload().tasks[0]
    tasks = tuple(
        replace(
            pattern,
            name=name,
            argv=(("train",), (f"--as={name.role}",)),
            env={"RANK": (str(rank),), "MASTER_ADDR": (AddressOf(first, 0), ":", PortOf(first, 0, "berth-torch"))},
            secret_env={"TOKEN": "hush"} if rank == len(names) - 1 else {},
            node=f"node-{rank}" if nodes else "",
        )
        for rank, name in enumerate(names)
    )
    asked = samples.workload(tasks=tasks)
    made = samples.gate(asked, **gate)
    ports = {"berth-torch": 20_000}
    return samples.plan(asked, gate=replace(made, tasks=(replace(made.tasks[0], ports=ports), *made.tasks[1:])))


def documents(kind: Kind, ask: Gang | None = None) -> list[Json]:
    """What the kind makes of its workload, scripts by names in brackets."""
    config = replace(CONFIG, priority_class="low")
    made = kind.render(plan(*ROLES.get(kind.name, (("worker", 2),))), config, ask or Gang())
    return [_without_scripts(document) for document in made]


def _without_scripts(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_scripts(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_scripts(item) for item in value]
    return _SCRIPTS.get(value, value) if isinstance(value, str) else value
