"""What tests of the running product need beside it."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import berth
from tests.builders.live import LivePlatform

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "digits" / "requirements.txt"


@pytest.fixture
def sdk(live_platform: LivePlatform, tmp_path: Path) -> Iterator[berth.Client]:
    """The Python SDK, signed in as the first operator."""
    tenant = live_platform.operator.tenant
    with berth.Client(live_platform.url, live_platform.token, tenant=tenant, config_path=tmp_path / "none.toml") as client:
        yield client


@pytest.fixture(scope="session")
def jax_requirement(wheels: Path) -> str:
    """What the example asks for of JAX. Its wheels are downloaded once and kept in the cache of the tests."""
    [requirement] = [line for line in EXAMPLE.read_text().splitlines() if line.startswith("jax==")]
    _offer(wheels, requirement)
    return requirement


@pytest.fixture(scope="session")
def example_requirements(wheels: Path) -> str:
    """All that the example asks for."""
    _offer(wheels, EXAMPLE.read_text())
    return EXAMPLE.read_text()


def _offer(wheels: Path, requirements: str) -> None:
    for wheel in _downloaded(requirements).glob("*.whl"):
        if not (wheels / wheel.name).exists():
            os.symlink(wheel, wheels / wheel.name)


def _downloaded(requirements: str) -> Path:
    default = "/var/cache/berth" if os.geteuid() == 0 else str(Path.home() / ".cache" / "berth")
    cache = Path(os.environ.get("BERTH_CACHE", default)) / "wheels"
    folder = cache / hashlib.sha256(f"{requirements} {sys.version}".encode()).hexdigest()[:12]
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(dir=cache))
        try:
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]
            subprocess.run([*pip, "--dest", str(part), *requirements.split()], check=True)
            part.rename(folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return folder
