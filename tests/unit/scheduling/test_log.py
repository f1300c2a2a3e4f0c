"""States, events and decisions as lines: the same bytes from anyone, read back exactly, and refused when they are not whole."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path

import pytest

from jobs.scheduling.core.state.decisions import Decision, Reserve, Wait, WaitReason
from jobs.scheduling.core.state.policy import RENAMED, Policy
from jobs.scheduling.core.state.work import JobAsk
from jobs.scheduling.replay.encoding import Encoding, Unreadable
from jobs.scheduling.replay.files import BadFile, Written
from jobs.scheduling.replay.log import Decided, Log, PassDecided, in_order, log_lines, read_log, replay
from jobs.scheduling.replay.recorder import Recorder
from kernel import wait_codes
from tests.builders.schedules import a_state, what_happens
from tests.unit.scheduling.test_core import a_job

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
    for record in plain[1:-1]:
        record.pop("~")
        found.append(written.line(record))
    return [*found, written.end()]


def recorded(passes: Sequence[PassDecided]) -> list[str]:
    """A log of a scheduler that decided this, whatever its state was."""
    events = tuple(Decided(decided.now) for decided in passes)
    return list(log_lines(Log(a_state(random.Random(1)), events, tuple(passes))))


def with_earlier_codes(lines: list[str], *, version: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The same file with the codes of waits of the release before, in a version of the format."""
    with monkeypatch.context() as patched:
        patched.setattr("jobs.scheduling.replay.files.VERSION", version)
        for earlier, code in wait_codes.RENAMED.items():
            (at,) = (number for number, line in enumerate(lines) if f'"code":"{code}"' in line)
            lines = rewritten(lines, lambda line, name=earlier: line["value"]["reason"].update(code=name), at)  # type: ignore[misc, index]
    return lines


def refused(lines: list[str]) -> BadFile:
    with pytest.raises(BadFile) as caught:
        read_log(lines)
    return caught.value


def test_a_state_is_written_alike_in_whatever_order_it_lists_things() -> None:
    first, second = (list(log_lines(Log(a_state(random.Random(seed))))) for seed in (1, 2))
    assert first == second


def test_a_state_is_read_back_as_it_was() -> None:
    state = a_state(random.Random(1))
    read = read_log(log_lines(Log(state))).state
    assert list(log_lines(Log(read))) == list(log_lines(Log(state)))
    rules = read.pools[0].rules
    assert rules is not None
    assert rules.mix is not None
    assert rules.mix.shapes == state.pools[0].rules.mix.shapes  # type: ignore[union-attr]
    unruly = [
        type(restored)(restored.at, (), *[getattr(restored, name) for name in restored.__slots__[2:]])
        for restored in (read, in_order(state))
    ]
    assert unruly[0] == unruly[1]


def test_what_was_decided_live_is_decided_again_from_the_log() -> None:
    lines, decided = a_log(random.Random(1))
    assert [decision for found in replay(read_log(lines)) for decision in found.decisions] == decided
    assert {type(decision).__name__ for decision in decided} >= {"Admit", "Wait", "Evict", "Claim"}
    assert list(log_lines(read_log(lines))) == lines


@pytest.mark.capability("6.5", "An event log gives the same decision log in any process, to the byte")
def test_the_same_log_gives_the_same_bytes_in_any_process_and_in_any_order_of_listing() -> None:
    script = (
        "import random, sys; from jobs.scheduling.replay.log import replay_log; from tests.unit.scheduling.test_log import a_log;"
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
        (lambda document: document["value"].update(colour="red"), "unknown_field", "/colour: there is no such field; there are "),
        (lambda document: document["value"].pop("gpus"), "missing_field", "/gpus: this field is missing"),
        (lambda document: document["value"].update(gpus="many"), "invalid", "/gpus: a whole number was expected"),
        (lambda document: document["value"].update(gpus=True), "invalid", "/gpus: a whole number was expected"),
        (lambda document: document["value"].update(gpus=2**200), "invalid", "/gpus: a whole number was expected"),
        (lambda document: document["value"].update(labels=[1]), "invalid", "/labels: a list of a key and a value was expected"),
        (lambda document: document["value"].update(taints="all"), "invalid", "/taints: a list was expected"),
        (lambda document: document.update(more=1), "unknown_field", "there are kind and value"),
        (lambda document: document.update(kind="comet"), "unknown_kind", "nothing here is of kind 'comet'"),
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
        ('{"format":"berth-scheduling","holds":"log","kind":"header","version":5}', "version"),
        ('{"format":"berth-scheduling","holds":"log","kind":"header","version":2}', "version"),
        ('{"format":"berth-scheduling","holds":"state","kind":"header","version":4}', "other_kind"),
        ('{"format":"berth-scheduling","holds":"state","kind":"header","version":3}', "other_kind"),
    ],
)
def test_what_is_no_log_or_of_another_version_is_refused_by_its_first_line(line: str, code: str) -> None:
    assert (refused([line]).code, refused([line]).line) == (code, 1)


