"""Every write: fields that belong to the server are refused, one audit row is left, and without that row nothing happens."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.db import connection, transaction

from tests.security.matrix.expectations import DONE, EXPECTATIONS, Body
from tests.security.matrix.operations import Operation, described
from tests.security.matrix.principals import Who
from tests.security.matrix.sending import client_of, request, shown
from tests.security.matrix.world import World

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("quick")]

WRITES = [operation for operation in described() if operation.method != "GET"]
FIELDS_TOLD = 80  # A spec lists a hundred errors and counts the rest.
PRODUCT_APPS = ("webapi", "activity", "reconciling", "clusters", "tenants", "images", "storage", "jobs")

# Writes that leave no row in the audit log, each with the reason; the security page lists them. Whatever is neither here nor
# below leaves exactly one.
UNAUDITED = {
    "POST /api/v1/tickets": "A ticket carries no more than the token that asked for it and ends within 30 seconds.",
    "POST /api/v1/what-if": "It is a question: nothing is written.",
    "POST /api/v1/jobs:convert": "As above.",
    "POST /api/v1/device-codes": "It gives nothing; its approval is audited.",
    "POST /api/v1/identities:connect": "It sets out; the way back is audited, as `tests/api/tenants/test_oidc.py` shows.",
    "POST /api/v1/announcements/{announcement_id}/dismiss": "It hides words from whoever asked, and from nobody else.",
    "PATCH /api/v1/preferences": "How one's own screen looks.",
    "POST /api/v1/saved-filters": "A bookmark of one's own.",
    "DELETE /api/v1/saved-filters/{filter_id}": "A bookmark of one's own.",
    "POST /api/v1/templates/{template_id}/render": "It counts that a template was used; the job made of it is audited.",
    "POST /api/v1/clusters:check": "It looks at a cluster, and stores nothing.",
    "POST /api/v1/clusters/{cluster_id}/check": "As above.",
    "POST /api/v1/tenants/{tenant}/registries/{host}/check": "It asks a registry, and stores nothing.",
    "POST /api/v1/invitations:read": "It changes nothing; a POST, so that the code stands in no address and no log.",
}
# Writes that succeed for no caller of this world, each with the place where their row is shown.
SHOWN_ELSEWHERE = {
    "POST /api/v1/session": "Here nobody has a password; `tests/api/tenants/test_sessions.py` shows its row.",
    "DELETE /api/v1/session": "No token opens it; the same file shows its row.",
    "POST /api/v1/password": "Here nobody has a password; the same file shows its row.",
    "POST /api/v1/totp": "Here nobody has a password; `tests/api/tenants/test_second_factor.py` shows its row.",
    "DELETE /api/v1/totp": "As above.",
    "POST /api/v1/totp:confirm": "As above.",
    "POST /api/v1/device-codes:redeem": "Here the code is invented; `tests/api/tenants/test_device_codes.py` shows its row.",
    "POST /api/v1/device-codes/{user_code}/approve": "No token opens it; the same file shows its row.",
    "POST /api/v1/device-codes/{user_code}/deny": "As above.",
    "POST /api/v1/identities:connect-directory": "Here is no directory; `tests/api/tenants/test_directory.py` shows its row.",
    "POST /api/v1/tenants/{tenant}/delete": "Here it is not disabled; `tests/api/jobs/test_disabled_tenants.py` shows its row.",
    "DELETE /api/v1/queues/{queue_id}": "Here it has jobs; `tests/api/jobs/test_queue_deletion.py` shows its row.",
    "DELETE /api/v1/clusters/{cluster_id}": "Attempts live there; `tests/services/clusters/test_registration.py` shows its row.",
    "POST /api/v1/invitations:accept": "Here the code is invented; accepting a real one is audited, which its own tests show.",
}
WITHOUT_ROW = UNAUDITED.keys() | SHOWN_ELSEWHERE.keys()
SECURITY_PAGE = Path(__file__).resolve().parents[3] / "docs" / "security.md"


def write(operation: Operation, world: World, who: Who, body: Any) -> Any:
    expect = EXPECTATIONS[str(operation)]
    path = world.own.path(operation.path)
    if str(operation) == "PUT /api/v1/jobs/{job}/tags/{tag}":
        path = path.replace("/tags/matrix", "/tags/new")
    if expect.query is not None:
        path += "?" + "&".join(f"{name}={value}" for name, value in expect.query(world, world.own).items())
    return request(client_of(world.principals[who]), operation.method, path, body, expect)


def body_of(operation: Operation, world: World) -> Any:
    make: Body | None = EXPECTATIONS[str(operation)].body
    return None if make is None else make(world, world.own)


def whoever_may(operation: Operation, world: World) -> tuple[Who, int]:
    """The first caller for whom the write succeeds, and the status; undone."""
    for who in (Who.MANAGER, Who.OWNER, Who.OPERATOR):
        prepare(operation, world)
        with transaction.atomic():
            status = write(operation, world, who, body_of(operation, world)).status_code
            transaction.set_rollback(True)
        if status in DONE:
            return who, status
    return Who.MANAGER, 0


def prepare(operation: Operation, world: World) -> None:
    """Make room for the effect: what exists already would be changed into itself."""
    if str(operation) == "POST /api/v1/tenants/{tenant}/members":
        apps.get_model("tenants.Membership").objects.filter(user_id=world.own.values["service-accounts"]).delete()
    before = EXPECTATIONS[str(operation)].before
    if before is not None:
        before(world, world.own)


@cache
def server_fields() -> tuple[str, ...]:
    """The columns of all models of the product, and names that others have been caught by."""
    known = {field.name for model in product_models() for field in model._meta.get_fields()}
    known |= {field.attname for model in product_models() for field in model._meta.concrete_fields}
    return tuple(sorted(known | {"is_admin", "is_superuser", "is_staff", "user_permissions", "owner", "created_by", "__class__"}))


def product_models() -> list[Any]:
    return [model for label in PRODUCT_APPS for model in apps.get_app_config(label).get_models()]


def everything() -> str:
    """A digest of all rows of the product."""
    digest = hashlib.sha256()
    with connection.cursor() as cursor:
        for model in product_models():
            columns = ", ".join(connection.ops.quote_name(field.column) for field in model._meta.concrete_fields)
            if model._meta.db_table == "tenants_token":
                columns = columns.replace('"last_used_at"', "NULL")  # Noted by authentication, before any view.
            key = connection.ops.quote_name(model._meta.pk.column)
            cursor.execute(f"SELECT {columns} FROM {connection.ops.quote_name(model._meta.db_table)} ORDER BY {key}")
            digest.update(repr((model._meta.label, cursor.fetchall())).encode())
    return digest.hexdigest()


@pytest.mark.capability(
    "26", "What another tenant has cannot be named in a query, cursor or body, nor by a field of the server's"
)
@pytest.mark.parametrize("operation", WRITES, ids=str)
def test_a_field_that_belongs_to_the_server_is_refused_by_name(operation: Operation, world: World) -> None:
    """All of them at once and at every level; the answer names each, so that none was taken in silence."""
    body = body_of(operation, world)
    if not isinstance(body, dict):
        return  # It reads no object.
    who, status = whoever_may(operation, world)
    wrong = []
    for place in ("", *(f"/{name}" for name, value in body.items() if isinstance(value, dict))):
        names = [name for name in server_fields() if name not in documented(operation, place)]
        for part in (names[start : start + FIELDS_TOLD] for start in range(0, len(names), FIELDS_TOLD)):
            extra = dict.fromkeys(part, world.foreign.values["jobs"])
            changed = {**body, place[1:]: {**body[place[1:]], **extra}} if place else {**body, **extra}
            prepare(operation, world)
            with transaction.atomic():
                before = everything()
                response = write(operation, world, who, changed)
                after = everything()
                transaction.set_rollback(True)
            if not status:
                continue
            named = {entry["path"].rpartition("/")[2] for entry in response.json().get("fields", ())}
            if response.status_code != 422 or before != after or set(part) - named:
                wrong.append(f"{place or '/'}: {response.status_code} took {sorted(set(part) - named)} {shown(response)}")

    assert not wrong, "\n".join([str(operation), *wrong])


@cache
def documented(operation: Operation, place: str) -> frozenset[str]:
    """The fields that an operation reads at a place, as the description has them."""
    from jobs.spec.schema import json_schema
    from webapi.description import describe

    document = describe()
    entry = document["paths"][operation.path][operation.method.lower()].get("requestBody", {})
    schemas = [found.get("schema", {}) for name, found in entry.get("content", {}).items() if "json" in name]
    found: set[str] = set()
    while schemas:
        schema = schemas.pop()
        reference = schema.get("$ref", "").rpartition("/")[2]
        if reference:
            schemas.append(document["components"]["schemas"][reference])
        schemas += [*schema.get("oneOf", ()), *schema.get("anyOf", ()), *schema.get("allOf", ())]
        properties = schema.get("properties", {})
        if not place:
            found |= set(properties)
        elif place[1:] in properties:
            inner = properties[place[1:]]
            for option in (inner, *inner.get("oneOf", ()), *inner.get("anyOf", ()), *inner.get("allOf", ())):
                target = document["components"]["schemas"].get(option.get("$ref", "").rpartition("/")[2], option)
                found |= set(target.get("properties", {}))
    if place in {"/spec", "/changes"}:
        found |= set(json_schema()["properties"])
    return frozenset(found)


@pytest.mark.parametrize("operation", WRITES, ids=str)
def test_a_write_leaves_one_audit_row_and_a_refused_one_none(operation: Operation, world: World) -> None:
    from activity.models import AuditEvent

    who, status = whoever_may(operation, world)
    expected = 0 if str(operation) in WITHOUT_ROW else 1
    if not status:
        assert str(operation) in WITHOUT_ROW, f"nobody may {operation}"
        return
    prepare(operation, world)
    with transaction.atomic():
        before = AuditEvent.objects.count()
        write(operation, world, who, body_of(operation, world))
        done = AuditEvent.objects.count() - before
        transaction.set_rollback(True)
    prepare(operation, world)
    with transaction.atomic():
        before = AuditEvent.objects.count()
        refused = write(operation, world, Who.OTHER, body_of(operation, world))
        left = AuditEvent.objects.count() - before
        transaction.set_rollback(True)

    assert done == expected
    assert left == 0 or refused.status_code in DONE


# The table refuses rows: for whoever writes, by whatever statement.
REFUSE_AUDIT = {
    "sqlite": (
        "CREATE TEMP TRIGGER no_audit BEFORE INSERT ON activity_auditevent BEGIN SELECT RAISE(ABORT, 'no audit today'); END",
    ),
    "postgresql": (
        "CREATE FUNCTION pg_temp.no_audit() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'no audit today'; END $$",
        "CREATE TRIGGER no_audit BEFORE INSERT ON activity_auditevent FOR EACH ROW EXECUTE FUNCTION pg_temp.no_audit()",
    ),
}


@pytest.mark.parametrize("operation", [entry for entry in WRITES if str(entry) not in WITHOUT_ROW], ids=str)
def test_without_its_audit_row_a_write_does_not_happen(operation: Operation, world: World) -> None:
    """The row and the effect are one transaction: where the one cannot be written, the other is taken back."""
    who, _ = whoever_may(operation, world)
    prepare(operation, world)
    with transaction.atomic():
        with connection.cursor() as cursor:
            for statement in REFUSE_AUDIT[connection.vendor]:
                cursor.execute(statement)
        before = everything()
        response = write(operation, world, who, body_of(operation, world))
        after = everything()
        transaction.set_rollback(True)

    assert response.status_code == 500, shown(response)
    assert "no audit today" not in shown(response)
    assert before == after


def test_the_security_page_lists_every_write_without_an_audit_row_and_its_reason() -> None:
    section = SECURITY_PAGE.read_text().partition("\n## Audit\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.+`) \| (\S.*) \|$", section, re.MULTILINE)
    listed = [name for names, _ in rows for name in re.findall(r"`(\w+ /[^`]+)`", names)]

    assert sorted(listed) == sorted(name.replace("/api/v1", "") for name in UNAUDITED)
