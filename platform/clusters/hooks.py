"""What clusters answer when `/metrics` is read."""

from __future__ import annotations

from clusters.telemetry import prometheus
from webapi.metrics import register_collector


def register_hooks() -> None:
    """Called once, when the app is ready."""
    prometheus.register_collector_source("clusters", prometheus.cluster_families)
    register_collector(prometheus.BerthCollector())
