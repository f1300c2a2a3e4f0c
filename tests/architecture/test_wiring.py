"""Each app brings its own knowledge, in one style; the layers below hold registries and know no name of those above."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.apps import apps

from kernel.errors import BerthError
from kernel.tenant_rows import COLUMNS, TABLES
from tests.architecture.sources import ROOT, place, product_modules, tree

# In this order, each with the app's constant of that name or, where it takes none, from the app's own module.
STEPS = {
    "register_errors": "ERRORS",
    "register_fact_tables": "FACT_TABLES",
    "register_features": "FEATURES",
    "register_crash_points": "CRASH_POINTS",
    "register_notice_kinds": "NOTICE_KINDS",
    "register_duties": "DUTIES",
    "register_pages": "PAGES",
    "register_tenant_rows": "TENANT_ROWS",
    "register_belongings": "BELONGINGS",
    "register_rules": "",
    "register_hooks": "",
}
WIRINGS = sorted(path for path in product_modules() if path.name == "wiring.py")
LOWEST = ("webapi", "kernel")


def app_of(path: Path) -> str:
    return path.parent.name


def calls(path: Path) -> list[tuple[str, str]]:
    """What `register` calls, with the name of the one argument; anything else in it is no call of this style."""
    [register] = [node for node in tree(path).body if isinstance(node, ast.FunctionDef)]
    assert register.name == "register", f"{place(path, register)}: the one function of a wiring.py is `register`"
    found = []
    for statement in register.body[1:]:
        assert isinstance(statement, ast.Expr), place(path, statement)
        assert isinstance(statement.value, ast.Call), place(path, statement)
        call = statement.value
        assert isinstance(call.func, ast.Name), place(path, statement)
        names = [argument.id if isinstance(argument, ast.Name) else "?" for argument in call.args]
        found.append((call.func.id, ", ".join(names)))
    return found


@pytest.mark.parametrize("path", WIRINGS, ids=app_of)
def test_every_app_registers_in_the_same_style(path: Path) -> None:
    found = calls(path)
    assert found == [step for step in STEPS.items() if step in found], "the calls, their arguments and order as in STEPS"
    given = {name for _, name in found if name}
    constants = {
        target.id
        for node in tree(path).body
        if isinstance(node, (ast.Assign, ast.AnnAssign))
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    assert constants & set(STEPS.values()) == given, "what is not handed on is known to nobody"


def test_every_app_that_is_ready_calls_its_wiring_and_none_registers_elsewhere() -> None:
    wired = {app_of(path) for path in WIRINGS}
    for path in product_modules():
        text = path.read_text(encoding="utf-8")
        if path.name == "apps.py" and path.parent.name != "console":
            assert ("wiring.register()" in text) == (path.parent.name in wired), path
            assert "register_" not in text, f"{path}: what an app registers stands in its wiring.py"


def test_what_an_app_registers_is_its_own() -> None:
    for path in WIRINGS:
        wiring = importlib.import_module(f"{app_of(path)}.wiring")
        foreign = [name for name in getattr(wiring, "CRASH_POINTS", {}) if not name.startswith(f"{app_of(path)}.")]
        foreign += [model.__name__ for model in getattr(wiring, "FACT_TABLES", {}) if model._meta.app_label != app_of(path)]
        foreign += [label for label in getattr(wiring, "TENANT_ROWS", {}) if label.split(".")[0] not in (app_of(path), "admin")]
        assert not foreign, path


# What happened stays told, and numbers kept by triggers come to 0 with the rows that they count.
ROWS_KEPT = {"activity.AuditEvent", "activity.Event", "jobs.JobCount"}


def test_every_table_with_rows_of_tenants_or_accounts_is_registered_or_kept() -> None:
    found = {}
    for model in apps.get_models():
        names = {field.attname for field in model._meta.concrete_fields}
        if columns := tuple(name for name in COLUMNS if name in names):
            found[model._meta.label] = columns
    assert set(found) >= ROWS_KEPT
    assert dict(TABLES) == {label: columns for label, columns in found.items() if label not in ROWS_KEPT}


def test_an_error_is_registered_by_the_app_that_raises_it() -> None:
    """Those of the kernel, which is no app, by webapi."""

    def below(error: type[BerthError]) -> Iterator[type[BerthError]]:
        for child in error.__subclasses__():
            yield child
            yield from below(child)

    wrong = []
    for error in below(BerthError):
        app = error.__module__.partition(".")[0]
        if "code" not in vars(error) or app == "tests":
            continue
        home = "webapi" if app == "kernel" else app
        if error.code not in importlib.import_module(f"{home}.wiring").ERRORS:
            wrong.append(f"{error.__module__}.{error.__name__}")
    assert not wrong


def test_the_lowest_layers_name_no_model_or_table_of_a_higher_app() -> None:
    """Import contracts see imports; this sees strings."""
    ours = {path.name for path in (ROOT, ROOT / "platform") for path in path.iterdir() if (path / "apps.py").exists()}
    higher = [model for model in apps.get_models() if model._meta.app_label in ours - set(LOWEST)]
    assert len(higher) > 50
    names = {model._meta.db_table for model in higher} | {model._meta.label_lower for model in higher}
    pattern = re.compile(r"(?<![\w.])(" + "|".join(sorted(map(re.escape, names), key=len, reverse=True)) + r")(?![\w])", re.I)
    found = []
    for path in product_modules():
        if path.relative_to(ROOT).parts[:2] not in {("platform", layer) for layer in LOWEST}:
            continue
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and pattern.search(node.value):
                found.append(f"{place(path, node)} {node.value[:60]}")
    assert not found
