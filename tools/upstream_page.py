"""Write the tables of `docs/upstream-hooks.md` from the lists in `platform/upstream/`."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "upstream-hooks.md"
BEGIN = "<!-- made by tools/upstream_page.py -->"
LIBRARIES = {
    "django": "Django",
    "postgresql.base": "Django's backend of PostgreSQL, psycopg",
    "sqlite.base": "Django's backend of SQLite",
    "rest_framework": "Django REST framework",
    "spectacular": "drf-spectacular",
    "celery": "Celery",
    "kombu": "kombu",
    "uvicorn": "uvicorn",
}


def tables() -> str:
    """A table for each module of the room."""
    parts = []
    for name, library in LIBRARIES.items():
        hooks = importlib.import_module(f"upstream.{name}").HOOKS
        parts.append(f"## {library}\n\n`platform/upstream/{name.replace('.', '/')}.py`\n")
        parts.append("| upstream | ours | why | gain | test |\n|---|---|---|---|---|")
        parts += [f"| `{hook.upstream}` | `{hook.ours}` | {hook.why} | {hook.gain} | `{hook.test}` |" for hook in hooks]
        parts.append("")
    return "\n".join(parts)


def with_tables(text: str) -> str:
    """The page with its tables made anew."""
    head, mark, _ = text.partition(BEGIN)
    assert mark, f"{PAGE} has no line {BEGIN}"
    return f"{head}{BEGIN}\n\n{tables()}"


def main() -> None:
    sys.path[:0] = [str(ROOT), str(ROOT / "platform")]
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    import django

    django.setup()
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
