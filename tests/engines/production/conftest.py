"""The production profile. It needs servers: there is no such thing on SQLite."""

from __future__ import annotations

import os

import pytest

HAS_SERVERS = bool(os.environ.get("BERTH_DATABASE_URL") and os.environ.get("BERTH_REDIS_URL"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "engines/production" in item.path.as_posix() and not HAS_SERVERS:
            item.add_marker(pytest.mark.skip(reason="the production profile needs PostgreSQL and Redis"))
