"""`/readyz` names every part, and says in words which one fails."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
import redis

from clusters.models import ClusterCondition
from clusters.services import set_condition
from controlplane.processes.heartbeat import Heartbeat
from kernel import clock
from kernel.clock import database_now
from kernel.config import Config, current
from reconciling.models import Lease, Process
from tests.factories.clusters import make_cluster
from webapi.health import CheckResult, run_checks

pytestmark = pytest.mark.database


@pytest.fixture(autouse=True)
def _still(db: None) -> Iterator[None]:
    """A second more or less decides here: the clock stands while a test looks."""
    now = database_now()
    with clock.virtual(lambda: now):
        yield


@pytest.fixture
def scheduled(db: None) -> Lease:
    """A scheduler that leads."""
    return Lease.objects.create(name="scheduler", holder="here:1", expires_at=database_now() + timedelta(seconds=10))


def results() -> dict[str, CheckResult]:
    return {result.name: result for result in run_checks(fresh=True)}


def test_every_part_is_named_and_well(scheduled: Lease) -> None:
    found = results()
    others = {"broker", "clusters", "processes", "quarantine", "scheduler", "set_aside"}
    assert set(found) == {"database", "database_writes", "disk", *others}
    assert [result for result in found.values() if not result.is_ok] == []
    kind = "redis" if current().redis_url else "memory"
    assert (found["broker"].detail, found["scheduler"].detail) == (kind, "led")


@pytest.mark.parametrize("silent_seconds", [1, 29])
def test_a_standby_has_a_moment_to_take_over(scheduled: Lease, silent_seconds: int) -> None:
    Lease.objects.update(expires_at=database_now() - timedelta(seconds=silent_seconds))
    assert results()["scheduler"].is_ok


def test_in_production_the_living_processes_are_counted_and_a_role_without_any_is_said(
    scheduled: Lease, configure: Callable[..., Config]
) -> None:
    configure(server_profile="production")
    for role in ("web", "web", "worker", "scheduler"):
        Heartbeat(role).beat(threading.Event())
    Process.objects.filter(role="scheduler").update(seen_at=database_now() - timedelta(minutes=1))
    found = results()["processes"]
    assert (found.is_ok, found.detail) == (True, "web 2, worker 1, scheduler none, observer none")


@pytest.mark.parametrize("state", ["never", "resigned", "dead"])
def test_without_a_scheduler_nothing_is_ready(scheduled: Lease, state: str) -> None:
    if state == "never":
        Lease.objects.all().delete()
    else:
        Lease.objects.update(expires_at=None if state == "resigned" else database_now() - timedelta(seconds=31))
    found = results()["scheduler"]
    assert (found.is_ok, found.detail) == (False, "No scheduler runs. Start a scheduler process.")


def test_a_broker_that_is_gone_is_said_without_its_address(scheduled: Lease, configure: Callable[..., Config]) -> None:
    configure(redis_url="redis://:hunter2@127.0.0.1:1/0")
    found = results()
    assert (found["broker"].is_ok, found["broker"].detail) == (False, "Redis does not answer: ConnectionError.")
    assert found["database"].is_ok
    assert found["scheduler"].is_ok


def test_a_lost_cluster_is_said_and_the_platform_stays_ready(scheduled: Lease) -> None:
    cluster = make_cluster("lab")
    make_cluster("closed", is_enabled=False)
    set_condition(cluster.pk, ClusterCondition.LOST_CONTACT, "timeout", database_now())
    found = results()["clusters"]
    assert (found.is_ok, found.detail) == (True, "lab lost_contact")


def test_asking_again_and_again_leaves_no_connection_behind(scheduled: Lease) -> None:
    if not current().redis_url:
        pytest.skip("memory has no connections")
    with redis.Redis.from_url(current().redis_url) as client:
        results()
        before = len(client.client_list())
        for _ in range(10):
            results()
        assert len(client.client_list()) <= before
