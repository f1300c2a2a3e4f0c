"""What apps say of themselves at start, by name: a layer keeps a registry, and the apps above it fill it from their `wiring.py`.

A name that comes twice, an entry that says too little, and one that comes after the registry was read stop the start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

T = TypeVar("T")


class WiringError(Exception):
    """An app registers something that cannot stand: a mistake of ours, found at start."""


class Registry(Mapping[str, T], Generic[T]):
    """Entries by name, in the order in which they came. `missing` says what an entry lacks; empty: it is complete."""

    def __init__(self, noun: str, *, missing: Callable[[str, T], str]) -> None:
        self._noun = noun
        self._missing = missing
        self._entries: dict[str, T] = {}
        self._is_closed = False

    def add(self, entries: Iterable[tuple[str, T]], *, first: bool = False) -> None:
        """Take up the entries of an app, behind those that are there or before them. Raises WiringError."""
        before = self._entries if first else {}
        self._entries = {} if first else self._entries
        for name, entry in entries:
            if self._is_closed:
                raise WiringError(f"{self._noun} {name}: it was registered after all were read")
            if name in self._entries or name in before:
                raise WiringError(f"{self._noun} {name}: it is registered twice")
            if lack := self._missing(name, entry):
                raise WiringError(f"{self._noun} {name}: {lack}")
            self._entries[name] = entry
        self._entries.update(before)

    def close(self) -> None:
        """Take nothing more: what is read now is kept elsewhere."""
        self._is_closed = True

    def __getitem__(self, name: str) -> T:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
