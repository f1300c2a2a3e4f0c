"""Serializer errors, flattened: from nested dicts and lists to one list of JSON pointers (RFC 6901)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rest_framework.settings import api_settings

from kernel.errors import FieldError
from webapi.refusals import words_of

FIELD_ERRORS_MAX = 200  # An answer stays readable; the first 200 tell what is wrong with the rest.


def flatten(detail: Any) -> tuple[FieldError, ...]:
    """All errors of a serializer's `detail`, in order. Works for `many=True`, whose errors are a dict by index."""
    found: list[FieldError] = []
    for error in _walk(detail, ""):
        found.append(error)
        if len(found) == FIELD_ERRORS_MAX:
            break
    return tuple(found)


def pointer(*parts: str | int) -> str:
    """A JSON pointer to a place: `pointer("roles", "worker", 0)` is `/roles/worker/0`."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def _walk(detail: Any, path: str) -> Iterator[FieldError]:
    if isinstance(detail, dict):
        for key, value in detail.items():
            below = path if key == api_settings.NON_FIELD_ERRORS_KEY else path + pointer(key)
            yield from _walk(value, below)
    elif isinstance(detail, (list, tuple)):
        nested = any(isinstance(entry, (dict, list, tuple)) for entry in detail)
        for index, entry in enumerate(detail):
            yield from _walk(entry, path + pointer(index) if nested and not isinstance(entry, str) else path)
    elif detail is not None:
        yield FieldError(path, str(getattr(detail, "code", "invalid") or "invalid"), words_of(detail))
