"""Write the table of `docs/raw-sql.md`: all raw SQL of the server, file by file, each with its reason. Standard library only.

Migrations are apart: they are SQL's own place. `tests/architecture/test_raw_sql.py` compares list, source and page.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "raw-sql.md"
BEGIN = "<!-- made by tools/raw_sql_page.py -->"
# Statements about rows belong into `activity/bulk.py`; about a session of PostgreSQL into `upstream/postgresql`.
ALLOWED = {
    "jobs/selectors/lists.py": "the place in the queue, as text: the ORM's work on it was a fifth of what a submission costs",
    "jobs/selectors/places.py": "the order of a queue as one expression, the same in SQL and in the scheduler",
    "jobs/selectors/text.py": "full-text search: SQLite's FTS5 is a table that the ORM cannot know",
    "jobs/services/counts.py": "kept numbers of jobs: a full outer join, and sums that replace their rows in one statement",
    "platform/activity/bulk.py": "many rows in one statement, locks and counters that the ORM cannot ask for",
    "platform/controlplane/backup/databases.py": "a copy of the database: without Django, by the drivers, in one snapshot",
    "platform/controlplane/backup/swap.py": "databases made, renamed and dropped in a restore: without Django, by the drivers",
    "platform/controlplane/processes/embedded.py": "SQLite's log is written back when the platform ends",
    "platform/controlplane/servers.py": "settings of the PostgreSQL server, looked at before the first start",
    "platform/controlplane/settings.py": "how SQLite's connections begin",
    "platform/kernel/clock.py": "the database's time",
    "platform/upstream/postgresql/__init__.py": "bounds of a session, and a lock of the whole database",
    "platform/upstream/postgresql/base.py": "bounds of every connection",
    "platform/upstream/sqlite/base.py": "passes on the statements of others, and looks at their first word",
    "platform/webapi/facts.py": "marks by triggers: what requests remember is forgotten in the commit that changes it",
    "platform/webapi/health.py": "whether the database answers",
    "platform/webapi/online.py": "whether an index is valid, which the ORM does not know",
}


def table() -> str:
    rows = [f"| `{path}` | {reason} |" for path, reason in sorted(ALLOWED.items())]
    return "\n".join(["| file | reason |", "|---|---|", *rows, ""])


def with_table(text: str) -> str:
    """The page with its table made anew."""
    head, mark, _ = text.partition(BEGIN)
    assert mark, f"{PAGE} has no line {BEGIN}"
    return f"{head}{BEGIN}\n\n{table()}"


def main() -> None:
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
