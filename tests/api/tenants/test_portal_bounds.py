"""What the portal keeps, at its bounds: windows of announcements, who writes, lengths, counts, versions, audit, statements."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from activity.models import AuditEvent
from kernel.clock import utc_text
from kernel.errors import Conflict, InvalidInput, NotFound, PreconditionFailed
from tenants.models import Announcement, FeatureSetting, Preference, SavedFilter
from tenants.portal import services as service
from tests.factories.tenants import Cast, make_member, make_tenant, make_token, now
from webapi.features import FEATURES

pytestmark = pytest.mark.database
Api = Callable[..., Any]
V1 = "/api/v1"
SECOND = timedelta(seconds=1)


def announced(cast: Cast, tenant_id: uuid.UUID | None = None, **given: Any) -> Announcement:
    return service.announce(actor=cast.otto.actor, tenant_id=tenant_id, given={"text": "Words.", **given}, now=now())


def texts(api: Api, person: Any, **query: Any) -> list[str]:
    answer = api(person).get(f"{V1}/announcements", query)
    assert answer.status_code == 200, answer.content
    return [row["text"] for row in answer.json()["items"]]


def codes(answer: Any) -> set[tuple[str, str]]:
    assert answer.status_code == 422, answer.content
    return {(field["path"], field["code"]) for field in answer.json()["fields"]}


# --- Announcements -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("starts", "ends", "is_shown"),
    [
        (-3_600, None, True),
        (-3_600, 3_600, True),
        (-3_600, -60, False),
        (3_600, None, False),
        (3_600, 7_200, False),
    ],
)
def test_an_announcement_is_shown_within_its_window_and_listed_at_all_times_to_those_who_ask(
    api: Api, cast: Cast, starts: int, ends: int | None, is_shown: bool
) -> None:
    at = now()
    announced(cast, starts_at=at + starts * SECOND, ends_at=None if ends is None else at + ends * SECOND)
    assert texts(api, cast.carol) == (["Words."] if is_shown else [])
    assert texts(api, cast.carol, all="true") == ["Words."]
    (row,) = api(cast.carol).get(f"{V1}/announcements", {"all": "true"}).json()["items"]
    assert (row["active"], row["everybody"], row["tenant"], row["created_by"], row["may_edit"]) == (
        is_shown,
        True,
        None,
        None,
        False,
    )


@pytest.mark.parametrize(
    ("person", "tenant", "status"),
    [
        ("alice", "vision", 201), ("bob", "vision", 403), ("vera", "vision", 403), ("carol", "vision", 404),
        ("otto", "vision", 201), ("otto", None, 201), ("alice", None, 403), ("carol", None, 403), (None, None, 401),
    ],
)  # fmt: skip
def test_managers_announce_to_their_tenant_and_operators_to_all(
    api: Api, cast: Cast, person: str | None, tenant: str | None, status: int
) -> None:
    client = api(getattr(cast, person)) if person else api()
    answer = client.post(f"{V1}/announcements", {"text": "Words.", "tenant": tenant}, format="json")
    assert answer.status_code == status, answer.content
    assert Announcement.objects.count() == AuditEvent.objects.filter(verb="announcement.create").count() == (status == 201)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, {"/text"}),
        ({"text": ""}, {"/text"}),
        ({"text": "x" * 2_001}, {"/text"}),
        ({"text": "x", "text_zh": "x" * 2_001, "level": "loud", "ends_at": "soon"}, {"/text_zh", "/level", "/ends_at"}),
        ({"text": "x", "id": 1}, {"/id"}),
        ({"text": "x", "starts_at": "2026-01-01T00:00:00"}, {"/starts_at"}),
    ],
)
def test_a_bad_announcement_is_told_with_all_that_is_wrong(
    api: Api, cast: Cast, body: dict[str, Any], expected: set[str]
) -> None:
    answer = api(cast.otto).post(f"{V1}/announcements", body, format="json")
    assert {path for path, _ in codes(answer)} == expected
    assert not Announcement.objects.exists()


@pytest.mark.parametrize(("ends", "is_refused"), [(-1, True), (0, True), (1, False)])
def test_an_announcement_ends_after_it_begins(api: Api, cast: Cast, ends: int, is_refused: bool) -> None:
    at = now().replace(microsecond=0)
    body = {"text": "x", "starts_at": utc_text(at), "ends_at": utc_text(at + ends * SECOND)}
    answer = api(cast.otto).post(f"{V1}/announcements", body, format="json")
    if is_refused:
        assert codes(answer) == {("/ends_at", "out_of_range")}
        with pytest.raises(InvalidInput):
            service.change_announcement(
                actor=cast.otto.actor, announcement=announced(cast, starts_at=at), changes={"ends_at": at + ends * SECOND},
                expected_version=None, now=at,
            )  # fmt: skip
    else:
        assert answer.status_code == 201


def test_a_change_names_the_version_and_shows_the_words_again_to_those_who_dismissed_them(api: Api, cast: Cast) -> None:
    row = announced(cast, cast.tenant.pk)
    path = f"{V1}/announcements/{row.pk}"
    for _ in range(2):
        assert api(cast.bob).post(f"{path}/dismiss").status_code == 204
    assert [announcement["dismissed"] for announcement in api(cast.bob).get(f"{V1}/announcements").json()["items"]] == [True]
    assert [announcement["dismissed"] for announcement in api(cast.vera).get(f"{V1}/announcements").json()["items"]] == [False]
    assert api(cast.alice).patch(path, {"text": "Other."}, format="json", HTTP_IF_MATCH='"7"').status_code == 412
    changed = api(cast.alice).patch(path, {"text": "Other."}, format="json", HTTP_IF_MATCH='"1"')
    assert (changed.status_code, changed["ETag"], changed.json()["version"]) == (200, '"2"', 2)
    assert [announcement["dismissed"] for announcement in api(cast.bob).get(f"{V1}/announcements").json()["items"]] == [False]
    assert Announcement.objects.get().created_at == row.created_at


@pytest.mark.parametrize(
    ("person", "change", "delete", "dismiss"),
    [
        ("alice", 200, 204, 204),
        ("bob", 403, 403, 204),
        ("vera", 403, 403, 204),
        ("carol", 404, 404, 404),
        ("otto", 200, 204, 204),
    ],
)
def test_who_changes_takes_back_and_dismisses_the_words_of_a_tenant(
    api: Api, cast: Cast, person: str, change: int, delete: int, dismiss: int
) -> None:
    client, row = api(getattr(cast, person)), announced(cast, cast.tenant.pk)
    path = f"{V1}/announcements/{row.pk}"
    assert client.post(f"{path}/dismiss").status_code == dismiss
    assert client.patch(path, {"level": "critical"}, format="json").status_code == change
    assert client.delete(path).status_code == delete
    assert Announcement.objects.exists() is (delete != 204)
    assert AuditEvent.objects.filter(verb="announcement.delete").count() == (delete == 204)


def test_words_that_were_taken_back_meanwhile_are_not_there(cast: Cast) -> None:
    row = announced(cast)
    service.take_back(actor=cast.otto.actor, announcement=row, now=now())
    with pytest.raises(NotFound):
        service.change_announcement(actor=cast.otto.actor, announcement=row, changes={}, expected_version=None, now=now())
    other = announced(cast)
    with pytest.raises(PreconditionFailed):
        service.change_announcement(actor=cast.otto.actor, announcement=other, changes={}, expected_version=2, now=now())


def test_there_are_so_many_announcements_in_a_tenant_and_for_all(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "ANNOUNCEMENTS_MAX", 2)
    for tenant_id in (None, cast.tenant.pk, cast.elsewhere.pk):
        for _ in range(2):
            announced(cast, tenant_id)
        with pytest.raises(Conflict):
            announced(cast, tenant_id)


def test_a_list_asks_as_often_for_many_announcements_as_for_one(api: Api, cast: Cast) -> None:
    def statements() -> int:
        with CaptureQueriesContext(connection) as asked:
            assert api(cast.bob).get(f"{V1}/announcements").status_code == 200
        return len(asked)

    announced(cast, cast.tenant.pk)
    statements()
    alone = statements()
    for _ in range(10):
        announced(cast, cast.tenant.pk)
        announced(cast)
    statements()
    assert statements() == alone


# --- Features ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("person", "status"), [("alice", 403), ("bob", 403), ("carol", 403), ("otto", 204), (None, 401)])
def test_operators_alone_switch_features(api: Api, cast: Cast, person: str | None, status: int) -> None:
    client = api(getattr(cast, person)) if person else api()
    answer = client.put(f"{V1}/features/templates", {"enabled": False}, format="json")
    assert answer.status_code == status
    assert FeatureSetting.objects.exists() is (status == 204)


@pytest.mark.parametrize("body", [{}, {"enabled": "perhaps"}, {"enabled": []}, {"enabled": True, "tenant": 5, "more": 1}])
def test_a_switch_is_on_off_or_inherited(api: Api, cast: Cast, body: dict[str, Any]) -> None:
    assert api(cast.otto).put(f"{V1}/features/templates", body, format="json").status_code == 422
    assert not FeatureSetting.objects.exists()


def test_each_switch_leaves_an_audit_row_with_both_sides_and_one_row_at_most(cast: Cast) -> None:
    for enabled in (False, False, True, None, None):
        service.set_feature(actor=cast.otto.actor, name="templates", enabled=enabled, tenant_id=cast.tenant.pk, now=now())
        assert FeatureSetting.objects.count() == (enabled is not None)
    rows = AuditEvent.objects.filter(verb="feature.edit").order_by("id")
    assert [(row.before["enabled"], row.after["enabled"]) for row in rows] == [
        (None, False), (False, False), (False, True), (True, None), (None, None),
    ]  # fmt: skip
    assert {row.tenant_id for row in rows} == {cast.tenant.pk}


def test_of_two_who_set_a_feature_first_the_second_is_told(cast: Cast) -> None:
    service._create_setting("templates", None, True)
    with pytest.raises(Conflict):
        service._create_setting("templates", None, False)
    assert FeatureSetting.objects.get().enabled


def test_every_feature_is_listed_with_both_titles(api: Api, cast: Cast) -> None:
    items = api(cast.bob).get(f"{V1}/features").json()["items"]
    assert {row["name"] for row in items} == set(FEATURES)
    assert all(row["title"] and row["title_zh"] and row["enabled"] and row["installation"] for row in items)
    assert api(cast.bob).get(f"{V1}/features", {"tenant": "elsewhere"}).status_code == 404
    assert api(cast.bob).get(f"{V1}/features", {"tenants": "vision"}).status_code == 422


# --- Preferences -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"language": "zh"}, None),
        ({"language": ""}, None),
        ({"time_zone": "Asia/Shanghai"}, None),
        ({"time_zone": ""}, None),
        ({"default_tenant": "vision"}, None),
        ({}, None),
        ({"language": "de", "theme": "pink"}, {"/language", "/theme"}),
        ({"time_zone": "Shanghai"}, {"/time_zone"}),
        ({"time_zone": "../../etc/passwd"}, {"/time_zone"}),
        ({"first_steps_done": "perhaps", "user": 1}, {"/first_steps_done", "/user"}),
    ],
)
def test_preferences_take_what_the_portal_knows(api: Api, cast: Cast, body: dict[str, Any], expected: set[str] | None) -> None:
    answer = api(cast.bob).patch(f"{V1}/preferences", body, format="json")
    if expected is None:
        assert answer.status_code == 200, answer.content
        assert {key: answer.json()[key] for key in body if key != "default_tenant"} == {
            key: value for key, value in body.items() if key != "default_tenant"
        }
    else:
        assert {path for path, _ in codes(answer)} == expected
        assert not Preference.objects.exists()


def test_a_default_tenant_is_one_that_is_seen_and_is_not_told_to_who_left_it(api: Api, cast: Cast) -> None:
    assert api(cast.bob).patch(f"{V1}/preferences", {"default_tenant": "elsewhere"}, format="json").status_code == 404
    assert api(cast.bob).patch(f"{V1}/preferences", {"default_tenant": "vision"}, format="json").status_code == 200
    assert api(cast.bob).get(f"{V1}/preferences").json()["default_tenant"]["name"] == "vision"
    cast.bob.user.memberships.all().delete()
    make_member(make_tenant("third"), cast.bob.user)
    shown = api(make_token(cast.bob.user).text).get(f"{V1}/preferences").json()
    assert (shown["default_tenant"], shown["theme"]) == (None, "system")


# --- Filters -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, {"/page", "/name", "/query"}),
        ({"page": "jobs", "name": "mine", "query": "x" * 1_001}, {"/query"}),
        ({"page": "a/b", "name": "", "query": ""}, {"/page", "/name"}),
        ({"page": "jobs", "name": "x" * 64, "query": "", "user": 1}, {"/name", "/user"}),
    ],
)
def test_a_bad_filter_is_told_with_all_that_is_wrong(api: Api, cast: Cast, body: dict[str, Any], expected: set[str]) -> None:
    assert {path for path, _ in codes(api(cast.bob).post(f"{V1}/saved-filters", body, format="json"))} == expected


def test_a_filter_has_a_name_of_its_own_on_its_page_and_for_its_owner(cast: Cast) -> None:
    def keep(person: Any, page: str, name: str) -> SavedFilter:
        return service.save_filter(actor=person.actor, page=page, name=name, query="state=running", now=now())

    keep(cast.bob, "jobs", "mine")
    for person, page, name in ((cast.bob, "images", "mine"), (cast.bob, "jobs", "Mine"), (cast.vera, "jobs", "mine")):
        keep(person, page, name)
    with pytest.raises(Conflict):
        keep(cast.bob, "jobs", "mine")
    assert SavedFilter.objects.count() == 4


@pytest.mark.parametrize(("person", "status"), [("bob", 204), ("alice", 404), ("otto", 404), ("carol", 404)])
def test_a_filter_is_deleted_by_its_owner_and_does_not_exist_for_others(api: Api, cast: Cast, person: str, status: int) -> None:
    row = service.save_filter(actor=cast.bob.actor, page="jobs", name="mine", query="", now=now())
    assert api(getattr(cast, person)).delete(f"{V1}/saved-filters/{row.pk}").status_code == status
    assert api(getattr(cast, person)).get(f"{V1}/saved-filters").json()["items"] == []
    assert SavedFilter.objects.exists() is (status != 204)


def test_filters_are_listed_by_page_and_name_and_an_odd_page_has_none(api: Api, cast: Cast) -> None:
    for page, name in (("jobs", "b"), ("images", "z"), ("jobs", "a")):
        service.save_filter(actor=cast.bob.actor, page=page, name=name, query="", now=now())
    client = api(cast.bob)

    def found(**query: str) -> list[str]:
        return [f"{row['page']}/{row['name']}" for row in client.get(f"{V1}/saved-filters", query).json()["items"]]

    assert found() == ["images/z", "jobs/a", "jobs/b"]
    assert found(page="jobs") == ["jobs/a", "jobs/b"]
    assert client.get(f"{V1}/saved-filters", {"page": "jobs\x00"}).status_code == 400
    assert found(page="x" * 10_000) == []
