"""`/events`, `/tickets` and `/audit` over HTTP."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction

from activity.models import Ticket
from activity.services import record_audit
from tests.factories.activity import make_events, now
from tests.factories.tenants import Cast

pytestmark = pytest.mark.database

Api = Callable[..., Any]


def kinds(response: Any) -> list[str]:
    assert response.status_code == 200, response.content
    return [item["kind"] for item in response.json()["items"]]


def test_events_come_newest_first_and_after_a_number_oldest_first(cast: Cast, api: Api) -> None:
    first, *_ = make_events("job.one", "job.two", "job.three", tenant_id=cast.tenant.pk)
    client = api(cast.vera)
    assert kinds(client.get("/api/v1/events"))[:3] == ["job.three", "job.two", "job.one"]
    assert kinds(client.get("/api/v1/events", {"after": first.seq})) == ["job.two", "job.three"]


def test_pages_of_events_join_without_gap(cast: Cast, api: Api) -> None:
    made = make_events(*["job.changed"] * 7, tenant_id=cast.tenant.pk)
    client, seen, query = api(cast.vera), [], {"after": (made[0].seq or 0) - 1, "limit": 3}
    while True:
        page = client.get("/api/v1/events", query).json()
        seen += [item["seq"] for item in page["items"]]
        if page["next"] is None:
            break
        query = {**query, "cursor": page["next"]}
    assert seen == [event.seq for event in made]


def test_events_are_narrowed_to_a_tenant_or_job(cast: Cast, api: Api) -> None:
    job_id = uuid.uuid4()
    make_events("job.one", tenant_id=cast.tenant.pk, job_id=job_id)
    make_events("job.two", tenant_id=cast.tenant.pk)
    make_events("job.three", tenant_id=cast.elsewhere.pk)
    assert kinds(api(cast.otto).get("/api/v1/events", {"tenant": cast.elsewhere.slug}))[0] == "job.three"
    assert "job.three" not in kinds(api(cast.otto).get("/api/v1/events", {"tenant": cast.tenant.slug}))
    assert kinds(api(cast.vera).get("/api/v1/events", {"tenant": "vision", "after": 0}))[-2:] == ["job.one", "job.two"]


def test_events_of_a_foreign_tenant_do_not_exist(cast: Cast, api: Api) -> None:
    make_events("job.secret", tenant_id=cast.tenant.pk)
    assert "job.secret" not in kinds(api(cast.carol).get("/api/v1/events"))
    assert api(cast.carol).get("/api/v1/events", {"tenant": cast.tenant.slug}).status_code == 404
    assert api(cast.carol).get("/api/v1/events", {"job": str(uuid.uuid4())}).status_code == 404


@pytest.mark.parametrize("query", [{"after": "x"}, {"after": "-1"}, {"after": "9" * 30}, {"tenants": "x"}, {"limit": "0"}])
def test_a_wrong_query_is_refused(cast: Cast, api: Api, query: dict[str, str]) -> None:
    assert api(cast.vera).get("/api/v1/events", query).status_code == 422


def test_a_ticket_is_given_to_whoever_is_signed_in_and_stored_as_a_digest(cast: Cast, api: Api) -> None:
    response = api(cast.vera).post("/api/v1/tickets")
    assert response.status_code == 201
    assert response.json()["expires_at"].endswith("Z")
    assert response.json()["ticket"] not in str(list(Ticket.objects.values()))
    assert api().post("/api/v1/tickets").status_code == 401


def write_audit(cast: Cast, verb: str = "job.stop", tenant_id: Any = None, **columns: Any) -> None:
    values = {"target_kind": "job", "target_id": uuid.uuid4(), "at": now(), **columns}
    with transaction.atomic():
        record_audit(actor=cast.bob.actor, verb=verb, tenant_id=tenant_id or cast.tenant.pk, **values)


def verbs(response: Any) -> list[str]:
    assert response.status_code == 200, response.content
    return [item["verb"] for item in response.json()["items"]]


def test_managers_read_their_tenants_audit_and_members_do_not(cast: Cast, api: Api) -> None:
    write_audit(cast, "job.canary")
    assert "job.canary" in verbs(api(cast.alice).get("/api/v1/audit"))
    assert "job.canary" in verbs(api(cast.otto).get("/api/v1/audit"))
    for person in (cast.bob, cast.vera, cast.carol):
        assert "job.canary" not in verbs(api(person).get("/api/v1/audit"))


def test_the_audit_is_narrowed_by_filters(cast: Cast, api: Api) -> None:
    target = uuid.uuid4()
    write_audit(cast, "job.canary", target_id=target, after={"state": "stopped"})
    write_audit(cast, "job.other")
    client = api(cast.alice)
    for query in (
        {"verb": "job.canary"},
        {"target_kind": "job", "target_id": str(target)},
        {"tenant": cast.tenant.slug, "verb": "job.canary"},
        {"actor": str(cast.bob.user.pk), "verb": "job.canary"},
        {"since": "2020-01-01T00:00:00Z", "until": "2100-01-01T00:00:00Z", "verb": "job.canary"},
    ):
        assert verbs(client.get("/api/v1/audit", query)) == ["job.canary"], query
    (item,) = client.get("/api/v1/audit", {"verb": "job.canary"}).json()["items"]
    assert (item["actor"]["name"], item["after"], item["target"]["id"]) == ("bob", {"state": "stopped"}, str(target))
    assert verbs(client.get("/api/v1/audit", {"until": "2020-01-01T00:00:00Z"})) == []


@pytest.mark.parametrize("query", [{"actor": "x"}, {"since": "yesterday"}, {"who": "bob"}])
def test_a_wrong_audit_filter_is_refused(cast: Cast, api: Api, query: dict[str, str]) -> None:
    assert api(cast.alice).get("/api/v1/audit", query).status_code == 422


def test_the_audit_of_a_foreign_tenant_does_not_exist(cast: Cast, api: Api) -> None:
    assert api(cast.carol).get("/api/v1/audit", {"tenant": cast.tenant.slug}).status_code == 404
