"""What is told of each hook into a framework. `tests/architecture/test_upstream.py` compares it with library, page and tests."""

from __future__ import annotations

from dataclasses import dataclass

MODULES = ("django", "postgresql.base", "sqlite.base", "rest_framework", "spectacular", "celery", "kombu", "uvicorn")
CORRECTNESS = "not measured: needed for correctness"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """One name of a library that is overridden or reached into."""

    upstream: str  # `kombu.connection.Connection._ensure_connection`; an attribute of instances follows its class the same way.
    parameters: str = ""  # Their names as the library has them today; empty for what is no function.
    ours: str  # What overrides or uses it: a name in the same module.
    why: str
    gain: str  # With its source, or `CORRECTNESS` and because of what.
    test: str  # Below `tests/`: fails when the hook has no effect any more.
