"""The benchmarks of growth and of Kueue's input, made small: what they report and draw, never how fast."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.__main__ import main
from bench.growth import slope
from bench.kueue_input import INPUTS, Class, Input
from bench.traces import rows


def test_growth_is_told_as_slopes_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--growing-jobs", "20,40", "--growing-nodes", "5,10", "--growth-repeat", "1", "--growth-changes", "4"]
    assert main(["P4", *sizes, "--out", str(tmp_path)]) in (0, 1)
    lines = capsys.readouterr().out
    for name in ("slope-cold-in-jobs", "slope-cold-in-nodes", "slope-change-in-jobs"):
        assert f"P4 {name} " in lines
    (file,) = tmp_path.glob("P4-*.json")
    assert set(json.loads(file.read_text())["records"]["cold-in-nodes"]) == {"5", "10"}
    assert (tmp_path / "P4-growth.svg").read_text().count("<polyline") == 3


def test_the_slope_is_one_for_what_is_proportional_and_none_for_what_does_not_grow() -> None:
    assert slope({10: 0.1, 100: 1.0, 1000: 10.0}) == pytest.approx(1.0)
    assert slope({10: 2.0, 1000: 2.0}) == pytest.approx(0.0)


def test_one_size_makes_no_slope(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["P4", "--growing-jobs", "20", "--out", str(tmp_path)]) == 1
    assert "a slope needs two sizes" in capsys.readouterr().err


def test_the_inputs_are_those_of_kueue() -> None:
    counts = {
        name: given.cohorts * given.queues * sum(workload.count for workload in given.classes) for name, given in INPUTS.items()
    }
    assert counts == {"baseline": 15_000, "large": 50_000}


def test_the_core_lives_through_an_input_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    classes = (Class("small", 4, 1, 10, 50, 2), Class("large", 2, 20, 20, 200, 4))
    monkeypatch.setitem(INPUTS, "baseline", Input(2, 2, classes, 9.0, 9.0, 9.0, 9.0))
    assert main(["P6", "--inputs", "baseline", "--out", str(tmp_path)]) == 0
    assert "P6 baseline-core " in capsys.readouterr().out
    assert (tmp_path / "P6-kueue-input.svg").read_text().count("<polyline") == 1
    assert main(["P6", "--inputs", "none", "--out", str(tmp_path)]) == 1


def test_rows_of_a_folder_that_lacks_them_say_where_they_are_published(tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"neither jobs.csv nor jobs.csv.xz. They are at the baker's."):
        list(rows(tmp_path, "jobs", "They are at the baker's."))
