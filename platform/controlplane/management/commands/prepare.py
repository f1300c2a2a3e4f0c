"""`manage.py prepare`: bring the database to this release before its processes start. May be repeated, also at once."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from controlplane import bootstrap as first_start
from controlplane import logs
from controlplane.instance import CannotStart
from controlplane.management.leaving import refuse
from controlplane.servers import claim_servers, refuse_wrong_servers
from kernel.config import current


class Command(BaseCommand):
    help = "Check PostgreSQL and Redis, migrate, and on new data make the first objects."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--bootstrap", action="store_true", help="on new data, make the first operator, tenant and token")

    def handle(self, *args: Any, bootstrap: bool, **options: Any) -> None:
        config = current()
        logs.set_up(debug=config.debug)
        try:
            if config.is_production:
                refuse_wrong_servers(config, wait=True)
            first_start.migrate()
            if config.is_production:
                claim_servers(config)
        except CannotStart as reason:
            refuse(reason)
        if bootstrap:
            first_start.create_first_objects(config)
        first_start.prepare_clusters(config)
