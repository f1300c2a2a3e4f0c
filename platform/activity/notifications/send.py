"""Sends what is waiting: claim by lease, send outside any transaction, note the result while the lease still holds.

A worker that dies after sending and before noting leaves the delivery to be sent once more: its id travels with the message, as
the `Berth-Delivery` header or the mail's Message-ID, so that the receiver sees it is the same.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.db import transaction
from django.db.models import F, Q, QuerySet, Window
from django.db.models.functions import RowNumber

from activity import bulk, hints, registry
from activity.models import Delivery
from activity.notifications.channel import Message
from activity.notifications.channels import CHANNELS, is_offered
from activity.notifications.keeping import secret_of, values_of
from activity.notifications.kinds import DeliveryState
from activity.notifications.outcomes import GiveUp, Outcome, Sent, TryAgain
from activity.registry import Recipient
from kernel.config import Config, current
from kernel.crashpoints import crashpoint
from kernel.ids import new_id
from kernel.limits import NOTE_LENGTH

log = structlog.get_logger("activity")

BATCH = 32
PER_SUBSCRIPTION = 4  # One slow receiver gets a share of a batch, never all of it.
THREADS = 8  # 32 sends of at most 10 s each, by 8: 40 s, below the 60 s that a task may last.
LEASE = timedelta(seconds=120)  # Longer than any batch can take; a second sender would send twice.
TRIES_MAX = 10
OUR_FAULT_TRIES_MAX = 3  # Where it is not the other side that refuses, but we who fail.
BACKOFF_SECONDS = 15  # Then 30, 60 ...: ten tries spread over two hours.
BACKOFF_SECONDS_MAX = 3_600


def deliver(now: datetime) -> int:
    """Send one batch of due deliveries; returns how many were tried. While it is not 0, it hints that more may be due."""
    token = new_id()
    claimed = _claim(token, now)
    if not claimed:
        return 0
    crashpoint("activity.deliver.after_claim")
    recipients = registry.recipients({delivery.user_id for delivery in claimed})
    config = current()
    with ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="deliver") as pool:
        outcomes = list(pool.map(lambda delivery: _try(delivery, recipients.get(delivery.user_id), config, now), claimed))
    crashpoint("activity.deliver.after_send")
    _settle(claimed, outcomes, now)
    hints.wake(hints.DELIVERIES)
    return len(claimed)


def _claim(token: uuid.UUID, now: datetime) -> list[Delivery]:
    due = (
        Delivery.objects.filter(state=DeliveryState.PENDING, retry_at__lte=now)
        .filter(Q(lease_expires_at__isnull=True) | Q(lease_expires_at__lte=now))
        .order_by("retry_at", "id")
    )
    chosen = _fair(due)
    if not chosen:
        return []
    with transaction.atomic():
        free = list(due.filter(id__in=chosen).select_for_update(skip_locked=True).values_list("id", flat=True))
        Delivery.objects.filter(id__in=free).update(lease_token=token, lease_expires_at=now + LEASE)
    return list(Delivery.objects.filter(id__in=free, lease_token=token).select_related("subscription").order_by("id"))


def _fair(due: QuerySet[Delivery]) -> list[uuid.UUID]:
    """The first deliveries of each subscription, in turns: however many wait for one receiver, the others have theirs."""
    turn = Window(RowNumber(), partition_by=[F("subscription_id")], order_by=[F("retry_at").asc(), F("id").asc()])
    first = due.annotate(turn=turn).filter(turn__lte=PER_SUBSCRIPTION).order_by("turn", "retry_at", "id")
    return list(first.values_list("id", flat=True)[:BATCH])


def _try(delivery: Delivery, recipient: Recipient | None, config: Config, now: datetime) -> Outcome:
    """A delivery that makes us fail is given up after three tries, and fails no other of its batch."""
    try:
        return _send(delivery, recipient, config, now)
    except Exception as error:  # Whatever a payload, an address or a sealed secret can make a library raise.
        log.exception("delivery_failed", delivery_id=str(delivery.id), tries=delivery.tries + 1)
        words = f"Berth failed at this message: {type(error).__name__}. The log has the details."
        return TryAgain(words) if delivery.tries + 1 < OUR_FAULT_TRIES_MAX else GiveUp(words)


def _send(delivery: Delivery, recipient: Recipient | None, config: Config, now: datetime) -> Outcome:
    """One try. Runs in a thread and touches no database."""
    subscription = delivery.subscription
    if recipient is None:
        return GiveUp("The user is disabled.")
    if not subscription.is_active:
        return GiveUp("The subscription is switched off.")
    if delivery.tenant_id is not None and not registry.sees_tenant(recipient.actor, delivery.tenant_id):
        return GiveUp("The user no longer belongs to the job's tenant.")
    channel = CHANNELS.get(subscription.channel)
    if channel is None or not is_offered(channel.kind, config):
        return GiveUp(f"The operator does not offer notifications by {subscription.channel}.")
    values, secret = values_of(subscription), secret_of(subscription)
    if refused := channel.check(values, config):  # The rules may be stricter by now than when it was stored.
        return GiveUp(next(iter(refused.values())).detail)
    message = Message(
        delivery_id=str(delivery.id),
        payload=delivery.payload,
        address=recipient.email,
        language=recipient.language,
        values=values,
        secret=secret,
        at=now,
        config=config,
    )
    return channel.send(message)


def _settle(claimed: Sequence[Delivery], outcomes: Sequence[Outcome], now: datetime) -> None:
    """Note the results, each only if its lease still holds."""
    rows = [_result(delivery, outcome, now) for delivery, outcome in zip(claimed, outcomes, strict=True)]
    with transaction.atomic():
        bulk.update(Delivery, rows, guard=("lease_token",), equals={"state": str(DeliveryState.PENDING)})


def _result(delivery: Delivery, outcome: Outcome, now: datetime) -> Mapping[str, Any]:
    tries = delivery.tries + 1
    row: dict[str, Any] = {
        "id": delivery.id,
        "lease_token": delivery.lease_token,
        "lease_expires_at": None,
        "tries": tries,
        "last_status": outcome.status,
        "last_error": "" if isinstance(outcome, Sent) else outcome.error[:NOTE_LENGTH].replace("\x00", "\ufffd"),
        "delivered_at": now if isinstance(outcome, Sent) else None,
        "retry_at": None,
        "state": str(DeliveryState.FAILED),
    }
    if isinstance(outcome, Sent):
        row["state"] = str(DeliveryState.SENT)
    elif isinstance(outcome, TryAgain) and tries < TRIES_MAX:
        row["state"] = str(DeliveryState.PENDING)
        row["retry_at"] = now + _wait(tries, outcome.after_seconds)
    return row


def _wait(tries: int, asked_seconds: int | None) -> timedelta:
    seconds = min(BACKOFF_SECONDS * 2 ** (tries - 1), BACKOFF_SECONDS_MAX)
    return timedelta(seconds=max(seconds, asked_seconds or 0))
