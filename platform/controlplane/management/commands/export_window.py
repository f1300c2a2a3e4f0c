"""`manage.py export_window`: a past window of this installation as a file that can be lived through again, anywhere."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from controlplane.management.moments import moment
from jobs.reconcile.replay_trace import past_trace
from jobs.scheduling.replay.mask import masked
from jobs.scheduling.replay.trace import past_lines
from kernel.clock import database_now


class Command(BaseCommand):
    help = (
        "Write what waited and ran between two moments to a file, for `replay_window`. Names are made up unless --names is given."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="where to write it; must not exist yet")
        parser.add_argument("--from", dest="begins_at", type=moment, required=True, metavar="2026-11-20T00:00", help="in UTC")
        parser.add_argument("--to", dest="ends_at", type=moment, metavar="2026-11-21T00:00", help="in UTC; default now")
        parser.add_argument("--names", action="store_true", help="keep the names of queues, pools, nodes and jobs")

    def handle(self, *args: Any, **options: Any) -> None:
        now = database_now()
        begins_at, ends_at, file = options["begins_at"], options["ends_at"] or now, options["file"]
        if not begins_at < ends_at <= now:
            sys.exit(
                f"berth: a window begins before it ends, and ends by now, {now:%Y-%m-%dT%H:%M}. Give --from and --to in UTC."
            )
        past = past_trace(begins_at, ends_at, now)
        if not options["names"]:
            past = masked(past)
        try:
            with file.open("x", encoding="ascii", newline="\n") as target:
                target.writelines(f"{line}\n" for line in past_lines(past))
        except OSError as error:
            sys.exit(f"berth: cannot write {file}: {error.strerror}. Name a file that does not exist in a folder that does.")
        self.stdout.write(
            f"{file}: {len(past.runs)} jobs ran at the beginning, {len(past.entries)} waited or came, "
            f"{len(past.edits)} changes of limits. Names are {'kept' if options['names'] else 'made up'}."
        )
