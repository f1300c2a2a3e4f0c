"""Chunks keep gaps as gaps, in memory and packed, and slots stand where time put them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.telemetry.chunks import FoldedChunk, Point, RawChunk, combine, unpack
from clusters.telemetry.recorder import next_slot
from clusters.telemetry.tiers import MINUTES, TEN_MINUTES, tiers

VALUES = st.floats(-(2.0**40), 2.0**40, width=32)


def test_an_empty_chunk_is_all_gaps() -> None:
    assert unpack(RawChunk(4).pack()) == [None] * 4
    assert unpack(FoldedChunk(4).pack()) == [None] * 4


def test_a_measured_zero_is_no_gap() -> None:
    for chunk in (RawChunk(2), FoldedChunk(2)):
        chunk.add(1, 0.0)
        assert unpack(chunk.pack()) == [None, Point(0.0, 0.0, 0.0, 1.0)]


def test_a_chunk_has_a_fixed_size_whatever_is_in_it() -> None:
    empty, full = FoldedChunk(72), FoldedChunk(72)
    for slot in range(72):
        full.add(slot, math.pi * slot)
    assert len(full.pack()) == len(empty.pack()) <= 1_600


@given(st.dictionaries(st.integers(0, 9), VALUES))
def test_packing_loses_nothing(values: dict[int, float]) -> None:
    chunk = RawChunk(10)
    for slot, value in values.items():
        chunk.add(slot, value)
    found = {slot: point.mean for slot, point in enumerate(unpack(chunk.pack())) if point}
    assert found == values


@given(st.lists(VALUES, min_size=1, max_size=50))
def test_a_folded_slot_holds_minimum_mean_maximum_and_count(values: list[float]) -> None:
    chunk = FoldedChunk(1)
    for value in values:
        chunk.add(0, value)
    (point,) = unpack(chunk.pack())
    assert point is not None
    assert (point.low, point.high, point.count) == (min(values), max(values), len(values))
    largest = max(abs(value) for value in values)
    assert point.mean == pytest.approx(sum(values) / len(values), rel=1e-4, abs=largest * 1e-5 + 1e-30)


@given(st.lists(VALUES, max_size=20), st.lists(VALUES, max_size=20))
def test_merging_with_what_was_stored_is_as_if_one_process_had_seen_all(earlier: list[float], later: list[float]) -> None:
    stored, ours, whole = FoldedChunk(1), FoldedChunk(1), FoldedChunk(1)
    for value in earlier:
        stored.add(0, value)
    for value in later:
        ours.add(0, value)
    for value in earlier + later:
        whole.add(0, value)
    ours.merge(stored.pack())
    (merged,), (expected,) = unpack(ours.pack()), unpack(whole.pack())
    if expected is None:
        assert merged is None
        return
    assert merged is not None
    assert (merged.low, merged.high, merged.count) == (expected.low, expected.high, expected.count)
    largest = max(abs(value) for value in earlier + later)
    assert merged.mean == pytest.approx(expected.mean, rel=1e-4, abs=largest * 1e-5 + 1e-30)


def test_a_merged_raw_chunk_keeps_gaps_that_nobody_measured() -> None:
    stored, ours = RawChunk(4), RawChunk(4)
    stored.add(0, 1.0)
    stored.add(1, 2.0)
    ours.add(1, 5.0)
    ours.merge(stored.pack())
    assert [point and point.mean for point in unpack(ours.pack())] == [1.0, 5.0, None, None]


def test_text_of_another_layout_is_refused() -> None:
    with pytest.raises(ValueError, match="layout"):
        unpack("x" + RawChunk(1).pack()[1:])


def test_combining_weighs_by_samples_and_of_nothing_is_a_gap() -> None:
    assert combine([]) is None
    assert combine([Point(1.0, 0.0, 2.0, 3.0), Point(5.0, 5.0, 5.0, 1.0)]) == Point(2.0, 0.0, 5.0, 4.0)


@given(st.lists(st.integers(4_200, 5_800), min_size=1, max_size=300), st.integers(0, 4_999))
def test_a_shaking_timer_makes_no_false_gap_and_no_drift(steps: list[int], start: int) -> None:
    millis, slot, used = start, 0, [0]
    for step in steps:
        slot = next_slot(slot, millis, millis + step, 5_000)
        millis += step
        assert abs(slot - millis // 5_000) <= 1
        used.append(slot)
    jitter_only = all(abs(index * 5_000 + start - at) < 2_500 for index, at in enumerate(_moments(start, steps)))
    if jitter_only:
        assert used == list(range(len(used)))


def _moments(start: int, steps: list[int]) -> list[int]:
    moments = [start]
    for step in steps:
        moments.append(moments[-1] + step)
    return moments


def test_missed_intervals_leave_their_slots_empty() -> None:
    assert next_slot(10, 50_000, 65_100, 5_000) == 13


def test_a_clock_that_went_back_does_not_write_into_the_future() -> None:
    assert next_slot(100, 500_000, 20_000, 5_000) <= 5


def test_a_tier_is_left_out_when_sampling_is_too_slow_for_it() -> None:
    assert [tier.resolution_millis for tier in tiers(5)] == [5_000, 60_000, 600_000]
    assert tiers(45)[1:] == (TEN_MINUTES,)
    assert tiers(30)[1:] == (MINUTES, TEN_MINUTES)
