"""From an engine into the series: what the observer calls on its interval, and the sweep that ends what is too old."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from clusters.engines.interface import EngineUnreachable, Sample, SupportsMetrics
from clusters.models import SeriesChunk
from clusters.services import engine_for
from clusters.telemetry.metrics import scoped
from clusters.telemetry.recorder import recorder

SWEPT_ROWS_MAX = 10_000  # One transaction stays short; what is left goes with the next sweep.


def collect(cluster_id: uuid.UUID, *, now: datetime) -> int:
    """Measure everything that runs on a cluster and record it. Call it every interval; returns how many samples were taken.

    0 if the engine cannot measure or does not answer: the interval stays a gap. Who watches the cluster tells of lost contact.
    """
    try:
        engine = engine_for(cluster_id)
        if not isinstance(engine, SupportsMetrics):
            return 0
        samples = engine.sample()
    except EngineUnreachable:
        return 0
    return record_samples(cluster_id, samples, now)


def record_samples(cluster_id: uuid.UUID, samples: Sequence[Sample], now: datetime) -> int:
    """Take samples of one moment into this process's recorder, and write if it is time. Returns how many were taken."""
    stored = (replace(sample, subject=scoped(cluster_id, sample.subject)) for sample in samples)
    taken = recorder().record(stored, now)
    recorder().flush(now)
    return taken


def flush(now: datetime) -> int:
    """Write all that is held in memory, at shutdown. Returns chunks written."""
    return recorder().flush(now, everything=True)


def sweep_expired(now: datetime) -> int:
    """Remove chunks past their time; returns how many. Call it again while it returns `SWEPT_ROWS_MAX`."""
    expired = SeriesChunk.objects.filter(expires_at__lte=now).order_by("expires_at").values("id")[:SWEPT_ROWS_MAX]
    removed, _ = SeriesChunk.objects.filter(id__in=expired).delete()
    return removed
