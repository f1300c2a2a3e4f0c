"""What of capacity stands against the removal of a cluster, and what goes with its pools."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from clusters.services import Obstacle
from kernel.words import Text, counted
from tenants.capacity.lifecycle import BookingState
from tenants.capacity.models import Booking, QueueLimit, QueueUsage

NAMED_MAX = 3  # Queues that the refusal names.


def obstacles(cluster_id: uuid.UUID, pool_ids: Sequence[uuid.UUID]) -> list[Obstacle]:
    """Guarantees and bookings in these pools: promises that nobody could keep any more. Three queries."""
    found = []
    promised = QueueLimit.objects.filter(pool_id__in=pool_ids, guarantee__gt=0)
    queues = sorted(set(promised.values_list("queue__name", flat=True)))
    if queues:
        names = ", ".join(queues[:NAMED_MAX]) + (", ..." if len(queues) > NAMED_MAX else "")
        text = Text(f"Its pools are guaranteed to queues ({names}).", f"其资源池已保障给队列（{names}）。")
        hint = Text(
            "Give the guarantees up first: `berth queues edit QUEUE --pool POOL --guarantee gpu=0`.",
            "请先放弃保障：`berth queues edit QUEUE --pool POOL --guarantee gpu=0`。",
        )
        found.append(Obstacle("guarantees", text, hint))
    booked = Booking.objects.filter(pool_id__in=pool_ids, state=BookingState.HELD).count()
    if booked:
        text = Text(
            f"{counted(booked, 'booking holds', 'bookings hold')} GPUs of its pools.", f"有 {booked} 个预订占用其资源池的 GPU。"
        )
        hint = Text(
            "Cancel them first: `berth reserve list`, `berth reserve cancel`.",
            "请先取消：`berth reserve list`、`berth reserve cancel`。",
        )
        found.append(Obstacle("bookings", text, hint))
    return found


def clean(pool_ids: Sequence[uuid.UUID]) -> None:
    """Limits and sums of use of pools that are gone. What was used, and what limits were, stays on record."""
    QueueLimit.objects.filter(pool_id__in=pool_ids).delete()
    QueueUsage.objects.filter(pool_id__in=pool_ids).delete()
