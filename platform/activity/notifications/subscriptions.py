"""What users ask to be told: their own subscriptions, and another try of a delivery that failed."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from django.db import transaction
from django.db.models import F

from activity import bulk, hints
from activity.models import Delivery, Subscription
from activity.notifications.fanout import delivery_row
from activity.notifications.kinds import DELIVERY, DeliveryState, NoticeKind, Via
from activity.notifications.sealing import reseal, seal
from activity.notifications.targets import check_url
from activity.services import record_audit
from kernel.actor import Actor
from kernel.config import current
from kernel.errors import Conflict, FieldError, InvalidInput, NotAuthenticated, PreconditionFailed, QuotaExceeded

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
    tenant_id: uuid.UUID | None = None,
    jobs: str = "mine",
    now: datetime,
) -> NewSubscription:
    """Subscribe the actor. Mail goes to the user's own address only: nobody signs somebody else up."""
    if actor.user_id is None:
        raise NotAuthenticated("Only a user can subscribe.")
    _check_target(channel, target)
    secret = SECRET_PREFIX + secrets.token_urlsafe(32) if channel == Via.WEBHOOK else ""
    with transaction.atomic():
        if Subscription.objects.filter(user_id=actor.user_id).count() >= SUBSCRIPTIONS_PER_USER_MAX:
            raise QuotaExceeded(f"A user has at most {SUBSCRIPTIONS_PER_USER_MAX} subscriptions.", hint="Delete one first.")
        subscription = Subscription.objects.create(
            user_id=actor.user_id,
            tenant_id=tenant_id,
            kinds=_ordered(kinds),
            jobs=jobs,
            channel=channel,
            target=target,
            secret_sealed=seal(secret) if secret else "",
            created_at=now,
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
    is_active: bool | None = None,
    expected_version: int | None = None,
    now: datetime,
) -> Subscription:
    """Change what is given; None leaves it."""
    changes: dict[str, Any] = {
        name: value
        for name, value in (
            ("kinds", None if kinds is None else _ordered(kinds)),
            ("jobs", jobs),
            ("target", target),
            ("is_active", is_active),
        )
        if value is not None
    }
    if target is not None:
        _check_target(subscription.channel, target)
    with transaction.atomic():
        before = _audited(subscription)
        rows = Subscription.objects.filter(id=subscription.id)
        if expected_version is not None:
            rows = rows.filter(version=expected_version)
        if not rows.update(version=F("version") + 1, **changes):
            raise PreconditionFailed("The subscription was changed meanwhile.", hint="Read it again and repeat your change.")
        subscription.refresh_from_db()
        _audit(actor, "subscription.edit", subscription, before=before, after=_audited(subscription), now=now)
    return subscription


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
            raise Conflict("Earlier tests still wait to be sent.", hint="See `GET /deliveries` for why.")
        payload = _test_payload(actor, subscription, now)
        delivery = Delivery.objects.create(
            **delivery_row(subscription, kind=NoticeKind.SUCCEEDED, payload=payload, event=None, now=now)
        )
        _audit(actor, "subscription.test", subscription, now=now)
        hints.wake(hints.DELIVERIES)
    return delivery


def retry_delivery(*, actor: Actor, delivery: Delivery, now: datetime) -> Delivery:
    """Try a failed delivery again, with all its tries anew."""
    if not DELIVERY.allows(delivery.state, DeliveryState.PENDING):
        raise Conflict(
            f"Delivery {delivery.id} is {delivery.state}, not failed.",
            hint="One that was sent is not sent again; one that waits is tried by itself.",
        )
    with transaction.atomic():
        changed = bulk.update(
            Delivery,
            [{"id": delivery.id, "state": str(DeliveryState.PENDING), "tries": 0, "retry_at": now, "lease_expires_at": None}],
            equals={"state": str(DeliveryState.FAILED)},
        )
        if not changed:
            raise Conflict(f"Delivery {delivery.id} is being tried already.")
        _audit(actor, "delivery.retry", delivery.subscription, after={"delivery": str(delivery.id)}, now=now)
        hints.wake(hints.DELIVERIES)
    delivery.refresh_from_db()
    return delivery


def rotate_secrets() -> int:
    """Seal every webhook's secret anew under the present key; returns how many. May be repeated. For the operator's command."""
    with transaction.atomic():
        rows = Subscription.objects.exclude(secret_sealed="").select_for_update().order_by("id")
        subscriptions = list(rows.only("id", "secret_sealed"))
        for subscription in subscriptions:
            subscription.secret_sealed = reseal(subscription.secret_sealed)
        Subscription.objects.bulk_update(subscriptions, ["secret_sealed"], batch_size=500)
    return len(subscriptions)


def _check_target(channel: str, target: str) -> None:
    if channel == Via.WEBHOOK:
        check_url(target, allow_private=current().webhook_private_targets)
    elif target:
        message = "Mail goes to your own address; leave `target` out."
        raise InvalidInput(message, fields=[FieldError("/target", "not_allowed", message)])


def _ordered(kinds: Collection[str]) -> list[str]:
    return [str(kind) for kind in NoticeKind if kind in kinds]


def _audited(subscription: Subscription) -> dict[str, Any]:
    """Without the path of a webhook's address, which is a secret with many services: managers read the audit."""
    shown = {name: getattr(subscription, name) for name in ("kinds", "jobs", "channel", "is_active")}
    return {**shown, "target": urlsplit(subscription.target).netloc}


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
        "event": "test",
        "kind": str(NoticeKind.SUCCEEDED),
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
