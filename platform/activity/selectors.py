"""Reads of the outbox for the layers above, and of what notifications came to."""

from __future__ import annotations

import uuid
from collections.abc import Collection

from django.db.models import OuterRef, Subquery

from activity.models import Delivery, Event, Subscription
from activity.notifications.kinds import DeliveryState

CHANGES_PER_READ = 5_000


def changed_subjects(kind: str, *, after: int) -> tuple[set[uuid.UUID], int]:
    """Ids of the `kind` subjects with events numbered after `after`, and the last number read; `after` itself if none."""
    rows = list(
        Event.objects.filter(seq__gt=after).order_by("seq").values_list("seq", "subject_kind", "subject_id")[:CHANGES_PER_READ]
    )
    return {subject_id for _, subject_kind, subject_id in rows if subject_kind == kind}, (rows[-1][0] or after) if rows else after


def last_failures(subscription_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, Delivery]:
    """The newest message of each subscription that is over, where it was given up; by subscription. One query."""
    over = Delivery.objects.filter(user_id=OuterRef("user_id"), subscription_id=OuterRef("id")).exclude(
        state=DeliveryState.PENDING
    )
    newest = Subscription.objects.filter(id__in=subscription_ids).values(newest=Subquery(over.order_by("-id").values("id")[:1]))
    failed = Delivery.objects.filter(id__in=newest, state=DeliveryState.FAILED)
    return {delivery.subscription_id: delivery for delivery in failed.only("id", "subscription_id", "created_at", "last_error")}
