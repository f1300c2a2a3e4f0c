"""What storage answers when a layer below asks: which volumes stand against the removal of a cluster."""

from __future__ import annotations

from clusters.services import register_removal
from storage.selectors import obstacles


def register_hooks() -> None:
    """Called once, when the app is ready."""
    register_removal(obstacles)
