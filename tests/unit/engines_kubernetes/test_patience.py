"""How long a task is waited for that does not begin."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from clusters.engines.kubernetes.config import KubernetesConfig
from clusters.engines.kubernetes.patience import Patience
from clusters.engines.kubernetes.states import Trouble

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
DENIED = Trouble("image_denied", "401 Unauthorized")
REPEATED = Trouble("image_unreachable", "Back-off pulling image", repeats=True)


@pytest.fixture
def patience() -> Patience:
    return Patience(KubernetesConfig("c", image_patience_seconds=60.0, unschedulable_patience_seconds=300.0))


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def test_an_image_is_waited_for_from_its_first_failed_pull(patience: Patience) -> None:
    assert patience.find_lasting("u", DENIED, NOW) is None
    assert patience.find_lasting("u", DENIED, later(60)) is None
    assert patience.find_lasting("u", DENIED, later(61)) == DENIED


def test_a_kubelet_that_waits_repeats_what_was_told(patience: Patience) -> None:
    """Those before 1.32 say only that they wait."""
    patience.find_lasting("u", DENIED, NOW)
    patience.find_lasting("u", REPEATED, later(5))
    assert patience.find_lasting("u", REPEATED, later(61)) == DENIED
    assert patience.find_lasting("u", Trouble("image_unreachable", "EOF"), later(62)) == Trouble("image_unreachable", "EOF")


def test_what_never_will_be_is_not_waited_for(patience: Patience) -> None:
    never = Trouble("workload_invalid", "InvalidImageName", at_once=True)
    assert patience.find_lasting("u", never, NOW) == never


def test_a_place_is_waited_for_as_long_as_the_cluster_says_that_there_is_none(patience: Patience) -> None:
    unplaced = Trouble("unschedulable", "0/3 nodes", since=NOW - timedelta(seconds=240))
    assert patience.find_lasting("u", unplaced, later(60)) is None
    assert patience.find_lasting("u", unplaced, later(61)) == unplaced


def test_pods_that_are_gone_are_forgotten(patience: Patience) -> None:
    patience.find_lasting("u", DENIED, NOW)
    patience.keep({"other"})
    assert patience.find_lasting("u", DENIED, later(61)) is None
