"""Puts the tables of the lifecycle into `docs/job-lifecycle.md`, between its marks: `python tools/lifecycle_page.py`.

The words around the tables are written by hand; the tables come from `jobs/lifecycle/states.py`. A test compares the two.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "job-lifecycle.md"
sys.path[:0] = [str(ROOT), str(ROOT / "platform")]

from jobs.lifecycle.states import ATTEMPT_LIFECYCLE, JOB_DRIVERS, TASK_LIFECYCLE  # noqa: E402 - the path comes first.


def job_table() -> str:
    """Every edge of a job's life and who drives it, in the order in which the code lists them."""
    lines = ["| from | to | driven by |", "|---|---|---|"]
    lines += [f"| {old.name} | {new.name} | {driver} |" for (old, new), driver in JOB_DRIVERS.items()]
    return "\n".join(lines)


def short_table() -> str:
    """The edges of attempts and tasks: one line a state."""
    lines = ["| of | from | to |", "|---|---|---|"]
    for name, table in (("attempt", ATTEMPT_LIFECYCLE), ("task", TASK_LIFECYCLE)):
        for state, targets in table.edges.items():
            following = [other.upper() for other in table.edges if other in targets]  # In the table's order.
            lines.append(f"| {name} | {state.upper()} | {', '.join(following) or 'final'} |")
    return "\n".join(lines)


TABLES = {"jobs": job_table, "attempts-and-tasks": short_table}


def with_tables(text: str) -> str:
    """The page with its tables as the code has them. Raises ValueError for a page without the marks."""
    for name, table in TABLES.items():
        begin, end = f"<!-- {name}: made by tools/lifecycle_page.py -->", f"<!-- end of {name} -->"
        head, found, rest = text.partition(begin)
        _, closed, tail = rest.partition(end)
        if not (found and closed):
            raise ValueError(f"{PAGE.name} lacks the marks of the table {name}")
        text = f"{head}{begin}\n\n{table()}\n\n{end}{tail}"
    return text


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
