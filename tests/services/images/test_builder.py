"""The plan of a build, and the script that carries it out: for real, with packages made here and no network."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tarfile
import uuid
from pathlib import Path

import pytest

from clusters.engines.interface import FileOf
from images.builder import SCRIPT, HostOffer, HostPython, find_python, pack_pip, pip_settings, plan_build
from tests.factories.images import a_wheel

PYTHON = HostPython("/usr/bin/python3", "3.11.2", "linux-x86_64")


def test_a_plan_is_a_pure_value():
    offer = HostOffer(PYTHON, settings={"PIP_INDEX_URL": "https://index.example.org/simple"})
    plan = plan_build("numpy\n", request_id=uuid.UUID(int=1), location="/data/images/1/abc", offer=offer)
    assert plan == plan_build("numpy\n", request_id=uuid.UUID(int=1), location="/data/images/1/abc", offer=offer)
    assert plan.main.argv == (
        ("/bin/sh",),
        (FileOf("build.sh"),),
        ("/data/images/1/abc",),
        ("/usr/bin/python3",),
        (FileOf("requirements.txt"),),
    )
    assert plan.main.env["PIP_INDEX_URL"] == ("https://index.example.org/simple",)
    assert plan.files["requirements.txt"] == ("numpy\n",)
    assert plan.files["build.sh"] == (SCRIPT.read_text(),)
    assert plan.network


def test_only_settings_for_pip_are_passed_on(tmp_path):
    environment = {"PIP_INDEX_URL": "https://a", "AWS_SECRET": "x", "BERTH_SECRET_KEY": "x", "https_proxy": "p", "PIP_CERT": ""}
    assert pip_settings(environment, home=tmp_path) == {"PIP_INDEX_URL": "https://a", "https_proxy": "p"}


def test_the_servers_own_pip_conf_counts_after_its_environment(tmp_path):
    (tmp_path / ".config/pip").mkdir(parents=True)
    (tmp_path / ".config/pip/pip.conf").write_text(
        "[global]\nindex-url = https://b\ntrusted-host =\n  one\n  two\nno-color = 1\n[install]\nextra-index-url = https://c\n"
    )
    found = pip_settings({"PIP_INDEX_URL": "https://a"}, home=tmp_path)
    assert found["PIP_INDEX_URL"] == "https://a"
    assert found["PIP_EXTRA_INDEX_URL"] == "https://c"
    assert found["PIP_TRUSTED_HOST"] == "one two"
    assert "PIP_NO_COLOR" not in found


def test_a_broken_pip_conf_breaks_no_build(tmp_path):
    (tmp_path / ".pip").mkdir()
    (tmp_path / ".pip/pip.conf").write_bytes(b"\xff not ini [")
    assert pip_settings({}, home=tmp_path) == {}


def test_pip_is_packed_once_and_always_the_same(tmp_path):
    packed = pack_pip(tmp_path / "tools")
    assert packed is not None
    assert pack_pip(tmp_path / "tools") == packed
    assert os.listdir(tmp_path / "tools") == [Path(packed.location).name]
    with tarfile.open(packed.location) as archive:
        names = archive.getnames()
    assert "pip-bundle/pip/__main__.py" in names
    assert all(name.startswith("pip-bundle/pip/") and not name.endswith(".pyc") for name in names)


def test_the_interpreter_is_one_that_everybody_may_run():
    found = find_python()
    assert Path(found.path).stat().st_mode & 0o001
    assert found.version.startswith("3.")


class Building:
    """Runs the script as the engine does: in an empty directory, as a user without rights where we are root."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.location, self.work, self.wheels = folder / "image", folder / "work", folder / "wheels"
        for place in (self.location, self.work, self.wheels):
            place.mkdir()
        self.user = ["setpriv", "--reuid=200001", "--regid=200001", "--clear-groups"] if os.geteuid() == 0 else []
        if self.user:
            for place in (self.location, self.work):
                os.chown(place, 200_001, 200_001)

    def unpack_pip(self) -> None:
        packed = pack_pip(self.folder / "tools")
        assert packed is not None
        with tarfile.open(packed.location) as archive:
            archive.extractall(self.work)

    def run(self, requirements: str, **env: str) -> subprocess.CompletedProcess[str]:
        script, listed = self.folder / "build.sh", self.folder / "requirements.txt"
        script.write_text(SCRIPT.read_text())
        listed.write_text(requirements)
        return subprocess.run(
            [*self.user, "/bin/sh", str(script), str(self.location), find_python().path, str(listed)],
            cwd=self.work,
            env={
                "PATH": "/usr/local/bin:/usr/bin:/bin",
                "HOME": str(self.work),
                "TMPDIR": str(self.work),
                "PIP_NO_INDEX": "1",
                "PIP_FIND_LINKS": str(self.wheels),
                **env,
            },
            capture_output=True,
            text=True,
            timeout=100,
        )


