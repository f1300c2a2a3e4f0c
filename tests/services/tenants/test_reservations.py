from __future__ import annotations

import uuid

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from kernel.resources import ZERO, Resources
from tenants.models import QueueUsage, Reservation
from tenants.selectors import queue_path, queue_tree
from tenants.services import recount_usage, release, reserve
from tests.factories.tenants import ask, limit, make_queue, make_tenant, now, top_queue

pytestmark = pytest.mark.database

POOL, OTHER_POOL = uuid.UUID(int=1), uuid.UUID(int=2)
GPU = Resources(cpu_millis=1000, memory_bytes=2**30, gpu_millis=1000)


def used(queue: object) -> Resources:
    return next(node for node in queue_tree() if node.id == queue.pk).used(POOL)  # type: ignore[attr-defined]


def test_reserving_counts_in_the_queue_and_all_queues_above() -> None:
    parent = make_tenant()
    child = make_tenant(parent=parent)
    queue = make_queue(child)
    request = ask(queue, POOL, GPU)

    assert reserve([request], now=now()) == {request.attempt_id}

    path = queue_path(queue.pk)
    assert [node.id for node in path][:3] == [queue.pk, top_queue(child).pk, top_queue(parent).pk]
    assert len(path) == 4
    assert path[-1].name == "root"
    assert [node.used(POOL) for node in path] == [GPU] * 4


def test_a_batch_is_granted_in_order_up_to_the_ceiling_and_the_rest_is_dropped() -> None:
    queue = top_queue(make_tenant())
    limit(queue, POOL, gpu_millis=3000)
    requests = [ask(queue, POOL, GPU) for _ in range(5)]

    assert reserve(requests, now=now()) == {request.attempt_id for request in requests[:3]}
    assert Reservation.objects.count() == 3
    assert used(queue) == GPU * 3


def test_a_ceiling_above_refuses_what_the_queue_itself_would_allow() -> None:
    parent = make_tenant()
    queue = top_queue(make_tenant(parent=parent))
    limit(top_queue(parent), POOL, gpu_millis=1000)
    requests = [ask(queue, POOL, GPU), ask(queue, POOL, GPU)]

    assert reserve(requests, now=now()) == {requests[0].attempt_id}


def test_an_attempt_in_two_pools_gets_both_or_nothing() -> None:
    queue = top_queue(make_tenant())
    limit(queue, OTHER_POOL, gpu_millis=500)
    attempt = uuid.uuid4()

    assert (
        reserve([ask(queue, POOL, GPU, attempt_id=attempt), ask(queue, OTHER_POOL, GPU, attempt_id=attempt)], now=now()) == set()
    )
    assert used(queue) == ZERO


def test_reserving_twice_counts_once() -> None:
    queue = top_queue(make_tenant())
    request = ask(queue, POOL, GPU)

    assert reserve([request], now=now()) == reserve([request], now=now()) == {request.attempt_id}
    assert used(queue) == GPU


def test_a_released_attempt_is_not_granted_again() -> None:
    queue = top_queue(make_tenant())
    request = ask(queue, POOL, GPU)
    reserve([request], now=now())
    release([request.attempt_id], now=now())

    assert reserve([request], now=now()) == set()
    assert used(queue) == ZERO


def test_release_after_reserve_is_identity_and_a_second_release_changes_nothing() -> None:
    queue = top_queue(make_tenant())
    kept, freed = ask(queue, POOL, GPU), ask(queue, POOL, GPU)
    reserve([kept, freed], now=now())

    assert release([freed.attempt_id, uuid.uuid4()], now=now()) == {freed.attempt_id}
    assert release([freed.attempt_id], now=now()) == set()
    assert used(queue) == GPU


def test_after_a_cut_use_only_falls() -> None:
    queue = top_queue(make_tenant())
    requests = [ask(queue, POOL, GPU) for _ in range(4)]
    reserve(requests, now=now())
    limit(queue, POOL, gpu_millis=2000)

    assert reserve([ask(queue, POOL, GPU)], now=now()) == set()
    release([requests[0].attempt_id, requests[1].attempt_id], now=now())
    assert reserve([ask(queue, POOL, GPU)], now=now()) == set()
    release([requests[2].attempt_id], now=now())
    assert len(reserve([ask(queue, POOL, GPU)], now=now())) == 1


def test_a_job_without_gpus_passes_a_gpu_ceiling_that_is_already_exceeded() -> None:
    queue = top_queue(make_tenant())
    reserve([ask(queue, POOL, GPU)], now=now())
    limit(queue, POOL, gpu_millis=0)

    assert len(reserve([ask(queue, POOL, Resources(cpu_millis=1000))], now=now())) == 1


def test_the_number_of_statements_does_not_depend_on_the_number_of_attempts() -> None:
    queues = [top_queue(make_tenant()) for _ in range(3)]
    counts = []
    for size in (10, 900):
        requests = [ask(queues[index % 3], POOL, GPU) for index in range(size)]
        with CaptureQueriesContext(
            connection,
        ) as reserving:
            assert len(reserve(requests, now=now())) == size
        with CaptureQueriesContext(connection) as releasing:
            assert len(release([request.attempt_id for request in requests], now=now())) == size
        counts.append((len(reserving), len(releasing)))

    assert counts[1][0] <= counts[0][0] <= 12
    assert counts[0][1] == counts[1][1] <= 8


def test_recounting_finds_nothing_wrong_and_then_what_was_tampered_with() -> None:
    queue = top_queue(make_tenant())
    reserve([ask(queue, POOL, GPU)], now=now())
    assert recount_usage(now=now()) == []

    QueueUsage.objects.filter(queue=queue).update(gpu_millis=5000)
    drift = recount_usage(now=now(), repair=True)

    assert [(entry.queue_id, entry.recorded.gpu_millis, entry.counted.gpu_millis) for entry in drift] == [(queue.pk, 5000, 1000)]
    assert recount_usage(now=now()) == []
    assert used(queue) == GPU
