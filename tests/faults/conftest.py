"""A platform of its own: it dies all the time. Whoever talks to it asks again, as programs should."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.builders.live import LivePlatform, LiveUser, package_index, running_platform
from tests.builders.receiver import Receiver, receiving
from tests.faults.ground import Ground, broken_ground

DEATH_SECONDS = 60.0  # A loaded machine; an idle one needs a fraction of a second.


class Steadfast(LiveUser):
    """Asks again when the platform died under a request; has it started again then."""

    def __init__(self, platform: LivePlatform) -> None:
        super().__init__(platform, platform.token, tenant=platform.operator.tenant)
        self.deaths: list[int] = []

    def request(self, method: str, path: str, **options: Any) -> httpx2.Response:
        while True:
            try:
                return super().request(method, path, **options)
            except httpx2.TransportError:
                self.revive()

    def once(self, method: str, path: str, **options: Any) -> httpx2.Response | None:
        """One call that must not be repeated as it is; None when the platform died under it and was started again."""
        try:
            return super().request(method, path, **options)
        except httpx2.TransportError:
            self.revive()
            return None

    def revive(self) -> None:
        """Start the platform if it is dead; fails if it is not, because then nobody should have been cut off."""
        process = self.platform.process
        assert process is not None
        deadline = time.monotonic() + DEATH_SECONDS
        while process.poll() is None:
            assert time.monotonic() < deadline, f"a request was cut off by a platform that lives:\n{self.platform.log_tail()}"
            time.sleep(0.01)
        self.deaths.append(process.returncode)
        # A lease on deliveries lasts two minutes, because sending takes that long; let them pass.
        self.platform.execute("UPDATE activity_delivery SET lease_expires_at = NULL")
        self.platform.start()


@pytest.fixture(scope="module")
def live_platform(wheels: Path) -> Iterator[LivePlatform]:
    with package_index(wheels) as settings, running_platform(**settings) as platform:
        yield platform


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


@pytest.fixture(scope="module")
def whole_ground() -> Iterator[Ground]:
    """Made by whoever of a file needs it first. It starts a platform of many processes, which takes its time."""
    if not os.environ.get("BERTH_DATABASE_URL"):
        pytest.skip("runs once, in the stage with servers: it brings its own")
    with broken_ground() as made:
        yield made


@pytest.fixture
def ground(whole_ground: Ground) -> Iterator[Ground]:
    whole_ground.heal()
    yield whole_ground
    whole_ground.heal()


@pytest.fixture
def steadfast(live_platform: LivePlatform) -> Iterator[Steadfast]:
    if not live_platform.is_running:  # An earlier test failed in the middle.
        live_platform.start()
    user = Steadfast(live_platform)
    yield user
    with contextlib.suppress(OSError):
        live_platform.crash_at(None)
    user.close()
