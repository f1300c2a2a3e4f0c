"""Reading job files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from berth.errors import SpecInvalid
from berth.specs import MISSING, apply_changes, difference, load_spec, parse_spec


def _read(text: str) -> Any:
    return parse_spec(text, name="job.yaml", folder=Path()).spec


def test_words_that_yaml_once_took_for_booleans_and_dates_stay_words() -> None:
    spec = _read(
        "retry: {limit: 3, on: [platform]}\nenv: {A: yes, B: 2027-01-31, C: 1:30, D: 010, E: true, F: ~, G: 1e3, H: 0x1F}\n"
    )

    assert spec["retry"] == {"limit": 3, "on": ["platform"]}
    assert spec["env"] == {
        "A": "yes",
        "B": "2027-01-31",
        "C": "1:30",
        "D": "010",
        "E": "true",
        "F": None,
        "G": "1e3",
        "H": "0x1F",
    }


def test_repeated_keys_are_all_reported_with_their_lines() -> None:
    with pytest.raises(SpecInvalid) as caught:
        _read("name: a\nimage: x\nname: b\nimage: y\n")
    assert [(field.place, field.path) for field in caught.value.fields] == [("job.yaml:3", "/name"), ("job.yaml:4", "/image")]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: &x [1]\nb: *x\n", 1),
        ("a: 1\nb: [1, 2\n", 3),
        ("a: 1\nb: !python/object x\n", 2),
        ("a: 1\n? [x]\n: 2\n", 2),
    ],
)
def test_what_job_files_do_not_use_is_refused_with_its_line(text: str, line: int) -> None:
    with pytest.raises(SpecInvalid) as caught:
        _read(text)
    assert [field.line for field in caught.value.fields] == [line]


def test_a_bomb_of_brackets_is_refused() -> None:
    with pytest.raises(SpecInvalid):
        _read("a: " + "[" * 5000 + "]" * 5000)


@pytest.mark.parametrize("text", ["", "# nothing\n", "- a\n", "just words\n"])
def test_what_is_no_mapping_says_so(text: str) -> None:
    with pytest.raises(SpecInvalid):
        _read(text)


def test_a_file_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(SpecInvalid, match="No such file"):
        load_spec(tmp_path / "job.yaml")


def test_changes_reach_into_mappings_and_lists_and_leave_the_original() -> None:
    spec = {"roles": {"worker": {"replicas": 1}}, "mounts": [{"volume": "a", "path": "/a"}]}
    changed = apply_changes(spec, ["roles.worker.replicas=4", "mounts.0.path=/b", "mounts.0.volume=7", "env.SEED=7", "name=a=b"])

    assert changed["roles"]["worker"]["replicas"] == 4
    assert changed["mounts"][0] == {"volume": "7", "path": "/b"}
    assert (changed["env"], changed["name"]) == ({"SEED": "7"}, "a=b")
    assert spec == {"roles": {"worker": {"replicas": 1}}, "mounts": [{"volume": "a", "path": "/a"}]}


@pytest.mark.parametrize("change", ["replicas", "=4", "a..b=1", "mounts.7.path=/x", "name.first=x"])
def test_a_change_that_leads_nowhere_is_refused(change: str) -> None:
    with pytest.raises(SpecInvalid):
        apply_changes({"name": "a", "mounts": []}, [change])


def test_a_difference_names_leaves_and_both_sides() -> None:
    older, newer = {"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 1, "c": 5}, "e": 4}

    assert difference(older, newer) == [("a.c", 2, 5), ("d", 3, MISSING), ("e", MISSING, 4)]
