"""What a new installation needs before anyone can sign in: tables, the first operator, tenant and token, this host's cluster."""

from __future__ import annotations

import json
import os
import pkgutil

import structlog
from django.apps import apps
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder

from clusters.engines.interface import EngineUnreachable
from clusters.services import ensure_local_cluster
from controlplane.migrating import migrate_patiently
from jobs.services.templates import ensure_shipped_templates
from kernel.clock import database_now
from kernel.config import Config
from kernel.version import VERSION
from tenants.services import bootstrap_installation
from upstream.postgresql import alone, without_statement_timeout

__all__ = ["VERSION", "create_first_objects", "migrate", "prepare_clusters"]

MIGRATION_LOCK = 4_711_042  # Any number that no other program uses in this database.

log = structlog.get_logger("bootstrap")


def migrate() -> None:
    """Bring the database to this release; of no effect when it is there. Of several at once one does it, the others wait."""
    connection = connections["default"]
    with without_statement_timeout(connection), alone(connection, MIGRATION_LOCK):
        if _is_all_applied(connection):
            return
        executor = MigrationExecutor(connection)
        if executor.migration_plan(executor.loader.graph.leaf_nodes()):
            migrate_patiently(connection)


def _is_all_applied(connection: BaseDatabaseWrapper) -> bool:
    """Whether each migration of this release is recorded, by the names of its files: to load them takes longer than to ask."""
    applied = MigrationRecorder(connection).applied_migrations()
    folders = {app.label: os.path.join(app.path, "migrations") for app in apps.get_app_configs()}
    return all((label, module.name) in applied for label, folder in folders.items() for module in pkgutil.iter_modules([folder]))


def create_first_objects(config: Config) -> None:
    """On an empty installation, leave the generated credentials in a file of mode 0600 for `make up` to show once.

    Templates that come with the release are made on one that never had any.
    """
    ensure_shipped_templates(database_now())
    credentials = bootstrap_installation(now=database_now())
    if credentials is None:
        return
    path = config.data_dir / "first-credentials.json"
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(
            {
                "user": credentials.user_name,
                "tenant": credentials.tenant_name,
                "password": credentials.password,
                "token": credentials.token,
                "expires_at": credentials.token_expires_at.isoformat(),
            },
            file,
        )


def prepare_clusters(config: Config) -> None:
    """The embedded profile runs jobs on this machine, unless an operator said otherwise."""
    if not config.local_cluster:
        return
    try:
        ensure_local_cluster(database_now())
    except EngineUnreachable as error:  # Its launcher comes up beside us; the observer measures the machine then.
        log.warning("machine_not_measured", error=str(error))
