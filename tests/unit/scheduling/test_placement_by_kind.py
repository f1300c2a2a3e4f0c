"""Where the tasks of a framework go when the job says nothing of it: by what they do to one another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from jobs.loading.specs import wish_of
from jobs.scheduling.core.place.gangs import Placed
from jobs.scheduling.core.place.machines import Machine, Machines
from jobs.scheduling.core.place.placing import place
from jobs.scheduling.core.place.scores import PoolRules
from jobs.spec import parse_spec

GIB = 1 << 30
HALL = [
    Machine(f"r{rack}n{number}", 0, 32_000, 128 * GIB, 8, "A100", labels=dict.fromkeys(("rack", "switch", "island"), f"{rack}"))
    for rack in range(2)
    for number in range(3)
]
ROLE = {"command": "x", "resources": {"cpu": 2}}
CARDS = {"command": "x", "resources": {"cpu": 2, "gpu": 4}}


def where(framework: str, roles: Mapping[str, Any], **more: Any) -> dict[str, list[str]]:
    """The machines of each role's tasks, in a hall of two racks of three machines, where a pool packs."""
    gang = wish_of(parse_spec({"framework": framework, "roles": roles, **more})).gang
    machines = Machines(HALL, {0: PoolRules(policy="pack")})
    answer = place(gang, machines, (0,))
    assert isinstance(answer, Placed), answer
    found: dict[str, list[str]] = {}
    for task in answer.tasks:
        found.setdefault(task.role, []).append(HALL[task.machine].name)
    return found


@pytest.mark.capability("84", "Tasks that reduce in a ring are together by default, parameter servers apart")
def test_rings_are_together_and_parameter_servers_apart() -> None:
    assert len(set(where("pytorch", {"worker": {**CARDS, "replicas": 2}})["worker"])) == 1
    roles = {"chief": ROLE, "worker": {**CARDS, "replicas": 2}, "ps": {**ROLE, "replicas": 4}}
    served = where("tensorflow", roles)
    assert len(set(served["ps"])) == 4
    assert len(set(served["worker"])) == 1
    assert len(set(where("mxnet", {"scheduler": ROLE, "worker": ROLE, "server": {**ROLE, "replicas": 3}})["server"])) == 3


@pytest.mark.capability("87", "Workers with GPUs are together and those of cores alone apart, unless the job says otherwise")
def test_workers_go_by_their_load_unless_the_job_says_otherwise() -> None:
    roles = {"head": ROLE, "learner": {**CARDS, "replicas": 2}, "simulator": {**ROLE, "replicas": 4}}
    by_kind = where("ray", roles)
    assert len(set(by_kind["learner"])) == 1
    assert len(set(by_kind["simulator"])) == 4
    assert len(set(where("ray", roles, placement={"together": "pack"})["simulator"])) == 1
    assert len(set(where("ray", roles, placement={"together": "spread"})["learner"])) == 2


def test_a_job_without_framework_goes_where_its_pool_says() -> None:
    gang = wish_of(parse_spec({"command": "x", "replicas": 4})).gang
    assert (gang.together, gang.roles[0].together) == ("", "")
