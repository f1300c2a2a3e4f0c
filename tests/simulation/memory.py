"""What the product remembers in a process, between calls. A simulated process that dies must lose it, and so must a simulation.

Remembered facts are those of committed rows, so that the simulated processes may share them while they live.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from clusters.services import engines
from jobs.loading import specs
from jobs.reconcile import quarantine
from webapi import facts, throttles


def forget_rows() -> None:
    """As a process that has just started."""
    specs.forget_specs()
    quarantine._known.clear()
    facts._latest = (None, {})
    throttles.forget()


def restore_engines(factories: Mapping[str, Any], made: Mapping[uuid.UUID, Any]) -> None:
    """Engines belong to the clusters of one database."""
    engines._factories.clear()
    engines._factories.update(factories)
    engines._engines.clear()
    engines._engines.update(made)
