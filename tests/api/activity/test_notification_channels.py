"""`/notification-channels`, and subscriptions by each of them: what a form needs, all errors at once, no secret twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from activity.models import Delivery, Subscription
from activity.notifications.channels import CHANNELS
from activity.notifications.keeping import values_of
from tests.factories.chats import CANARY, SETTINGS
from tests.factories.tenants import Cast

pytestmark = pytest.mark.database

Api = Callable[..., Any]
KINDS = sorted(SETTINGS)
PATH = "/api/v1/subscriptions"


def create(client: Any, kind: str = "slack", **body: Any) -> Any:
    return client.post(PATH, {"channel": kind, "settings": SETTINGS[kind], **body}, format="json")


def errors(response: Any) -> dict[str, str]:
    assert response.status_code == 422, response.content
    return {field["path"]: field["code"] for field in response.json()["fields"]}


def test_all_channels_say_what_their_form_needs_in_both_languages(cast: Cast, api: Api, configure: Callable[..., Any]) -> None:
    configure(mail_url="")
    channels = {item["kind"]: item for item in api(cast.bob).get("/api/v1/notification-channels").json()["items"]}
    assert set(channels) == {"mail", "webhook", *KINDS}
    for channel in channels.values():
        for words in [channel["words"], *(item[part] for item in channel["inputs"] for part in ("words", "hint"))]:
            assert words["en"]
            assert words["zh"]
    assert [(item["name"], item["is_secret"], item["is_required"]) for item in channels["dingtalk"]["inputs"]] == [
        ("address", True, True),
        ("secret", True, False),
        ("name", False, False),
    ]
    assert (channels["mail"]["problem"]["code"], channels["slack"]["problem"]) == ("no_mail_server", None)
    assert [kind for kind, channel in channels.items() if channel["signs"]] == ["webhook"]


def test_only_what_the_operator_offers_is_there(cast: Cast, api: Api, configure: Callable[..., Any]) -> None:
    client = api(cast.bob)
    made = create(client).json()
    configure(notification_channels="mail")
    assert [item["kind"] for item in client.get("/api/v1/notification-channels").json()["items"]] == ["mail"]
    assert errors(create(client)) == {"/channel": "not_offered"}
    assert client.get(f"{PATH}/{made['id']}").json()["problem"] == "not_offered"
    assert client.patch(f"{PATH}/{made['id']}", {"is_active": False}, format="json").status_code == 200
    assert client.delete(f"{PATH}/{made['id']}").status_code == 204


@pytest.mark.parametrize("kind", KINDS)
def test_a_secret_is_never_shown_again(cast: Cast, api: Api, kind: str) -> None:
    client = api(cast.bob)
    answer = create(client, kind)
    assert answer.status_code == 201, answer.content
    path = f"{PATH}/{answer.json()['id']}"
    client.post(f"{path}/test")
    answers = [answer, client.get(path), client.get(PATH), client.patch(path, {"jobs": "all"}, format="json")]
    answers += [client.patch(path, {"settings": SETTINGS[kind]}, format="json"), client.get("/api/v1/deliveries")]
    answers += [api(cast.alice).get("/api/v1/audit")]
    for shown in answers:
        assert shown.status_code in {200, 201}
        assert CANARY not in shown.content.decode()
    secret = {name for name, value in answer.json()["settings"].items() if value is None}
    assert secret == {field.name for field in CHANNELS[kind].fields if field.is_secret}
    assert "secret" not in answer.json()


def test_all_that_is_wrong_is_told_at_once_at_its_place(cast: Cast, api: Api) -> None:
    body = {"channel": "telegram", "settings": {"token": "x", "colour": "red"}, "kinds": ["exploded"], "extra": 1, "target": "y"}
    assert errors(api(cast.bob).post(PATH, body, format="json")) == {
        "/extra": "unknown_field",
        "/kinds/0": "invalid_choice",
        "/settings/token": "invalid",
        "/settings/chat": "required",
        "/settings/colour": "not_allowed",
        "/target": "not_allowed",
    }
    assert Subscription.objects.count() == 0


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ("text", "/settings"),
        (["a"], "/settings"),
        ({"address": {"a": "b"}}, "/settings/address"),
        ({"address": None}, "/settings/address"),
        ({"address": "x" * 3_000}, "/settings/address"),
        ({f"a{number}": "b" for number in range(30)}, "/settings"),
        ({"a" * 50: "b"}, "/settings"),
        ({"address": "https://hooks.slack.com/services/T0/B0/\u200b"}, "/settings/address"),
        ({"address": "http://169.254.169.254/services/T0/B0/x"}, "/settings/address"),
    ],
)
def test_settings_of_another_shape_are_refused(cast: Cast, api: Api, settings: Any, path: str) -> None:
    assert path in errors(create(api(cast.bob), settings=settings))


def test_a_change_keeps_what_it_does_not_name_and_removes_what_is_empty(cast: Cast, api: Api) -> None:
    client = api(cast.bob)
    made = create(client, "dingtalk").json()
    path = f"{PATH}/{made['id']}"
    changed = client.patch(path, {"settings": {"name": "Other", "secret": ""}}, format="json").json()
    assert (changed["target"], changed["settings"]) == ("Other", {"address": None, "name": "Other"})
    assert values_of(Subscription.objects.get()) == {"address": SETTINGS["dingtalk"]["address"], "name": "Other"}
    assert errors(client.patch(path, {"settings": {"address": ""}, "kinds": []}, format="json")) == {
        "/settings/address": "required",
        "/kinds": "empty",
    }


def test_what_was_given_up_is_shown_at_the_subscription_until_a_message_arrives(cast: Cast, api: Api) -> None:
    client = api(cast.bob)
    made = create(client).json()
    assert made["last_failure"] is None
    path = f"{PATH}/{made['id']}"
    deliveries = [client.post(f"{path}/test").json()["id"] for _ in range(3)]

    def settle(place: int, state: str) -> Any:
        Delivery.objects.filter(id=deliveries[place]).update(state=state, last_error="revoked" if state == "failed" else "")
        return client.get(path).json()["last_failure"]

    assert client.get(path).json()["last_failure"] is None, "a message on its way has not failed"
    assert settle(0, "failed")["error"] == "revoked"
    assert settle(1, "sent") is None
    assert settle(2, "failed")["error"] == "revoked"
    assert client.get(PATH).json()["items"][0]["last_failure"]["error"] == "revoked"
