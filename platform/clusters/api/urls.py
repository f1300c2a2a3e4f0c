"""Routes of clusters, pools and nodes, below `/api/v1/`."""

from __future__ import annotations

from django.urls import path

from clusters.api import clusters, maintenance, occupancy, views

urlpatterns = [
    path("clusters", clusters.ClusterListView.as_view(), name="clusters"),
    path("clusters:check", clusters.ClusterCheckNewView.as_view(), name="clusters_check"),
    path("clusters/<str:cluster_id>/check", clusters.ClusterCheckView.as_view(), name="cluster_check"),
    path("clusters/<str:cluster_id>", clusters.ClusterView.as_view(), name="cluster"),
    path("pools", views.PoolListView.as_view(), name="pools"),
    path("pools/<str:pool_id>", views.PoolView.as_view(), name="pool"),
    path("pools/<str:pool_id>/metrics", views.PoolMetricsView.as_view(), name="pool_metrics"),
    path("maintenance", maintenance.MaintenanceView.as_view(), name="maintenance"),
    path("maintenance/<uuid:window_id>", maintenance.MaintenanceWindowView.as_view(), name="maintenance_window"),
    path("occupancy", occupancy.OccupancyView.as_view(), name="occupancy"),
    path("nodes/<str:node_id>/occupancy", occupancy.NodeOccupancyView.as_view(), name="node_occupancy"),
    path("nodes", views.NodeListView.as_view(), name="nodes"),
    path("nodes/<str:node_id>", views.NodeView.as_view(), name="node"),
    path("nodes/<str:node_id>/metrics", views.NodeMetricsView.as_view(), name="node_metrics"),
]
