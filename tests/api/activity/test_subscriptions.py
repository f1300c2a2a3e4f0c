"""`/subscriptions` and `/deliveries` over HTTP: everybody's own, nobody else's."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from activity.models import Delivery, Subscription
from tests.factories.tenants import Cast, make_token

pytestmark = pytest.mark.database

Api = Callable[..., Any]
HOOK = {"channel": "webhook", "target": "https://hooks.example.com/x"}


def create(client: Any, **body: Any) -> dict[str, Any]:
    response = client.post("/api/v1/subscriptions", {**HOOK, **body}, format="json")
    assert response.status_code == 201, response.content
    made: dict[str, Any] = response.json()
    return made


def test_a_subscription_is_made_shown_changed_and_deleted(cast: Cast, api: Api) -> None:
    client = api(cast.bob)
    made = create(client, tenant=cast.tenant.slug)
    path = f"/api/v1/subscriptions/{made['id']}"
    assert (made["kinds"], made["jobs"], made["tenant_id"]) == (["succeeded", "failed"], "mine", str(cast.tenant.pk))
    shown = client.get(path)
    assert shown["ETag"] == '"1"'
    assert "secret" not in shown.json()
    changed = client.patch(path, {"kinds": ["stopped", "failed"], "is_active": False}, format="json", HTTP_IF_MATCH='"1"')
    assert (changed.json()["kinds"], changed.json()["is_active"], changed["ETag"]) == (["failed", "stopped"], False, '"2"')
    assert client.patch(path, {"jobs": "all"}, format="json", HTTP_IF_MATCH='"1"').status_code == 412
    assert [item["id"] for item in client.get("/api/v1/subscriptions").json()["items"]] == [made["id"]]
    assert client.delete(path).status_code == 204
    assert client.get(path).status_code == 404


def test_the_secret_is_shown_once(cast: Cast, api: Api) -> None:
    client = api(cast.bob)
    secret = create(client)["secret"]
    assert secret.startswith("whsec_")
    assert secret not in client.get("/api/v1/subscriptions").content.decode()


def test_mail_notices_are_said_to_arrive_nowhere_while_there_is_no_mail_server(
    cast: Cast, api: Api, configure: Callable[..., Any]
) -> None:
    client = api(cast.bob)
    configure(mail_url="")
    made = client.post("/api/v1/subscriptions", {"channel": "mail"}, format="json").json()
    assert made["problem"] == "no_mail_server"
    assert client.get("/api/v1/subscriptions").json()["items"][0]["problem"] == "no_mail_server"
    assert create(client)["problem"] is None, "a webhook needs no mail server"
    configure(mail_url="smtp://mail.example.org")
    assert client.get(f"/api/v1/subscriptions/{made['id']}").json()["problem"] is None


def test_mail_needs_no_target(cast: Cast, api: Api) -> None:
    response = api(cast.bob).post("/api/v1/subscriptions", {"channel": "mail"}, format="json")
    assert response.status_code == 201
    assert "secret" not in response.json()


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"channel": "pigeon"}, "/channel"),
        ({"kinds": []}, "/kinds"),
        ({"kinds": ["exploded"]}, "/kinds/0"),
        ({"jobs": "some"}, "/jobs"),
        ({"target": "http://127.0.0.1/"}, "/target"),
        ({"target": "http://169.254.169.254/latest"}, "/target"),
        ({"target": "ftp://a.example/"}, "/target"),
        ({"channel": "mail", "target": "x@example.org"}, "/target"),
        ({"user_id": str(uuid.uuid4())}, "/user_id"),
        ({"secret": "mine"}, "/secret"),
        ({"is_active": False}, "/is_active"),
    ],
)
def test_a_wrong_body_is_refused_at_its_place(cast: Cast, api: Api, body: dict[str, Any], path: str) -> None:
    response = api(cast.bob).post("/api/v1/subscriptions", {**HOOK, **body}, format="json")
    assert response.status_code == 422
    assert path in [field["path"] for field in response.json()["fields"]]
    assert Subscription.objects.count() == 0


def test_a_foreign_tenant_cannot_be_subscribed_to(cast: Cast, api: Api) -> None:
    response = api(cast.carol).post("/api/v1/subscriptions", {**HOOK, "tenant": cast.tenant.slug}, format="json")
    assert response.status_code == 404


@pytest.mark.parametrize("person", ["alice", "carol", "otto"])
def test_somebody_elses_subscription_does_not_exist(cast: Cast, api: Api, person: str) -> None:
    made = create(api(cast.bob))
    other = api(getattr(cast, person))
    path = f"/api/v1/subscriptions/{made['id']}"
    answers = [
        other.get(path),
        other.patch(path, {"is_active": False}, format="json"),
        other.delete(path),
        other.post(f"{path}/test"),
    ]
    assert [answer.status_code for answer in answers] == [404] * 4
    assert other.get("/api/v1/subscriptions").json()["items"] == []


def test_a_token_without_the_scope_may_read_only(cast: Cast, api: Api) -> None:
    made = create(api(cast.bob))
    client = api(make_token(cast.bob.user, scopes=("read",)).text)
    assert client.get("/api/v1/subscriptions").status_code == 200
    assert client.post("/api/v1/subscriptions", HOOK, format="json").status_code == 403
    assert client.delete(f"/api/v1/subscriptions/{made['id']}").status_code == 403


def test_a_repeated_request_makes_one_subscription(cast: Cast, api: Api) -> None:
    client = api(cast.bob)
    answers = [client.post("/api/v1/subscriptions", HOOK, format="json", HTTP_IDEMPOTENCY_KEY="k") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 409]
    assert answers[1].json()["code"] == "shown_once"
    assert Subscription.objects.count() == 1


def test_a_test_message_shows_in_the_delivery_log_and_can_be_retried_once_failed(cast: Cast, api: Api) -> None:
    client = api(cast.bob)
    made = create(client)
    answer = client.post(f"/api/v1/subscriptions/{made['id']}/test")
    assert (answer.status_code, answer.json()["state"]) == (202, "pending")
    retry = f"/api/v1/deliveries/{answer.json()['id']}/retry"
    assert client.post(retry).status_code == 409
    Delivery.objects.update(state="failed", last_error="down", tries=10)
    (item,) = client.get("/api/v1/deliveries", {"state": "failed", "subscription": made["id"]}).json()["items"]
    assert (item["last_error"], item["tries"]) == ("down", 10)
    assert api(cast.alice).post(retry).status_code == 404
    assert api(cast.alice).get("/api/v1/deliveries").json()["items"] == []
    assert client.post(retry).json()["state"] == "pending"
