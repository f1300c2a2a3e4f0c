"""The pure pass: order, gangs, ceilings, reasons."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from jobs.scheduling.plan import Admit, plan
from kernel.resources import ZERO, Resources
from tests.builders.scenes import NOW, Scene, a_scene, amount, id_of


def test_four_gangs_of_four_on_twelve_places_leave_one_whole_gang_waiting() -> None:
    scene = a_scene().with_nodes(3, gpus=4)
    for number in range(4):
        scene.with_waiting(f"gang-{number}", gpus=1, replicas=4, age_seconds=10 - number)
    assert scene.plan() == {"gang-0": "admit", "gang-1": "admit", "gang-2": "admit", "gang-3": "no_room"}


def test_priority_goes_before_age_and_age_before_id() -> None:
    scene = a_scene().with_nodes(1, cores=3)
    scene.with_waiting("young", age_seconds=1).with_waiting("old", age_seconds=9).with_waiting("urgent", priority=900)
    assert scene.order() == ["urgent", "old", "young"]


def test_a_large_job_that_waits_does_not_stop_small_ones_behind_it() -> None:
    scene = a_scene().with_nodes(1, cores=8, held=amount(cores=6))
    scene.with_waiting("large", cores=4, age_seconds=9).with_waiting("small", cores=1)
    assert scene.plan() == {"large": "no_room", "small": "admit"}


def test_tasks_go_where_the_least_is_left() -> None:
    scene = a_scene().with_nodes(1, cores=8).with_nodes(1, cores=8, held=amount(cores=6)).with_waiting("a", cores=2)
    (admit,) = scene.decide()
    assert isinstance(admit, Admit)
    assert admit.placements[0].node == "cpu-1"


@pytest.mark.parametrize(
    ("given_", "code"),
    [
        ({"hold": True}, "held"),
        ({"open_dependencies": 2}, "dependency"),
        ({"not_before_at": NOW + timedelta(seconds=1)}, "not_before"),
        ({"image_ready": False}, "image_building"),
        ({"pool_name": "moon"}, "no_pool"),
        ({"cluster_name": "mars"}, "no_pool"),
        ({"image_kind": "registry"}, "image_kind"),
        ({"model": "H100", "gpus": 1}, "gpu_model"),
        ({"cores": 9}, "larger_than_pool"),
        ({"cores": 3, "replicas": 3}, "larger_than_pool"),
    ],
)
def test_each_obstacle_has_its_own_reason(given_: dict[str, object], code: str) -> None:
    scene = a_scene().with_nodes(1, cores=8).with_waiting("job", **given_)  # type: ignore[arg-type]
    assert scene.plan() == {"job": code}


def test_a_cordoned_or_silent_pool_takes_nothing_and_says_so() -> None:
    scene = a_scene().with_nodes(1, blocked="Node cpu-0 is cordoned: new disks.").with_waiting("job")
    assert scene.plan() == {"job": "no_ready_node"}
    assert a_scene().with_nodes(1, reachable=False).with_waiting("job").plan() == {"job": "cluster_unreachable"}


def test_every_ceiling_on_the_way_to_the_root_counts() -> None:
    scene = a_scene().with_nodes(1, cores=16)
    scene.with_queue("tenant", cores=4, used=amount(cores=3)).with_queue("team", parent="tenant")
    scene.with_waiting("fits", queue="team", cores=1, age_seconds=9).with_waiting("over", queue="team", cores=1)
    assert scene.plan() == {"fits": "admit", "over": "ceiling"}
    detail = scene.wait("over").detail
    assert (detail["queue"], detail["used"], detail["ceiling"], detail["need"]) == ("tenant", 4000, 4000, 1000)


def test_more_than_a_ceiling_ever_allows_is_told_apart_from_waiting() -> None:
    scene = a_scene().with_nodes(1, cores=16).with_queue("tenant", cores=4).with_waiting("big", queue="tenant", cores=6)
    assert scene.plan() == {"big": "ceiling_too_low"}


def test_a_cluster_that_cannot_keep_tenants_apart_runs_one_of_them() -> None:
    scene = a_scene().with_nodes(1, keeps_apart=False)
    scene.with_waiting("first", tenant="a", age_seconds=9).with_waiting("second", tenant="b").with_waiting("third", tenant="a")
    assert scene.plan() == {"first": "admit", "second": "one_tenant_only", "third": "admit"}


def test_an_array_runs_as_many_children_as_it_allows() -> None:
    scene = a_scene().with_nodes(1)
    parent = id_of("array")
    for number in range(3):
        scene.with_waiting(f"child-{number}", parent_id=parent, age_seconds=9 - number)
    scene.room[parent] = 2
    assert Counter(scene.plan().values()) == {"admit": 2, "array_parallelism": 1}


# --- Properties ------------------------------------------------------------------------------------------------------

_asks = some.lists(
    some.tuples(
        some.integers(1, 6),  # Replicas.
        some.sampled_from([0.5, 1, 2, 4]),  # Cores each.
        some.sampled_from([0, 0, 1, 2]),  # GPUs each.
        some.sampled_from(["root", "a", "b"]),
        some.sampled_from([100, 500, 900]),
    ),
    max_size=40,
)


def _random_scene(asks: list[tuple[int, float, int, str, int]], nodes: int) -> Scene:
    scene = a_scene().with_nodes(nodes, cores=8, gpus=4)
    scene.with_queue("a", cores=10, gpus=6).with_queue("b", parent="a", cores=6)
    for number, (replicas, cores, gpus, queue, priority) in enumerate(asks):
        scene.with_waiting(
            f"job-{number}", replicas=replicas, cores=cores, gpus=gpus, queue=queue, priority=priority, age_seconds=number % 7
        )
    return scene


@given(asks=_asks, nodes=some.integers(0, 4))
@settings(max_examples=150, deadline=None)
def test_no_node_and_no_ceiling_is_ever_overcommitted(asks: list[tuple[int, float, int, str, int]], nodes: int) -> None:
    scene = _random_scene(asks, nodes)
    snapshot = scene.snapshot()
    held: dict[str, Resources] = {}
    used: dict[object, Resources] = {}
    by_id = {job.id: job for job in snapshot.pending}
    for decision in plan(snapshot, NOW):
        if not isinstance(decision, Admit):
            continue
        job = by_id[decision.job_id]
        assert len(decision.placements) == sum(role.replicas for role in job.roles)
        for placement in decision.placements:
            held[placement.node] = held.get(placement.node, ZERO) + placement.each
        for queue in snapshot.queues.path(job.queue_id):
            used[queue.id] = used.get(queue.id, ZERO) + decision.ask
    capacity = {node.name: node.capacity for pool in snapshot.pools for node in pool.nodes}
    assert all(amount_.fits_in(capacity[name]) for name, amount_ in held.items())
    for queue in snapshot.queues:
        for ceilings in queue.ceilings.values():
            assert all(getattr(used.get(queue.id, ZERO), name) <= limit for name, limit in ceilings.items())


@given(asks=_asks, nodes=some.integers(0, 4), seed=some.integers())
@settings(max_examples=80, deadline=None)
def test_the_order_of_the_input_changes_nothing(asks: list[tuple[int, float, int, str, int]], nodes: int, seed: int) -> None:
    snapshot = _random_scene(asks, nodes).snapshot()
    shuffled = list(snapshot.pending)
    random.Random(seed).shuffle(shuffled)
    assert plan(snapshot, NOW) == plan(replace(snapshot, pending=tuple(shuffled)), NOW)


@given(asks=_asks, nodes=some.integers(1, 4))
@settings(max_examples=80, deadline=None)
def test_whoever_waits_for_room_really_has_none(asks: list[tuple[int, float, int, str, int]], nodes: int) -> None:
    """What the pass leaves waiting cannot start in a further pass over what is left: the shortcut loses nothing."""
    scene = _random_scene(asks, nodes)
    decisions = scene.decide()
    admitted = {decision.job_id for decision in decisions if isinstance(decision, Admit)}
    held: dict[str, Resources] = {}
    used: dict[object, Resources] = {}
    for decision in decisions:
        if isinstance(decision, Admit):
            job = next(each for each in scene.jobs if each.id == decision.job_id)
            for placement in decision.placements:
                held[placement.node] = held.get(placement.node, ZERO) + placement.each
            for queue in scene.snapshot().queues.path(job.queue_id):
                used[queue.id] = used.get(queue.id, ZERO) + decision.ask
    scene.jobs = [job for job in scene.jobs if job.id not in admitted]
    scene.nodes = {
        pool: [replace(node, allocated=node.allocated + held.get(node.name, ZERO)) for node in nodes_]
        for pool, nodes_ in scene.nodes.items()
    }
    pool = id_of("pool cpu")
    scene.queues = {
        name: replace(queue, usage={pool: queue.used(pool) + used.get(queue.id, ZERO)}) for name, queue in scene.queues.items()
    }
    assert "admit" not in scene.plan().values()
