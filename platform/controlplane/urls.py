"""The whole URL space, app by app. Every route below enters the authorisation matrix (tests/security)."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from django.urls import URLPattern, URLResolver, include, path

_API_APPS = ("webapi", "activity", "clusters", "tenants", "images", "storage", "jobs")

urlpatterns: list[URLPattern | URLResolver] = [
    path("api/v1/", include([path("", include(f"{app}.api.urls")) for app in _API_APPS if find_spec(f"{app}.api.urls")])),
]
if find_spec("webapi.health"):
    urlpatterns += import_module("webapi.health").urlpatterns

handler400 = "webapi.problems.handler400"
handler403 = "webapi.problems.handler403"
handler404 = "webapi.problems.handler404"
handler500 = "webapi.problems.handler500"
