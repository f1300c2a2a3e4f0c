"""`manage.py serve`: the embedded platform in the foreground. In the production profile manage.py runs the supervisor instead."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from controlplane import logs
from controlplane.instance import CannotStart
from controlplane.management.leaving import leave
from controlplane.processes import embedded
from kernel.config import BadSetting, current


class Command(BaseCommand):
    help = "Run the embedded platform until it is told to stop."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--bootstrap", action="store_true", help="on new data, make the first operator, tenant and token")

    def handle(self, *args: Any, bootstrap: bool, **options: Any) -> None:
        logs.set_up(debug=current().debug)
        try:
            code = embedded.run(current(), bootstrap=bootstrap)
        except (CannotStart, BadSetting) as reason:
            print(f"berth: {reason}", file=sys.stderr)  # noqa: T201  (`make up` looks for this line)
            code = 1
        leave(code)
