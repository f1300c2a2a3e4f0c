"""Doors beside the door: paths that look public, methods nobody offered, and what a foreign web page can send by itself."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from django.db import transaction
from rest_framework.test import APIClient

from tests.security.matrix.expectations import EXPECTATIONS, PUBLIC
from tests.security.matrix.operations import OUTSIDE_DESCRIPTION, Operation, described
from tests.security.matrix.principals import Who
from tests.security.matrix.sending import client_of, shown
from tests.security.matrix.world import World

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("quick")]

OPERATIONS = described()
CLOSED = [operation for operation in OPERATIONS if str(operation) not in PUBLIC]
UNSAFE = [operation for operation in CLOSED if operation.method != "GET"]
PUBLIC_PATHS = sorted({entry.path for entry in OPERATIONS if str(entry) in PUBLIC} | set(OUTSIDE_DESCRIPTION) - {"/", "/admin"})
PUBLIC_NAMES = ("livez", "readyz", "health", "healthz", "metrics", "info", "docs", "openapi.json", "static", "login")

# What a page of another origin can do to a request without asking first, and what it cannot forge: browsers set these.
PAGES = (
    {"HTTP_ORIGIN": "https://evil.example", "HTTP_SEC_FETCH_SITE": "cross-site", "HTTP_SEC_FETCH_MODE": "no-cors"},
    {"HTTP_ORIGIN": "null", "HTTP_SEC_FETCH_SITE": "cross-site", "HTTP_SEC_FETCH_MODE": "cors"},
    {"HTTP_ORIGIN": "http://testserver.evil.example", "HTTP_SEC_FETCH_SITE": "same-site", "HTTP_SEC_FETCH_MODE": "navigate"},
    {"HTTP_REFERER": "https://evil.example/page"},
    {},
)
SIMPLE_TYPES = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "")


@pytest.mark.parametrize("operation", CLOSED, ids=str)
def test_a_name_that_sounds_public_opens_nothing(operation: Operation, world: World) -> None:
    """An object called `health`, a path that ends in one, begins with one or hides one behind a sign: all ask for the token."""
    anonymous = APIClient(raise_request_exception=False)
    wrong = []
    for name in PUBLIC_NAMES:
        parts = [name if part.startswith("{") else part for part in operation.path.split("/")]
        path = "/".join(parts)
        for address in (path, f"{path}/{name}", f"{path};{name}", f"{path}%2f{name}", f"/{name}/..{path}"):
            response = anonymous.generic(operation.method, address)
            if response.status_code not in {401, 404, 405}:
                wrong.append(f"{address}: {response.status_code} {shown(response)}")

    assert not wrong, "\n".join([str(operation), *wrong])


@pytest.mark.parametrize(
    "path", sorted({entry.path for entry in OPERATIONS if str(entry) in PUBLIC} | set(OUTSIDE_DESCRIPTION) - {"/", "/admin"})
)
def test_a_public_path_is_public_to_the_letter(path: str) -> None:
    anonymous = APIClient(raise_request_exception=False)
    for address in (f"{path}/x", f"{path}.", f"{path}%00", f"{path};x", f"/x{path}", path.upper(), f"{path}/"):
        response = anonymous.generic("GET", address)
        assert response.status_code in {400, 401, 404}, f"{address}: {response.status_code}"


@pytest.mark.parametrize("address", ["secret.key", "../secret.key", "..%2fsecret.key", "....//secret.key", "/etc/passwd"])
def test_static_files_are_those_of_the_packages(address: str) -> None:
    response = APIClient(raise_request_exception=False).get(f"/static/{address}")

    assert response.status_code in {400, 404}


@pytest.mark.parametrize("operation", CLOSED, ids=str)
def test_every_method_asks_for_the_token(operation: Operation, world: World) -> None:
    anonymous = APIClient(raise_request_exception=False)
    path = world.own.path(operation.path)
    for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE", "CONNECT", "PROPFIND", "QUERY", "get", "PoSt"):
        if f"{method.upper()} {operation.path}" in PUBLIC:
            continue
        response = anonymous.generic(method, path)
        assert response.status_code in {401, 405}, f"{method} {path}: {response.status_code} {shown(response)}"


@pytest.mark.parametrize("operation", UNSAFE, ids=str)
def test_no_page_of_another_origin_writes_in_somebodys_name(operation: Operation, world: World) -> None:
    """Whatever a page can send by itself - cookies, basic credentials, forms - names nobody here."""
    token = (world.principals[Who.MANAGER].header or "").removeprefix("Bearer ")
    basic = "Basic " + base64.b64encode(f"{Who.MANAGER}:{token}".encode()).decode()
    client = APIClient(raise_request_exception=False)
    for name in ("token", "sessionid", "session", "Authorization", "berth", "csrftoken"):
        client.cookies[name] = token
    path, wrong = world.own.path(operation.path), []
    for page in PAGES:
        for content_type in SIMPLE_TYPES:
            for credential in ({}, {"HTTP_AUTHORIZATION": basic}, {"HTTP_X_FORWARDED_USER": str(Who.MANAGER)}):
                response = client.generic(
                    operation.method, f"{path}?token={token}", b"{}", content_type=content_type, **page, **credential
                )
                cell = f"{page} {content_type} {list(credential)}: {response.status_code}"
                if response.status_code != 401:
                    wrong.append(cell)
                if not keeps_to_itself(response):
                    wrong.append(f"{cell} {dict(response.headers)}")

    assert not wrong, "\n".join([str(operation), *wrong])


@pytest.mark.parametrize("operation", UNSAFE, ids=str)
def test_a_form_is_no_way_to_write_even_with_a_token(operation: Operation, world: World) -> None:
    """What reads a body reads its own types; the simple ones, which need no preflight, are refused."""
    from webapi.description import describe

    if "requestBody" not in describe()["paths"][operation.path][operation.method.lower()]:
        return
    client = client_of(world.principals[Who.MANAGER])
    expect = EXPECTATIONS[str(operation)]
    body = expect.body(world, world.own) if expect.body else {}
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    for content_type in SIMPLE_TYPES[:3]:
        with transaction.atomic():
            response = client.generic(operation.method, world.own.path(operation.path), content, content_type=content_type)
            transaction.set_rollback(True)
        assert 400 <= response.status_code < 500, f"{content_type}: {response.status_code} {shown(response)}"


@pytest.mark.parametrize("operation", CLOSED, ids=str)
def test_a_preflight_is_granted_to_nobody(operation: Operation, world: World) -> None:
    asks = {"HTTP_ACCESS_CONTROL_REQUEST_METHOD": operation.method, "HTTP_ACCESS_CONTROL_REQUEST_HEADERS": "authorization"}
    response = APIClient(raise_request_exception=False).generic(
        "OPTIONS", world.own.path(operation.path), HTTP_ORIGIN="https://evil.example", **asks
    )

    assert response.status_code in {401, 405}
    assert keeps_to_itself(response)


@pytest.mark.parametrize("header", ["HTTP_X_HTTP_METHOD_OVERRIDE", "HTTP_X_METHOD_OVERRIDE", "HTTP_X_HTTP_METHOD"])
def test_no_header_turns_a_reading_into_a_writing(header: str, world: World) -> None:
    from jobs.models import Job

    client = client_of(world.principals[Who.MANAGER])
    volume = f"/api/v1/volumes/{world.own.values['volumes']}"
    with transaction.atomic():
        client.get(volume, **{header: "DELETE"})
        client.get(f"{volume}?_method=DELETE")
        again = client.get(volume)
        posted = client.generic("POST", volume, b"_method=DELETE", content_type="application/x-www-form-urlencoded")
        transaction.set_rollback(True)

    assert again.status_code == 200
    assert posted.status_code == 405
    assert Job.objects.filter(pk=world.own.values["jobs"]).exists()


def keeps_to_itself(response: Any) -> bool:
    """No cookie is set, and no other origin is let in."""
    names = {name.lower() for name in response.headers}
    return not response.cookies and not any(name.startswith("access-control-") for name in names)
