"""What users ask to be told: their own subscriptions, and another try of a delivery that failed."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from django.db import transaction
from django.db.models import F

from activity import bulk, hints
from activity.models import Delivery, Subscription
from activity.notifications.channel import TARGET, Channel
from activity.notifications.channels import CHANNELS, offered
from activity.notifications.fanout import delivery_row
from activity.notifications.keeping import columns, values_of
from activity.notifications.kinds import DELIVERY, DeliveryState, kind_names
from activity.notifications.message import TEST
from activity.notifications.sealing import reseal, seal
from activity.services import record_audit
from kernel.actor import Actor
from kernel.config import current
from kernel.errors import Conflict, FieldError, InvalidInput, NotAuthenticated, PreconditionFailed, QuotaExceeded
from kernel.words import Text

SUBSCRIPTIONS_PER_USER_MAX = 50
SECRET_PREFIX = "whsec_"  # noqa: S105 - how a secret begins, not one.
TESTS_WAITING_MAX = 5  # Test messages that may wait to be sent at once.


@dataclass(frozen=True, slots=True)
class NewSubscription:
    """A stored subscription, and the webhook's signing secret, which is shown this once."""

    subscription: Subscription
    secret: str


def create_subscription(
    *,
    actor: Actor,
    kinds: Collection[str],
    channel: str,
    target: str = "",
    settings: Mapping[str, str] | None = None,
    tenant_id: uuid.UUID | None = None,
    jobs: str = "mine",
    now: datetime,
) -> NewSubscription:
    """Subscribe the actor. `settings` are the channel's fields but `target`. Mail goes to the user's own address only."""
    if actor.user_id is None:
        raise NotAuthenticated(Text("Only a user can subscribe.", "只有用户可以订阅。"))
    values = _values({}, target, settings)
    chosen = _checked(channel, values)
    secret = SECRET_PREFIX + secrets.token_urlsafe(32) if chosen.signs else ""
    with transaction.atomic():
        if Subscription.objects.filter(user_id=actor.user_id).count() >= SUBSCRIPTIONS_PER_USER_MAX:
            raise QuotaExceeded(
                Text(
                    f"A user has at most {SUBSCRIPTIONS_PER_USER_MAX} subscriptions.",
                    f"每个用户最多有 {SUBSCRIPTIONS_PER_USER_MAX} 条订阅。",
                ),
                hint=Text("Delete one first.", "请先删除一条。"),
            )
        subscription = Subscription.objects.create(
            user_id=actor.user_id,
            tenant_id=tenant_id,
            kinds=_ordered(kinds),
            jobs=jobs,
            channel=channel,
            created_at=now,
            **{"secret_sealed": seal(secret) if secret else "", **columns(chosen, values)},
        )
        _audit(actor, "subscription.create", subscription, after=_audited(subscription), now=now)
    return NewSubscription(subscription, secret)


def update_subscription(
    *,
    actor: Actor,
    subscription: Subscription,
    kinds: Collection[str] | None = None,
    jobs: str | None = None,
    target: str | None = None,
    settings: Mapping[str, str] | None = None,
    is_active: bool | None = None,
    expected_version: int | None = None,
    now: datetime,
) -> Subscription:
    """Change what is given; None leaves it. A field that is not among `settings` keeps its value, and an empty one is removed."""
    plain = (("kinds", None if kinds is None else _ordered(kinds)), ("jobs", jobs), ("is_active", is_active))
    changes: dict[str, Any] = {name: value for name, value in plain if value is not None}
    with transaction.atomic():
        row = Subscription.objects.select_for_update().filter(id=subscription.id).first()
        if row is None or expected_version not in (None, row.version):
            raise PreconditionFailed(
                Text("The subscription was changed meanwhile.", "该订阅已被他人修改。"),
                hint=Text("Read it again and repeat your change.", "请重新读取，再做修改。"),
            )
        if target is not None or settings is not None:
            values = _values(values_of(row), target, settings)
            changes |= columns(_checked(row.channel, values), values)
        Subscription.objects.filter(id=row.id).update(version=F("version") + 1, **changes)
        before = _audited(row)
        subscription.refresh_from_db()
        changed = {"settings": sorted(settings)} if settings else {}
        _audit(actor, "subscription.edit", subscription, before=before, after={**_audited(subscription), **changed}, now=now)
    return subscription


def wrong(
    kind: str, *, before: Mapping[str, str] | None = None, target: str | None = None, settings: Mapping[str, str] | None = None
) -> list[FieldError]:
    """All that is wrong with a channel and its fields, each at its place of the body. `before`: the values until now."""
    channel = next((channel for channel in offered(current()) if channel.kind == kind), None)
    if channel is None:
        kinds = ", ".join(channel.kind for channel in offered(current()))
        hint = Text("`GET /notification-channels` shows what each needs.", "`GET /notification-channels` 列出各渠道所需的内容。")
        return [
            FieldError(
                "/channel",
                "not_offered",
                Text(
                    f"There are no notifications by {kind[:80]!r} here; there are {kinds}.",
                    f"此处没有 {kind[:80]!r} 通知渠道；现有：{kinds}。",
                ),
                hint,
            )
        ]
    refused = channel.check(_values(before or {}, target, settings), current())
    return [
        FieldError("/target" if name == TARGET else f"/settings/{name}", error.code, error.detail_text, error.hint_text)
        for name, error in refused.items()
    ]


