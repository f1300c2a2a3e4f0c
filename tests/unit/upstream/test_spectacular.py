"""The description of a DELETE has a body where its view says so."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import path
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.views import APIView

from upstream.spectacular import BodyOfDelete


class Code(serializers.Serializer[Any]):
    code = serializers.CharField()


class Removal(APIView):
    schema = BodyOfDelete()
    public_methods = ()

    @extend_schema(request=Code, responses={204: None})
    def delete(self, request: Any) -> None: ...


@pytest.mark.parametrize("has_body", [True, False])
def test_a_delete_that_takes_a_body_is_described_with_it(has_body: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Removal.delete, "has_body", has_body, raising=False)
    generator = SchemaGenerator(patterns=[path("api/v1/removal", Removal.as_view())])
    operation = generator.get_schema(public=True)["paths"]["/api/v1/removal"]["delete"]
    assert ("requestBody" in operation) == has_body
