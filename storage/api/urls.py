"""Paths of this app, below /api/v1."""

from __future__ import annotations

from django.urls import path

from storage.api.uploads import UploadsView, UploadView
from storage.api.volumes import ContentView, FilesView, GrantsView, GrantView, VolumesView, VolumeView

urlpatterns = [
    path("volumes", VolumesView.as_view(), name="volumes"),
    path("volumes/<uuid:volume_id>", VolumeView.as_view(), name="volume"),
    path("volumes/<uuid:volume_id>/grants", GrantsView.as_view(), name="volume-grants"),
    path("volumes/<uuid:volume_id>/grants/<uuid:grant_id>", GrantView.as_view(), name="volume-grant"),
    path("volumes/<uuid:volume_id>/files", FilesView.as_view(), name="volume-files"),
    path("volumes/<uuid:volume_id>/content", ContentView.as_view(), name="volume-content"),
    path("uploads", UploadsView.as_view(), name="uploads"),
    path("uploads/<uuid:upload_id>", UploadView.as_view(), name="upload"),
]
