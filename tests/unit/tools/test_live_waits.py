"""How often a test looks while it waits for a live platform."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.builders import live


def test_a_long_wait_looks_less_often_and_ends_as_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[float] = []
    clock = SimpleNamespace(now=0.0)

    def sleep(seconds: float) -> None:
        clock.now += seconds

    def holds() -> bool:
        looks.append(clock.now)
        return clock.now >= 10.0

    monkeypatch.setattr(live, "time", SimpleNamespace(monotonic=lambda: clock.now, sleep=sleep))
    live.wait_until(holds, "ten seconds")

    assert looks[:8] == pytest.approx([0.05 * number for number in range(8)])
    assert len(looks) < 60
    assert looks[-1] <= 10.0 + live.POLL_SECONDS_MAX
