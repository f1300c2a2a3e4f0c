"""Measured series as plain lists, ready for any plotting library; a gap is None, never a guess."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Series:
    """One metric of one subject over time; `times` and `values` are equally long."""

    metric: str
    subject: str
    times: tuple[datetime, ...]
    values: tuple[float | None, ...]
    unit: str = ""

    @property
    def label(self) -> str:
        return f"{self.subject} {self.metric}".strip()

    @property
    def latest(self) -> float | None:
        """The last value that was measured."""
        return next((value for value in reversed(self.values) if value is not None), None)

    def plot(self, axes: Any = None, **options: Any) -> Any:
        """Draw the series with matplotlib and give the axes; gaps stay gaps."""
        if axes is None:
            from matplotlib import pyplot

            axes = pyplot.subplots()[1]
        axes.plot(
            list(self.times),
            [float("nan") if value is None else value for value in self.values],
            **{"label": self.label, **options},
        )
        return axes


def read_series(document: Any) -> list[Series]:
    """Read the answer of a metrics endpoint."""
    entries = document if isinstance(document, list) else document.get("series", document.get("items", []))
    return [_series(entry) for entry in entries]


def _series(entry: dict[str, Any]) -> Series:
    points = entry.get("points", [])
    pairs = [(point["at"], point.get("value")) if isinstance(point, dict) else (point[0], point[1]) for point in points]
    subject = entry.get("task") or entry.get("subject") or entry.get("node") or ""
    return Series(
        metric=str(entry.get("metric", "")),
        subject=str(subject),
        times=tuple(_moment(at) for at, _ in pairs),
        values=tuple(None if value is None else float(value) for _, value in pairs),
        unit=str(entry.get("unit", "")),
    )


def _moment(value: object) -> datetime:
    if isinstance(value, (int, float)):
        return datetime.fromtimestamp(value, UTC)
    return datetime.fromisoformat(str(value)).astimezone(UTC)
