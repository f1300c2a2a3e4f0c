"""A failed test is run again before it fails the run: by real runs of a made-up stage, and what is decided without one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tools import remains, rerun
from tools.rerun import Failure

ROOT = Path(__file__).resolve().parents[3]
RUN = """
import sys
import time
from pathlib import Path
from tools import testrun

testrun.ROOT = Path.cwd()
testrun.UNSTABLE = testrun.ROOT / "build" / "unstable.jsonl"
testrun.STAGES = (
    testrun.Stage("shaky", "not kubernetes", with_servers=False, seconds_max=900, folder="made_up"),
    testrun.Stage("pure", "not kubernetes", with_servers=False, seconds_max=900, folder="made_up", is_pure=True),
    testrun.Stage("stuck", "not kubernetes", with_servers=False, seconds_max=900, folder="made_up"),
)
if "stuck" in sys.argv:
    begun, whole = testrun.ROOT / "begun", testrun.has_ended

    def has_ended(pid, seconds):
        while seconds > 100 and not begun.exists():  # The limit of the stage, and not the time that ending takes.
            time.sleep(0.02)
        return whole(pid, 0 if seconds > 100 else seconds)

    testrun.has_ended = has_ended
sys.exit(testrun.main())
"""
CONFTEST = """
import hypothesis

pytest_plugins = ["tests.builders.failures"]
hypothesis.settings.register_profile("berth", deadline=None)
"""
GOOD = "def test_good():\n    pass\n"
BAD = "def test_bad():\n    assert 'apple' == 'pear'\n"
TRIES = """
from pathlib import Path

import pytest

TRIES = Path(__file__).parent


@pytest.mark.parametrize("passes_at", [{tries}])
def test_unlucky(passes_at):
    file = TRIES / f"tries-{{passes_at}}"
    file.write_text((file.read_text() if file.exists() else "") + "x")
    assert len(file.read_text()) == passes_at
"""


STUCK = """
import subprocess
from pathlib import Path


def test_that_hangs():
    child = subprocess.Popen(["sleep", "1000"])
    Path("begun.part").write_text(str(child.pid))
    Path("begun.part").rename("begun")
    child.wait()
"""


@dataclass(frozen=True)
class Run:
    code: int
    lines: Sequence[str]
    unstable: Sequence[Mapping[str, Any]]


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Run]:
    def run(stage: str = "shaky", **files: str) -> Run:
        place = tmp_path / "made_up"
        place.mkdir()
        for name, text in {"conftest": CONFTEST, **files}.items():
            (place / f"{name}.py").write_text(text)
        (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow\n  kubernetes\n")
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'platform'}"}
        done = subprocess.run(
            [sys.executable, "-c", RUN, "--only", stage],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        unstable = [json.loads(line) for line in (tmp_path / "build" / "unstable.jsonl").read_text().splitlines()]
        return Run(done.returncode, done.stdout.splitlines(), unstable)

    return run


def test_tests_that_pass_the_second_or_third_time_are_unstable_and_fail_nothing(run: Callable[..., Run]) -> None:
    seen = run(test_good=GOOD, test_tries=TRIES.format(tries="2, 3"))

    assert seen.lines[-2:] == ["unstable: 2 (build/unstable.jsonl)", "3 passed, 0 failed, 0 skipped"]
    assert seen.code == 0
    assert [(line["test"], line["stage"]) for line in seen.unstable] == [
        ("made_up/test_tries.py::test_unlucky[2]", "shaky"),
        ("made_up/test_tries.py::test_unlucky[3]", "shaky"),
    ]
    assert all("assert 1 == " in line["error"] and line["load"] >= 0 and line["seconds"] >= 0 for line in seen.unstable)
    at_the_end = seen.lines[seen.lines.index("=== durations") :]
    assert any("test_unlucky[3] (shaky, load " in line for line in at_the_end)
    assert any("assert 1 == 3" in line for line in at_the_end)


def test_a_test_that_fails_three_times_fails_the_run(run: Callable[..., Run]) -> None:
    seen = run(test_bad=BAD, test_tries=TRIES.format(tries="2"))

    assert seen.lines[-2:] == ["unstable: 1 (build/unstable.jsonl)", "1 passed, 1 failed, 0 skipped"]
    assert seen.code == 1
    assert [line for line in seen.lines if line.startswith("=== again")] == [
        "=== again (2 of 3): made_up/test_bad.py::test_bad (shaky)",
        "=== again (3 of 3): made_up/test_bad.py::test_bad (shaky)",
        "=== again (2 of 3): made_up/test_tries.py::test_unlucky[2] (shaky)",
    ]


def test_a_stage_that_broke_off_fails_at_once(run: Callable[..., Run]) -> None:
    seen = run(test_broken="import nothing_of_this_name\n", test_tries=TRIES.format(tries="2"))

    assert "=== not run again: shaky failed for good" in seen.lines
    assert (seen.code, seen.unstable) == (1, [])


def test_a_pure_test_has_no_excuse(run: Callable[..., Run]) -> None:
    seen = run(stage="pure", test_tries=TRIES.format(tries="2"))

    assert "=== not run again: pure failed for good" in seen.lines
    assert (seen.code, seen.unstable) == (1, [])


def test_a_stage_that_hangs_is_ended_at_its_limit_with_all_that_it_started_and_says_what_it_ran(
    run: Callable[..., Run], tmp_path: Path
) -> None:
    seen = run(stage="stuck", test_stuck=STUCK)

    at = seen.lines.index("=== stuck was ended at its limit of 900 s; it ran:")
    assert seen.lines[at + 1] == "  made_up/test_stuck.py::test_that_hangs"
    assert "=== not run again: stuck failed for good" in seen.lines
    assert seen.code == 1
    assert not remains.is_alive(int((tmp_path / "begun").read_text()))


def failures(number: int) -> list[Failure]:
    return [Failure(f"test_a.py::test_{index}", "engines", 1.0, "", 0.1) for index in range(number)]


def test_more_failures_than_an_unlucky_machine_makes_are_not_run_again() -> None:
    assert rerun.why_not(failures(rerun.TESTS_MAX), []) == ""
    assert rerun.why_not(failures(rerun.TESTS_MAX + 1), []) == "26 tests failed, more than 25"
    assert rerun.why_not(failures(1), ["plain", "mypy"]) == "plain, mypy failed for good"


def test_only_the_first_failure_of_a_test_counts_and_its_last_lines(tmp_path: Path) -> None:
    path = tmp_path / "shaky.jsonl"
    said = [
        {"test": "a", "phase": "call", "load": 2.0, "seconds": 0.5, "error": "\n".join(map(str, range(50)))},
        {"test": "a", "phase": "teardown", "load": 9.0, "seconds": 0.1, "error": "later"},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in said))

    ((failure,), is_whole) = rerun.read_failures(path, "shaky")

    assert (failure.test, failure.stage, failure.load, failure.seconds) == ("a", "shaky", 2.0, 0.5)
    assert failure.error.splitlines() == [str(number) for number in range(20, 50)]
    assert is_whole
