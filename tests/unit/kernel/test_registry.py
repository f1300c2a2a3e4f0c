"""Registries that apps fill at start: what comes twice, says too little or comes late stops the start."""

from __future__ import annotations

import pytest

from kernel.registry import Registry, WiringError


def lengths() -> Registry[str]:
    return Registry("length", missing=lambda name, entry: "" if entry else "it has no text")


def test_entries_stand_in_the_order_in_which_they_came() -> None:
    registry = lengths()
    registry.add({"b": "bee", "a": "ay"}.items())
    registry.add([("c", "sea")])
    assert list(registry) == ["b", "a", "c"]
    assert (len(registry), registry["a"], "d" in registry) == (3, "ay", False)


def test_entries_of_an_app_may_stand_before_the_others() -> None:
    registry = lengths()
    registry.add([("a", "ay")])
    registry.add([("b", "bee"), ("c", "sea")], first=True)
    assert list(registry) == ["b", "c", "a"]


@pytest.mark.parametrize("first", [False, True])
def test_a_name_that_comes_twice_is_refused(first: bool) -> None:
    registry = lengths()
    registry.add([("a", "ay")])
    with pytest.raises(WiringError, match="length a: it is registered twice"):
        registry.add([("b", "bee"), ("a", "other")], first=first)
    with pytest.raises(WiringError, match="length c: it is registered twice"):
        lengths().add([("c", "sea"), ("c", "see")], first=first)


def test_an_entry_that_says_too_little_is_refused() -> None:
    with pytest.raises(WiringError, match="length a: it has no text"):
        lengths().add([("a", "")])


def test_an_entry_that_comes_after_all_were_read_is_refused() -> None:
    registry = lengths()
    registry.close()
    with pytest.raises(WiringError, match="length a: it was registered after all were read"):
        registry.add([("a", "ay")])
