"""What there is to knock at: the API's description, the URL resolver and the WebSocket routes, each compared with the others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from django.urls import URLPattern, URLResolver, get_resolver
from django.urls.converters import get_converters

# Routes that the description leaves out on purpose, by exact pattern, with the reason. Each must be harmless for anybody.
OUTSIDE_DESCRIPTION: dict[str, str] = {
    "/": "The portal's document, the same for everybody, or the way to the description of the API; tells nothing.",
    "/{page}": "The same document under every address that nothing else answers.",
    "/docs/errors": "The meaning of the error codes, the same for everybody.",
    "/sign-in/oidc": "Leads a browser to the identity provider; tells nothing of anybody.",
    "/sign-in/oidc/return": "The provider's signature is the credential; `tests/api/tenants/test_oidc.py`.",
    "/admin": "Leads operators to their console; tells nothing.",
}
CONSOLE = "/admin/"  # The operators' console has sessions and a gate of its own: `test_console_matrix.py`.

HTTP_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


@dataclass(frozen=True, order=True)
class Operation:
    """One method of one path, written as the description writes it."""

    path: str
    method: str

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def described() -> tuple[Operation, ...]:
    """All operations of the API's description."""
    from webapi.description import describe

    paths = describe()["paths"]
    return tuple(
        sorted(Operation(path, name.upper()) for path, entry in paths.items() for name in entry if name.upper() in HTTP_METHODS)
    )


def routes() -> Iterator[tuple[str, tuple[str, ...]]]:
    """All routes of the URL resolver with the methods that their views have; a plain function answers any method. Without
    those of the console."""
    yield from _routes([entry for entry in get_resolver().url_patterns if not _is_console(entry)], "/")


def console_routes() -> Iterator[tuple[str, URLPattern]]:
    """Every page of the console, with the part of its address below it as the resolver has it."""
    for entry in get_resolver().url_patterns:
        if _is_console(entry):
            yield from _leaves(entry, "")


def _is_console(entry: URLPattern | URLResolver) -> bool:
    return isinstance(entry, URLResolver) and f"/{entry.pattern}" == CONSOLE


def _leaves(entry: URLPattern | URLResolver, prefix: str) -> Iterator[tuple[str, URLPattern]]:
    path = prefix + str(entry.pattern)
    if isinstance(entry, URLPattern):
        yield path, entry
    else:
        for below in entry.url_patterns:
            yield from _leaves(below, path)


def websocket_routes() -> tuple[str, ...]:
    from controlplane.routing import websocket_urlpatterns

    return tuple("/" + _template(str(route.pattern)) for route in websocket_urlpatterns)


def _routes(patterns: list[URLPattern | URLResolver], prefix: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    for pattern in patterns:
        path = prefix + _template(str(pattern.pattern))
        if isinstance(pattern, URLResolver):
            yield from _routes(pattern.url_patterns, path)
        else:
            view = getattr(pattern.callback, "cls", None)
            methods = HTTP_METHODS if view is None else tuple(name for name in HTTP_METHODS if hasattr(view, name.lower()))
            yield path, methods


def _template(pattern: str) -> str:
    assert not pattern.startswith("^"), f"{pattern} is a regular expression; use a path, which the matrix can read"
    assert set(re.findall(r"<(\w+):", pattern)) <= set(get_converters())
    return re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", pattern)
