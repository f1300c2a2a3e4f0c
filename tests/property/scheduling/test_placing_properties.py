"""Placing against the definition: every machine asked, every score computed anew, no class, no heap and no memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as some

from jobs.scheduling.core.place.filters import TaskShape, copies, refusal
from jobs.scheduling.core.place.machines import WHOLE_MILLIS, Machine, MachineClass, Machines, TaskAsk
from jobs.scheduling.core.place.placing import GangAsk, Placed, RoleAsk, Unplaced, place, recount, undo
from jobs.scheduling.core.place.ranking import ranking_of
from jobs.scheduling.core.place.scores import Mix, PoolRules, Scorer, increase
from tests.property.scheduling.test_machines_properties import POOLS, asks, machines_of, mixes, picture, rules_of

roles_of = some.builds(
    lambda ask, minimum, more, together, image, data: RoleAsk("", ask, minimum, minimum + more, together, None, image, data),
    asks,
    some.integers(1, 3),
    some.sampled_from((0, 0, 2)),
    some.sampled_from(("", "", "pack", "spread", "rack")),
    some.sampled_from(("", "sha256:1")),
    some.sampled_from((frozenset(), frozenset({"digits"}), frozenset({"digits", "faces"}))),
)
gangs_of = some.builds(
    lambda roles, together: GangAsk(tuple(replace(role, role=f"role-{number}") for number, role in enumerate(roles)), together),
    some.lists(roles_of, min_size=1, max_size=2),
    some.sampled_from(("", "pack", "spread", "rack")),
)
single_gangs = some.builds(lambda ask, count: GangAsk((RoleAsk("worker", ask, count, count),)), asks, some.integers(1, 5))


def allows(ask: TaskAsk, machine: Machine) -> bool:
    """The filters that never change, written once more from what they mean."""
    return (
        not machine.blocked
        and (not ask.gpu_millis or not ask.models or machine.model in ask.models)
        and all(machine.labels.get(label) in values for label, values in ask.needs)
        and machine.taints <= ask.tolerates
        and (not ask.exclusive or machine.exclusive)
    )


def fits(ask: TaskAsk, machines: Machines, index: int) -> bool:
    left, devices, tasks = machines.left(index), machines.devices_left(index), machines.class_of[index].tasks
    each, many = min(ask.gpu_millis, WHOLE_MILLIS), -(-ask.gpu_millis // WHOLE_MILLIS)
    return (
        ask.cpu_millis <= left.cpu_millis
        and ask.memory_bytes <= left.memory_bytes
        and (tasks is None or tasks > 0)
        and (not many or sum(millis >= each for millis in devices) >= many)
    )


def brute_force_count(ask: TaskAsk, machines: Machines, pool: int, limit: int) -> int:
    """How many of these tasks fit, by taking wherever one fits until none does."""
    mark, count = machines.mark(), 0
    for index, machine in enumerate(machines.at):
        while count < limit and machine.pool == pool and allows(ask, machine) and fits(ask, machines, index):
            machines.take(index, ask)
            count += 1
    machines.rewind(mark)
    return count


def best_without_classes(ask: TaskAsk, machines: Machines, pool: int) -> int | None:
    """The machine with the best score, each looked at for itself."""
    rules = machines.rules[pool]
    bits = sum(machines.condition(need) for need in set(ask.needs))
    shape = TaskShape.of(ask, bits=bits, shares=rules.shares)
    scorer = Scorer(shape, rules, machines.pools[pool].largest)
    found = []
    for index, machine in enumerate(machines.at):
        if machine.pool == pool and allows(ask, machine) and fits(ask, machines, index):
            known = machines.class_of[index]
            devices = tuple(sorted(machines.devices_left(index)))
            alone = MachineClass(known.kind, known.kind_number, known.cpu, known.memory, devices)
            found.append((-scorer.fit(alone).score, alone.tie, index))
    return min(found)[2] if found else None


def check_capacity(machines: Machines, placed: list[Placed]) -> None:
    """Nothing is over what a machine has, and no device has two owners beyond its thousand parts."""
    used: dict[int, list[int]] = {}
    tasks = Counter(task.machine for gang in placed for task in gang.tasks)
    for gang in placed:
        for task in gang.tasks:
            row = used.setdefault(task.machine, [0, 0, *[0] * machines.at[task.machine].gpus])
            row[0] += task.ask.cpu_millis
            row[1] += task.ask.memory_bytes
            assert len(set(task.devices)) == len(task.devices) == -(-task.ask.gpu_millis // WHOLE_MILLIS)
            for device in task.devices:
                row[2 + device] += min(task.ask.gpu_millis, WHOLE_MILLIS)
    for index, row in used.items():
        machine = machines.at[index]
        assert row[0] <= machine.cpu_millis
        assert row[1] <= machine.memory_bytes
        assert machine.tasks_max is None or tasks[index] <= machine.tasks_max
        assert all(device <= WHOLE_MILLIS for device in row[2:])


@given(machines_of(), some.lists(asks, min_size=1, max_size=8), rules_of)
def test_the_choice_by_classes_is_the_choice_among_all_machines(given_machines, wanted, rules):
    machines = Machines(given_machines, dict.fromkeys(POOLS, rules))
    held = []
    for number, ask in enumerate(wanted):
        for pool in machines.pools:
            ranking = ranking_of(machines, pool, ask)
            best = ranking.best()
            assert (best and best.machine) == best_without_classes(ask, machines, pool)
            assert ranking.leaders(3)[:1] == ([best] if best else [])
            assert ranking.best(within=frozenset(machines.pools[pool].members)) == best
            if best is not None:
                held.append((best.machine, ask, machines.take(best.machine, ask)))
        if number % 3 == 2 and held:
            machines.give(*held.pop(0))


@given(machines_of(), asks, some.lists(some.tuples(some.integers(0, 5), asks), max_size=5), some.booleans())
def test_filters_pass_what_fits_and_nothing_else(given_machines, ask, takes, shares):
    machines = Machines(given_machines)
    bits = sum(machines.condition(need) for need in set(ask.needs))
    for number, taken in takes:
        machines.take(number % len(given_machines), taken)
    shape = TaskShape.of(ask, bits=bits, shares=shares)

    for index, machine in enumerate(machines.at):
        expected = allows(ask, machine) and fits(ask, machines, index) and (shares or not ask.is_share)
        machine_class = machines.class_of[index]
        assert (not refusal(machine_class, shape)) == expected
        if ask != replace(ask, cpu_millis=0, memory_bytes=0, gpu_millis=0):
            count = 0
            mark = machines.mark()
            while count < 20 and expected and fits(ask, machines, index):
                machines.take(index, ask)
                count += 1
            machines.rewind(mark)
            assert count == 20 or copies(machine_class, shape) == count


@given(machines_of(), some.lists(gangs_of, min_size=1, max_size=6), rules_of)
def test_a_gang_is_held_whole_within_capacity_or_nothing_changes(given_machines, gangs, rules):
    machines = Machines(given_machines, dict.fromkeys(POOLS, rules))
    before, placed = picture(machines), []
    for gang in gangs:
        now = picture(machines)
        answer = place(gang, machines, POOLS)
        if isinstance(answer, Unplaced):
            assert picture(machines)[:2] == now[:2]
            continue
        placed.append(answer)
        for role in gang.roles:
            indexes = sorted(task.index for task in answer.tasks if task.role == role.role)
            assert indexes == list(range(len(indexes)))
            assert role.minimum <= len(indexes) <= role.maximum
        for task in answer.tasks:
            assert allows(task.ask, machines.at[task.machine])
            assert machines.at[task.machine].pool == answer.pool
        check_capacity(machines, placed)

    for answer in placed:
        undo(answer, machines)
    assert picture(machines)[:2] == before[:2]


@given(machines_of(), some.lists(gangs_of, min_size=1, max_size=4), rules_of, some.randoms(use_true_random=False))
def test_the_order_of_machines_and_roles_does_not_matter(given_machines, gangs, rules, random):
    mixed = list(given_machines)
    random.shuffle(mixed)
    machines, others = (Machines(some_machines, dict.fromkeys(POOLS, rules)) for some_machines in (given_machines, mixed))

    for gang in gangs:
        roles = list(gang.roles)
        random.shuffle(roles)
        answer, other = place(gang, machines, POOLS), place(replace(gang, roles=tuple(roles)), others, POOLS)
        assert answer == other


@given(machines_of(), some.lists(some.tuples(gangs_of, some.booleans()), min_size=1, max_size=8), rules_of, gangs_of)
def test_what_happened_before_does_not_matter(given_machines, steps, rules, gang):
    """Machines that have seen changes and questions answer as new ones on which the same is taken: what a restart relies on."""
    machines = Machines(given_machines, dict.fromkeys(POOLS, rules))
    held = []
    for other, gives in steps:
        answer = place(other, machines, POOLS)
        held += [answer] if isinstance(answer, Placed) else []
        if gives and held:
            undo(held.pop(0), machines)
    fresh = Machines(given_machines, dict.fromkeys(POOLS, rules))
    for placed in held:
        for task in placed.tasks:
            fresh.take(task.machine, task.ask, task.devices)

    answer, expected = place(gang, machines, POOLS), place(gang, fresh, POOLS)

    if isinstance(expected, Placed):
        assert answer == expected
    else:
        assert isinstance(answer, Unplaced)
        assert answer == expected
        for pool in POOLS:
            assert recount(gang, machines, pool) == recount(gang, fresh, pool)


@given(machines_of(), some.lists(some.tuples(single_gangs, some.booleans()), min_size=1, max_size=12), rules_of)
def test_equal_tasks_are_refused_only_where_counting_finds_too_few(given_machines, steps, rules):
    """With takes and gives in between: never refused what fits, nor placed what does not."""
    machines = Machines(given_machines, dict.fromkeys(POOLS, rules))
    held = []
    for gang, gives in steps:
        if gives and held:
            undo(held.pop(0), machines)
        role = gang.roles[0]
        room = [brute_force_count(role.ask, machines, pool, role.minimum) for pool in POOLS]
        answer = place(gang, machines, POOLS)
        assert isinstance(answer, Placed) == any(count >= role.minimum for count in room)
        if isinstance(answer, Placed):
            held.append(answer)
            assert answer.pool == next(pool for pool in POOLS if room[pool] >= role.minimum)
        else:
            assert answer.code in ("no_room", "no_machine", "no_pool")


@given(machines_of(), some.lists(single_gangs, min_size=2, max_size=8), rules_of)
def test_what_is_placed_between_mark_and_rewind_is_forgotten(given_machines, gangs, rules):
    machines = Machines(given_machines, dict.fromkeys(POOLS, rules))
    answers = []
    for gang in gangs:
        mark = machines.mark()
        answers.append(isinstance(place(gang, machines, POOLS), Placed))
        for other in gangs:
            place(other, machines, POOLS)
        machines.rewind(mark)
    again = []
    for gang in gangs:
        fresh = Machines(given_machines, dict.fromkeys(POOLS, rules))
        again.append(isinstance(place(gang, fresh, POOLS), Placed))

    assert answers == again


@pytest.mark.capability("31", "Fragmentation follows its definition, for the mix of jobs that a pool was counted to get")
@given(machines_of(), some.lists(some.tuples(some.integers(0, 5), asks), max_size=5), mixes, asks)
def test_fragmentation_is_the_sum_of_its_definition(given_machines, takes, mix, ask):
    machines = Machines(given_machines)
    for number, taken in takes:
        machines.take(number % len(given_machines), taken)

    def defined(model: str, cpu: int, memory: int, devices: list[int]) -> int:
        idle = sum(max(0, left) for left in devices)
        lost = 0
        for (need_cpu, need_memory, need_gpu, models), often in mix.shapes:
            each, many = min(need_gpu, WHOLE_MILLIS), -(-need_gpu // WHOLE_MILLIS)
            usable = [left for left in devices if left >= each]
            passes = need_cpu <= cpu and need_memory <= memory and (not models or model in models)
            if not need_gpu or not passes or len(usable) < many:
                lost += often * idle
            else:
                lost += often * (idle - sum(usable))
        return lost

    for index in range(len(machines.at)):
        machine_class = machines.class_of[index]
        devices = list(machines.devices_left(index))
        assert mix.fragmented(
            machine_class.kind.model, machine_class.cpu, machine_class.memory, machine_class.whole, machine_class.partial
        ) == defined(machine_class.kind.model, machine_class.cpu, machine_class.memory, devices)
        shape = TaskShape.of(ask, bits=0, shares=True)
        if refusal(machine_class, shape):
            continue
        after = []
        if ask.is_share:
            for device, left in enumerate(devices):
                if left >= ask.gpu_millis:
                    after.append([*devices[:device], left - ask.gpu_millis, *devices[device + 1 :]])
        else:
            whole = ask.gpu_millis // WHOLE_MILLIS
            after.append([0] * whole + sorted(devices, reverse=True)[whole:])
        cpu, memory = machine_class.cpu - ask.cpu_millis, machine_class.memory - ask.memory_bytes
        before = defined(machine_class.kind.model, machine_class.cpu, machine_class.memory, devices)
        assert increase(machine_class, shape, mix)[0] == min(
            defined(machine_class.kind.model, cpu, memory, each) - before for each in after
        )


@pytest.mark.capability("88", "Seven tasks that want to be apart are on seven machines, or on all there are")
@given(machines_of(), some.integers(1, 9))
def test_tasks_apart_are_on_as_many_machines_as_can_be(given_machines, count):
    """Seven parallel reads land on at least as many machines as there are, or on seven."""
    given_machines = [replace(machine, tasks_max=None) for machine in given_machines]
    machines = Machines(given_machines, dict.fromkeys(POOLS, PoolRules()))
    ask = TaskAsk(100, 0)
    pool = given_machines[0].pool
    able = [index for index, machine in enumerate(machines.at) if machine.pool == pool and allows(ask, machine)]

    answer = place(GangAsk((RoleAsk("read", ask, count, count, "spread"),)), machines, (pool,))

    assert isinstance(answer, Placed) == bool(able)
    if isinstance(answer, Placed):
        assert len({task.machine for task in answer.tasks}) == min(count, len(able))


@given(machines_of(), asks, some.integers(1, 3), some.integers(0, 3))
def test_one_role_gets_the_largest_number_that_fits(given_machines, ask, minimum, more):
    rules = PoolRules(shares=True, mix=Mix([(ask, 1)]))
    machines = Machines(given_machines, dict.fromkeys(POOLS, rules))
    room = brute_force_count(ask, machines, 0, minimum + more)

    answer = place(GangAsk((RoleAsk("worker", ask, minimum, minimum + more),)), machines, (0,))

    assert (len(answer.tasks) if isinstance(answer, Placed) else 0) == (room if room >= minimum else 0)


@pytest.mark.capability("95", "No more GPUs are shared than the pool allows, and a part joins one that is shared already")
@given(machines_of(), some.lists(some.tuples(single_gangs, some.booleans()), min_size=1, max_size=10), some.integers(0, 3))
def test_no_more_devices_are_lent_in_parts_than_the_pool_allows(given_machines, steps, most):
    machines = Machines(given_machines, dict.fromkeys(POOLS, PoolRules(shares=True, shared_devices_max=most)))
    held = []
    for gang, gives in steps:
        if gives and held:
            undo(held.pop(0), machines)
        answer = place(gang, machines, POOLS)
        held += [answer] if isinstance(answer, Placed) else []
        lent = {(task.machine, *task.devices) for placed in held for task in placed.tasks if task.ask.is_share}
        for pool in POOLS:
            inside = {device for device in lent if machines.at[device[0]].pool == pool}
            assert len(inside) <= most
            assert pool not in machines.pools or machines.pools[pool].shared == len(inside)
    check_capacity(machines, held)
