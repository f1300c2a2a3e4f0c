"""What activity looks at before anything is sent."""

from __future__ import annotations

from activity.notifications import channels
from kernel.config import current


def register_hooks() -> None:
    """Called once, when the app is ready. An incomplete channel, or a name in the setting that is none, stops the start."""
    channels.offered(current())
