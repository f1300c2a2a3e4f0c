"""Celery tasks of the layers below jobs, and the duties that make up for lost hints."""

from __future__ import annotations

from celery import shared_task

from activity import notifications
from controlplane import selftest
from controlplane.sweep import sweep
from kernel.clock import database_now


@shared_task(name="activity.deliver")
def deliver_task() -> None:
    notifications.fan_out(database_now())
    notifications.deliver(database_now())


@shared_task(name="controlplane.selftest")
def selftest_task() -> None:
    """Clean up after an interrupted run; then the next one, if it is due."""
    selftest.remove_leftovers(database_now())
    if selftest.due(database_now()):
        selftest.run_selftest()


@shared_task(name="reconciling.sweep")
def sweep_task() -> None:
    sweep(database_now())
