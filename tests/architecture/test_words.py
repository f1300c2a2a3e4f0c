"""One Chinese word for a thing, in the portal, the command line and what the server says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.architecture.sources import ROOT

# As Kubernetes' and Slurm's Chinese documentation say it, where they have the thing: never the second word.
WORDS = {
    "存储卷": "数据卷",
    "密钥": "密文",
    "任务": "子任务",
    "预订": "预约",
    "已挂起": "暂缓",
    "排空": "清空",
    "管理员": "管理者",
}
PLACES = (
    "frontend/src/**/*.ts",
    "frontend/src/**/*.tsx",
    "client/src/berth/**/*.py",
    "jobs/lifecycle/*.py",
    "platform/webapi/*.py",
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
