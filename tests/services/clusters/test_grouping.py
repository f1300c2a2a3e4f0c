"""Which nodes make a pool: pools outlive what happens to their nodes."""

from __future__ import annotations

import random
import uuid

import pytest

from clusters.services.grouping import Group, KnownPool, group_nodes, shape_of, unevenness
from kernel.limits import GIB, MIB
from tests.factories.clusters import node_facts


def known(name: str, *nodes: object, pool_id: uuid.UUID | None = None) -> KnownPool:
    return KnownPool(pool_id or uuid.uuid4(), name, shape_of(nodes[0]))  # type: ignore[arg-type]


def members(groups: tuple[Group, ...]) -> dict[str, list[str]]:
    return {group.name: [node.name for node in group.nodes] for group in groups}


def test_equal_nodes_make_one_pool_named_for_their_gpus() -> None:
    nodes = [node_facts("a", gpus=8), node_facts("b", gpus=8), node_facts("c")]
    assert members(group_nodes(nodes, [], {})) == {"a100": ["a", "b"], "cpu": ["c"]}


@pytest.mark.capability("70", "A pool never holds a machine of another model, other cores or other memory")
def test_nodes_of_another_size_get_a_pool_that_says_the_size() -> None:
    nodes = [node_facts("a", cores=8), node_facts("b", cores=16), node_facts("c", cores=8, memory_bytes=64 * GIB)]
    assert members(group_nodes(nodes, [], {})) == {"cpu": ["a"], "cpu-16c-32g": ["b"], "cpu-8c-64g": ["c"]}


def test_a_little_less_memory_is_the_same_pool() -> None:
    nodes = [node_facts("a"), node_facts("b", memory_bytes=32 * GIB - 900 * MIB)]
    assert members(group_nodes(nodes, [], {})) == {"cpu": ["a", "b"]}


@pytest.mark.capability("70", "A pool never holds a machine of another model, other cores or other memory")
def test_simulated_gpus_never_share_a_pool_with_real_ones() -> None:
    nodes = [node_facts("a", gpus=4), node_facts("b", gpus=4, simulated=True)]
    groups = group_nodes(nodes, [], {})
    assert [(group.shape.gpus_simulated, len(group.nodes)) for group in groups] == [(False, 1), (True, 1)]


def test_a_broken_gpu_does_not_move_its_node() -> None:
    whole = node_facts("a", gpus=8)
    pool = known("a100", whole)
    broken = node_facts("a", gpus=8, broken_gpus=3)
    assert members(group_nodes([broken], [pool], {"a": pool.id})) == {"a100": ["a"]}


@pytest.mark.capability("58", "A pool whose machines were all exchanged or changed alike keeps its limits")
def test_a_pool_whose_nodes_all_grew_keeps_its_identity_and_takes_their_shape() -> None:
    before = node_facts("a")
    pool = known("cpu", before)
    after = [node_facts("a", memory_bytes=64 * GIB), node_facts("b", memory_bytes=64 * GIB)]
    groups = group_nodes(after, [pool], {"a": pool.id, "b": pool.id})
    assert [(group.pool_id, group.shape.memory_bytes, len(group.nodes)) for group in groups] == [(pool.id, 64 * GIB, 2)]


def test_a_pool_whose_nodes_grew_in_part_keeps_the_others() -> None:
    pool = known("cpu", node_facts("a"))
    after = [node_facts("a", memory_bytes=64 * GIB), node_facts("b")]
    assert members(group_nodes(after, [pool], {"a": pool.id, "b": pool.id})) == {"cpu": ["b"], "cpu-8c-64g": ["a"]}


def test_a_pool_without_nodes_stays_for_its_limits() -> None:
    pool = known("a100", node_facts("a", gpus=8))
    assert members(group_nodes([], [pool], {"a": pool.id})) == {"a100": []}


def test_a_node_stays_in_its_own_pool_when_several_fit() -> None:
    first, second = known("one", node_facts("x")), known("two", node_facts("x"))
    places = {"a": second.id, "b": first.id}
    found = members(group_nodes([node_facts("a"), node_facts("b")], [first, second], places))
    assert found == {"one": ["b"], "two": ["a"]}


def test_the_order_of_the_input_does_not_matter() -> None:
    nodes = [node_facts(f"n{number:02}", memory_bytes=(32 + number % 7) * GIB, gpus=number % 3) for number in range(40)]
    expected = members(group_nodes(nodes, [], {}))
    for seed in range(5):
        shuffled = list(nodes)
        random.Random(seed).shuffle(shuffled)
        assert members(group_nodes(shuffled, [], {})) == expected


def test_nodes_of_one_shape_that_differ_in_what_jobs_may_notice_are_told() -> None:
    facts = [
        node_facts("a", labels={"gpu_driver": "550", "architecture": "x86_64"}),
        node_facts("b", labels={"gpu_driver": "560", "architecture": "x86_64", "rack": "b"}),
        node_facts("broken", labels={"gpu_driver": "1", "architecture": "x86_64"}, ready=False),
    ]
    assert unevenness(facts) == {"gpu_driver": ["550", "560"]}
    assert unevenness(facts[:1]) == {}
