"""Moving one's own jobs: the order comes out as wanted, and nobody else ever has more of them in front."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.services.slots import OrderSlot, inserted, put, rearranged

IDS = [uuid.UUID(int=number) for number in range(1, 40)]


@st.composite
def queues(draw: st.DrawFn) -> tuple[list[OrderSlot], list[OrderSlot], list[uuid.UUID]]:
    """One's own jobs and those of others, crowded into few seconds, and an order that one wants."""
    ids = draw(st.permutations(IDS))
    own_count, others_count = draw(st.integers(1, 12)), draw(st.integers(0, 12))
    places = [OrderSlot(draw(st.integers(0, 6)), job_id) for job_id in ids[: own_count + others_count]]
    own, others = places[:own_count], places[own_count:]
    return own, others, draw(st.permutations([place.id for place in own]))


@given(queues())
def test_ones_own_jobs_come_out_in_the_order_that_was_asked_for(
    scene: tuple[list[OrderSlot], list[OrderSlot], list[uuid.UUID]],
) -> None:
    own, _, wanted = scene
    moved = rearranged(own, wanted)
    after = sorted(OrderSlot(moved.get(place.id, place.at), place.id) for place in own)
    assert [place.id for place in after] == wanted
    assert all(at != next(place.at for place in own if place.id == job_id) for job_id, at in moved.items()), "only what moves"


@pytest.mark.capability("19", "One's own waiting jobs are put in another order, and nobody else ever has more of them in front")
@given(queues())
def test_nobody_else_ever_has_more_of_them_in_front(scene: tuple[list[OrderSlot], list[OrderSlot], list[uuid.UUID]]) -> None:
    own, others, wanted = scene
    moved = rearranged(own, wanted)
    after = [OrderSlot(moved.get(place.id, place.at), place.id) for place in own]
    for other in others:
        assert sum(place < other for place in after) <= sum(place < other for place in own)


@given(queues())
def test_the_order_that_is_there_changes_nothing(scene: tuple[list[OrderSlot], list[OrderSlot], list[uuid.UUID]]) -> None:
    own, _, _ = scene
    assert rearranged(own, [place.id for place in sorted(own)]) == {}


@given(queues(), st.data())
def test_a_block_is_put_beside_another_job_in_its_own_order(
    scene: tuple[list[OrderSlot], list[OrderSlot], list[uuid.UUID]], data: st.DataObject
) -> None:
    _, _, order = scene
    block = data.draw(st.lists(st.sampled_from(order), unique=True))
    rest = [job_id for job_id in order if job_id not in block]
    inner = [job_id for job_id in order if job_id in block]
    assert put(order, block, before=None, after=None) == [*rest, *inner]
    for beside in rest:
        at = rest.index(beside)
        assert put(order, block, before=beside, after=None) == [*rest[:at], *inner, *rest[at:]]
        assert put(order, block, before=None, after=beside) == [*rest[: at + 1], *inner, *rest[at + 1 :]]


@given(st.lists(st.sampled_from(IDS[1:]), min_size=1, unique=True), st.integers(0, 6), st.sampled_from(IDS))
def test_a_block_that_is_put_in_stands_wholly_on_one_side(block: list[uuid.UUID], at: int, beside: uuid.UUID) -> None:
    if beside in block:
        block = [job_id for job_id in block if job_id != beside]
    if not block:
        return
    place = OrderSlot(at, beside)
    assert all(OrderSlot(inserted(block, before=place), job_id) < place for job_id in block)
    assert all(OrderSlot(inserted(block, after=place), job_id) > place for job_id in block)
