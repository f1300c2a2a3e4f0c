"""Who is looked at again after a change: only those that it may help."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jobs.scheduling.core.state.ordering import Group, Ordering
from jobs.scheduling.core.wakeups import Bounds, ByShape
from tenants.capacity.quota.limits import Limit
from tests.unit.scheduling.test_core import a_core, a_job, admitted, evicted, owed, submit

Looked = list[tuple[int, int]]


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> Looked:
    """The queues and priorities that were looked at, in order."""
    found: Looked = []
    unrefused = Bounds.unrefused

    def told(bounds: Bounds, queue: int, priority: int, by_shape: ByShape) -> Iterator[object]:
        found.append((queue, priority))
        return unrefused(bounds, queue, priority, by_shape)

    monkeypatch.setattr(Bounds, "unrefused", told)
    return found


def test_what_becomes_preemptible_is_a_matter_of_its_own_queue_and_higher_priorities(looked: Looked) -> None:
    core = a_core(nodes=1, limits={"a": owed(2), "b": owed(2)}, least_runtime_seconds=20)
    submit(core, *(a_job(f"a-{number}", priority=200) for number in range(3)))
    submit(core, *(a_job(f"b-{number}", queue=2, priority=900) for number in range(3)))
    assert len(admitted(core.decide(0))) == 4
    submit(core, a_job("low", priority=100), a_job("wide", gpus=4, priority=500), a_job("other", queue=2, priority=500))
    core.decide(1)
    looked.clear()
    core.decide(19)
    assert looked == []
    assert evicted(core.decide(20)) == []  # The two that run in its queue are not enough.
    assert looked == [(1, 500)]
    submit(core, a_job("high", priority=800))
    assert evicted(core.decide(21)) == ["a-0"]


def test_what_becomes_reclaimable_is_a_matter_of_queues_below_what_they_deserve(looked: Looked) -> None:
    core = a_core(nodes=1, limits={"a": owed(2), "b": owed(2), "c": Limit()}, reclaim_least_runtime_seconds=30)
    submit(core, *(a_job(f"b-{number}", queue=2) for number in range(5)), a_job("c-0", queue=3, at=1))
    assert len(admitted(core.decide(0))) == 4
    submit(core, a_job("wide", gpus=3, at=2))
    core.decide(1)
    looked.clear()
    core.decide(29)
    assert looked == []
    assert evicted(core.decide(30)) == []  # It is wider than what its queue deserves.
    assert looked == [(1, 500)]
    submit(core, a_job("a-0", gpus=2, at=31))
    assert len(evicted(core.decide(31))) == 2


def test_a_queue_is_looked_at_once_its_turn_comes_by_what_is_free_then(monkeypatch: pytest.MonkeyPatch) -> None:
    woken: list[int] = []
    wake = Ordering.wake_bounded

    def told(ordering: Ordering, group: Group) -> None:
        woken.append(group.queue)
        wake(ordering, group)

    monkeypatch.setattr(Ordering, "wake_bounded", told)
    core = a_core(nodes=1)
    submit(core, *(a_job(f"{'ab'[queue - 1]}-{number}", queue=queue) for number in range(3) for queue in (1, 2)))
    assert sorted(admitted(core.decide(0))) == ["a-0", "a-1", "b-0", "b-1"]
    woken.clear()
    core.ended("a-0")
    assert admitted(core.decide(0)) == ["a-2"]
    assert woken == [1]  # There is no room any more by the turn of the other queue.
    core.ended("b-0")
    assert admitted(core.decide(0)) == ["b-2"]
