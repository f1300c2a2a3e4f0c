"""The Prometheus registry that `/metrics` shows. Apps register collectors at start; nothing is counted in this module.

No label holds a job id, a person's name or a secret; the number of series is bounded by tenants, queues and pools.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import Collector

registry = CollectorRegistry(auto_describe=False)


def register_collector(collector: Collector) -> None:
    """Add a collector of an app. Its `collect` runs at every scrape and must be cheap: cache what costs a query."""
    registry.register(collector)


def render() -> bytes:
    """All metrics in the text format of Prometheus."""
    return generate_latest(registry)
