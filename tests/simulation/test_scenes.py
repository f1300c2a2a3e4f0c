"""Each scene by itself: nothing may be wrong in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.simulation.scenes import SCENES, play


@pytest.fixture(autouse=True)
def _own_database(django_db_blocker: Any) -> Iterator[None]:
    with django_db_blocker.unblock():
        yield


PLAYED_ELSEWHERE = {"storm", "sieve"}


@pytest.mark.parametrize("scene", sorted(SCENES.keys() - PLAYED_ELSEWHERE))
def test_nothing_is_wrong_in_a_scene(scene: str) -> None:
    assert play(scene) == []
