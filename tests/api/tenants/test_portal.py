"""Features, announcements, preferences and saved filters over HTTP."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from activity.models import AuditEvent
from kernel.errors import Conflict, NotFound
from tenants.models import Announcement, FeatureSetting
from tenants.portal import services as service
from tests.factories.tenants import make_member, make_tenant, now, top_queue
from webapi import features

pytestmark = pytest.mark.database
V1 = "/api/v1"


def switch(api, person, name, enabled, tenant=None):
    return api(person).put(f"{V1}/features/{name}", {"enabled": enabled, "tenant": tenant}, format="json")


@pytest.mark.capability("110", "A feature that is off is gone from portal and API, for the installation or a tenant")
def test_a_feature_that_is_off_is_gone_for_everybody_and_comes_back(api, cast):
    assert api(cast.bob).get(f"{V1}/templates").status_code == 200
    assert switch(api, cast.alice, "templates", False).status_code == 403
    assert switch(api, cast.otto, "nothing", False).status_code == 404
    assert switch(api, cast.otto, "templates", False).status_code == 204
    gone = api(cast.bob).get(f"{V1}/templates", HTTP_ACCEPT_LANGUAGE="zh")
    assert (gone.status_code, gone.json()["code"], gone.json()["title"]) == (404, "feature_off", "此功能已关闭")
    assert api(cast.bob).post(f"{V1}/templates", {"name": "x"}, format="json").json()["code"] == "feature_off"
    assert api().get(f"{V1}/info").json()["features"]["templates"] is False
    assert api().get(f"{V1}/templates").status_code == 401
    assert switch(api, cast.otto, "templates", None).status_code == 204
    assert api(cast.bob).get(f"{V1}/templates").status_code == 200
    assert AuditEvent.objects.filter(verb="feature.edit").count() == 2


@pytest.mark.capability("110", "A feature that is off is gone from portal and API, for the installation or a tenant")
def test_a_tenant_has_its_own_setting_and_those_below_inherit_it(api, cast):
    below = make_tenant("below", parent=cast.tenant)
    switch(api, cast.otto, "bookings", False, "vision")

    assert api(cast.alice).get(f"{V1}/bookings").json()["code"] == "feature_off"
    assert api(cast.alice).get(f"{V1}/bookings", {"tenant": below.slug}).json()["code"] == "feature_off"
    assert api(cast.carol).get(f"{V1}/bookings").status_code == 200
    assert not features.is_on_for(cast.alice.actor, "bookings", cast.tenant.pk)
    assert features.is_on_for(cast.carol.actor, "bookings")
    assert api(cast.otto).get(f"{V1}/bookings").status_code == 200
    assert api(cast.otto).get(f"{V1}/bookings", {"tenant": "vision"}).status_code == 404
    switch(api, cast.otto, "bookings", True, "below")
    assert api(cast.alice).get(f"{V1}/bookings").status_code == 200
    assert api(cast.alice).post(f"{V1}/bookings", {"tenant": "vision"}, format="json").json()["code"] == "feature_off"
    shown = {row["name"]: row for row in api(cast.alice).get(f"{V1}/features", {"tenant": "vision"}).json()["items"]}
    assert (shown["bookings"]["enabled"], shown["bookings"]["installation"], shown["bookings"]["setting"]) == (False, True, False)
    assert shown["billing"]["setting"] is None


def test_rows_of_a_tenant_without_the_feature_are_not_listed(api, cast):
    body = {"name": "one", "title": "One", "spec": {"command": "true"}}
    made = api(cast.bob).post(f"{V1}/templates", body, format="json").data
    switch(api, cast.otto, "templates", False, "vision")

    assert api(cast.otto).get(f"{V1}/templates").data["items"] == []
    assert api(cast.otto).get(f"{V1}/templates/{made['id']}").json()["code"] == "feature_off"


def test_costs_and_budgets_of_a_tenant_without_billing_are_not_there(api, cast):
    """Also for whoever belongs to another tenant, where they are."""
    path = f"{V1}/queues/{top_queue(cast.tenant).pk}/budget"
    assert api(cast.otto).put(path, {"kind": "money", "amount": 10, "stops": False}, format="json").status_code == 200
    job = api(cast.bob).post(f"{V1}/jobs", {"spec": {"name": "one", "command": "true"}}, format="json").data["id"]
    make_member(cast.elsewhere, cast.alice.user, "manager")
    assert api(cast.alice).get(f"{V1}/jobs/{job}/cost").status_code == 200
    switch(api, cast.otto, "billing", False, "vision")

    assert api(cast.alice).get(path).json()["code"] == "feature_off"
    assert api(cast.alice).get(f"{V1}/jobs/{job}/cost").json()["code"] == "feature_off"
    assert api(cast.alice).get(f"{V1}/budgets").json()["items"] == []


def test_a_tenant_named_in_the_address_opens_nothing_that_is_off_in_that_of_the_body(api, cast):
    switch(api, cast.otto, "templates", False, "vision")
    body = {"name": "one", "title": "One", "spec": {"command": "true"}}
    for tenant in ({}, {"tenant": "vision"}):
        for address in ("nowhere", cast.elsewhere.slug):
            told = api(cast.bob).post(f"{V1}/templates?tenant={address}", {**body, **tenant}, format="json")
            assert told.json()["code"] == "feature_off", (tenant, address)


def test_asking_for_features_costs_nothing_while_nothing_changed(api, cast, django_assert_num_queries):
    client = api(cast.bob)
    client.get(f"{V1}/saved-filters")
    client.get(f"{V1}/templates")
    with django_assert_num_queries(2):  # The facts and the list.
        client.get(f"{V1}/templates")


def test_a_manager_announces_to_the_tenant_and_an_operator_to_everybody(api, cast):
    path = f"{V1}/announcements"
    own = api(cast.alice).post(path, {"text": "Move on Friday", "text_zh": "周五搬迁", "tenant": "vision"}, format="json")
    assert own.status_code == 201, own.data
    assert (own.data["level"], own.data["active"], own.data["dismissed"]) == ("info", True, False)
    assert api(cast.alice).post(path, {"text": "x"}, format="json").status_code == 403
    assert api(cast.bob).post(path, {"text": "x", "tenant": "vision"}, format="json").status_code == 403
    later = {"text": "Later", "level": "critical", "starts_at": (now() + timedelta(days=1)).isoformat()}
    assert api(cast.otto).post(path, later, format="json").data["created_by"] is None
    assert [row["text"] for row in api(cast.bob).get(path).data["items"]] == ["Move on Friday"]
    assert [row["text"] for row in api(cast.carol).get(path, {"all": "true"}).data["items"]] == ["Later"]
    assert api(cast.carol).get(path).data["items"] == []

    announcement = f"{path}/{own.data['id']}"
    assert api(cast.bob).post(f"{announcement}/dismiss").status_code == 204
    assert api(cast.bob).post(f"{announcement}/dismiss").status_code == 204
    assert api(cast.bob).get(path).data["items"][0]["dismissed"] is True
    assert api(cast.vera).get(path).data["items"][0]["dismissed"] is False
    assert api(cast.carol).post(f"{announcement}/dismiss").status_code == 404
    refused = api(cast.alice).patch(announcement, {"ends_at": "2020-01-01T00:00:00Z"}, format="json")
    assert [field["path"] for field in refused.json()["fields"]] == ["/ends_at"]
    changed = api(cast.alice).patch(announcement, {"level": "warning"}, format="json", HTTP_IF_MATCH=own["ETag"])
    assert (changed.data["level"], changed.data["version"]) == ("warning", 2)
    assert api(cast.bob).get(path).data["items"][0]["dismissed"] is False
    assert api(cast.alice).patch(announcement, {"level": "info"}, format="json", HTTP_IF_MATCH=own["ETag"]).status_code == 412
    assert api(cast.alice).delete(announcement).status_code == 204
    assert AuditEvent.objects.filter(verb__startswith="announcement.").count() == 4


@pytest.mark.capability("121", "An announcement reaches a tenant and all below it")
def test_an_announcement_reaches_those_below_its_tenant_and_nobody_beside_or_above(api, cast):
    path = f"{V1}/announcements"
    below = make_tenant("below", parent=make_tenant("between", parent=cast.tenant))
    for tenant, author in (("vision", cast.alice), ("below", cast.otto)):
        assert api(author).post(path, {"text": f"to {tenant}", "tenant": tenant}, format="json").status_code == 201

    def texts(person, **query):
        return {row["text"]: row for row in api(person).get(path, query).data["items"]}

    assert texts(cast.carol) == {}
    make_member(below, cast.carol.user, "member")
    assert set(texts(cast.carol)) == set(texts(cast.carol, tenant="below")) == {"to vision", "to below"}
    above = texts(cast.carol)["to vision"]
    assert (above["tenant"], above["created_by"], above["everybody"], above["may_edit"]) == (None, None, False, False)
    assert api(cast.carol).post(f"{path}/{above['id']}/dismiss").status_code == 204
    assert texts(cast.carol)["to vision"]["dismissed"] is True
    assert set(texts(cast.vera, tenant="vision")) == {"to vision"}
    assert texts(cast.vera)["to vision"]["tenant"]["name"] == "vision"
    client = api(cast.carol)
    client.get(path)
    with CaptureQueriesContext(connection) as asked:
        client.get(path)
    # The announcements of however many levels, and what was dismissed.
    assert sum("tenants_announcement" in query["sql"] for query in asked) == 2


def test_whoever_changes_what_another_process_changed_meanwhile_is_told(cast, monkeypatch):
    """Two operators at once, at the last moment."""
    row = service.announce(actor=cast.alice.actor, tenant_id=cast.tenant.pk, given={"text": "x"}, now=now())
    service.take_back(actor=cast.alice.actor, announcement=Announcement.objects.get(id=row.pk), now=now())
    with pytest.raises(NotFound):
        service.change_announcement(
            actor=cast.alice.actor, announcement=row, changes={"text": "y"}, expected_version=None, now=now()
        )
    create = service._create_setting

    def late(name, tenant_id, enabled):
        create(name, tenant_id, enabled)
        create(name, tenant_id, enabled)

    monkeypatch.setattr(service, "_create_setting", late)
    with pytest.raises(Conflict):
        service.set_feature(actor=cast.otto.actor, name="templates", enabled=False, tenant_id=None, now=now())
    assert not FeatureSetting.objects.exists()


def test_preferences_are_ones_own_and_bounded(api, cast):
    path = f"{V1}/preferences"
    untouched = {"language": "", "theme": "system", "time_zone": "", "default_tenant": None, "first_steps_done": False}
    assert api(cast.bob).get(path).data == untouched
    wanted = {"language": "zh", "theme": "dark", "time_zone": "Asia/Shanghai", "default_tenant": "vision"}
    done = api(cast.bob).patch(path, wanted, format="json")
    assert done.data["default_tenant"]["name"] == "vision"
    assert api(cast.bob).patch(path, {"theme": "light"}, format="json").data["language"] == "zh"
    assert api(cast.bob).patch(path, {"first_steps_done": True}, format="json").data["first_steps_done"] is True
    assert api(cast.bob).patch(path, {"theme": "dark"}, format="json").data["first_steps_done"] is True
    assert api(cast.vera).get(path).data == untouched
    refused = api(cast.bob).patch(path, {"language": "xx", "theme": "pink", "more": 1}, format="json")
    assert {field["path"] for field in refused.json()["fields"]} == {"/language", "/theme", "/more"}
    assert api(cast.bob).patch(path, {"time_zone": "Mars/Olympus"}, format="json").status_code == 422
    assert api(cast.bob).patch(path, {"default_tenant": cast.elsewhere.slug}, format="json").status_code == 404


def test_filters_are_ones_own(api, cast, monkeypatch):
    path = f"{V1}/saved-filters"
    made = api(cast.bob).post(path, {"page": "jobs", "name": "Mine", "query": "state=running&mine=true"}, format="json")
    assert made.status_code == 201, made.data
    assert api(cast.bob).post(path, {"page": "jobs", "name": "Mine", "query": ""}, format="json").status_code == 409
    assert api(cast.bob).post(path, {"page": "jobs", "name": "x", "query": "q" * 1001}, format="json").status_code == 422
    assert [row["name"] for row in api(cast.bob).get(path, {"page": "jobs"}).data["items"]] == ["Mine"]
    assert api(cast.bob).get(path, {"page": "nodes"}).data["items"] == []
    assert api(cast.vera).get(path).data["items"] == []
    assert api(cast.vera).delete(f"{path}/{made.data['id']}").status_code == 404
    monkeypatch.setattr("tenants.portal.services.FILTERS_PER_USER", 1)
    assert api(cast.bob).post(path, {"page": "jobs", "name": "y", "query": ""}, format="json").status_code == 409
    assert api(cast.bob).delete(f"{path}/{made.data['id']}").status_code == 204


def test_an_announcement_has_lines_and_turns_nothing_around(api, cast):
    """What everybody reads stays within its own text."""
    path, client = f"{V1}/announcements", api(cast.otto)
    assert client.post(path, {"text": "First line.\nSecond: 数据\u3000👨\u200d👩\u200d👧"}, format="json").status_code == 201
    for text in ("\u202egnp.exe", "a\x07b", "a\u2066b", "a\x1b[2J"):
        answer = client.post(path, {"text": text}, format="json")
        assert answer.status_code == 422, text
        assert answer.json()["fields"][0]["path"] == "/text"
