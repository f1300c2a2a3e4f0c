"""What tests showed becomes lines of the page, and a claim that holds no longer is found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools import capabilities, testrun
from tools.capabilities import Claim, Verdict

A = "unit/test_a.py::test_a"
B = "unit/test_b.py::test_b"
GANGS = Claim("18", "All start or none")
LEASES = Claim("9", "GPUs are leased")
CLAIMS = {GANGS: (A,), LEASES: (A, B)}


@pytest.fixture(autouse=True)
def claims(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capabilities, "claims", lambda: CLAIMS)


def ran(*engines: str, passed: int = 1, failed: int = 0) -> Verdict:
    return Verdict(passed, failed, set(engines))


def page(gangs: str, leases: str) -> str:
    return capabilities.page({GANGS: gangs, LEASES: leases})


@pytest.mark.parametrize(
    ("results", "said"),
    [
        ({A: ran("real"), B: ran()}, "real engine"),
        ({A: ran("real"), B: ran("fake")}, "real engine and fake engine"),
        ({A: ran("simulated"), B: ran()}, "simulated GPUs"),
        ({A: ran("fake"), B: ran()}, "**fake engine only**"),
        ({A: ran(), B: ran()}, "no engine"),
        ({A: ran("real"), B: ran(passed=0)}, "**skipped in part**"),
        ({A: ran(passed=0), B: ran(passed=0)}, "**skipped**"),
        ({A: ran("real"), B: ran("real", failed=1)}, "**failed**"),
        ({A: ran("real")}, "**no result yet**"),
    ],
)
def test_a_claim_says_on_which_engine_it_was_shown_or_why_not(results: dict[str, Verdict], said: str) -> None:
    assert capabilities.outcome((A, B), results) == said


def test_a_page_is_read_back_as_it_was_made() -> None:
    assert capabilities.read(page("**skipped**", "real engine")) == {
        GANGS: ("**skipped**", (A,)),
        LEASES: ("real engine", (A, B)),
    }


def test_a_part_of_a_run_leaves_what_the_page_says_of_others() -> None:
    before = page("real engine", "no engine")
    assert capabilities.merged(before, {A: ran("fake")}) == {GANGS: "**fake engine only**", LEASES: "no engine"}


def test_a_claim_whose_tests_changed_is_shown_anew() -> None:
    before = page("real engine", "real engine").replace(f"`{A}`<br>`{B}`", f"`{B}`")
    assert capabilities.merged(before, {}) == {GANGS: "real engine", LEASES: "**no result yet**"}


@pytest.mark.parametrize("results", [{}, {A: ran("real", failed=1)}, {A: ran("fake")}], ids=["not run", "failed", "fake only"])
def test_a_claim_that_holds_no_longer_is_broken(results: dict[str, Verdict]) -> None:
    broken, _ = capabilities.differences(page("real engine", "**no result yet**"), results)
    assert [line.partition(":")[0] for line in broken if line.startswith("18")] == ["18. Gang scheduling"]


def test_a_claim_that_this_machine_skips_is_told_and_not_broken() -> None:
    broken, others = capabilities.differences(page("real engine", "**no result yet**"), {A: ran(passed=0)})
    assert broken == []
    assert others == ["18. Gang scheduling: All start or none: skipped, the page says real engine"]


REPORT = """<testsuites><testsuite><testcase name="test_a"><properties><property name="test" value="unit/test_a.py::test_a"/>
<property name="engine" value="{engine}"/></properties></testcase></testsuite></testsuites>"""


@pytest.mark.parametrize(("engine", "is_ok"), [("real", True), ("fake", False)])
def test_a_whole_run_fails_by_a_claim_that_holds_no_longer(
    engine: str, is_ok: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(capabilities, "claims", lambda: {GANGS: (A,)})
    monkeypatch.setattr(capabilities, "PAGE", tmp_path / "page.md")
    capabilities.PAGE.write_text(capabilities.page({GANGS: "real engine"}))
    (tmp_path / "engines.xml").write_text(REPORT.format(engine=engine))

    assert testrun._compare_claims(tmp_path).is_ok is is_ok
    told = "18. Gang scheduling: All start or none: fake engine only, the page says real engine"
    assert (told in capsys.readouterr().out) is not is_ok


TESTS = """
import pytest

pytestmark = [pytest.mark.capability("9", "Of the whole file")]

@pytest.mark.capability("18", "Of the test")
@pytest.mark.parametrize("number", [1, 2])
def test_twice(number):
    assert number

@pytest.mark.skip
def test_skipped():
    pass

@pytest.mark.engines
def test_real():
    pass
"""


def test_markers_of_a_file_and_of_a_test_are_read_and_reported_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(capabilities, "TESTS", tmp_path)
    file = tmp_path / "test_some.py"
    file.write_text(TESTS)
    options = ["-p", "no:django", "-p", "no:cacheprovider", "-p", "tests.builders.claims", "-n", "0", "--rootdir", str(tmp_path)]
    program = f"""
import pathlib, sys, pytest
from tools import capabilities
capabilities.TESTS = pathlib.Path({str(tmp_path)!r})
sys.exit(pytest.main(sys.argv[1:]))
"""
    command = [sys.executable, "-c", program, *options, f"--junitxml={tmp_path / 'stage.xml'}", "--claims", str(file)]
    done = subprocess.run(command, cwd=capabilities.ROOT, capture_output=True, text=True, timeout=100)
    results = capabilities.results(tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    assert capabilities.claims() == {
        Claim("18", "Of the test"): ("test_some.py::test_twice",),
        Claim("9", "Of the whole file"): ("test_some.py::test_real", "test_some.py::test_skipped", "test_some.py::test_twice"),
    }
    assert results == {
        "test_some.py::test_twice": Verdict(passed=2),
        "test_some.py::test_skipped": Verdict(),
        "test_some.py::test_real": Verdict(passed=1, engines={"real"}),
    }
