"""`manage.py verify_audit`: check the audit chain and print its head."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from activity.audit import verify_audit_chain


class Command(BaseCommand):
    help = "Check that no audit row was changed, removed or slipped in. Exits with 1 when the chain does not hold."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--head", metavar="SEQ:HASH", help="a head noted earlier that must still be part of the chain")

    def handle(self, *args: Any, **options: Any) -> None:
        report = verify_audit_chain(expected_head=_parse_head(options["head"]))
        for problem in report.problems:
            self.stderr.write(f"row {problem.seq}: {problem.what}")
        self.stdout.write(f"{report.sealed} rows sealed, {report.unsealed} not sealed yet.")
        if report.oldest_unsealed_at is not None:
            self.stdout.write(f"The oldest row that is not sealed is of {report.oldest_unsealed_at:%Y-%m-%d %H:%M:%S} UTC.")
        if not report.holds:
            raise CommandError(f"The audit chain does not hold: {len(report.problems)} problems, listed above.")
        self.stdout.write(f"The chain holds. Head: {report.head_seq}:{report.head_hash}")


def _parse_head(text: str | None) -> tuple[int, str] | None:
    if not text:
        return None
    seq, _, digest = text.partition(":")
    if not seq.isdigit() or len(digest) != 64:
        raise CommandError(f"--head {text!r} is not SEQ:HASH as printed by an earlier run.")
    return int(seq), digest
