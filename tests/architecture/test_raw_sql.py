"""All raw SQL of the server, file by file, each with its reason. Migrations are apart: they are SQL's own place."""

from __future__ import annotations

import ast
import re

from tests.architecture.sources import ROOT, product_modules, tree
from tools import raw_sql_page
from tools.raw_sql_page import ALLOWED

CALLS = {
    "execute",
    "executemany",
    "executescript",
    "RawSQL",
    "raw",
    "extra",
    "RunSQL",
    "cursor",
    "statement_cursor",
    "prepared_cursor",
    "sql_with_params",
}
SQL = re.compile(
    r"^\s*(SELECT\s.+\sFROM|INSERT\s+(OR REPLACE\s+)?INTO\s|UPDATE\s+\S+\s+SET\s|DELETE\s+FROM\s|WITH\s.+\sSELECT|"
    r"PRAGMA\s|LOCK TABLE\s|(CREATE|DROP|ALTER)\s+(TABLE|DATABASE|TRIGGER|INDEX|VIRTUAL)|SELECT\s+\w+\(|SET\s+\w+\s*=)",
    re.DOTALL,
)
OF_NO_DATABASE = {  # The same names for other things.
    "jobs/services/executing.py": "a command in a running task",
    "platform/clusters/engines/local/engine.py": "a command in a running task",
    "platform/webapi/throttles.py": "a pipeline of Redis",
    "tenants/identity/ldap_backend.py": "a search of a directory",
}


def test_every_file_with_raw_sql_is_listed_with_its_reason() -> None:
    found = {str(path.relative_to(ROOT)) for path in product_modules() if _has_sql(path)} - set(OF_NO_DATABASE)
    assert found == set(ALLOWED), f"not listed: {sorted(found - set(ALLOWED))}; without any now: {sorted(set(ALLOWED) - found)}"
    assert all(ALLOWED.values())


def test_the_page_is_made_of_the_list() -> None:
    text = raw_sql_page.PAGE.read_text(encoding="utf-8")
    assert raw_sql_page.with_table(text) == text, "run `python tools/raw_sql_page.py`"


def test_no_document_claims_to_know_the_only_place() -> None:
    texts = [*product_modules(), *(ROOT / "docs").rglob("*.md"), ROOT / "ARCHITECTURE.md"]
    assert not [
        str(path) for path in texts if re.search(r"only raw SQL|one module of raw SQL", path.read_text(encoding="utf-8"), re.I)
    ]


def _has_sql(path) -> bool:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in CALLS:
                return True
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and SQL.match(node.value):
            return True
    return False
