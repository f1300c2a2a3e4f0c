"""`manage.py openapi`: print the description of the API, or write it to a file; the clients' types are made from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from drf_spectacular.validation import validate_schema

from webapi.description import as_json, describe


class Command(BaseCommand):
    """Print the OpenAPI document. The same source always gives the same bytes."""

    help = "Print the OpenAPI 3.1 document of the API."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--file", type=Path, help="write there instead of printing")
        parser.add_argument("--check", action="store_true", help="with --file: change nothing, fail if the file is out of date")

    def handle(self, *args: Any, **options: Any) -> None:
        document = describe()
        validate_schema(document)  # type: ignore[no-untyped-call]  # drf-spectacular is only partly typed.
        text, path = as_json(document), options["file"]
        if path is None:
            self.stdout.write(text, ending="")
        elif options["check"]:
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                raise CommandError(f"{path} is out of date. Run `manage.py openapi --file {path}`.")
        else:
            path.write_text(text, encoding="utf-8")
            self.stdout.write(f"Wrote {path}.")
