"""What the checker found: every violation with its records, and how much was looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.histories.records import Record

INVARIANTS = {
    "I1": "an acknowledged submission is never lost, and is there once",
    "I2": "at most one attempt of a job runs at any instant",
    "I3": "an attempt is made on its engine exactly once",
    "I4": "states follow the declared lifecycles; an end is final",
    "I5": "what is reserved stays within every ceiling",
    "I6": "use is what the reservations add up to, and the ledger has every attempt once",
    "I7": "at rest, rows and engine say the same and nothing is left behind",
    "I8": "an acknowledged stop ends the job within its grace, for good",
    "I9": "audit, events and logs are complete",
    "I11": "the ledger says what ran, within a second",
    "I12": "an attempt goes on from the last whole checkpoint of its job",
}
SHOWN_PER_INVARIANT = 20
RECORDS_SHOWN = 8
FINDINGS_SHOWN = 5


@dataclass(frozen=True)
class Violation:
    """One place where a promise was broken, with the records that show it."""

    invariant: str
    what: str
    records: tuple[Record, ...] = ()

    def lines(self) -> list[str]:
        shown = [f"      {record.line()}" for record in self.records[:RECORDS_SHOWN]]
        if len(self.records) > RECORDS_SHOWN:
            shown.append(f"      and {len(self.records) - RECORDS_SHOWN} more records")
        return [f"    {self.what}", *shown]


@dataclass
class Report:
    """`checked` counts what each invariant was decided over; an invariant that was checked over nothing says so."""

    violations: list[Violation] = field(default_factory=list)
    findings: list[Violation] = field(default_factory=list)  # Differences that break no promise yet.
    checked: dict[str, Counter[str]] = field(default_factory=lambda: {name: Counter() for name in INVARIANTS})

    @property
    def holds(self) -> bool:
        return not self.violations

    def of(self, invariant: str) -> list[Violation]:
        return [violation for violation in self.violations if violation.invariant == invariant]

    def broken(self) -> set[str]:
        """The invariants that do not hold."""
        return {violation.invariant for violation in self.violations}

    def count(self, invariant: str, what: str, number: int = 1) -> None:
        self.checked[invariant][what] += number

    def fail(self, invariant: str, what: str, records: Sequence[Record] = ()) -> None:
        self.violations.append(Violation(invariant, what, tuple(records)))

    def find(self, invariant: str, what: str, records: Sequence[Record] = ()) -> None:
        """A difference to look at, which is no broken promise."""
        self.findings.append(Violation(invariant, what, tuple(records)))

    def not_checked(self) -> list[str]:
        """Invariants that were decided over nothing: their holding means nothing."""
        return [name for name, counts in self.checked.items() if not sum(counts.values())]

    def text(self) -> str:
        lines = []
        for name, promise in INVARIANTS.items():
            found = self.of(name)
            counts = ", ".join(f"{number} {what}" for what, number in self.checked[name].items() if number)
            verdict = f"BROKEN {len(found)} times" if found else "holds" if counts else "NOT CHECKED: the history has nothing"
            lines.append(f"  {name} {verdict} ({promise}){f': {counts}' if counts else ''}")
            differences = [finding for finding in self.findings if finding.invariant == name]
            lines += [f"    differs: {finding.what}" for finding in differences[:FINDINGS_SHOWN]]
            if len(differences) > FINDINGS_SHOWN:
                lines.append(f"    and {len(differences) - FINDINGS_SHOWN} more differences")
            for violation in found[:SHOWN_PER_INVARIANT]:
                lines += violation.lines()
            if len(found) > SHOWN_PER_INVARIANT:
                lines.append(f"    and {len(found) - SHOWN_PER_INVARIANT} more")
        return "\n".join(lines)
