"""Mutation check of the harness: mistakes of the kind that lose jobs, made on purpose, must all be noticed.

Each file in `patches/` is a small unified diff below a few words: what is wrong, the scene of `tests/simulation/scenes.py` that
must notice it, and a word of what it must say. The diff is applied to a copy of the files that it names, a child of this process
takes their code for its own, and plays the scene. A scene that passes with a known mistake proves nothing, so this fails.

When a patch no longer applies because its place has changed: make the same mistake by hand in a copy of the tree, and replace
the diff below the words by the output of `git diff -U2` there. When the place is gone, make the mistake where it can be made now.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.seeded.swapping import swap
from tests.simulation.scenes import play

ROOT = Path(__file__).resolve().parents[2]
PATCHES = sorted((Path(__file__).parent / "patches").glob("*.patch"))
PATCHES_MIN = 20
SECONDS_MAX = 240  # A deadline for a loaded machine; a scene takes one to three seconds of computing.


@dataclass(frozen=True)
class Seeded:
    """One patch with its words."""

    what: str
    scene: str
    says: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class Said:
    """What a scene found wrong, or how the harness broke over it."""

    found: list[str]
    broken: str = ""


def read(path: Path) -> Seeded:
    head, _, diff = path.read_text().partition("\n--- ")
    fields = dict(line.split(": ", 1) for line in head.splitlines() if line.startswith(("Scene: ", "Says: ")))
    files = re.findall(r"^--- a/(\S+)", f"--- {diff}", re.MULTILINE)
    return Seeded(head.splitlines()[0], fields["Scene"], fields["Says"], tuple(files))


@pytest.fixture(autouse=True)
def _own_database(django_db_blocker: Any) -> Iterator[None]:
    """A scene brings its own."""
    with django_db_blocker.unblock():
        yield


def test_there_are_twenty_of_them() -> None:
    assert len(PATCHES) >= PATCHES_MIN


@pytest.mark.timeout(SECONDS_MAX + 60)
@pytest.mark.parametrize("path", PATCHES, ids=lambda path: path.stem)
def test_a_seeded_bug_is_caught(path: Path, tmp_path: Path) -> None:
    seeded = read(path)
    sources = patched(path, seeded.files, tmp_path / "tree")
    said = play_with(sources, seeded.scene, tmp_path / "said.json")
    assert not said.broken, f"the harness broke instead of telling:\n{said.broken}"
    assert said.found, f"the scene {seeded.scene!r} does not notice: {seeded.what}"
    told = "\n".join(said.found)
    assert seeded.says in told, f"the scene {seeded.scene!r} complains of something else than {seeded.says!r}:\n{told}"


def patched(path: Path, files: tuple[str, ...], place: Path) -> dict[str, str]:
    """The sources of these files with the mistake in them, by the names of their modules."""
    for name in files:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, place / name)
    done = subprocess.run(["git", "apply", "-C1", str(path)], cwd=place, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(
            f"{path.name} no longer applies: {done.stderr.strip()}\n"
            "The product has changed at its place. Make the same mistake by hand in a copy of the tree, and replace the diff "
            f"below the words of {path.name} by the output of `git diff -U2` there."
        )
    return {module_of(name): (place / name).read_text() for name in files}


def module_of(name: str) -> str:
    """The name under which a file of the server is imported."""
    return name.removeprefix("platform/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def play_with(sources: dict[str, str], scene: str, report: Path) -> Said:
    """Play a scene in a child that runs with these sources. All that it needs is loaded: it begins at once."""
    child = os.fork()
    if child == 0:
        try:
            _end_in_time()
            report.write_text(json.dumps(_found(sources, scene)))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    return Said(**json.loads(report.read_text())) if report.exists() else Said([], f"no word within {SECONDS_MAX} s")


def _end_in_time() -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(SECONDS_MAX)


def _found(sources: dict[str, str], scene: str) -> dict[str, object]:
    try:
        for name, source in sources.items():
            swap(name, source)
        return {"found": play(scene)}
    except Exception:  # Whatever it is, the parent tells it.
        return {"found": [], "broken": traceback.format_exc()}
