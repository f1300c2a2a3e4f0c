"""A lifecycle is a table: which state may follow which. The table is documentation, validator and test input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """Allowed edges from each state. A state with no edges is terminal and never changes."""

    name: str
    edges: Mapping[str, frozenset[str]]

    def allows(self, from_state: str, to_state: str) -> bool:
        return to_state in self.edges[from_state]

    def is_terminal(self, state: str) -> bool:
        return not self.edges[state]

    @property
    def terminal_states(self) -> tuple[str, ...]:
        return tuple(state for state, targets in self.edges.items() if not targets)

    @property
    def live_states(self) -> tuple[str, ...]:
        return tuple(state for state, targets in self.edges.items() if targets)

    def sources_of(self, to_state: str) -> tuple[str, ...]:
        """States from which `to_state` may be reached in one step."""
        return tuple(state for state, targets in self.edges.items() if to_state in targets)


class IllegalTransition(AssertionError):
    """Our own code asked for an edge that the table does not have: a bug, never a user's mistake."""


def lifecycle(name: str, states: type[StrEnum], edges: Mapping[StrEnum, set[StrEnum]]) -> Lifecycle:
    """Build a lifecycle and check that every state has a row and every edge ends in a known state."""
    missing = set(states) - set(edges)
    if missing:
        raise AssertionError(f"lifecycle {name}: no row for {sorted(missing)}")
    return Lifecycle(name, {str(state): frozenset(str(target) for target in targets) for state, targets in edges.items()})
