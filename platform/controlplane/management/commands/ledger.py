"""`manage.py ledger`: whether the ledger agrees with what ran and was reserved, and statements are what they were."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError
from datetime import datetime, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from jobs.selectors.charges import ended_charges, known_until, live_holdings
from kernel.actor import system_actor
from kernel.clock import database_now
from kernel.errors import BerthError
from tenants.billing.ledger.entries import month_text
from tenants.billing.ledger.statements import hours_text
from tenants.billing.services.ledger import (
    check_charges,
    check_days,
    check_reservations,
    close_months,
    fold_days,
    rebuild_days,
    verify_statements,
    wrong_months,
)
from tenants.billing.services.shares import close_weeks, verify_weeks
from tenants.billing.shares import week_text
from tenants.selectors import find_tenant, tenant_facts

SHOWN = 100


class Command(BaseCommand):
    help = "Compare the ledger with attempts, reservations, days and statements; ends with 1 on any difference."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--days", type=int, metavar="N", help="only what ended within the last N days")
        parser.add_argument("--tenant", metavar="TENANT", help="only the days and statements of this tenant")
        parser.add_argument("--month", type=_month, metavar="2026-11", help="only the days and statements of this month")
        parser.add_argument("--fold", action="store_true", help="first count everything that no day has counted yet")
        parser.add_argument("--repair", action="store_true", help="first make days again that are not what their entries give")
        parser.add_argument("--close", action="store_true", help="first store the statements of months that are over")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            wrong = self._check(**{name: options[name] for name in ("days", "tenant", "month", "fold", "repair", "close")})
        except BerthError as error:
            sys.exit(f"berth: {error.detail} {error.hint}".rstrip())
        if wrong:
            self.stdout.write(f"{wrong} differences.")
            sys.exit(1)
        self.stdout.write("Everything agrees.")

    def _check(self, *, days: int | None, tenant: str | None, month: int | None, fold: bool, repair: bool, close: bool) -> int:
        now = database_now()
        if fold:
            self.stdout.write(f"{_all(fold_days, now)} entries were counted into days.")
        tenant_id = find_tenant(system_actor("ledger"), tenant).id if tenant else None
        if repair:
            found = wrong_months(tenant_id=tenant_id, month=month)
            for each, number in found:
                rows = rebuild_days(each, number, now=now)
                self.stdout.write(f"{month_text(number)} of tenant {each} was made again: {rows} rows.")
        if close:
            self.stdout.write(f"{_all(lambda at: close_months(at, known_until=known_until(at)), now)} statements were stored.")
            weeks = _all(lambda at: close_weeks(at, running=live_holdings, known_until=known_until(at)), now)
            self.stdout.write(f"{weeks} statements of shares were stored.")
        since = now - timedelta(days=days) if days is not None else None
        return sum(
            (
                self._attempts(since),
                self._say("entries and reservations", check_reservations(since=since)),
                self._say("days", check_days(tenant_id=tenant_id, month=month)),
                self._statements(tenant_id, month),
                self._weeks(tenant_id),
            )
        )

    def _attempts(self, since: datetime | None) -> int:
        found = check_charges(ended_charges(since=since))
        by_attempts, by_ledger = found.by_attempts or {}, found.by_ledger or {}
        names = tenant_facts(by_attempts)
        self.stdout.write(f"{found.attempts} ended attempts. GPU hours by tenant, of the attempts and in the ledger:")
        for tenant_id, amount in sorted(by_attempts.items(), key=lambda row: (-row[1], row[0])):
            name = names[tenant_id].name if tenant_id in names else str(tenant_id)
            booked = by_ledger.get(tenant_id, 0)
            sign = "=" if booked == amount else "≠"
            self.stdout.write(f"  {name[:40]:<42}{hours_text(amount, 1_000):>18} {sign} {hours_text(booked, 1_000):>18}")
        return self._say("attempts", found.findings)

    def _statements(self, tenant_id: Any, month: int | None) -> int:
        verified = verify_statements(tenant_id=tenant_id, month=month)
        wrong = [found for found in verified if not found.is_right]
        for found in wrong[:SHOWN]:
            what = f"the ledger gives {found.made_now}" if found.is_intact else "the stored document has another digest"
            self.stdout.write(f"  {month_text(found.month)} tenant {found.tenant_id}: stored {found.stored}, {what}")
        self.stdout.write(f"{len(verified)} statements made again: {len(verified) - len(wrong)} are the same to the byte.")
        return len(wrong)

    def _weeks(self, tenant_id: Any) -> int:
        verified = verify_weeks(running=live_holdings, tenant_id=tenant_id)
        wrong = [found for found in verified if not found.is_right]
        for found in wrong[:SHOWN]:
            what = (
                f"the ledger gives {found.made_now}" if found.is_intact else "the stored document is changed, or not signed here"
            )
            self.stdout.write(f"  {week_text(found.week)} tenant {found.tenant_id}: stored {found.stored}, {what}")
        same = len(verified) - len(wrong)
        self.stdout.write(f"{len(verified)} statements of shares made again: {same} are the same to the byte, and signed here.")
        return len(wrong)

    def _say(self, what: str, findings: Any) -> int:
        for finding in findings[:SHOWN]:
            self.stdout.write(f"  {finding.code}: {finding.subject}: {finding.detail}")
        self.stdout.write(f"{what}: {len(findings) or 'no'} differences.")
        return len(findings)


def _all(part: Any, now: datetime) -> int:
    """Run a part of the sweep until nothing is left to do."""
    total = 0
    while done := part(now):
        total += done
    return total


def _month(text: str) -> int:
    try:
        moment = datetime.strptime(text, "%Y-%m")
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no month, such as 2026-11") from None
    return moment.year * 100 + moment.month
