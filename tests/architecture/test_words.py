"""The words that users read: one Chinese word for a thing, and English that names people and things."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from jobs.spec.schema import json_schema
from kernel.config import Config
from tests.architecture.sources import PRODUCT_FOLDERS, ROOT, product_modules, tree

# As Kubernetes' and Slurm's Chinese documentation say it, where they have the thing: never the second word.
WORDS = {
    "存储卷": "数据卷",
    "密钥": "密文",
    "任务": "子任务",
    "预订": "预约",
    "已挂起": "暂缓",
    "排空": "清空",
    "管理员": "管理者",
    "账户": "账号",
    "保障": "保证",
}
PLACES = (
    "frontend/src/**/*.ts",
    "frontend/src/**/*.tsx",
    "client/src/berth/**/*.py",
    *(f"{folder}/**/*.py" for folder in PRODUCT_FOLDERS),
)
# Of a machine it is said what starts there, which is tasks.
TASKS_ALL_THE_SAME = (
    "EACH",
    "Nothing new starts on",
    "Nothing runs on {node}",
    "{node} takes work",
    "Let nothing new",
    "Let work",
)


@pytest.mark.parametrize(("word", "never"), WORDS.items())
def test_a_thing_has_one_chinese_word(word: str, never: str) -> None:
    files = [path for place in PLACES for path in ROOT.glob(place) if "node_modules" not in path.parts]
    assert len(files) > 100
    assert [str(path.relative_to(ROOT)) for path in files if never in path.read_text(encoding="utf-8")] == [], f"say {word}"


def messages() -> Iterator[tuple[str, str]]:
    """What the command line says, in both languages."""
    for path in sorted((ROOT / "client" / "src" / "berth" / "cli").glob("messages_zh*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for english, chinese in zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ():
                if isinstance(english, ast.Constant) and isinstance(chinese, ast.Constant):
                    yield str(english.value), str(chinese.value)


def test_a_job_is_never_called_a_task_nor_a_task_a_job() -> None:
    found = []
    for english, chinese in messages():
        jobs, tasks = (re.search(rf"\b{word}s?\b", english, re.IGNORECASE) is not None for word in ("job", "task"))
        if tasks:
            is_wrong = "作业" in chinese and not jobs
        else:
            is_wrong = "任务" in chinese and not english.startswith(TASKS_ALL_THE_SAME)
        found += [english] if is_wrong else []

    assert found == []


# Names of rows for a log or a shell, and a spec in its canonical form: nothing that is read as a sentence.
TIMES_ALL_THE_SAME = {"platform/webapi/models.py", "platform/controlplane/models.py", "jobs/spec/canonical.py"}


def test_times_in_sentences_of_the_server_are_written_by_one_function() -> None:
    """The portal and the command line find them by their form, that of `kernel.words.format_moment`, and show local times."""
    found = set()
    for folder in ("platform", "tenants", "storage", "images", "jobs"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            if re.search(r"%Y-%m-%dT%H:%M:%SZ|f[\"'][^\"']*\{(utc_text\(|[a-z_.]+\.isoformat\()", text):
                found.add(str(path.relative_to(ROOT)))
    assert found - TIMES_ALL_THE_SAME == set(), "use format_moment"


# Pronouns where a noun belongs, and a number that is not told.
UNNAMED = re.compile(r"\b(whoever|nobody|somebody|everybody|anybody|so many)\b", re.IGNORECASE)
# A value of an enum, or a name of a table: no sentence.
A_VALUE = re.compile(r"[a-z_]+")


def settings() -> Iterator[str]:
    yield from (item.metadata["what"] for item in fields(Config))


def command_line() -> Iterator[str]:
    yield from (english for english, _ in messages())


def described(value: Any) -> Iterator[str]:
    """All descriptions and summaries in a description or a schema, without the lines that list an enum's values."""
    if isinstance(value, dict):
        for key, entry in value.items():
            if key in ("description", "summary") and isinstance(entry, str):
                yield "\n".join(line for line in entry.splitlines() if not line.startswith("* `"))
            else:
                yield from described(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from described(entry)


def api() -> Iterator[str]:
    yield from described(json.loads((ROOT / "client" / "openapi.json").read_text(encoding="utf-8")))


def job_file() -> Iterator[str]:
    yield from described(json_schema())


def generated_pages() -> Iterator[str]:
    """Errors and permissions; other tests compare these pages with the code."""
    for page in ("errors", "permissions"):
        yield from (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8").splitlines()


def catalogues() -> Iterator[str]:
    """What the server says in both languages: every text of `jobs/lifecycle`, and of `Text` and its kin elsewhere."""
    for path in product_modules():
        name = path.relative_to(ROOT).as_posix()
        yield from _texts(path, everywhere=name.startswith("jobs/lifecycle/"))


def _texts(path: Path, *, everywhere: bool) -> Iterator[str]:
    module = tree(path)
    docstrings = {id(node.value) for node in ast.walk(module) if isinstance(node, ast.Expr)}
    said = {
        id(inner)
        for node in ast.walk(module)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Text", "fixed", "Entry")
        for inner in ast.walk(node)
    }
    for node in ast.walk(module):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in docstrings:
            continue
        if (everywhere or id(node) in said) and not A_VALUE.fullmatch(node.value):
            yield node.value


# The portal's sentences have the same rule in `frontend/src/text/allWords.test.ts`, which reads them as the portal does.
@pytest.mark.parametrize(
    ("place", "least"),
    [(settings, 100), (command_line, 900), (api, 1500), (job_file, 50), (generated_pages, 400), (catalogues, 700)],
)
def test_sentences_name_people_things_and_numbers(place: Callable[[], Iterator[str]], least: int) -> None:
    texts = list(place())
    assert len(texts) > least, "the texts were not found"
    assert [text for text in texts if UNNAMED.search(text)] == []
