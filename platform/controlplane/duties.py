"""The duties that apps have registered (`kernel/duties.py`), as ticks and hints take them."""

from __future__ import annotations

from kernel.config import current
from kernel.duties import DUTIES
from reconciling import ticks


def register() -> None:
    """Register every duty with its interval under the present settings."""
    config = current()
    for task, duty in DUTIES.items():
        ticks.register(task, every_seconds=duty.seconds(config))


def plain_hints() -> dict[str, str]:
    """Tasks by the topic that hints at them."""
    return {duty.hint: task for task, duty in DUTIES.items() if duty.hint and not duty.by_cluster}


def cluster_hints() -> dict[str, str]:
    """Tasks by the first part of a topic; `<first part>.<cluster id>` carries the cluster."""
    return {duty.hint: task for task, duty in DUTIES.items() if duty.hint and duty.by_cluster}


def asks_engines(task: str) -> bool:
    """Whether a task is one message for each cluster, in the queue of that cluster."""
    return task in DUTIES and DUTIES[task].by_cluster
