"""Why no start of a waiting job can be told, in the words of every command that tells expected starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from berth.cli import formats
from berth.cli.messages import _

PROMISES_LEAST = 10  # Of fewer a share says nothing.
UNEXPECTED = {
    "too_many": "not looked ahead: too many jobs wait or run",
    "little_history": "cannot be known: too few jobs have ended to say how long others will run",
    "unknown_ends": "cannot be known: no similar job has finished yet, so no start can be predicted",
    "horizon": "cannot be known: further away than is looked ahead",
    "passes": "cannot be known: further away than is looked ahead",
}


def unexpected_text(expected: Mapping[str, Any]) -> str:
    """Why no time can be told."""
    if expected.get("reason") == "overdue" and expected.get("was_by"):
        return _("was expected by {time}, which has passed; no new time is told", time=formats.time_text(expected["was_by"]))
    if expected.get("reason") == "not_yet" and expected.get("known_by"):
        return _("not known yet, known by {time}", time=formats.time_text(expected["known_by"]))
    return _(UNEXPECTED.get(str(expected.get("reason")), "no start in sight"))
