"""A stub server, a client on it, and a command line on it; nothing of the user's own configuration."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import CliRunner, Result


def _loaded(name: str, file: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(file))
    assert spec
    assert spec.loader
    module = sys.modules.setdefault(name, importlib.util.module_from_spec(spec))
    spec.loader.exec_module(module)
    return module


_loaded("client_stub_rows", "client_stub_rows.py")  # Which the other imports.
stub_module = _loaded("client_stub", "stub.py")


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Configuration, cache and language of these tests alone."""
    for name in ("BERTH_SERVER", "BERTH_TOKEN", "BERTH_TENANT", "BERTH_PROFILE", "BERTH_CONFIG", "FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("BERTH_LANG", "en")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return tmp_path


@pytest.fixture
def stub() -> Any:
    return stub_module.Stub()


@pytest.fixture
def naps() -> list[float]:
    """How long the client would have slept, each time."""
    return []


@pytest.fixture
def client(stub: Any, naps: list[float]) -> Iterator[Any]:
    import berth

    with berth.Client(stub_module.SERVER, stub_module.TOKEN, http=stub.transport(), sleep=naps.append) as connected:
        yield connected


@pytest.fixture
def run(stub: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run `berth ...` against the stub; gives exit code, stdout and stderr."""
    from berth import limits
    from berth.cli.command import Session
    from berth.cli.root import app

    monkeypatch.setattr(Session, "http", stub.transport())
    monkeypatch.setattr(limits, "BACKOFF_SECONDS", 0.0)
    monkeypatch.setattr(limits, "POLL_SECONDS", 0.0)
    monkeypatch.setenv("BERTH_SERVER", stub_module.SERVER)
    monkeypatch.setenv("BERTH_TOKEN", stub_module.TOKEN)

    def invoke(*words: str, **options: Any) -> Result:
        return CliRunner().invoke(app, list(words), prog_name="berth", catch_exceptions=False, **options)

    return invoke
