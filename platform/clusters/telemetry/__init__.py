"""Use of CPU, memory, disk and GPU over time: sampled, kept for a bounded window, thinned with age, gaps kept as gaps."""

from clusters.telemetry.collecting import collect, flush, record_samples, sweep_expired
from clusters.telemetry.prometheus import bounded, register_collector_source
from clusters.telemetry.reading import Series, Summary, job_metrics, ratio_by_day, read_series, summarize_tasks

__all__ = [
    "Series",
    "Summary",
    "bounded",
    "collect",
    "flush",
    "job_metrics",
    "ratio_by_day",
    "read_series",
    "record_samples",
    "register_collector_source",
    "summarize_tasks",
    "sweep_expired",
]
