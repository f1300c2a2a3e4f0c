"""Times without service are told by the fault that they began with, and by whether it took a hand to end them."""

from __future__ import annotations

from tests.chaos.outages import Service, slow_spans


def test_a_gap_belongs_to_the_fault_that_it_began_with() -> None:
    faults = [(10.0, "kill web"), (30.0, "kill supervisor"), (31.0, "kill worker")]
    found = Service(address=[(10.1, 12.1), (30.2, 40.2), (80.0, 81.0)]).by_fault(faults)["address"]
    assert list(found) == ["kill supervisor", "kill web", "none"]
    assert (found["kill supervisor"]["seconds"], found["kill web"]["seconds"], found["none"]["gaps"]) == (10.0, 2.0, 1)


def test_what_was_started_again_from_outside_is_told_apart() -> None:
    faults = [(10.0, "kill supervisor"), (50.0, "kill supervisor")]
    found = Service(address=[(10.0, 14.0), (50.0, 53.0)], hands=[11.0]).by_fault(faults)["address"]
    [outage] = found.values()
    assert outage == {
        "gaps": 2, "seconds": 7.0, "longest_seconds": 4.0, "ended_by_hand": 1, "ended_by_hand_seconds": 4.0,
    }  # fmt: skip


def test_submissions_that_wait_at_the_same_time_are_one_gap() -> None:
    assert slow_spans([(1.0, 0.5), (2.0, 6.0), (3.0, 9.0), (20.0, 2.5), (40.0, 1.0)]) == [(2.0, 12.0), (20.0, 22.5)]
