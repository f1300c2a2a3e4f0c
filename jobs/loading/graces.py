"""How long those who are told to leave may take."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection

from jobs.loading.rows import LiveRow
from jobs.loading.specs import load_spec, preload_specs
from kernel.config import current
from kernel.errors import InvalidInput


def graces_of(rows: Collection[LiveRow]) -> dict[str, int]:
    """Seconds by job, rounded up: those of its checkpoint, else the installation's. One statement for 500 specs."""
    preload_specs({row.spec_id for row in rows})
    return {str(row.job_id): math.ceil(_grace(row)) for row in rows}


def _grace(row: LiveRow) -> float:
    with contextlib.suppress(InvalidInput, ValueError):  # A job with an unreadable spec has the installation's grace.
        checkpoint = load_spec(row.spec_id).checkpoint
        if checkpoint is not None:
            return checkpoint.grace_seconds
    return current().grace_seconds
