"""What the error reference says beside each code: the next step. Each app registers its own; titles stand at the classes.

`docs/errors.md` is made from these and the error classes of all apps; a test refuses a code without an entry.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernel.registry import Registry

REFERENCE: Registry[str] = Registry("error", missing=lambda _, step: "" if step.endswith(".") else "its next step is no sentence")


def register_errors(next_steps: Mapping[str, str]) -> None:
    """Called by each app at start, with the next step of each of its codes."""
    REFERENCE.add(next_steps.items())
