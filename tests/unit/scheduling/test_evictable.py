"""What there would be room for without those that may be evicted: kept up to date by what changed, equal to a count anew."""

from __future__ import annotations

import random

import pytest

from jobs.scheduling.core.place import machines as module
from jobs.scheduling.core.place.gangs import GangAsk, Placed, PlacedTask, RoleAsk
from jobs.scheduling.core.place.machines import Machine, Machines, TaskAsk
from jobs.scheduling.core.place.ranking import ranking_of
from jobs.scheduling.core.state.evictable import VictimCandidates
from jobs.scheduling.core.state.work import JobAsk, Running
from tenants.capacity.quota.shares import Standing

NODES = 12
TWO = TaskAsk(100, 1 << 10, 2000)


def cluster() -> Machines:
    return Machines([Machine(f"n{number:02}", 0, 32_000, 1 << 30, 4) for number in range(NODES)])


def runs(machines: Machines, name: str, machine: int, gpus: int) -> Running:
    ask = TaskAsk(100, 1 << 10, gpus * 1000)
    job = JobAsk(name, 1, GangAsk((RoleAsk("worker", ask, 1, 1),)), (0,), 0)
    task = PlacedTask("worker", 0, machine, ask, machines.take(machine, ask))
    need = ((0, (ask.cpu_millis, ask.memory_bytes, ask.gpu_millis)),)
    return Running(job, Placed(0, (task,)), need, 0, Standing.BORROWED)


def test_what_is_kept_of_the_gain_equals_a_count_anew() -> None:
    chance, machines = random.Random(4), cluster()
    ranking = ranking_of(machines, 0, TWO)
    assert ranking is not None
    candidates, others, inside = VictimCandidates(0, ()), [], []
    for number in range(400):
        what, machine = chance.random(), chance.randrange(NODES)
        gpus = chance.randint(1, 2)
        if what < 0.6 and machines.left(machine).gpu_millis >= gpus * 1000:
            running = runs(machines, f"job-{number}", machine, gpus)
            if what < 0.35:
                candidates.add(running)
                inside.append(running)
            else:
                others.append(running)
        elif what < 0.8 and inside:
            running = inside.pop(chance.randrange(len(inside)))
            candidates.remove(running)
            others.append(running)
        elif others:
            for task in others.pop(chance.randrange(len(others))).placed.tasks:
                machines.give(task.machine, task.ask, task.devices)
        if chance.random() < 0.7:
            assert candidates.gain(machines, ranking, 7) == VictimCandidates(0, inside).gain(machines, ranking, 7)
    assert inside


def test_machines_tell_which_of_them_changed_as_long_as_that_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOVED_MAX", 4)
    machines = cluster()
    began = machines.version
    for machine in (3, 5, 3):
        machines.take(machine, TWO)
    assert machines.moved_since(began) == [3, 5, 3]
    assert machines.moved_since(machines.version) == []
    before, mark = machines.version, machines.mark()
    machines.take(7, TWO)
    tried = machines.version
    machines.rewind(mark)
    assert machines.version == before
    assert machines.moved_since(before) == []
    machines.take(9, TWO)
    assert machines.moved_since(before) == [9]
    assert machines.version != tried
    assert machines.moved_since(tried) is None
    for machine in range(4, 12):
        machines.take(machine, TaskAsk(100, 0))
    assert machines.moved_since(began) is None
    assert machines.moved_since(machines.version - 2) == [10, 11]
