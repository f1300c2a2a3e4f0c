"""What tests show of the product: `python tools/capabilities.py [FOLDER]` writes `docs/capabilities.md` and a part of README.md.

A test names the row and the claim that it shows: `@pytest.mark.capability("18", "what holds")`. Rows are those of
`tools/capabilities.toml`. FOLDER holds the JUnit reports of the stages that ran (`build/results` after `make test`, or what
`tools/testrun.py --results` was given), in which `tests/builders/claims.py` has noted every claim and the engines that were met.
A claim gets the result of this run once all its tests have one; otherwise it keeps the one of the page, unless its tests changed.
Standard library only.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"
ROWS = ROOT / "tools" / "capabilities.toml"
PAGE = ROOT / "docs" / "capabilities.md"
README = ROOT / "README.md"
RESULTS = ROOT / "build" / "results"
MARK = "mark.capability"
PART_OF_README = re.compile(r"(?<=<!-- rows without a claim -->\n).*?(?=<!-- end -->)", re.DOTALL)
WIDTH = 130

ENGINES = {"real": "real engine", "simulated": "simulated GPUs", "fake": "fake engine"}  # By kind, the strongest first.
FAKE_ONLY = "**fake engine only**"
NO_ENGINE = "no engine"
SKIPPED = "**skipped**"
SKIPPED_IN_PART = "**skipped in part**"
FAILED = "**failed**"
NO_RESULT = "**no result yet**"

INTRODUCTION = """\
# Capabilities

