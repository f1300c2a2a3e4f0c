"""Every reason that the scheduler's core gives for a wait has words: without them people would be shown a code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.lifecycle.reasons import REASONS
from jobs.reconcile.reason_translation import ReasonTranslator

CORE = Path(__file__).resolve().parents[2] / "jobs" / "scheduling" / "core"
INTERNAL = {"nobody"}  # What a search answers within a pass; never told.


def codes() -> Iterator[str]:
    for path in sorted(CORE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Reason", "Unplaced"):
                first = node.args[0] if node.args else None
                if isinstance(first, ast.Constant) and isinstance(first.value, str):
                    yield first.value


@pytest.mark.parametrize("code", sorted(set(codes()) - INTERNAL))
def test_a_reason_of_the_core_has_words(code: str) -> None:
    assert code in REASONS or hasattr(ReasonTranslator, f"_{code}")


def test_there_are_reasons() -> None:
    assert len(set(codes())) > 8
