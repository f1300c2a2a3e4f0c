"""What arrives at a chat service, through all that sends it: the right words, at the right address, and no token elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
import structlog
from django.core import serializers

from activity.models import AuditEvent, Delivery, Subscription
from activity.notifications import deliver, fan_out, rotate_secrets, subscriptions
from activity.notifications.channels import CHANNELS
from activity.notifications.chats import JOINER
from kernel.actor import Actor
from kernel.config import Config
from kernel.errors import InvalidInput
from tenants.models import Preference
from tests.factories.activity import Jobs, make_events, now
from tests.factories.chats import ADDRESSES, CANARY, EXAMPLES, SETTINGS, ChatServices, chat_services
from tests.factories.tenants import Cast

pytestmark = pytest.mark.database

KINDS = sorted(SETTINGS)
HOSTILE = "<!channel> @all <at id=all></at> *b* _i_ `c` [x](http://evil.example) <b>y</b>"


@pytest.fixture(autouse=True)
def settled(db: None, configure: Callable[..., Config]) -> None:
    configure(public_url="https://berth.test", mail_url="smtp://127.0.0.1:1")
    fan_out(now())


@pytest.fixture
def chats() -> Iterator[ChatServices]:
    with chat_services() as found:
        yield found


def subscribe(actor: Actor, kind: str, **columns: Any) -> Subscription:
    values = {"kinds": ["failed"], "channel": kind, "settings": SETTINGS[kind], "now": now(), **columns}
    return subscriptions.create_subscription(actor=actor, **values).subscription


def fail_job(cast: Cast, jobs: Jobs, name: str = "digits") -> None:
    job = jobs.add(cast.bob.user.pk, name=name, reason=name, hint="Ask for memory.")
    make_events("job.failed", tenant_id=cast.tenant.pk, job_id=job.job_id, data={"from": "running", "to": "failed"})
    fan_out(now())


def try_it(cast: Cast, kind: str) -> Delivery:
    """A test message, sent at once."""
    subscription = subscribe(cast.bob.actor, kind)
    delivery = subscriptions.send_test(actor=cast.bob.actor, subscription=subscription, now=now())
    deliver(now())
    delivery.refresh_from_db()
    return delivery


def test_every_chat_is_tried_here() -> None:
    assert set(KINDS) == set(CHANNELS) - {"mail", "webhook"}, "a channel has an example in tests/factories/chats.py"


@pytest.mark.parametrize("kind", KINDS)
def test_a_failed_job_is_told_in_a_chat(cast: Cast, jobs: Jobs, chats: ChatServices, kind: str) -> None:
    subscribe(cast.bob.actor, kind)
    fail_job(cast, jobs)
    assert deliver(now()) == 1
    (posted,) = chats.posted
    example = EXAMPLES[kind]
    assert (posted.host, posted.address) == (example.host, ADDRESSES[example.host]), "the address that was checked"
    assert posted.path.startswith(example.path)
    assert posted.headers["Content-Type"].startswith("application/json")
    title, text = example.read(posted.body)
    assert title == "[Berth] digits failed"
    for words in ("digits", "Ask for memory.", "berth logs train", "State: failed"):
        assert words in text
    assert (Delivery.objects.get().state, Delivery.objects.get().last_error) == ("sent", "")


@pytest.mark.parametrize("kind", KINDS)
def test_a_jobs_name_is_never_markup_and_calls_nobody(cast: Cast, jobs: Jobs, chats: ChatServices, kind: str) -> None:
    subscribe(cast.bob.actor, kind)
    fail_job(cast, jobs, HOSTILE)
    deliver(now())
    (posted,) = chats.posted
    for text in EXAMPLES[kind].read(posted.body):
        assert not any(mark in text for mark in ("<!", "@all", "<at", "<b>"))
        assert HOSTILE in text.replace(JOINER, "")


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_is_in_the_language_of_who_asked_for_it(cast: Cast, chats: ChatServices, kind: str) -> None:
    Preference.objects.create(user=cast.bob.user, language="zh")
    assert try_it(cast, kind).state == "sent"
    assert "通知测试" in json.dumps(chats.posted[0].body, ensure_ascii=False)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("answer", "state", "words"),
    [
        ((302, {"Location": "http://169.254.169.254/"}, b""), "failed", "redirect"),
        ((404, {}, b"no such hook"), "failed", "Make a new one"),
        ((500, {}, b""), "pending", "500"),
        ((429, {"Retry-After": "120"}, b""), "pending", ""),
    ],
)
def test_a_services_status_decides(
    cast: Cast, chats: ChatServices, kind: str, answer: tuple[int, dict[str, str], Any], state: str, words: str
) -> None:
    chats.answer = lambda: answer
    before = now()
    delivery = try_it(cast, kind)
    assert (delivery.state, delivery.tries, delivery.last_status) == (state, 1, answer[0])
    assert words in delivery.last_error
    assert len(chats.posted) == 1
    if answer[0] == 429:
        assert delivery.retry_at is not None
        assert delivery.retry_at - before > timedelta(seconds=110)


@pytest.mark.parametrize(
    ("kind", "said", "state", "words"),
    [
        ("dingtalk", {"errcode": 310000, "errmsg": CANARY}, "failed", "signing secret"),
        ("dingtalk", {"errcode": 130101}, "pending", "busy"),
        ("feishu", {"code": 19021, "msg": CANARY}, "failed", "signature"),
        ("feishu", {"StatusCode": 0}, "sent", ""),
        ("feishu", {"code": 11232}, "pending", "busy"),
        ("wecom", {"errcode": 93000, "errmsg": f"invalid webhook url {CANARY}"}, "failed", "revoked"),
        ("wecom", {"errcode": 45009}, "pending", "busy"),
        ("wecom", {"errcode": 77}, "failed", "code 77"),
        ("wecom", "<html>", "pending", "no answer"),
        ("slack", "ok", "sent", ""),
    ],
)
def test_a_code_in_the_answer_decides_where_the_status_is_always_200(
    cast: Cast, chats: ChatServices, kind: str, said: Any, state: str, words: str
) -> None:
    chats.answer = lambda: (200, {}, said)
    delivery = try_it(cast, kind)
    assert delivery.state == state
    assert words in delivery.last_error
    assert CANARY not in delivery.last_error


@pytest.mark.parametrize(
    ("status", "said", "state", "words"),
    [
        (400, {"ok": False, "description": "chat not found"}, "failed", "chat's id"),
        (401, {"ok": False}, "failed", "Make a new one"),
        (403, {"ok": False}, "failed", "blocked"),
        (429, {"ok": False, "parameters": {"retry_after": 400}}, "pending", "limits"),
    ],
)
def test_telegrams_refusals_say_what_to_do(
    cast: Cast, chats: ChatServices, status: int, said: Any, state: str, words: str
) -> None:
    chats.answer = lambda: (status, {}, said)
    before = now()
    delivery = try_it(cast, "telegram")
    assert delivery.state == state
    assert words in delivery.last_error
    if status == 429:
        assert delivery.retry_at is not None
        assert delivery.retry_at - before > timedelta(seconds=390)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "169.254.169.254"])
def test_a_name_that_leads_inside_is_refused_and_never_connected_to(
    cast: Cast, chats: ChatServices, kind: str, address: str
) -> None:
    chats.addresses = dict.fromkeys(ADDRESSES, address)
    delivery = try_it(cast, kind)
    assert (delivery.state, chats.posted) == ("failed", [])
    assert address in delivery.last_error


@pytest.mark.parametrize("kind", KINDS)
def test_a_service_with_a_foreign_certificate_hears_nothing(cast: Cast, kind: str) -> None:
    with chat_services(is_trusted=False) as strangers:
        delivery = try_it(cast, kind)
    assert (delivery.state, strangers.posted) == ("pending", [])
    assert "certificate" in delivery.last_error


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("answer", [(200, b"{}"), (404, CANARY.encode()), (500, CANARY.encode())])
def test_a_token_stands_sealed_and_nowhere_else(
    cast: Cast, jobs: Jobs, chats: ChatServices, kind: str, answer: tuple[int, bytes], capfd: pytest.CaptureFixture[str]
) -> None:
    chats.answer = lambda: (answer[0], {}, answer[1])
    with structlog.testing.capture_logs() as logs:
        subscription = subscribe(cast.bob.actor, kind, tenant_id=cast.tenant.pk)
        subscriptions.update_subscription(
            actor=cast.bob.actor, subscription=subscription, settings=SETTINGS[kind], kinds=["failed", "stopped"], now=now()
        )
        bad = {name: f"{value}\n!" for name, value in SETTINGS[kind].items()}
        with pytest.raises(InvalidInput) as refusal:
            subscriptions.update_subscription(actor=cast.bob.actor, subscription=subscription, settings=bad, now=now())
        fail_job(cast, jobs)
        deliver(now())
    assert CANARY in str(chats.posted[0]), "the service itself sees it"
    rows = [serializers.serialize("json", model.objects.all()) for model in (Subscription, Delivery, AuditEvent)]
    told = [refusal.value.detail, refusal.value.hint, *(str(error.as_dict()) for error in refusal.value.fields)]
    for text in [*rows, *told, str(logs), *capfd.readouterr(), repr(subscription)]:
        assert CANARY not in text


def test_what_is_sealed_outlives_a_new_key_of_the_installation(cast: Cast, chats: ChatServices, settings: Any) -> None:
    subscription = subscribe(cast.bob.actor, "slack")
    old = settings.SECRET_KEY
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "n" * 20 + "ew key of the installation", [old]
    assert rotate_secrets() == 1
    settings.SECRET_KEY_FALLBACKS = []
    subscriptions.send_test(actor=cast.bob.actor, subscription=subscription, now=now())
    deliver(now())
    assert Delivery.objects.get().state == "sent"


def test_where_the_key_is_lost_the_user_is_told_and_may_give_the_token_again(
    cast: Cast, chats: ChatServices, settings: Any
) -> None:
    subscription = subscribe(cast.bob.actor, "slack")
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "another key of " + "the installation", []
    subscriptions.send_test(actor=cast.bob.actor, subscription=subscription, now=now())
    deliver(now())
    assert (Delivery.objects.get().state, chats.posted) == ("failed", [])
    assert "needs its webhook address" in Delivery.objects.get().last_error
    subscriptions.update_subscription(actor=cast.bob.actor, subscription=subscription, settings=SETTINGS["slack"], now=now())
    subscriptions.retry_delivery(actor=cast.bob.actor, delivery=Delivery.objects.get(), now=now())
    deliver(now())
    assert Delivery.objects.get().state == "sent"


def test_a_channel_that_is_no_longer_offered_sends_nothing(
    cast: Cast, chats: ChatServices, configure: Callable[..., Config]
) -> None:
    subscription = subscribe(cast.bob.actor, "slack")
    subscriptions.send_test(actor=cast.bob.actor, subscription=subscription, now=now())
    configure(notification_channels="mail")
    deliver(now())
    assert (Delivery.objects.get().state, chats.posted) == ("failed", [])
    assert "does not offer" in Delivery.objects.get().last_error
