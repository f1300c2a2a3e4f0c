"""Migrations that make room: the plan holds when it is carried out, and no fewer or cheaper migrations do."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import event, given
from hypothesis import strategies as some

from jobs.scheduling.core.defragment import Defragmented, Migratable, defragment
from jobs.scheduling.core.place.machines import Machine, Machines, TaskAsk
from jobs.scheduling.core.place.placing import GangAsk, Placed, RoleAsk, Unplaced, place, undo
from jobs.scheduling.core.place.scores import PoolRules
from tests.property.scheduling.test_machines_properties import picture


def a_gang(gpus: int, count: int, *, models: frozenset[str] = frozenset(), together: str = "") -> GangAsk:
    return GangAsk((RoleAsk("worker", TaskAsk(gpus * 1000, 0, gpus * 1000, models), count, count, together),))


@some.composite
def scenes(draw: some.DrawFn) -> tuple[list[Machine], list[tuple[int, int, int]], GangAsk]:
    """A few machines of 4 devices, whom migrated gangs may leave for a machine that the new gang cannot use; and what runs."""
    racks = draw(some.booleans())
    machines = [
        Machine(f"n{number}", 0, 100_000, 1, 4, "A100", {"rack": str(number // 2)} if racks else {})
        for number in range(draw(some.integers(2, 4)))
    ]
    machines.append(Machine("spare", 0, 100_000, 1, 16, "T4"))
    running = draw(some.lists(some.tuples(some.integers(1, 3), some.integers(1, 2), some.integers(1, 9)), min_size=2, max_size=7))
    together = draw(some.sampled_from(("", "pack", "rack"))) if racks else ""
    gang = a_gang(draw(some.integers(2, 4)), draw(some.integers(2, 4)), models=frozenset({"A100"}), together=together)
    return machines, running, gang


def start(machines: Machines, running: list[tuple[int, int, int]], *, spread: bool) -> list[Migratable]:
    """Start what runs on the machines that the new gang wants, so that there is something to migrate."""
    migratables = []
    for number, (gpus, count, cost) in enumerate(running):
        here = a_gang(gpus, count, models=frozenset({"A100"}), together="spread" if spread else "")
        placed = place(here, machines, (0,))
        if isinstance(placed, Placed):
            migratables.append(Migratable(f"job-{number}", cost, a_gang(gpus, count), placed.tasks, (0,)))
    return migratables


def carried_out(gang: GangAsk, machines: Machines, migrated: list[Migratable]) -> bool:
    """Whether gang and migrated gangs all have a place, by making the migrations; everything is undone."""
    mark = machines.mark()
    for migratable in migrated:
        for task in migratable.tasks:
            machines.give(task.machine, task.ask, task.devices)
    fits = all(
        isinstance(place(ask, machines, (0,)), Placed) for ask in [gang, *(migratable.as_it_is for migratable in migrated)]
    )
    machines.rewind(mark)
    return fits


@pytest.mark.capability("29", "The plan has the fewest and cheapest migrations")
@given(scenes(), some.booleans(), some.integers(1, 3))
def test_a_plan_is_the_fewest_and_cheapest_moves_and_holds_when_carried_out(scene, spread, moves_max):
    given_machines, running, gang = scene
    machines = Machines(given_machines, {0: PoolRules("pack", levels=("rack",))})
    migratables = start(machines, running, spread=spread)
    before = picture(machines)

    plan = defragment(gang, machines, (0,), migratables, migrations_max=moves_max)

    assert picture(machines) == before
    works = [
        (len(chosen), sum(migratable.cost for migratable in chosen))
        for size in range(moves_max + 1)
        for chosen in combinations(migratables, size)
        if carried_out(gang, machines, list(chosen))
    ]
    if isinstance(plan, Unplaced):
        assert not works
        return
    event(f"{len(plan.migrations)} migrations")
    assert plan.is_best
    assert (len(plan.migrations), plan.cost) == min(works)
    by_name = {migratable.name: migratable for migratable in migratables}
    for migration in plan.migrations:
        for task in by_name[migration.name].tasks:
            machines.give(task.machine, task.ask, task.devices)
    for placed in (plan.placed, *(migration.to for migration in plan.migrations)):
        for task in placed.tasks:
            assert all(machines.devices_left(task.machine)[device] == 1000 for device in task.devices)
            machines.take(task.machine, task.ask, task.devices)


def test_a_gang_that_fits_needs_no_move_and_one_that_never_fits_gets_none():
    machines = Machines([Machine("a", 0, 8000, 8, 4, "A100")], {0: PoolRules()})

    plan = defragment(a_gang(2, 2), machines, (0,), [])
    assert isinstance(plan, Defragmented)
    assert (plan.migrations, plan.cost) == ((), 0)

    refused = defragment(a_gang(2, 3), machines, (0,), [])
    assert isinstance(refused, Unplaced)
    assert refused.fitting == 2


def test_one_cheap_gang_moves_where_two_machines_are_half_full():
    machines = Machines([Machine(name, 0, 32_000, 8, 8, "A100") for name in "ab"], {0: PoolRules("spread")})
    migratables = [
        Migratable(f"job-{number}", cost, a_gang(4, 1), placed.tasks, (0,))
        for number, cost in enumerate((900, 30))
        if isinstance(placed := place(a_gang(4, 1), machines, (0,)), Placed)
    ]
    assert isinstance(place(a_gang(8, 1), machines, (0,)), Unplaced)

    plan = defragment(a_gang(8, 1), machines, (0,), migratables)

    assert isinstance(plan, Defragmented)
    assert [(migration.name, migration.cost) for migration in plan.migrations] == [("job-1", 30)]
    assert {task.machine for task in plan.migrations[0].to.tasks} == {task.machine for task in migratables[0].tasks}
    undone = place(a_gang(4, 1), machines, (0,))
    assert isinstance(undone, Placed)
    undo(undone, machines)
