"""A host with two tenants, Alice's and Carol's, on the local engine with and without bubblewrap. Needs root."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusters.engines.local.sandbox import bubblewrap
from tests.builders.prepared import short_folder
from tests.contract.engines.bench import Bench, end_everything, local_bench, policy_of, running_launcher

ALICE, CAROL = 11, 12


@pytest.fixture
def data_dir() -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("tenants are kept apart by users only with root")
    directory = short_folder("engine")
    directory.chmod(0o711)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(params=["bubblewrap", "users only"])
def bench(request: pytest.FixtureRequest, data_dir: Path) -> Iterator[Bench]:
    sandboxed = request.param == "bubblewrap"
    if sandboxed and bubblewrap() is None:
        pytest.skip("bubblewrap does not work here")
    with running_launcher(data_dir) as launcher:
        opened = local_bench(request.param, data_dir, launcher, use_bubblewrap=sandboxed)
        try:
            yield opened
        finally:
            opened.close()
            end_everything(data_dir, launcher)


@pytest.fixture
def policy(data_dir: Path) -> object:
    return policy_of(data_dir)
