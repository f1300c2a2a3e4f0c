"""Three kinds of distributed work, and what a lost task means in each: the frameworks' own defaults."""

from __future__ import annotations

import json

import pytest

from jobs.frameworks import get_framework
from tests.unit.frameworks.resolving import a_job, a_role, environment_of


def tries_and_waits(framework: str, *roles) -> dict[str, tuple[int, list[str]]]:
    """By role, how often its command is started again alone, and which roles it waits for."""
    found = {}
    for task in get_framework(framework).compile(a_job(*roles)).tasks:
        plan = json.loads(environment_of(task).get("BERTH_TASK_PLAN", "{}"))
        found[task.name.role] = plan.get("max_retry", 0), plan.get("after", [])
    return found


@pytest.mark.capability("83", "Stateless consumers, ordered work and clusters in order of roles differ in tries and waits")
def test_kinds_of_work_differ_in_what_a_lost_task_means():
    consumers = tries_and_waits("queue", a_role("dispatcher", 1), a_role("worker", 4))
    assert consumers == {"dispatcher": (0, []), "worker": (10, ["dispatcher"])}, "a consumer holds nothing, and comes back"
    maps = tries_and_waits("mapreduce", a_role("map", 2), a_role("reduce", 1))
    assert maps == {"map": (3, []), "reduce": (3, [])}
    cluster = tries_and_waits("ray", a_role("head", 1), a_role("worker", 2))
    assert cluster == {"head": (0, []), "worker": (3, ["head"])}, "a cluster begins with its head, and dies with it"
    ring = tries_and_waits("pytorch", a_role("worker", 2))
    assert ring == {"worker": (0, [])}, "a rank does not come back alone"
