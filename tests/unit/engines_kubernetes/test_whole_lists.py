"""Whole lists: at every look where they are quick, beside the looks where they are not."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime

import pytest

from clusters.engines.interface import EngineUnreachable
from clusters.engines.kubernetes import whole_lists
from clusters.engines.kubernetes.cache import Cache
from clusters.engines.kubernetes.whole_lists import Lists, WholeLists
from tests.unit.engines_kubernetes.test_api import Answer, Server
from tests.unit.engines_kubernetes.test_cache import cache_of, listing

PATIENCE_SECONDS = 10.0


class SlowCache(Cache):
    """One of which every list takes two seconds, as it says."""

    def is_list_quick(self) -> bool:
        return self._listed_at == 0

    def relist(self) -> int:
        version = super().relist()
        self._list_seconds = 2.0
        return version


def slow(*answers: Answer | OSError, listed_seconds_ago: float) -> SlowCache:
    """A copy whose last list was so long ago."""
    cache = SlowCache(Server(*answers).api(), "/x", "a=b")
    cache.relist()
    cache._listed_at = time.monotonic() - listed_seconds_ago
    return cache


def heard_of(cache: Cache) -> Cache:
    """As one that was listed and is followed."""
    cache._listed_at = cache._heard_at = time.monotonic()
    return cache


def taken(lists: WholeLists) -> Lists | None:
    """What there is once the thread that makes lists has ended."""
    assert lists.take() is None
    if (thread := lists._thread) is not None:  # It may have ended already.
        thread.join(PATIENCE_SECONDS)
    return lists.take()


def test_quick_lists_are_made_at_every_look() -> None:
    gates, pods = cache_of(listing(1), listing(3)), cache_of(listing(2), listing(4))
    lists, before = WholeLists(gates, pods), datetime.now(UTC)
    first, second = lists.take(), lists.take()
    assert first is not None
    assert second is not None
    assert (first.gate_version, second.gate_version) == (1, 3)
    assert before <= first.read_at <= second.read_at


def test_slow_lists_are_made_beside_the_looks() -> None:
    lists = WholeLists(heard_of(cache_of(listing(5))), slow(listing(2), listing(6), listed_seconds_ago=60.0))
    before = datetime.now(UTC)
    found = taken(lists)
    assert found is not None
    assert found.gate_version == 5
    assert before <= found.read_at
    assert lists.take() is None


def test_slow_lists_take_a_twentieth_of_the_time() -> None:
    lists = WholeLists(heard_of(cache_of()), slow(listing(2), listed_seconds_ago=30.0))
    assert lists.take() is None
    assert lists._thread is None


def test_lists_are_made_one_at_a_time() -> None:
    lists = WholeLists(heard_of(cache_of()), slow(listing(2), listed_seconds_ago=60.0))
    lists._thread = thread = threading.Thread()
    assert lists.take() is None
    assert lists._thread is thread


def test_looks_go_on_where_slow_lists_fail_and_the_next_are_made_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_lists, "_PAUSE", 1e6)
    broken = slow(listing(2), OSError("gone"), OSError("gone"), listed_seconds_ago=60.0)
    lists = WholeLists(heard_of(cache_of(listing(5))), broken)
    assert taken(lists) is None
    assert lists.take() is None
    assert lists._thread is None


def test_a_copy_that_is_not_kept_up_has_a_list_or_no_answer() -> None:
    broken = slow(listing(2), OSError("gone"), OSError("gone"), listed_seconds_ago=1.0)
    broken._heard_at = time.monotonic() - 1_000.0
    with pytest.raises(EngineUnreachable):
        WholeLists(heard_of(cache_of(listing(5))), broken).take()


def test_a_copy_that_was_not_heard_of_is_listed_at_once() -> None:
    silent = slow(listing(2), listing(6), listed_seconds_ago=1.0)
    silent._heard_at = time.monotonic() - 1_000.0
    assert WholeLists(heard_of(cache_of(listing(5))), silent).take() is not None
