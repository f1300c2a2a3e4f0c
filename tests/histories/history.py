"""Records sorted by what they tell of: what the checks of single invariants read."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable

from tests.histories.records import Record


class History:
    """One history, indexed once."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.records = list(records)
        self._by_event: dict[tuple[str, str], list[Record]] = defaultdict(list)
        for record in self.records:
            self._by_event[(record.source, record.event)].append(record)
        self.jobs = {record["job"]: record for record in self.all("database", "job")}
        self.attempts = {record["attempt"]: record for record in self.all("database", "attempt")}
        self.attempt_ids = {(record["job"], record["number"]): attempt_id for attempt_id, record in self.attempts.items()}
        self.attempts_of = _grouped(self.attempts.values(), "job")
        self.children_of = _grouped(self.jobs.values(), "parent")
        self.events = sorted(
            (record for record in self.all("database", "event") if record["seq"] is not None), key=lambda record: record["seq"]
        )
        self.outages = self._outages()

    def all(self, source: str, event: str) -> list[Record]:
        return self._by_event.get((source, event), [])

    @property
    def is_closed(self) -> bool:
        """Whether the database's side was read at the end; without it only some invariants can be decided."""
        return bool(self.all("database", "end"))

    @property
    def end_at(self) -> float:
        ends = self.all("database", "end")
        return ends[-1].t if ends else max((record.t for record in self.records), default=0.0)

    def _outages(self) -> list[tuple[float, float]]:
        """Times in which something was broken on purpose so that no deadline could be kept, merged and in order."""
        open_since: dict[str, float] = {}
        spans: list[tuple[float, float]] = []
        for record in self.records:
            if (record.source, record.event) == ("fault", "outage"):
                open_since.setdefault(str(record["what"]), record.t)
            elif (record.source, record.event) == ("fault", "healed"):
                began = open_since.pop(str(record["what"]), None)
                if began is not None:
                    spans.append((began, record.t))
        spans += [(began, float("inf")) for began in open_since.values()]
        merged: list[tuple[float, float]] = []
        for began, ended in sorted(spans):
            if merged and began <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], ended))
            else:
                merged.append((began, ended))
        return merged

    def healthy_deadline(self, start: float, seconds: float) -> float:
        """The moment by which `seconds` without any outage have passed since `start`.

        An outage starts the wait anew: what was broken must first be noticed to be whole again.
        """
        deadline = start + seconds
        position = bisect_right(self.outages, (start, float("inf"))) - 1
        for began, ended in self.outages[max(0, position) :]:
            if ended <= start:
                continue
            if began >= deadline:
                break
            deadline = ended + seconds
        return deadline

    def is_calm(self, start: float, end: float) -> bool:
        """Whether nothing was broken between these times."""
        faults = any(start <= record.t <= end for record in self.all("fault", "injected"))
        return not faults and not any(began <= end and ended >= start for began, ended in self.outages)

    def lease_lost(self, start: float, end: float) -> float:
        """Seconds for which work could lie in the hands of a process that was killed or frozen between these times."""
        faults = (record for record in self.all("fault", "injected") if start <= record.t <= end)
        return max((float(record.data.get("lease_seconds", 0.0)) for record in faults), default=0.0)


def _grouped(records: Iterable[Record], name: str) -> dict[str, list[Record]]:
    groups: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        if record.get(name):
            groups[record[name]].append(record)
    return dict(groups)
