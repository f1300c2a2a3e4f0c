"""How pools were found filled, and what they usually get: written by the leading scheduler, which has it all in memory."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from clusters.models import PoolMeasure
from reconciling import bulk


@dataclass(frozen=True, slots=True)
class Measured:
    """One pool now. `fragmentation_millis` None: there is nothing idle, or it is unknown what it usually gets."""

    fragmentation_millis: int | None
    idle: Mapping[str, Any]


def record_measures(measured: Mapping[uuid.UUID, Measured], now: datetime) -> int:
    """Keep what was found last; how many pools. Two statements but for new pools."""
    known = set(PoolMeasure.objects.filter(pool_id__in=measured).values_list("pool_id", flat=True))
    rows = [
        {
            "pool_id": pool_id,
            "fragmentation_millis": measure.fragmentation_millis,
            "idle": dict(measure.idle),
            "measured_at": now,
        }
        for pool_id, measure in sorted(measured.items())
    ]
    _store(rows, known)
    return len(rows)


def record_mixes(mixes: Mapping[uuid.UUID, Sequence[Sequence[Any]]], now: datetime) -> int:
    """Keep what pools usually get; how many rows differed."""
    known = dict(PoolMeasure.objects.filter(pool_id__in=mixes).values_list("pool_id", "mix"))
    plain = {pool_id: [list(map(_plain, row)) for row in rows] for pool_id, rows in sorted(mixes.items())}
    changed = [
        {"pool_id": pool_id, "mix": rows, "mixed_at": now} for pool_id, rows in plain.items() if known.get(pool_id) != rows
    ]
    _store(changed, set(known))
    return len(changed)


@dataclass(frozen=True, slots=True)
class Learned:
    """The weights of single terms that were chosen for one pool. `tried`: those of each candidate, and which part of all GPU it
    allocated, 0 to 1; `machines` of the pool took part, and `tasks` are those that it got of late."""

    weights: Mapping[str, int]
    tried: Sequence[tuple[Mapping[str, int], float]]
    machines: int
    tasks: int


def record_learned(pool_id: uuid.UUID, found: Learned | None, now: datetime) -> bool:
    """Keep which weights were chosen; whether they are others than before. None: there was nothing to choose by, and what was
    chosen before stays. Three statements."""
    known = PoolMeasure.objects.filter(pool_id=pool_id).values_list("learned", flat=True).first()
    if found is None:
        PoolMeasure.objects.update_or_create(pool_id=pool_id, defaults={"learned_at": now})
        return False
    changed = known is None or known["weights"] != dict(found.weights)
    learned = {
        "weights": dict(found.weights),
        "chosen_at": now.isoformat() if changed or known is None else known["chosen_at"],
        "tried": [{"weights": dict(weights), "allocated": part} for weights, part in found.tried],
        "machines": found.machines,
        "tasks": found.tasks,
    }
    PoolMeasure.objects.update_or_create(pool_id=pool_id, defaults={"learned": learned, "learned_at": now})
    return changed


def record_unevenness(uneven: Mapping[uuid.UUID, Mapping[str, Sequence[str]]]) -> int:
    """Keep in what the nodes of pools differ; of how many that is news."""
    known = dict(PoolMeasure.objects.filter(pool_id__in=uneven).values_list("pool_id", "uneven"))
    plain = {pool_id: {label: list(values) for label, values in found.items()} for pool_id, found in sorted(uneven.items())}
    changed = [{"pool_id": pool_id, "uneven": found} for pool_id, found in plain.items() if known.get(pool_id, {}) != found]
    _store(changed, set(known))
    return len(changed)


def _store(rows: Sequence[dict[str, Any]], known: set[uuid.UUID]) -> None:
    empty: dict[str, Any] = {
        "mix": [],
        "mixed_at": None,
        "learned": None,
        "learned_at": None,
        "fragmentation_millis": None,
        "idle": {},
        "measured_at": None,
        "uneven": {},
    }
    bulk.insert(PoolMeasure, [{**empty, **row} for row in rows if row["pool_id"] not in known], ignore_conflicts=True)
    bulk.update(PoolMeasure, [row for row in rows if row["pool_id"] in known], key="pool_id")


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
