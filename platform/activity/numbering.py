"""When events get their numbers: as they are written, where there is one writer at a time, or afterwards by the sequencer."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from django.db import connections, router

from activity.models import Event

_always_afterwards = False


def is_at_once() -> bool:
    """Whether rows commit in the order in which they are written, so that their ids can be their numbers: SQLite alone."""
    return not _always_afterwards and connections[router.db_for_write(Event)].vendor == "sqlite"


@contextlib.contextmanager
def afterwards() -> Iterator[None]:
    """Let the sequencer number events on every database while the block runs: simulations show what servers do."""
    global _always_afterwards
    previous, _always_afterwards = _always_afterwards, True
    try:
        yield
    finally:
        _always_afterwards = previous
