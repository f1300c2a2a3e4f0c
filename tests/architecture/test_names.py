"""Names of variables are nouns: a reader learns from a name what it holds."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.sources import ROOT, place, tracked_files, tree

# Words that point at something without a name for it.
PRONOUNS = {"it", "one", "ones", "that", "them", "these", "they", "thing", "things", "this", "those"}
FOLDERS = ("platform", "tenants", "storage", "images", "jobs", "client/src", "tools", "bench", "tests")


def bound_names(module: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Every name that a module binds: variables, loop targets, arguments, caught errors, fields and functions."""
    for node in ast.walk(module):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name, node
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name, node
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name, node


def pronouns_in(text: str) -> list[str]:
    return [name for name, _ in bound_names(ast.parse(text)) if name.strip("_") in PRONOUNS]


@pytest.mark.parametrize("folder", FOLDERS)
def test_names_are_nouns(folder: str) -> None:
    """Migrations are left as they were merged."""
    paths = [path for path in tracked_files() if path.suffix == ".py" and path.is_relative_to(ROOT / folder)]
    found = [
        f"{place(path, node)} {name}"
        for path in paths
        if "migrations" not in path.parts
        for name, node in bound_names(tree(path))
        if name.strip("_") in PRONOUNS
    ]
    assert paths
    assert found == [], "name the thing: job, queue, machine, row"


@pytest.mark.parametrize(
    "text",
    [
        "one = 1",
        "_one: int = 1",
        "for number, one in pairs: pass",
        "[one for one in rows]",
        "lambda one: one.name",
        "def of(one): pass",
        "def of(*, it=None): pass",
        "with rows as ones: pass",
        "try: pass\nexcept OSError as it: pass",
        "match rows:\n    case [*ones]: pass",
        "if (one := first): pass",
        "class Pair:\n    one: int",
        "def one(): pass",
    ],
)
def test_every_way_to_bind_a_name_is_seen(text: str) -> None:
    assert len(pronouns_in(text)) == 1
