"""Mutation check of the harness: mistakes of the kind that lose jobs, made on purpose, must all be noticed.

Each file in `patches/` is a small unified diff below a few words: what is wrong, the scene of `tests/simulation/scenes.py` that
must notice it, and a word of what it must say. The diff is applied to a copy of the tree and the scene played there. A scene
that passes on a tree with a known mistake proves nothing, so this fails.

When a patch no longer applies because its place has changed: make the same mistake by hand in a copy of the tree, and replace
the diff below the words by the output of `git diff -U2` there. When the place is gone, make the mistake where it can be made now.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATCHES = sorted((Path(__file__).parent / "patches").glob("*.patch"))
PARTS = ("platform", "jobs", "tenants", "storage", "images", "tests/factories", "tests/histories", "tests/simulation")
PATCHES_MIN = 20
SECONDS_MAX = 240.0  # A deadline for a loaded machine; a scene takes two to six seconds of computing.


@dataclass(frozen=True)
class Seeded:
    """One patch with its words."""

    what: str
    scene: str
    says: str


def read(path: Path) -> Seeded:
    head = path.read_text().partition("\n--- ")[0].splitlines()
    fields = dict(line.split(": ", 1) for line in head if line.startswith(("Scene: ", "Says: ")))
    return Seeded(head[0], fields["Scene"], fields["Says"])


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of all that a scene needs, compiled once."""
    copied = tmp_path_factory.mktemp("tree")
    for part in PARTS:
        shutil.copytree(ROOT / part, copied / part, ignore=shutil.ignore_patterns("__pycache__", "patches"))
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(copied)], check=True)
    return copied


def test_there_are_twenty_of_them() -> None:
    assert len(PATCHES) >= PATCHES_MIN


@pytest.mark.timeout(SECONDS_MAX + 60)
@pytest.mark.parametrize("path", PATCHES, ids=lambda path: path.stem)
def test_a_seeded_bug_is_caught(path: Path, tree: Path, tmp_path: Path) -> None:
    seeded = read(path)
    place = tmp_path / "tree"
    shutil.copytree(tree, place, copy_function=os.link)  # A patched file is a new one; all others are shared.
    apply(path, place)
    done = play(seeded.scene, place)
    said = f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    assert "Traceback" not in done.stderr, f"the harness broke instead of telling:\n{said}"
    assert done.returncode == 1, f"the scene {seeded.scene!r} does not notice: {seeded.what}\n{said}"
    assert seeded.says in done.stdout, f"the scene {seeded.scene!r} complains of something else than {seeded.says!r}:\n{said}"


def apply(path: Path, place: Path) -> None:
    done = subprocess.run(["git", "apply", "-C1", str(path)], cwd=place, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(
            f"{path.name} no longer applies: {done.stderr.strip()}\n"
            "The product has changed at its place. Make the same mistake by hand in a copy of the tree, and replace the diff "
            f"below the words of {path.name} by the output of `git diff -U2` there."
        )


def play(scene: str, place: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("BERTH_", "PYTHON", "DJANGO"))}
    return subprocess.run(
        [sys.executable, "-m", "tests.simulation", "--scene", scene],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
