"""No class of the scheduler's core hands itself to what it makes: parts get the state that they work on, and know no whole."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.architecture.sources import ROOT, tree

CORE = ROOT / "jobs" / "scheduling" / "core"
# Who may, by (class, what it makes), with the reason.
ALLOWED = {
    ("_Placing", "_Apart"): "reads which tasks are placed so far when it is made, and keeps no reference",
}


def test_no_class_of_the_core_hands_itself_to_what_it_makes() -> None:
    found = {given for path in sorted(CORE.rglob("*.py")) for given in _given_away(tree(path))}
    assert found == set(ALLOWED)


def test_each_exception_keeps_no_reference_to_the_whole() -> None:
    for _, made in ALLOWED:
        (kept,) = [node for path in CORE.rglob("*.py") for node in ast.walk(tree(path)) if _is_class(node, made)]
        (init,) = [node for node in ast.walk(kept) if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
        whole = init.args.args[1].arg
        assert not [
            node
            for node in ast.walk(init)
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.Name) and node.value.id == whole
        ]


def test_a_class_that_hands_itself_away_is_found() -> None:
    source = """
class Whole:
    def __init__(self):
        self.part = Part(1, whole=self)
        self.other = rooms.Other(self)
        self.add(self)
        self.cache.get(self)
"""
    assert set(_given_away(ast.parse(source))) == {("Whole", "Part"), ("Whole", "Other")}


def _given_away(module: ast.Module) -> Iterator[tuple[str, str]]:
    """(class, class that it makes of itself), from calls of what begins as classes do."""
    for whole in ast.walk(module):
        if isinstance(whole, ast.ClassDef):
            for call in ast.walk(whole):
                if isinstance(call, ast.Call) and any(_is_self(value) for value in _arguments(call)):
                    made = ast.unparse(call.func).rpartition(".")[2]
                    if made.lstrip("_")[:1].isupper():
                        yield whole.name, made


def _arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _is_self(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and value.id == "self"


def _is_class(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.ClassDef) and node.name == name
