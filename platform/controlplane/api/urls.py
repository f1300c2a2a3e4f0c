"""Paths of the installation itself, below `/api/v1/`."""

from django.urls import path

from controlplane.api.views import SelfTestsView

urlpatterns = [path("selftests", SelfTestsView.as_view(), name="selftests")]
