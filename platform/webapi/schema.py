"""The API's description (OpenAPI 3.1), made from the views; `client` and portal types are generated from it.

Operations are named `<tag>_<verb>` by their path and method, so a name changes only with its path. What is true of every
operation - how to sign in, what a failure looks like - is added here once, and no view repeats it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, inline_serializer
from rest_framework import serializers

from upstream.spectacular import BodyOfDelete
from webapi.bounds import PAGE_SIZE, PAGE_SIZE_MAX
from webapi.permissions import Public

PREFIX = "/api/v1/"
METRICS_PATH = "/metrics"  # Lets in operators and scrapers; it looks at the token itself.
TOKEN_SCHEME = "token"  # noqa: S105 - the scheme's name in the document.
SESSION_SCHEME = "session"
PROBLEM = "#/components/responses/Problem"

# Ends of paths that stand for one object although nothing in the path follows them.
SINGLE_NOUNS = frozenset(
    {
        "content",
        "docs",
        "docs.js",
        "info",
        "job-spec",
        "livez",
        "metrics",
        "openapi.json",
        "readyz",
        "session",
        "sign-in-methods",
        "spec",
        "stream",
        "timeline",
        "totp",
        "usage",
        "whoami",
    }
)
VERBS = {"GET": "get", "POST": "create", "PUT": "put", "PATCH": "update", "DELETE": "delete"}

PAGE_QUERY = [
    OpenApiParameter("limit", OpenApiTypes.INT, description=f"Items per page, 1 to {PAGE_SIZE_MAX}; default: {PAGE_SIZE}."),
    OpenApiParameter("cursor", OpenApiTypes.STR, description="`next` of the previous page, unchanged."),
]
IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description="At most 200 characters. Repeated requests with the same key within 24 hours take effect once.",
)
PLAN = OpenApiParameter(
    "plan",
    str,
    description="`plan` of a dry run: apply exactly that plan, or refuse with `plan_changed` and the present plan.",
)
IF_MATCH = OpenApiParameter(
    "If-Match",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description="The `ETag` of the object when it was read; 412 if another user changed it since.",
)


def page_of(item: type[serializers.BaseSerializer[Any]]) -> serializers.Serializer[Any]:
    """The answer of a list operation with such items: `@extend_schema(responses=page_of(JobOut))`."""
    made: serializers.Serializer[Any] = _page_class(item)()
    made.is_page = True  # type: ignore[attr-defined]  # Read back below: pages take `limit` and `cursor`.
    return made


_page_classes: dict[type[serializers.BaseSerializer[Any]], type[serializers.Serializer[Any]]] = {}


def _page_class(item: type[serializers.BaseSerializer[Any]]) -> type[serializers.Serializer[Any]]:
    """One class per kind of item, however many operations list it: the description names it once."""
    if item not in _page_classes:
        _page_classes[item] = _make_page_class(item)
    return _page_classes[item]


def _make_page_class(item: type[serializers.BaseSerializer[Any]]) -> type[serializers.Serializer[Any]]:
    name = f"{item.__name__.removesuffix('Serializer').removesuffix('Out')}Page"
    items: Any = item(many=True)
    after = serializers.CharField(allow_null=True, help_text="Cursor of the next page; null on the last page.")
    return type(inline_serializer(name, fields={"items": items, "next": after}))


class BerthSchema(BodyOfDelete):
    """How one view becomes operations of the description."""

    def get_operation_id(self) -> str:
        return operation_id(self.method, self.path, has_list=hasattr(self.view, "get"))

    def get_tags(self) -> list[str]:
        return [tag_of(self.path)]

    def get_summary(self) -> str | None:
        first = (self.get_description() or "").strip().partition("\n")[0].rstrip(".")
        return first or None

    def get_auth(self) -> list[dict[str, list[str]]]:
        if is_public(self.view, self.method) and self.path != METRICS_PATH:
            return []
        return (
            [{SESSION_SCHEME: []}] if getattr(self.view, "is_by_session", False) else [{TOKEN_SCHEME: []}, {SESSION_SCHEME: []}]
        )

    def get_override_parameters(self) -> list[Any]:
        found: list[Any] = list(super().get_override_parameters())
        if getattr(self.get_response_serializers(), "is_page", False):
            found += PAGE_QUERY
        if getattr(getattr(self.view, self.method.lower(), None), "is_idempotent", False):
            found.append(IDEMPOTENCY_KEY)
        return found


def is_public(view: Any, method: str) -> bool:
    """Whether a method of a view lets in all callers."""
    return Public in tuple(view.permission_classes) or method in view.public_methods


def tag_of(path: str) -> str:
    """The noun that a path is about: its first part, `jobs` for `/api/v1/jobs:batch`."""
    return _words(path)[0].partition(":")[0] or "root"


def operation_id(method: str, path: str, *, has_list: bool) -> str:
    """`jobs_list`, `jobs_get`, `jobs_logs_stream_get`, `jobs_stop`, `jobs_batch`: by method and path alone.

    A POST below an object is an action (`jobs_stop`) unless the same path can be read: then it makes one more of them.
    """
    words = [word for word in _words(path) if not word.startswith("{")]
    name = re.sub(r"[^a-z0-9]+", "_", "_".join(words).lower()).strip("_")
    ends_in_parameter = path.rstrip("/").endswith("}")
    if method == "GET" and not ends_in_parameter and words[-1] not in SINGLE_NOUNS:
        return f"{name}_list"
    is_action = method == "POST" and not ends_in_parameter and (":" in words[-1] or (len(_words(path)) > 1 and not has_list))
    return name if is_action else f"{name}_{VERBS[method]}"


def _words(path: str) -> list[str]:
    return path.removeprefix(PREFIX.rstrip("/")).strip("/").split("/")


def complete(result: dict[str, Any], generator: SchemaGenerator, request: Any, public: bool) -> dict[str, Any]:
    """Add what is the same for all operations: the token, and the answers when something fails."""
    components = result.setdefault("components", {})
    components["securitySchemes"] = {
        TOKEN_SCHEME: {"type": "http", "scheme": "bearer", "description": "Token of `berth login` or POST /api/v1/tokens."},
        SESSION_SCHEME: {
            "type": "apiKey",
            "in": "cookie",
            "name": "__Host-berth-session",
            "description": "Session of a browser, created by POST /api/v1/session; without https the name has no `__Host-`. "
            "Every request but GET sends the session's `csrf` in the header `X-Berth-CSRF`.",
        },
    }
    components.setdefault("schemas", {}).update({"Problem": _problem_schema(), "FieldProblem": _field_problem_schema()})
    components["responses"] = {
        "Problem": {
            "description": "The request failed: RFC 9457 with Berth's stable `code`, words and the next step.",
            "content": {
                "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}, "example": _problem_example()}
            },
        }
    }
    components["schemas"] = dict(sorted(components["schemas"].items()))
    for path, operation in operations(result):
        _complete_operation(path, operation)
    names = sorted({tag for _, operation in operations(result) for tag in operation.get("tags", ())})
    result["tags"] = [{"name": name} for name in names]
    return result


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every operation of a document with its path."""
    for path, entry in document.get("paths", {}).items():
        for method, operation in entry.items():
            if method in {"get", "put", "post", "delete", "patch", "head"}:
                yield path, operation


