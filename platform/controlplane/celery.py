"""The Celery application. Messages are hints (design rule 1): losing one costs time, never work."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

from celery import Celery
from kombu import Exchange, Queue

from controlplane.broker import SOCKET_SECONDS, Broker
from kernel.config import current
from upstream.celery import PatientAmqp, keep_database

_CONFIG = current()
TASK_SECONDS_MAX = 60  # Tasks are short; a message without acknowledgement is delivered again much later than that.
MEMORY_POLL_SECONDS = 0.02
DEFAULT_QUEUE = "default"
CLUSTER_PREFIX = "cluster."
QUEUE_SECONDS = (
    600.0  # Redis forgets a cluster's queue, with its messages, that got none for so long; duties hint every few seconds.
)

TASK_MODULES = ("jobs.tasks", "controlplane.tasks")


def broker_url(redis_url: str) -> str:
    """The broker's address. kombu has a way of its own to name a socket: `redis+socket://:password@/path?virtual_host=<number>`."""
    parts = urlsplit(redis_url)
    if parts.scheme != "unix":
        return redis_url or "memory://localhost/"
    number = parse_qs(parts.query).get("db", ["0"])[-1]
    return f"redis+socket://{parts.netloc}{parts.path}?virtual_host={number}"


def transport_options(redis_url: str) -> dict[str, float]:
    """How the broker is asked: Redis when to deliver again, memory how often to look."""
    if redis_url:
        return {"visibility_timeout": _CONFIG.visibility_seconds, "socket_timeout": SOCKET_SECONDS}
    return {"polling_interval": MEMORY_POLL_SECONDS}


app = Celery("berth", broker=broker_url(_CONFIG.redis_url), include=list(TASK_MODULES), amqp=PatientAmqp)
broker = Broker(_CONFIG.redis_url)
app.conf.update(
    task_serializer="json",
    accept_content=["json"],
    result_backend=None,
    task_ignore_result=True,
    task_acks_late=True,
    task_reject_on_worker_lost=True,  # Every task is idempotent: it claims due rows.
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    worker_redirect_stdouts=False,
    task_default_queue=DEFAULT_QUEUE,
    task_time_limit=None if not _CONFIG.is_production else 2 * TASK_SECONDS_MAX,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    broker_transport_options=transport_options(_CONFIG.redis_url),
    visibility_timeout=_CONFIG.visibility_seconds,
    result_backend_transport_options={"visibility_timeout": _CONFIG.visibility_seconds},
)
if not _CONFIG.database_url:
    keep_database(app)


def cluster_queue(cluster_id: str) -> str:
    """The name of a cluster's queue, which Celery knows from now on; for the tasks that ask the cluster's engine."""
    name = CLUSTER_PREFIX + cluster_id
    if name not in app.amqp.queues:
        app.amqp.queues.add(Queue(name, Exchange(name, type="direct"), routing_key=name, expires=QUEUE_SECONDS))
    return name


def consumed_clusters() -> set[str]:
    """Ids of clusters whose queues the consumer of this process takes messages from, or is told to."""
    return {name.removeprefix(CLUSTER_PREFIX) for name in tuple(app.amqp.queues.consume_from) if name.startswith(CLUSTER_PREFIX)}


def forget_cluster_queue(cluster_id: str) -> None:
    """Delete the queue of a cluster that is gone, with its messages: they were hints."""
    name = CLUSTER_PREFIX + cluster_id
    with app.connection_for_write() as connection:
        queue = Queue(name)(connection.default_channel)
        queue.purge()
        queue.delete()
    app.amqp.queues.deselect([name])
    app.amqp.queues.pop(name, None)
