"""Clusters, pools and nodes in the operators' console."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from clusters.models import Cluster, Node, Pool
from clusters.services.cordons import cordon_node, uncordon_node
from kernel.clock import database_now
from webapi.console import Record, each, operator_of


@admin.register(Cluster)
class ClusterRecord(Record):
    list_display = ("name", "kind", "condition", "condition_since_at", "is_enabled", "quarantine_since_at")
    list_filter = ("kind", "condition")
    search_fields = ("name",)
    exclude = ("config", "observe_cursor")  # How an engine is reached may hold what opens it.


@admin.register(Pool)
class PoolRecord(Record):
    list_display = ("name", "cluster", "gpu_model", "node_count", "node_gpu_millis", "gpus_simulated")
    list_filter = ("gpu_model", "cluster")
    list_select_related = ("cluster",)
    search_fields = ("name", "gpu_model")


@admin.register(Node)
class NodeRecord(Record):
    list_display = ("name", "pool", "ready", "cordoned", "cordon_reason", "gpu_model", "gpu_millis", "last_seen_at")
    list_filter = ("ready", "cordoned", "pool")
    list_select_related = ("pool", "cluster")
    search_fields = ("name",)
    actions = ("cordon", "uncordon")

    @admin.action(description="Let nothing new start there")
    def cordon(self, request: HttpRequest, rows: QuerySet[Any]) -> None:
        actor, now = operator_of(request), database_now()
        each(
            request, rows, lambda node: cordon_node(actor=actor, node_id=node.pk, reason="By the console.", now=now),
            done="Nodes that take nothing new",
        )  # fmt: skip

    @admin.action(description="Let work start there again")
    def uncordon(self, request: HttpRequest, rows: QuerySet[Any]) -> None:
        actor, now = operator_of(request), database_now()
        each(request, rows, lambda node: uncordon_node(actor=actor, node_id=node.pk, now=now), done="Nodes that take work again")
