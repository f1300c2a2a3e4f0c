"""What clusters bring to the layers below, and whom they tell of themselves."""

from __future__ import annotations

from django.db.models import Model

from activity.notifications.kinds import register_notice_kinds
from clusters import models
from clusters.hooks import register_hooks
from clusters.notices import CAPACITY
from kernel.crashpoints import register_crash_points
from webapi.facts import register_fact_tables

FACT_TABLES: dict[type[Model], tuple[str, ...]] = {
    models.Cluster: ("name", "is_enabled"),
    models.Pool: ("cluster_id", "name", "gpu_model"),
}

CRASH_POINTS = {
    "clusters.maintenance.before_commit": "Machines of windows under way are out of service, not committed.",
}

NOTICE_KINDS = (CAPACITY,)


def register() -> None:
    """Called once, from `AppConfig.ready`."""
    register_fact_tables(FACT_TABLES)
    register_crash_points(CRASH_POINTS)
    register_notice_kinds(NOTICE_KINDS)
    register_hooks()
