"""Failed tests are run again before they fail the run: what a loaded machine, a slow disk or a race of the test's own made of a
right change is told from a wrong change.

They run alone, one after the other, with nothing beside. A test that passes the second or third time is *unstable*: it is listed
with its first failure, and does not fail the run. What can be no matter of chance is not run again: pure tests, static checks, a
stage that broke off, and more failures than an unlucky machine makes. Standard library only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from xml.etree import ElementTree

TESTS_MAX = 25  # More at once are no chance.
TRIES_MAX = 3  # With the first, among the others.
ERROR_LINES = 30  # Of a first failure, the last: what was compared stands there.
COLLECTING = "collect"  # Instead of a test's phase: nothing of the file, or of the run, was tried.


@dataclass(frozen=True, slots=True)
class Failure:
    """A test's first failure in a stage; the load average of a minute when it failed, and how long it took."""

    test: str
    stage: str
    load: float
    error: str
    seconds: float


def read_failures(path: Path, stage: str) -> tuple[list[Failure], bool]:
    """The first failure of each test, as `--failures` wrote them, and whether all tests were collected."""
    found: dict[str, Failure] = {}
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    for line in lines:
        error = "\n".join(line["error"].splitlines()[-ERROR_LINES:])
        found.setdefault(line["test"], Failure(line["test"], stage, line["load"], error, line["seconds"]))
    return sorted(found.values(), key=lambda failure: failure.test), all(line["phase"] != COLLECTING for line in lines)


def under_way_of(failures: Path) -> Path:
    """Beside the file of failures: which tests began and ended."""
    return failures.with_suffix(".tests")


def read_under_way(path: Path) -> list[str]:
    """The tests that have begun and not ended, by lines `+ID` and `-ID`."""
    begun: dict[str, None] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        if line[0] == "+":
            begun[line[1:]] = None
        else:
            begun.pop(line[1:], None)
    return list(begun)


def why_not(failures: Sequence[Failure], final: Sequence[str]) -> str:
    """Why nothing is run again, in words; empty where it is. `final` names stages and checks that failed for good."""
    if final:
        return f"{', '.join(final)} failed for good"
    return f"{len(failures)} tests failed, more than {TESTS_MAX}" if len(failures) > TESTS_MAX else ""


def run_again(failures: Sequence[Failure], run: Callable[[Failure, int], bool]) -> Iterator[Failure]:
    """Those that are unstable. `run` runs a test for the n-th time and says whether it passed."""
    for failure in failures:
        if any(run(failure, number) for number in range(2, TRIES_MAX + 1)):
            yield failure


def write_unstable(path: Path, unstable: Sequence[Failure]) -> None:
    """A line for each, or an empty file: those of an earlier run say nothing of this one."""
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(asdict(failure), ensure_ascii=False) + "\n" for failure in unstable), encoding="utf-8")


def has_passed(report: Path) -> bool:
    """Whether the JUnit report of one test says that it ran and passed."""
    cases = list(ElementTree.parse(report).iter("testcase")) if report.exists() else []
    return bool(cases) and not any(case.find(word) is not None for case in cases for word in ("failure", "error", "skipped"))


def replace_cases(report: Path, again: Path) -> None:
    """Put the cases of the report `again` in the place of those of the same tests, in the report of their stage."""
    tree, others = ElementTree.parse(report), ElementTree.parse(again)
    suite = next(tree.iter("testsuite"))
    cases = list(others.iter("testcase"))
    names = {_name(case) for case in cases}
    for case in [case for case in suite.iter("testcase") if _name(case) in names]:
        suite.remove(case)
    suite.extend(cases)
    tree.write(report, encoding="utf-8", xml_declaration=True)


def _name(case: ElementTree.Element) -> tuple[str | None, str | None]:
    return case.get("classname"), case.get("name")
