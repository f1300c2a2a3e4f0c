"""The benchmark of explanations on a few made-up jobs: what it reports, never how fast."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.__main__ import main


def test_everybody_has_a_reason_and_every_change_comes_true(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(
        ["WHY", "--arrivals", "120", "--moments", "6", "--asked", "2", "--answers", "0", "--scenes", "2", "--out", str(tmp_path)]
    )
    lines = capsys.readouterr().out
    assert "WHY covered-made-up 100 %" in lines
    assert "WHY true-made-up 100 %" in lines
    assert "WHY true-scenes 100 %" in lines
    (file,) = tmp_path.glob("WHY-*.json")
    records = json.loads(file.read_text())["records"]
    assert records["made-up"]["codes"]
    assert records["scenes"]["causes"]
