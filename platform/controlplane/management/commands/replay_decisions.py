"""`manage.py replay_decisions`: decide again what the scheduler decided, from its event log, and compare."""

from __future__ import annotations

import sys
import zlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from controlplane.management.moments import moment
from jobs.reconcile import event_log
from jobs.scheduling.replay.files import BadFile
from jobs.scheduling.replay.log import read_log
from jobs.scheduling.replay.recorder import Compared, decide_again


class Command(BaseCommand):
    help = "Decide again, pass by pass, what the scheduler decided between two moments, and say whether it decides the same."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, nargs="*", help="files of the event log; default those of the data directory")
        parser.add_argument("--from", dest="begins_at", type=moment, metavar="2026-11-20T00:00", help="in UTC; default all")
        parser.add_argument("--to", dest="ends_at", type=moment, metavar="2026-11-21T00:00", help="in UTC; default now")

    def handle(self, *args: Any, **options: Any) -> None:
        kept, where = options["file"], event_log.folder()
        if not kept:
            begins_at, ends_at = options["begins_at"], options["ends_at"]
            if begins_at is not None and ends_at is not None and not begins_at < ends_at:
                sys.exit("berth: --to lies before --from. Give the earlier moment to --from, both in UTC.")
            kept = [
                log_file.path
                for log_file in event_log.files(where)
                if (begins_at is None or log_file.ends_at >= begins_at) and (ends_at is None or log_file.begins_at <= ends_at)
            ]
        if not kept:
            sys.exit(
                f"berth: {where} has no event log of that time. It is kept for BERTH_SCHEDULER_LOG_DAYS, "
                "and not written where BERTH_SCHEDULER_LOG_BYTES is 0."
            )
        differ = sum(self._compare(path).difference is not None for path in kept)
        if differ:
            sys.exit(f"berth: {differ} of {len(kept)} files are decided otherwise now. Was the scheduler changed in between?")

    def _compare(self, path: Path) -> Compared:
        try:
            found = decide_again(read_log(event_log.lines(path), is_open=True))
        except BadFile as error:
            sys.exit(f"berth: {path}, {error}. Leave this file out.")
        except zlib.error as error:
            sys.exit(f"berth: {path} is no event log, or not as it was written: {error}. Leave this file out.")
        except OSError as error:
            sys.exit(f"berth: cannot read {error.filename}: {error.strerror}.")
        if found.difference is None:
            self.stdout.write(f"{path.name}: {found.passes} passes, {found.decisions} decisions, all the same")
        else:
            at = datetime.fromtimestamp(found.difference.at, UTC)
            self.stdout.write(f"{path.name}: pass {found.passes}, at {at:%Y-%m-%dT%H:%M:%S}, is decided otherwise")
            for name, decisions in (("then", found.difference.then), ("now", found.difference.now)):
                self.stdout.write(f"  {name}: {', '.join(map(str, decisions)) or 'nothing'}")
        return found
