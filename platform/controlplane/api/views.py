"""Reports of the installation, for operators."""

from __future__ import annotations

from functools import partial

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.serializers import SelfTestOut, show_selftests
from controlplane.models import SelfTest
from webapi.access import visible
from webapi.pagination import page
from webapi.schema import page_of
from webapi.views import ApiView, known_query
from webapi.wording import reader_language


class SelfTestsView(ApiView):
    """How the tenants were tried against each other."""

    @extend_schema(responses=page_of(SelfTestOut))
    def get(self, request: Request) -> Response:
        """List runs of the tenant escape self-test, newest first; only operators see runs."""
        known_query(request, ())
        serialize = partial(show_selftests, language=reader_language(request))
        return page(request, visible(self.actor, SelfTest), order=("-id",), serialize=serialize)