def _complete_operation(path: str, operation: dict[str, Any]) -> None:
    statuses = ["429", "default"]
    if operation.get("security"):
        statuses += ["401", "403"]
    if "{" in path:
        statuses.append("404")
    if "requestBody" in operation:
        statuses += ["400", "413", "415", "422"]
    elif operation.get("parameters"):
        statuses.append("422")
    responses = operation.setdefault("responses", {})
    for status in statuses:
        responses.setdefault(status, {"$ref": PROBLEM})
    operation["responses"] = dict(sorted(responses.items()))


def _problem_schema() -> dict[str, Any]:
    text = {"type": "string"}
    properties = {
        "type": {**text, "description": "Path of the explanation of `code`."},
        "title": {**text, "description": "The code in words, in the language of `Accept-Language` (en, zh)."},
        "status": {"type": "integer"},
        "code": {**text, "description": "Stable code for programs; docs/errors.md lists all codes."},
        "detail": {**text, "description": "Description of the problem, with its object and numbers."},
        "hint": {**text, "description": "Next step."},
        "retryable": {"type": "boolean", "description": "The same request may succeed later."},
        "request_id": {**text, "description": "Id of the request in the server's log."},
        "fields": {"type": "array", "items": {"$ref": "#/components/schemas/FieldProblem"}},
    }
    required = ["type", "title", "status", "code", "detail", "retryable", "request_id"]
    return {"type": "object", "properties": properties, "required": required}


def _field_problem_schema() -> dict[str, Any]:
    text = {"type": "string"}
    properties = {"path": {**text, "description": "JSON pointer into the request."}, "code": text, "message": text, "hint": text}
    return {"type": "object", "properties": properties, "required": ["path", "code", "message"]}


def _problem_example() -> dict[str, Any]:
    message = "Must be at least 1."
    return {
        "type": "/docs/errors#invalid_input",
        "title": "The input is not valid",
        "status": 422,
        "code": "invalid_input",
        "detail": f"1 field is not valid: /roles/worker/replicas - {message}",
        "hint": "`fields` lists every one of them with its path.",
        "retryable": False,
        "request_id": "0c5d3d0f6f5d4a6e8a1b2c3d4e5f6a7b",
        "fields": [{"path": "/roles/worker/replicas", "code": "min_value", "message": message}],
    }
