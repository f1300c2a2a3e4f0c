"""Paths that people were let out by: `..` plain, encoded once and twice, behind `;`, in other alphabets, absolute, with links."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

import pytest
from django.db import transaction

from tests.security.matrix.expectations import EXPECTATIONS, upload
from tests.security.matrix.operations import Operation, described
from tests.security.matrix.principals import Who
from tests.security.matrix.sending import client_of, request, shown
from tests.security.matrix.world import World

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("quick")]

# As they are written into an address: what is encoded here is decoded once on the way, and never again.
TRAVERSALS = (
    "..%2f..%2f..%2f..%2fetc%2fpasswd",
    "%2e%2e/%2e%2e/%2e%2e/etc/passwd",
    "..%252f..%252fetc%252fpasswd",
    "..;/..;/etc/passwd",
    "..%5c..%5cetc%5cpasswd",
    "%2f%2fetc%2fpasswd",
    "..%c0%af..%c0%afetc%c0%afpasswd",
    "%e2%80%a4%e2%80%a4%2f....%2f%2fetc%2fpasswd",
    "a%2f..%2f..%2f..%2fetc%2fpasswd",
    "proc%2fself%2fenviron%00.txt",
    "%0d%0aSet-Cookie:%20x=1",
)
OUTSIDE = [
    "../x",
    "a/../../x",
    "a//b/../../../x",
    ".",
    "..",
    "",
    "a\0b",
    "a/./../..",
    "x" * 5_000,
    "a/" * 600,
    "\u202e/..",
    "a/..",
]
PLACES = [operation for operation in described() if any(part.startswith("{") for part in operation.path.split("/"))]
WITH_PATH = [Operation(f"/api/v1/volumes/{{volume_id}}/{tail}", method) for tail, method in (
    ("files", "GET"), ("content", "GET"), ("content", "DELETE"),
)]  # fmt: skip


@pytest.mark.parametrize("operation", PLACES, ids=str)
def test_no_part_of_an_address_leads_out(operation: Operation, world: World) -> None:
    """The last parameter of each path, which is where names and paths stand; the rest are the caller's own objects."""
    expect = EXPECTATIONS[str(operation)]
    template = operation.path.split("/")
    last = max(place for place, part in enumerate(template) if part.startswith("{"))
    made = world.own.path(operation.path).split("/")
    wrong = []
    for text in TRAVERSALS:
        address = "/".join(text if place == last else part for place, part in enumerate(made))
        body = expect.body(world, world.own) if expect.body else None
        with transaction.atomic():
            response = request(client_of(world.principals[Who.MANAGER]), operation.method, address, body, expect)
            problem = not is_refused(response) and not creates_a_name(operation)
            transaction.set_rollback(True)
        if problem or not tells_nothing(response):
            wrong.append(f"{text}: {response.status_code} {shown(response)}")

    assert not wrong, "\n".join([str(operation), *wrong])


@pytest.mark.parametrize("operation", WITH_PATH, ids=str)
def test_no_path_in_a_query_leads_out(operation: Operation, world: World) -> None:
    wrong = []
    for text in (*TRAVERSALS, "../../../../etc/passwd", "/etc/passwd", "x/../../../etc/passwd", "..\\..\\etc\\passwd"):
        address = f"{world.own.path(operation.path)}?path={text}"
        with transaction.atomic():
            client = client_of(world.principals[Who.MANAGER])
            response = request(client, operation.method, address, None, EXPECTATIONS[str(operation)])
            transaction.set_rollback(True)
        if not is_refused(response) or not tells_nothing(response):
            wrong.append(f"{text}: {response.status_code} {shown(response)}")

    assert not wrong, "\n".join([str(operation), *wrong])


@pytest.mark.parametrize("path", OUTSIDE)
def test_no_upload_is_announced_for_a_place_outside(path: str, world: World) -> None:
    expect = EXPECTATIONS["POST /api/v1/uploads"]
    body = upload(world.own, volume=world.own.values["volumes"])
    body["target"]["path"] = path
    with transaction.atomic():
        response = request(client_of(world.principals[Who.MEMBER]), "POST", "/api/v1/uploads", body, expect)
        transaction.set_rollback(True)

    assert response.status_code in {400, 422}, shown(response)


def test_a_name_that_is_encoded_twice_is_not_decoded_twice(world: World) -> None:
    """`file%2Etxt`, encoded once more, is another name than `file.txt`."""
    client = client_of(world.principals[Who.MANAGER])
    address = world.own.path("/api/v1/volumes/{volume_id}/content")

    assert client.get(f"{address}?{urlencode({'path': 'file.txt'})}").status_code == 200
    assert client.get(f"{address}?{urlencode({'path': quote('file.txt').replace('.', '%2E')})}").status_code == 404


def is_refused(response: Any) -> bool:
    return response.status_code in {400, 401, 403, 404, 405, 409, 416, 422}


def creates_a_name(operation: Operation) -> bool:
    """Tags are free text and secrets have a grammar of their own; neither is ever a path."""
    return operation.path.endswith(("/tags/{tag}",))


def tells_nothing(response: Any) -> bool:
    content = b"".join(response.streaming_content) if response.streaming and not response.is_async else response.content
    return b"root:x:" not in content and b"PATH=" not in content and not response.cookies
