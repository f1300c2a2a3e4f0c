"""Celery's doorways: ids in, one call, out. Each works on due rows by itself, so a lost or doubled message changes nothing.

What asks the engine of a cluster is done in that cluster's lane (`reconciling.lanes`): the threads of the worker hand it over and
wait for no engine.
"""

from __future__ import annotations

import functools
import threading
import uuid
from collections.abc import Callable

from celery import shared_task

from clusters.selectors import observed_clusters
from jobs.reconcile import builds, checkpoints, finish, launch, learning, poll, stopping
from jobs.services import counts, gpu_faults, maintenance
from kernel.clock import database_now
from kernel.config import current
from reconciling import lanes, leases

_looking = threading.Lock()
_asked = threading.Event()


def _for_each(kind: str, cluster_id: str | None, work: Callable[[uuid.UUID], object]) -> None:
    """Do the work for one cluster, or for all: one that fails does not keep the others waiting. Its failure is raised last, or
    logged by its lane."""
    failures: list[Exception] = []
    for each in [uuid.UUID(cluster_id)] if cluster_id else list(observed_clusters()):
        try:
            lanes.run(str(each), kind, functools.partial(work, each))
        except Exception as error:  # Raised below.
            failures.append(error)
    if failures:
        raise failures[0]


def _until_done(work: Callable[[uuid.UUID], int], batch: int) -> Callable[[uuid.UUID], None]:
    def run(cluster_id: uuid.UUID) -> None:
        while work(cluster_id) == batch:
            pass

    return run


@shared_task(name="jobs.launch")
def launch_task(cluster_id: str | None = None) -> None:
    _for_each("jobs.launch", cluster_id, _until_done(launch.launch, launch.BATCH_ATTEMPTS))


@shared_task(name="jobs.poll")
def poll_task(cluster_id: str | None = None) -> None:
    """Look at clusters that no observer looks at: the process that looks holds the cluster's lease."""
    _for_each("jobs.poll", cluster_id, _poll_unwatched)


def _poll_unwatched(cluster_id: uuid.UUID) -> None:
    lease = poll.lease_name(cluster_id)
    token = leases.acquire(lease, holder="jobs.poll", seconds=current().leadership_seconds, now=database_now())
    if token is None:
        return
    try:
        poll.poll(cluster_id)
    finally:
        leases.release(lease, token)


@shared_task(name="jobs.stop")
def stop_task(cluster_id: str | None = None) -> None:
    _for_each("jobs.stop", cluster_id, _until_done(stopping.stop, stopping.BATCH_ATTEMPTS))


@shared_task(name="jobs.finish")
def finish_task(cluster_id: str | None = None) -> None:
    _for_each("jobs.finish", cluster_id, _until_done(finish.finish, finish.BATCH_ATTEMPTS))


@shared_task(name="jobs.maintenance")
def maintenance_task() -> None:
    maintenance.look(database_now())
    gpu_faults.look(database_now())


@shared_task(name="jobs.recount")
def recount_task() -> None:
    counts.recount_jobs(database_now())


@shared_task(name="jobs.learn")
def learn_task() -> None:
    learning.learn_pools(database_now())


@shared_task(name="jobs.checkpoints")
def checkpoints_task() -> None:
    """By one thread of a process: how long a look takes is up to the job that filled the directory, and starts and stops wait for
    the same threads. A thread that is asked meanwhile leaves it to that one, which then looks once more."""
    _asked.set()
    while _asked.is_set() and _looking.acquire(blocking=False):
        try:
            _asked.clear()
            while checkpoints.look() == checkpoints.BATCH:
                pass
        finally:
            _looking.release()


@shared_task(name="jobs.builds")
def builds_task() -> None:
    builds.start_builds()
