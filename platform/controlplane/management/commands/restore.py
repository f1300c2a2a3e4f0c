"""`manage.py restore FILE`: put a stopped installation back to a backup; what was there is kept beside it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from controlplane.backup import keys
from controlplane.backup.archive import BackupError, read_manifest, verify
from controlplane.backup.progress import Progress, shown_seconds
from controlplane.backup.restore import Restored, check_manifest, restore
from kernel.config import current


class Command(BaseCommand):
    help = "Restore a backup onto a stopped or an empty installation. Nothing is deleted; the present data is kept beside it."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="what `manage.py backup` made")
        parser.add_argument("--passphrase-file", type=Path, help="the first line opens keys that were sealed")
        parser.add_argument("--check", action="store_true", help="only read and check the whole file, and show what it says")

    def handle(self, *args: Any, file: Path, passphrase_file: Path | None, check: bool, **options: Any) -> None:
        os.umask(0o077)
        progress = Progress()
        try:
            if check:
                self._check(file.absolute(), progress)
                return
            passphrase = keys.read_passphrase(passphrase_file) if passphrase_file else ""
            done = restore(current(), file.absolute(), passphrase=passphrase, progress=progress)
        except BackupError as reason:
            sys.exit(f"berth: {reason}")
        _say_what_was_done(done, progress)

    def _check(self, file: Path, progress: Progress) -> None:
        manifest = read_manifest(file)
        check_manifest(current(), manifest)
        with progress.step("check", file.stat().st_size) as words:
            verify(file, progress.moved)
            words.append("whole, and this release can restore it")
        self.stdout.write(json.dumps(manifest, indent=1, sort_keys=True))


def _say_what_was_done(done: Restored, progress: Progress) -> None:
    rows = done.manifest["database"]["rows"]
    progress.say(f"\nRestored {rows['jobs_job']} jobs as of {done.manifest['taken_at'][:19]}Z, in {shown_seconds(done.seconds)}.")
    progress.say(f"Lost: what was changed in the {shown_seconds(done.lost_seconds)} between the backup and now.")
    for place in done.kept:
        progress.say(f"Kept: {place}")
    progress.say(
        """
Next:
  1. Start the platform. Waiting jobs start only after every cluster was asked what still runs there.
  2. manage.py quarantine       what runs there and is not in the restored database; nothing of it was touched.
     manage.py quarantine --adopt-fitting     gives each to its job, where the job is known and waits for it.
  3. What was undone comes back: tokens revoked and members removed since the backup have their rights again. Look at them.
  4. When all is well, remove what was kept."""
    )
