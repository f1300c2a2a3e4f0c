"""The whole URL space, app by app. Every route below enters the authorisation matrix (tests/security)."""

from __future__ import annotations

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path
from django.views.generic import RedirectView

from controlplane import portal
from tenants.identity.api import oidc
from webapi import health, pages

# Routes are tried in turn: those that are asked for most come first.
_API_APPS = ("jobs", "activity", "tenants", "clusters", "images", "storage", "webapi", "controlplane")

urlpatterns: list[URLPattern | URLResolver] = [
    path("api/v1/", include([path("", include(f"{app}.api.urls")) for app in _API_APPS])),
]
urlpatterns += [*health.urlpatterns, *pages.urlpatterns]
urlpatterns += oidc.urlpatterns
urlpatterns += [path("admin", RedirectView.as_view(url="/admin/")), path("admin/", admin.site.urls)]
urlpatterns += portal.urlpatterns  # Whatever else a browser asks for is a page of the portal, or none.

handler400 = "webapi.problems.handler400"
handler403 = "webapi.problems.handler403"
handler404 = "webapi.problems.handler404"
handler500 = "webapi.problems.handler500"
