"""What is free: exact under every sequence of changes, and the same as counting everything anew."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as some

from jobs.scheduling.core.place.machines import WHOLE_MILLIS, Machine, Machines, TaskAsk
from jobs.scheduling.core.place.ranking import ranking_of
from jobs.scheduling.core.place.scores import Mix, PoolRules
from kernel.resources import Resources, total

MODELS = ("", "T4", "A100")
POOLS = (0, 1)
RACK = ("rack", frozenset({"r1"}))
SSD = ("disk", frozenset({"ssd", "nvme"}))


@some.composite
def machines_of(draw: some.DrawFn, largest: int = 6) -> list[Machine]:
    """A few small machines in one or two pools; few values of everything, so that some are equal."""
    return [
        Machine(
            f"node-{number}",
            draw(some.sampled_from(POOLS)),
            draw(some.sampled_from((4000, 8000))),
            draw(some.sampled_from((8, 16))),
            gpus := draw(some.sampled_from((0, 1, 2, 4))),
            draw(some.sampled_from(MODELS[1:])) if gpus else "",
            labels=draw(some.dictionaries(some.sampled_from(("rack", "disk")), some.sampled_from(("r1", "r2", "ssd")))),
            taints=draw(some.sampled_from((frozenset(), frozenset({"kept"})))),
            avoid=draw(some.sampled_from((frozenset(), frozenset({"slow"})))),
            blocked=draw(some.sampled_from(("", "", "", "not ready"))),
            exclusive=draw(some.booleans()),
            images=draw(some.sampled_from((frozenset(), frozenset({"sha256:1"})))),
            data=draw(some.sampled_from((frozenset(), frozenset({"digits"})))),
            tasks_max=draw(some.sampled_from((None, None, 0, 1, 3))),
        )
        for number in range(draw(some.integers(1, largest)))
    ]


asks = some.builds(
    TaskAsk,
    some.sampled_from((0, 1000, 2500, 4000)),
    some.sampled_from((0, 1, 4, 8)),
    some.sampled_from((0, 250, 500, 700, 1000, 2000, 4000)),
    some.sampled_from((frozenset(), frozenset({"T4"}), frozenset({"T4", "A100"}))),
    some.sampled_from(((), (RACK,), (SSD,), (SSD, RACK))),
    some.sampled_from((frozenset(), frozenset({"kept"}))),
    some.booleans(),
)
mixes = some.lists(some.tuples(asks, some.integers(1, 5)), max_size=5).map(Mix)
rules_of = some.builds(
    PoolRules,
    policy=some.sampled_from(("fragmentation", "pack", "spread", "ratio")),
    mix=some.one_of(some.none(), mixes),
    shares=some.just(True),
    levels=some.just(("rack",)),
)


def picture(machines: Machines) -> object:
    """All that an answer may depend on."""
    return (
        [(machines.left(index), machines.devices_left(index)) for index in range(len(machines.at))],
        {pool: machines.free(pool) for pool in POOLS},
        {
            pool: sorted(
                (
                    machine_class.kind_number,
                    machine_class.cpu,
                    machine_class.memory,
                    machine_class.devices,
                    -1 if machine_class.tasks is None else machine_class.tasks,
                    sorted(machine_class.members),
                )
                for machine_class in machines.classes(pool)
            )
            for pool in POOLS
        },
        {pool: state.shared for pool, state in machines.pools.items()},
    )


@given(machines_of(), some.lists(some.tuples(some.integers(0, 5), asks), max_size=8), some.randoms(use_true_random=False))
def test_giving_back_in_any_order_leaves_everything_as_it_was(given_machines, takes, random):
    machines = Machines(given_machines)
    before = picture(machines)
    held = [(number % len(given_machines), ask, machines.take(number % len(given_machines), ask)) for number, ask in takes]
    random.shuffle(held)

    for machine, ask, devices in held:
        machines.give(machine, ask, devices)

    assert picture(machines) == before


@given(machines_of(), some.lists(some.tuples(some.integers(0, 5), asks, some.booleans()), max_size=10))
def test_classes_and_totals_are_what_counting_anew_finds(given_machines, changes):
    machines = Machines(given_machines)
    held = []
    for number, ask, gives in changes:
        if gives and held:
            machines.give(*held.pop(number % len(held)))
        else:
            machine = number % len(given_machines)
            held.append((machine, ask, machines.take(machine, ask)))

    for index, here in enumerate(machines.class_of):
        assert index in here.members
        assert here.devices == tuple(sorted(machines.devices_left(index)))
    for pool in POOLS:
        inside = [machine_class for machine_class in machines.classes(pool) for _ in machine_class.members]
        open_ones = [index for index, facts in enumerate(machines.at) if facts.pool == pool and not facts.blocked]
        assert len(inside) == sum(facts.pool == pool for facts in machines.at)
        assert machines.free(pool) == total([machines.left(index) for index in open_ones])
        assert all(machine_class.first() == min(machine_class.members) for machine_class in machines.classes(pool))


@given(machines_of(), some.lists(some.tuples(some.integers(0, 5), asks), max_size=6), some.integers(0, 6))
def test_rewinding_comes_back_to_the_mark_and_settling_lets_things_stand(given_machines, takes, position):
    machines = Machines(given_machines)
    held = []

    def take(some_takes):
        for number, ask in some_takes:
            held.append((number % len(given_machines), ask, machines.take(number % len(given_machines), ask)))

    take(takes[:position])
    before = picture(machines)
    outer = machines.mark()
    take(takes[position:])
    inner = machines.mark()
    for taken in held:
        machines.give(*taken)
    machines.settle(inner)
    machines.rewind(outer)

    assert picture(machines) == before
    assert not machines.is_marked


@given(machines_of(), some.lists(asks, min_size=1, max_size=3))
def test_a_label_condition_parts_exactly_the_machines_that_meet_it(given_machines, put):
    machines = Machines(given_machines)

    for ask in put:
        bits = [machines.condition(need) for need in ask.needs]
        for index, machine in enumerate(machines.at):
            meets = machines.class_of[index].kind.meets
            assert [bool(meets & bit) for bit in bits] == [machine.labels.get(label) in values for label, values in ask.needs]


@given(machines_of(), some.lists(some.tuples(some.integers(0, 5), asks), max_size=4), machines_of(), rules_of, asks)
def test_updated_facts_are_as_if_they_had_been_so_from_the_start(given_machines, takes, other_facts, rules, ask):
    renewed = [replace(new, name=old.name, pool=old.pool) for old, new in zip(given_machines, other_facts, strict=False)]
    rest = given_machines[len(renewed) :]
    updated, fresh = (Machines(some_machines, dict.fromkeys(POOLS, rules)) for some_machines in (given_machines, renewed + rest))
    for number, asked in takes:
        number %= len(given_machines)
        name = (given_machines[number].pool, given_machines[number].name)
        devices = updated.take(updated.index[name], asked, ())
        fresh.take(fresh.index[name], asked, devices)
    for pool in POOLS:
        ranking_of(updated, pool, ask)

    for machine in renewed:
        updated.update(updated.index[machine.pool, machine.name], machine)

    for pool in POOLS:
        assert updated.free(pool) == fresh.free(pool)
        before, after = (ranking_of(each, pool, ask) for each in (updated, fresh))
        assert (before is None) == (after is None)
        if before is not None and after is not None:
            best, same = before.best(), after.best()
            assert (best and best.machine) == (same and same.machine)


@given(machines_of(), some.integers(0, 5), some.lists(asks, max_size=6))
def test_tasks_that_fit_never_share_a_whole_device(given_machines, number, wanted):
    machines = Machines(given_machines)
    machine = number % len(given_machines)
    used = [0] * given_machines[0].gpus
    used = [0] * machines.at[machine].gpus
    for ask in wanted:
        each = min(ask.gpu_millis, WHOLE_MILLIS)
        if sum(left >= each for left in machines.devices_left(machine)) < max(1, ask.gpu_millis // WHOLE_MILLIS):
            continue
        devices = machines.take(machine, ask)
        assert len(set(devices)) == len(devices)
        assert len(devices) == (-(-ask.gpu_millis // WHOLE_MILLIS) if used else 0)
        for device in devices:
            used[device] += each

    assert all(amount <= WHOLE_MILLIS for amount in used)
    assert list(machines.devices_left(machine)) == [WHOLE_MILLIS - amount for amount in used]


def test_a_machine_that_shrank_below_its_use_is_counted_as_it_is():
    machines = Machines([Machine("a", 0, 4000, 8, 1)])
    ask = TaskAsk(3000, 4, 1000)

    first, second = machines.take(0, ask), machines.take(0, ask)

    assert machines.free(0) == Resources(-2000, 0, -1000)
    machines.give(0, ask, first)
    machines.give(0, ask, second)
    assert machines.free(0) == Resources(4000, 8, 1000)
