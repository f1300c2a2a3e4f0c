"""Paths of this app, below /api/v1."""

from __future__ import annotations

from django.urls import path

from images.api.registries import RegistriesView, RegistryCheckView, RegistryView
from images.api.views import BuildsView, ImagesView, ImageView

urlpatterns = [
    path("images", ImagesView.as_view(), name="images"),
    path("images/<uuid:image_id>", ImageView.as_view(), name="image"),
    path("images/<uuid:image_id>/builds", BuildsView.as_view(), name="image-builds"),
    path("tenants/<str:tenant>/registries", RegistriesView.as_view(), name="registries"),
    path("tenants/<str:tenant>/registries/<str:host>", RegistryView.as_view(), name="registry"),
    path("tenants/<str:tenant>/registries/<str:host>/check", RegistryCheckView.as_view(), name="registry-check"),
]
