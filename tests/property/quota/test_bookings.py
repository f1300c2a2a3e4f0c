"""Bookings never add up to more than a pool has at any moment, and nobody else is told to use what is held."""

from __future__ import annotations

import random
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenants.capacity.quota.bookings import Booked, Bookings, Clash, Step, steps_of, unclaimed

POOL, QUEUE, OTHER = (uuid.UUID(int=number) for number in (900, 1, 2))


def booked(number, gpus, starts_at, ends_at, queue=QUEUE):
    return Booked(uuid.UUID(int=1_000 + number), queue, POOL, gpus, starts_at, ends_at)


WINDOWS = st.lists(
    st.tuples(st.integers(1, 9), st.integers(0, 20), st.integers(1, 10), st.sampled_from([QUEUE, OTHER])), max_size=12
)


def many(windows):
    return [booked(number, gpus, start, start + length, queue) for number, (gpus, start, length, queue) in enumerate(windows)]


def at_moment(bookings, moment):
    return sum(booking.gpu_millis for booking in bookings if booking.starts_at <= moment < booking.ends_at)


@pytest.mark.capability("23", "An overlap of bookings is refused with the others, whose owners only some may see")
@given(WINDOWS, st.integers(1, 16))
def test_what_was_let_in_never_adds_up_to_more_than_the_pool_has(windows, capacity):
    held = []
    for asked in many(windows):
        clash = Bookings(held).clash(asked, capacity)
        fits = all(at_moment([*held, asked], moment) <= capacity for moment in range(asked.starts_at, asked.ends_at))
        assert (clash is None) == fits
        if clash is None:
            held.append(asked)
        else:
            assert asked.starts_at <= clash.at < asked.ends_at
            assert clash.booked == sum(booking.gpu_millis for booking in clash.others) == at_moment(held, clash.at)
            assert clash.booked + clash.need > clash.capacity
            if clash.free:
                smaller = Booked(asked.id, asked.queue_id, POOL, clash.free, asked.starts_at, asked.ends_at)
                assert Bookings(held).clash(smaller, capacity) is None, "what it says is free can be booked"
    assert all(at_moment(held, moment) <= capacity for moment in range(32))


@given(WINDOWS, st.integers(0, 30), st.integers(1, 12))
def test_steps_say_what_is_held_at_every_moment(windows, start, length):
    bookings = many(windows)
    shown = Bookings(bookings)
    steps = shown.steps(POOL)
    for moment in range(32):
        there = [step.gpu_millis for step in steps if step.starts_at <= moment < step.ends_at]
        assert sum(there) == at_moment(bookings, moment) == shown.held(POOL, moment)
        assert len(there) <= 1
    theirs = [booking for booking in bookings if booking.queue_id == OTHER]
    most = max(at_moment(theirs, moment) for moment in range(start, start + length))
    assert shown.most_held(POOL, start, start + length, but={QUEUE}) == most
    assert shown.most_held(POOL, start, None, but={QUEUE}) == max(at_moment(theirs, moment) for moment in range(start, 64))


@given(WINDOWS, st.randoms(use_true_random=False))
def test_the_order_of_input_changes_nothing(windows, chance: random.Random):
    bookings = many(windows)
    mixed = list(bookings)
    chance.shuffle(mixed)
    assert Bookings(mixed).of(POOL) == Bookings(bookings).of(POOL)
    assert steps_of(mixed) == steps_of(bookings)


def test_windows_that_meet_do_not_overlap():
    assert Bookings([booked(0, 8, 0, 10)]).clash(booked(1, 8, 10, 20), 8) is None
    assert steps_of([booked(0, 8, 0, 10), booked(1, 8, 10, 20)]) == (Step(0, 20, 8),)


def test_a_booking_larger_than_the_pool_clashes_with_nobody():
    assert Bookings([]).clash(booked(0, 9, 5, 10), 8) == Clash(5, 8, 0, 9, ())


def test_the_next_start_of_others_is_when_a_job_has_to_be_gone():
    bookings = Bookings([booked(0, 8, 5, 10), booked(1, 8, 20, 30, OTHER)])
    assert bookings.next_start(POOL, 0, but={QUEUE}) == 20
    assert bookings.next_start(POOL, 0) == 5
    assert bookings.next_start(POOL, 21) is None


def test_who_does_not_come_in_time_loses_the_booking():
    early, late, over = booked(0, 8, 0, 100), booked(1, 8, 50, 100), booked(2, 8, 0, 20)
    assert unclaimed([early, late, over], set(), 60, 30) == (early,)
    assert unclaimed([early, late, over], {early.id}, 60, 30) == ()
