"""Clusters, pools and nodes in the operators' console."""

from __future__ import annotations

from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from clusters.models import Cluster, Node, Pool
from clusters.services.cordons import cordon_node, uncordon_node
from webapi.console import Record, on_each


@admin.register(Cluster)
class ClusterRecord(Record):
    list_display = ("name", "kind", "condition", "condition_since_at", "is_enabled", "quarantine_since_at")
    list_filter = ("kind", "condition")
    search_fields = ("name",)
    exclude = ("observe_cursor",)
    secrets = ("config", "credentials_sealed")  # How an engine is reached may hold what opens it.


@admin.register(Pool)
class PoolRecord(Record):
    list_display = ("name", "cluster", "gpu_model", "node_count", "node_gpu_millis", "gpus_simulated")
    list_filter = ("gpu_model", "cluster__name")
    list_select_related = ("cluster",)
    search_fields = ("name", "gpu_model")


@admin.register(Node)
class NodeRecord(Record):
    list_display = ("name", "pool", "ready", "cordoned", "cordon_reason", "gpu_model", "gpu_millis", "last_seen_at")
    list_filter = ("ready", "cordoned", "pool")
    list_select_related = ("pool", "cluster")
    search_fields = ("name",)
    actions = ("cordon", "uncordon")

    cordon = on_each(
        _("Let nothing new start there"),
        lambda row, actor, now: cordon_node(actor=actor, node_id=row.pk, reason="By the console.", now=now),
        done=_("Nodes that take nothing new"),
    )

    uncordon = on_each(
        _("Let work start there again"),
        lambda row, actor, now: uncordon_node(actor=actor, node_id=row.pk, now=now),
        done=_("Nodes that take work again"),
    )
