"""The base of every HTTP operation: who acts, how often, and how failures look.

A view states nothing to be private: `ApiView` asks for a signed-in actor. An operation that is open to all callers says so
with `permission_classes = [Public]`, and the authorisation matrix compares those with an exact list.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from drf_spectacular.utils import OpenApiParameter
from rest_framework import exceptions as drf_errors
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.views import APIView

from kernel.actor import Actor
from kernel.errors import FieldError, InvalidInput, NotAuthenticated
from kernel.words import Text
from webapi.actors import actor_of
from webapi.features import check_feature, named_tenant
from webapi.permissions import Public, SignedIn
from webapi.schema import BerthSchema
from webapi.throttles import charge_stranger, refuse_again

__all__ = ["ApiView", "Public", "SignedIn", "known_query", "query_flag"]

PAGE_PARAMETERS = frozenset({"limit", "cursor"})


class ApiView(APIView):
    """One resource of the API. Handlers read `self.actor` and return a `Response`; failures are raised."""

    schema = BerthSchema()
    public_methods: frozenset[str] = frozenset()  # Of a view that is open to all callers in some of its methods only.
    is_by_session = False  # Whether the view is for sessions of browsers alone.
    feature = ""  # The feature that the view is a part of (`webapi/features.py`); none: it is always there.

    @property
    def actor(self) -> Actor:
        """Who acts, with the request's id for audit rows."""
        return actor_of(self.request)

    def get_permissions(self) -> Sequence[Any]:
        return [Public()] if self.request.method in self.public_methods else super().get_permissions()

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Authenticate, then count: requests without valid credentials count against their address."""
        if self.throttle_classes:
            refuse_again(request)
        try:
            super().initial(request, *args, **kwargs)
        except (NotAuthenticated, drf_errors.AuthenticationFailed, drf_errors.NotAuthenticated):
            charge_stranger(request)
            raise
        if request.method in {"GET", "HEAD"}:
            view: Any = type(self)  # For mypy a class with metaclass `type` is not hashable.
            _refuse_unknown(request, _documented_query(view))
        if self.feature:
            self.check_feature(named_tenant(request, kwargs))

    def check_feature(self, tenant: object = None) -> None:
        """Raise unless the view's feature is on in this tenant (id, slug or name); without one, in any of the caller's."""
        check_feature(self.request, self.feature, tenant)

    def perform_content_negotiation(self, request: Request, force: bool = False) -> tuple[BaseRenderer, str]:
        """Answer in the view's own format whatever `Accept` says: browsers and EventSource ask for what no view makes."""
        renderer = self.get_renderers()[0]
        return renderer, renderer.media_type


def query_flag(request: Request, name: str) -> bool:
    """Whether a yes/no query parameter is set: `?dry_run=true`, `?dry_run=1` or a bare `?dry_run`."""
    text = request.query_params.get(name, "false").lower()
    if text not in {"", "0", "1", "true", "false", "yes", "no"}:
        message = Text(f"{name} must be true or false.", f"{name} 须为 true 或 false。")
        raise InvalidInput(message, fields=[FieldError(f"/{name}", "invalid", message)])
    return text in {"", "1", "true", "yes"}


def known_query(request: Request, names: Sequence[str]) -> None:
    """Refuse query parameters that an operation does not know: a misspelt filter must not return everything."""
    _refuse_unknown(request, frozenset({*names, *PAGE_PARAMETERS}))


@functools.cache
def _documented_query(view: type[ApiView]) -> frozenset[str] | None:
    """The query parameters of a view's GET as its description has them; None for one that nothing describes."""
    described = getattr(getattr(view, "get", None), "kwargs", {}).get("schema")
    if described is None:
        return None
    schema = described()
    schema.view, schema.method, schema.path = view(request=None, kwargs={}), "GET", ""
    return frozenset(
        parameter.name
        for parameter in schema.get_override_parameters()
        if isinstance(parameter, OpenApiParameter) and parameter.location == OpenApiParameter.QUERY
    )


def _refuse_unknown(request: Request, names: frozenset[str] | None) -> None:
    unknown = sorted(set(request.query_params) - names) if names is not None else ()
    if unknown:
        known = ", ".join(sorted(names or ())) or "none"
        fields = [
            FieldError(
                f"/{name}",
                "unknown_parameter",
                Text(f"There is no query parameter {name[:80]!r}.", f"没有查询参数 {name[:80]!r}。"),
            )
            for name in unknown
        ]
        raise InvalidInput(fields[0].message, fields=fields, hint=Text(f"Known are: {known}.", f"可用：{known}。"))
