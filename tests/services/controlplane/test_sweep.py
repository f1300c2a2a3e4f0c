"""The sweep finds whatever was left behind; a part that fails keeps no other from running."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from controlplane import sweep as sweeping
from controlplane.sweep import PARTS, sweep
from kernel.clock import database_now
from tests.factories.tenants import Cast

pytestmark = pytest.mark.database


class Logged:
    def __init__(self) -> None:
        self.entries: list[tuple[str, str, dict[str, Any]]] = []

    def __getattr__(self, level: str) -> Any:
        return lambda event, **facts: self.entries.append((level, event, facts))


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> Logged:
    made = Logged()
    monkeypatch.setattr(sweeping, "log", made)
    return made


def test_every_part_runs_on_a_quiet_platform_and_has_nothing_to_do(cast: Cast, logged: Logged) -> None:
    now = database_now()
    sweep(now)
    logged.entries.clear()
    sweep(now)
    assert logged.entries == []
    assert {name: part(now) for name, part in PARTS.items()} == dict.fromkeys(PARTS, 0)


def test_a_part_that_fails_is_logged_and_the_others_run(db: None, logged: Logged, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def part(name: str, done: int) -> Any:
        def run(now: datetime) -> int:
            ran.append(name)
            if name == "bad":
                raise RuntimeError("broken")
            return done

        return run

    monkeypatch.setattr(sweeping, "PARTS", {name: part(name, done) for name, done in (("one", 0), ("bad", 0), ("other", 3))})
    sweep(database_now())
    assert ran == ["one", "bad", "other"]
    assert logged.entries == [
        ("exception", "sweep_part_failed", {"part": "bad"}),
        ("info", "swept", {"part": "other", "done": 3}),
    ]
