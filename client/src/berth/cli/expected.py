"""Why no start of a waiting job can be told, in the words of every command that tells expected starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from berth.cli import formats
from berth.cli.messages import _

PREDICTIONS_LEAST = 10  # Of fewer a share says nothing.
UNEXPECTED = {
    "too_many": "no prediction: too many jobs are queued or running",
    "little_history": "no prediction: too few jobs have ended to predict run times",
    "unknown_ends": "no prediction: no similar job has ended yet",
    "horizon": "no prediction: beyond the planning horizon",
    "passes": "no prediction: beyond the planning horizon",
}


def unexpected_text(expected: Mapping[str, Any]) -> str:
    """Why no time can be told."""
    if expected.get("reason") == "overdue" and expected.get("was_by"):
        return _("overdue: was predicted by {time}; no new prediction", time=formats.time_text(expected["was_by"]))
    if expected.get("reason") == "not_yet" and expected.get("known_by"):
        return _("not predicted yet; prediction by {time}", time=formats.time_text(expected["known_by"]))
    return _(UNEXPECTED.get(str(expected.get("reason")), "no predicted start"))
