"""Moves that make room: the plan holds when it is carried out, and no fewer or cheaper moves do."""

from __future__ import annotations

from itertools import combinations

from hypothesis import event, given
from hypothesis import strategies as some

from jobs.scheduling.core.defragment import Defragmented, Movable, defragment
from jobs.scheduling.core.place.machines import Machine, Machines, TaskAsk
from jobs.scheduling.core.place.placing import GangAsk, Placed, RoleAsk, Unplaced, place, undo
from jobs.scheduling.core.place.scores import PoolRules
from tests.property.scheduling.test_machines_properties import picture


def a_gang(gpus: int, count: int, *, models: frozenset[str] = frozenset(), together: str = "") -> GangAsk:
    return GangAsk((RoleAsk("worker", TaskAsk(gpus * 1000, 0, gpus * 1000, models), count, count, together),))


@some.composite
def scenes(draw: some.DrawFn) -> tuple[list[Machine], list[tuple[int, int, int]], GangAsk]:
    """A few machines of 4 devices, whom moved gangs may leave for a machine that the new gang cannot use; and what runs."""
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


def start(machines: Machines, running: list[tuple[int, int, int]], *, spread: bool) -> list[Movable]:
    """Start what runs on the machines that the new gang wants, so that there is something to move."""
    movables = []
    for number, (gpus, count, cost) in enumerate(running):
        here = a_gang(gpus, count, models=frozenset({"A100"}), together="spread" if spread else "")
        placed = place(here, machines, (0,))
        if isinstance(placed, Placed):
            movables.append(Movable(f"job-{number}", cost, a_gang(gpus, count), placed.tasks, (0,)))
    return movables


def carried_out(gang: GangAsk, machines: Machines, moved: list[Movable]) -> bool:
    """Whether gang and moved gangs all have a place, by making the moves; everything is undone."""
    mark = machines.mark()
    for movable in moved:
        for task in movable.tasks:
            machines.give(task.machine, task.ask, task.devices)
    fits = all(isinstance(place(one, machines, (0,)), Placed) for one in [gang, *(movable.as_it_is for movable in moved)])
    machines.rewind(mark)
    return fits


@given(scenes(), some.booleans(), some.integers(1, 3))
def test_a_plan_is_the_fewest_and_cheapest_moves_and_holds_when_carried_out(scene, spread, moves_max):
    given_machines, running, gang = scene
    machines = Machines(given_machines, {0: PoolRules("pack", levels=("rack",))})
    movables = start(machines, running, spread=spread)
    before = picture(machines)

    plan = defragment(gang, machines, (0,), movables, moves_max=moves_max)

    assert picture(machines) == before
    works = [
        (len(chosen), sum(one.cost for one in chosen))
        for size in range(moves_max + 1)
        for chosen in combinations(movables, size)
        if carried_out(gang, machines, list(chosen))
    ]
    if isinstance(plan, Unplaced):
        assert not works
        return
    event(f"{len(plan.moves)} moves")
    assert plan.is_best
    assert (len(plan.moves), plan.cost) == min(works)
    by_name = {movable.name: movable for movable in movables}
    for move in plan.moves:
        for task in by_name[move.name].tasks:
            machines.give(task.machine, task.ask, task.devices)
    for placed in (plan.placed, *(move.to for move in plan.moves)):
        for task in placed.tasks:
            assert all(machines.devices_left(task.machine)[device] == 1000 for device in task.devices)
            machines.take(task.machine, task.ask, task.devices)


def test_a_gang_that_fits_needs_no_move_and_one_that_never_fits_gets_none():
    machines = Machines([Machine("a", 0, 8000, 8, 4, "A100")], {0: PoolRules()})

    plan = defragment(a_gang(2, 2), machines, (0,), [])
    assert isinstance(plan, Defragmented)
    assert (plan.moves, plan.cost) == ((), 0)

    refused = defragment(a_gang(2, 3), machines, (0,), [])
    assert isinstance(refused, Unplaced)
    assert refused.fitting == 2


def test_one_cheap_gang_moves_where_two_machines_are_half_full():
    machines = Machines([Machine(name, 0, 32_000, 8, 8, "A100") for name in "ab"], {0: PoolRules("spread")})
    movables = [
        Movable(f"job-{number}", cost, a_gang(4, 1), one.tasks, (0,))
        for number, cost in enumerate((900, 30))
        if isinstance(one := place(a_gang(4, 1), machines, (0,)), Placed)
    ]
    assert isinstance(place(a_gang(8, 1), machines, (0,)), Unplaced)

    plan = defragment(a_gang(8, 1), machines, (0,), movables)

    assert isinstance(plan, Defragmented)
    assert [(move.name, move.cost) for move in plan.moves] == [("job-1", 30)]
    assert {task.machine for task in plan.moves[0].to.tasks} == {task.machine for task in movables[0].tasks}
    undone = place(a_gang(4, 1), machines, (0,))
    assert isinstance(undone, Placed)
    undo(undone, machines)
