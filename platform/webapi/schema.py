"""The API's description (OpenAPI 3.1), made from the views; `client` and portal types are generated from it.

Operations are named `<tag>_<verb>` and stay so; every operation documents the problem answers that it can give.
"""

from __future__ import annotations

from typing import Any

from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema


class BerthSchema(AutoSchema):
    """How one view becomes operations of the description."""


class BerthGenerator(SchemaGenerator):
    """Makes the document."""


def complete(result: dict[str, Any], generator: SchemaGenerator, request: Any, public: bool) -> dict[str, Any]:
    """Add what is the same for all operations."""
    return result
