"""One platform for all tests of frameworks, whose jobs see their environments."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.frameworks import is_namespace_possible, through_namespace
from tests.builders.live import LivePlatform, package_index, running_platform


@pytest.fixture(scope="session")
def live_platform(wheels: Path) -> Iterator[LivePlatform]:
    """It is the only one of its stage: the programs of the frameworks take what memory there is."""
    through = through_namespace() if is_namespace_possible() else ()
    with (
        package_index(wheels) as settings,
        running_platform(through=through, BERTH_LOCAL_SIMULATED_GPUS="4xSIM", **settings) as platform,
    ):
        yield platform
