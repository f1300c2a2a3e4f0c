"""Which devices running tasks are taken to hold, when a scheduler starts."""

from __future__ import annotations

from jobs.loading.state import Devices
from jobs.scheduling.core.place.machines import Machine, TaskAsk


def gpu(millis: int) -> TaskAsk:
    return TaskAsk(1000, 0, millis)


def four() -> Devices:
    return Devices([Machine("node", 0, 8000, 0, gpus=4)])


def test_whole_devices_are_handed_out_in_order_and_anew_when_there_are_no_more() -> None:
    devices = four()
    assert [devices.next(0, gpu(millis)) for millis in (2000, 0, 1000, 1000, 1000)] == [(0, 1), (), (2,), (3,), (0,)]


def test_parts_that_the_engine_says_are_of_one_device_are_and_others_are_not() -> None:
    devices = four()
    found = [devices.next(0, gpu(300), (name,)) for name in ("x", "y", "x", "y")]
    assert found == [(0,), (1,), (0,), (1,)]
    assert devices.next(0, gpu(1000), ("z",)) == (2,)


def test_parts_of_which_the_engine_has_said_nothing_go_to_the_fullest_that_has_room() -> None:
    devices = four()
    assert [devices.next(0, gpu(millis)) for millis in (600, 700, 300, 400, 500)] == [(0,), (1,), (1,), (0,), (2,)]


def test_a_machine_that_lost_its_gpus_lends_none() -> None:
    assert Devices([Machine("node", 0, 8000, 0)]).next(0, gpu(500)) == ()
