"""`manage.py backup [FILE]`: one verified file with which the installation can be put back, taken while it runs."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from controlplane.backup import keys, stores
from controlplane.backup.archive import BackupError
from controlplane.backup.make import Made, default_path, make_backup, remove_old
from controlplane.backup.progress import Progress, shown_bytes
from kernel.config import current


class Command(BaseCommand):
    help = "Back up database, keys and stores into one file, while the platform runs. The file's path goes to stdout."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", nargs="?", help="where to; default: backups/berth-<time>.tar in the data directory")
        parser.add_argument(
            "--with", dest="extra", default="", metavar="STORES",
            help=f"also these, separated by commas: {', '.join(name for name in stores.STORES if name not in stores.DEFAULT)}; "
            "or `all`",
        )  # fmt: skip
        parser.add_argument("--without-code", action="store_true", help="leave out the code that users sent with their jobs")
        parser.add_argument("--without-keys", action="store_true", help="leave out the secret keys, which you keep elsewhere")
        parser.add_argument("--passphrase-file", type=Path, help="seal the secret keys under the first line of this file")
        parser.add_argument(
            "--keep", type=int, default=0, metavar="N",
            help="afterwards keep only the newest N of the data directory's backups; default: all",
        )  # fmt: skip
        parser.add_argument("--sizes", action="store_true", help="only say how large each part would be")

    def handle(self, *args: Any, file: str | None, **options: Any) -> None:
        os.umask(0o077)
        config, progress = current(), Progress()
        try:
            chosen = _chosen(options["extra"], without_code=options["without_code"])
            if options["sizes"]:
                self._say_sizes(progress)
                return
            passphrase = keys.read_passphrase(options["passphrase_file"]) if options["passphrase_file"] else ""
            path = Path(file).absolute() if file else default_path(config, datetime.now(UTC))
            made = make_backup(
                config, path, with_stores=chosen, with_keys=not options["without_keys"], passphrase=passphrase, progress=progress
            )
        except BackupError as reason:
            sys.exit(f"berth: {reason}")
        _say_what_it_holds(made, progress)
        for removed in remove_old(config, options["keep"]) if options["keep"] > 0 else ():
            progress.say(f"Removed {removed}, older than the newest {options['keep']}.")
        self.stdout.write(str(made.path))

    def _say_sizes(self, progress: Progress) -> None:
        from controlplane.backup.databases import size_bytes

        config = current()
        progress.say(f"  database   {shown_bytes(size_bytes(config)):>10}  always")
        for name in stores.STORES:
            size = stores.measure(config.data_dir, name)
            when = "unless --without-code" if name in stores.DEFAULT else f"--with {name}"
            unreadable = "; not all of it can be read by this user" if size.unreadable else ""
            progress.say(f"  {name:<10} {shown_bytes(size.bytes):>10}  {size.files} files; {when}{unreadable}")


def _chosen(extra: str, *, without_code: bool) -> list[str]:
    names = [name.strip() for name in extra.split(",") if name.strip()]
    if names == ["all"]:
        names = list(stores.STORES)
    unknown = [name for name in names if name not in stores.STORES]
    if unknown:
        raise BackupError(f"There is no store {unknown[0]!r}. There are: {', '.join(stores.STORES)}.")
    wanted = {*names, *stores.DEFAULT} - ({"code"} if without_code else set())
    return [name for name in stores.STORES if name in wanted]


def _say_what_it_holds(made: Made, progress: Progress) -> None:
    rows, held = made.manifest["database"]["rows"], made.manifest["keys"]
    progress.say(
        f"\nBacked up {rows['jobs_job']} jobs as of {made.manifest['taken_at'][:19]}Z: {shown_bytes(made.bytes)}, mode 0600."
    )
    left_out = [name for name in stores.STORES if name not in made.manifest["stores"]]
    if left_out:
        progress.say(f"Not in it: {', '.join(left_out)} (--with NAME,... adds them; `--sizes` says how large they are).")
    if held["sealed"]:
        progress.say("The secret keys in it are sealed: keep the passphrase, and not beside it.")
    elif held["included"]:
        progress.say(
            "It HOLDS THE SECRET KEYS: whoever reads it reads every stored secret. Keep it so (--passphrase-file seals them)."
        )
    else:
        progress.say("The secret keys are NOT in it: without the same BERTH_SECRET_KEY or secret.key it cannot be restored.")
