"""Every command that a text names exists: in messages, hints, documents and the portal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from berth.cli.root import COMMANDS, RootGroup
from tests.architecture.sources import ROOT, tracked_files

# In quotes, at the beginning of a line of an indented or fenced block, and after the dot between two hints.
_NAMED = re.compile(
    r"(?:(?<!b)[`\"']|^ {2,}|^|· {1,3})(?:\$ )?berth +([a-z][a-z-]*)(?: +([a-z][a-z-]*))?(?=[\s`\"'.,:;)]|$)", re.MULTILINE
)
_TEXTS = (".py", ".md", ".ts", ".tsx", ".yaml")
_NO_COMMANDS = {"up"}  # The program's first start, in README.
_ELSEWHERE = ("tests/", "frontend/node_modules", "client/src/berth/_api")


def group_commands(name: str) -> frozenset[str]:
    """The subcommands of a command; none where it is a single one."""
    found = RootGroup(name="berth").get_command(None, name)
    return frozenset(getattr(found, "commands", {}) or {})


def named_commands(path: Path) -> Iterator[tuple[int, str, str]]:
    text = path.read_text(encoding="utf-8")
    for match in _NAMED.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match[1], match[2] or ""


def test_every_command_that_a_text_names_exists() -> None:
    known = {name: group_commands(name) for name in COMMANDS}
    unknown = []
    for path in tracked_files():
        place = path.relative_to(ROOT).as_posix()
        if path.suffix not in _TEXTS or place.startswith(_ELSEWHERE):
            continue
        for line, command, sub in named_commands(path):
            if command not in known and command not in _NO_COMMANDS:
                unknown.append(f"{place}:{line}: berth {command}")
            elif sub and known.get(command) and sub not in known[command]:
                unknown.append(f"{place}:{line}: berth {command} {sub}")
    assert unknown == []
