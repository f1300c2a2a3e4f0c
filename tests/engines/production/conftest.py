"""The production profile as one platform for this folder's tests. It needs servers: there is no such thing on SQLite."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.builders.live import LivePlatform, running_platform

HAS_SERVERS = bool(os.environ.get("BERTH_DATABASE_URL") and os.environ.get("BERTH_REDIS_URL"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "engines/production" in item.path.as_posix():
            item.add_marker(pytest.mark.engines)
            item.add_marker(pytest.mark.alone)
            if not HAS_SERVERS:
                item.add_marker(pytest.mark.skip(reason="the production profile needs PostgreSQL and Redis"))


@pytest.fixture(scope="module")
def production() -> Iterator[LivePlatform]:
    """Two of each process."""
    with running_platform(BERTH_SERVER_PROFILE="production") as platform:
        yield platform
