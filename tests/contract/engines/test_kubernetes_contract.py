"""The contract on a real API server and a real kubelet: the tests of `test_engine_contract.py`, unchanged, on another bench."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.engines.bench import Bench, open_bench
from tests.contract.engines.test_engine_contract import *  # noqa: F403 - all of them
from tests.contract.engines.test_exec_contract import *  # noqa: F403 - all of them

pytestmark = pytest.mark.kubernetes


@pytest.fixture
def bench(engine_dir: Path) -> Iterator[Bench]:
    with open_bench("kubernetes", engine_dir) as opened:
        yield opened
