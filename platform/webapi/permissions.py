"""Whether an operation asks for a signed-in actor. What the actor may do to which object is `webapi.access`'s question."""

from __future__ import annotations

from typing import Any

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from webapi.access import needs_token
from webapi.actors import actor_of


class SignedIn(BasePermission):
    """Lets in callers with a valid credential."""

    def has_permission(self, request: Request, view: Any) -> bool:
        if not actor_of(request).is_authenticated:
            raise needs_token()
        return True


class Public(BasePermission):
    """Lets in all callers. Only for what tells nothing about any user; kept to an exact list by the authorisation matrix."""

    def has_permission(self, request: Request, view: Any) -> bool:
        return True
