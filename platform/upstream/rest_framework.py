"""REST framework: what belongs to Django's own request, below the one that views get."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from rest_framework.request import Request

from upstream.hooks import CORRECTNESS, Hook

HOOKS = (
    Hook(
        upstream="rest_framework.request.Request._request",
        ours="plain",
        why="What authentication finds is read back by the middleware, which has Django's request only; the body is "
        "read before the parsers consume it. Writing to the framework's own request leaves Django's as it was.",
        gain=f"{CORRECTNESS}: the middleware would not know who asked",
        test="unit/upstream/test_rest_framework.py::test_what_is_written_to_the_plain_request_is_seen_by_the_middleware",
    ),
)


def plain(request: Request) -> HttpRequest:
    """Django's request inside that of REST framework."""
    found: HttpRequest = request._request
    return found


def remember(request: Request, **facts: Any) -> None:
    """Write attributes to Django's request, for who reads them back there."""
    for name, value in facts.items():
        setattr(request._request, name, value)
