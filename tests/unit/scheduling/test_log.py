"""States, events and decisions as lines: the same bytes from anyone, read back exactly, and refused when they are not whole."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.scheduling.core.state.decisions import Decision
from jobs.scheduling.replay.encoding import Encoding
from jobs.scheduling.replay.files import BadFile, Written
from jobs.scheduling.replay.log import (
    Decided,
    in_order,
    log_lines,
    read_decisions,
    read_log,
    read_state,
    replay_log,
    state_lines,
)
from jobs.scheduling.replay.recorder import Recorder
from tests.builders.schedules import a_state, what_happens

ROOT = Path(__file__).resolve().parents[3]


def a_log(chance: random.Random, passes: int = 30) -> tuple[list[str], list[Decision]]:
    """The log of a core at work, and what it decided."""
    lines: list[str] = []
    state = a_state(chance)
    recorder = Recorder(state, lines.append)
    decided = recorder.tell(Decided(state.at))
    found = list(decided)
    for now in range(state.at + 1, state.at + passes):
        for event in what_happens(state, now, decided):
            decided = recorder.tell(event)
        found += decided
    recorder.close()
    return lines, found


def rewritten(lines: list[str], change: Callable[[dict[str, object]], None], at: int) -> list[str]:
    """The same file with one line changed and all checksums right."""
    plain = [json.loads(line) for line in lines]
    change(plain[at])
    written = Written(plain[0]["holds"])
    found = [written.begin()]
    for one in plain[1:-1]:
        one.pop("~")
        found.append(written.line(one))
    return [*found, written.end()]


def refused(lines: list[str]) -> BadFile:
    with pytest.raises(BadFile) as caught:
        read_log(lines)
    return caught.value


def test_a_state_is_written_alike_in_whatever_order_it_lists_things() -> None:
    first, second = (list(state_lines(a_state(random.Random(seed)))) for seed in (1, 2))
    assert first == second


def test_a_state_is_read_back_as_it_was() -> None:
    state = a_state(random.Random(1))
    read = read_state(state_lines(state))
    assert list(state_lines(read)) == list(state_lines(state))
    rules = read.pools[0].rules
    assert rules is not None
    assert rules.mix is not None
    assert rules.mix.shapes == state.pools[0].rules.mix.shapes  # type: ignore[union-attr]
    unruly = [type(one)(one.at, (), *[getattr(one, name) for name in one.__slots__[2:]]) for one in (read, in_order(state))]
    assert unruly[0] == unruly[1]


def test_what_was_decided_live_is_decided_again_from_the_log() -> None:
    lines, decided = a_log(random.Random(1))
    again = replay_log(lines)
    assert [one for found in read_decisions(again) for one in found.decisions] == decided
    assert {type(one).__name__ for one in decided} >= {"Admit", "Wait", "Evict", "Claim"}
    assert list(log_lines(read_log(lines))) == lines


def test_the_same_log_gives_the_same_bytes_in_any_process_and_in_any_order_of_listing() -> None:
    script = (
        "import random, sys; from tests.unit.scheduling.test_log import a_log, replay_log;"
        "lines, _ = a_log(random.Random(int(sys.argv[1])), 40); print(*lines, *replay_log(lines), sep=chr(10))"
    )
    path = os.pathsep.join(str(ROOT / part) for part in (".", "platform", "client/src"))
    found = {
        subprocess.run(
            [sys.executable, "-c", script, seed],
            env={"PYTHONPATH": path, "PYTHONHASHSEED": seed, "LC_ALL": "C"},
            cwd=ROOT,
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "77")
    }
    assert len(found) == 1
    assert found.pop().count(b"\n") > 200


def test_a_file_that_was_cut_off_is_refused_with_the_line() -> None:
    lines, _ = a_log(random.Random(1), 5)
    for length in range(1, len(lines)):
        error = refused(lines[:length])
        assert (error.code, error.line) == ("truncated", length + 1)
    error = refused([*lines[:20], lines[20][:30]])
    assert (error.code, error.line) == ("truncated", 21)
    assert refused([]).code == "truncated"


def test_a_line_that_was_changed_moved_lost_or_doubled_is_refused_with_its_number() -> None:
    lines, _ = a_log(random.Random(1), 5)
    assert '"queue":' in lines[30]
    changed = lines[30].replace('"queue":1', '"queue":2').replace('"queue":3', '"queue":2')
    for bad in (
        [*lines[:30], changed, *lines[31:]],
        [*lines[:30], lines[30].replace(",", ", "), *lines[31:]],
        [*lines[:30], *lines[31:]],
        [*lines[:30], lines[29], *lines[30:]],
        [*lines[:30], lines[31], lines[30], *lines[32:]],
    ):
        error = refused(bad)
        assert (error.code, error.line) == ("edited", 31)
    assert refused([*lines, lines[-1]]).code == "edited"


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (lambda one: one["value"].update(colour="red"), "unknown_field", "/colour: there is no such field; there are "),
        (lambda one: one["value"].pop("gpus"), "missing_field", "/gpus: this field is missing"),
        (lambda one: one["value"].update(gpus="many"), "invalid", "/gpus: a whole number was expected"),
        (lambda one: one["value"].update(gpus=True), "invalid", "/gpus: a whole number was expected"),
        (lambda one: one["value"].update(gpus=2**200), "invalid", "/gpus: a whole number was expected"),
        (lambda one: one["value"].update(labels=[1]), "invalid", "/labels: a list of a key and a value was expected"),
        (lambda one: one["value"].update(taints="all"), "invalid", "/taints: a list was expected"),
        (lambda one: one.update(more=1), "unknown_field", "there are kind and value"),
        (lambda one: one.update(kind="comet"), "unknown_kind", "nothing here is of kind 'comet'"),
    ],
)
def test_what_a_line_may_not_say_is_refused_with_where_and_what(
    change: Callable[[dict[str, object]], None], code: str, words: str
) -> None:
    lines, _ = a_log(random.Random(1), 5)
    at = next(number for number, line in enumerate(lines) if '"kind":"machines"' in line)
    error = refused(rewritten(lines, change, at))
    assert (error.code, error.line) == (code, at + 1)
    assert words in str(error)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("no json", "not_a_log"),
        ("[1]", "not_a_log"),
        ('{"kind":"header"}', "not_a_log"),
        ('{"format":"berth-scheduling","holds":"log","kind":"header","version":4}', "version"),
        ('{"format":"berth-scheduling","holds":"state","kind":"header","version":3}', "other_kind"),
    ],
)
def test_what_is_no_log_or_of_another_version_is_refused_by_its_first_line(line: str, code: str) -> None:
    assert (refused([line]).code, refused([line]).line) == (code, 1)


def test_floats_are_neither_written_nor_read() -> None:
    with pytest.raises(TypeError):
        Written("log").line({"kind": "decide", "value": Encoding().plain(1.5)})
    lines, _ = a_log(random.Random(1), 5)
    error = refused([*lines[:3], '{"kind":"decide","value":{"now":1.5}}\n'])
    assert (error.code, error.line) == ("invalid", 4)
