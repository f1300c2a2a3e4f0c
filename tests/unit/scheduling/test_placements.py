"""What is kept of a refusal: how many tasks fit at most is kept up to date by what changed, equal to a count anew."""

from __future__ import annotations

import random

from jobs.scheduling.core.place.gangs import GangAsk, RoleAsk, Unplaced
from jobs.scheduling.core.place.machines import Machine, Machines, TaskAsk
from jobs.scheduling.core.place.ranking import ranking_of
from jobs.scheduling.core.placements import CachedRefusal
from jobs.scheduling.core.state.work import Shapes
from kernel.wait_codes import WaitCode

NODES = 8
ONE, TWO = TaskAsk(100, 1 << 10, 1000), TaskAsk(100, 1 << 10, 2000)


def test_what_fits_on_machines_that_grew_equals_a_count_anew() -> None:
    chance = random.Random(5)
    machines = Machines([Machine(f"n{number}", 0, 32_000, 1 << 30, 4) for number in range(NODES)])
    held = [(machine, machines.take(machine, ONE)) for machine in range(NODES) for _ in range(4)]
    shape = Shapes().of(GangAsk((RoleAsk("worker", TWO, 9, 9),)), (0,))
    known = CachedRefusal(shape, Unplaced(WaitCode.NO_ROOM, 0, "worker", 9, 0))
    grown: set[int] = set()
    counts = set()
    for _ in range(600):
        mark = machines.mark() if chance.random() < 0.2 else None
        if held and chance.random() < 0.55:
            machine, devices = held[at := chance.randrange(len(held))]
            machines.give(machine, ONE, devices)
            if mark is None:
                del held[at]
                grown.add(machine)
                known.grow({machine}, machines, 0)
        elif machines.left(machine := chance.randrange(NODES)).gpu_millis:
            devices = machines.take(machine, ONE)
            if mark is None:
                held.append((machine, devices))
        if chance.random() < 0.6:
            ranking = ranking_of(machines, 0, TWO)
            assert ranking is not None
            expected = ranking.room_on(grown)
            if mark is None:
                assert known.most(machines, 0) == expected
                counts.add(expected)
            else:
                known.most(machines, 0)
        if mark is not None:
            machines.rewind(mark)
    assert len(counts) > 3
