"""The bound that P8 is compared with, and its series that are drawn anew."""

from __future__ import annotations

from bench.tenancy import Entry, count_only, resampled


def test_whoever_fits_passes_those_who_do_not_and_of_those_who_fit_the_first_starts() -> None:
    entries = [Entry(0, "a", 0, 10, 3), Entry(1, "a", 1, 5, 2), Entry(2, "b", 2, 4, 1), Entry(3, "b", 3, 1, 1)]
    assert sorted(count_only(entries, 4)) == [0, 0, 3, 9]  # The third takes the last GPU until 6, the second waits for the first.


def test_shapes_are_drawn_from_the_same_tenant_and_by_the_seed_alone() -> None:
    entries = [Entry(number, "a" if number % 2 else "b", number, 10 + number, 1 + number % 2) for number in range(20)]
    drawn = resampled(entries, 7)
    assert drawn == resampled(entries, 7)
    assert drawn != resampled(entries, 8)
    assert [(entry.number, entry.tenant, entry.submitted_at) for entry in drawn] == [
        (entry.number, entry.tenant, entry.submitted_at) for entry in entries
    ]
    assert {(entry.duration, entry.gpus) for entry in drawn if entry.tenant == "a"} <= {(10 + n, 2) for n in range(1, 20, 2)}