def delete_subscription(*, actor: Actor, subscription: Subscription, now: datetime) -> None:
    """Unsubscribe. What waits to be sent is dropped with it."""
    with transaction.atomic():
        _audit(actor, "subscription.delete", subscription, before=_audited(subscription), now=now)
        Subscription.objects.filter(id=subscription.id).delete()


def send_test(*, actor: Actor, subscription: Subscription, now: datetime) -> Delivery:
    """Send a message that says it is a test, through the same way as real ones."""
    with transaction.atomic():
        waiting = Delivery.objects.filter(subscription=subscription, event_seq__isnull=True, state=DeliveryState.PENDING)
        if waiting.count() >= TESTS_WAITING_MAX:
            raise Conflict(
                Text("Earlier tests still wait to be sent.", "之前的测试消息仍在等待发送。"),
                hint=Text("See `GET /deliveries` for why.", "原因见 `GET /deliveries`。"),
            )
        payload = _test_payload(actor, subscription, now)
        delivery = Delivery.objects.create(
            **delivery_row(subscription, kind=_kind_of_tests(), payload=payload, event=None, now=now)
        )
        _audit(actor, "subscription.test", subscription, now=now)
        hints.wake(hints.DELIVERIES)
    return delivery


def retry_delivery(*, actor: Actor, delivery: Delivery, now: datetime) -> Delivery:
    """Try a failed delivery again, with all its tries anew."""
    if not DELIVERY.allows(delivery.state, DeliveryState.PENDING):
        raise Conflict(
            Text(
                f"Delivery {delivery.id} is {delivery.state}, not failed.",
                f"通知 {delivery.id} 的状态是 {delivery.state}，而非 failed。",
            ),
            hint=Text(
                "One that was sent is not sent again; one that waits is tried by itself.",
                "已发送的不会再发；等待中的会自动重试。",
            ),
        )
    with transaction.atomic():
        changed = bulk.update(
            Delivery,
            [{"id": delivery.id, "state": str(DeliveryState.PENDING), "tries": 0, "retry_at": now, "lease_expires_at": None}],
            equals={"state": str(DeliveryState.FAILED)},
        )
        if not changed:
            raise Conflict(Text(f"Delivery {delivery.id} is being tried already.", f"通知 {delivery.id} 正在发送。"))
        _audit(actor, "delivery.retry", delivery.subscription, after={"delivery": str(delivery.id)}, now=now)
        hints.wake(hints.DELIVERIES)
    delivery.refresh_from_db()
    return delivery


def rotate_secrets() -> int:
    """Seal every secret of a subscription anew under the present key; returns how many. For the operator's command."""
    with transaction.atomic():
        rows = Subscription.objects.exclude(secret_sealed="").select_for_update().order_by("id")
        subscriptions = list(rows.only("id", "secret_sealed"))
        for subscription in subscriptions:
            subscription.secret_sealed = reseal(subscription.secret_sealed)
        Subscription.objects.bulk_update(subscriptions, ["secret_sealed"], batch_size=500)
    return len(subscriptions)


def _checked(kind: str, values: Mapping[str, str]) -> Channel:
    """The channel, or InvalidInput with all that is wrong."""
    if errors := wrong(kind, settings=values):
        raise InvalidInput(errors[0].message, hint=errors[0].hint, fields=errors)
    return CHANNELS[kind]


def _values(before: Mapping[str, str], target: str | None, settings: Mapping[str, str] | None) -> dict[str, str]:
    """All fields after a change, without those that are empty; `target` is one of them, at the top of the body."""
    values = {**before, **(settings or {}), **({} if target is None else {TARGET: target})}
    return {name: value for name, value in values.items() if value}


def _kind_of_tests() -> str:
    """A test is about no event; it passes for what is told without asking."""
    return kind_names(only_default=True)[0]


def _ordered(kinds: Collection[str]) -> list[str]:
    return [kind for kind in kind_names() if kind in kinds]


def _audited(subscription: Subscription) -> dict[str, Any]:
    """Without the path of a webhook's address, which is a secret with many services: managers read the audit."""
    shown = {name: getattr(subscription, name) for name in ("kinds", "jobs", "channel", "is_active")}
    is_url = "://" in subscription.target
    return {**shown, "target": urlsplit(subscription.target).netloc if is_url else subscription.target}


def _audit(
    actor: Actor,
    verb: str,
    subscription: Subscription,
    *,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
    now: datetime,
) -> None:
    record_audit(
        actor=actor,
        verb=verb,
        tenant_id=subscription.tenant_id,
        target_kind="subscription",
        target_id=subscription.id,
        target_name=subscription.channel,
        before=before,
        after=after,
        at=now,
    )


def _test_payload(actor: Actor, subscription: Subscription, now: datetime) -> dict[str, Any]:
    tenant_id = str(subscription.tenant_id) if subscription.tenant_id else None
    return {
        "event": TEST,
        "kind": _kind_of_tests(),
        "seq": None,
        "at": now.isoformat().replace("+00:00", "Z"),
        "state": "succeeded",
        "reason": "test",
        "job": {
            "id": str(uuid.UUID(int=0)),
            "name": "test-notification",
            "tenant": "",
            "tenant_id": tenant_id,
            "user_id": str(actor.user_id),
            "reason": "This is a test: no job ended.",
            "hint": "",
            "command": "",
            "url": "",
        },
    }
