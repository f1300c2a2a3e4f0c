"""Requests as schemathesis makes them from the published description, sent in this process and undone."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import requests
import schemathesis
from django.db import transaction
from rest_framework.test import APIClient
from schemathesis import Case, Response, SerializationContext

from tests.security.matrix.principals import Principal


@schemathesis.serializer("application/offset+octet-stream")
def piece_of_an_upload(context: SerializationContext, value: Any) -> bytes:
    """Bytes as they are; text as its bytes."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")


BASE = "http://testserver"
TAKEN = ("method", "url", "params", "json", "data", "headers", "cookies")
OURS = {"authorization", "user-agent"}
BODY_MAX = 64 * 1024  # Of a streamed answer: its beginning shows its kind.


@cache
def schema() -> Any:
    """The description that the server publishes."""
    from webapi.description import describe

    return schemathesis.openapi.from_dict(copy.deepcopy(describe()))  # It adds to what it is given, which others read, too.


def send(case: Case, principal: Principal, *, undo: bool = True) -> Response:
    """Carry a case out as somebody, through the whole stack below the socket."""
    options = {name: value for name, value in case.as_transport_kwargs(base_url=BASE).items() if name in TAKEN}
    options["headers"] = {name: value for name, value in (options.get("headers") or {}).items() if name.lower() not in OURS}
    prepared = requests.Request(**options).prepare()
    body = prepared.body if prepared.body is not None else b""
    content = body.encode() if isinstance(body, str) else body if isinstance(body, bytes) else bytes(body.read())
    headers = {
        f"HTTP_{name.upper().replace('-', '_')}": value
        for name, value in prepared.headers.items()
        if name.lower() not in {"content-type", "content-length"}
    }
    if principal.header is not None:
        headers["HTTP_AUTHORIZATION"] = principal.header
    content_type = prepared.headers.get("Content-Type", "application/octet-stream")
    client = APIClient(raise_request_exception=False)
    address = (prepared.url or "").removeprefix(BASE)
    with transaction.atomic():
        answered = client.generic(case.method, address, content, content_type=content_type, **headers)
        response = _as_response(answered, prepared)
        if undo:
            transaction.set_rollback(True)
    return response


def _as_response(answered: Any, prepared: requests.PreparedRequest) -> Response:
    if answered.streaming:
        content = b"" if answered.is_async else b"".join(answered.streaming_content)[:BODY_MAX]
    else:
        content = answered.content
    headers = {name: [str(value)] for name, value in answered.items()}
    return Response(answered.status_code, headers, content, prepared, 0.0, True, message=answered.reason_phrase)
