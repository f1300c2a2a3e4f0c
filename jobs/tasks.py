"""Celery's doorways: ids in, one call, out. Each works on due rows by itself, so a lost or doubled message changes nothing."""

from __future__ import annotations

import uuid

from celery import shared_task

from clusters.selectors import observed_clusters
from jobs.reconcile import builds, finish, launch, poll, stopping
from kernel.clock import database_now
from kernel.config import current
from reconciling import leases


def _clusters(cluster_id: str | None) -> list[uuid.UUID]:
    return [uuid.UUID(cluster_id)] if cluster_id else list(observed_clusters())


@shared_task(name="jobs.launch")
def launch_task(cluster_id: str | None = None) -> None:
    for each in _clusters(cluster_id):
        while launch.launch(each) == launch.BATCH_ATTEMPTS:
            pass


@shared_task(name="jobs.poll")
def poll_task(cluster_id: str | None = None) -> None:
    """Look at clusters that no observer looks at: whoever looks holds the cluster's lease."""
    for each in _clusters(cluster_id):
        lease = poll.lease_name(each)
        token = leases.acquire(lease, holder="jobs.poll", seconds=current().lease_seconds, now=database_now())
        if token is None:
            continue
        try:
            poll.poll(each)
        finally:
            leases.release(lease, token)


@shared_task(name="jobs.stop")
def stop_task(cluster_id: str | None = None) -> None:
    for each in _clusters(cluster_id):
        while stopping.stop(each) == stopping.BATCH_ATTEMPTS:
            pass


@shared_task(name="jobs.finish")
def finish_task(cluster_id: str | None = None) -> None:
    for each in _clusters(cluster_id):
        while finish.finish(each) == finish.BATCH_ATTEMPTS:
            pass


@shared_task(name="jobs.builds")
def builds_task() -> None:
    builds.start_builds()
