"""Who has which shard of a queue, by a clock of the test."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from jobs.frameworks.queue_dispatcher import Journal, keys_of
from jobs.frameworks.queue_shards import ShardHolder, ShardLease, Shards


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def a_queue(count: int, **more: object) -> tuple[Shards, Clock]:
    clock = Clock()
    return Shards([f"line {index}" for index in range(count)], clock, lease_seconds=60, **more), clock  # type: ignore[arg-type]


def indexes(leases: list[ShardLease]) -> list[int]:
    return [lease.index for lease in leases]


def tokens(leases: list[ShardLease]) -> list[str]:
    return [lease.token for lease in leases]


def test_shards_go_out_in_order_and_fewer_at_a_time_near_the_end():
    shards, _ = a_queue(20)
    worker = shards.hello("worker-0", "a")
    sizes = []
    while taken := shards.take(worker, 8):
        sizes.append(len(taken))
        shards.finish(tokens(taken))
    assert sizes == [8, 6, 3, 1, 1, 1]
    assert (shards.done, shards.is_over) == (20, True)


def test_a_result_is_counted_once():
    shards, _ = a_queue(2)
    [lease] = shards.take(shards.hello("worker-0", "a"), 1)
    assert shards.finish([lease.token]) == ([0], [])
    assert shards.finish([lease.token]) == ([], [])
    assert shards.finish(["not-a-token", "1-2-3"]) == ([], ["not-a-token", "1-2-3"])
    assert shards.done == 1


def test_an_expired_lease_goes_to_another_and_the_first_result_counts():
    shards, clock = a_queue(1, copies=False)
    slow, quick = shards.hello("worker-0", "a"), shards.hello("worker-1", "b")
    [first] = shards.take(slow, 1)
    clock.now += 59
    assert shards.renew([first.token]) == []
    clock.now += 59
    shards.expire()
    assert shards.take(quick, 1) == []
    clock.now += 2
    shards.expire()
    assert shards.renew([first.token]) == [first.token]
    [second] = shards.take(quick, 1)
    assert (second.index, shards.tries_of(0)) == (0, 2)
    assert shards.finish([first.token]) == ([0], []), "a result is one, though its lease has run out"
    assert shards.finish([second.token]) == ([], [second.token])
    assert (shards.done, shards.leased) == (1, 0)


def test_a_worker_that_starts_again_loses_a_try_of_the_shard_that_it_was_at_alone():
    shards, _ = a_queue(10)
    taken = shards.take(shards.hello("worker-0", "a"), 4)
    assert indexes(taken) == [0, 1, 2, 3]
    again = shards.hello("worker-0", "b")
    assert again.leases == {}
    assert [shards.tries_of(index) for index in range(4)] == [2, 1, 1, 1]
    assert indexes(shards.take(again, 4)) == [1, 2, 3, 4]


def test_what_a_stopped_worker_gives_back_loses_no_try_and_goes_first():
    shards, _ = a_queue(10)
    worker = shards.hello("worker-0", "a")
    shards.take(worker, 3)
    shards.leave(worker)
    assert "worker-0" not in shards.holders
    other = shards.hello("worker-1", "b")
    assert indexes(shards.take(other, 3)) == [0, 1, 2]
    assert shards.tries_of(0) == 1


def test_a_lease_that_its_worker_does_not_know_of_is_given_back():
    shards, _ = a_queue(10)
    worker = shards.hello("worker-0", "a")
    known, lost = tokens(shards.take(worker, 1)), tokens(shards.take(worker, 1))
    shards.keep(worker, known)
    assert shards.renew([*known, *lost]) == lost
    assert indexes(shards.take(worker, 1)) == [1]


def test_a_shard_fails_after_its_tries_and_a_late_result_heals_it():
    shards, clock = a_queue(1, tries=2)
    worker = shards.hello("worker-0", "a")
    [first] = shards.take(worker, 1)
    shards.fail([first.token])
    shards.fail([first.token])  # Told twice.
    assert shards.failed == 0
    [second] = shards.take(worker, 1)
    clock.now += 61
    shards.expire()
    assert (shards.failed, shards.failures(), shards.is_over) == (1, [0], True)
    assert shards.take(worker, 1) == []
    assert shards.finish([second.token]) == ([0], [])
    assert (shards.done, shards.failed) == (1, 0)


def slow_and_idle(count: int, **more: object) -> tuple[Shards, Clock, list[ShardLease], ShardHolder]:
    """A queue of which a slow worker has all that is left, and another that has done the rest."""
    shards, clock = a_queue(count, **more)
    slow, idle = shards.hello("worker-0", "a"), shards.hello("worker-1", "b")
    held = shards.take(slow, 2)
    while shards.done < count - len(held):
        clock.now += 0.01
        shards.finish(tokens(shards.take(idle, 1)))
    return shards, clock, held, idle


def test_what_a_slow_worker_has_not_begun_moves_and_what_it_is_at_is_run_beside_it():
    shards, clock, held, idle = slow_and_idle(8)
    order = []
    for _ in range(20):
        clock.now += 0.1
        taken = shards.take(idle, 1)
        order += indexes(taken)
        shards.finish(tokens(taken))
    assert order == [1, 0]
    assert (shards.done, shards.leased, shards.is_over) == (8, 0, True)
    assert shards.renew(tokens(held)) == tokens(held), "the slow worker hears that it need not go on"
    assert shards.finish(tokens(held)) == ([], tokens(held))


def test_no_shard_is_run_twice_where_the_job_does_not_want_it():
    shards, clock, held, idle = slow_and_idle(8, copies=False)
    clock.now += 30
    shards.renew(tokens(held))
    assert shards.take(idle, 1) == []
    shards.finish(tokens(held))
    assert shards.is_over


def test_a_shard_is_in_two_hands_at_most_and_its_last_failure_is_its_own():
    shards, clock = a_queue(1, tries=1)
    workers = [shards.hello(f"worker-{index}", "a") for index in range(3)]
    [first] = shards.take(workers[0], 1)
    clock.now += 5
    [second] = shards.take(workers[1], 1)
    clock.now += 5
    assert shards.take(workers[2], 1) == []
    shards.fail([first.token])
    assert shards.failed == 0, "another is still at it"
    assert shards.finish([second.token]) == ([0], [])


def test_each_worker_begins_with_its_own_part_and_takes_what_others_have_left():
    shards, clock = a_queue(20, deal=["worker-0", "worker-1"])
    first, second = shards.hello("worker-0", "a"), shards.hello("worker-1", "b")
    held = shards.take(first, 1)
    order = []
    while len(order) < 19:
        clock.now += 0.1
        taken = shards.take(second, 1)
        order += indexes(taken)
        shards.finish(tokens(taken))
    assert indexes(held) == [0]
    assert order == [1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 18, 16, 14, 12, 10, 8, 6, 4, 2]


def test_a_straggler_is_named_with_its_distance():
    shards, clock = a_queue(30, deal=["a-0", "a-1", "a-2"])
    holders = [shards.hello(f"a-{index}", "s") for index in range(3)]
    for step in range(8):
        for number, holder in enumerate(holders):
            if number or step < 2:
                clock.now += 0.1
                shards.finish(tokens(shards.take(holder, 1)))
        if step == 3:
            assert shards.stragglers() == {}, "too early to say"
    assert shards.stragglers() == {"a-0": (2, 10, 8, 10)}


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("deal", [False, True])
def test_whatever_workers_do_each_shard_is_counted_once_or_failed(seed, deal):
    """Workers that die, are slow, answer late, lose answers, and give back, in any order; the books always agree."""
    rng = random.Random(seed)
    names = [f"worker-{index}" for index in range(5)]
    shards, clock = a_queue(60, tries=4, deal=names if deal else ())
    counted: Counter[int] = Counter()
    old: list[str] = []
    for step in range(100_000):
        if shards.is_over:
            break
        clock.now += rng.choice([0.01, 0.1, 1.0, 5.0])
        name = rng.choice(names)
        holder = shards.hello(
            name, f"{step}" if rng.random() < 0.02 else (shards.holders[name].session if name in shards.holders else "0")
        )
        held = list(holder.leases)
        old += held
        action = rng.random()
        if action < 0.4:
            shards.take(holder, rng.randint(1, 8))
        elif action < 0.75 and held:
            counted.update(shards.finish(held[: rng.randint(1, 3)])[0])
        elif action < 0.78:
            shards.fail(held[:1])
        elif action < 0.8:
            shards.leave(holder)
        elif action < 0.9:
            counted.update(shards.finish(rng.sample(old, min(3, len(old))) if rng.random() < 0.1 else [])[0])
        else:
            shards.renew(held)
        shards.expire()
        assert shards.leased == sum(len(holder.leases) for holder in shards.holders.values())
        assert (
            max(
                Counter(lease.index for holder in shards.holders.values() for lease in holder.leases.values()).values(), default=0
            )
            <= 2
        )
    assert shards.is_over
    assert set(counted.values()) <= {1}
    assert shards.done == len(counted)
    assert sorted([*counted, *shards.failures()]) == list(range(60))


# --- What outlives an attempt ----------------------------------------------------------------------------------------


def test_what_is_done_is_known_by_its_text_though_the_order_changes(tmp_path):
    path = str(tmp_path / "done")
    journal = Journal(path, ["a", "b", "a", "c"])
    journal.note([0, 3])
    journal.write()
    with open(path, "ab") as file:
        file.write(b"0123")  # A line that a power cut left half.
    again = Journal(path, ["new", "c", "a", "a", "b"])
    assert again.done == [1, 2]
    again.note([4])
    again.write()
    assert Journal(path, ["b"]).done == [0]


def test_equal_shards_are_not_one():
    assert len(set(keys_of(["x", "x", "y", "x"]))) == 4


def test_shards_that_were_done_before_are_not_handed_out():
    shards, _ = a_queue(4, done=[0, 2])
    worker = shards.hello("worker-0", "a")
    assert [*indexes(shards.take(worker, 1)), *indexes(shards.take(worker, 1))] == [1, 3]
    assert (shards.done, shards.total) == (2, 4)
