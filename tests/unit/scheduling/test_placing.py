"""Where gangs go, and what keeps them out: one scene for each filter, score and wish."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from jobs.scheduling.core.place.filters import FILTERS, Refusal
from jobs.scheduling.core.place.machines import Machine, Machines, TaskAsk
from jobs.scheduling.core.place.placing import GangAsk, Placed, RoleAsk, Unplaced, place, undo
from jobs.scheduling.core.place.scores import SCALE, Mix, PoolRules
from jobs.scheduling.questions.idle import idle_of

GIB = 1 << 30


def a_node(name: str, **facts: object) -> Machine:
    return replace(Machine(name, 0, 32_000, 128 * GIB, 8, "A100"), **facts)


def nodes(count: int, **facts: object) -> list[Machine]:
    return [a_node(f"node-{number}", **facts) for number in range(count)]


def standing(racks: int, switches: int, islands: int, size: int, **facts: object) -> list[Machine]:
    """So many racks of switches of islands of machines."""
    return [
        a_node(
            f"r{rack}s{switch}i{island}n{number}",
            labels={"rack": f"{rack}", "switch": f"{switch}", "island": f"{island}"},
            **facts,
        )
        for rack in range(racks)
        for switch in range(switches)
        for island in range(islands)
        for number in range(size)
    ]


def machines_with(some_nodes: list[Machine], **rules: object) -> Machines:
    return Machines(some_nodes, {pool: PoolRules(**rules) for pool in {node.pool for node in some_nodes}})


def an_ask(gpus: float = 1, cores: float = 1, gib: int = 1, **more: object) -> TaskAsk:
    return TaskAsk(int(cores * 1000), gib * GIB, int(gpus * 1000), **more)


def a_gang(count: int, ask: TaskAsk | None = None, together: str = "", *, most: int | None = None, **more: object) -> GangAsk:
    return GangAsk((RoleAsk("worker", ask or an_ask(), count, most or count, together, **more),))


def placed(gang: GangAsk, machines: Machines, pools: tuple[int, ...] = (0,)) -> Placed:
    answer = place(gang, machines, pools)
    assert isinstance(answer, Placed), answer
    return answer


def unplaced(gang: GangAsk, machines: Machines, pools: tuple[int, ...] = (0,)) -> Unplaced:
    answer = place(gang, machines, pools)
    assert isinstance(answer, Unplaced), answer
    return answer


def names(answer: Placed, machines: Machines, role: str = "worker") -> list[str]:
    return [machines.at[task.machine].name for task in answer.tasks if task.role == role]


def fill(machines: Machines, name: str, ask: TaskAsk) -> tuple[int, ...]:
    index = machines.find(0, name)
    assert index is not None
    return machines.take(index, ask)


@pytest.mark.capability("15", "predicates: every filter of machines refuses with its own reason and numbers")
@pytest.mark.capability("89", "Every filter says how many machines it refused, what is needed and the most that is left")
@pytest.mark.parametrize(
    ("facts", "ask", "expected"),
    [
        ({"blocked": "not ready"}, an_ask(), Refusal("blocked", 2)),
        ({}, an_ask(models=frozenset({"H100"})), Refusal("gpu_model", 2)),
        ({}, an_ask(needs=(("disk", frozenset({"ssd"})),)), Refusal("label", 2)),
        ({"taints": frozenset({"team-a"})}, an_ask(), Refusal("taint", 2)),
        ({}, an_ask(exclusive=True), Refusal("exclusive_cores", 2)),
        ({}, an_ask(gpus=0.5), Refusal("shares_not_allowed", 2)),
        ({}, an_ask(gpus=9), Refusal("gpu", 2, 9000, 8000, 2)),
        ({"gpus": 0, "model": ""}, an_ask(), Refusal("gpu", 2, 1000, 0, 2)),
        ({}, an_ask(cores=33), Refusal("cpu", 2, 33_000, 32_000, 2)),
        ({}, an_ask(gib=129), Refusal("memory", 2, 129 * GIB, 128 * GIB, 2)),
        ({"tasks_max": 0}, an_ask(), Refusal("tasks", 2, 1, 0, 2)),
    ],
)
def test_each_filter_says_how_many_machines_it_refused_and_what_they_have(facts, ask, expected):
    machines = machines_with(nodes(2, **facts))

    answer = unplaced(a_gang(1, ask), machines)

    assert answer == Unplaced("no_machine", 0, "worker", 1, 0, (expected,))
    assert expected.code in FILTERS


def test_a_machine_with_a_bound_on_tasks_takes_no_more_whatever_they_need():
    machines = machines_with(nodes(2, tasks_max=3))
    gang = a_gang(1, an_ask(gpus=0, cores=0.1), most=9)
    first = placed(gang, machines)
    assert len(first.tasks) == 6

    answer = unplaced(gang, machines)

    assert (answer.code, answer.refusals) == ("no_room", (Refusal("tasks", 2, 1, 0, 0),))
    machines.update(0, a_node("node-0", tasks_max=4))  # Another's pod has ended there.
    assert names(placed(gang, machines), machines) == ["node-0"]
    undo(first, machines)
    assert len(placed(gang, machines).tasks) == 6


def test_what_is_only_taken_now_has_to_wait_and_the_numbers_tell_the_most_that_is_left():
    machines = machines_with(nodes(3))
    fill(machines, "node-0", an_ask(gpus=6))
    fill(machines, "node-1", an_ask(gpus=7))
    fill(machines, "node-2", an_ask(gpus=0, cores=30))

    answer = unplaced(a_gang(1, an_ask(gpus=4, cores=8)), machines)

    assert answer.code == "no_room"
    assert answer.refusals == (Refusal("gpu", 2, 4000, 2000, 0), Refusal("cpu", 1, 8000, 2000, 0))


@pytest.mark.capability("89", "Every filter says how many machines it refused, what is needed and the most that is left")
def test_the_first_filter_that_refuses_a_machine_is_blamed_for_it():
    machines = machines_with(
        [a_node("a", blocked="cordoned", taints=frozenset({"kept"})), a_node("b", taints=frozenset({"kept"}))]
    )

    answer = unplaced(a_gang(1, an_ask(gpus=9)), machines)

    assert [(refusal.code, refusal.machines) for refusal in answer.refusals] == [("blocked", 1), ("taint", 1)]


def test_four_gangs_of_four_on_twelve_devices_leave_one_that_holds_nothing():
    machines = machines_with(nodes(3, gpus=4))
    answers = [place(a_gang(4), machines, (0,)) for _ in range(4)]

    assert [isinstance(answer, Placed) for answer in answers] == [True, True, True, False]
    assert machines.free(0).gpu_millis == 0
    assert answers[3].fitting == 0


def test_roles_of_one_gang_start_together_or_not_at_all():
    machines = machines_with(nodes(1))
    gang = GangAsk((RoleAsk("head", an_ask(gpus=0, cores=4), 1, 1), RoleAsk("worker", an_ask(gpus=8, cores=30), 1, 1)))

    answer = unplaced(gang, machines)

    assert (answer.role, answer.needed, answer.fitting) == ("head", 1, 0)
    assert machines.free(0).cpu_millis == 32_000


def test_a_gang_that_may_be_smaller_gets_as_many_as_fit():
    machines = machines_with(nodes(1))

    assert len(placed(a_gang(2, most=20), machines).tasks) == 8
    assert unplaced(a_gang(2, most=20), machines).fitting == 0


def test_roles_that_may_be_smaller_grow_in_turn():
    machines = machines_with(nodes(1))
    gang = GangAsk((RoleAsk("a", an_ask(), 1, 8), RoleAsk("b", an_ask(), 1, 8)))

    assert Counter(task.role for task in placed(gang, machines).tasks) == {"a": 4, "b": 4}


def test_a_gang_that_fits_only_with_its_smaller_role_first_is_found():
    """The GPU role would take the cores that only the large machine has for the other."""
    machines = machines_with(
        [a_node("large", cpu_millis=10_000, gpus=4), a_node("small", cpu_millis=4_000, gpus=1)], policy="spread"
    )
    gang = GangAsk((RoleAsk("train", an_ask(gpus=1, cores=2), 1, 1), RoleAsk("read", an_ask(gpus=0, cores=9), 1, 1)))

    answer = placed(gang, machines)

    assert (names(answer, machines, "train"), names(answer, machines, "read")) == (["small"], ["large"])


def test_pools_are_tried_in_the_order_given_and_a_role_may_name_its_own():
    machines = machines_with([a_node("a"), a_node("b", pool=1), a_node("c", pool=2, gpus=0, model="")])

    assert placed(a_gang(8), machines, (1, 0)).pool == 1
    assert placed(a_gang(8), machines, (1, 0)).pool == 0
    assert unplaced(a_gang(8), machines, (1, 0)).code == "no_room"
    head = placed(GangAsk((RoleAsk("head", an_ask(gpus=0), 1, 1, pool=2),)), machines, (0,))
    assert machines.at[head.tasks[0].machine].name == "c"
    assert unplaced(a_gang(1), machines, (7,)).code == "no_pool"
    assert unplaced(a_gang(1), machines, ()).code == "no_pool"


@pytest.mark.capability(
    "90", "Each placement keeps the table of its scores; the lowest part taken is preferred where a pool says so"
)
def test_the_table_shows_the_winner_and_the_next_best_by_term():
    some_nodes = [a_node("full"), a_node("half"), a_node("empty"), a_node("other"), a_node("blocked", blocked="cordoned")]
    machines = machines_with(some_nodes, policy="pack", runners_up=2)
    fill(machines, "full", an_ask(gpus=7))
    fill(machines, "half", an_ask(gpus=4))
    fill(machines, "other", an_ask(gpus=1))

    answer = placed(a_gang(1), machines)

    ((role, rows),) = answer.tables
    assert role == "worker"
    assert [row.machine for row in rows] == ["full", "half", "other"]
    assert [term for term, _, _ in rows[0].terms] == ["pack", "taints"]
    assert all(row.total == sum(value * weight for _, value, weight in row.terms) for row in rows)
    assert rows[0].total > rows[1].total > rows[2].total


@pytest.mark.capability(
    "90", "Each placement keeps the table of its scores; the lowest part taken is preferred where a pool says so"
)
def test_the_lowest_part_taken_is_preferred_where_the_pool_says_so():
    machines = machines_with([a_node("large", cpu_millis=64_000), a_node("small", cpu_millis=16_000)], policy="ratio")
    fill(machines, "large", an_ask(gpus=0, cores=8))
    fill(machines, "small", an_ask(gpus=0, cores=3))

    assert names(placed(a_gang(1, an_ask(gpus=0)), machines), machines) == ["large"]


def test_a_taint_that_asks_to_be_avoided_counts_unless_it_is_tolerated():
    machines = machines_with([a_node("a", avoid=frozenset({"spot"})), a_node("b")], policy="pack")
    fill(machines, "a", an_ask(gpus=4))

    assert names(placed(a_gang(1), machines), machines) == ["b"]
    assert names(placed(a_gang(1, an_ask(tolerates=frozenset({"spot"}))), machines), machines) == ["a"]
    assert names(placed(a_gang(8), machines), machines).count("a") == 1


def test_an_image_and_data_in_place_are_preferred_and_told():
    some_nodes = [a_node("a"), a_node("b", images=frozenset({"sha256:1"})), a_node("c", data=frozenset({"digits"}))]
    machines = machines_with(some_nodes, policy="pack")

    assert names(placed(a_gang(1, image="sha256:1"), machines), machines) == ["b"]
    answer = placed(a_gang(1, data=frozenset({"digits", "faces"})), machines)
    assert names(answer, machines) == ["c"]
    assert ("data", SCALE // 2, 20) in answer.tables[0][1][0].terms


@pytest.mark.capability("29", "Machines are chosen so that idle GPUs stay usable for what the pool usually gets")
def test_the_gradient_keeps_whole_machines_for_the_large_tasks_of_the_mix():
    mix = Mix([(an_ask(gpus=8, cores=8), 5), (an_ask(gpus=1), 5)])
    machines = machines_with(nodes(4), policy="fragmentation", mix=mix)
    for _ in range(8):
        placed(a_gang(1), machines)

    assert max(machine_class.whole for machine_class in machines.classes(0)) == 8
    assert idle_of(machines, 0).fragmentation == 0
    for index in range(4):
        machines.take(index, an_ask(gpus=1))
    assert max(machine_class.whole for machine_class in machines.classes(0)) == 7
    assert idle_of(machines, 0).fragmentation == 500


def test_an_idle_pool_is_not_fragmented_and_jobs_without_gpus_fragment_none():
    assert idle_of(machines_with(nodes(2), mix=Mix([(an_ask(gpus=0), 3)])), 0).fragmentation is None
    for mix in (Mix([(an_ask(gpus=0), 3), (an_ask(gpus=1), 1)]), Mix([(an_ask(gpus=8, cores=1_000), 1)])):
        assert idle_of(machines_with(nodes(2), mix=mix), 0).fragmentation == 0
    machines = machines_with(nodes(4), mix=Mix([(an_ask(gpus=0), 30), (an_ask(gpus=8, cores=8), 5), (an_ask(gpus=1), 5)]))
    for index in range(4):
        machines.take(index, an_ask(gpus=1))
    assert idle_of(machines, 0).fragmentation == 500


@pytest.mark.capability("95", "No more GPUs are shared than the pool allows, and a part joins one that is shared already")
def test_a_share_joins_a_device_that_is_shared_already_where_the_pool_lends_shares():
    machines = machines_with(nodes(2), policy="fragmentation", mix=Mix([(an_ask(gpus=1), 1)]), shares=True)

    tasks = [placed(a_gang(1, an_ask(gpus=0.5)), machines).tasks[0] for _ in range(2)]

    assert (tasks[0].machine, tasks[0].devices) == (tasks[1].machine, tasks[1].devices)


@pytest.mark.capability("89", "Every filter says how many machines it refused, what is needed and the most that is left")
def test_no_more_devices_are_shared_than_the_pool_allows():
    machines = machines_with(nodes(1), shares=True, shared_devices_max=1)
    first = placed(a_gang(1, an_ask(gpus=0.6)), machines)

    answer = unplaced(a_gang(1, an_ask(gpus=0.5)), machines)
    assert (answer.code, answer.refusals) == ("no_room", (Refusal("gpu_share_guard", 1, 500, 400, 0),))
    assert placed(a_gang(1, an_ask(gpus=0.4)), machines).tasks[0].devices == first.tasks[0].devices
    undo(first, machines)
    assert unplaced(a_gang(2, an_ask(gpus=0.6)), machines).fitting == 1


@pytest.mark.capability("61", "Gangs go to one machine, island, switch or rack, and the record tells hops and how many places")
def test_a_gang_that_wants_to_be_near_goes_to_one_machine_then_one_island_switch_or_rack():
    machines = machines_with(standing(2, 2, 2, 2))
    hops = [placed(a_gang(count, an_ask(gpus=8), "pack"), machines).hops for count in (1, 2, 4)]
    assert hops == [0, 1, 2]

    machines = machines_with(standing(2, 2, 2, 2))
    assert placed(a_gang(8, together="pack"), machines).hops == 0
    assert placed(a_gang(8, an_ask(gpus=8), "pack"), machines).hops == 3
    assert placed(a_gang(7, an_ask(gpus=8), "pack"), machines).hops == 3


def test_a_small_gang_takes_the_fullest_island_and_leaves_whole_ones_whole():
    machines = machines_with(standing(1, 1, 2, 2))
    fill(machines, "r0s0i1n0", an_ask(gpus=4))

    answer = placed(a_gang(12, together="pack"), machines)

    assert {name[:6] for name in names(answer, machines)} == {"r0s0i1"}


def test_who_only_wishes_to_be_near_uses_as_few_machines_as_can_be_where_nothing_is_known_of_them():
    machines = machines_with(nodes(6), policy="spread")
    fill(machines, "node-2", an_ask(gpus=4))
    fill(machines, "node-4", an_ask(gpus=6))

    answer = placed(a_gang(18, together="pack"), machines)

    assert sorted(Counter(names(answer, machines)).values()) == [2, 8, 8]
    assert "node-4" in names(answer, machines)


def test_who_insists_on_one_island_waits_where_only_several_together_have_room():
    machines = machines_with(standing(1, 1, 2, 2))
    for island in range(2):
        fill(machines, f"r0s0i{island}n0", an_ask(gpus=4))

    answer = unplaced(a_gang(2, an_ask(gpus=8), "island"), machines)

    assert (answer.code, answer.needed, answer.fitting) == ("not_together", 2, 1)
    assert placed(a_gang(2, an_ask(gpus=8), "switch"), machines).hops == 2


def test_who_insists_on_a_level_that_no_machine_has_waits():
    assert unplaced(a_gang(2, together="island"), machines_with(nodes(2))).code == "not_together"
    assert unplaced(a_gang(2, together="galaxy"), machines_with(standing(1, 1, 1, 2))).code == "not_together"


def test_islands_of_the_same_name_in_two_racks_are_two_islands():
    machines = machines_with(standing(2, 1, 1, 1))

    assert unplaced(a_gang(2, an_ask(gpus=8), "island"), machines).code == "not_together"


def test_an_elastic_gang_that_insists_gets_as_many_as_its_place_takes():
    machines = machines_with(standing(2, 1, 1, 2))

    answer = placed(a_gang(2, an_ask(gpus=4), "rack", most=12), machines)

    assert len(answer.tasks) == 4
    assert len({machines.at[task.machine].labels["rack"] for task in answer.tasks}) == 1


def test_parameter_servers_are_apart_while_workers_are_near():
    machines = machines_with(standing(2, 1, 2, 2), policy="pack")
    gang = GangAsk(
        (RoleAsk("ps", an_ask(gpus=0, cores=2), 4, 4, "spread"), RoleAsk("worker", an_ask(), 8, 8)),
        together="pack",
    )

    answer = placed(gang, machines)

    assert len(set(names(answer, machines))) == 1
    assert len(set(names(answer, machines, "ps"))) == 4


def test_tasks_apart_use_every_rack_before_a_second_machine_of_one():
    machines = machines_with(standing(3, 1, 1, 3), policy="pack")

    answer = placed(a_gang(3, together="spread"), machines)

    assert {machines.at[task.machine].labels["rack"] for task in answer.tasks} == {"0", "1", "2"}


def test_a_gang_is_refused_with_the_amounts_of_the_moment_until_room_is_given_back():
    machines = machines_with(nodes(1))
    devices = fill(machines, "node-0", an_ask(gpus=6))
    assert unplaced(a_gang(3), machines).fitting == 2
    fill(machines, "node-0", an_ask(gpus=1))
    assert unplaced(a_gang(3), machines).fitting == 1

    machines.give(0, an_ask(gpus=6), devices)
    assert len(placed(a_gang(3), machines).tasks) == 3


def test_new_rules_count_from_the_next_question():
    machines = machines_with(nodes(1))
    assert unplaced(a_gang(1, an_ask(gpus=0.5)), machines).code == "no_machine"

    machines.set_rules(0, PoolRules(shares=True))

    assert placed(a_gang(1, an_ask(gpus=0.5)), machines).tasks[0].devices == (0,)


def test_many_changes_do_not_make_the_lists_of_changes_grow_without_bound():
    machines = machines_with(nodes(3), policy="pack")
    for _ in range(3000):
        undo(placed(a_gang(2, an_ask(gpus=3)), machines), machines)
        unplaced(a_gang(9, an_ask(gpus=3)), machines)

    state = machines.pools[0]
    assert len(state.arrivals) < 5000
    assert len(state.classes) < 100


def test_another_process_with_other_hashes_places_everything_alike():
    """Sets are looked through in another order there; replays have to give the same bytes anywhere."""
    program = Path(__file__).with_name("placing_digest.py")
    root = program.parents[3]
    outputs = {
        subprocess.run(
            [sys.executable, str(program)],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": f"{root}{os.pathsep}{root / 'platform'}"},
            capture_output=True, text=True, check=True, timeout=100,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip

    assert len(outputs) == 1
    assert len(outputs.pop().strip()) == 64
