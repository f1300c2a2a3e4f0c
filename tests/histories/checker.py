"""One program that decides over a recorded history whether Berth kept its promises I1 to I9, I11 and I12.

    python -m tests.histories.checker FILE...

reads the records of all files as one history, prints how much was looked at and every violation with its records, and exits with
1 if there is one. Invariant I10, that tenants stay apart, is decided by the answers that a foreign tenant gets and is tested
where those are asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from tests.histories import billing, capacity, completeness, convergence, execution, lifecycles, progress, submissions
from tests.histories.history import History
from tests.histories.records import BadHistory, Record, read_history
from tests.histories.report import Report


def check(records: Iterable[Record]) -> Report:
    """Decide I1 to I9, I11 and I12. What needs the database's side is left out, and said so, when the history was not closed."""
    history = History(records)
    report = Report()
    execution.check_overlaps(history, report)
    execution.check_creations(history, report)
    progress.check_checkpoints(history, report)
    capacity.check_samples(history, report)
    if not history.is_closed:
        return report
    submissions.check_submissions(history, report)
    execution.check_stops(history, report)
    lifecycles.check_lifecycles(history, report)
    capacity.check_reservations(history, report)
    capacity.check_accounts(history, report)
    capacity.check_counts(history, report)
    billing.check_bills(history, report)
    convergence.check_rest(history, report)
    completeness.check_completeness(history, report)
    return report


def main(arguments: list[str]) -> int:
    if not arguments:
        print(__doc__)
        return 2
    try:
        records = [record for name in arguments for record in read_history(Path(name))]
        report = check(records)
    except (BadHistory, OSError) as error:
        print(f"This history cannot be read: {error}", file=sys.stderr)
        return 2
    print(f"{len(records)} records")
    print(report.text())
    return 0 if report.holds else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
