"""Two runs side by side: what each took, cost and used, how each ended, and where their specs differ. Reads only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from berth.errors import ApiError
from berth.metrics import read_series
from berth.specs import MISSING, difference
from berth.transport import Call, Transport

if TYPE_CHECKING:
    from berth.jobs import Job, Jobs

PHASES: Mapping[str, tuple[str, ...]] = {
    "waited_seconds": ("queued",),
    "starting_seconds": ("admitted", "starting"),
    "ran_seconds": ("running", "stopping"),
}
NOT_FOR_YOU = (403, 404)  # The cost of others' jobs, and any cost where the feature is off.


def compare(jobs: Jobs, transport: Transport, a: str, b: str) -> dict[str, Any]:
    """`a` and `b` with the same keys, and `spec`: the leaves that differ as `{path, a, b}`; what one of them lacks is None there
    and named in `only_in`. Raises NotFound where the user sees no such job."""
    first, second = jobs.get(a), jobs.get(b)
    return {"a": _run(first, transport), "b": _run(second, transport), "spec": spec_difference(first.spec(), second.spec())}


def spec_difference(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The leaves that differ."""
    return [
        {
            "path": path,
            "a": None if older is MISSING else older,
            "b": None if newer is MISSING else newer,
            "only_in": "b" if older is MISSING else "a" if newer is MISSING else None,
        }
        for path, older, newer in difference(dict(a), dict(b))
    ]


def _run(job: Job, transport: Transport) -> dict[str, Any]:
    path = f"/jobs/{quote(job.id, safe='')}"
    phases = transport.json(Call("GET", f"{path}/timeline"))["phases"]
    return {
        "job": job.data,
        **{name: _spent(phases, among) for name, among in PHASES.items()},
        "attempts": transport.json(Call("GET", f"{path}/attempts"))["items"],
        "cost": _cost(transport, path),
        "use": _use(transport, path),
    }


def _spent(phases: list[dict[str, Any]], among: tuple[str, ...]) -> float:
    return float(sum(phase["seconds"] for phase in phases if phase["phase"] in among))


def _cost(transport: Transport, path: str) -> dict[str, Any] | None:
    """What it cost; None where that is not for this user to see."""
    try:
        return dict(transport.json(Call("GET", f"{path}/cost")))
    except ApiError as error:
        if error.status not in NOT_FOR_YOU:
            raise
        return None


def _use(transport: Transport, path: str) -> dict[str, dict[str, Any]]:
    """Mean and highest value of each metric over all tasks of the latest attempt, as far as its series are kept."""
    values: dict[str, list[float]] = {}
    units: dict[str, str] = {}
    for series in read_series(transport.json(Call("GET", f"{path}/metrics"))):
        values.setdefault(series.metric, []).extend(value for value in series.values if value is not None)
        units[series.metric] = series.unit
    return {
        metric: {"unit": units[metric], "mean": sum(found) / len(found), "highest": max(found)}
        for metric, found in values.items()
        if found
    }
