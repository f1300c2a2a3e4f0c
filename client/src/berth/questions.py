"""Questions to the scheduler: why a job waits, what was decided about it, and what if."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from berth.paging import iterate
from berth.resources import Row, _Resource, _segment


class Questions(_Resource):
    """What the scheduler answers, and why."""

    def explain(self, job_id: str, *, quick: bool = False) -> Row:
        """All that keeps a job waiting, its place, and tried changes that would start it; `quick` leaves these out."""
        return self._get(f"/jobs/{_segment(job_id)}/explain", quick="true" if quick else None)

    def decisions(self, job_id: str) -> Iterator[Row]:
        """What the scheduler decided about a job, newest first, with what it was weighed against."""
        return iterate(self._transport, f"/jobs/{_segment(job_id)}/decisions", {})

    def what_if(self, changes: Sequence[Mapping[str, Any]]) -> Row:
        """Who would start, wait or be evicted after these changes: entries such as {"end": {"job": "train"}}. Changes nothing."""
        return self._post("/what-if", {"changes": [dict(change) for change in changes], "tenant": self._tenant or None})
