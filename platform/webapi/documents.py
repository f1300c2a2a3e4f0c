"""Pages of the documentation that are made from the code: every error code, every setting, and what apps above register.

`manage.py reference` writes them, and a test compares them with what the code says now. The source of errors and settings is
read, not imported: these pages need no database, no client library and no setting.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

import kernel
from kernel.config import Config
from kernel.registry import Registry
from kernel.words import Text
from webapi.reference import REFERENCE

ROOT = Path(next(iter(kernel.__path__))).resolve().parents[1]
SOURCE_FOLDERS = ("platform", "tenants", "images", "storage", "jobs")
BASE = "BerthError"

ERRORS_HEAD = """# Errors

Every failure of the API is one `application/problem+json` document (RFC 9457). Programs look at `code`, which never changes its
meaning; people read `detail`, which names the object and the numbers, and `hint`, which says what to do next. `fields` lists
every field that is not valid, each with a JSON pointer. `request_id` is what an operator finds in the log.

A failure that is retryable may pass when the same request is sent again, after `Retry-After` seconds where that header is given.
With an `Idempotency-Key` a repeated POST has its effect once.

This page is made from the code by `manage.py reference`.

| code | status | retryable |
|---|---|---|
"""
SETTINGS_HEAD = """# Settings

A server reads its settings once, at the start, from its environment. A value that cannot be used stops the start and is named.
The installation's secret key is no setting: it is generated into `secret.key` of the data directory, or given as
`BERTH_SECRET_KEY` by an operator who keeps secrets elsewhere (at least 256 bits).

This page is made from the code by `manage.py reference`.

| variable | default | unit | what it sets |
|---|---|---|---|
"""


@dataclass(frozen=True, slots=True)
class ErrorClass:
    """One expected failure, as its class declares it."""

    name: str
    bases: tuple[str, ...]
    code: str | None
    status: int | None
    title: Text[str] | None
    retryable: bool | None
    meaning: str


def errors_page() -> str:
    """The reference of all error codes."""
    found = error_classes()
    codes = "".join(
        f"| [`{error.code}`](#{error.code}) | {error.status} | {'yes' if error.retryable else 'no'} |\n" for error in found
    )
    return ERRORS_HEAD + codes + "".join(_section(error) for error in found)


def settings_page() -> str:
    """The reference of all settings."""
    rows = []
    for item in fields(Config):
        default = str(item.default).lower() if isinstance(item.default, bool) else str(item.default)
        shown = f"`{default}`" if default else "empty"
        unit = str(item.metadata["unit"]).replace("|", " or ")
        rows.append(f"| `BERTH_{item.name.upper()}` | {shown} | {unit} | {item.metadata['what']} |\n")
    return SETTINGS_HEAD + "".join(rows)


def register_pages(made: Mapping[str, Callable[[], str]]) -> None:
    """Pages below `docs/` that an app above makes from its own code, by their names."""
    _PAGES.add(made.items())


def pages() -> dict[Path, str]:
    """All pages that are made from the code, by their path."""
    made = {"errors.md": errors_page, "settings.md": settings_page, **_PAGES}
    return {ROOT / "docs" / name: make() for name, make in made.items()}


_PAGES: Registry[Callable[[], str]] = Registry(
    "page", missing=lambda name, _: "" if name.endswith(".md") else "its name is no `*.md`"
)


def error_classes() -> list[ErrorClass]:
    """One class per code, ordered by code: the one that introduces it."""
    declared = {error.name: error for path in _sources() for error in _classes_of(path)}
    resolved = [_resolve(error, declared) for error in declared.values() if error.code and _is_berth_error(error, declared)]
    by_code: dict[str, ErrorClass] = {}
    for error in sorted(resolved, key=lambda error: (str(error.code), error.name)):
        by_code.setdefault(str(error.code), error)
    by_code.pop("error", None)  # The base is never raised as such.
    return list(by_code.values())


def _section(error: ErrorClass) -> str:
    title = f"**{error.title.en}** / {error.title.zh}" if error.title else ""
    meaning = f"{error.meaning}\n\n" if error.meaning else ""
    next_step = REFERENCE.get(str(error.code), "Read `detail` and `hint`.")
    return f"\n## {error.code}\n\n{title}\n\n{meaning}Next: {next_step}\n"


def _sources() -> Iterator[Path]:
    for folder in SOURCE_FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "migrations" not in path.parts:
                yield path


def _classes_of(path: Path) -> Iterator[ErrorClass]:
    text = path.read_text(encoding="utf-8")
    if "class " not in text:
        return
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef):
            bases = tuple(base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in node.bases)
            values = dict(_constants(node))
            yield ErrorClass(
                name=node.name,
                bases=bases,
                code=_text(values.get("code")),
                status=_number(values.get("status")),
                title=_words(values.get("title")),
                retryable=_truth(values.get("retryable")),
                meaning=" ".join((ast.get_docstring(node) or "").split()),
            )


def _constants(node: ast.ClassDef) -> Iterator[tuple[str, object]]:
    for statement in node.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        value = getattr(statement, "value", None)
        for target in targets:
            if isinstance(target, ast.Name) and isinstance(value, ast.Constant):
                yield target.id, value.value
            elif isinstance(target, ast.Name) and isinstance(value, ast.Call) and getattr(value.func, "id", "") == "Text":
                yield target.id, Text(*(ast.literal_eval(words) for words in value.args))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _words(value: object) -> Text[str] | None:
    return value if isinstance(value, Text) else None


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _truth(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _is_berth_error(error: ErrorClass, declared: dict[str, ErrorClass]) -> bool:
    return error.name == BASE or any(
        base == BASE or (base in declared and _is_berth_error(declared[base], declared)) for base in error.bases
    )


def _resolve(error: ErrorClass, declared: dict[str, ErrorClass]) -> ErrorClass:
    """Fill what a class inherits. Its meaning is its own: a subclass that says nothing is explained by its title."""
    for base in (name for name in error.bases if name in declared):
        above = _resolve(declared[base], declared)
        error = replace(
            error,
            status=error.status if error.status is not None else above.status,
            title=error.title if error.title is not None else above.title,
            retryable=error.retryable if error.retryable is not None else above.retryable,
        )
    return error
