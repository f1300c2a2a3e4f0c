"""The cache of the portal's builds: one at a time, and no more of them than are of use."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import portal
from tools.portal import BUILDS_KEPT, UNUSED_SECONDS, WORKSHOPS_KEPT, remove_old

NOW = 2_000_000_000.0


def made(cache: Path, name: str, *, days: float, mark: str = "complete") -> Path:
    folder = cache / "portal" / name
    folder.mkdir(parents=True)
    (folder / mark).write_text("")
    os.utime(folder / mark, (NOW - days * 86_400,) * 2)
    return folder


def left(cache: Path) -> set[str]:
    return {folder.name for folder in (cache / "portal").iterdir()}


def test_all_but_the_newest_builds_and_workshops_go(tmp_path: Path) -> None:
    for number in range(BUILDS_KEPT + 3):
        made(tmp_path, f"built-{number}", days=number + 2)
    for number in range(WORKSHOPS_KEPT + 2):
        made(tmp_path, f"workshop-{number}", days=number + 2, mark="installed")

    assert len(remove_old(tmp_path, now=NOW)) == 5
    expected = {f"built-{number}" for number in range(BUILDS_KEPT)} | {f"workshop-{number}" for number in range(WORKSHOPS_KEPT)}
    assert left(tmp_path) == expected
    assert remove_old(tmp_path, now=NOW) == []


def test_what_was_used_today_and_what_a_process_serves_stays(tmp_path: Path) -> None:
    for number in range(BUILDS_KEPT + 3):
        made(tmp_path, f"built-{number}", days=0.5 if number < BUILDS_KEPT + 1 else 3 + number)
    served = tmp_path / "portal" / f"built-{BUILDS_KEPT + 1}"
    program = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, env={"BERTH_PORTAL_DIR": str(served)}) as platform:
        assert [folder.name for folder in remove_old(tmp_path, now=NOW)] == [f"built-{BUILDS_KEPT + 2}"]
        platform.communicate()
    assert [folder.name for folder in remove_old(tmp_path, now=NOW)] == [served.name]


def test_a_build_that_is_used_again_counts_as_new(tmp_path: Path) -> None:
    old = made(tmp_path, "built-old", days=100)

    assert portal._is_there(old / "complete")
    assert (old / "complete").stat().st_mtime < NOW - UNUSED_SECONDS + 10 * 365 * 86_400  # Today, whenever that is.
    assert (old / "complete").stat().st_mtime != NOW - 100 * 86_400
    assert not portal._is_there(tmp_path / "portal" / "built-none" / "complete")


def test_node_is_looked_for_and_installed_by_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def find(cache: Path) -> portal.Node:
        with (cache / "portal.lock").open("w") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        raise portal.PortalError("far enough")

    monkeypatch.setattr(portal, "find_node", find)
    for work in (portal.build, portal.check, portal.packages):
        with pytest.raises(portal.PortalError, match="far enough"):
            work(tmp_path)
