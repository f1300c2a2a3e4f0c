"""A window without names, for a file that is given to people outside the installation.

Every identifier and every text that is not a word of the scheduler itself is replaced by a number, equal values by equal numbers.
The numbers keep the order of what they replace, because ties are broken by it: so the masked window is decided exactly like the
original. Amounts, times, priorities, GPU models and shapes stay, because the schedule depends on them.
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
MEANINGS = frozenset({"cause", "code", "model", "models", "policy", "what"})  # Fields whose texts name no person, job or place.


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
    """The numbers that replace all identifiers and texts in a value."""

    def __init__(self, value: Any) -> None:
        texts: set[str] = set()
        identifiers: set[uuid.UUID] = set()
        for leaf in _leaves(value, ""):
            (identifiers if isinstance(leaf, uuid.UUID) else texts).add(leaf)
        self._texts = {text: f"x{number:07}" for number, text in enumerate(sorted(texts))}
        self._identifiers = {identifier: uuid.UUID(int=number + 1) for number, identifier in enumerate(sorted(identifiers))}

    def of(self, value: Any, field: str = "") -> Any:
        """The same value with everything replaced."""
        if isinstance(value, uuid.UUID):
            return self._identifiers[value]
        if isinstance(value, str):
            return value if value in WORDS or field in MEANINGS else self._texts[value]
        if isinstance(value, Mix) or value is None or isinstance(value, int):
            return value
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            changed = {member.name: self.of(getattr(value, member.name), member.name) for member in dataclasses.fields(value)}
            return type(value)(**changed)
        if isinstance(value, Mapping):
            return {self.of(key, field): self.of(item, field) for key, item in value.items()}
        if isinstance(value, frozenset):
            return frozenset(self.of(item, field) for item in value)
        if hasattr(value, "_fields"):
            return type(value)(*(self.of(getattr(value, name), name) for name in value._fields))
        return tuple(self.of(item, field) for item in value)


def _leaves(value: Any, field: str) -> Iterator[Any]:
    """All identifiers and texts of a value that have to be replaced."""
    if isinstance(value, str):
        if value not in WORDS and field not in MEANINGS:
            yield value
    elif isinstance(value, uuid.UUID):
        yield value
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for member in dataclasses.fields(value):
            yield from _leaves(getattr(value, member.name), member.name)
    elif hasattr(value, "_fields"):
        for name in value._fields:
            yield from _leaves(getattr(value, name), name)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(key, field)
            yield from _leaves(item, field)
    elif isinstance(value, Iterable) and not isinstance(value, Mix):
        for item in value:
            yield from _leaves(item, field)
