"""Names as attackers choose them: one that a command line takes for an option, and files called as nobody expects."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from django.apps import apps

from tests.security.matrix.expectations import EXPECTATIONS
from tests.security.matrix.operations import Operation
from tests.security.matrix.principals import Who
from tests.security.matrix.sending import client_of, request, send, shown
from tests.security.matrix.world import World

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("quick")]

# Whatever a command of Berth takes by its name, and who may give it one.
NAMED = {
    "POST /api/v1/tenants": Who.MANAGER,
    "POST /api/v1/queues": Who.MANAGER,
    "PATCH /api/v1/queues/{queue_id}": Who.MANAGER,
    "POST /api/v1/volumes": Who.MANAGER,
    "POST /api/v1/images": Who.MANAGER,
    "POST /api/v1/templates": Who.MANAGER,
    "POST /api/v1/tenants/{tenant}/service-accounts": Who.MANAGER,
    "POST /api/v1/users": Who.OPERATOR,
}
LEADING = ("-0", "-f", "--help", "-", "-rf")


def written(operation: Operation, name: str, world: World) -> Any:
    expect = EXPECTATIONS[str(operation)]
    assert expect.body is not None
    body = {**expect.body(world, world.own), "name": name}
    return send(operation, expect, world.principals[NAMED[str(operation)]], world, world.own, body=body)


@pytest.mark.parametrize("operation", [Operation(*reversed(text.split(" "))) for text in NAMED], ids=str)
def test_a_name_that_a_command_would_take_for_an_option_is_refused(operation: Operation, world: World) -> None:
    assert written(operation, "new-one", world).status_code in {200, 201}
    for name in LEADING:
        response = written(operation, name, world)
        assert response.status_code == 422, f"{name}: {response.status_code} {shown(response)}"
        assert [entry["path"] for entry in response.json()["fields"]] == ["/name"]


@pytest.mark.parametrize("name", LEADING)
def test_a_job_and_a_secret_are_not_called_like_an_option(name: str, world: World) -> None:
    client = client_of(world.principals[Who.MANAGER])
    expect = EXPECTATIONS["POST /api/v1/jobs"]
    spec = {"name": name, "command": "true", "resources": {"cpu": 1, "memory": "64Mi"}}
    job = request(client, "POST", "/api/v1/jobs", {"tenant": world.own.tenant.slug, "spec": spec}, expect)
    path = f"/api/v1/tenants/{world.own.tenant.slug}/secrets/{name}"
    secret = request(client, "PUT", path, {"value": "v"}, EXPECTATIONS["PUT /api/v1/tenants/{tenant}/secrets/{name}"])

    assert (job.status_code, secret.status_code) == (422, 422), f"{shown(job)} {shown(secret)}"


@pytest.mark.parametrize("name", ["two\nlines.bin", "\n", "a/\r\nb", "模型\u2028.bin", "-rf", "a?b#c%2f"])
def test_an_artifact_is_fetched_under_the_name_that_the_list_tells(name: str, world: World) -> None:
    artifacts = apps.get_model("storage.Artifact").objects
    known = artifacts.get(job_id=world.own.values["jobs"], path="model.bin")
    columns = {field.attname: getattr(known, field.attname) for field in known._meta.concrete_fields}
    del columns["id"]
    made = artifacts.create(**{**columns, "path": name})
    client = client_of(world.principals[Who.OWNER])
    try:
        base = f"/api/v1/jobs/{world.own.values['jobs']}/artifacts"
        assert name in [entry["path"] for entry in client.get(base).json()["items"]]
        fetched = client.get(f"{base}/{quote(name, safe='/')}")
        assert fetched.status_code == 200, shown(fetched)
        assert b"".join(fetched.streaming_content) == world.own.canary.encode()
        assert not {"\n", "\r"} & set("".join(value for _, value in fetched.items()))
    finally:
        made.delete()
