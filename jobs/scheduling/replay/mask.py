"""A window without names: for a file that leaves the house.

Every identifier and every text that is not a word of the scheduler itself is replaced by a number, equal ones by equal ones. The
numbers keep the order of what they stand for, because ties are broken by it: so the masked window is decided exactly like the
other. Amounts, times, priorities, GPU models and shapes stay, for they are what a schedule is about.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from jobs.scheduling.core.place.filters import FILTERS
from jobs.scheduling.core.place.gangs import PACK, SPREAD
from jobs.scheduling.core.place.scores import POLICIES, TERMS, Mix, PoolRules
from jobs.scheduling.core.snapshot import State
from jobs.scheduling.replay.trace import Past
from kernel.resources import RESOURCE_NAMES

WORDS = frozenset({"", PACK, SPREAD, *PoolRules().levels, *POLICIES, *TERMS, *FILTERS, *RESOURCE_NAMES})
MEANINGS = frozenset({"code", "model", "models", "policy"})  # Fields whose texts say what something is, and not whose.


def masked(past: Past) -> Past:
    """The same window with made-up names."""
    mask = Mask((past.state, past.entries, past.runs, past.edits, past.new_machines))
    names = tuple(f"queue-{number}" if number else "root" for number in range(len(past.names)))
    state: State = mask.of(past.state)
    pools = tuple(replace(pool, name=f"pool-{number}") for number, pool in enumerate(state.pools))
    return replace(
        past,
        state=replace(state, pools=pools),
        names=names,
        entries=mask.of(past.entries),
        runs=mask.of(past.runs),
        edits=mask.of(past.edits),
        new_machines=mask.of(past.new_machines),
        is_masked=True,
    )


class Mask:
    """Stands in for all identifiers and texts that are found in a value."""

    def __init__(self, value: Any) -> None:
        texts: set[str] = set()
        identifiers: set[uuid.UUID] = set()
        for one in _leaves(value, ""):
            (identifiers if isinstance(one, uuid.UUID) else texts).add(one)
        self._texts = {one: f"x{number:07}" for number, one in enumerate(sorted(texts))}
        self._identifiers = {one: uuid.UUID(int=number + 1) for number, one in enumerate(sorted(identifiers))}

    def of(self, value: Any, field: str = "") -> Any:
        """The same value with everything replaced."""
        if isinstance(value, uuid.UUID):
            return self._identifiers[value]
        if isinstance(value, str):
            return value if value in WORDS or field in MEANINGS else self._texts[value]
        if isinstance(value, Mix) or value is None or isinstance(value, int):
            return value
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            changed = {one.name: self.of(getattr(value, one.name), one.name) for one in dataclasses.fields(value)}
            return type(value)(**changed)
        if isinstance(value, Mapping):
            return {self.of(key, field): self.of(one, field) for key, one in value.items()}
        if isinstance(value, frozenset):
            return frozenset(self.of(one, field) for one in value)
        if hasattr(value, "_fields"):
            return type(value)(*(self.of(getattr(value, name), name) for name in value._fields))
        return tuple(self.of(one, field) for one in value)


def _leaves(value: Any, field: str) -> Iterator[Any]:
    """All identifiers and texts that have to go."""
    if isinstance(value, str):
        if value not in WORDS and field not in MEANINGS:
            yield value
    elif isinstance(value, uuid.UUID):
        yield value
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for one in dataclasses.fields(value):
            yield from _leaves(getattr(value, one.name), one.name)
    elif hasattr(value, "_fields"):
        for name in value._fields:
            yield from _leaves(getattr(value, name), name)
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from _leaves(key, field)
            yield from _leaves(one, field)
    elif isinstance(value, Iterable) and not isinstance(value, Mix):
        for one in value:
            yield from _leaves(one, field)
