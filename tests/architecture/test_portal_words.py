"""What the portal says of fixed figures is what the server means by them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from jobs.spec.values import PRIORITIES

WORDS = Path(__file__).parents[2] / "frontend" / "src" / "pages" / "job" / "text.ts"


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_order_dialog_names_the_priorities_as_the_server_counts_them(language: str) -> None:
    hints = re.findall(r"priorityHint: '([^']*)'", WORDS.read_text(encoding="utf-8"))
    hint = hints[("en", "zh").index(language)]
    said = {name: int(figure) for name, figure in re.findall(r"(low|normal|high|urgent)\D{1,5}(\d+)", hint)}
    assert said == dict(PRIORITIES)


SOURCE = Path(__file__).parents[2] / "frontend" / "src"
ENTRY = re.compile(r"""^\s*(\w+): (['"])(.*)\2,?$""", re.MULTILINE)
DRAWN = ("<Said text={", "plain(", "notify(")  # Each takes the backticks away: as signs of code, or altogether.
# A sentence of the server that stands in JSX by itself: in `{problem.hint}` the backticks would be seen. Before an attribute's
# value stands `=`.
BARE = re.compile(r"(?<![=$(\w])\{(?:[^{}]*[^\w.{}])?\w[\w?.()]*\.(?:hint|message|detail)(?![\w.(])[^{}]*\}")
BARE_TEXT = re.compile(r"(?<![=$(\w])\{[^{}]*\b(?:reason|exit|note|suggestion|fault|wall)\??\.(?:text|hint)(?![\w(])[^{}]*\}")
OTHER = ("error.message", "JSON.stringify(")  # What is no sentence of the server.


def test_words_with_commands_between_backticks_are_drawn_without_the_backticks() -> None:
    assert _with_backticks(), "the catalogues have some"
    raw = [
        f"{path.relative_to(SOURCE)}:{number}: {call}"
        for catalogue, keys in _with_backticks().items()
        for path in _users(catalogue)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for call in re.findall(r"\bt\((?:[^()]|\([^()]*\))*\)", line)
        if _may_be(call, keys) and not _is_drawn(line, call)
    ]
    assert raw == []


def test_sentences_of_the_server_are_drawn_without_their_backticks() -> None:
    raw = [
        f"{path.relative_to(SOURCE)}:{number}: {found}"
        for path in sorted(SOURCE.rglob("*.tsx"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for pattern in (BARE, BARE_TEXT)
        for found in pattern.findall(line)
        if not any(mark in found for mark in (*DRAWN, *OTHER, "=>"))
    ]
    assert raw == []


def test_the_search_for_raw_backticks_finds_them() -> None:
    assert BARE.findall("{problem.hint}")
    assert BARE.findall("<b>{name}</b> {found?.detail || found?.title}")
    assert BARE_TEXT.findall("<Text>{job.reason?.text ?? t('none')}</Text>")
    assert not BARE.findall("<Said text={problem.hint} />")
    assert _may_be("t(`${name}Hint`)", {"resultsHint"})
    assert _may_be("t(isLate ? 'late' : 'none')", {"none"})
    assert not _may_be("t('other')", {"none"})
    assert not _is_drawn("<Text>{t('none')}</Text>", "t('none')")
    assert _is_drawn("<Said text={t('none')} />", "t('none')")


def _with_backticks() -> dict[Path, set[str]]:
    """The keys whose words hold backticks, by the file of their catalogue."""
    found = {
        path: {key for key, _, text in ENTRY.findall(path.read_text(encoding="utf-8")) if "`" in text}
        for path in SOURCE.rglob("*.ts")
        if "texts(" in path.read_text(encoding="utf-8")
    }
    return {path: keys for path, keys in found.items() if keys}


def _users(catalogue: Path) -> list[Path]:
    """The screens that draw words of this catalogue: those that import it, and those beside them that are handed its `t`."""
    beside = sorted(catalogue.parent.rglob("*.tsx"))
    ours = "@/" + catalogue.relative_to(SOURCE).with_suffix("").as_posix()
    elsewhere = [path for path in SOURCE.rglob("*.tsx") if path not in beside and ours in path.read_text(encoding="utf-8")]
    return beside + sorted(elsewhere)


def _may_be(call: str, keys: set[str]) -> bool:
    """Whether this call can ask for one of these keys, as far as its text tells."""
    if any(f"'{key}'" in call for key in keys):
        return True
    patterns = [re.sub(r"\\\$\\\{.*?\\\}", r"\\w+", re.escape(text)) for text in re.findall(r"`([^`]*)`", call)]
    return any(re.fullmatch(pattern, key) for pattern in patterns for key in keys)


def _is_drawn(line: str, call: str) -> bool:
    return any(mark in line[: line.index(call)] for mark in DRAWN)
