"""Machines on which Berth cannot start: each says why and what to do, with exit status 1 and nothing left running."""

from __future__ import annotations

import ast
import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
from collections import namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.tools.newcomer import Newcomer, a_newcomer
from tools import install
from tools.place import ROOT
from tools.progress import Stop

AS_ROOT = os.geteuid() == 0
OLD_PYTHON = "import sys, runpy; sys.version_info = (3, 9, 2, 'final', 0); sys.version = '3.9.2 (default)'; "


pytestmark = pytest.mark.engines


@pytest.fixture
def newcomer() -> Iterator[Newcomer]:
    with a_newcomer() as made:
        yield made


@contextlib.contextmanager
def mounted(folder: Path, options: str) -> Iterator[Path]:
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def can_mount() -> bool:
    if not AS_ROOT or not shutil.which("unshare"):
        return False
    probe = "mount -t tmpfs tmpfs /mnt"
    return subprocess.run(["unshare", "--mount", "sh", "-c", probe], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("port", ["0", "65536", "http", "-1", ""])
def test_what_is_no_port_is_refused(newcomer: Newcomer, port: str) -> None:
    done = newcomer.run("up", f"--port={port}")
    assert done.returncode == 1
    assert f"berth: {port!r} is not a port." in done.stderr
    assert not newcomer.data.exists()


def test_a_directory_that_cannot_be_made_is_named(newcomer: Newcomer) -> None:
    (newcomer.home / "file").write_text("")
    place = newcomer.home / "file" / "data"
    message = newcomer.refused(BERTH_DATA_DIR=str(place))
    assert f"berth: {place} cannot be used: Not a directory. Set BERTH_DATA_DIR to a directory of yours." in message


@pytest.mark.skipif(AS_ROOT, reason="root may write everywhere")
def test_a_directory_of_somebody_else_is_named(newcomer: Newcomer) -> None:
    newcomer.data.mkdir(mode=0o500)
    assert f"{newcomer.data} cannot be used: Permission denied." in newcomer.refused()


@pytest.mark.skipif(not can_mount(), reason="needs the right to mount")
def test_a_disk_that_is_read_only_is_named(newcomer: Newcomer) -> None:
    with mounted(newcomer.home / "disk", "ro") as disk:
        message = newcomer.refused(BERTH_DATA_DIR=str(disk / "data"))
    assert "cannot be used: Read-only file system." in message


@pytest.mark.skipif(not can_mount(), reason="needs the right to mount")
def test_a_small_disk_is_refused_with_both_sizes(newcomer: Newcomer) -> None:
    with mounted(newcomer.home / "disk", "size=64m,mode=755") as disk:
        message = newcomer.refused(BERTH_DATA_DIR=str(disk / "data"))
    assert "Only 64 MiB are free below" in message
    assert "a first start needs 3072 MiB. Free some space, or set BERTH_DATA_DIR to another disk." in message


def test_a_full_disk_is_refused_before_anything_is_installed(newcomer: Newcomer, monkeypatch: pytest.MonkeyPatch) -> None:
    Usage = namedtuple("Usage", "total used free")
    monkeypatch.setattr(install.shutil, "disk_usage", lambda path: Usage(10, 10, 5 * 1024**2))
    with pytest.raises(Stop, match=r"Only 5 MiB are free below .*; a first start needs 3072 MiB"):
        install.make_data_directory(newcomer.place)


@pytest.mark.skipif(not AS_ROOT, reason="only root's platform becomes another user")
def test_a_directory_that_the_platforms_user_cannot_reach_is_refused(newcomer: Newcomer) -> None:
    newcomer.home.chmod(0o700)
    message = newcomer.refused(BERTH_DATA_DIR=str(newcomer.home / "data"))
    assert f"berth: {newcomer.home} is closed to other users, and the platform, whose user is berth, needs" in message
    assert "for example /var/lib/berth" in message


def test_an_environment_that_is_none_is_refused(newcomer: Newcomer) -> None:
    message = newcomer.refused(BERTH_ENVIRONMENT=str(newcomer.home))
    assert f"BERTH_ENVIRONMENT={newcomer.home} is not a Python environment." in message


def test_a_second_up_at_the_same_time_is_refused(newcomer: Newcomer) -> None:
    (newcomer.data / "release").mkdir(parents=True)
    with (newcomer.data / "release" / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert f"another `make up` is at work on {newcomer.data}." in newcomer.refused()


# --- Python -----------------------------------------------------------------------------------------------------------


def test_an_old_python_is_told_what_is_needed() -> None:
    program = OLD_PYTHON + f"runpy.run_path({str(ROOT / 'tools' / 'up.py')!r}, run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", program, "up"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        f"\nberth: Python 3.11 or 3.12 is needed; {sys.executable} is 3.9.2. On Debian 12: apt-get install python3\n"
    )


@pytest.mark.parametrize("name", ["up", "place", "install", "progress", "__init__", "test"])
def test_an_old_python_can_read_what_it_is_told_by(name: str) -> None:
    ast.parse((ROOT / "tools" / f"{name}.py").read_text(), feature_version=(3, 8))


@pytest.fixture
def pythons(tmp_path: Path) -> Callable[..., str]:
    """Programs that say which Python they are: `pythons("3.9", "3.11")` gives their paths, with a space between."""

    def make(*versions: str) -> str:
        paths = []
        for number, version in enumerate(versions):
            path = tmp_path / f"python-{number}"
            path.write_text(f"#!/bin/sh\necho {version}\n" if version else "#!/bin/sh\nexit 1\n")
            path.chmod(0o755)
            paths.append(str(path))
        return " ".join(paths)

    return make


def find_python(candidates: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "BERTH_PYTHONS": candidates}
    command = ["sh", str(ROOT / "tools" / "find-python")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_the_first_python_that_fits_is_taken(pythons: Callable[..., str]) -> None:
    candidates = pythons("3.9", "", "3.12", "3.11")
    done = find_python(f"/nowhere/python {candidates}")
    assert (done.returncode, done.stdout, done.stderr) == (0, candidates.split()[2] + "\n", "")


def test_without_a_python_that_fits_all_that_were_found_are_named_once(pythons: Callable[..., str]) -> None:
    candidates = pythons("3.9", "3.13")
    old, new = candidates.split()
    done = find_python(f"{candidates} {old}")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"Berth needs Python 3.11 or 3.12; found: {old} (3.9) {new} (3.13). On Debian 12: apt-get install python3 python3-venv\n"
    )
    assert "found: none." in find_python("/nowhere/python").stderr


def test_make_ends_there_when_no_python_fits(pythons: Callable[..., str]) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "BERTH_PYTHONS": pythons("3.9")}
    done = subprocess.run(["make", "up"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Berth needs Python 3.11 or 3.12; found:" in done.stderr


def test_make_alone_lists_its_targets() -> None:
    done = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    words = [line.split()[:2] for line in done.stdout.splitlines()]
    assert [["make", name] for name in ("up", "down", "example", "status", "test", "lint")] == [
        word for word in words if word[1] in {"up", "down", "example", "status", "test", "lint"}
    ]


# --- Installing -------------------------------------------------------------------------------------------------------


@pytest.fixture
def source(newcomer: Newcomer, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose lock names nothing, so that its environment is made in seconds."""
    folder = newcomer.home / "checkout"
    folder.mkdir()
    (folder / "requirements.lock").write_text("# Nothing.\n")
    monkeypatch.setattr("tools.place.ROOT", folder)
    return folder


def test_an_interrupted_installation_is_begun_anew(newcomer: Newcomer, source: Path) -> None:
    place = newcomer.place
    place.python.parent.mkdir(parents=True)
    place.python.write_text("half a file")
    leftover = place.environment / "leftover"
    leftover.write_text("")
    assert install.make_environment(place)
    assert not leftover.exists()
    assert subprocess.run([str(place.python), "-c", "import pip"], check=False).returncode == 0
    assert not install.make_environment(place), "what is complete is left alone"


def test_an_installation_that_fails_says_so_and_is_not_taken_for_complete(newcomer: Newcomer, source: Path) -> None:
    (source / "requirements.lock").write_text("no-such-package\n")  # Without a hash; pip refuses it before it asks anyone.
    with pytest.raises(Stop, match=r"The packages of requirements\.lock cannot be installed: .*said: .+"):
        install.make_environment(newcomer.place)
    assert not (newcomer.place.environment / "complete").exists()
