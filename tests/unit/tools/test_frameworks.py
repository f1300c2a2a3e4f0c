"""How `python -m tools.frameworks` makes environments, and when it does not: with a Python that takes notes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders import frameworks as builder
from tools import frameworks
from tools.frameworks import FRAMEWORKS, MARK, REQUIREMENTS, Environments, make_movable
from tools.progress import Stop, Told

PYTHON = """#!/bin/sh
echo "$(nice) $*" >>{notes}
if [ "$2" = venv ]; then
  mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; exit
fi
case "$*" in *{broken}.txt) echo "looking"; echo "no such package"; exit 1 ;; esac
folder=$(dirname "$0")
printf '#!%s/python\\nprint(1)\\n' "$folder" >"$folder/program"
"""


def environments_in(place: Path, monkeypatch: pytest.MonkeyPatch, *, broken: str = "nothing") -> Environments:
    """With a file of requirements for each framework, and a Python that cannot install those of `broken`."""
    requirements = place / "requirements"
    requirements.mkdir()
    for name, framework in FRAMEWORKS.items():
        (requirements / f"{name}.txt").write_text(f"{framework.package}==1.0\n")
    python = place / "python"
    python.write_text(PYTHON.format(notes=place / "notes", broken=broken))
    python.chmod(0o755)
    monkeypatch.setattr(frameworks, "_base_interpreter", lambda: str(python))
    return Environments(place / "made", requirements)


def test_each_environment_is_made_once_at_the_lowest_priority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environments = environments_in(tmp_path, monkeypatch)

    assert environments.missing() == list(FRAMEWORKS)
    assert environments.make() == {}
    assert environments.missing() == []
    calls = (tmp_path / "notes").read_text().splitlines()
    assert len(calls) == 2 * len(FRAMEWORKS)
    assert {call.split()[0] for call in calls} == {"19"}
    (tmp_path / "notes").unlink()
    assert environments.make() == {}
    assert not (tmp_path / "notes").exists()


def test_one_that_cannot_be_installed_says_what_pip_said_and_the_rest_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environments = environments_in(tmp_path, monkeypatch, broken="ray")

    assert environments.make() == {"ray": "ray cannot be installed; pip said last:\n  looking\n  no such package"}
    assert environments.missing() == ["ray"]
    assert not environments.path("ray").exists(), "nothing half made is left"


def test_what_was_half_made_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environments = environments_in(tmp_path, monkeypatch)
    left = environments.path("dask") / "bin" / "left"
    left.parent.mkdir(parents=True)
    left.write_text("")

    assert environments.make(["dask"]) == {}
    assert not left.exists()
    assert environments.missing(["dask"]) == []


def test_a_run_waits_for_another_one_and_takes_what_that_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environments = environments_in(tmp_path, monkeypatch)
    environments.folder.mkdir()
    is_told = threading.Event()

    @contextlib.contextmanager
    def step(name: str) -> Iterator[Told]:
        is_told.set()
        yield Told()

    monkeypatch.setattr(frameworks, "step", step)
    with (environments.folder / "dask.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = threading.Thread(target=environments.make, args=[["dask"]])
        waiting.start()
        assert is_told.wait(30), "it says that it waits"
        environments.path("dask").mkdir()
        (environments.path("dask") / MARK).write_text("")
    waiting.join(30)

    assert not waiting.is_alive()
    assert not (tmp_path / "notes").exists()


def test_other_packages_are_another_environment_and_other_words_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environments = environments_in(tmp_path, monkeypatch)
    before, file = environments.path("ray"), environments.requirements / "ray.txt"
    file.write_text("# Why.\nray==1.0\n")
    assert environments.path("ray") == before
    file.write_text("ray==1.1\n")
    assert environments.path("ray") != before


def test_a_program_runs_the_python_beside_it_wherever_its_folder_is(tmp_path: Path) -> None:
    programs = tmp_path / "made" / "bin"
    programs.mkdir(parents=True)
    (programs / "python3").write_text('#!/bin/sh\necho "$0" "$2"\n')
    (programs / "program").write_text(f"#!{programs}/python\nprint(1)\n")
    for path in programs.iterdir():
        path.chmod(0o755)
    (programs / "script").write_text("#!/bin/sh\n")
    make_movable(programs)
    moved = (tmp_path / "made").rename(tmp_path / "moved")

    command = [str(moved / "bin" / "program"), "two words"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == f"{moved}/bin/python3 two words\n"
    assert (moved / "bin" / "script").read_text() == "#!/bin/sh\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="Only root's jobs run as other users.")
def test_a_python_that_other_users_cannot_reach_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    shutil.copy("/bin/true", closed / "python")
    closed.chmod(0o700)
    monkeypatch.setattr(sys, "_base_executable", str(closed / "python"))

    with pytest.raises(Stop, match=f"cannot use {closed}/python: {closed} is closed to them"):
        Environments(tmp_path / "made").make()


def test_every_package_of_every_framework_is_pinned() -> None:
    assert sorted(path.stem for path in REQUIREMENTS.iterdir()) == sorted(FRAMEWORKS)
    for name in FRAMEWORKS:
        lines = (REQUIREMENTS / f"{name}.txt").read_text().splitlines()
        assert not [line for line in lines if line.count("==") != 1 and not line.startswith("#")]
        assert Environments.cached().version(name)


@pytest.mark.parametrize(("ci", "outcome"), [("", pytest.skip.Exception), ("1", pytest.fail.Exception)])
def test_a_test_without_its_environment_is_skipped_and_fails_where_all_have_to_be_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ci: str, outcome: type[BaseException]
) -> None:
    monkeypatch.setenv("BERTH_CACHE", str(tmp_path))
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(builder, "is_namespace_possible", lambda: True)

    with pytest.raises(outcome, match=r"The environment of dask is not there. `python -m tools.frameworks dask` makes it"):
        builder.framework_path("dask")
