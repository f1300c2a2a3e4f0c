"""The engines under the contract, one after the other."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.prepared import short_folder
from tests.contract.engines.bench import ENGINES, Bench, open_bench


@pytest.fixture
def engine_dir() -> Iterator[Path]:
    """A data directory that tenants' tasks can pass through."""
    directory = short_folder("engine")
    directory.chmod(0o711)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(params=ENGINES)
def bench(request: pytest.FixtureRequest, engine_dir: Path) -> Iterator[Bench]:
    with open_bench(request.param, engine_dir) as opened:
        yield opened
