"""`manage.py run ROLE`: one process of the production profile in the foreground."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from controlplane import logs
from controlplane.instance import CannotStart
from controlplane.management.leaving import leave, refuse
from kernel.config import current


class Command(BaseCommand):
    help = "Run one process of the production profile until it is told to stop."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        # The launcher is run by manage.py itself, without Django; it is named here for the help.
        parser.add_argument("role", choices=["web", "worker", "scheduler", "observer", "launcher"])

    def handle(self, *args: Any, role: str, **options: Any) -> None:
        from controlplane.processes import role as one_role

        logs.set_up(debug=current().debug)
        try:
            code = one_role.run(current(), role)
        except CannotStart as reason:
            refuse(reason)
        leave(code)
