"""What a run left behind is found, told and removed: real processes, mounts and files."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools import remains

RUNS = "sh -c echo up; read word"


@pytest.fixture
def left(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that nothing but its environment ties to the folder."""
    command = RUNS.split(" ", 2)
    environment = {"DATA": f"{tmp_path}/data"}
    with subprocess.Popen(command, env=environment, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        yield process
        process.kill()


def test_what_is_left_is_found_and_removed(tmp_path: Path, left: subprocess.Popen[bytes]) -> None:
    (tmp_path / "reports").mkdir()
    (tmp_path / "live-1" / "data").mkdir(parents=True)
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp" / "key").write_text("secret")

    found = remains.find(tmp_path, expected=["reports"])
    assert (left.pid, RUNS) in found.processes
    assert found.files == ("live-1", "tmp/key")
    assert f"process {left.pid}: {RUNS}" in found.lines()

    remains.remove(tmp_path, remains.Remains(((left.pid, RUNS),), (), found.files))
    assert not remains.is_alive(left.pid)
    assert not tmp_path.exists()


def test_of_other_folders_nothing_is_said(tmp_path: Path, left: subprocess.Popen[bytes]) -> None:
    assert remains.find(tmp_path / "other", expected=[]) == remains.Remains()


def test_a_mount_is_undone_before_its_folder_goes(tmp_path: Path) -> None:
    folder, place = tmp_path / "run", tmp_path / "run" / "disk"
    place.mkdir(parents=True)
    if subprocess.run(["mount", "-t", "tmpfs", "none", str(place)], capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount")

    found = remains.find(folder, expected=[])
    assert found.mounts == (str(place),)
    remains.remove(folder, found)
    assert remains.find(folder, expected=[]).mounts == ()
