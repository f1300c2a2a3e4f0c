"""`manage.py replay_window`: live through an exported window again, under its own policy and under another one."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from django.core.management.base import BaseCommand, CommandParser

from jobs.scheduling.replay.files import BadFile
from jobs.scheduling.replay.policy_file import under
from jobs.scheduling.replay.report import Lived, as_it_was, as_replayed, picture, tables
from jobs.scheduling.replay.trace import Past, lived, read_past
from kernel.errors import InvalidInput

POLICY_BYTES_MAX = 64 * 1024


class Command(BaseCommand):
    help = "Replay a window from `export_window` through the scheduler on a simulated clock and compare waits, use and evictions."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="a file that `export_window` wrote")
        parser.add_argument("--policy", type=Path, metavar="POLICY.yaml", help="another policy to compare with")
        parser.add_argument(
            "--grace", type=_seconds, default=30, metavar="SECONDS", help="from the signal to the end; default 30"
        )
        parser.add_argument("--plot", type=Path, metavar="OUT.svg", help="draw who waited and what was in use over time")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            past = read_past(_lines(options["file"]))
            other = under(past, _document(options["policy"])) if options["policy"] is not None else None
        except BadFile as error:
            sys.exit(f"berth: {options['file']}, {error}. Export the window again.")
        except OSError as error:
            sys.exit(f"berth: cannot read {error.filename}: {error.strerror}.")
        except InvalidInput as error:
            for field in error.fields:
                self.stderr.write(f"{options['policy']}{field.path}: {field.message} {field.hint}")
            sys.exit(f"berth: {error.detail} {error.hint}")
        ways = [as_it_was(past), self._live("same policy", past, options["grace"])]
        if other is not None:
            ways.append(self._live("other policy", other, options["grace"]))
        for line in tables(past, ways):
            self.stdout.write(line)
        if options["plot"] is not None:
            try:
                options["plot"].write_text(picture(past, ways), encoding="utf-8")
            except OSError as error:
                sys.exit(f"berth: cannot write {options['plot']}: {error.strerror}.")

    @staticmethod
    def _live(name: str, past: Past, grace_seconds: int) -> Lived:
        outcome, samples = lived(past, grace_seconds=grace_seconds)
        return as_replayed(name, past, outcome, samples)


def _lines(file: Path) -> Iterator[str]:
    with file.open(encoding="ascii", errors="replace", newline="\n") as lines:
        yield from lines


def _document(file: Path) -> Any:
    with file.open("rb") as source:
        content = source.read(POLICY_BYTES_MAX + 1)
    if len(content) > POLICY_BYTES_MAX:
        raise InvalidInput(f"{file} is larger than {POLICY_BYTES_MAX} bytes.", hint="A policy has a dozen fields.")
    try:
        return yaml.safe_load(content) or {}
    except (yaml.YAMLError, RecursionError) as error:
        raise InvalidInput(f"{file} is no YAML: {error}", hint="Write one field a line, like aging_seconds: 216.") from None


def _seconds(text: str) -> int:
    if not text.isdecimal() or int(text) > 86_400:
        raise ArgumentTypeError(f"{text} is no number of seconds from 0 to 86400")
    return int(text)
