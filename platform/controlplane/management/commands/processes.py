"""`manage.py processes`: which processes of this installation live, and what they lead."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from controlplane.processes.heartbeat import SILENT
from kernel.clock import database_now
from reconciling.models import Process


class Command(BaseCommand):
    help = "Show the processes of this installation: role, host, pid, release, what each leads, when it was seen last."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="for programs")

    def handle(self, *args: Any, **options: Any) -> None:
        now = database_now()
        rows = [
            {
                "role": row.role,
                "host": row.host,
                "pid": row.pid,
                "version": row.version,
                "leads": row.leads,
                "started_at": row.started_at.isoformat(),
                "seen_seconds_ago": round(max(0.0, (now - row.seen_at).total_seconds()), 1),
                "lives": now - row.seen_at < SILENT,
            }
            for row in Process.objects.order_by("role", "host", "started_at")
        ]
        if options["json"]:
            self.stdout.write(json.dumps(rows))
            return
        line = "{:<10} {:<20} {:>8} {:<9} {:<9} {}"
        self.stdout.write(line.format("ROLE", "HOST", "PID", "RELEASE", "SEEN", "LEADS"))
        for row in rows:
            seen = f"{row['seen_seconds_ago']:.0f} s ago" if row["lives"] else "silent"
            leads = ", ".join(row["leads"]) or "-"
            self.stdout.write(line.format(row["role"], row["host"][:20], row["pid"], row["version"], seen, leads))
        if not rows:
            self.stdout.write("No process has said that it lives. The embedded profile is one process: see `make status`.")
