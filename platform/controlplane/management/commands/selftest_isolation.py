"""`manage.py selftest_isolation`: try every operation from one throw-away tenant on another, on the running installation."""

from __future__ import annotations

import json
import sys
from typing import Any

import structlog
from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.api.serializers import show_selftests
from controlplane.selftest import SelfTestBroken, own_url, remove_leftovers, run_selftest
from kernel.clock import database_now

SECONDS_MAX = 900.0  # No worker waits for it.


class Command(BaseCommand):
    help = "Try every operation from one throw-away tenant on another. Exits with 1 unless nothing was found."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print the whole report")
        parser.add_argument("--clean", action="store_true", help="only remove what interrupted runs left")

    def handle(self, *args: Any, **options: Any) -> None:
        if not structlog.is_configured():  # Standard output is the report's.
            structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
        removed = remove_leftovers(database_now())
        if removed:
            self.stdout.write(f"{removed} interrupted runs were cleaned up.")
        if options["clean"]:
            return
        try:
            own_url()
        except SelfTestBroken as reason:
            raise CommandError(str(reason)) from None
        run = run_selftest(seconds_max=SECONDS_MAX)
        if run is None:
            raise CommandError("Another self-test runs at this moment.")
        if options["json"]:
            self.stdout.write(json.dumps(show_selftests([run])[0], indent=2))
        for finding in [] if options["json"] else run.findings:
            self.stderr.write("{operation} by {by}: {status} {problem}".format(**finding))
        for wall in [] if options["json"] else show_selftests([run])[0]["walls"]:
            outcome = wall["outcome"].replace("_", " ")
            self.stdout.write(f"{wall['cluster']}: {outcome}: {wall['text']} {wall['evidence']}".rstrip())
        if run.verdict != "passed":
            raise CommandError(f"The self-test {run.verdict}: {run.detail or f'{len(run.findings)} findings, listed above'}.")
        if not options["json"]:
            self.stdout.write(f"{run.requests} requests, nothing found. Both tenants are removed.")