What Berth can do, claim by claim, as tests showed it when they last ran. `tools/capabilities.py` makes this page from markers of
tests and from their results ([how](../CONTRIBUTING.md#adding-things)). What a row's claims do not say is not shown.

| shown on | means |
|---|---|
| real engine | all tests of the claim passed, on an engine that starts real processes |
| simulated GPUs | the same, but the GPUs of the machine were simulated |
| fake engine | tests passed on an engine that pretends to run tasks; **fake engine only**: none of them on a real one |
| no engine | the tests asked no engine; what one would say, they said themselves where it was needed |
| skipped, in part or wholly | the machine of the last run lacked something that tests need |
| failed, no result yet | the claim does not hold, or its tests have not run |
"""


class MarkerError(ValueError):
    """A marker that does not say a known row and a claim."""


@dataclass(frozen=True, slots=True, order=True)
class Claim:
    """What must hold, under the number of a row."""

    row: str
    text: str

    @classmethod
    def of(cls, arguments: Sequence[object]) -> Claim:
        """Read the arguments of a marker. Raises MarkerError."""
        words = [word for word in arguments if isinstance(word, str)]
        if len(arguments) != 2 or len(words) != 2 or "|" in words[1]:
            raise MarkerError(f'capability{tuple(arguments)!r}: say row and claim, as in capability("18", "what holds")')
        if words[0] not in titles():
            raise MarkerError(f"capability{tuple(arguments)!r}: {ROWS.relative_to(ROOT)} has no row {words[0]}")
        return cls(*words)


@dataclass(frozen=True, slots=True)
class Row:
    title: str
    missing: Sequence[str] = ()  # What users know under this title and no test shows.


@dataclass(slots=True)
class Verdict:
    """What became of a test in all stages that ran it, with all parameters."""

    passed: int = 0
    failed: int = 0
    engines: set[str] = field(default_factory=set)


# --- What there is to show -------------------------------------------------------------------------------------------


def groups() -> dict[str, dict[str, Row]]:
    """Rows by number, in groups, in the order of the file."""
    document = tomllib.loads(ROWS.read_text(encoding="utf-8"))
    return {
        group: {number: Row(said) if isinstance(said, str) else Row(said[0], said[1:]) for number, said in rows.items()}
        for group, rows in document.items()
    }


def titles() -> dict[str, str]:
    return {number: row.title for rows in groups().values() for number, row in rows.items()}


def claims() -> dict[Claim, tuple[str, ...]]:
    """The tests of each claim, as `file::test` below `tests/`. They are read, not imported. Raises MarkerError."""
    found: dict[Claim, set[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if MARK in text:
            for test, claim in _claims_of(ast.parse(text)):
                found.setdefault(claim, set()).add(f"{path.relative_to(TESTS).as_posix()}::{test}")
    return {claim: tuple(sorted(tests)) for claim, tests in sorted(found.items())}


def _claims_of(module: ast.Module) -> Iterator[tuple[str, Claim]]:
    of_module = [
        claim
        for node in module.body
        if isinstance(node, ast.Assign) and any(isinstance(name, ast.Name) and name.id == "pytestmark" for name in node.targets)
        for claim in _marks(ast.walk(node.value))
    ]
    for node in ast.walk(module):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_"):
            for claim in [*of_module, *_marks(node.decorator_list)]:
                yield node.name, claim


def _marks(nodes: Iterable[ast.AST]) -> Iterator[Claim]:
    for node in nodes:
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(MARK):
            yield Claim.of([word.value if isinstance(word, ast.Constant) else word for word in node.args])


# --- What was shown --------------------------------------------------------------------------------------------------


def results(folder: Path) -> dict[str, Verdict]:
    """The results of tests that show a claim, from all JUnit reports of a folder."""
    found: dict[str, Verdict] = {}
    for report in sorted(folder.glob("*.xml")):
        for case in ElementTree.parse(report).iter("testcase"):
            noted = [(item.get("name", ""), item.get("value", "")) for item in case.iter("property")]
            for test in {value for name, value in noted if name == "test"}:
                result = found.setdefault(test, Verdict())
                if case.find("failure") is not None or case.find("error") is not None:
                    result.failed += 1
                elif case.find("skipped") is None:
                    result.passed += 1
                    result.engines |= {value for name, value in noted if name == "engine"}
    return found


def outcome(tests: Sequence[str], results: Mapping[str, Verdict]) -> str:
    """What the page says of a claim after this run, on which engines or why not."""
    ran = [results[test] for test in tests if test in results]
    if any(result.failed for result in ran):
        return FAILED
    if len(ran) < len(tests):
        return NO_RESULT
    if not all(result.passed for result in ran):
        return SKIPPED_IN_PART if any(result.passed for result in ran) else SKIPPED
    return _shown_on({kind for result in ran for kind in result.engines})


def _shown_on(kinds: set[str]) -> str:
    if kinds == {"fake"}:
        return FAKE_ONLY
    return " and ".join(words for kind, words in ENGINES.items() if kind in kinds) or NO_ENGINE


SHOWN = {_shown_on(set(kinds)) for count in range(len(ENGINES) + 1) for kinds in combinations(ENGINES, count)}
OUTCOMES = SHOWN | {SKIPPED, SKIPPED_IN_PART, FAILED, NO_RESULT}


def merged(page: str, results: Mapping[str, Verdict]) -> dict[Claim, str]:
    """The outcome of every claim: of this run if it ran all tests of the claim, else what the page says of the same tests."""
    before = read(page)
    found = {}
    for claim, tests in claims().items():
        now = outcome(tests, results)
        said, said_of = before.get(claim, (NO_RESULT, ()))
        found[claim] = said if now == NO_RESULT and said_of == tests else now
    return found


def differences(page: str, results: Mapping[str, Verdict]) -> tuple[list[str], list[str]]:
    """What a whole run showed otherwise than the page says, in words: claims that broke, and the other differences. A claim that
    was skipped is not broken: this machine may lack what the machine of the page had."""
    broken, others = [], []
    before = read(page)
    for claim, tests in claims().items():
        now, (said, _) = outcome(tests, results), before.get(claim, (NO_RESULT, ()))
        if now != said:
            is_less = now in (FAILED, NO_RESULT) or (now == FAKE_ONLY and said != NO_ENGINE)
            line = f"{claim.row}. {titles()[claim.row]}: {claim.text}: {now}, the page says {said}"
            (broken if said in SHOWN and is_less else others).append(line.replace("*", ""))
    return broken, others


# --- The pages -------------------------------------------------------------------------------------------------------


def page(outcomes: Mapping[Claim, str]) -> str:
    tests = claims()
    lines = [INTRODUCTION]
    for group, rows in groups().items():
        lines += [f"## {group}", ""]
        for number, row in rows.items():
            of_row = [claim for claim in tests if claim.row == number]
            if of_row:
                lines += [f'<a id="{number}"></a>', "", f"### {number}. {row.title}", ""]
                lines += ["| what must hold | shown on | tests |", "|---|---|---|"]
                for claim in of_row:
                    named = "<br>".join(f"`{test}`" for test in tests[claim])
                    lines.append(f"| {claim.text} | {outcomes[claim]} | {named} |")
                lines.append("")
                if row.missing:
                    lines += [f"Not there yet: {'; '.join(row.missing)}.", ""]
        unclaimed = _unclaimed(rows, tests)
        if unclaimed:
            lines += [f"Rows of this group without a claim: {'; '.join(unclaimed)}.", ""]
    return "\n".join(lines)


def read(page: str) -> dict[Claim, tuple[str, tuple[str, ...]]]:
    """Outcome and tests of each claim that a page shows."""
    found = {}
    row = ""
    for line in page.splitlines():
        if heading := re.match(r"### (\S+)\. ", line):
            row = heading[1]
        elif row and (cells := re.fullmatch(r"\| (.+) \| (.+) \| (`.+`) \|", line)):
            found[Claim(row, cells[1])] = (cells[2], tuple(re.findall(r"`([^`]+)`", cells[3])))
    return found


def with_rows_without_a_claim(readme: str) -> str:
    """README.md with its list of rows that no test claims, by group."""
    tests = claims()
    lines = []
    for group, rows in groups().items():
        if unclaimed := _unclaimed(rows, tests):
            text = f"- **{group}**: {'; '.join(unclaimed)}."
            lines += textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return PART_OF_README.sub(lambda _: "\n".join(lines) + "\n", readme)


def _unclaimed(rows: Mapping[str, Row], tests: Mapping[Claim, Sequence[str]]) -> list[str]:
    claimed = {claim.row for claim in tests}
    return [row.title for number, row in rows.items() if number not in claimed]


def main() -> None:
    before = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    ran = results(Path(sys.argv[1])) if sys.argv[1:] else {}
    outcomes = merged(before, ran)
    PAGE.write_text(page(outcomes), encoding="utf-8")
    README.write_text(with_rows_without_a_claim(README.read_text(encoding="utf-8")), encoding="utf-8")
    for said in sorted(set(outcomes.values())):
        print(f"{sum(outcome == said for outcome in outcomes.values()):5} {said.strip('*')}")


if __name__ == "__main__":
    main()
