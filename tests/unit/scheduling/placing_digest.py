"""Places some hundred gangs of every wish and prints what came out, to be compared between processes."""

from __future__ import annotations

import hashlib
import random

from jobs.scheduling.core.place.machines import Machine, Machines, TaskAsk
from jobs.scheduling.core.place.placing import GangAsk, Placed, RoleAsk, place, undo
from jobs.scheduling.core.place.scores import Mix, PoolRules

WISHES = ("", "pack", "spread", "rack")


def main() -> None:
    chance = random.Random(7)
    machines = [
        Machine(
            f"node-{number}", number % 2, 32_000, 64, 8, "A100" if number % 2 else "T4",
            {"rack": str(number // 8), "disk": "ssd" if number % 3 else "hdd"},
            frozenset({"kept"}) if number % 7 == 0 else frozenset(), images=frozenset({f"image-{number % 5}"}),
        )
        for number in range(64)
    ]  # fmt: skip
    asks = [
        TaskAsk(
            chance.randrange(1, 9) * 1000, chance.randrange(16), chance.choice((0, 500, 1000, 2000, 8000)),
            frozenset(chance.sample(("A100", "T4"), chance.randrange(3))),
            chance.choice(((), (("disk", frozenset({"ssd", "nvme"})),))),
            chance.choice((frozenset(), frozenset({"kept", "odd"}))),
        )
        for _ in range(30)
    ]  # fmt: skip
    rules = PoolRules("fragmentation", mix=Mix((ask, 1) for ask in asks), shares=True, levels=("rack",))
    chance.shuffle(machines)
    all_of_them = Machines(machines, {0: rules, 1: rules})
    digest, held = hashlib.sha256(), []
    for _ in range(400):
        roles = [
            RoleAsk(f"role-{number}", chance.choice(asks), 1, chance.randrange(1, 5), image=f"image-{number}")
            for number in range(chance.randrange(1, 4))
        ]
        answer = place(GangAsk(tuple(roles), chance.choice(WISHES)), all_of_them, (0, 1))
        if isinstance(answer, Placed):
            held.append(answer)
            tasks = [(task.role, task.index, task.machine, task.devices) for task in answer.tasks]
            digest.update(repr((answer.pool, tasks, answer.hops, answer.tables)).encode())
        else:
            digest.update(repr(answer).encode())
        if len(held) > 40:
            undo(held.pop(chance.randrange(len(held))), all_of_them)
    print(digest.hexdigest())


if __name__ == "__main__":
    main()
