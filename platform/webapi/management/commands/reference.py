"""`manage.py reference`: write the pages of the documentation that are made from the code."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from webapi.documents import pages


class Command(BaseCommand):
    """Write the pages below docs/ that are registered; with --check, only say whether they are up to date."""

    help = "Write the pages of the documentation that are made from the code."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true", help="change nothing; fail if a page is out of date")

    def handle(self, *args: Any, **options: Any) -> None:
        stale = [path for path, text in pages().items() if not path.exists() or path.read_text(encoding="utf-8") != text]
        if options["check"]:
            if stale:
                raise CommandError(f"Out of date: {', '.join(path.name for path in stale)}. Run `manage.py reference`.")
            return
        for path in stale:
            path.parent.mkdir(exist_ok=True)
            path.write_text(pages()[path], encoding="utf-8")
            self.stdout.write(f"Wrote {path.name}.")