def test_a_file_of_the_release_before_is_read_with_the_present_codes_of_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = (*wait_codes.RENAMED.values(), wait_codes.WaitCode.NO_ROOM)
    passes = [PassDecided(5, tuple(Wait(f"job-{code}", WaitReason(code, 0, until=9), 1) for code in codes))]
    lines = recorded(passes)
    before = with_earlier_codes(lines, version=3, monkeypatch=monkeypatch)

    assert '"version":3' in before[0]
    assert all(any(f'"code":"{earlier}"' in line for line in before) for earlier in wait_codes.RENAMED)
    assert read_log(before).passes == tuple(passes)
    assert recorded(read_log(before).passes) == lines
    with pytest.raises(BadFile, match="/reason/code: one of "):
        read_log(with_earlier_codes(lines, version=4, monkeypatch=monkeypatch))


def test_a_wait_of_the_release_before_that_is_none_is_refused_where_it_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = recorded([PassDecided(5, (Wait("one", WaitReason(wait_codes.WaitCode.NO_ROOM), 1),))])
    at = next(number for number, line in enumerate(lines) if '"kind":"wait"' in line)
    for value, where in (([], "an object was expected"), ({"reason": 1}, "missing"), ({"reason": {"code": 7}}, "missing")):
        with monkeypatch.context() as patched:
            patched.setattr("jobs.scheduling.replay.files.VERSION", 3)
            bad = rewritten(lines, lambda line, value=value: line.update(value=value), at)  # type: ignore[misc]
        with pytest.raises(BadFile, match=where):
            read_log(bad)


def test_floats_are_neither_written_nor_read() -> None:
    with pytest.raises(TypeError):
        Written("log").line({"kind": "decide", "value": Encoding().plain(1.5)})
    lines, _ = a_log(random.Random(1), 5)
    error = refused([*lines[:3], '{"kind":"decide","value":{"now":1.5}}\n'])
    assert (error.code, error.line) == ("invalid", 4)


def test_a_renamed_field_is_written_by_its_first_name_and_read_by_it_alone() -> None:
    """Logs of the release before are read, and the digest of one is equal."""
    encoding, policy = Encoding(), Policy(replan_seconds=7)
    written = encoding.plain(policy)
    assert written["rebook_seconds"] == 7
    assert "replan_seconds" not in written
    assert encoding.value(Policy, written) == policy
    with pytest.raises(Unreadable, match="replan_seconds: there is no such field"):
        encoding.value(Policy, {**written, "replan_seconds": 7})


def test_a_field_that_was_added_is_left_out_where_it_has_its_default_and_missing_means_the_default() -> None:
    """Logs of the release before are read, and the digest of one is equal."""
    encoding, job = Encoding(), a_job("one")
    written = encoding.plain(job)
    assert "grace_seconds" not in written
    assert encoding.value(JobAsk, written) == job
    asked = encoding.plain(replace(job, grace_seconds=600))
    assert asked["grace_seconds"] == 600
    assert encoding.value(JobAsk, asked).grace_seconds == 600
    assert encoding.value(Reserve, encoding.plain(Reserve("one", 5, (1,)))) == Reserve("one", 5, (1,))
    assert encoding.plain(Reserve("one", 0, (), "yielded", by="other"))["by"] == "other"


def test_every_renamed_field_of_a_policy_leads_to_one_that_is_there() -> None:
    names = {field.name for field in fields(Policy)}
    assert set(RENAMED.values()) <= names
    assert not set(RENAMED) & names
