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
    simulated: bool = False  # Drawn for a simulated GPU, not measured.

    @property
    def label(self) -> str:
        """`worker-0 cpu`: the task or device, and the metric."""
        return f"{self.name} {self.metric}".strip()

    @property
    def name(self) -> str:
        """The subject without its kind and attempt: `task:<attempt>:worker:0` is `worker-0`."""
        kind, _, rest = self.subject.partition(":")
        if kind == "task":
            return "-".join(rest.split(":")[1:])
        return rest or self.subject

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
    return [_series(entry) for entry in document["items"]]


def _series(entry: dict[str, Any]) -> Series:
    return Series(
        metric=str(entry["metric"]),
        subject=str(entry.get("subject") or entry.get("task") or ""),
        times=tuple(datetime.fromisoformat(at).astimezone(UTC) for at in entry["times"]),
        values=tuple(None if value is None else float(value) for value in entry["values"]),
        unit=str(entry.get("unit") or ""),
        simulated=bool(entry.get("simulated")),
    )
