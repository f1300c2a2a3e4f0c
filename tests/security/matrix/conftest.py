"""What all parts of the matrix start from: one world for each module, and quiet, unthrottled requests."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction
from structlog.testing import capture_logs

from tests.security.matrix.world import World, make_world


@pytest.fixture(scope="module")
def world(django_db_setup: None, django_db_blocker: Any) -> Iterator[World]:
    """One world for all cells, thrown away with its transaction; what a cell changes is undone after it."""
    with django_db_blocker.unblock():
        block = transaction.atomic()
        block.__enter__()
        try:
            yield make_world()
        finally:
            transaction.set_rollback(True)
            block.__exit__(None, None, None)


@pytest.fixture
def quick(configure: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No throttle, and no printing of the tracebacks that a broken cell leaves. Tries of passwords and codes are counted by this
    process: in Redis those of the loopback would add up from one test to the next."""
    from webapi import throttles

    configure(requests_per_minute=0)
    monkeypatch.setattr(throttles, "_redis_rests_until", math.inf)
    with capture_logs():
        yield
