"""Paths of the HTTP layer itself, below `/api/v1/`."""

from django.urls import path

from webapi.api.views import DescriptionView, DocsScriptView, DocsView, InfoView

urlpatterns = [
    path("info", InfoView.as_view(), name="info"),
    path("openapi.json", DescriptionView.as_view(), name="openapi"),
    path("docs", DocsView.as_view(), name="docs"),
    path("docs.js", DocsScriptView.as_view(), name="docs-script"),
]
