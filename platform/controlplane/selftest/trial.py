"""What is tried: every operation of the description, on things of another tenant; and what an answer must not be."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from controlplane.selftest.parties import NAME, Answer, Caller, Parties

METHODS = ("get", "post", "put", "patch", "delete")
PARAMETER = re.compile(r"\{(\w+)\}")
# Bodies with which the request would be carried out if it were allowed: a refusal must be one of rights, not of form.
BODIES: dict[str, Any] = {
    "PATCH /api/v1/jobs/{job}": {"priority": 0},
    "PATCH /api/v1/volumes/{volume_id}": {"description": NAME},
    "PATCH /api/v1/queues/{queue_id}": {"name": NAME},
    "PUT /api/v1/queues/{queue_id}/limits": [],
    "PATCH /api/v1/tenants/{tenant}": {"description": NAME},
    "PUT /api/v1/tenants/{tenant}/secrets/{name}": {"value": NAME},
    "POST /api/v1/tenants/{tenant}/service-accounts": {"name": NAME},
    "PATCH /api/v1/tenants/{tenant}/members/{user_id}": {"role": "viewer"},
    "POST /api/v1/tenants/{tenant}/members": {"user": NAME, "role": "viewer"},
    "POST /api/v1/tenants/{tenant}/members/{member}/hand-over": {"to": NAME},
    "PATCH /api/v1/users/{user_id}": {"email": "selftest@example.org"},
    "PATCH /api/v1/subscriptions/{subscription}": {"is_active": False},
    "POST /api/v1/volumes/{volume_id}/grants": {"tenant": NAME, "read_only": True},
}
NAMING = ("tenant", "job", "queue", "user", "parent", "actor", "target_id", "subscription", "name", "q", "image", "volume")


@dataclass(frozen=True, slots=True)
class Try:
    """One request, and whether its path names something of the owner."""

    operation: str
    method: str
    path: str
    body: object = None
    query: dict[str, str] | None = None
    names_owner: bool = False
    is_open: bool = False


def tries(description: dict[str, Any], parties: Parties) -> Iterator[Try]:
    """Every operation on the owner's things, every way to name them in a query, and the owner's own requests once more."""
    for template, entry in sorted(description["paths"].items()):
        path = fill(template, parties.values)
        if path is None:
            continue  # Of the installation: all users may see clusters, pools and nodes.
        for method in METHODS:
            if method not in entry:
                continue
            operation = f"{method.upper()} {template}"
            names_owner, is_open = path != template, not entry[method].get("security")
            if names_owner:
                body = BODIES.get(operation, {} if method in {"post", "put", "patch"} else None)
                yield Try(operation, method.upper(), path, body, names_owner=True, is_open=is_open)
            elif method == "get":
                if not path.endswith("/stream"):
                    yield Try(operation, "GET", path, is_open=is_open)
                yield from _queries(operation, path, entry[method], parties, is_open)
    for method, path, body in parties.made:
        yield Try(f"{method} {path}", method, path, body, names_owner=True)


def _queries(operation: str, path: str, entry: dict[str, Any], parties: Parties, is_open: bool) -> Iterator[Try]:
    known = {found["name"] for found in entry.get("parameters", ()) if found["in"] == "query"}
    for name in sorted(known & set(NAMING)):
        for value in parties.names:
            yield Try(operation, "GET", path, query={name: value}, is_open=is_open)


def fill(template: str, values: dict[str, str]) -> str | None:
    """The path with the owner's things in it; None if one of its parameters is no thing of a tenant."""
    parts = template.split("/")
    for place, part in enumerate(parts):
        for name in PARAMETER.findall(part):
            before = parts[place - 1].partition(":")[0] if place else ""
            value = values.get(f"{_noun(template, place)}/{name}") or values.get(f"{before}/{name}") or values.get(name)
            if value is None:
                return None
            part = part.replace("{" + name + "}", value)
        parts[place] = part
    return "/".join(parts)


def _noun(template: str, place: int) -> str:
    return template.split("/")[place - 1].partition(":")[0] if place else ""


def judge(tried: Try, caller: Caller, answer: Answer, marks: set[str]) -> str:
    """What is wrong with an answer to a caller without the right; empty when nothing is."""
    said = f"{tried.path} {tried.body} {tried.query}"
    shown = [mark for mark in sorted(marks) if mark in answer.text and mark not in said]
    if shown:
        return f"shows {shown[0]}"
    if answer.status >= 500 and answer.status != 503:
        return "is a fault of the server"
    if tried.is_open:
        return ""
    if not caller.token:
        return "" if answer.status == 401 else "does not ask for a token"
    if tried.names_owner and 200 <= answer.status < 300:
        return "is carried out"
    return ""
