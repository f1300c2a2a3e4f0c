"""Tests keep up with the source: `tools/test_lines.py` counts both, and says which apps are held to how much."""

from __future__ import annotations

import pytest

from tools import test_lines


def test_each_app_has_the_lines_of_tests_that_it_is_held_to(capsys: pytest.CaptureFixture[str]) -> None:
    is_less = test_lines.main()
    assert is_less == 0, capsys.readouterr().out


def test_what_is_generated_or_data_is_no_source_and_the_rest_of_the_client_is() -> None:
    source = test_lines.ROOT / test_lines.SOURCES["client"]
    whole = sum(bool(line.strip()) for path in source.rglob("*.py") for line in path.read_text(encoding="utf-8").splitlines())
    left_out = [*source.glob("cli/messages_zh*.py"), source / "_api/models.py"]
    data = sum(bool(line.strip()) for path in left_out for line in path.read_text(encoding="utf-8").splitlines())
    assert len(left_out) > 5
    assert test_lines.lines_of(source) == whole - data
