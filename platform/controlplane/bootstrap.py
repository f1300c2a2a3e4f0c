"""What a new installation needs before anyone can sign in: tables, the first operator, tenant and token, this host's cluster."""

from __future__ import annotations

import json
import os

from django.db import connections
from django.db.migrations.executor import MigrationExecutor

from clusters.services import ensure_local_cluster
from controlplane.migrating import migrate_patiently
from kernel.clock import database_now
from kernel.config import Config
from kernel.version import VERSION
from tenants.services import bootstrap_installation

__all__ = ["VERSION", "create_first_objects", "migrate", "prepare_clusters"]


def migrate() -> None:
    """Bring the database to this release; of no effect when it is there."""
    connection = connections["default"]
    executor = MigrationExecutor(connection)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        migrate_patiently(connection)


def create_first_objects(config: Config) -> None:
    """On an empty installation, leave the generated credentials in a file of mode 0600 for `make up` to show once."""
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
                "token": credentials.token,
                "expires_at": credentials.token_expires_at.isoformat(),
            },
            file,
        )


def prepare_clusters(config: Config) -> None:
    """The embedded profile runs jobs on this machine, unless an operator said otherwise."""
    if config.local_cluster:
        ensure_local_cluster(database_now())
