"""What the installation answers when its health or its metrics are asked for."""

from __future__ import annotations

from clusters.telemetry import register_collector_source
from controlplane import readiness
from controlplane.selftest.run import selftest_metrics


def register_hooks() -> None:
    """Called once, when the app is ready."""
    readiness.register()
    register_collector_source("selftest", selftest_metrics)
