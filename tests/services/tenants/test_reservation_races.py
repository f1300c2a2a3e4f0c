"""Many at once for the same last places: never over quota, nothing lost, no deadlock (security T17)."""

from __future__ import annotations

import random
import uuid

import pytest
from django.db import connection

from kernel.resources import Resources
from tenants.capacity.services import reservations
from tenants.models import Counter, Queue, QueueUsage, Reservation
from tenants.services import recount_usage, release, reserve
from tests.builders.threads import at_once, together
from tests.factories.tenants import ask, limit, make_queue, make_tenant, make_user, now, top_queue

pytestmark = [pytest.mark.database, pytest.mark.django_db(transaction=True)]

POOL, OTHER = uuid.UUID(int=1), uuid.UUID(int=2)
GPU = Resources(cpu_millis=1000, memory_bytes=2**20, gpu_millis=1000)
WORKERS = 8


def test_two_hundred_parallel_requests_never_pass_a_ceiling() -> None:
    parent = make_tenant()
    queues = [top_queue(make_tenant(parent=parent)) for _ in range(3)]
    limit(top_queue(parent), POOL, gpu_millis=20_000)
    for queue in queues:
        limit(queue, POOL, gpu_millis=9_000)

    def work(number: int) -> int:
        return sum(len(reserve([ask(queues[(number + turn) % 3], POOL, GPU)], now=now())) for turn in range(25))

    granted = sum(at_once(WORKERS, work))

    assert granted == 20
    assert Reservation.objects.filter(released_at=None).count() == 20
    assert QueueUsage.objects.get(queue=top_queue(parent), pool_id=POOL).gpu_millis == 20_000
    assert recount_usage(now=now()) == []


def test_reserving_and_releasing_at_once_leaves_exact_sums_and_no_deadlock() -> None:
    parent = make_tenant()
    queues = [make_queue(make_tenant(parent=parent)) for _ in range(3)]
    limit(top_queue(parent), POOL, gpu_millis=30_000)

    def work(number: int) -> None:
        chance = random.Random(number)
        for _ in range(6):
            requests = [ask(chance.choice(queues), chance.choice((POOL, OTHER)), GPU) for _ in range(10)]
            granted = sorted(reserve(requests, now=now()))
            release(chance.sample(granted, len(granted) // 2), now=now())
            limit(queues[number % 3], POOL, gpu_millis=chance.randrange(5_000, 20_000))

    at_once(WORKERS, work)

    assert recount_usage(now=now()) == []
    assert QueueUsage.objects.get(queue=top_queue(parent), pool_id=POOL).gpu_millis <= 30_000


def test_one_attempt_reserved_by_many_at_once_counts_once() -> None:
    queue = top_queue(make_tenant())
    request = ask(queue, POOL, GPU)

    answers = at_once(WORKERS, lambda number: reserve([request], now=now()))

    assert answers == [{request.attempt_id}] * WORKERS
    assert QueueUsage.objects.get(queue=queue, pool_id=POOL).gpu_millis == 1000


def test_one_attempt_released_by_many_at_once_is_given_back_once() -> None:
    queue = top_queue(make_tenant())
    kept, freed = ask(queue, POOL, GPU), ask(queue, POOL, GPU)
    reserve([kept, freed], now=now())

    answers = at_once(WORKERS, lambda number: len(release([freed.attempt_id], now=now())))

    assert sorted(answers) == [0] * (WORKERS - 1) + [1]
    assert QueueUsage.objects.get(queue=queue, pool_id=POOL).gpu_millis == 1000


def test_tenants_made_at_once_get_one_root_and_different_numbers() -> None:
    make_user()
    tenants = at_once(WORKERS, lambda number: [make_tenant().number for _ in range(3)])

    numbers = [number for made in tenants for number in made]
    assert len(set(numbers)) == WORKERS * 3
    assert Queue.objects.filter(tenant=None).count() == 1
    assert Counter.objects.get(name="tenant_number").value == max(numbers)
    assert connection.vendor in {"sqlite", "postgresql"}


def test_who_first_holds_something_while_it_is_counted_is_no_drift(monkeypatch: pytest.MonkeyPatch) -> None:
    if connection.vendor == "sqlite":
        pytest.skip("writers take turns there")
    queue, count = top_queue(make_tenant()), reservations._count_live
    came: list[int] = []

    def count_after_somebody_came() -> object:
        if not came:
            came.append(1)
            together(lambda: reserve([ask(queue, POOL, GPU)], now=now()))
        return count()

    monkeypatch.setattr(reservations, "_count_live", count_after_somebody_came)
    assert recount_usage(now=now()) == []
    assert QueueUsage.objects.get(queue=queue, pool_id=POOL).gpu_millis == 1000
