from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # This file is read before Django is set up; the factories need its models.
    from tests.factories.tenants import Cast


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """No heartbeat comes between two messages, however long a test takes; whoever wants one sets its time."""
    from activity import consumers
    from jobs.api import terminal

    for module in (consumers, terminal):
        monkeypatch.setattr(module, "HEARTBEAT_SECONDS", 3600.0)


@pytest.fixture
def cast(transactional_db: None) -> Iterator[Cast]:
    from activity.sequencer import sequence
    from tests.factories.activity import now, plain_channels
    from tests.factories.tenants import make_cast

    with plain_channels():
        cast = make_cast()
        sequence(now())  # What making them told is numbered before a test listens.
        yield cast
