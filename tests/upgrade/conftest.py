"""The release before this one: its server, as it was tagged, for platforms that begin on it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BEFORE = ("v0.1.0", "018e2204272b7fa5a1033e83e2dcc31415df08dd")  # The tag, and the commit that it names.
FOLDERS = ("manage.py", "platform", "jobs", "images", "storage", "tenants")


@pytest.fixture(scope="session")
def release_before() -> Path:
    """The server of the release before, where the platform's own user can read it."""
    found = _release_before()
    if found is None:
        pytest.skip("this checkout has no history: neither the tag v0.1.0 nor its commit is there (git fetch --tags)")
    return found


@cache
def _release_before() -> Path | None:
    commit = next((name for name in BEFORE if _git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")), None)
    if commit is None:
        return None
    default = "/var/cache/berth" if os.geteuid() == 0 else str(Path.home() / ".cache" / "berth")
    folder = Path(os.environ.get("BERTH_CACHE", default)) / "releases" / BEFORE[0]
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(dir=folder.parent))
        try:
            archive = subprocess.run(["git", "archive", commit, *FOLDERS], cwd=ROOT, check=True, capture_output=True).stdout
            subprocess.run(["tar", "x", "-C", str(part)], input=archive, check=True)
            for path in (part, *part.rglob("*")):
                path.chmod(0o755 if path.is_dir() else 0o644)
            part.rename(folder)
        except OSError:
            if not folder.exists():  # Somebody else was faster.
                raise
        finally:
            shutil.rmtree(part, ignore_errors=True)
    for parent in (folder.parent, folder.parent.parent):
        if parent.stat().st_uid == os.geteuid():
            parent.chmod(parent.stat().st_mode | 0o055)
    return folder


def _git(*words: str) -> bool:
    return subprocess.run(["git", *words], cwd=ROOT, check=False, capture_output=True).returncode == 0