@pytest.fixture
def building(data_dir) -> Building:
    """Below the data directory, which other users may pass through; pytest closes its own."""
    folder = data_dir / f"build-{uuid.uuid4().hex[:8]}"
    folder.mkdir(mode=0o755)
    return Building(folder)


@pytest.mark.engines
def test_an_environment_is_built_at_its_place_with_its_list_of_packages(building):
    building.unpack_pip()
    a_wheel(building.wheels, "alpha", "1.5", requires=("beta>=2",))
    a_wheel(building.wheels, "beta", "2.1")
    done = building.run("alpha\n")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line[:5] for line in done.stdout.splitlines() if line.startswith("[")] == [f"[{step}/5]" for step in range(1, 6)]
    assert "Installing collected packages: beta, alpha" in done.stdout
    assert re.fullmatch(r"Done: 2 packages, [0-9]+ MiB, Python 3\.[0-9.]+\.", done.stdout.splitlines()[-1])
    manifest = json.loads((building.location / "berth-image.json").read_text())
    assert manifest["packages"] == [{"name": "alpha", "version": "1.5"}, {"name": "beta", "version": "2.1"}]
    assert manifest["size_bytes"] > 0
    inside = subprocess.run(
        [building.location / "bin/python", "-c", "import alpha, beta, sys; print(alpha.VERSION, sys.prefix)"],
        capture_output=True,
        text=True,
    )
    assert inside.stdout.split() == ["1.5", str(building.location)]


@pytest.mark.engines
def test_a_build_that_is_started_again_begins_anew(building):
    building.unpack_pip()
    a_wheel(building.wheels, "alpha")
    for name in ("half", ".hidden"):
        (building.location / name).write_text("left by a build that died")
    assert building.run("alpha\n").returncode == 0
    assert not (building.location / "half").exists()
    assert not (building.location / ".hidden").exists()


@pytest.mark.engines
def test_a_package_that_does_not_exist_fails_with_pips_own_words(building):
    building.unpack_pip()
    done = building.run("no-such-package\n")
    assert done.returncode == 1
    assert "no-such-package" in done.stdout + done.stderr
    assert "The image was not built" in done.stderr
    assert not (building.location / "berth-image.json").exists()


@pytest.mark.engines
def test_a_wrong_hash_is_refused(building):
    building.unpack_pip()
    a_wheel(building.wheels, "alpha")
    done = building.run(f"alpha==1.0 --hash=sha256:{'0' * 64}\n")
    assert done.returncode == 1
    assert "every file checked against its hash" in done.stdout


@pytest.mark.engines
def test_without_a_packed_pip_the_hosts_own_tools_are_used_or_named(building):
    a_wheel(building.wheels, "alpha")
    done = building.run("alpha\n")
    if done.returncode:
        assert done.returncode == 69
        assert "ask an operator" in done.stderr
    else:
        assert (building.location / "berth-image.json").exists()


@pytest.mark.engines
def test_wrong_arguments_are_told(building):
    done = subprocess.run(["/bin/sh", SCRIPT, "one"], capture_output=True, text=True)
    assert (done.returncode, done.stderr.startswith("usage:")) == (64, True)
    building.location.rmdir()
    assert building.run("alpha\n").returncode == 73
