"""The description of the API as one document, the same for all callers and in the same order at every start."""

from __future__ import annotations

import functools
import json
from typing import Any

from drf_spectacular.generators import SchemaGenerator


@functools.cache
def describe() -> dict[str, Any]:
    """The OpenAPI document of all operations. Made once per process."""
    generator: Any = SchemaGenerator  # drf-spectacular is only partly typed.
    document = generator().get_schema(request=None, public=True)
    plain: dict[str, Any] = json.loads(json.dumps(document, default=str))
    return plain


def as_json(document: dict[str, Any]) -> str:
    """A document as it is committed: two spaces, sorted names, a newline at the end."""
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
