"""A wait reason is told once: by its record in the catalogue, which all code names by the enumeration."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.lifecycle.reasons import REASONS, explain
from jobs.lifecycle.wait_reasons import WAITS
from jobs.lifecycle.wait_record import WaitSource
from jobs.loading.reason_translation import _TRANSLATORS
from kernel.wait_codes import WaitCode

ROOT = Path(__file__).resolve().parents[2]
APPS = ("platform", "tenants", "storage", "images", "jobs")
MADE = ("WaitReason", "Unplaced", "Refusal")  # Classes whose first argument is a code.


class Reading(dict[str, object]):
    """Amounts that remember which of them were asked for."""

    def __init__(self, amounts: object = ()) -> None:
        super().__init__(amounts)  # type: ignore[call-overload]
        self.read: set[str] = set()

    def get(self, key: str, default: object = None) -> object:  # type: ignore[override]
        self.read.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> object:
        self.read.add(key)
        return super().__getitem__(key)


def codes_in_quotes(path: Path) -> Iterator[str]:
    """Reasons that are made from a text, answers that begin with the text of a wait code, comparisons of a `code` with it, and
    codes that are made from a text as the program runs."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        texts: list[object] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
            if node.func.id == WaitCode.__name__:
                yield f"{path.name}:{node.lineno} {ast.unparse(node)}"
            if node.func.id in MADE:
                yield from (f"{path.name}:{node.lineno} {text}" for text in texts_in(node.args[0]))
        elif isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple) and node.value.elts:
            texts = texts_in(node.value.elts[0])
        elif isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute) and node.left.attr in ("code", "reason_code"):
            texts = [text for other in node.comparators for text in texts_in(other)]
        yield from (f"{path.name}:{node.lineno} {text}" for text in texts if text in WAITS)


def texts_in(node: ast.expr) -> list[object]:
    return [inner.value for inner in ast.walk(node) if isinstance(inner, ast.Constant) and isinstance(inner.value, str)]


def test_the_source_names_codes_by_the_enumeration() -> None:
    files = [path for app in APPS for path in sorted((ROOT / app).rglob("*.py"))]
    assert len(files) > 500
    assert not [place for path in files for place in codes_in_quotes(path)]


@pytest.mark.parametrize(
    "line",
    ['Refusal("withheld" if kept else "capacity", 0)', 'WaitReason("held")', "WaitCode(text)", 'one.code == "ceiling"'],
)
def test_a_code_in_quotes_is_found(line: str, tmp_path: Path) -> None:
    path = tmp_path / "place.py"
    path.write_text(f"found = {line}\n")
    assert list(codes_in_quotes(path))
    path.write_text('def why():\n    return "quarantined", {}\n')
    assert list(codes_in_quotes(path)) == ["place.py:2 quarantined"]


def test_every_code_has_one_record_and_one_translator() -> None:
    assert set(WAITS) == set(WaitCode) == set(_TRANSLATORS)


@pytest.mark.parametrize("code", WaitCode)
def test_people_are_told_every_code_in_words(code: WaitCode) -> None:
    shown = WAITS[code].shown_as or code
    assert shown in REASONS
    assert WAITS[shown].words is not None


@pytest.mark.parametrize("code", [code for code in WaitCode if code != WaitCode.ARRAY and WAITS[code].words])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_words_of_a_code_need_no_other_amounts_than_its_record_names(code: WaitCode, language: str) -> None:
    record = WAITS[code]
    assert record.words is not None
    for given in (Reading(), Reading(record.amounts)):
        text = record.words.in_language(language)(given)
        assert given.read <= record.amounts.keys()
    assert "?" not in text
    assert text == explain(code, record.amounts, language).text


def test_stages_put_what_the_core_refuses_in_one_order() -> None:
    stages = [record.stage for record in WAITS.values() if record.stage]
    assert len(set(stages)) == len(stages)
    assert all(record.source is WaitSource.CORE for record in WAITS.values() if record.stage)
