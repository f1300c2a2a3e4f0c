"""Who acts in a request, once authentication has run. Apart from the views, which the framework's own settings import."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kernel.actor import ANONYMOUS, Actor
from kernel.facts import Facts
from webapi.facts import look


def actor_of(request: Any) -> Actor:
    """The actor that authentication found, with the request's id for audit rows; ANONYMOUS without a credential."""
    found = getattr(request, "auth", None)
    if not isinstance(found, Actor):
        return ANONYMOUS
    request_id = getattr(request, "request_id", "") or ""
    return found if found.request_id == request_id else replace(found, request_id=request_id)


def facts_of(request: Any) -> Facts:
    """What held when the request was authenticated; to be asked before it writes."""
    found = getattr(getattr(request, "_request", request), "facts", None)
    return found if isinstance(found, Facts) else look()
