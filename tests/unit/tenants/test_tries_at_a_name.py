"""How often a name, a network, an owner may try: each count at its last try, the wait afterwards, and what is given back."""

from __future__ import annotations

import math
import uuid

import pytest

from tenants.identity import login_throttle as throttle
from tenants.identity.login_throttle import of_owner, of_stranger
from webapi import throttles

ALICE, BOB = uuid.UUID(int=1), uuid.UUID(int=2)


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Counts of this process alone, on a clock that stands still until a test moves it."""
    made = Clock()
    monkeypatch.setattr(throttles, "_redis_rests_until", math.inf)
    monkeypatch.setattr(throttles, "buckets", throttles.Buckets(made))
    return made


def test_a_name_from_one_place_has_five_tries_a_minute_and_the_sixth_waits_at_most_that_long(clock: Clock) -> None:
    waits = [of_stranger("alice", "192.0.2.1").count() for _ in range(throttle.TRIES_PER_MINUTE + 1)]
    assert waits[:-1] == [0] * throttle.TRIES_PER_MINUTE
    assert 0 < waits[-1] <= 60
    clock.now += waits[-1]
    assert of_stranger("alice", "192.0.2.1").count() == 0


def test_a_wait_is_whole_seconds_and_a_second_before_its_end_the_try_is_still_refused(clock: Clock) -> None:
    while not (wait := of_stranger("alice", "192.0.2.1").count()):
        pass
    assert isinstance(wait, int)
    clock.now += wait - 1.001
    assert of_stranger("alice", "192.0.2.1").count() > 0


@pytest.mark.parametrize(
    ("name", "address", "is_same"),
    [
        ("alice", "192.0.2.1", True),
        (" alice ", "192.0.2.1", True),
        ("ALICE", "192.0.2.1", True),
        ("al\u0131ce", "192.0.2.1", True),
        ("alice", "::ffff:192.0.2.1", True),
        ("bob", "192.0.2.1", False),
        ("alice", "192.0.2.2", False),
        ("alice", "2001:db8::1", False),
        ("alice@example.org", "192.0.2.1", False),
    ],
)
def test_what_counts_as_the_same_name_from_the_same_place(name: str, address: str, is_same: bool) -> None:
    for _ in range(throttle.TRIES_PER_MINUTE):
        assert of_stranger("alice", "192.0.2.1").count() == 0
    assert bool(of_stranger(name, address).count()) is is_same


@pytest.mark.parametrize(
    ("address", "most"),
    [
        ("192.0.2.1", throttle.ADDRESS_TRIES_PER_MINUTE),
        ("2001:db8::1", throttle.ADDRESS_TRIES_PER_MINUTE),
        ("127.0.0.1", throttle.OWN_TRIES_PER_MINUTE),
        ("::1", throttle.OWN_TRIES_PER_MINUTE),
        ("", throttle.OWN_TRIES_PER_MINUTE),
    ],
)
def test_a_network_has_a_count_for_all_names_and_this_machine_a_larger_one(address: str, most: int) -> None:
    passed = [of_stranger(f"name-{number}", address).count() == 0 for number in range(most + 5)]
    assert passed == [True] * most + [False] * 5


def test_strangers_everywhere_together_have_a_count_for_a_name_which_no_other_name_feels() -> None:
    places = (f"198.51.{block}.{host}" for block in range(100) for host in range(1, 200))
    for _ in range(throttle.NAME_TRIES_PER_HOUR):
        assert of_stranger("alice", next(places)).count() == 0
    assert of_stranger("alice", next(places)).count() > 0
    assert of_stranger("bob", next(places)).count() == 0
    assert of_owner(ALICE, "browser").count() == 0, "an owner is counted apart"


def test_a_name_is_counted_by_what_an_address_can_be_long() -> None:
    long = "x" * throttle.NAME_LENGTH
    for _ in range(throttle.TRIES_PER_MINUTE):
        assert of_stranger(f"{long}a", "192.0.2.1").count() == 0
    assert of_stranger(f"{long}b", "192.0.2.1").count() > 0


def test_each_credential_of_an_owner_is_counted_apart_and_owners_do_not_meet() -> None:
    for _ in range(throttle.TRIES_PER_MINUTE):
        assert of_owner(ALICE, "one").count() == 0
    assert of_owner(ALICE, "one").count() > 0
    assert of_owner(ALICE, "two").count() == 0
    assert of_owner(BOB, "one").count() == 0


def test_an_owner_with_many_credentials_has_a_count_for_all_of_them() -> None:
    passed = sum(of_owner(ALICE, number).count() == 0 for number in range(throttle.NAME_TRIES_PER_HOUR + 10))
    assert passed == throttle.NAME_TRIES_PER_HOUR


def test_what_one_count_refuses_reaches_no_later_one() -> None:
    tries = [of_stranger("alice", "192.0.2.1") for _ in range(50)]
    assert sum(each.count() == 0 for each in tries) == throttle.TRIES_PER_MINUTE
    elsewhere = (f"203.0.113.{host}" for host in range(1, 250))
    passed = sum(of_stranger("alice", next(elsewhere)).count() == 0 for _ in range(throttle.NAME_TRIES_PER_HOUR))
    assert passed == throttle.NAME_TRIES_PER_HOUR - throttle.TRIES_PER_MINUTE


def test_a_try_that_succeeds_uses_nothing_up() -> None:
    for _ in range(10 * throttle.TRIES_PER_DAY):
        tries = of_stranger("alice", "192.0.2.1")
        assert tries.count() == 0
        tries.give_back()


def test_the_longer_windows_hold_when_the_minute_is_over(clock: Clock) -> None:
    passed = 0
    for _ in range(12 * 60):
        clock.now += 60
        passed += of_stranger("alice", "192.0.2.1").count() == 0
    assert passed < throttle.TRIES_PER_DAY * 2
    assert passed >= throttle.TRIES_PER_DAY


def test_counts_are_in_the_order_in_which_they_refuse() -> None:
    names = [charge.name.split(":")[0] for charge in of_stranger("alice", "192.0.2.1").charges]
    assert names == ["sign-in-address", "sign-in-minute", "sign-in-hour", "sign-in-day", "sign-in-name"]
    assert [charge.limit for charge in of_owner(ALICE, 1).charges] == [5, 20, 60, 200]
