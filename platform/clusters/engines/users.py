"""What the user of a tenant's tasks is called inside them: a name that Linux and every engine accept."""

from __future__ import annotations

import re

NAME = re.compile(r"[a-z_][a-z0-9_-]{0,31}")  # As useradd(8) takes it.
_PREFIX = "berth-"  # No user of a system or of an image is called so.
_LENGTH_MAX = 32
_OTHERS = re.compile(r"[^a-z0-9_-]")


def user_name(isolation_key: str) -> str:
    """The name for a tenant; the same for all its tasks."""
    return (_PREFIX + _OTHERS.sub("-", isolation_key.lower()))[:_LENGTH_MAX]
