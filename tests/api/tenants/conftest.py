from __future__ import annotations

import math
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
import time_machine

if TYPE_CHECKING:
    from tests.factories.tenants import Cast


@pytest.fixture
def cast(db: None) -> Cast:
    """Alice manages, Bob belongs, Vera looks, Carol manages elsewhere, Otto operates."""
    from tests.factories.tenants import make_cast  # Only once Django is set up.

    return make_cast()


@pytest.fixture
def clock() -> Iterator[Any]:
    """Time that stands still, also the database's, five seconds into a half minute; `clock.shift(30)` moves it."""
    from kernel import clock as kernel_clock

    start = int(time.time()) // 30 * 30 + 5
    with time_machine.travel(start, tick=False) as traveller, kernel_clock.virtual(lambda: datetime.now(UTC)):
        yield traveller


@pytest.fixture(autouse=True)
def counted_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries are counted by this process: in Redis they would add up from one test to the next."""
    from webapi import throttles

    monkeypatch.setattr(throttles, "_redis_rests_until", math.inf)
