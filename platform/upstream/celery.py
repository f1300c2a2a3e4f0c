"""Celery: its connections are ours, its tasks keep SQLite open, and a worker that is stopped early leaves no sockets."""

from __future__ import annotations

from typing import Any

from celery import Celery
from celery.app.amqp import AMQP

from upstream.hooks import CORRECTNESS, Hook
from upstream.kombu import PatientConnection

DATABASE_REUSES = 1_000_000  # Tasks before Celery closes the database; SQLite has no server that would mind.

HOOKS = (
    Hook(
        upstream="celery.app.amqp.AMQP.Connection",
        ours="PatientAmqp",
        why="Celery's only way to name the class of its connections.",
        gain=f"{CORRECTNESS}: brings in `PatientConnection`",
        test="unit/controlplane/test_broker.py::test_a_lost_connection_is_made_again_soon_and_without_end",
    ),
    Hook(
        upstream="celery.fixups.django.DjangoWorkerFixup.db_reuse_max",
        ours="keep_database",
        why="Celery closes the database after each task unless a setting that its documentation does not have says otherwise.",
        gain="0.5 ms of a core for each task on SQLite: to open a file of 120 tables and read a row takes 0.54 ms, "
        "from an open one 0.003 ms (2026-11-24, mean of 300)",
        test="unit/upstream/test_celery.py::test_a_task_leaves_the_database_open_for_the_next",
    ),
    Hook(
        upstream="celery.worker.components.Hub.create",
        parameters="self, w",
        ours="close_hub",
        why="A controller that is stopped before its loop began makes the sockets that wake the loop afterwards, and keeps them.",
        gain=f"{CORRECTNESS}: two descriptors leaked with each worker that ended while it started",
        test="services/controlplane/test_worker.py::test_a_worker_leaves_no_sockets_whose_loop_began_after_it_was_stopped",
    ),
)


class PatientAmqp(AMQP):
    """Celery's way to name the class of connections."""

    Connection = PatientConnection


def keep_database(app: Celery) -> None:
    """Let tasks leave the database open. Opening SQLite's file anew costs more than most tasks do."""
    app.conf["CELERY_DB_REUSE_MAX"] = DATABASE_REUSES


def close_hub(controller: Any) -> None:
    """Close the sockets of a controller's loop. To be called once its thread has ended; may be called again."""
    hub = getattr(controller, "hub", None)
    if hub is not None:
        hub.close()
