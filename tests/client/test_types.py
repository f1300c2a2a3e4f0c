"""The committed types are those that the committed description gives."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_generated_types_fit_the_description() -> None:
    spec = importlib.util.spec_from_file_location("generate_client_types", ROOT / "tools/generate_client_types.py")
    assert spec
    assert spec.loader
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)

    assert tool.TARGET.read_text(encoding="utf-8") == tool.generate(tool.DESCRIPTION), "run tools/generate_client_types.py"
