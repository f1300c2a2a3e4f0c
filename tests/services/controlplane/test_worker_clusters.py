"""Each cluster has a queue and threads of its own: an engine that hangs delays the jobs of its own cluster alone."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
import redis

from activity.sequencer import sequence
from clusters.engines.fake import FakeEngine
from clusters.engines.interface import Engine, Workload
from clusters.models import Cluster, ClusterKind, Pool
from clusters.selectors import observed_clusters
from clusters.services import EngineSettings, record_inventory, register_engine
from clusters.services.engines import forget_engines
from controlplane import duties
from controlplane.celery import QUEUE_SECONDS, app, consumed_clusters, forget_cluster_queue
from controlplane.processes import worker as working
from controlplane.processes.worker import THREADS, Worker, fire, send
from jobs.models import Job
from jobs.reconcile.driver import SchedulerDriver
from jobs.services.submit import prepare, submit
from kernel.config import current
from reconciling import ticks
from tests.builders.live import wait_until
from tests.factories.clusters import make_cluster, node_facts
from tests.factories.tenants import Cast

pytestmark = [pytest.mark.database, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]

PATIENCE = 60.0
OFTEN_SECONDS = 0.02


class Hanging(FakeEngine):
    """Takes what it is given when the test lets it."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.free = threading.Event()
        self.asked = 0

    def ensure(self, workloads: Sequence[Workload]) -> Any:
        self.asked += 1
        assert self.free.wait(4 * PATIENCE)
        return super().ensure(workloads)


@pytest.fixture
def engines() -> Iterator[dict[str, FakeEngine]]:
    made = {"slow": Hanging(nodes=[node_facts("slow-1")]), "quick": FakeEngine(nodes=[node_facts("quick-1")])}

    def factory(settings: EngineSettings) -> Engine:
        found: Engine = made[settings.name]
        return found

    forget_engines()
    register_engine(ClusterKind.FAKE, factory)
    yield made
    slow = made["slow"]
    assert isinstance(slow, Hanging)
    slow.free.set()
    forget_engines()


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch, engines: dict[str, FakeEngine]) -> Iterator[Worker]:
    """Started by the test. Duties are ours: starts, far more often than an engine that hangs could take them."""
    monkeypatch.setattr(duties, "register", lambda: ticks.register("jobs.launch", every_seconds=OFTEN_SECONDS))
    monkeypatch.setattr(ticks, "_duties", {})
    monkeypatch.setattr(working, "CLUSTERS_SECONDS", OFTEN_SECONDS)
    app.control.purge()
    made = Worker()
    yield made
    slow = engines["slow"]
    assert isinstance(slow, Hanging)
    slow.free.set()
    made.finish(seconds=PATIENCE)
    app.control.purge()


def admitted(cast: Cast, cluster: Cluster, driver: SchedulerDriver) -> Job:
    """One job that waits to be started on this cluster."""
    now = datetime.now(UTC)
    document = {"name": "train", "command": "true", "pool": Pool.objects.get(cluster=cluster).name}
    [job_id] = submit([prepare(actor=cast.bob.actor, tenant=None, document=document)], actor=cast.bob.actor, now=now)
    sequence(now)
    driver.run(now=now)
    job = Job.objects.get(pk=job_id)
    assert job.state == "admitted", job.reason_code
    return job


def cluster_of(name: str, engine: FakeEngine) -> Cluster:
    cluster = make_cluster(name)
    record_inventory(cluster.pk, engine.inventory(), datetime.now(UTC))
    Pool.objects.filter(cluster=cluster).update(name=name)
    return cluster


def has_left_admitted(job: Job) -> bool:
    return Job.objects.values_list("state", flat=True).get(pk=job.pk) != "admitted"


def test_a_job_starts_on_one_cluster_while_the_engine_of_another_hangs(
    cast: Cast, engines: dict[str, FakeEngine], worker: Worker
) -> None:
    slow, quick = cluster_of("slow", engines["slow"]), cluster_of("quick", engines["quick"])
    driver = SchedulerDriver()
    hanging = admitted(cast, slow, driver)
    worker.start()
    engine = engines["slow"]
    assert isinstance(engine, Hanging)
    wait_until(lambda: engine.asked > 0, "the engine that hangs", timeout=PATIENCE)
    for _ in range(4 * THREADS):  # Whatever the ticker does meanwhile: more messages than the worker has threads.
        send("jobs.launch", cluster_id=str(slow.pk))
    wanted = admitted(cast, quick, driver)
    wait_until(lambda: has_left_admitted(wanted), "the start on the other cluster", timeout=PATIENCE)
    assert not has_left_admitted(hanging)
    wait_until(lambda: length_of(str(slow.pk)) <= THREADS, "messages of the cluster that hangs stand for each other")
    engine.free.set()
    wait_until(lambda: has_left_admitted(hanging), "the start that hung", timeout=PATIENCE)


def test_a_cluster_that_is_added_is_served_until_it_is_gone(engines: dict[str, FakeEngine], worker: Worker) -> None:
    calls: list[str] = []

    def look(cluster_id: str) -> None:
        calls.append(cluster_id)

    app.task(name="tests.look")(look)
    try:
        worker.start()
        added = str(cluster_of("quick", engines["quick"]).pk)
        wait_until(lambda: added in consumed_clusters(), "the queue of the cluster that was added", timeout=PATIENCE)
        send("tests.look", cluster_id=added)
        wait_until(lambda: calls == [added], "its message", timeout=PATIENCE)
        Cluster.objects.filter(pk=added).update(is_enabled=False)
        assert added in {str(each) for each in observed_clusters()}, "what runs there is observed on"
        Cluster.objects.filter(pk=added).delete()
        wait_until(lambda: added not in consumed_clusters(), "the end of its queue", timeout=PATIENCE)
    finally:
        del app.tasks["tests.look"]


def test_the_queue_of_a_cluster_that_is_gone_is_deleted_with_its_messages() -> None:
    gone = str(uuid.uuid4())
    for _ in range(3):
        send("jobs.launch", cluster_id=gone)
    assert length_of(gone) == 3
    forget_cluster_queue(gone)
    assert f"cluster.{gone}" not in app.amqp.queues
    assert length_of(gone) == 0
    forget_cluster_queue(gone)


def test_a_queue_that_nobody_consumes_is_forgotten_by_the_broker() -> None:
    if not current().redis_url:
        pytest.skip("messages in memory end with the process")
    nobody = str(uuid.uuid4())
    send("jobs.launch", cluster_id=nobody)
    with redis.Redis.from_url(current().redis_url) as client:
        assert client.llen(f"cluster.{nobody}") == 1
        assert 0 < client.pttl(f"cluster.{nobody}") <= QUEUE_SECONDS * 1000
        client.delete(f"cluster.{nobody}")


def test_a_duty_that_asks_engines_is_one_message_for_each_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[str, dict[str, Any]]] = []
    ids = [uuid.uuid4(), uuid.uuid4()]
    monkeypatch.setattr(working, "observed_clusters", lambda: ids)
    monkeypatch.setattr(app, "send_task", lambda name, **given: sent.append((name, given)))
    fire("jobs.poll")
    fire("reconciling.sweep")
    assert [(name, given["queue"], given["kwargs"]) for name, given in sent] == [
        *(("jobs.poll", f"cluster.{each}", {"cluster_id": str(each)}) for each in ids),
        ("reconciling.sweep", "default", {}),
    ]


def length_of(cluster_id: str) -> int:
    """Messages of a cluster that wait in the broker."""
    with app.connection_for_read() as connection:
        size: int = connection.default_channel._size(f"cluster.{cluster_id}")
        return size
